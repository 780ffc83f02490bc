"""The image, built and run by a real engine as platforms run it: no root, no capability, two folders to write in.

container `db upgrade` ─► api, scheduler, executor ─► a job with a process of its own ─► SIGTERM while it runs
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx2

from tests.chaos.proxy import Proxy
from tests.chaos.server import Server
from tests.deploy.engine import Docker, base, engine
from tests.deploy.files import DEPLOY, ROOT
from tests.integration.processes.fleet import KEY, api_client
from tests.support.waiting import eventually
from tickwise import __version__

IMAGE: Final = "localhost/tickwise:check"
MAX_MEGABYTES: Final = 250
"""What the image may add to its base."""
BUILD_SECONDS: Final = 900.0
LOCKED: Final = (
    "--read-only", "--tmpfs", "/tmp:size=64m,mode=1777", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges", "--network", "host", "--pids-limit", "256", "--memory", "512m",
)  # fmt: skip
LASTS_SECONDS: Final = 3
IMPORTS: Final = """
import contextlib, glob, importlib, sysconfig
import aiobotocore.session, aiodocker, apprise, holidays, icalendar, kubernetes_asyncio.client, redis
root = sysconfig.get_path("purelib")
for file in glob.glob(f"{root}/**/*.so", recursive=True):
    with contextlib.suppress(ModuleNotFoundError):  # of numpy, which the parts of others take if it is there
        importlib.import_module(file.removeprefix(root + "/").partition(".")[0].replace("/", "."))
"""
"""Ends with 0 where the extras are there, and each compiled module can be loaded: a broken one is an `ImportError`."""
LOOKS: Final = """
import os, sys
sys.exit(os.getuid() == 0 or any(os.access(place, os.W_OK) for place in ("/", "/etc", "/opt/tickwise")))
"""
"""Ends with 0 where nothing can be written that must not be."""


class Containers:
    """Those of one check, on one database; all are gone afterwards."""

    def __init__(self, docker: Docker, configuration: Path) -> None:
        self._docker = docker
        self._mark = f"tickwise-check-{uuid.uuid4().hex[:8]}"
        self._configuration = configuration
        docker("volume", "create", self._mark)

    def options(self) -> list[str]:
        """Of every container of it."""
        mounts = [f"{self._configuration}:/etc/tickwise:ro", f"{self._mark}:/data/blobs"]
        words = [word for mount in mounts for word in ("--volume", mount)]
        return [*LOCKED, *words, "--env", "TICKWISE_CONFIG_LOCATION=/etc/tickwise", "--label", self._mark]

    def once(self, *words: str, entry: str | None = None) -> str:
        """Run to the end; what it says."""
        entrypoint = ["--entrypoint", entry] if entry else []
        return self._docker("run", "--rm", *self.options(), *entrypoint, IMAGE, *words)

    def start(self, name: str, *words: str) -> str:
        """One that stays; its name."""
        full = f"{self._mark}-{name}"
        self._docker("run", "--detach", "--name", full, "--init", *self.options(), IMAGE, *words)
        return full

    def events(self, name: str, event: str) -> list[dict[str, Any]]:
        """Its log lines of this event. Raises AssertionError if it has ended with none."""
        text = self._docker("logs", name)
        entries = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
        matching = [entry for entry in entries if entry.get("event") == event]
        if not matching and self.state(name)["Status"] == "exited":
            raise AssertionError(f"{name} has ended:\n{text[-3_000:]}")
        return matching

    def state(self, name: str) -> dict[str, Any]:
        """What the engine says of it."""
        state: dict[str, Any] = json.loads(self._docker("inspect", "--format", "{{json .State}}", name))
        return state

    def end(self, name: str) -> int:
        """SIGTERM, as every platform begins; its exit status."""
        self._docker("stop", "--time", "60", name)
        return int(self.state(name)["ExitCode"])

    def remove(self) -> None:
        """All of them, whatever state they are in."""
        for container in self._docker("ps", "--all", "--quiet", "--filter", f"label={self._mark}").split():
            self._docker("rm", "--force", "--volumes", container)
        self._docker("volume", "rm", "--force", self._mark)


async def check() -> str:
    """Build it, run it, and say what was seen."""
    async with engine() as docker:
        grown = await asyncio.to_thread(_build, docker)
        async with _database() as url:
            with TemporaryDirectory(prefix="tickwise-image-") as name:
                folder = Path(name)
                folder.chmod(0o755)
                # As an operator does it: what is open in one file, what is secret in the other.
                (folder / "service.toml").write_text('host = "127.0.0.1"\nport = 0\ndrain_seconds = 30\n')
                (folder / "secrets.toml").write_text(f'database_url = "{url}"\nbootstrap_key = "{KEY}"\n')
                containers = Containers(docker, folder)
                try:
                    await _play(containers)
                finally:
                    await asyncio.to_thread(containers.remove)
    return f"{grown} MB on top of its base; a job ran, and the executor that was told to end let it"


def _build(docker: Docker) -> int:
    """How many megabytes it adds."""
    below = base(docker)
    docker(
        "build", "--network", "host", "--build-arg", f"BASE={below}", "--build-arg", f"VERSION={__version__}",
        "--file", DEPLOY / "Dockerfile", "--tag", IMAGE, ROOT,
        seconds=BUILD_SECONDS,
    )  # fmt: skip
    sizes = [int(docker("image", "inspect", "--format", "{{.Size}}", image)) for image in (IMAGE, below)]
    grown = (sizes[0] - sizes[1]) // 1_000_000
    assert grown <= MAX_MEGABYTES, f"the image adds {grown} MB to its base, and may add {MAX_MEGABYTES}"
    facts = json.loads(docker("image", "inspect", "--format", "{{json .Config}}", IMAGE))
    assert facts["User"] == "10001:10001", facts["User"]
    assert facts["Entrypoint"] == ["tickwise"], facts["Entrypoint"]
    assert facts["Labels"]["org.opencontainers.image.version"] == __version__, facts["Labels"]
    return grown


@contextlib.asynccontextmanager
async def _database() -> AsyncIterator[str]:
    """Empty, at a port that containers on this machine's network reach."""
    server = Server()
    try:
        await server.start()
        proxy = Proxy(server.url)
        url = await proxy.start()
        try:
            yield url
        finally:
            await proxy.stop()
    finally:
        await server.stop()


async def _play(containers: Containers) -> None:
    def call(function: Any, *arguments: Any, **named: Any) -> Any:
        return asyncio.to_thread(partial(function, *arguments, **named))

    assert __version__ in await call(containers.once, "version")
    await call(containers.once, "-c", LOOKS, entry="python")
    await call(containers.once, "-c", IMPORTS, entry="python")
    await call(containers.once, "db", "upgrade")
    names = {role: await call(containers.start, role, role) for role in ("api", "scheduler", "executor")}
    up = {
        role: (await eventually(partial(call, containers.events, name, "up"), what=f"{role} is up"))[0]
        for role, name in names.items()
    }
    async with api_client(up["api"]["url"]) as client:
        assert "SUCCESS" == await _ended(client, await _submit(client, "echo from a container; id -u"))
        # A child that outlives its parent and ends later: whoever is the first process must reap it.
        lasting = await _submit(client, f"(sleep 1 &) ; sleep {LASTS_SECONDS}")
        await eventually(partial(_has_status, client, lasting, "RUNNING"), what="the second job runs")
        statuses = {role: await call(containers.end, name) for role, name in names.items() if role != "api"}
        assert statuses == {"scheduler": 0, "executor": 0}, statuses
        assert "SUCCESS" == await _ended(client, lasting), "an executor that was told to end did not let its job end"
    assert await call(containers.end, names["api"]) == 0


async def _submit(client: httpx2.AsyncClient, command: str) -> str:
    task = {"kind": "shell", "command": command}
    body = {"name": "from a container", "schedule_type": "IMMEDIATE", "task": task}
    answer = await client.post("/jobs", json=body)
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def _run(client: httpx2.AsyncClient, job_id: str) -> dict[str, Any] | None:
    """The one run of a job, once it is there."""
    found: list[dict[str, Any]] = (await client.get(f"/jobs/{job_id}/runs")).json()
    return found[0] if found else None


async def _has_status(client: httpx2.AsyncClient, job_id: str, status: str) -> bool:
    run = await _run(client, job_id)
    return run is not None and run["status"] == status


async def _ended(client: httpx2.AsyncClient, job_id: str) -> str:
    """How the run of this job ended, in its first attempt."""

    async def look() -> str | None:
        run = await _run(client, job_id)
        return None if run is None or run["status"] in ("QUEUED", "DISPATCHED", "RUNNING") else run["status"]

    return await eventually(look, within_seconds=90, what="the job ends")
