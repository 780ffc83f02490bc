"""What tests end at their end: all that they started, and nobody else's processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.processes.fleet import Fleet, Role
from tests.services.redis import Redis
from tests.support.process_groups import kill_group
from tests.support.waiting import eventually


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """The leader of a group, as each session of a PostgreSQL is one."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def _reaped(number: int) -> subprocess.Popen[bytes]:
    """A child that was reaped, and whose number was given out again."""
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    process.pid = number
    return process


def _still_lives(process: subprocess.Popen[bytes]) -> bool:
    """Asked with a signal of our own behind all that were sent before: the kernel delivers SIGKILL first."""
    process.terminate()
    return process.wait(60) == -signal.SIGTERM


def test_a_fleet_that_stops_spares_who_has_the_number_of_a_dead_role(
    stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A role that was killed early in a test is stopped at its end with the others."""
    fleet = Fleet("postgresql://unused", tmp_path)
    fleet.roles.append(Role(_reaped(stranger.pid), tmp_path / "log"))
    fleet.stop()
    assert _still_lives(stranger)


def test_a_server_that_is_removed_spares_who_has_its_number(stranger: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """One that has ended before."""
    server = Redis(tmp_path)
    server._process = _reaped(stranger.pid)
    server.kill()
    assert _still_lives(stranger)


async def test_what_a_reaped_child_left_is_ended() -> None:
    """Its number is kept back for as long."""
    child = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    with child.stdout as said:
        left = psutil.Process(int(said.readline()))
    assert child.wait() == 0
    assert os.getpgid(left.pid) == child.pid
    kill_group(child)
    await eventually(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE, what="it has ended")
