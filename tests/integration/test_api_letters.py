"""Dead letters, bulk operations, queues and limits are the same on either store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support import databases
from tests.support.app import API, World, world
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.control.bulk.pages import OperationPages
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.ports.store import Began, ClaimRequest, Gate, OperationStep
from tickwise.testing.factories import executor, outcome

BODY = {"name": "a", "task": {"kind": "shell", "command": "date"}, "schedule_type": "IMMEDIATE", "max_retries": 0}
MAX_SECONDS = 60.0
"""Of a machine that is busy with other things."""


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def here(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[World]:
    """Nothing is there yet: operations and executors look at all that there is."""
    if request.param == "memory":
        async with world(store=MemoryStore(SystemClock())) as made:
            yield made
        return
    async with databases.database(postgres_url) as url:
        await upgrade(url)
        async with world(store=PostgresStore(url, clock=SystemClock())) as made:
            yield made


async def ask(here: World, method: str, path: str, status: int = 200, /, body: Any = None, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await here.client.request(method, API + path, json=body, headers=named)
    assert status == answer.status_code, answer.text
    return answer.json()


async def take(here: World, number: int, count: int) -> list[Claimed]:
    """So many runs, as soon as the store hands them out."""
    found: list[Claimed] = []
    request = ClaimRequest(executor=number, queues=("default",), labels=("task:shell",), limit=count, ahead_seconds=0.0)
    async with asyncio.timeout(MAX_SECONDS):
        while len(found) < count:
            found += await here.store.attempts.claim(request)
            await here.clock.sleep(0.05)
    return found


async def end(here: World, number: int, claims: list[Claimed], state: RunState, **more: Any) -> None:
    now = await here.store.now()
    assert [] == list(await here.store.attempts.start(number, [Began(each.run_id, each.token, now) for each in claims]))
    ends = [outcome(each, state, started=now, ended=now, **more) for each in claims]
    assert [] == list(await here.store.attempts.finish(number, ends))


async def failed(here: World, count: int) -> list[str]:
    """Runs that failed for good."""
    for _ in range(count):
        await ask(here, "POST", "/jobs", 201, BODY)
    number = await here.store.executors.join(executor(lease_seconds=600.0))
    claims = await take(here, number, count)
    await end(here, number, claims, RunState.FAILED, reason="exit_code", error="exit status 7")
    return [str(claim.run_id) for claim in claims]


async def carried_out(here: World, operation_id: str, size: int) -> Any:
    """An operation after all of its pages, each carried out twice, as after a crash before it was on record."""
    async with asyncio.timeout(MAX_SECONDS):
        while (found := await ask(here, "GET", f"/operations/{operation_id}"))["status"] == "running":
            operation = await here.store.operations.take(30.0)
            assert operation is not None
            await OperationPages(here.control.context).page(operation, size)
            done = await OperationPages(here.control.context).page(operation, size)
            step = OperationStep(
                operation_id=operation.operation_id,
                expected_step=operation.step,
                cursor=done.cursor,
                done=done.done,
                refused=done.refused,
                problems=done.problems,
            )
            assert await here.store.operations.step(step)
    return found


async def test_a_letter_is_redriven_once_and_linked_both_ways(here: World) -> None:
    """Also under a key, and by many at the same moment."""
    [run_id] = await failed(here, 1)
    assert ["open"] == [each["status"] for each in await ask(here, "GET", "/dead-letters?reason=exit_code")]
    path = f"/dead-letters/{run_id}/redrive"
    first = await ask(here, "POST", path, 202, {"payload": {"a": 2}, "note": "mended"}, idempotency_key="once")
    again = await ask(here, "POST", path, 202, {"payload": {"a": 2}, "note": "mended"}, idempotency_key="once")
    assert first == again
    answers = await asyncio.gather(*(here.client.post(API + path) for _ in range(5)))
    assert [409] * 5 == [answer.status_code for answer in answers]
    letter = await ask(here, "GET", f"/dead-letters/{run_id}")
    new = await ask(here, "GET", f"/runs/{first['run_id']}")
    assert ("redriven", first["run_id"], "mended") == tuple(letter[name] for name in ("status", "redriven_as", "note"))
    assert (run_id, {"a": 2}) == (new["retry_of"], new["payload"])
    assert 2 == len(await ask(here, "GET", "/runs"))


async def test_letters_are_redriven_and_discarded_by_operations(here: World) -> None:
    """In pages, each done twice and counted once."""
    await failed(here, 7)
    tried = await ask(here, "POST", "/dead-letters:redrive", 200, {"filter": {"all": True}, "dry_run": True})
    assert (7, 7) == (tried["matches"], len(tried["sample"]))
    accepted = await ask(here, "POST", "/dead-letters:redrive", 202, {"filter": {"reason": "exit_code"}})
    found = await carried_out(here, accepted["operation_id"], 3)
    assert (7, 7, 0, "done") == tuple(found[name] for name in ("matched", "done", "refused", "status"))
    assert 7 == len({each["redriven_as"] for each in await ask(here, "GET", "/dead-letters?status=redriven")})
    assert 14 == len(await ask(here, "GET", "/runs"))
    accepted = await ask(here, "POST", "/runs:cancel", 202, {"filter": {"trigger": ["retry"]}})
    assert 7 == (await carried_out(here, accepted["operation_id"], 3))["done"]
    assert 7 == len(await ask(here, "GET", "/runs?status=CANCELLED"))
    accepted = await ask(here, "POST", "/dead-letters:discard", 202, {"filter": {"all": True}})
    found = await carried_out(here, accepted["operation_id"], 3)
    assert (0, "done") == (found["done"], found["status"])


async def test_jobs_are_paused_resumed_and_cancelled_by_operations(here: World) -> None:
    """By their labels; each page done twice is counted once."""
    for number in range(5):
        labels = {"team": "data" if number else "web"}
        body = {"name": "a", "task": BODY["task"], "every": "1h", "labels": labels}
        await ask(here, "POST", "/jobs", 201, body)
    mine = {"filter": {"labels": {"team": "data"}}}
    for path, status in (("/jobs:pause", "PAUSED"), ("/jobs:resume", "SCHEDULED"), ("/jobs:cancel", "CANCELLED")):
        accepted = await ask(here, "POST", path, 202, mine)
        found = await carried_out(here, accepted["operation_id"], 10)
        assert (4, 0) == (found["matched"], found["refused"])
        assert path == "/jobs:resume" or found["done"] == 4
        assert {status} == {job["status"] for job in await ask(here, "GET", "/jobs?label=team=data")}
    assert "SCHEDULED" == (await ask(here, "GET", "/jobs?label=team=web"))[0]["status"]


async def test_a_queue_on_hold_is_told_and_explained(here: World) -> None:
    """With what waits in it."""
    await ask(here, "POST", "/jobs", 201, {**BODY, "queue": "mail"})
    held = await ask(here, "POST", "/queues/mail/hold", 200, {"reason": "the relay moves"})
    assert (True, 1, 0, 0) == tuple(held[name] for name in ("held", "queued", "dispatched", "running"))
    [run] = await ask(here, "GET", "/runs")
    found = await ask(here, "GET", f"/runs/{run['run_id']}/explain")
    assert ("waiting_queue_held", "the relay moves") == (found["code"], found["data"]["reason"])
    assert not (await ask(here, "POST", "/queues/mail/resume"))["held"]


async def test_a_run_that_waits_for_a_slot_is_explained(here: World) -> None:
    """By who has it."""
    number = await here.store.executors.join(executor(lease_seconds=600.0))
    limited = {**BODY, "concurrency": {"limit": 1, "key": "key:printer"}}
    for _ in range(2):
        await ask(here, "POST", "/jobs", 201, limited)
    first, second = await take(here, number, 2)
    now, gate = await here.store.now(), Gate("key:printer", 1)
    starts = [Began(each.run_id, each.token, now, gate=gate) for each in (first, second)]
    assert [] == list(await here.store.attempts.start(number, starts[:1]))
    assert [second.run_id] == list(await here.store.attempts.start(number, starts[1:]))
    found = await ask(here, "GET", f"/runs/{second.run_id}/explain")
    assert ("waiting_slot", [str(first.run_id)]) == (found["code"], found["data"]["taken_by"])


async def test_a_job_on_demand_stays_scheduled(here: World) -> None:
    """Through a pause, and after a run; and what it names follows it."""
    body = {"name": "asked", "task": BODY["task"], "schedule_type": "ON_DEMAND"}
    last = (await ask(here, "POST", "/jobs", 201, body))["job_id"]
    job_id = (await ask(here, "POST", "/jobs", 201, {**body, "then": last, "on_unknown": "hold"}))["job_id"]
    job = await ask(here, "GET", f"/jobs/{job_id}")
    assert ("SCHEDULED", None, [last], "hold") == tuple(
        job[name] for name in ("status", "next_run_at", "then", "on_unknown")
    )
    assert "PAUSED" == (await ask(here, "POST", f"/jobs/{job_id}/pause"))["status"]
    assert "SCHEDULED" == (await ask(here, "POST", f"/jobs/{job_id}/resume"))["status"]
    run_id = (await ask(here, "POST", f"/jobs/{job_id}/runNow", 202))["run_id"]
    number = await here.store.executors.join(executor(lease_seconds=600.0))
    claims = await take(here, number, 1)
    await end(here, number, claims, RunState.SUCCESS, result='{"rows": 3}', follow=True)
    assert "SCHEDULED" == (await ask(here, "GET", f"/jobs/{job_id}"))["status"]
    [follow] = await here.store.completions.pending(10)
    assert (UUID(run_id), True) == (follow.run.run_id, follow.succeeded)
    found = await ask(here, "GET", "/jobs?schedule_type=ON_DEMAND")
    assert {job_id, last} == {each["job_id"] for each in found}
