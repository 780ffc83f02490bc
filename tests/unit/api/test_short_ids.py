"""Jobs and runs by the end of their ids, jobs by their ids, and the latest run of each job of a page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import START, create, get, pass_time, post
from tickwise.adapters.clock import VirtualClock

DAY = 86_400.0


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    """An API on a virtual clock."""
    async with world(clock=VirtualClock(START)) as made:
        yield made


async def demanded(here: World, job_id: str) -> str:
    """A new run of the job."""
    return str((await post(here, f"/jobs/{job_id}/runNow", 202))["run_id"])


async def refusal(here: World, path: str) -> Any:
    """The problem of a query that is refused."""
    answer = await here.client.get(API + path)
    assert answer.status_code in (400, 422), answer.text
    return answer.json()


async def test_a_job_is_found_by_the_end_of_its_id(here: World) -> None:
    """Among those that recur, and those of the last day; the answer is that of a list."""
    lasting = await create(here, schedule_type="ON_DEMAND")
    passing = await create(here, schedule_type="IMMEDIATE", name="once")
    [found] = await get(here, f"/jobs?id_end={lasting[-8:]}")
    assert await get(here, f"/jobs/{lasting}") == found
    assert [passing] == [job["job_id"] for job in await get(here, f"/jobs?id_end={passing[-6:]}")]
    assert [] == await get(here, "/jobs?id_end=00000000")


async def test_a_run_is_found_by_the_end_of_its_id(here: World) -> None:
    """Under way, or of the last day."""
    job_id = await create(here, schedule_type="ON_DEMAND")
    run = await demanded(here, job_id)
    [found] = await get(here, f"/runs?id_end={run[-8:]}")
    assert (run, job_id, "QUEUED") == (found["run_id"], found["job_id"], found["status"])
    await post(here, f"/runs/{run}/cancel")
    await pass_time(here, DAY / 2)
    assert [run] == [each["run_id"] for each in await get(here, f"/runs?id_end={run[-8:]}")]
    await pass_time(here, DAY)
    assert [] == await get(here, f"/runs?id_end={run[-8:]}")


@pytest.mark.parametrize("path", ["/jobs", "/runs"])
async def test_an_end_of_an_id_goes_alone_and_is_one(here: World, path: str) -> None:
    """A filter beside it would be one that is not applied."""
    assert "status" == (await refusal(here, f"{path}?id_end=0badcafe&status=FAILED"))["parameter"]
    for text in ("abc", "0BADCAFE", "xyz12345", "a" * 37):
        assert "id_end" == (await refusal(here, f"{path}?id_end={text}"))["parameter"], text


async def test_jobs_are_asked_for_by_their_ids(here: World) -> None:
    """Those that there are; other filters hold too."""
    jobs = [await create(here, schedule_type="ON_DEMAND", name=name) for name in ("a", "b", "c")]
    asked = "&".join(f"job_id={job}" for job in (*jobs[:2], str(UUID(int=7))))
    assert {"a", "b"} == {job["name"] for job in await get(here, f"/jobs?{asked}")}
    assert {"a"} == {job["name"] for job in await get(here, f"/jobs?{asked}&name=a")}


async def test_the_latest_run_of_each_job_is_one_answer(here: World) -> None:
    """Nothing of a job that has none."""
    jobs = [await create(here, schedule_type="ON_DEMAND", name=name) for name in ("a", "b", "c")]
    await demanded(here, jobs[0])
    await pass_time(here, 1.0)
    newest = await demanded(here, jobs[0])
    other = await demanded(here, jobs[1])
    asked = "&".join(f"latest_of={job}" for job in jobs)
    found = await get(here, f"/runs?{asked}")
    assert {jobs[0]: newest, jobs[1]: other} == {run["job_id"]: run["run_id"] for run in found}
    assert "queue" == (await refusal(here, f"/runs?{asked}&queue=a"))["parameter"]
