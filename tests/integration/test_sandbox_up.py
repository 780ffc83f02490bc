"""Sandboxes from the command line to the task: `tickwise up` as it is shipped, with bubblewrap on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.packages import program
from tests.support.local_up import local_up

LOOK = "test -e /etc/shadow || echo hidden; ls /proc | grep -c '^[0-9]'"


def test_a_new_shell_job_runs_in_a_sandbox_and_says_so(tmp_path: Path) -> None:
    """Unless it asks for a plain process; both are told to the person."""
    program("bwrap")
    with local_up(tmp_path / "data", TICKWISE_ISOLATION="sandbox") as local:
        ran = local.tickwise("run", "--shell", LOOK, "--now", "--follow")
        assert ran.out.startswith("hidden\n"), ran.err
        assert "It runs in a sandbox that reaches no network (--allow-network)." in ran.err
        plain = local.tickwise("run", "--shell", LOOK, "--now", "--follow", "--isolation", "process")
        assert "hidden" not in plain.out
        assert "It runs as a plain process, without a sandbox." in plain.err
        jobs = [str(each["job_id"]) for each in local.tickwise("jobs", "list", "--json").json]
        stored = [local.tickwise("jobs", "show", job_id, "--json").json["isolation"] for job_id in jobs]
    assert ["process", "sandbox"] == sorted(stored)


def test_a_setting_turns_sandboxes_off_for_new_jobs(tmp_path: Path) -> None:
    """Those that say nothing run as plain processes, without a warning."""
    with local_up(tmp_path / "data", TICKWISE_ISOLATION="process") as local:
        ran = local.tickwise("run", "--shell", "echo ran", "--now", "--follow")
    assert "ran\n" == ran.out
    assert "Warning" not in ran.err
    assert "It runs as a plain process" in ran.err


@pytest.mark.parametrize("isolation", ["container", ""])
def test_another_word_for_the_setting_is_refused(tmp_path: Path, isolation: str) -> None:
    """It names the words that there are."""
    from tests.support.local_up import environment, run_command

    given = environment(TICKWISE_ISOLATION=isolation, TICKWISE_DATA_DIR=str(tmp_path))
    ran = run_command(["config"], given)
    assert ("auto, process, sandbox" in ran.err) is bool(isolation), ran
