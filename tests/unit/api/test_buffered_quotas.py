"""Buffered requests over a quota: accepted, judged when they are applied, and on record if they were refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.buffered import Buffered, buffered

SHELL = {"kind": "shell", "command": "date"}
LASTING = {"name": "a", "task": SHELL, "every": "1h"}
AT_ONCE = {"name": "a", "task": SHELL, "schedule_type": "IMMEDIATE"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Buffered]:
    async with buffered() as made:
        yield made


async def send(here: Buffered, method: str, path: str, status: int, **options: Any) -> Any:
    """The body of an answer that has this status."""
    answer = await here.world.client.request(method, API + path, **options)
    assert status == answer.status_code, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("quota", "job", "code"),
    [("jobs", LASTING, "quota_jobs"), ("runs_per_day", AT_ONCE, "quota_runs"), ("bytes", LASTING, "quota_bytes")],
)
async def test_a_request_over_a_quota_fails_on_record(
    here: Buffered, quota: str, job: dict[str, Any], code: str
) -> None:
    """The caller has 202 with the operation, which fails with the code and the sentence that a refusal would have."""
    room = 300 if quota == "bytes" else 1
    await send(here, "PUT", "/namespaces/default/quotas", 200, json={quota: room})
    kept, refused = [await send(here, "POST", "/jobs", 202, json=job) for _ in range(2)]
    await here.apply()
    ended = await send(here, "GET", f"/operations/{refused['operation_id']}", 200)
    [problem] = ended["problems"]
    assert ("failed", code) == (ended["status"], problem["code"])
    assert "/api/v1/namespaces/default/usage" in problem["detail"]
    await send(here, "GET", f"/jobs/{refused['job_id']}", 404)
    assert "done" == (await send(here, "GET", f"/operations/{kept['operation_id']}", 200))["status"]
    await send(here, "GET", f"/jobs/{kept['job_id']}", 200)
