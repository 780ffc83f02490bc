"""A run that took unusually long says so on its page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tests.unit.web.test_pages import SHELL
from tickwise.ports.store import ClaimRequest
from tickwise.testing.factories import executor, outcome


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def ran(rig: Rig, job: str, seconds: float) -> str:
    """A run of the job that succeeded after so long."""
    store = rig.here.store
    run_id = str((await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})).json()["run_id"])
    row = await store.jobs.get("default", UUID(job))
    assert row is not None
    number = await store.executors.join(executor(f"one of {run_id}"))
    labels = list(row.lane.requires)
    request = ClaimRequest(executor=number, queues=["default"], labels=labels, limit=50, ahead_seconds=1.0)
    [claimed] = await store.attempts.claim(request)
    end = await store.now()
    assert [] == list(await store.attempts.finish(number, [outcome(claimed, started=end - seconds, ended=end)]))
    return run_id


@pytest.mark.parametrize(("seconds", "says"), [(2_400.0, True), (240.0, False)])
async def test_a_run_that_took_unusually_long_says_so(rig: Rig, seconds: float, says: bool) -> None:
    """With what is usual."""
    body = {"name": "bills", "schedule_type": "ON_DEMAND", "task": SHELL}
    job = str((await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"])
    for number in range(10):
        await ran(rig, job, 180.0 + 10.0 * number)
    run = await ran(rig, job, seconds)
    browser = await rig.signed_in("looks", ("admin", "*"))
    page = Markup((await browser.get(f"/runs/{run}")).text).words
    assert ("took 40 min, usually 3 min 9 s to 4 min 21 s" in page) is says, page
