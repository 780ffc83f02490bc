"""Real role processes of the product on one database, each with a handle of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2

from tests.support.local_up import OWN_TASKS, ROOT, environment
from tests.support.process_groups import kill_group
from tests.support.roles import Forked, fork, may_fork
from tests.support.waiting import eventually

KEY = "tests-bootstrap-key-of-more-than-32-characters"
PATIENCE_SECONDS = 90.0
"""For what comes in a second, on a machine that may stand still for some of them, again and again."""


class Role:
    """One process: what it said, and what can be done to it."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked, log: Path) -> None:
        self.process = process
        self.log = log
        self._entries: list[dict[str, Any]] = []
        self._read_bytes = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    def events(self, name: str) -> list[dict[str, Any]]:
        """Its log lines of this event, oldest first. Each line is read once: tests ask a hundred times a second."""
        with self.log.open("rb") as log:
            log.seek(self._read_bytes)
            whole = log.read().rpartition(b"\n")[0]
        self._read_bytes += len(whole) + 1 if whole else 0
        lines = whole.decode(errors="replace").splitlines()
        self._entries += [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [entry for entry in self._entries if entry.get("event") == name]

    async def event(self, name: str, *, count: int = 1, within_seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Its `count`th log line of this event, once it is there."""

        def found() -> list[dict[str, Any]] | None:
            entries = self.events(name)
            if self.process.poll() is not None and len(entries) < count:
                raise AssertionError(f"{self.log.name} ended with {self.process.returncode}:\n{self.log.read_text()}")
            return entries if len(entries) >= count else None

        entries = await eventually(found, within_seconds=within_seconds, what=f"{name} of {self.log.name}")
        return entries[count - 1]

    async def ready(self) -> str | None:
        """Wait until it works; its address, if it has one."""
        url: str | None = (await self.event("up"))["url"]
        return url

    def kill(self) -> None:
        """As `kill -9` does, and the kernel when memory runs out: the process alone, without a farewell."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """To the process alone."""
        self.process.send_signal(number)

    async def ended(self, within_seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit status, once it has ended by itself."""
        await eventually(lambda: self.process.poll() is not None, within_seconds=within_seconds, what="it ends")
        return int(self.process.wait(0))


class Fleet:
    """Starts roles, and leaves nothing behind."""

    def __init__(self, database_url: str, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.roles: list[Role] = []
        self._environment = environment(
            TICKWISE_DATABASE_URL=database_url,
            TICKWISE_BLOBS_URL=(folder / "blobs").as_uri(),
            TICKWISE_BOOTSTRAP_KEY=KEY,
            TICKWISE_LOG_FORMAT="json",
            PYTHONPATH=str(ROOT),
            **{"TICKWISE_DATA_DIR": str(folder / "data"), **OWN_TASKS, **settings},
        )
        (folder / "blobs").mkdir(exist_ok=True)

    def tell(self, **settings: str) -> None:
        """What every role is told that is started from now on."""
        self._environment.update(settings)

    def untell(self, *names: str) -> None:
        """What no role is told that is started from now on."""
        for name in names:
            self._environment.pop(name, None)

    def start(self, *arguments: str, program: Sequence[str] = (), **settings: str) -> Role:
        """One role, with settings of its own; by another program than the product's if one is given."""
        log = self.folder / f"{len(self.roles):02d}-{arguments[0]}.log"
        # If we are killed, it ends as well: the kernel sees to it, where util-linux is there. The process is the same.
        bound = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
        environ = {**self._environment, **settings}
        process: subprocess.Popen[bytes] | Forked
        with log.open("wb") as output:
            if not program and may_fork(arguments, environ):
                process = fork(arguments, environ, output)
            else:
                process = subprocess.Popen(
                    [*bound, *(program or (sys.executable, "-m", "tickwise")), *arguments],
                    env=environ,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        role = Role(process, log)
        self.roles.append(role)
        return role

    def stop(self) -> None:
        """End all; in order first, by force after that."""
        for role in self.roles:
            with contextlib.suppress(ProcessLookupError):
                role.signal(signal.SIGCONT)
                role.signal(signal.SIGTERM)
        for role in self.roles:
            with contextlib.suppress(subprocess.TimeoutExpired):
                role.process.wait(20)
            kill_group(role.process)
            role.process.wait(PATIENCE_SECONDS)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """At its end all roles end; a failure has their logs."""
        try:
            yield
        except BaseException as failure:
            failure.add_note(self.logs())
            raise
        finally:
            self.stop()

    def logs(self, characters: int = 3_000) -> str:
        """The end of every role's log, for a failing test."""
        return "\n".join(
            f"== {role.log.name}\n{role.log.read_text(errors='replace')[-characters:]}" for role in self.roles
        )


def api_client(url: str = "http://unnamed.invalid", *, timeout: float = 20.0) -> httpx2.AsyncClient:
    """Requests below `/api/v1` of a role of the fleet, as its admin. It waits for `timeout` seconds for each answer."""
    # Without the certificates of the world, which take longer to load than a test has to wait.
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx2.AsyncClient(base_url=f"{url}/api/v1", headers=headers, timeout=timeout, verify=False, trust_env=False)
