"""`make test-systemd`: the units under a systemd that is process 1, from a wheel over a job to an upgrade and a stop.

machine with PostgreSQL and wheels ─► the steps of docs/how-to/deploy.md ─► a job in its sandbox
    ─► a restart that lets a job end ─► the package anew, migrations, restart ─► the journal ─► stop
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.deploy.engine import engine
from tests.deploy.files import DEPLOY
from tests.deploy.tools import NotHere
from tests.deploy.whole import images
from tests.deploy.whole.machine import Machine, machine
from tests.support.waiting import eventually

INIT: Final = """
mount --make-rshared /
mount -o remount,rw /sys
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
exec /sbin/init
"""
"""As a boot leaves it: mounts that propagate, which systemd hands credentials over by, and the control groups alone."""
ROLES: Final = ("api", "scheduler", "executor")
TICKWISE: Final = "/opt/tickwise/bin/tickwise"
LOOK: Final = (
    "id -un; ls /etc/tickwise /run/credentials 2>&1; grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"
)
LASTS_SECONDS: Final = 10


class Units:
    """The units on one machine."""

    def __init__(self, here: Machine) -> None:
        self.here, self.key = here, secrets.token_hex(32)

    def tickwise(self, *words: str) -> str:
        """What the command line says on the machine."""
        told = {"TICKWISE_URL": "http://127.0.0.1:8470", "TICKWISE_API_KEY": self.key}
        return self.here("timeout", "100", TICKWISE, *words, environment=told)

    def states(self) -> dict[str, str]:
        """Of each role, what systemd says."""
        return {role: self._state(role) for role in ROLES}

    def _state(self, role: str) -> str:
        shown = self.here("systemctl", "show", "--property=ActiveState,NRestarts", f"tickwise-{role}")
        facts = dict(line.split("=", 1) for line in shown.splitlines())
        return f"{facts['ActiveState']}, started again {facts['NRestarts']} times"

    async def at_work(self) -> None:
        """Each role is ready at its health port, and its health is that of all parts."""
        for port in (8471, 8472, 8474):
            await eventually(partial(self._answers, port, "readyz"), within_seconds=90, what=f"{port} is ready")
            assert self._answers(port, "metrics"), port
        assert {"active, started again 0 times"} == {*self.states().values()}, self.states()

    def _answers(self, port: int, path: str) -> bool:
        look = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/{path}', timeout=5)"
        try:
            self.here("python3", "-c", look)
        except AssertionError:
            return False
        return True

    def events(self, role: str) -> list[dict[str, Any]]:
        """The log lines of a role in the journal."""
        text = self.here("journalctl", "--unit", f"tickwise-{role}", "--output", "cat", "--no-pager")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


async def main() -> None:
    """All of it. Raises AssertionError with what went wrong, or `NotHere`."""
    async with engine() as docker:
        image = await asyncio.to_thread(images.made, docker, "systemd")
        print("good  image: systemd, PostgreSQL, and the wheels of this tree", flush=True)
        options = ["--tmpfs", "/run", "--tmpfs", "/run/lock", "--volume", f"{DEPLOY}:/srv/deploy:ro"]
        words = ("unshare", "--cgroup", "sh", "-c", INIT)
        with machine(docker, image, *words, options=options) as here:
            units = Units(here)
            await eventually(partial(_booted, here), within_seconds=120, what="systemd has booted")
            for step in (_install, _sandbox, _restart, _upgrade, _stop):
                print(f"good  {await step(units)}", flush=True)


def _booted(here: Machine) -> bool:
    try:
        return here("systemctl", "is-system-running").strip() in ("running", "degraded")
    except AssertionError as early:
        return "degraded" in str(early)


async def _install(units: Units) -> str:
    """Word for word as the how-to says, from a wheel."""
    units.here.copy(Path(__file__).with_name("units.sh"), "/units.sh")
    await asyncio.to_thread(units.here, "sh", "/units.sh", units.key, seconds=600)
    await units.at_work()
    return f"install: {', '.join(ROLES)} at work as users of their own, each with its health and metrics"


async def _sandbox(units: Units) -> str:
    """The hardening lets a sandbox be built, and closes everything to the task in it."""
    answer = await asyncio.to_thread(
        units.tickwise, "run", "--shell", LOOK, "--isolation", "sandbox", "--now", "--follow"
    )
    for line in ("task", "No such file", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "SUCCESS"):
        assert line in answer, (line, answer)
    bad = [each for each in units.events("executor") if each["event"].startswith("prepared_sandbox_")]
    assert not bad, bad
    return "a job: in its sandbox, without secrets, capabilities and new privileges"


async def _restart(units: Units) -> str:
    """`systemctl restart` lets what runs end."""
    run = asyncio.create_task(
        asyncio.to_thread(units.tickwise, "run", "--shell", f"sleep {LASTS_SECONDS}; echo over", "--now", "--follow")
    )
    await eventually(partial(_began, units, 2), what="the job runs")
    await asyncio.to_thread(units.here, "systemctl", "restart", "tickwise-executor")
    answer = await run
    assert "over" in answer, answer
    assert "at attempt" not in answer, answer
    await units.at_work()
    return "a restart: the executor let its job end, which ran once"


def _began(units: Units, count: int) -> bool:
    began = [each for each in units.events("executor") if each["event"] == "run_started"]
    return len(began) >= count


async def _upgrade(units: Units) -> str:
    """The package anew, the schema, then the roles, as the how-to says; a job after it, and none lost before it."""
    install = [
        "/opt/tickwise/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/wheels", "--force-reinstall",
        "--no-deps", "tickwise",
    ]  # fmt: skip
    await asyncio.to_thread(units.here, *install, seconds=300)
    for service in ("migrations", "executor", "scheduler", "api"):
        await asyncio.to_thread(units.here, "systemctl", "restart", f"tickwise-{service}")
    await units.at_work()
    answer = await asyncio.to_thread(units.tickwise, "run", "--shell", "echo after", "--now", "--follow")
    assert "after" in answer, answer
    statuses = {each["status"] for each in json.loads(units.tickwise("runs", "list", "--json"))}
    assert {"SUCCESS"} == statuses, statuses
    return "an upgrade: package, schema, each role; a job after it"


async def _stop(units: Units) -> str:
    """The target stops all; the journal has their lines."""
    await asyncio.to_thread(units.here, "systemctl", "stop", "tickwise.target")
    # `systemctl stop` waits for the target, not for its parts.
    await eventually(partial(_all_ended, units), within_seconds=60, what="all roles have ended")
    for role in ROLES:
        found = {each["event"] for each in units.events(role)}
        assert "up" in found, (role, found)
        errors = [each for each in units.events(role) if each["level"] in ("error", "critical")]
        assert not errors, errors[:3]
    return "a stop: all roles have ended, and their lines are in the journal"


def _all_ended(units: Units) -> bool:
    return all(state.startswith("inactive") for state in units.states().values())


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except NotHere as reason:
        sys.exit(f"not checked: {reason}")
    except AssertionError as failure:
        sys.exit(f"bad   {failure}")
