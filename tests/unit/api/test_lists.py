"""Lists: their order, and what they are searched by."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import START, create, get, pass_time, post
from tickwise.adapters.clock import VirtualClock


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(START)) as made:
        yield made


async def test_jobs_are_listed_newest_first_whatever_ids_clients_choose(here: World) -> None:
    """By their creation, in pages that the links join."""
    chosen = ["ffffffff-ffff-4fff-bfff-ffffffffffff", None, "00000000-0000-4000-8000-000000000001", None]
    made = []
    for job_id in chosen:
        made.append(await create(here, every="1h", **({} if job_id is None else {"job_id": job_id})))
        await pass_time(here, 61.0)
    path, found = f"{API}/jobs?limit=1", []
    while path:
        page = await here.client.get(path)
        found += [job["job_id"] for job in page.json()]
        path = page.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert made[::-1] == found


async def test_runs_are_searched_by_what_their_job_is(here: World) -> None:
    """A part of its name, labels, its queue, an executor; what cannot be is refused by name."""
    labels = {"team": "data", "tier": "1"}
    one = await create(here, name="Nightly report", every="1h", labels=labels, queue="reports")
    two = await create(here, name="hourly", every="1h", labels={"team": "data"})
    runs = {job: (await post(here, f"/jobs/{job}/runNow", 202))["run_id"] for job in (one, two)}
    for query, jobs in (
        ("job_name=nightly", [one]),
        ("job_name=LY", [two, one]),
        ("label=team=data", [two, one]),
        ("label=team=data&label=tier=1", [one]),
        ("queue=reports", [one]),
        ("queue=default&job_name=nightly", []),
        ("executor_id=7", []),
    ):
        found = [run["run_id"] for run in await get(here, f"/runs?{query}")]
        assert {runs[job] for job in jobs} == set(found), query
    for query, parameter in (("label=team", "label"), ("executor_id=x", "executor_id"), ("queue=", "queue")):
        answer = await here.client.get(f"{API}/runs?{query}")
        assert (422, parameter) == (answer.status_code, answer.json()["parameter"])
    body = {"filter": {"job_name": "nightly", "labels": {"team": "data"}, "queue": "reports"}, "dry_run": True}
    assert 1 == (await post(here, "/runs:cancel", 200, **body))["matches"]
