"""What `tickwise doctor` says of whom tasks run as."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.services.packages import program
from tickwise.adapters.runner.process.sandbox import levels
from tickwise.adapters.runner.process.task_places import OUTSIDE
from tickwise.config import Settings
from tickwise.wiring.doctor import _isolation, _tasks, _work_folders

ROOT = os.geteuid() == 0


def test_it_says_what_a_job_may_own(tmp_path: Path) -> None:
    """Under root nothing of the installation; under an ordinary user all that is theirs."""
    found = _tasks(Settings(data_dir=tmp_path))
    assert ("ok" if ROOT else "warning") == found.level
    assert ("owns nothing" if ROOT else "admin key") in found.detail


@pytest.mark.skipif(not ROOT, reason="an ordinary user cannot choose")
def test_tasks_as_root_are_warned_of(tmp_path: Path) -> None:
    """It is allowed to whoever says so."""
    found = _tasks(Settings(data_dir=tmp_path, run_tasks_as="root"))
    assert "warning" == found.level
    assert "owns this machine" in found.detail


def test_a_user_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    """As the executor would say at its start."""
    assert "error" == _tasks(Settings(data_dir=tmp_path, run_tasks_as="no-such-user-here")).level


def test_the_room_is_that_of_the_folder_in_which_tasks_run(tmp_path: Path) -> None:
    """Tasks of the executor's own user run below its data folder, which need not be there yet."""
    data_dir = tmp_path / "data"
    found = _work_folders(Settings(data_dir=data_dir, run_tasks_as="root" if ROOT else None))
    assert f"{data_dir / 'work'}, " in found.detail
    assert not data_dir.exists()


@pytest.mark.skipif(not ROOT, reason="an ordinary user's tasks are its own")
def test_the_room_of_tasks_that_cannot_reach_the_data_folder_is_that_of_the_folder_outside(tmp_path: Path) -> None:
    """As root, with a private data folder."""
    tmp_path.chmod(0o700)
    found = _work_folders(Settings(data_dir=tmp_path))
    assert found.detail.startswith(f"{OUTSIDE / 'tasks'}/")


def test_it_says_which_isolation_this_host_gives_and_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing, and what to do; an error only where the settings require it."""
    monkeypatch.setattr(levels, "PROGRAM", "no-bwrap-here")
    lacking = _isolation(Settings(data_dir=tmp_path))
    assert ("isolation", "warning") == (lacking.name, lacking.level)
    assert "bubblewrap (bwrap) is not installed" in lacking.detail
    assert "apt install bubblewrap" in lacking.advice
    assert "error" == _isolation(Settings(data_dir=tmp_path, isolation="sandbox")).level
    assert "ok" == _isolation(Settings(data_dir=tmp_path, isolation="process")).level


def test_it_says_that_this_host_gives_sandboxes(tmp_path: Path) -> None:
    """By the one that it built."""
    program("bwrap")
    found = _isolation(Settings(data_dir=tmp_path))
    assert ("ok", True) == (found.level, found.detail.startswith("process, sandbox (")), found
