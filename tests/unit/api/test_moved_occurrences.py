"""Single occurrences and ranges over HTTP: skip the next one, snooze it, backfill the past."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date
from typing import Any, TypeVar
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import (
    START,
    WEEKENDS,
    calendar,
    create,
    get,
    pass_time,
    plan_ahead,
    post,
    settled,
    stored,
)
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.calendar.rules import Dates
from tickwise.domain.decision import Hold, TimerState
from tickwise.domain.errors import InDoubt
from tickwise.domain.lifecycle import CancelKind
from tickwise.domain.model import run_id
from tickwise.ports.clock import Clock
from tickwise.ports.store import ClaimRequest, Fire, FireRequest, JobRow, NewExecutor, OccurrenceMove
from tickwise.testing.contracts.base import taken

T = TypeVar("T")


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    clock = VirtualClock(START)
    async with world(clock=clock) as made:
        yield made


# ------------------------------------------------------------------------------------------ one occurrence


async def test_the_next_occurrence_is_skipped_and_the_schedule_stays(here: World) -> None:
    """With who and why on record; sent again it skips the one after."""
    job_id = await create(here, cron="0 * * * *")
    first = await post(here, f"/jobs/{job_id}/skipNext", reason="release")
    assert ("2027-01-15T09:00:00Z", None, "SKIPPED") == (first["nominal_time"], first["due_time"], first["status"])
    record = await get(here, f"/runs/{first['run_id']}")
    assert ("SKIPPED", "requested", "skipped by admin: release") == (
        record["status"], record["reason"], record["error_message"],
    )  # fmt: skip
    second = await here.client.post(f"{API}/jobs/{job_id}/skipNext")
    assert "2027-01-15T10:00:00Z" == second.json()["nominal_time"]
    job = await get(here, f"/jobs/{job_id}")
    assert ("2027-01-15T11:00:00Z", 3) == (job["next_run_at"], job["version"])


async def test_an_occurrence_that_is_named_is_skipped_once(here: World) -> None:
    """409 if another one is the next by now, so that repeating a request does no harm."""
    job_id = await create(here, cron="0 * * * *")
    path = f"/jobs/{job_id}/skipNext"
    await post(here, path, occurrence="2027-01-15T09:00:00Z")
    again = await here.client.post(API + path, json={"occurrence": "2027-01-15T09:00:00Z"})
    assert (409, "occurrence_not_next") == (again.status_code, again.json()["code"])
    assert "2027-01-15T10:00:00Z" in again.json()["detail"]


async def at_once(write: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Repeated without a pause, for which a virtual clock would have to be moved."""
    try:
        return await write()
    except InDoubt:
        return await write()


@pytest.mark.parametrize(
    ("action", "body"), [("skipNext", {}), ("snooze", {"until": "2027-01-15T08:30:00Z"})], ids=["skip", "snooze"]
)
async def test_a_move_whose_answer_was_lost_concerns_no_other_occurrence(
    here: World, monkeypatch: pytest.MonkeyPatch, action: str, body: dict[str, Any]
) -> None:
    """Though a scheduler has moved the timer on by the time of the repeat."""
    job_id = await create(here, cron="* * * * * *", overlap="allow")
    real = here.store.jobs.move
    moves: list[OccurrenceMove] = []

    async def jobs_move(move: OccurrenceMove, **said: Any) -> JobRow:
        moves.append(move)
        row = await real(move, **said)
        if len(moves) == 1:
            await plan_ahead(here, 5.0)
            raise InDoubt("the link broke")
        return row

    monkeypatch.setattr(here.store.jobs, "move", jobs_move)
    monkeypatch.setattr("tickwise.control.context.surely", at_once)
    told = await post(here, f"/jobs/{job_id}/{action}", **body)
    assert "2027-01-15T08:00:01Z" == told["nominal_time"]
    assert {told["run_id"]} == {str(made.run_id) for move in moves for made in (move.skip, move.run) if made}


async def test_a_run_that_was_made_ahead_is_skipped(here: World) -> None:
    """The next occurrence is a run already: a free one ends, a held one is asked back, a begun one goes on."""
    job_id = await create(here, cron="0 * * * *")
    await pass_time(here, 3_599)
    await plan_ahead(here, 2.0)
    first = await post(here, f"/jobs/{job_id}/skipNext")
    assert ("2027-01-15T09:00:00Z", "SKIPPED") == (first["nominal_time"], first["status"])
    assert "SKIPPED" == (await get(here, f"/runs/{first['run_id']}"))["status"]
    await pass_time(here, 3_600)
    await plan_ahead(here, 2.0)
    executor = await here.store.executors.join(
        NewExecutor(
            number=1, name="e", queues=["default"], labels=["task:shell"], functions=[], slots=9, lease_seconds=60
        )
    )
    claim = ClaimRequest(executor=executor, queues=["default"], labels=["task:shell"], limit=9, ahead_seconds=5)
    assert 1 == len(await here.store.attempts.claim(claim))
    held = await post(here, f"/jobs/{job_id}/skipNext", 202)
    assert ("2027-01-15T10:00:00Z", "DISPATCHED") == (held["nominal_time"], held["status"])
    snoozed = await here.client.post(f"{API}/jobs/{job_id}/snooze", json={"until": "2027-01-15T12:00:00Z"})
    assert (409, "occurrence_begun") == (snoozed.status_code, snoozed.json()["code"])


@pytest.mark.parametrize("made_ahead", [False, True])
async def test_the_next_occurrence_runs_later(here: World, made_ahead: bool) -> None:
    """It keeps its name and its nominal time, and the one after comes at its own time."""
    job_id = await create(here, cron="0 * * * *")
    if made_ahead:
        await pass_time(here, 3_599)
        await plan_ahead(here, 2.0)
    found = await post(here, f"/jobs/{job_id}/snooze", until="2027-01-15T09:45:00Z")
    assert str(run_id(UUID(job_id), START + 3_600)) == found["run_id"]
    run = await get(here, f"/runs/{found['run_id']}")
    assert ("QUEUED", "schedule", "2027-01-15T09:00:00Z", "2027-01-15T09:45:00Z") == (
        run["status"], run["trigger"], run["nominal_time"], run["due_time"],
    )  # fmt: skip
    timer = (await stored(here, job_id)).timer
    assert timer is not None
    assert (START + 7_200, 1) == (timer.due, timer.fired)


@pytest.mark.parametrize("until", ["2027-01-15T09:00:00Z", "2027-01-15T07:00:00Z", "2028-02-15T07:00:00Z"])
async def test_a_snooze_is_bounded(here: World, until: str) -> None:
    """After the occurrence's own time, and within 366 days."""
    job_id = await create(here, cron="0 * * * *")
    answer = await here.client.post(f"{API}/jobs/{job_id}/snooze", json={"until": until})
    assert (422, "/until") == (answer.status_code, answer.json()["pointer"])


async def test_a_snoozed_occurrence_counts_as_a_run(here: World) -> None:
    """The last of max_runs ends the schedule."""
    job_id = await create(here, cron="0 * * * *", max_runs=1)
    await post(here, f"/jobs/{job_id}/snooze", until="2027-01-15T12:00:00Z")
    assert (await stored(here, job_id)).timer is None
    assert "2027-01-15T12:00:00Z" == (await get(here, f"/jobs/{job_id}"))["next_run_at"]


@pytest.mark.parametrize(("snoozed", "asked"), [(True, CancelKind.RETURN), (False, CancelKind.REVOKE)])
async def test_an_occurrence_that_a_schedule_names_again_in_a_pause_stays_within_it(
    here: World, snoozed: bool, asked: CancelKind
) -> None:
    """The schedule was changed and changed back while the job was paused: a snoozed one waits for the end of the pause,
    any other is skipped."""
    job_id = await create(here, cron="0 * * * *")
    if snoozed:
        await post(here, f"/jobs/{job_id}/snooze", until="2027-01-15T09:30:00Z")
    await pass_time(here, 3_590)
    await plan_ahead(here, 20.0)
    executor = await here.store.executors.join(
        NewExecutor(
            number=1, name="e", queues=["default"], labels=["task:shell"], functions=[], slots=9, lease_seconds=60
        )
    )
    claim = ClaimRequest(executor=executor, queues=["default"], labels=["task:shell"], limit=9, ahead_seconds=7_200)
    [claimed] = await here.store.attempts.claim(claim)
    await post(here, f"/jobs/{job_id}/pause")
    for cron in ("30 12 * * *", "0 * * * *"):
        changed = await here.client.patch(f"{API}/jobs/{job_id}", json={"cron": cron})
        assert changed.status_code == 200, changed.text
    beat = await here.store.executors.beat(executor, 60.0)
    assert [(claimed.run_id, asked)] == [(each.run_id, each.kind) for each in beat.cancels]


@pytest.mark.parametrize(("action", "body"), [("skipNext", {}), ("snooze", {"until": "2027-01-20T00:00:00Z"})])
async def test_there_must_be_an_occurrence_to_move(here: World, action: str, body: dict[str, Any]) -> None:
    """409 with a code for each reason why there is none."""
    await calendar(here, "off", Dates(date(2027, 1, 15), date(9000, 12, 31)))
    once = await create(here, at="2027-01-15T09:00:00Z")
    over = await create(here, cron="0 * * * *", end_at="2027-01-15T08:30:00Z")
    paused = await create(here, cron="0 * * * *")
    await post(here, f"/jobs/{paused}/pause")
    closed = await create(here, cron="0 * * * *", calendars=[{"name": "off"}])
    codes = []
    for job_id in (once, over, paused, closed):
        answer = await here.client.post(f"{API}/jobs/{job_id}/{action}", json=body)
        assert 409 == answer.status_code, answer.text
        codes.append(answer.json()["code"])
    assert ["job_not_recurring", "no_occurrence", "job_paused", "occurrence_closed"] == codes


async def test_what_is_held_back_is_moved_as_one(here: World) -> None:
    """It would have become one run: skipped, it is one record with count and range; snoozed, it is one run, later."""
    job_ids = [await create(here, cron="0 * * * *") for _ in range(2)]
    held = TimerState(START + 4.5 * 3_600, START + 3_600, Hold.CALENDAR)
    async with taken(here.store, FireRequest(horizon_seconds=4_000, limit=10)) as batch:
        await batch.commit([Fire(UUID(job_id), START + 3_600, held, ()) for job_id in job_ids])
    skipped = await post(here, f"/jobs/{job_ids[0]}/skipNext")
    record = await get(here, f"/runs/{skipped['run_id']}")
    assert ("requested", 4, "2027-01-15T12:00:00Z") == (record["reason"], record["occurrences"], record["until"])
    assert TimerState(START + 5 * 3_600) == (await stored(here, job_ids[0])).timer
    snoozed = await post(here, f"/jobs/{job_ids[1]}/snooze", until="2027-01-15T15:00:00Z")
    assert ("2027-01-15T09:00:00Z", "2027-01-15T15:00:00Z") == (snoozed["nominal_time"], snoozed["due_time"])
    merged = await get(here, f"/runs/{run_id(UUID(job_ids[1]), START + 7_200)}")
    assert ("SKIPPED", "calendar", 3, "2027-01-15T12:00:00Z") == (
        merged["status"], merged["reason"], merged["occurrences"], merged["until"],
    )  # fmt: skip
    assert TimerState(START + 5 * 3_600, fired=1) == (await stored(here, job_ids[1])).timer


async def test_what_was_held_back_and_snoozed_begins_no_earlier(here: World) -> None:
    """Though any calendar or window is changed meanwhile, and what is held back by one is looked at again."""
    job_id = await create(here, cron="0 * * * *")
    held = TimerState(START + 4.5 * 3_600, START + 3_600, Hold.CALENDAR)
    async with taken(here.store, FireRequest(horizon_seconds=4_000, limit=10)) as batch:
        await batch.commit([Fire(UUID(job_id), START + 3_600, held, ())])
    await pass_time(here, 2 * 3_600)
    snoozed = await post(here, f"/jobs/{job_id}/snooze", until="2027-01-15T15:00:00Z")
    await calendar(here, "another", Dates(date(2027, 5, 1), date(2027, 5, 1)))
    await plan_ahead(here, 2.0)
    runs = await get(here, f"/runs?job_id={job_id}&status=QUEUED")
    assert [(snoozed["run_id"], "2027-01-15T15:00:00Z")] == [(run["run_id"], run["due_time"]) for run in runs]


async def test_what_is_held_back_to_be_skipped_is_passed_over(here: World) -> None:
    """It would not run anyway, as little as one that is not decided yet: the first behind it is moved."""
    await calendar(here, "off", Dates(date(2027, 1, 15), date(2027, 1, 15)))
    job_id = await create(here, cron="* * * * * *", calendars=[{"name": "off"}])
    held = TimerState(START + 16 * 3_600, START + 1, Hold.CALENDAR)
    async with taken(here.store, FireRequest(horizon_seconds=2, limit=10)) as batch:
        await batch.commit([Fire(UUID(job_id), START + 1, held, ())])
    snoozed = await post(here, f"/jobs/{job_id}/snooze", until="2027-01-20T00:00:00Z")
    assert ("2027-01-16T00:00:00Z", "2027-01-20T00:00:00Z") == (snoozed["nominal_time"], snoozed["due_time"])
    record = await get(here, f"/runs/{run_id(UUID(job_id), START + 1)}")
    assert ("SKIPPED", "calendar", 57_599) == (record["status"], record["reason"], record["occurrences"])
    assert TimerState(START + 16 * 3_600 + 1, fired=1) == (await stored(here, job_id)).timer


async def test_the_next_occurrence_is_the_first_that_calendars_let_run(here: World) -> None:
    """Those before it go on record with it, each closure once, for its own reason; the preview named the same."""
    await calendar(here, "weekends", WEEKENDS)
    await calendar(here, "monday", Dates(date(2027, 1, 18), date(2027, 1, 18)))
    job_id = await create(here, cron="0 7 * * *", calendars=[{"name": "weekends"}, {"name": "monday"}])
    fires = (await get(here, f"/jobs/{job_id}/preview"))["fires"]
    named = next(fire["due"] for fire in fires if fire["due"] is not None)
    skipped = await post(here, f"/jobs/{job_id}/skipNext", reason="release")
    assert ("2027-01-19T07:00:00Z", named) == (skipped["nominal_time"], skipped["nominal_time"])
    runs = await get(here, f"/jobs/{job_id}/runs?status=SKIPPED")
    assert [
        ("2027-01-16T07:00:00Z", "calendar", 1),
        ("2027-01-17T07:00:00Z", "calendar", 1),
        ("2027-01-18T07:00:00Z", "calendar", 1),
        ("2027-01-19T07:00:00Z", "requested", 1),
    ] == sorted((run["nominal_time"], run["reason"], run["occurrences"]) for run in runs)
    assert "2027-01-20T07:00:00Z" == (await get(here, f"/jobs/{job_id}"))["next_run_at"]


async def test_a_closed_occurrence_that_is_named_is_not_skipped(here: World) -> None:
    """It would not run anyway, and nothing goes on record; one that is past is not the next."""
    await calendar(here, "weekends", WEEKENDS)
    job_id = await create(here, cron="0 7 * * *", calendars=[{"name": "weekends"}])
    path = f"{API}/jobs/{job_id}/skipNext"
    codes = []
    for named in ("2027-01-16T07:00:00Z", "2027-01-17T07:00:00Z", "2027-01-14T07:00:00Z", "2027-01-19T07:00:00Z"):
        answer = await here.client.post(path, json={"occurrence": named})
        codes.append((answer.status_code, answer.json()["code"]))
    closed, other = (409, "occurrence_closed"), (409, "occurrence_not_next")
    assert [closed, closed, other, other] == codes
    assert [] == await get(here, f"/jobs/{job_id}/runs")
    assert (
        "2027-01-18T07:00:00Z"
        == (await post(here, f"/jobs/{job_id}/skipNext", occurrence="2027-01-18T07:00:00Z"))["nominal_time"]
    )


# ------------------------------------------------------------------------------------------ backfill


async def test_a_range_of_the_past_is_run_in_order(here: World) -> None:
    """Each run keeps its nominal time, is due now, and waits for the one before it."""
    job_id = await create(here, cron="0 0 * * *")
    done = await post(
        here, f"/jobs/{job_id}/backfill", 202, **{"from": "2027-01-01T00:00:00Z", "to": "2027-01-03T12:00:00Z"}
    )
    assert (3, "2027-01-01T00:00:00Z", "2027-01-03T00:00:00Z", 0, False) == (
        done["count"], done["first"], done["last"], done["closed"], done["more"],
    )  # fmt: skip
    runs = await get(here, f"/jobs/{job_id}/runs?trigger=backfill&origin={done['backfill_id']}")
    assert [
        (f"2027-01-0{day}T00:00:00Z", "2027-01-15T08:00:00Z", "backfill", done["backfill_id"], None)
        for day in (3, 2, 1)
    ] == [(run["nominal_time"], run["due_time"], run["trigger"], run["backfill_id"], run["retry_of"]) for run in runs]
    assert [True, True, False] == [run["waiting"] for run in await settled(here, runs)]
    assert [] == await get(here, f"/jobs/{job_id}/runs?trigger=schedule")


async def test_a_backfill_is_cancelled_by_its_id(here: World) -> None:
    """All of its unfinished runs, and nothing else."""
    job_id = await create(here, cron="0 0 * * *")
    span = {"from": "2027-01-01T00:00:00Z", "to": "2027-01-03T12:00:00Z", "overlap": "allow", "payload": {"x": 1}}
    first, second = [await post(here, f"/jobs/{job_id}/backfill", 202, **span) for _ in range(2)]
    path = f"/jobs/{job_id}/backfills/{first['backfill_id']}/cancel"
    assert [{"cancelled": 3}, {"cancelled": 0}] == [await post(here, path) for _ in range(2)]
    states = {
        made["backfill_id"]: {run["status"] for run in await get(here, f"/runs?origin={made['backfill_id']}")}
        for made in (first, second)
    }
    assert {first["backfill_id"]: {"CANCELLED"}, second["backfill_id"]: {"QUEUED"}} == states


async def test_a_backfill_under_a_key_is_done_once(here: World) -> None:
    """The replay gives the first answer, with the same id."""
    job_id = await create(here, cron="0 0 * * *")
    body = {"from": "2027-01-01T00:00:00Z", "to": "2027-01-03T12:00:00Z"}
    answers = [
        await here.client.post(f"{API}/jobs/{job_id}/backfill", json=body, headers={"Idempotency-Key": "once"})
        for _ in range(2)
    ]
    assert [202, 202] == [answer.status_code for answer in answers]
    assert answers[0].json() == answers[1].json()
    assert 3 == len(await get(here, f"/jobs/{job_id}/runs"))


async def test_a_backfill_goes_by_the_calendars(here: World) -> None:
    """What they close is not run, and counted; with a limit the answer says where to go on."""
    await calendar(here, "off", WEEKENDS)
    job_id = await create(here, cron="0 0 * * *", calendars=[{"name": "off"}])
    span = {"from": "2027-01-01T00:00:00Z", "to": "2027-01-10T12:00:00Z"}  # a Friday to a Sunday
    done = await post(here, f"/jobs/{job_id}/backfill", 202, **span)
    assert (6, 4, False) == (done["count"], done["closed"], done["more"])
    part = await post(here, f"/jobs/{job_id}/backfill", 202, **span, limit=2)
    assert (2, 2, True, "2027-01-04T00:00:00Z") == (part["count"], part["closed"], part["more"], part["last"])
    nothing = {"from": "2027-01-02T00:00:00Z", "to": "2027-01-03T12:00:00Z"}
    refused = await here.client.post(f"{API}/jobs/{job_id}/backfill", json=nothing)
    assert (409, "occurrence_closed") == (refused.status_code, refused.json()["code"])


@pytest.mark.parametrize(
    ("span", "pointer", "says"),
    [
        (("2027-01-02T00:00:00Z", "2027-01-01T00:00:00Z"), "/to", "before from"),
        (("2027-01-02T00:00:00Z", "2027-01-15T08:00:01Z"), "/to", "in the future"),
        (("2027-01-02T00:00:01Z", "2027-01-02T00:00:59Z"), "/from", "names no time"),
        (("2026-01-02T00:00:00Z", "2027-01-02T00:00:00Z"), "/to", "525601 occurrences"),
    ],
)
async def test_a_range_that_cannot_be_run_is_refused(
    here: World, span: tuple[str, str], pointer: str, says: str
) -> None:
    """422, with what is wrong with it and what to do."""
    job_id = await create(here, cron="* * * * *")
    answer = await here.client.post(f"{API}/jobs/{job_id}/backfill", json=dict(zip(("from", "to"), span, strict=True)))
    assert (422, pointer) == (answer.status_code, answer.json()["pointer"]), answer.text
    assert says in answer.json()["detail"]


async def test_payloads_of_a_backfill_are_bounded(here: World) -> None:
    """A large one for each of a thousand runs is refused before anything is stored."""
    job_id = await create(here, cron="* * * * *")
    body = {"from": "2027-01-01T00:00:00Z", "to": "2027-01-01T10:00:00Z", "payload": "x" * 100_000}
    answer = await here.client.post(f"{API}/jobs/{job_id}/backfill", json=body)
    assert (422, "/payload") == (answer.status_code, answer.json()["pointer"])
    assert [] == await get(here, f"/jobs/{job_id}/runs")


# ------------------------------------------------------------------------------------------ what others show of it


async def test_a_preview_shows_what_was_skipped_and_snoozed(here: World) -> None:
    """Neither fires at its time. A snoozed one whose own time has passed leads, as long as it has yet to run."""
    job_id = await create(here, cron="0 * * * *")
    await post(here, f"/jobs/{job_id}/skipNext", reason="no need")
    await post(here, f"/jobs/{job_id}/snooze", occurrence="2027-01-15T10:00:00Z", until="2027-01-15T10:45:00Z")

    async def shown() -> list[tuple[str, str, str | None]]:
        fires = (await get(here, f"/jobs/{job_id}/preview?count=3"))["fires"]
        return [(each["utc"], each["decision"], each["due"]) for each in fires]

    assert [
        ("2027-01-15T09:00:00Z", "skip", None),
        ("2027-01-15T10:00:00Z", "defer", "2027-01-15T10:45:00Z"),
        ("2027-01-15T11:00:00Z", "fire", "2027-01-15T11:00:00Z"),
    ] == await shown()
    first, second, _ = (await get(here, f"/jobs/{job_id}/preview?count=3"))["fires"]
    assert ("skipped by admin: no need", "snoozed to 2027-01-15T10:45:00Z") == (first["note"], second["note"])
    await pass_time(here, 2 * 3_600 + 60)
    assert [
        ("2027-01-15T10:00:00Z", "defer", "2027-01-15T10:45:00Z"),
        ("2027-01-15T11:00:00Z", "fire", "2027-01-15T11:00:00Z"),
        ("2027-01-15T12:00:00Z", "fire", "2027-01-15T12:00:00Z"),
    ] == await shown()


async def test_a_preview_shows_a_pause_and_a_cancel(here: World) -> None:
    """What falls into the pause is skipped, with who and why; of a cancelled job nothing runs."""
    job_id = await create(here, cron="0 * * * *")
    await post(here, f"/jobs/{job_id}/pause", until="2027-01-15T10:30:00Z", reason="release")
    said = "the job is paused by admin, since 2027-01-15T08:00:00Z, until 2027-01-15T10:30:00Z: release"
    fires = (await get(here, f"/jobs/{job_id}/preview?count=3"))["fires"]
    assert [("skip", said), ("skip", said), ("fire", None)] == [(each["decision"], each.get("note")) for each in fires]
    assert (await here.client.delete(f"{API}/jobs/{job_id}")).is_success
    fires = (await get(here, f"/jobs/{job_id}/preview?count=2"))["fires"]
    assert [("skip", "the job is cancelled, for good")] * 2 == [(each["decision"], each["note"]) for each in fires]


async def test_a_preview_counts_what_was_made_towards_max_runs(here: World) -> None:
    """A snoozed run is one of them, and a skipped occurrence is not."""
    job_id = await create(here, cron="0 * * * *", max_runs=2)
    await post(here, f"/jobs/{job_id}/skipNext")
    await post(here, f"/jobs/{job_id}/snooze", until="2027-01-15T10:45:00Z")
    fires = (await get(here, f"/jobs/{job_id}/preview?count=9"))["fires"]
    assert ["skip", "defer", "fire"] == [each["decision"] for each in fires]


async def test_a_skipped_occurrence_to_come_is_not_the_latest_run(here: World) -> None:
    """`/status` tells of the last run that there was; of none, of none."""
    job_id = await create(here, cron="0 * * * *")
    await post(here, f"/jobs/{job_id}/skipNext")
    assert (await get(here, f"/jobs/{job_id}/status"))["latest_run"] is None
    ran = await post(here, f"/jobs/{job_id}/runNow", 202)
    assert ran["run_id"] == (await get(here, f"/jobs/{job_id}/status"))["latest_run"]["run_id"]
    await pass_time(here, 3_600)
    assert "SKIPPED" == (await get(here, f"/jobs/{job_id}/status"))["latest_run"]["status"]


@pytest.mark.parametrize("missed", ["skip", "run_latest", "run_all"])
async def test_a_pause_does_not_lose_a_snoozed_run(here: World, missed: str) -> None:
    """It stays what it is, and runs after the resume at its time, whatever is made up for."""
    job_id = await create(here, cron="0 * * * *")
    moved = await post(here, f"/jobs/{job_id}/snooze", until="2027-01-15T12:30:00Z")
    await post(here, f"/jobs/{job_id}/pause")
    await pass_time(here, 3 * 3_600)
    await post(here, f"/jobs/{job_id}/resume", missed=missed)
    run = await get(here, f"/runs/{moved['run_id']}")
    assert ("QUEUED", "2027-01-15T12:30:00Z") == (run["status"], run["due_time"])


async def test_skipped_occurrences_to_come_do_not_lead_the_list_of_runs(here: World) -> None:
    """However many there are: what ran stands first. Asked for by their state, they are found."""
    job_id = await create(here, cron="0 * * * *")
    ran = [(await post(here, f"/jobs/{job_id}/runNow", 202))["run_id"] for _ in range(3)]
    for _ in range(5):
        await post(here, f"/jobs/{job_id}/skipNext")
    for path in (f"/jobs/{job_id}/runs", "/runs"):
        for limit in (2, 3, 50):
            listed = await get(here, f"{path}?limit={limit}")
            assert [each["run_id"] for each in listed] == sorted(ran, reverse=True)[:limit]
        assert 5 == len(await get(here, f"{path}?status=SKIPPED"))
