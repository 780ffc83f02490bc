"""`tickwise up` on a data folder is killed in the middle of its work, and started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.integration.processes.runtime import EXPIRE, Errand, gone
from tests.support.local_up import OWN_TASKS, Local, local_up
from tests.support.waiting import eventually
from tickwise.sdk.client import Client

SETTINGS = {"TICKWISE_LEASE_SECONDS": "60", "TICKWISE_HEARTBEAT_SECONDS": "0.3"}
"""A lease that no stall costs; that of the dead is ended by the test."""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Directly below the system's folder for such things: for root, pytest's own are closed to the server's user."""
    path = Path(tempfile.mkdtemp(prefix="tickwise-up-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _runs(local: Local, job_id: str) -> list[dict[str, Any]]:
    with Client(local.url, local.key) as client:
        answer = client.request("GET", f"/jobs/{job_id}/runs", query={"limit": 100})
    found: list[dict[str, Any]] = answer.body
    return sorted(found, key=lambda run: run["due_time"])


def _submit(local: Local, command: str, **plan: Any) -> str:
    body = {"name": "a", "task": {"kind": "shell", "command": command}, **plan}
    with Client(local.url, local.key) as client:
        return str(client.request("POST", "/jobs", body=body).body["job_id"])


async def test_everything_goes_on_after_up_was_killed(data_dir: Path, tmp_path: Path) -> None:
    """What ran runs again, what recurred recurs, what waited still waits, and what had ended has ended."""
    errand = Errand(tmp_path)
    with local_up(data_dir, **SETTINGS, **OWN_TASKS) as before:
        ended = _submit(before, "true", schedule_type="IMMEDIATE")
        await eventually(lambda: _runs(before, ended)[0]["status"] == "SUCCESS", what="a first run")
        waiting = _submit(before, "true", schedule_time="2099-01-01T00:00:00Z")
        recurring = _submit(before, "true", cron="* * * * * *")
        running = _submit(before, errand.task()["command"], schedule_type="IMMEDIATE", max_retries=0)
        processes = await errand.begun(1)
        await eventually(lambda: _runs(before, running)[0]["status"] == "RUNNING", what="its start is on record")
        await eventually(lambda: len(_ended(before, recurring)) >= 2, what="two rounds")
        known = {run["run_id"]: run for run in _ended(before, recurring)}
        last = [_submit(before, "true", schedule_type="IMMEDIATE") for _ in range(20)]
        executors = await _asked(before, "SELECT executor FROM tickwise.executors")
        os.kill(before.pid, signal.SIGKILL)
        await gone(processes)
    with local_up(data_dir, **SETTINGS, **OWN_TASKS) as after:
        assert before.key == after.key
        numbers = [row["executor"] for row in executors]
        await _asked(after, EXPIRE, numbers)
        await eventually(lambda: all(_ended(after, job_id) for job_id in last), what="the last run")
        await errand.begun(2)
        errand.end()
        await eventually(lambda: _runs(after, running)[0]["status"] == "SUCCESS", what="it ran again")
        (again,) = _runs(after, running)
        assert (2, 1) == (again["attempt_number"], again["crashes"])
        assert ["SUCCESS"] == [run["status"] for run in _runs(after, ended)]
        assert [] == _runs(after, waiting)
        more = await eventually(lambda: found if len(found := _ended(after, recurring)) >= len(known) + 2 else None)
        assert known.items() <= {run["run_id"]: run for run in more}.items()
        assert len(more) == len({run["due_time"] for run in more})


async def _asked(local: Local, sql: str, *values: Any) -> list[asyncpg.Record]:
    """The answer of its database."""
    connection = await asyncpg.connect(json.loads((local.data_dir / "client.json").read_text())["database_url"])
    try:
        found: list[asyncpg.Record] = await connection.fetch(sql, *values)
        return found
    finally:
        await connection.close()


def _ended(local: Local, job_id: str) -> list[dict[str, Any]]:
    return [run for run in _runs(local, job_id) if run["status"] == "SUCCESS"]
