"""What `tickwise doctor` says of whom tasks run as."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tickwise.config import Settings
from tickwise.wiring.doctor import _tasks

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
