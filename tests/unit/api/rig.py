"""A memory store, a virtual clock, and what tests of schedules over HTTP do with them."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from tests.support.app import API, World
from tickwise.adapters.clock import VirtualClock
from tickwise.documents.calendars import CalendarBody, StoredCalendar, encode_calendar, written
from tickwise.documents.definition import decode_definition
from tickwise.domain.calendar.entries import Entry
from tickwise.domain.calendar.rules import Calendar, Weekly
from tickwise.domain.decision import decide
from tickwise.domain.model import Trigger, run_id
from tickwise.ports.store import Began, ClaimRequest, Fire, FireRequest, JobRow, NewExecutor, NewRun, RuleKind, RuleRow
from tickwise.testing.contracts.base import taken

START = 1_800_000_000.0  # 2027-01-15T08:00:00Z, a Friday, where the virtual clock begins
SHELL = {"kind": "shell", "command": "date"}


async def pass_time(here: World, seconds: float) -> None:
    await cast(VirtualClock, here.clock).advance(seconds)


async def create(here: World, **body: Any) -> str:
    """A stored job's id."""
    answer = await here.client.post(f"{API}/jobs", json={"name": "a", "task": SHELL, **body})
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def get(here: World, path: str) -> Any:
    answer = await here.client.get(API + path)
    assert 200 == answer.status_code, answer.text
    return answer.json()


async def put(here: World, job_id: str, **body: Any) -> Any:
    answer = await here.client.put(f"{API}/jobs/{job_id}", json=body)
    assert 200 == answer.status_code, answer.text
    return answer.json()


async def post(here: World, path: str, status: int = 200, /, **body: Any) -> Any:
    answer = await here.client.post(API + path, json=body or None)
    assert status == answer.status_code, answer.text
    return answer.json()


async def stored(here: World, job_id: str) -> JobRow:
    row = await here.store.jobs.get("default", UUID(job_id))
    assert row is not None
    return row


async def calendar(here: World, name: str, *entries: Entry) -> None:
    """A stored calendar."""
    found = Calendar("UTC", entries)
    resolved = written(found)
    said = CalendarBody(dates=resolved.dates, weekly=resolved.weekly, periods=resolved.periods)
    body = encode_calendar(StoredCalendar(found, said))
    await here.store.rules.put(RuleRow(namespace="default", kind=RuleKind.CALENDAR, name=name, body=body))


WEEKENDS = Weekly(frozenset({5, 6}), 0, 86_400, "weekend")


async def plan_ahead(here: World, seconds: float) -> None:
    """What a scheduler does: every timer that is due within so many seconds is decided."""
    async with taken(here.store, FireRequest(horizon_seconds=seconds, limit=100)) as batch:
        fires = []
        for timer in batch.timers:
            schedule = decode_definition(timer.definition).schedule(timer.job_id)
            decision = decide(schedule, timer.pending, now=batch.now, until=batch.now + seconds)
            runs = [
                NewRun(run_id(timer.job_id, fire.nominal), fire.due, Trigger.SCHEDULE, nominal=fire.nominal)
                for fire in decision.fires
            ]
            fires.append(Fire(timer.job_id, timer.pending.due, decision.next, runs))
        await batch.commit(fires)


async def settled(here: World, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs, after an executor took and tried to start all of them."""
    executor = await here.store.executors.join(
        NewExecutor(
            number=1, name="e", queues=["default"], labels=["task:shell"], functions=[], slots=9, lease_seconds=60
        )
    )
    claimed = await here.store.attempts.claim(
        ClaimRequest(executor=executor, queues=["default"], labels=["task:shell"], limit=9, ahead_seconds=0)
    )
    for held in claimed:
        await here.store.attempts.start(executor, [Began(held.run_id, held.token, await here.store.now())])
    return [await get(here, f"/runs/{run['run_id']}") for run in runs]
