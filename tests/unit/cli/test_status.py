"""`tickwise status` leaves out parts that the caller may not read, and lists live on without their extras."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

FORBIDDEN = Reply(403, {"code": "forbidden", "detail": "you need runs:read", "status": 403})
JOB: dict[str, Any] = {
    "job_id": "01a218ef-497c-8853-b7ff-72dca9ee10ea", "name": "nightly", "status": "SCHEDULED", "key": None,
    "schedule_type": "ON_DEMAND", "next_run_at": None, "queue": "default", "owner": "ada", "labels": {}, "task": None,
}  # fmt: skip


def test_a_caller_without_any_permission_sees_an_empty_look(capsys: pytest.CaptureFixture[str]) -> None:
    """And null for programs: not known is not none."""
    with serving(FORBIDDEN) as server:
        assert 0 == main(["status", "--url", server.url, "--api-key", "k"])
        assert ("", "") == tuple(capsys.readouterr())
        assert 0 == main(["status", "--json", "--url", server.url, "--api-key", "k"])
    found = json.loads(capsys.readouterr().out)
    parts = ("running", "failed", "counts", "late", "held_queues", "stops", "executors", "roles")
    assert [None] * len(parts) == [found[part] for part in parts]


def test_jobs_are_listed_to_a_caller_that_may_see_no_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Without their latest runs."""
    with serving(Reply(200, [JOB]), FORBIDDEN) as server:
        assert 0 == main(["jobs", "list", "--columns", "name,last_run", "--url", server.url, "--api-key", "k"])
    assert ["NAME     LAST RUN", "nightly  –"] == capsys.readouterr().out.splitlines()
