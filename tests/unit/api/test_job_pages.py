"""A page of jobs has the bytes that each job has alone, also the next time, and after whatever changes one of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import START, create, pass_time, plan_ahead, post, stored
from tickwise.adapters.clock import VirtualClock
from tickwise.api.resources.job_pages import KEPT_CHARACTERS, JobPages
from tickwise.api.wire import encode, job_view
from tickwise.ports.store import NewExecutor


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(START)) as made:
        yield made


async def alone(here: World, listed: bytes) -> bytes:
    """The jobs of a page, each as it is answered alone."""
    jobs = [job["job_id"] for job in json.loads(listed)]
    answers = [await here.client.get(f"{API}/jobs/{job}") for job in jobs]
    return b"[" + b",".join(answer.content for answer in answers) + b"]"


async def page(here: World) -> bytes:
    found = await here.client.get(f"{API}/jobs")
    assert (200, "application/json") == (found.status_code, found.headers["content-type"])
    return found.content


async def test_a_page_is_what_its_jobs_are_alone(here: World) -> None:
    """Byte for byte, also the second time: of every type of job, with warnings, secrets, and letters of all kinds."""
    http = {"kind": "http", "url": "https://a.example", "headers": {"Authorization": "Bearer s3cret"}}
    jobs = [
        await create(here, name='"☃ \\', cron="0 7 * * *", timezone="Europe/Berlin", labels={"team": "a/b"}),
        await create(here, every="90s", task=http, retry={"backoff": "fixed"}, concurrency={"limit": 2}),
        await create(here, at="2027-01-15T09:00:00Z", key="k", queue="unserved", requires=["gpu"]),
        await create(here, schedule_type="ON_DEMAND", payload={"text": "x" * 2 * KEPT_CHARACTERS}),
        await create(here, every="1h", task={"kind": "function", "name": "nobody.offers"}),
    ]
    executor = NewExecutor(
        number=1, name="e", queues=["default"], labels=["task:shell"], functions=[], slots=1, lease_seconds=600
    )
    before = await page(here)
    assert set(jobs) == {job["job_id"] for job in json.loads(before)}
    assert before == await alone(here, before) == await page(here)
    await here.store.executors.join(executor)
    await pass_time(here, 30)
    after = await page(here)
    assert b"no active executor serves the queue 'unserved'" in after
    assert after == await alone(here, after) == await page(here)


async def test_each_change_is_seen_on_the_next_page(here: World) -> None:
    """A change of the job, of its status, of its next run, of its runs."""
    job = await create(here, cron="0 * * * *")
    seen = [await page(here)]

    async def look() -> None:
        seen.append(await page(here))
        assert seen[-1] == await alone(here, seen[-1])

    await here.client.patch(f"{API}/jobs/{job}", json={"name": "another"})
    await look()
    await post(here, f"/jobs/{job}/pause", reason="moving")
    await look()
    await post(here, f"/jobs/{job}/resume")
    await look()
    await post(here, f"/jobs/{job}/pause", until="2027-01-15T08:10:00Z")
    await look()
    await pass_time(here, 600)  # the pause is over, and nothing was written
    await look()
    await pass_time(here, 3_000)
    await plan_ahead(here, 1.0)
    await post(here, f"/jobs/{job}/snooze", until="2027-01-15T12:00:00Z")
    await look()
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_no_more_jobs_are_kept_than_the_bound(here: World, most: int) -> None:
    """The least lately read go first, and those whose definition is long are not kept."""
    rows = [await stored(here, await create(here, name=name, every="1h")) for name in "abc"]
    long = await stored(here, await create(here, every="1h", payload={"text": "x" * KEPT_CHARACTERS}))
    pages = JobPages(most)
    for some in (rows, rows[:1], [long]):
        expected = b"[" + b",".join(encode(job_view(row, ())) for row in some) + b"]"
        assert expected == pages.content(some, [()] * len(some))
    kept: list[UUID] = list(pages._kept)
    assert [row.job_id for row in (rows[1], rows[2], rows[0])][-most:] == kept
