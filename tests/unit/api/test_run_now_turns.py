"""Runs that people ask for wait their turn where fires of the schedule may not overlap; none is dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene
from tickwise.control.bulk.pages import OperationPages
from tickwise.domain.lifecycle import RunState

HOURLY = {"schedule_type": "CRON", "cron_expression": "0 * * * *"}
POLICIES = ["skip", "queue_one", "queue_all", "cancel_running"]


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def ask(here: Scene, job_id: str, count: int, **body: Any) -> list[str]:
    """The ids of so many runs that are asked for, one after the other."""
    asked = []
    for _ in range(count):
        await here.pass_time(0.1)
        asked.append((await here.ask("POST", f"/jobs/{job_id}/runNow", 202, body or None))["run_id"])
    return asked


async def states(here: Scene, runs: Sequence[str]) -> list[str]:
    return [(await here.ask("GET", f"/runs/{run}"))["status"] for run in runs]


async def in_turn(here: Scene, number: int, count: int) -> list[str]:
    """The runs that an executor carries out, each time with all that there is in its hands; at most one begins."""
    done = []
    for _ in range(count):
        claims = await here.take(number)
        begun = [claim for claim in claims if await here.begin(number, [claim])]
        assert len(begun) == 1, "one at a time"
        await here.finish(number, begun)
        done.append(str(begun[0].run_id))
    return done


@pytest.mark.parametrize("policy", POLICIES)
async def test_three_at_once_run_one_after_the_other(here: Scene, policy: str) -> None:
    """In the order in which they were asked for, whatever the policy says of the schedule's own; none is dropped."""
    job_id = await here.create(**HOURLY, overlap=policy)
    asked = await ask(here, job_id, 3)
    assert asked == await in_turn(here, await here.join(), 3)
    assert ["SUCCESS"] * 3 == await states(here, asked)


@pytest.mark.parametrize("policy", POLICIES)
async def test_it_waits_for_the_fire_that_goes_on_and_says_so(here: Scene, policy: str) -> None:
    """The fire is not disturbed, and whoever wonders is told."""
    job_id = await here.create(**HOURLY, overlap=policy)
    await here.schedule(3600.0)
    number = await here.join()
    [fire] = await here.take(number)
    assert 1 == await here.begin(number, [fire])
    [asked] = await ask(here, job_id, 1)
    [claim] = await here.take(number)
    assert 0 == await here.begin(number, [claim])
    told = await here.explain_run(asked)
    assert "waiting_overlap" == told["code"]
    assert "a run that a person asked for waits its turn" in told["sentence"]
    await here.finish(number, [fire])
    assert [asked] == await in_turn(here, number, 1)


async def test_where_fires_may_overlap_so_may_what_people_ask_for(here: Scene) -> None:
    """And where there are no fires that recur: each of these is a demand of its own."""
    number = await here.join()
    for body in ({**HOURLY, "overlap": "allow"}, {"schedule_type": "ON_DEMAND"}):
        job_id = await here.create(**body)
        await ask(here, job_id, 3)
        claims = await here.take(number)
        assert 3 == await here.begin(number, claims)
        await here.finish(number, claims)


@pytest.mark.parametrize(
    ("overlap", "first", "second"),
    [
        ("allow", "RUNNING", "RUNNING"),
        ("skip", "RUNNING", "SKIPPED"),
        ("queue_one", "RUNNING", "QUEUED"),
        ("cancel_running", "CANCELLED", "QUEUED"),
    ],
)
async def test_who_asks_may_choose_otherwise(here: Scene, overlap: str, first: str, second: str) -> None:
    """By a field of the request; it concerns that run alone."""
    job_id = await here.create(**HOURLY)
    runs = await ask(here, job_id, 1)
    number = await here.join()
    [going] = await here.take(number)
    assert 1 == await here.begin(number, [going])
    runs += await ask(here, job_id, 1, overlap=overlap)
    await here.begin(number, await here.take(number))
    if first == "CANCELLED":
        beat = await here.store.executors.beat(number, 1e9)
        assert [going.run_id] == [request.run_id for request in beat.cancels]
        await here.finish(number, [going], RunState.CANCELLED)
    assert [first, second] == await states(here, runs)


@pytest.mark.parametrize("way", ["retry", "redrive", "bulk"])
async def test_what_is_asked_for_again_waits_its_turn_too(here: Scene, way: str) -> None:
    """A retry, a redrive, and each of the many of an operation."""
    job_id = await here.create(**HOURLY, max_retries=0)
    [failed] = await ask(here, job_id, 1)
    number = await here.join()
    claims = await here.take(number)
    await here.begin(number, claims)
    await here.finish(number, claims, RunState.FAILED, reason="exit_code")
    await ask(here, job_id, 1)
    [going] = await here.take(number)
    assert 1 == await here.begin(number, [going])
    if way == "retry":
        await here.ask("POST", f"/runs/{failed}/retry", 202)
    elif way == "redrive":
        await here.ask("POST", f"/dead-letters/{failed}/redrive", 202)
    else:
        await here.pass_time(1.0)
        await here.ask("POST", "/runs:retry", 202, {"filter": {"job_id": job_id, "status": ["FAILED"]}})
        operation = await here.store.operations.take(30.0)
        assert operation is not None
        await OperationPages(here.world.control.context).page(operation, 10)
    claims = await here.take(number)
    assert 1 == len(claims)
    assert 0 == await here.begin(number, claims)
    await here.finish(number, [going])
    assert [str(claims[0].run_id)] == await in_turn(here, number, 1)


async def test_an_unknown_policy_is_refused(here: Scene) -> None:
    """With a pointer to it."""
    job_id = await here.create(**HOURLY)
    refused = await here.ask("POST", f"/jobs/{job_id}/runNow", 422, {"overlap": "perhaps"})
    assert "/overlap" == refused["pointer"]
