"""Whatever is done to a job's schedule, and whenever: nothing of the past runs for it, and nothing falls silent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.app import Bell
from tests.support.kinds import builtin_kinds
from tests.support.scene import scene
from tests.unit.roles.rig import Silent
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.control.bodies import JobBody, MissedMode, PauseBody, ResumeBody, SkipNextBody
from tickwise.control.context import ControlContext
from tickwise.control.control import Control
from tickwise.control.jobs.submission import Submitted
from tickwise.documents.definition import Plan, decode_definition
from tickwise.domain.decision import TimerState
from tickwise.domain.errors import Conflict, Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal, Trigger
from tickwise.domain.schedule import Schedule, fires_between
from tickwise.ports.store import JobChange, JobRow, Retention, RunQuery, RunRow
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings

START = 1_800_000_000.0
WHO = Principal("someone", "default", frozenset({"*"}))

SCHEDULES = st.sampled_from(
    [
        {"every": "7s"}, {"every": "90s"}, {"every": "1h"}, {"cron": "*/5 * * * *"}, {"cron": "30 * * * *"},
        {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}, {"cron": "@every 45s"}, {"cron": "*/10 * * * * *"},
    ]
)  # fmt: skip
DETAILS = st.sampled_from([{"timezone": "Asia/Kolkata"}, {"timezone": "UTC"}, {"end_at": "soon"}, {"start_at": "soon"}])
STEPS = st.one_of(
    st.tuples(st.just("edit"), SCHEDULES),
    st.tuples(st.just("edit"), DETAILS),
    st.tuples(st.just("fire"), st.none()),
    st.tuples(st.just("pause"), st.sampled_from([None, 600.0])),
    st.tuples(st.just("resume"), st.sampled_from([*MissedMode])),
    st.tuples(st.just("skip"), st.none()),
)
LOOK = (0.0, ("fire", None))
"""A scheduler looks right after; with this after each step, few times pass unseen."""
WAITS = st.one_of(st.floats(0, 3), st.floats(0, 4_000))
"""Nobody fires meanwhile: short ones are everyday life, long ones are an outage of all schedulers."""


@dataclass(slots=True)
class House:
    """A control and a scheduler on one memory store."""

    clock: VirtualClock = field(default_factory=lambda: VirtualClock(START))
    store: MemoryStore = field(init=False)
    control: Control = field(init=False)
    scheduler: Scheduler = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock)
        bell, blobs = Bell(), open_blobs("memory://")
        kinds = {kind.name: kind for kind in builtin_kinds()}
        self.control = Control(
            ControlContext(
                sandboxes=False,
                store=self.store,
                blobs=blobs,
                signals=bell,
                clock=self.clock,
            ),
            keys=self.store.keys,
            kinds=kinds,
            calendars=CalendarFiles(),
        )
        self.scheduler = Scheduler(
            store=self.store,
            blobs=blobs,
            signals=bell,
            clock=self.clock,
            settings=SchedulerSettings(retention=Retention(runs_seconds=1e9, failed_seconds=1e9)),
            telemetry=Silent(),
        )

    async def runs(self, job_id: UUID) -> list[RunRow]:
        """All that is on record of a job."""
        return list(await self.store.searches.runs(RunQuery(namespace="default", job_id=job_id, limit=100_000)))

    async def plan(self, job_id: UUID) -> Plan:
        """As it is stored."""
        row = await self.store.jobs.get("default", job_id)
        assert row is not None
        return decode_definition(row.definition)


def body(said: dict[str, Any], now: float) -> JobBody:
    """What is said, with `soon` as a time."""
    soon = datetime.fromtimestamp(now, UTC) + timedelta(seconds=1_000)
    text = msgspec.json.encode({name: soon if value == "soon" else value for name, value in said.items()})
    return msgspec.json.decode(text, type=JobBody)


def by_schedule(runs: list[RunRow]) -> set[UUID]:
    """Those that run, or ran, because the schedule said so."""
    return {run.run_id for run in runs if run.state is not RunState.SKIPPED and run.trigger == Trigger.SCHEDULE}


@settings(max_examples=200)
@given(
    first=SCHEDULES,
    mode=st.sampled_from(["skip", "latest", "all"]),
    steps=st.lists(st.tuples(WAITS, STEPS), min_size=1, max_size=12),
    looks=st.booleans(),
)
def test_edits_never_reach_back_and_nothing_falls_silent(first: Any, mode: str, steps: Any, looks: bool) -> None:
    """At an edit nothing is made, and what is made afterwards comes after it; each time that a schedule named while it
    was the job's own has a run, or a record that says why not."""
    asyncio.run(_live(first, mode, [each for step in steps for each in (step, *[LOOK] * looks)]))


async def _live(first: dict[str, Any], mode: str, steps: list[tuple[float, tuple[str, Any]]]) -> None:
    runtime = House()
    await runtime.control.start()
    task = {"name": "a", "task": {"kind": "shell", "command": "date"}, "misfire": {"mode": mode}}
    made = await runtime.control.requests.create(WHO, lambda: body({**task, **first}, START))
    assert isinstance(made, Submitted)
    job_id = made.job_id
    plan = await runtime.plan(job_id)
    begins, before_edit = [(START, plan.schedule(job_id))], set[UUID]()
    for wait, (action, said) in steps:
        await runtime.clock.advance(wait)
        now = runtime.clock.now()
        if action == "edit":
            made_before = by_schedule(await runtime.runs(job_id))
            await _done(runtime.control.requests.change(WHO, job_id, body(said, now), text=b""))
            changed = await runtime.plan(job_id)
            # What says the same as before, or cannot be, is no edit.
            if changed != plan and changed.planned_at is not None:
                plan, before_edit = changed, made_before
                begins.append((changed.planned_at, changed.schedule(job_id)))
            # It may have taken some of them away.
            assert by_schedule(await runtime.runs(job_id)) <= made_before
        elif action == "fire":
            await runtime.scheduler.fire_due()
        elif action == "pause":
            until = None if said is None else datetime.fromtimestamp(now + said, UTC)
            await _done(runtime.control.jobs.pause(WHO, job_id, PauseBody(until=until)))
        elif action == "resume":
            await _done(runtime.control.jobs.resume(WHO, job_id, ResumeBody(missed=said)))
        else:
            await _done(runtime.control.schedules.skip_next(WHO, job_id, SkipNextBody()))
        early = [run for run in await runtime.runs(job_id) if run.run_id in by_schedule([run]) - before_edit]
        assert [] == [run.nominal_at for run in early if run.nominal_at <= begins[-1][0]]
    await _done(runtime.control.jobs.resume(WHO, job_id, ResumeBody()))
    end = runtime.clock.now()
    for _ in range(5):
        await runtime.scheduler.fire_due()
    assert [] == _silent(begins, end, await runtime.runs(job_id))
    await runtime.control.stop()


async def _done(asked: Any) -> Any:
    """What came of it; None if the job as it is did not allow it."""
    try:
        return await asked
    except (Conflict, Invalid):
        return None


def _silent(begins: list[tuple[float, Schedule]], end: float, runs: list[RunRow]) -> list[float]:
    """The times that a schedule named while it was the job's own, and that are on no record."""
    spans = sorted((run.nominal_at, run.nominal_at if run.until is None else run.until) for run in runs)[::-1]
    ends = [begin for begin, _ in begins[1:]] + [end]
    named = [
        at
        for (begin, schedule), until in zip(begins, ends, strict=True)
        for at in fires_between(schedule, begin, until, 100_000)
    ]
    silent, covered = [], 0.0
    for at in named:
        while spans and spans[-1][0] <= at:
            covered = max(covered, spans.pop()[1])
        if at > covered:
            silent.append(at)
    return silent


@pytest.mark.parametrize(("before", "between"), [((), "pause"), (("pause",), "resume")])
async def test_an_edit_that_meets_a_pause_or_its_end_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...], between: str
) -> None:
    """Else a paused job would fire, and one that was resumed would be held back with nobody to let it go."""
    async with scene() as here:
        job_id = UUID(await here.create(cron="* * * * *"))
        for action in before:
            await here.ask("POST", f"/jobs/{job_id}/{action}", body={})
        real = here.store.jobs.change
        met: list[str] = []

        async def job_change(change: JobChange, **said: Any) -> JobRow:
            if not met:
                met.append(between)
                await here.ask("POST", f"/jobs/{job_id}/{between}", body={})
            return await real(change, **said)

        monkeypatch.setattr(here.store.jobs, "change", job_change)
        await here.ask("PUT", f"/jobs/{job_id}", body={"cron": "*/2 * * * *"})
        await here.schedule(300)
        runs = [
            row for row in await here.store.searches.runs(RunQuery(namespace="default")) if row.state == RunState.QUEUED
        ]
        assert (between == "resume") == bool(runs)


async def test_what_was_skipped_while_it_was_held_back_stays_so_through_an_edit() -> None:
    """All that the record stands for, up to the time at which the calendar opens."""
    async with scene() as here:
        closed = {"periods": [{"from": "2027-01-15T08:00:00Z", "to": "2027-01-15T09:00:00Z"}]}
        await here.ask("PUT", "/calendars/closed", 201, closed)
        job_id = UUID(await here.create(cron="* * * * *", calendars=[{"name": "closed", "otherwise": "defer"}]))
        await here.schedule(300)
        await here.ask("POST", f"/jobs/{job_id}/skipNext", body={})
        await here.ask("PUT", f"/jobs/{job_id}", body={"cron": "*/2 * * * *"})
        await here.schedule(3_600)
        runs = await here.store.searches.runs(RunQuery(namespace="default", limit=1_000))
        spans = sorted((run.nominal_at, run.nominal_at if run.until is None else run.until) for run in runs)
        assert (START + 60, START + 3_540) == spans[0]
        assert START + 3_600 == spans[1][0]


@pytest.mark.parametrize("missed", ["skip", "run_all"])
async def test_an_edit_between_a_run_that_was_made_ahead_and_a_pause_counts_nothing_twice(missed: str) -> None:
    """The pause begins after what is a run already, though the new schedule names it too; and nothing is lost."""
    async with scene() as here:
        job_id = UUID(await here.create(cron="* * * * * *", max_runs=10))
        await here.scheduler.fire_due()
        await here.ask("PUT", f"/jobs/{job_id}", body={"cron": "0-59 * * * * *", "max_runs": 10})
        row = await here.store.jobs.get("default", job_id)
        assert row is not None
        assert TimerState(START + 3, fired=2) == row.timer
        await here.ask("POST", f"/jobs/{job_id}/pause")
        await here.pass_time(4.5)
        await here.ask("POST", f"/jobs/{job_id}/resume", body={"missed": missed})
        runs = await here.store.searches.runs(RunQuery(namespace="default", limit=1_000))
        spans = sorted((run.nominal_at - START, run.occurrences) for run in runs)
        expected = [(1.0, 1), (2.0, 1), (3.0, 2)] if missed == "skip" else [(float(at), 1) for at in range(1, 5)]
        assert expected == spans
