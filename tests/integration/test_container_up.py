"""Containers from the command line to the task: `tickwise up` as it is shipped, with a real engine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.containers import PYTHON, EngineLook
from tests.support.local_up import local_up
from tests.support.waiting import eventually

SAYS = "import os, sys; print(sys.prefix, os.getuid(), os.environ['TICKWISE_ATTEMPT'])"
LASTS = "import time; print('ready', flush=True); time.sleep(600)"
pytestmark = pytest.mark.takes_up_to(300)


def _settings(url: str) -> dict[str, str]:
    return {
        "TICKWISE_CONTAINER_ENGINE": url,
        "TICKWISE_CONTAINER_IMAGES": "localhost/*",
        "TICKWISE_DRAIN_SECONDS": "0.5",
    }


LEASE = {"TICKWISE_LEASE_SECONDS": "6"}
"""Of an executor that is killed, and waited for."""


def test_a_script_runs_in_a_container_and_says_so(tmp_path: Path, docker_url: str) -> None:
    """The job has its image; `doctor` knows the engine; a job without an engine to run it is told so."""
    script = tmp_path / "say.py"
    script.write_text(SAYS)
    with local_up(tmp_path / "data", **_settings(docker_url)) as local:
        ran = local.tickwise("run", str(script), "--image", PYTHON, "--now", "--follow")
        assert "/usr/local 65534 1\n" == ran.out, ran.err
        assert f"It runs in a container of {PYTHON}, with no network" in ran.err
        [job] = local.tickwise("jobs", "list", "--json").json
        shown = local.tickwise("jobs", "show", str(job["job_id"]), "--json").json
        assert ("container", PYTHON) == (shown["isolation"], shown["container_image"])
        [doctor] = [each for each in local.tickwise("doctor", "--json").json if each["name"] == "containers"]
        assert "ok" == doctor["level"], doctor
        assert "memory, processes" in doctor["detail"]


async def test_a_killed_executor_leaves_no_container(tmp_path: Path, docker_url: str) -> None:
    """`kill -9`; the next start removes what it left, within a minute, and runs the run again, once."""
    script = tmp_path / "last.py"
    script.write_text(LASTS)
    look = EngineLook(docker_url)

    with local_up(tmp_path / "data", **_settings(docker_url), **LEASE) as local:
        local.tickwise("run", str(script), "--image", PYTHON, "--now")
        first = await eventually(lambda: look.running(), within_seconds=60, what="it runs")
        os.kill(local.pid, signal.SIGKILL)
    with local_up(tmp_path / "data", **_settings(docker_url), **LEASE):
        await eventually(lambda: look.running() not in ((), first), within_seconds=120, what="the next attempt runs")
        assert 1 == len(look.running())
