"""`make test-compose`: the compose file, run for real from nothing to a job's end, through an upgrade, and away again.

images from packages ─► machine with an engine ─► secrets.sh, up ─► a job through nginx ─► doctor of each part
    ─► upgrade.sh to another image under load ─► nothing lost, nothing doubled, no request failed ─► down

`make test-compose STORE=cassandra` runs the same stack on Cassandra, and harms it (`compose_cassandra`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.deploy.engine import Docker, engine
from tests.deploy.files import DEPLOY, ROOT
from tests.deploy.tools import NotHere
from tests.deploy.whole import images
from tests.deploy.whole.machine import Machine, machine, python_in
from tests.support.waiting import eventually

PLACE: Final = "/srv/tickwise"
FOLDER: Final = f"{PLACE}/deploy/compose"
GATEWAY: Final = "http://127.0.0.1:8470"
PROMETHEUS: Final = "http://127.0.0.1:9090"
LEFT_OUT: Final = frozenset({"grafana"})
VOLUMES: Final = frozenset({"tickwise_postgres", "tickwise_blobs", "tickwise_kafka"})
RATE: Final = 5.0
"""Jobs a second while the stack is upgraded: more than one for each container that ends."""
UP_SECONDS: Final = 600.0
"""22 containers start in 60 to 120 s on a machine of their own."""
UPGRADE_SECONDS: Final = 600.0
ENGINE: Final = """
mount -o remount,rw /sys
for place in /sys/fs/cgroup /sys/fs/cgroup/*; do mount -o remount,bind,rw "$place"; done
exec dockerd --host=unix:///var/run/docker.sock --ip6tables=false --exec-opt=native.cgroupdriver=cgroupfs
"""
"""A container sees its control groups read-only; an engine in it makes some of its own."""
SANDBOX_LOOK: Final = "id -u; ls /etc/tickwise 2>&1; grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"


class Stack:
    """The stack on one machine."""

    def __init__(self, here: Machine, variables: Mapping[str, str], key: str, files: Sequence[str]) -> None:
        """`files`: names in `deploy/compose`."""
        self.here, self.key, self.files = here, key, files
        self.variables = dict(variables)
        self.services = [name for name in self.compose("config", "--services").split() if name not in LEFT_OUT]

    def compose(self, *words: str, seconds: float = 120) -> str:
        """What a command of Compose says."""
        files = [word for name in self.files for word in ("--file", f"{FOLDER}/{name}")]
        return self.here("docker-compose", *files, *words, environment=self.variables, seconds=seconds)

    def ask(self, url: str) -> Any:
        """The JSON of an answer, asked in the network of the machine with the admin key."""
        look = "import os, sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], headers="
        look += "{'Authorization': 'Bearer ' + os.environ['TICKWISE_API_KEY']}), timeout=20).read().decode())"
        return json.loads(self._python("-c", look, url))

    def tickwise(self, *words: str, seconds: float = 120) -> str:
        """What the command line says, through the gateway."""
        return self._python("-m", "tickwise", *words, seconds=seconds)

    def _python(self, *words: str, seconds: float = 60) -> str:
        told = {"TICKWISE_API_KEY": self.key, "TICKWISE_URL": GATEWAY}
        return python_in(self.here, sys.executable, *words, environment=told, seconds=seconds)

    def containers(self) -> list[dict[str, Any]]:
        """All that there are, as the engine describes them."""
        numbers = self.compose("ps", "--all", "--quiet").split()
        found: list[dict[str, Any]] = json.loads(self.here("docker", "inspect", *numbers)) if numbers else []
        return found


@contextlib.asynccontextmanager
async def whole(servers: Sequence[str], files: Sequence[str], given: Mapping[str, str]) -> AsyncIterator[Stack]:
    """The stack of these files on a machine with an engine, its images loaded and its secrets made. `given`: variables
    of the scripts and the files. Raises `NotHere`."""
    async with engine() as docker:
        built = await asyncio.to_thread(_images, docker, servers)
        say(f"good  images: {len(built) + len(servers)} built from packages")
        with tempfile.TemporaryDirectory(prefix="tickwise-compose-") as name:
            shutil.copytree(DEPLOY, Path(name) / "deploy", ignore=shutil.ignore_patterns("secrets"))
            options = ["--volume", f"{name}:{PLACE}"]
            with machine(docker, images.image_of("engine"), "sh", "-c", ENGINE, options=options) as here:
                await eventually(partial(_answers, here), what="the engine of the machine answers")
                names = {each: images.image_of(each) for each in servers}
                await asyncio.to_thread(here.load, [*names.values(), built["tickwise"], built["next"]])
                here("sh", f"{FOLDER}/secrets.sh", environment=given)
                key = (Path(name) / "deploy/compose/secrets/admin_key").read_text()
                named = images.variables({**names, "tickwise": built["tickwise"]})
                yield Stack(here, {**given, **named}, key, files)


async def main() -> None:
    """All of it. Raises AssertionError with what went wrong, or `NotHere`."""
    async with whole(images.SERVERS, ["compose.yaml"], {}) as stack:
        for step in (up, job, sandbox, partial(watched, least=13), upgrade, partial(down, volumes=VOLUMES)):
            say(f"good  {await step(stack)}")


def say(line: str) -> None:
    """A line of the report, at once."""
    print(line, flush=True)


def _images(docker: Docker, servers: Sequence[str]) -> dict[str, str]:
    for name in ("engine", *servers):
        images.made(docker, name)
    return {tag: images.tickwise(docker, tag, label=tag) for tag in ("tickwise", "next")}


def _answers(here: Machine) -> bool:
    try:
        here("docker", "info")
    except AssertionError:
        return False
    return True


async def up(stack: Stack) -> str:
    """Everything starts, and nothing has to be started again."""
    command = ("up", "--detach", "--wait", *lasting(stack))
    was_ill: list[str] = []
    try:
        await asyncio.to_thread(stack.compose, *command, seconds=UP_SECONDS)
    except AssertionError:
        # Compose gives up when one look of a health check takes too long, as on a busy machine. It is told below.
        was_ill = _ill(stack)
        await _again(stack, command)
    found = stack.containers()
    wrong = [
        f"{each['Name']}: {each['State']['Status']}, {each['State'].get('Health', {}).get('Status')}"
        for each in found
        if (each["State"]["ExitCode"] or each["State"].get("Health", {}).get("Status", "healthy") != "healthy")
    ]
    assert not wrong, wrong
    again = [each["Name"] for each in found if each["RestartCount"]]
    assert not again, f"had to be started again: {again}"
    health = stack.ask(f"{GATEWAY}/healthz")
    assert health["status"] == "ok", health
    slow = f"; health checks that came late: {was_ill}" if was_ill else ""
    return f"up: {len(found)} containers, none started twice{slow}; /healthz is ok in {len(health['parts'])} parts"


def _ill(stack: Stack) -> list[str]:
    """The containers whose health check failed last."""
    return [each["Name"] for each in stack.containers() if each["State"].get("Health", {}).get("Status") == "unhealthy"]


async def _again(stack: Stack, command: Sequence[str]) -> None:
    """The second and last time. A failure has the last lines of what is ill."""
    try:
        await asyncio.to_thread(stack.compose, *command, seconds=UP_SECONDS)
    except AssertionError as failure:
        logs = [stack.here("docker", "logs", "--tail", "15", name) for name in _ill(stack)]
        raise AssertionError("\n".join([str(failure)[-500:], *logs])) from failure


def lasting(stack: Stack) -> list[str]:
    """The services that stay. Compose waits for the others by itself, and takes their end for a fault if they are
    named."""
    return [name for name in stack.services if name not in ("migrations", "channels", "database_roles")]


async def job(stack: Stack) -> str:
    """As docs/how-to/deploy.md says it."""
    answer = await asyncio.to_thread(stack.tickwise, "run", "--shell", "echo hello", "--now", "--follow")
    assert "hello\n" in answer, answer
    assert "SUCCESS" in answer, answer
    return "a job: submitted, run and followed through nginx, by the command of the how-to"


async def sandbox(stack: Stack) -> str:
    """In the built image, under the options of the compose file."""
    words = ("run", "--shell", SANDBOX_LOOK, "--isolation", "sandbox", "--now", "--follow")
    answer = await asyncio.to_thread(stack.tickwise, *words)
    for line in ("No such file or directory", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in answer, (line, answer)
    return "a sandbox: no secrets of the executor, no capability, no new privileges, a filter of calls"


async def watched(stack: Stack, *, least: int) -> str:
    """Prometheus reaches every process, and misses none. `least`: their number."""

    def up() -> list[str] | None:
        targets = stack.ask(f"{PROMETHEUS}/api/v1/targets?state=active")["data"]["activeTargets"]
        bad = [f"{each['labels']['role']}: {each['lastError']}" for each in targets if each["health"] == "down"]
        assert not bad, bad
        roles = [each["labels"]["role"] for each in targets if each["health"] == "up"]
        return roles if len(roles) >= least else None

    roles = await eventually(up, within_seconds=60, what="Prometheus has asked every process")
    alerts = stack.ask(f"{PROMETHEUS}/api/v1/alerts")["data"]["alerts"]
    names = {each["labels"]["alertname"] for each in alerts}
    # A busy machine may have a slow store, and says so; nothing of the stack may be missing.
    assert "TickwiseGone" not in names, alerts
    return f"Prometheus: {len(roles)} processes of {len(set(roles))} roles; alarms that wait: {sorted(names)}"


@contextlib.contextmanager
def loaded(stack: Stack) -> Iterator[subprocess.Popen[str]]:
    """A load on the stack; its report is what it says once its standard input ends."""
    load = subprocess.Popen(
        [*stack.here.within(), sys.executable, "-m", "tests.deploy.whole.load", GATEWAY, f"{RATE}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "TICKWISE_API_KEY": stack.key},
    )  # fmt: skip
    try:
        yield load
    finally:
        load.kill()
        load.wait()


async def reported(load: subprocess.Popen[str]) -> dict[str, Any]:
    """End the load, and take its report."""
    answer, _ = await asyncio.to_thread(load.communicate, timeout=300)
    report: dict[str, Any] = json.loads(answer)
    return report


async def upgrade(stack: Stack) -> str:
    """Old and new side by side; under load nothing is lost, nothing is doubled, no request fails."""
    image = "localhost/tickwise:next"
    old = {each["Id"] for each in stack.containers()}
    with loaded(stack) as load:
        command = ("sh", f"{FOLDER}/upgrade.sh", image)
        await asyncio.to_thread(stack.here, *command, environment=stack.variables, seconds=UPGRADE_SECONDS)
        stack.variables["IMAGE_TICKWISE"] = image
        report = await reported(load)
    assert [[], [], []] == [report["failed"], report["lost"], report["doubled"]], report
    ours = [each for each in stack.containers() if each["State"]["Running"] and each["Id"] not in old]
    wrong = [each["Name"] for each in ours if each["Config"]["Image"] != image and "/tickwise-" in each["Name"]]
    for name in [each["Name"] for each in ours if "executor" in each["Name"]]:
        complaints = [line for line in stack.here("docker", "logs", name).splitlines() if "prepared_sandbox_" in line]
        assert not complaints, complaints[:3]
    assert len(ours) >= 13, [each["Name"] for each in ours]
    assert not wrong, wrong
    # What the file says and what runs are the same now: the next `up` replaces nothing.
    await asyncio.to_thread(stack.compose, "up", "--detach", "--wait", *lasting(stack), seconds=UP_SECONDS)
    gone = {each["Id"] for each in ours} - {each["Id"] for each in stack.containers()}
    assert not gone, f"`up` after the upgrade replaced {len(gone)} containers"
    return (
        f"an upgrade: {len(ours)} containers replaced, {report['accepted']} jobs meanwhile, none lost, none doubled, "
        f"{len(report['again'])} run again after a lease was lost, no request failed"
    )


async def down(stack: Stack, *, volumes: frozenset[str]) -> str:
    """`down` leaves the data (`volumes`), `down --volumes` nothing."""
    await asyncio.to_thread(stack.compose, "down", seconds=180)
    assert not stack.containers()
    kept = stack.here("docker", "volume", "ls", "--quiet").split()
    assert volumes <= set(kept), kept
    await asyncio.to_thread(stack.compose, "down", "--volumes")
    left = [each for each in stack.here("docker", "volume", "ls", "--quiet").split() if each.startswith("tickwise_")]
    assert not left, left
    return "down: containers, then volumes are gone"


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except NotHere as reason:
        sys.exit(f"not checked: {reason}")
    except AssertionError as failure:
        sys.exit(f"bad   {failure}")
