"""What is forked for tests is a process as `tickwise` starts one."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support.local_up import ROOT, environment, local_up
from tests.support.roles import fork, may_fork

MEMORY = ("--database", "memory://")


def test_it_is_a_child_with_a_session_and_a_command_line_of_its_own(tmp_path: Path) -> None:
    """And `up` is found by those who look for it."""
    with local_up(tmp_path / "data", *MEMORY) as up:
        process = psutil.Process(up.pid)
        assert (os.getpid(), up.pid) == (process.ppid(), os.getsid(up.pid))
        assert ["-m", "tickwise", "up", "--data-dir", str(up.data_dir)] == process.cmdline()[1:6]
        assert 0 == up.tickwise("status").code
    assert not psutil.pid_exists(up.pid)


def test_its_exit_status_is_that_of_a_child(tmp_path: Path) -> None:
    """A usage error, or the signal that killed it; until then a wait times out."""
    with (tmp_path / "log").open("wb") as log:
        refused = fork(["up", "--nothing"], environment(), log)
        killed = fork(["up", *MEMORY, "--data-dir", str(tmp_path / "data"), "--port", "0"], environment(), log)
        assert 2 == refused.wait(60)
        with pytest.raises(subprocess.TimeoutExpired):
            killed.wait(0.0)
        killed.send_signal(signal.SIGKILL)
        assert -signal.SIGKILL == killed.wait(60)
        killed.terminate()  # is gone: nothing happens
    assert "--nothing" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"TICKWISE_SLOTS": "3"}, True),
        ({"PYTHONPATH": str(ROOT)}, True),
        ({"PYTHONPATH": "/elsewhere"}, False),
        ({"LD_PRELOAD": "shift.so"}, False),
        ({"TZ": "Europe/Berlin"}, False),
    ],
)
def test_what_python_reads_at_its_start_makes_a_start_from_the_beginning(
    changes: dict[str, str], expected: bool
) -> None:
    """A forked process would not have read it."""
    assert expected is may_fork(["api"], environment(**changes))


def test_only_what_runs_until_it_is_told_to_end_is_forked() -> None:
    """A command is over before it has paid."""
    assert not may_fork(["db", "upgrade"], environment())
