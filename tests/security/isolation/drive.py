"""Sends attacks as jobs of a real `tickwise up`, and prints what came of each as JSON, on the last line.

    unshare --net --mount -- python -m tests.security.isolation.drive --user root --level process --level sandbox

The caller (`report`) starts it so, as root. `--user ordinary` starts `up` as the user `nobody`, whose tasks are
`nobody` too. `--shown` has root do what the attacks do, without a scheduler: each gets what it wants there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
import psutil

from tests.security.isolation.attacks import Act, Attack
from tests.security.isolation.catalogue import ALL
from tests.security.isolation.surroundings import (
    LOOPBACK,
    METADATA,
    PUBLIC,
    PUBLIC_6,
    RESOLVER,
    SERVICE_PORT,
    Yard,
    surroundings,
)
from tests.security.isolation.toolkit import Host
from tests.support.local_up import ROOT, environment
from tickwise.adapters.runner.process.task_places import environment_of, python_for
from tickwise.adapters.runner.process.task_users import TaskUser, UserArguments
from tickwise.domain.rules.confinement import Isolation

NOBODY: Final = TaskUser(65_534, 65_534, (), None, "nobody")
READY_SECONDS: Final = 60
ENDED_SECONDS: Final = 90
LOOK_SECONDS: Final = 0.1
TERMINAL: Final = ("SUCCESS", "FAILED", "CANCELLED", "SKIPPED")
OWN_MOUNTS: Final = ("unshare", "--mount", "--propagation", "private", "--")
"""For what root shows: its mounts end with it."""
NEIGHBOUR: Final = """
import json, os, sys, threading
with open("secret", "w") as file:
    file.write("secret of a task")
with open({place!r} + ".new", "w") as file:
    json.dump([os.getpid(), os.getcwd()], file)
os.rename({place!r} + ".new", {place!r})
threading.Event().wait(900)
"""


class Outcome(NamedTuple):
    """What came of one attack."""

    reached: bool | None
    """None: it was not carried out, because something else failed."""
    said: str


class Installation(NamedTuple):
    """A running `up`, and the key that it began with."""

    pid: int
    url: str
    key: str
    data_dir: Path
    config_file: Path
    secret: str
    database_url: str

    def client(self, key: str | None = None) -> httpx2.Client:
        """Of its API."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx2.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


@contextlib.contextmanager
def installation(user: str, *, has_database: bool) -> Iterator[Installation]:
    """`tickwise up`, of root or of `nobody`, with the embedded database or with the store in memory."""
    is_root = user == "root"
    folder = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    folder.chmod(0o755)
    data_dir, config = folder / "data", folder / "config"
    key, secret = secrets.token_hex(24), secrets.token_hex(12)
    for folder_of_its_own in (data_dir, config):
        folder_of_its_own.mkdir(mode=0o700)
    (config / "secrets.toml").write_text(f'bootstrap_key = "{key}"\n')
    (config / "secrets.toml").chmod(0o600)
    told = environment(
        TICKWISE_CONFIG_LOCATION=str(config),
        TICKWISE_KILL_GRACE_SECONDS="1",
        TICKWISE_ISOLATION="auto",
        PROBE_SECRET=secret,
    )
    program, python = str(sys.executable), None
    options = [] if has_database else ["--database", "memory://"]
    arguments: UserArguments = {}
    if not is_root:
        for place in (data_dir, config, config / "secrets.toml"):
            os.chown(place, NOBODY.uid, NOBODY.gid)
        python = python_for(NOBODY)
        program, arguments = str(python.program), NOBODY.arguments()
        told |= {"HOME": str(data_dir), **environment_of(python)}
    command = [program, "-m", "tickwise", "up", "--data-dir", str(data_dir), "--port", "0", *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**told, "PYTHONPATH": str(ROOT / "src")}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd="/", start_new_session=True, **arguments,
        )  # fmt: skip
    try:
        found = _ready(process, data_dir, folder / "log")
        yield Installation(
            process.pid, found["url"], key, data_dir, config / "secrets.toml", secret, found.get("database_url") or ""
        )
    finally:
        process.terminate()
        process.wait(60)
        if python is not None:
            python.release()
        _clear(data_dir)
        shutil.rmtree(folder)


def _clear(data_dir: Path) -> None:
    """The homes of users stay, but not those of tests."""
    for owner in Path("/var/lib/tickwise/tasks").glob("*/OWNER"):
        if Path(owner.read_text().strip()).is_relative_to(data_dir):
            shutil.rmtree(owner.parent, ignore_errors=True)


def _ready(process: subprocess.Popen[bytes], data_dir: Path, log: Path) -> Any:
    for _ in range(int(READY_SECONDS / LOOK_SECONDS)):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((data_dir / "client.json").read_text())
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{found['url']}/readyz").status_code == 200:
                    return found
        _wait(LOOK_SECONDS)
    raise AssertionError(f"`up` was not ready:\n{log.read_text(errors='replace')[-3_000:]}")


# ------------------------------------------------------------------------------------------ jobs


class Jobs:
    """The jobs of one namespace."""

    def __init__(self, client: httpx2.Client, host: Host) -> None:
        self._client = client
        self.host = host

    def begin(self, source: str, level: Isolation, more: Mapping[str, Any], env: Mapping[str, str]) -> str:
        """The id of the job."""
        body = {
            "name": "attack", "schedule_type": "IMMEDIATE", "max_retries": 0, "timeout_seconds": 60,
            "isolation": level, "task": {"kind": "python", "source": source, "env": dict(env)}, **more,
        }  # fmt: skip
        answer = self._client.post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def ended(self, job_id: str) -> Any:
        """Its run, once it has ended."""
        runs: list[Any] = []
        for _ in range(int(ENDED_SECONDS / LOOK_SECONDS)):
            runs = self._client.get(f"/jobs/{job_id}/runs").json()
            if runs and runs[0]["status"] in TERMINAL:
                return self._client.get(f"/runs/{runs[0]['run_id']}").json()
            _wait(LOOK_SECONDS)
        raise AssertionError(f"it did not end: {runs}")

    def log(self, run_id: str) -> bytes:
        """Its output."""
        return self._client.get(f"/runs/{run_id}/logs").content

    def artefacts(self, run_id: str) -> dict[str, bytes]:
        """The contents of the files that were kept."""
        found = self._client.get(f"/runs/{run_id}/artefacts").json()
        return {each["name"]: self._client.get(each["url"].removeprefix("/api/v1")).content for each in found}


class AfterEnd:
    """What a check after the end looks at."""

    def __init__(self, jobs: Jobs, host: Host, run: Mapping[str, Any]) -> None:
        self._jobs = jobs
        self.host = host
        self.run = run

    def artefacts(self) -> Mapping[str, bytes]:
        """The contents of the files that were kept, by name."""
        return self._jobs.artefacts(self.run["run_id"])

    def output(self) -> bytes:
        """The log of the run."""
        return self._jobs.log(self.run["run_id"])

    def processes(self) -> list[str]:
        """The processes of the machine whose arguments have the token."""
        return [f"process {each.pid}" for each in _with_token(self.host.token)]


def _with_token(token: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[:1] == [token]:
                found.append(process)
    return found


class Begun(NamedTuple):
    """An attack that is under way."""

    attack: Attack
    host: Host
    job_id: str


def attack_all(jobs: Jobs, attacks: Sequence[Attack], level: Isolation) -> dict[str, Outcome]:
    """What came of each of these at this level."""
    begun = [_begin(jobs, each, level, each.act, jobs.host) for each in attacks]
    found = {}
    for each in begun:
        try:
            found[each.attack.name] = _end(jobs, each, level)
        except AssertionError as failure:
            found[each.attack.name] = Outcome(None, str(failure))
        for process in _with_token(each.host.token):
            with contextlib.suppress(psutil.Error):
                process.kill()
    return found


def _begin(jobs: Jobs, attack: Attack, level: Isolation, act: Act, host: Host) -> Begun:
    if act is attack.act:
        host = host._replace(token=f"probe-{secrets.token_hex(6)}")
    env = {} if attack.tells else {"PROBE_TELLS": "no"}
    return Begun(attack, host, jobs.begin(attack.script(act, host), level, attack.job, env))


def _end(jobs: Jobs, begun: Begun, level: Isolation) -> Outcome:
    attack, host = begun.attack, begun.host
    run = jobs.ended(begun.job_id)
    if run["status"] != "SUCCESS":
        if run.get("reason") in attack.ends:
            return Outcome(False, f"the run ended: {run['reason']}")
        log = jobs.log(run["run_id"]).decode(errors="replace")[-1_500:]
        return Outcome(None, f"{run['status']} {run.get('reason')} {run.get('error_message')}\n{log}")
    if attack.then is not None:
        second = jobs.ended(_begin(jobs, attack, level, attack.then, host).job_id)
        return _told(second["result"], str(second))
    if attack.after is not None:
        got = attack.after(AfterEnd(jobs, host, run))
        return Outcome(bool(got), repr(got)[:300] if got else "it got nothing")
    return _told(run["result"], "it handed in no result")


def _told(result: Mapping[str, Any] | None, otherwise: str) -> Outcome:
    return Outcome(None, otherwise) if result is None else Outcome(result["reached"], result["said"])


# ------------------------------------------------------------------------------------------ others


def _neighbour(client: httpx2.Client, yard: Yard, name: str) -> tuple[int, str]:
    """A task that goes on: its number and its work folder."""
    place = yard.folder / f"{name}.json"
    source = NEIGHBOUR.format(place=str(place))
    task = {"kind": "python", "source": source, "env": {"NEIGHBOUR": "secret-of-a-neighbour"}}
    body = {
        "name": name, "schedule_type": "IMMEDIATE", "max_retries": 0, "timeout_seconds": 900,
        "isolation": Isolation.PROCESS, "task": task,
    }  # fmt: skip
    answer = client.post("/jobs", json=body)
    assert answer.status_code == 201, answer.text
    for _ in range(int(ENDED_SECONDS / LOOK_SECONDS)):
        if place.exists():
            pid, folder = json.loads(place.read_text())
            return pid, folder
        _wait(LOOK_SECONDS)
    raise AssertionError(f"{name} did not begin")


def _key_of(client: httpx2.Client, namespace: str) -> str:
    assert client.post("/namespaces", json={"name": namespace}).status_code == 201
    body = {"name": namespace, "role": "developer", "namespaces": [namespace]}
    answer = client.post("/keys", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["key"])


def _host(made: Installation, yard: Yard) -> Host:
    with made.client() as client:
        key = _key_of(client, "stranger")
        neighbour_pid, neighbour_folder = _neighbour(client, yard, "neighbour")
    with made.client(key) as client:
        stranger_pid, stranger_folder = _neighbour(client, yard, "stranger")
    cluster = made.data_dir / "postgres"
    if (cluster / "LOCATION").exists():
        cluster = Path((cluster / "LOCATION").read_text().strip())
    sockets = parse_qs(urlsplit(made.database_url).query).get("host", [""])[0]
    return Host(
        token="", secret_backwards=made.secret[::-1], executor_pid=made.pid, data_dir=str(made.data_dir),
        config_file=str(made.config_file), password_file=str(cluster / "secret" / "password"),
        database_socket=f"{sockets}/.s.PGSQL.5432", canary=yard.canary, public_file=str(yard.public_file),
        public_folder=str(yard.folder), public_socket=str(yard.public_socket), abstract_socket=yard.abstract_socket,
        service_port=SERVICE_PORT, loopback=LOOPBACK, metadata=METADATA, public_address=PUBLIC,
        public_address_6=PUBLIC_6, resolver=RESOLVER, neighbour_pid=neighbour_pid, neighbour_folder=neighbour_folder,
        stranger_pid=stranger_pid, stranger_folder=stranger_folder,
    )  # fmt: skip


def shown(attacks: Sequence[Attack], host: Host) -> dict[str, Outcome]:
    """What root gets by the same scripts, in the namespaces of this process."""
    found = {}
    for attack in attacks:
        with tempfile.TemporaryDirectory(dir=host.public_folder) as folder:
            script, result = Path(folder) / "script.py", Path(folder) / "result.json"
            script.write_text(attack.script(attack.act, host._replace(token=f"probe-{secrets.token_hex(6)}")))
            done = subprocess.run(
                [*OWN_MOUNTS, sys.executable, str(script)],
                env={**os.environ, "TICKWISE_RESULT_FILE": str(result)},
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=ENDED_SECONDS,
            )
            told = json.loads(result.read_text()) if result.exists() else None
            found[attack.name] = _told(told, done.stderr[-500:])
    return found


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", choices=("root", "ordinary"), required=True)
    parser.add_argument("--level", choices=[*Isolation], type=Isolation, action="append", default=[])
    parser.add_argument("--name", action="append", default=[])
    parser.add_argument("--shown", action="store_true")
    parser.add_argument("--without-database", action="store_true", help="what needs the embedded one is not tried")
    asked = parser.parse_args(words)
    chosen = [each for each in ALL if not asked.name or each.name in asked.name]
    told: dict[str, Any] = {}
    has_database = asked.user == "root" and not asked.without_database
    with surroundings() as yard, installation(asked.user, has_database=has_database) as made:
        host = _host(made, yard)
        with made.client() as client:
            offered = {level for each in client.get("/executors").json() for level in each["isolation"]}
            told["levels"] = [level for level in Isolation if level in offered]
            for level in asked.level:
                if level in told["levels"]:
                    at = [each for each in chosen if (level, asked.user) in each.expected]
                    told[level] = attack_all(Jobs(client, host), at, level)
        if asked.shown:
            told["shown"] = shown([each for each in chosen if each.is_shown], host)
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
