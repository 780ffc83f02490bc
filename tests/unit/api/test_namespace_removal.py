"""The end of a namespace over HTTP, carried out by hand as schedulers do it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import ask
from tickwise.adapters.clock import VirtualClock
from tickwise.control.bulk.pages import OperationPages
from tickwise.control.bulk.removal import NamespaceRemoval
from tickwise.domain.audit import AuditAction
from tickwise.domain.lifecycle import RunState
from tickwise.ports.audit import AuditQuery
from tickwise.ports.blobs import log_chunk_key, logs_folder, script_key, scripts_folder
from tickwise.ports.identity.namespaces import SETTLE_SECONDS
from tickwise.ports.signals import Topic
from tickwise.ports.store import ClaimRequest
from tickwise.roles.scheduler.removals import HOLD_SECONDS, Removals
from tickwise.testing.factories import executor, outcome

TEAM = "team-a"
PATH = f"/namespaces/{TEAM}"
TASK = {"kind": "shell", "command": "true"}
CRON = {"name": "nightly", "cron": "0 3 * * *", "task": TASK}
NOW = {"name": "at once", "schedule_type": "IMMEDIATE", "task": TASK}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_800_000_000.0)


@pytest_asyncio.fixture
async def here(clock: VirtualClock) -> AsyncIterator[World]:
    async with world(clock=clock) as made:
        await in_team(made, "POST", "/namespaces", 201, namespace="default", json={"name": TEAM})
        yield made


async def in_team(here: World, method: str, path: str, status: int, *, namespace: str = TEAM, **options: Any) -> Any:
    """The body of the answer that an administrator gets there."""
    answer = await ask(here, ADMIN_KEY, method, path, namespace=namespace, **options)
    assert status == answer.status_code, answer.text
    return answer.json() if answer.content else None


async def close(here: World) -> None:
    """It takes nothing new."""
    await in_team(here, "PATCH", PATH, 200, namespace="default", json={"state": "closing"})


async def remove(here: World) -> Any:
    """The answer to its removal."""
    await close(here)
    return await in_team(here, "DELETE", PATH, 202, namespace="default")


def removals(here: World) -> Removals:
    """A scheduler's part in it."""
    return Removals(here.store.removals, NamespaceRemoval(here.control.context).page)


async def pages(here: World, clock: VirtualClock, most: int = 50) -> int:
    """Carry the removal out, until it waits for something; how many pages it took."""
    part = removals(here)
    for number in range(most):
        await clock.advance(0.001)
        if await part.step() > 0.0:
            return number
    raise AssertionError(f"not done after {most} pages")


async def test_a_removal_shows_what_is_left_and_ends_with_everything_gone(here: World, clock: VirtualClock) -> None:
    """Jobs end, logs, scripts and history go; then 404, and a namespace of the name has nothing of this one."""
    nightly = await in_team(here, "POST", "/jobs", 201, json={**CRON, "key": "nightly"})
    await in_team(here, "PUT", "/calendars/free", 201, json={"dates": ["2030-01-01"]})
    run = await finished_run(here, RunState.FAILED)
    blobs = here.control.context.blobs
    await blobs.put(log_chunk_key(run, 1, 0, last=True), b"a secret")
    await blobs.put(script_key(TEAM, "0" * 64), b"a script")
    begun = await remove(here)
    assert ("removing", {"jobs": 2, "unfinished_runs": 0, "ended_runs": 1}) == (begun["state"], begun["left"])
    taken = await in_team(here, "POST", "/namespaces", 409, namespace="default", json={"name": TEAM})
    assert "namespace_removing" == taken["code"]
    refused = await in_team(here, "PATCH", PATH, 409, namespace="default", json={"state": "active"})
    assert "namespace_removing" == refused["code"]
    await pages(here, clock)
    left = (await in_team(here, "GET", PATH, 200, namespace="default"))["left"]
    assert {"jobs": 0, "unfinished_runs": 0, "ended_runs": 0} == left
    assert ([], []) == (list(await blobs.list(logs_folder(run))), list(await blobs.list(scripts_folder(TEAM))))
    await clock.advance(SETTLE_SECONDS)
    await pages(here, clock)
    await in_team(here, "GET", PATH, 404, namespace="default")
    await in_team(here, "DELETE", PATH, 404, namespace="default")
    await in_team(here, "POST", "/namespaces", 201, namespace="default", json={"name": TEAM})
    for path in ("/jobs", "/runs", "/calendars", "/queues", "/dead-letters", "/operations"):
        assert [] == await in_team(here, "GET", path, 200), path
    await in_team(here, "GET", f"/jobs/{nightly['job_id']}", 404)
    await in_team(here, "GET", f"/runs/{run}/logs", 404)
    await clock.advance(5.0)
    await in_team(here, "POST", "/jobs", 201, json={**CRON, "key": "nightly"})


async def test_a_removal_waits_for_runs_to_stop(here: World, clock: VirtualClock) -> None:
    """They are asked to; a run whose executor is gone ends when that is found."""
    job = await in_team(here, "POST", "/jobs", 201, json=NOW)
    one = await here.store.executors.join(executor(queues=("default",), lease_seconds=10.0))
    [claimed] = await here.store.attempts.claim(
        ClaimRequest(executor=one, queues=("default",), labels=("task:shell",), limit=1, ahead_seconds=0.0)
    )
    assert UUID(job["job_id"]) == claimed.job_id
    await remove(here)
    await pages(here, clock)
    [asked] = (await here.store.executors.beat(one, 10.0)).cancels
    assert claimed.run_id == asked.run_id
    await clock.advance(SETTLE_SECONDS)
    await pages(here, clock)
    left = (await in_team(here, "GET", PATH, 200, namespace="default"))["left"]
    assert {"jobs": 1, "unfinished_runs": 1, "ended_runs": 0} == left
    await clock.advance(11.0)
    await here.store.executors.expire(crashes_max=3)
    await pages(here, clock)
    await in_team(here, "GET", PATH, 404, namespace="default")


async def test_a_task_that_does_not_stop_is_asked_once_on_record(here: World, clock: VirtualClock) -> None:
    """However often the removal looks; and with small pages each of the runs is asked."""
    for number in range(5):
        await in_team(here, "POST", "/jobs", 201, json={**NOW, "name": f"job {number}"})
    one = await here.store.executors.join(executor(queues=("default",), lease_seconds=600.0))
    request = ClaimRequest(executor=one, queues=("default",), labels=("task:shell",), limit=5, ahead_seconds=0.0)
    claims = await here.store.attempts.claim(request)
    await remove(here)
    carry_out = NamespaceRemoval(here.control.context)
    for _ in range(12):
        await carry_out.page(TEAM, 2)
        await clock.advance(1.0)
    asked = (await here.store.executors.beat(one, 600.0)).cancels
    assert {claimed.run_id for claimed in claims} == {each.run_id for each in asked}
    entries = await here.store.audit.find(AuditQuery(namespace=TEAM, action=AuditAction.RUN_CANCELLED, limit=100))
    assert len(entries) <= 5


async def test_the_keys_of_a_namespace_that_is_being_removed_are_refused_at_once(here: World) -> None:
    """In every process: what is remembered of keys is looked up again."""
    key = await here.key("a-key-of-the-team-with-32-characters", "jobs:read", namespace=TEAM)
    assert 200 == (await ask(here, key, "GET", "/jobs")).status_code
    await close(here)
    here.bell.rung.clear()
    await in_team(here, "DELETE", PATH, 202, namespace="default")
    assert Topic.KEYS in here.bell.rung


async def test_a_removal_goes_on_after_a_crash_at_any_page(here: World, clock: VirtualClock) -> None:
    """A scheduler that dies after a page leaves it taken until its hold is over; a page may be repeated."""
    for number in range(5):
        await in_team(here, "POST", "/jobs", 201, json={**CRON, "key": f"key-{number}"})
    run = await finished_run(here, RunState.SUCCESS)
    await remove(here)
    await clock.advance(SETTLE_SECONDS)
    carry_out, died = NamespaceRemoval(here.control.context), 0
    while await here.store.removals.take(HOLD_SECONDS) == TEAM:
        await carry_out.page(TEAM, 2)
        await carry_out.page(TEAM, 2)  # by another one, at the same time
        died += 1
        assert await here.store.removals.take(HOLD_SECONDS) is None
        await clock.advance(HOLD_SECONDS)
    assert died > 2
    assert await here.store.namespaces.get(TEAM) is None
    assert await here.store.runs.get(TEAM, run) is None


async def test_a_page_that_fails_is_tried_again_later(here: World, clock: VirtualClock) -> None:
    """And keeps no other removal from its turn."""
    await remove(here)

    async def fail(_name: str, _size: int) -> float | None:
        raise ValueError("a fault of ours")

    part = Removals(here.store.removals, fail)
    assert await part.step() > 0.0
    assert await here.store.removals.take(HOLD_SECONDS) is None
    await clock.advance(HOLD_SECONDS)
    assert TEAM == await here.store.removals.take(HOLD_SECONDS)


async def test_who_had_access_alone_has_none_once_a_removal_begins(here: World, clock: VirtualClock) -> None:
    """Its own keys are 401; keys of several namespaces lose this one."""
    own = await here.key("the-key-of-the-team-alone-32-characters", "jobs:read", namespace=TEAM)
    body = {"name": "ci", "role": "viewer", "namespaces": [TEAM, "default"]}
    both = (await in_team(here, "POST", "/keys", 201, namespace="default", json=body))["key"]
    await remove(here)
    await clock.advance(5.0)
    assert 401 == (await ask(here, own, "GET", "/jobs")).status_code
    assert 403 == (await ask(here, both, "GET", "/jobs", namespace=TEAM)).status_code
    assert 200 == (await ask(here, both, "GET", "/jobs")).status_code


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/jobs", CRON),
        ("POST", "/jobs:batch?atomic=true", [CRON]),
        ("PUT", "/jobs/by-key/new", CRON),
        ("POST", "/jobs/{job}/runNow", {}),
        ("POST", "/runs/{run}/retry", {}),
        ("POST", "/dead-letters/{run}/redrive", {}),
        ("POST", "/jobs/{job}/backfill", {"from": "2026-12-01T00:00:00Z", "to": "2026-12-03T00:00:00Z"}),
        ("POST", "/keys", {"name": "ci", "role": "viewer"}),
        ("PUT", "/calendars/new", {"dates": ["2030-01-01"]}),
    ],
)
async def test_a_closing_namespace_refuses_what_is_new(here: World, method: str, path: str, body: Any) -> None:
    """At once, whatever a process remembers; nothing is made."""
    job = await in_team(here, "POST", "/jobs", 201, json=CRON)
    run = await finished_run(here, RunState.FAILED)
    await close(here)
    status = 422 if "atomic" in path else 409
    refused = await in_team(here, method, path.format(job=job["job_id"], run=run), status, json=body)
    told = refused["results"][0]["problem"] if "atomic" in path else refused
    assert "namespace_closing" == told["code"]
    assert 2 == len(await in_team(here, "GET", "/jobs", 200))
    assert 1 == len(await in_team(here, "GET", "/runs", 200))


async def test_in_a_closing_namespace_jobs_can_still_be_changed(here: World) -> None:
    """Also by their key: nothing new comes by it."""
    job = await in_team(here, "POST", "/jobs", 201, json={**CRON, "key": "k"})
    await close(here)
    await in_team(here, "PUT", "/jobs/by-key/k", 200, json={**CRON, "name": "another"})
    await in_team(here, "POST", f"/jobs/{job['job_id']}/pause", 200, json={})
    await in_team(here, "DELETE", f"/jobs/{job['job_id']}", 200)


async def test_an_operation_that_runs_makes_nothing_in_a_closing_namespace(here: World, clock: VirtualClock) -> None:
    """What it would make is refused, on record; a removal ends the operation itself."""
    await finished_run(here, RunState.FAILED)
    accepted = await in_team(here, "POST", "/runs:retry", 202, json={"filter": {"all": True}})
    await close(here)
    row = await here.store.operations.take(30.0)
    assert row is not None
    page = await OperationPages(here.control.context).page(row, 100)
    assert (0, 1) == (page.done, page.refused)
    assert "namespace_closing" in page.problems
    await in_team(here, "DELETE", PATH, 202, namespace="default")
    await pages(here, clock)
    assert await here.store.operations.get(TEAM, UUID(accepted["operation_id"])) is None


async def finished_run(here: World, state: RunState) -> UUID:
    """A run of a job of the team that has ended so."""
    await in_team(here, "POST", "/jobs", 201, json=NOW)
    one = await here.store.executors.join(executor(queues=("default",), lease_seconds=3600.0))
    [claimed] = await here.store.attempts.claim(
        ClaimRequest(executor=one, queues=("default",), labels=("task:shell",), limit=1, ahead_seconds=0.0)
    )
    assert [] == list(await here.store.attempts.finish(one, [outcome(claimed, state)]))
    clock: Any = here.clock
    await clock.advance(1.0)
    return claimed.run_id
