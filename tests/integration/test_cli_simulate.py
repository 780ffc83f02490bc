"""`tickwise simulate` as a process: it ends when it is asked to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("jobs", [1, 60], ids=["in one process", "shared out to several"])
def test_one_ctrl_c_ends_a_simulation(tmp_path: Path, jobs: int) -> None:
    """With the exit code for it, and however much there is still to simulate."""
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps([{"name": f"job {number}", "cron": "* * * * *"} for number in range(jobs)]))
    command = [sys.executable, "-m", "tickwise", "simulate", "--json", "--file", str(file)]
    span = ["--from", "2027-01-01T00:00:00Z", "--to", "2057-01-01T00:00:00Z"]
    with subprocess.Popen([*command, *span], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), "it says nothing"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=100)
        except BaseException:
            process.kill()
            raise
    assert (130, b"") == (process.returncode, said.strip())
