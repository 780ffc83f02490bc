"""Requests in the log: each while there are few, refusals and counts when there are many."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from tests.support.app import API, world
from tests.support.waiting import eventually
from tickwise.api import request_log
from tickwise.api.request_log import RequestLog

JOB = {"name": "a", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "date"}}
SECRET = "a-secret-of-a-key-that-is-long-enough"


def lines(logs: list[Any], event: str = "request") -> list[dict[str, Any]]:
    return [line for line in logs if line["event"] == event]


async def test_a_request_is_one_line_that_says_who_asked_and_what_for() -> None:
    """The template of its path and the id of its key: never the path, the query or the secret."""
    async with world() as here:
        await here.key(SECRET, "jobs:read", namespace="team")
        with structlog.testing.capture_logs() as logs:
            answer = await here.client.get(
                f"{API}/jobs/019a2b3c-4d5e-8f60-9123-456789abcdef", headers={"Authorization": f"Bearer {SECRET}"}
            )
        assert 404 == answer.status_code
        (line,) = lines(logs)
        principal = (await here.store.keys.page("team", before=None, limit=1))[0]
        assert {
            "event": "request",
            "log_level": "info",
            "method": "GET",
            "route": f"{API}/jobs/{{job_id}}",
            "status": 404,
            "request_id": answer.headers["x-request-id"],
            "namespace": "team",
            "key_id": str(principal.key_id),
            "address": "127.0.0.1",
            "trace_id": None,
            "span_id": None,
        } == {name: value for name, value in line.items() if name != "seconds"}
        assert line["seconds"] >= 0.0
        assert SECRET not in str(logs)
        assert "019a2b3c" not in str(line["route"])


async def test_the_hot_route_is_logged_like_the_others() -> None:
    """`POST /jobs` is answered before the framework."""
    async with world() as here:
        with structlog.testing.capture_logs() as logs:
            await here.client.post(f"{API}/jobs", json=JOB)
        (line,) = lines(logs)
        assert ("POST", f"{API}/jobs", 201) == (line["method"], line["route"], line["status"])


async def test_a_wrong_key_is_a_line_without_a_key() -> None:
    """Nobody is known then."""
    async with world() as here:
        with structlog.testing.capture_logs() as logs:
            await here.client.get(f"{API}/jobs", headers={"Authorization": "Bearer wrong"})
        (line,) = lines(logs)
        assert (401, None, None) == (line["status"], line["key_id"], line["namespace"])


async def test_a_look_at_health_is_a_line_only_if_it_fails() -> None:
    """Platforms look every few seconds."""
    async with world() as here:
        with structlog.testing.capture_logs() as logs:
            assert 200 == (await here.client.get("/livez")).status_code
            assert 422 == (await here.client.get("/livez", params={"a": "b"})).status_code
        assert [422] == [line["status"] for line in lines(logs)]


@pytest.mark.parametrize("per_second", [0, 3])
async def test_many_requests_are_a_few_lines_and_a_count(monkeypatch: pytest.MonkeyPatch, per_second: int) -> None:
    """Refusals have a bound of their own, so that a flood of good ones does not hide them; 0 logs nothing."""
    monkeypatch.setattr(request_log, "FLUSH_SECONDS", 0.0)
    now = 100.0
    log = RequestLog(lambda: now, per_second)
    facts: dict[str, Any] = {
        "method": "GET", "route": "/a", "seconds": 0.1, "request_id": "r", "principal": None, "address": "",
    }  # fmt: skip
    with structlog.testing.capture_logs() as logs:
        for _ in range(10):
            log.answered(status=200, **facts)
        for _ in range(2):
            log.answered(status=422, **facts)
        now += 2.0
        if per_second:
            await eventually(lambda: lines(logs, "requests_unlogged"))
        else:
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    assert [200] * per_second + [422] * (2 if per_second else 0) == [line["status"] for line in lines(logs)]
    counts = [(line["answered"], line["refused"]) for line in lines(logs, "requests_unlogged")]
    assert ([(7, 0)] if per_second else []) == counts
