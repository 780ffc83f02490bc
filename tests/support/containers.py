"""Runners of containers for tests, and a look at an engine past any client library."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from tests.support.runners import OWN_USER, PATIENCE_SECONDS
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container.router import IsolationRouter
from tickwise.adapters.runner.containers import ContainerPolicy
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.blobs import Blobs
from tickwise.ports.runner import Assignment, Ending
from tickwise.testing.contracts.runner import RunnerBlobs, RunnerStage, Task, log_of

BUSY: Final = "localhost/busy:1"
PYTHON: Final = "localhost/python:1"
INSTALLATION: Final = "tests"
READY: Final = "ready"


class EngineLook:
    """Asks an engine by its socket. Blocks."""

    def __init__(self, url: str) -> None:
        self._socket = url.removeprefix("unix://")

    def ask(self, method: str, path: str, body: str = "") -> tuple[int, bytes]:
        """Status and body of its answer. Raises OSError."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.connect(self._socket)
            head = f"{method} {path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            answer = bytearray()
            while piece := connection.recv(65_536):
                answer += piece
        said, _, content = bytes(answer).partition(b"\r\n\r\n")
        return int(said.split()[1]), content

    def container(self, run_id: UUID) -> Any:
        """The container of a run as the engine shows it; None: there is none."""
        filters = quote(json.dumps({"name": [str(run_id)]}))
        listed = json.loads(self.ask("GET", f"/containers/json?all=1&filters={filters}")[1])
        if not listed:
            return None
        status, body = self.ask("GET", f"/containers/{listed[-1]['Id']}/json")
        return json.loads(body) if status == 200 else None

    def lives(self, run_id: UUID) -> bool:
        """Check whether the task of a run runs, and has said `ready`."""
        try:
            found = self.container(run_id)
            if found is None or not found["State"]["Running"]:
                return False
            return READY.encode() in self.ask("GET", f"/containers/{found['Id']}/logs?stdout=1")[1]
        except OSError:
            return False  # the engine is down

    def all(self, installation: str = INSTALLATION) -> list[Any]:
        """All containers of an installation."""
        filters = quote(json.dumps({"label": [f"tickwise.installation={installation}"]}))
        listed: list[Any] = json.loads(self.ask("GET", f"/containers/json?all=1&filters={filters}")[1])
        return listed

    def running(self) -> tuple[str, ...]:
        """The running containers of all installations but that of other tests, each by its number."""
        filters = quote(json.dumps({"label": ["tickwise.run"]}))
        listed = json.loads(self.ask("GET", f"/containers/json?filters={filters}")[1])
        return tuple(each["Id"] for each in listed if each["Labels"]["tickwise.installation"] != INSTALLATION)

    def volumes(self) -> int:
        """The number of volumes that it has."""
        return len(json.loads(self.ask("GET", "/volumes")[1])["Volumes"] or ())


def policy(url: str, **changes: Any) -> ContainerPolicy:
    """That of most tests: images of this machine, and the host's network for tasks that ask for one."""
    said = {"engine": url, "installation": INSTALLATION, "images": ("localhost/*",), "network": "host", **changes}
    return ContainerPolicy(**said)


def container_settings(folder: Path, blobs: Blobs, containers: ContainerPolicy, **changes: Any) -> RunnerSettings:
    """The settings of a runner with one place."""
    said: dict[str, Any] = {
        "blobs": blobs, "clock": SystemClock(), "work_root": folder / "work", "slots": 1, "kill_grace_seconds": 0.5,
        "run_tasks_as": OWN_USER, "containers": containers, **changes,
    }  # fmt: skip
    return RunnerSettings(**said)


class ScriptStage(RunnerStage):
    """Scripts in containers of `localhost/python:1`."""

    def assign(self, task: Task, **changes: Any) -> Assignment:
        confined = Confinement(Isolation.CONTAINER, container_image=PYTHON)
        return super().assign(task, **{"confinement": confined, **changes})


class ContainerBench:
    """A started runner, and one run after the other."""

    def __init__(self, stage: ScriptStage, blobs: RunnerBlobs, look: EngineLook) -> None:
        self.stage = stage
        self.blobs = blobs
        self.look = look

    async def run(self, task: Task, **changes: Any) -> tuple[Ending, str]:
        """The end of a run of this task, and its log."""
        [given] = self.stage.launch(task, **changes)
        ending = await self.stage.listener.ending_of(given)
        return ending, await log_of(self.blobs, given)

    async def busy(
        self, command: Any = None, /, *, changes: dict[str, Any] | None = None, **said: Any
    ) -> tuple[Ending, str]:
        """The attempt of a task of the kind container."""
        task = {"kind": "container", "image": BUSY, **({} if command is None else {"command": command}), **said}
        return await self.run(task, **(changes or {}))


@contextlib.asynccontextmanager
async def started_bench(
    folder: Path,
    blobs: RunnerBlobs,
    url: str,
    *,
    settings: Mapping[str, Any] = MappingProxyType({}),
    direct_url: str = "",
    **policies: Any,
) -> AsyncIterator[ContainerBench]:
    """A bench of four places on an engine that others use too. It leaves no container and no volume there.
    `direct_url`: the engine's own address, where `url` is that of a proxy in this event loop."""
    look = EngineLook(direct_url or url)
    nothing = {"kind": "shell", "argv": ["true"]}
    said = {"slots": 4, **settings}
    runner = IsolationRouter(container_settings(folder, blobs, policy(url, **policies), **said))
    stage = ScriptStage(runner=runner, quick=nothing, lasting=nothing, failing=nothing, lives=look.lives)
    await stage.runner.start(stage.listener, stage.store_clock.now)
    before = look.volumes()
    try:
        yield ContainerBench(stage, blobs, look)
    finally:
        await stage.runner.close()
    assert [] == look.all()
    assert before >= look.volumes()
