"""What a scheduler promises of stops: occurrences in one are held and started once afterwards, or are skipped."""

from __future__ import annotations

import json

import pytest

from tests.unit.roles.rig import drive
from tests.unit.roles.scheduler_rig import Rig
from tickwise.domain.decision import Hold
from tickwise.domain.lifecycle import RunState
from tickwise.domain.stops import Meanwhile, Stop, StopScope
from tickwise.ports.store import JobAction
from tickwise.roles.scheduler.role import Scheduler
from tickwise.testing.factories import EVERYTHING_STOPPED

FUTURE = json.dumps({"schedule_type": "FUTURE", "schedule_time": 1_800_000_025.0, "task": {"kind": "scripted"}})


@pytest.fixture
def rig() -> Rig:
    """A fresh store."""
    return Rig()


async def stop(rig: Rig, seconds: float, scope: StopScope = EVERYTHING_STOPPED, **fields: object) -> Stop:
    """From now on, for so long."""
    now = rig.clock.now()
    return await rig.store.stops.add(rig.make.stop(scope, begin=now, until=now + seconds, **fields))


async def tick_for(rig: Rig, scheduler: Scheduler, seconds: int) -> None:
    """A round each second."""
    for _ in range(seconds):
        await drive(rig.clock, scheduler.tick())
        await rig.clock.advance(1)


async def records(rig: Rig) -> list[tuple[float, RunState, str | None, float]]:
    """Of each record: when it was due by its schedule, since the start; state, reason, number of occurrences."""
    return [(row.nominal_at - 1_800_000_000.0, row.state, row.reason, row.occurrences) for row in await rig.rows()]


async def test_what_is_held_runs_once_when_the_stop_ends(rig: Rig) -> None:
    """The latest for all; the others are on record with the reason."""
    now = rig.clock.now()
    await stop(rig, 30)
    await rig.cron("*/10 * * * * *", now + 10)
    await tick_for(rig, rig.scheduler(), 36)
    assert [
        (10.0, RunState.SKIPPED, "stopped", 1),
        (20.0, RunState.QUEUED, None, 1),
        (30.0, RunState.QUEUED, None, 1),
    ] == await records(rig)
    [_, merged, after] = await rig.rows()
    assert (30.0, 30.0) == (merged.due_at - now, after.due_at - now)


async def test_what_is_skipped_is_on_record(rig: Rig) -> None:
    """Each occurrence, with the words of the stop; the first after it runs."""
    await stop(rig, 30, meanwhile=Meanwhile.SKIP)
    await rig.cron("*/10 * * * * *", rig.clock.now() + 10)
    await tick_for(rig, rig.scheduler(), 35)
    assert [
        (10.0, RunState.SKIPPED, "stopped", 1),
        (20.0, RunState.SKIPPED, "stopped", 1),
        (30.0, RunState.QUEUED, None, 1),
    ] == await records(rig)
    [first, *_] = await rig.rows()
    assert first.error == "stopped by ada: the database moves (all jobs of the namespace)"


async def test_a_lifted_stop_lets_what_it_held_run_at_once(rig: Rig) -> None:
    """Once for all, as at its own end."""
    now = rig.clock.now()
    made = await stop(rig, 3600)
    await rig.cron("*/10 * * * * *", now + 10)
    scheduler = rig.scheduler()
    await tick_for(rig, scheduler, 25)
    assert [] == await records(rig)
    await rig.store.stops.lift("default", made.stop_id, by="ada")
    await tick_for(rig, scheduler, 1)
    assert [
        (10.0, RunState.SKIPPED, "stopped", 1),
        (20.0, RunState.QUEUED, None, 1),
    ] == await records(rig)


async def test_a_stop_without_an_end_holds_until_it_is_lifted(rig: Rig) -> None:
    """Nothing is skipped meanwhile."""
    now = rig.clock.now()
    made = await stop(rig, 4 * 366 * 86_400.0, open_ended=True)
    await rig.cron("* * * * *", now + 60)
    scheduler = rig.scheduler()
    await tick_for(rig, scheduler, 70)
    await rig.clock.advance(86_400)
    await tick_for(rig, scheduler, 2)
    assert [] == await records(rig)
    await rig.store.stops.lift("default", made.stop_id, by="ada")
    await tick_for(rig, scheduler, 1)
    assert 1 == len(await rig.rows(RunState.QUEUED))


async def test_a_one_time_job_waits_for_the_end_of_a_stop(rig: Rig) -> None:
    """Also of a stop that is newer than what the scheduler knew."""
    now = rig.clock.now()
    scheduler = rig.scheduler()
    await drive(rig.clock, scheduler.tick())
    job = rig.make.job(now + 25.0, definition=FUTURE, labels={"customer": "x"})
    await rig.store.jobs.add([job])
    made = await stop(rig, 60, StopScope(labels={"customer": "x"}))
    await tick_for(rig, scheduler, 50)
    assert [] == await rig.rows()
    await tick_for(rig, scheduler, 12)
    (row,) = await rig.rows()
    assert (RunState.QUEUED, made.until) == (row.state, row.due_at)


@pytest.mark.parametrize("kind", ["job", "labels", "queue", "namespace"])
async def test_a_stop_concerns_its_scope_alone(rig: Rig, kind: str) -> None:
    """A job beside it fires."""
    now = rig.clock.now()
    job = rig.make.recurring(now + 10, definition=CRON, labels={"customer": "x", "env": "prod"})
    beside = rig.make.recurring(
        now + 10, definition=CRON, labels={"customer": "y"}, lane=job.lane._replace(queue="heavy"),
        namespace="elsewhere" if kind == "namespace" else "default",
    )  # fmt: skip
    await rig.store.jobs.add([job, beside])
    scope = {
        "job": StopScope(job_id=job.job_id),
        "labels": StopScope(labels={"customer": "x"}),
        "queue": StopScope(queue="default"),
        "namespace": StopScope(),
    }[kind]
    await stop(rig, 60, scope)
    await tick_for(rig, rig.scheduler(), 15)
    rows = [*await rig.rows(), *await rig.rows(namespace="elsewhere")]
    assert [beside.job_id] == [row.job_id for row in rows]


CRON = json.dumps({"schedule_type": "CRON", "cron_expression": "*/10 * * * * *", "task": {"kind": "scripted"}})


async def test_a_pause_and_a_stop_hold_each_for_itself(rig: Rig) -> None:
    """A job that is paused within a stop and resumed after it has run nothing meanwhile."""
    now = rig.clock.now()
    await stop(rig, 20)
    job = await rig.cron("*/10 * * * * *", now + 10)
    scheduler = rig.scheduler()
    await tick_for(rig, scheduler, 12)
    await rig.store.jobs.move(rig.make.move(job.job_id, JobAction.PAUSE))
    row = await rig.store.jobs.get("default", job.job_id)
    assert row is not None
    assert row.timer is not None
    assert (Hold.PAUSED, now + 10) == (row.timer.hold, row.timer.since)
    await tick_for(rig, scheduler, 20)
    assert [] == await rig.rows()


async def test_schedulers_that_restart_in_a_stop_know_of_it(rig: Rig) -> None:
    """It is in the store."""
    await stop(rig, 30)
    await rig.cron("*/10 * * * * *", rig.clock.now() + 10)
    await tick_for(rig, rig.scheduler(), 5)
    await tick_for(rig, rig.scheduler(), 20)
    assert [] == await rig.rows()


async def test_a_scheduler_that_was_away_decides_by_a_stop_that_is_over(rig: Rig) -> None:
    """What fell into it is skipped, as it would have been."""
    await stop(rig, 25, meanwhile=Meanwhile.SKIP)
    await rig.cron("*/10 * * * * *", rig.clock.now() + 10)
    await rig.clock.advance(31)
    await tick_for(rig, rig.scheduler(), 1)
    assert [
        (10.0, RunState.SKIPPED, "stopped", 1),
        (20.0, RunState.SKIPPED, "stopped", 1),
        (30.0, RunState.QUEUED, None, 1),
    ] == await records(rig)
