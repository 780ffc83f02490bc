"""What the store refuses to record of one job holds up no other, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
import structlog

from tests.unit.roles.rig import drive
from tests.unit.roles.scheduler_rig import Rig
from tickwise.domain.decision import Hold
from tickwise.domain.errors import Bug, Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import Fire


@pytest.fixture
def rig() -> Rig:
    """A fresh store."""
    return Rig()


class Refusing:
    """In place of a store's `timers.commit`: a batch with runs of one job is refused whole, while the test says so."""

    def __init__(self, rig: Rig, job_id: UUID, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = error
        self.batches: list[int] = []
        """How many fires each batch had that was handed over."""
        self._commit = rig.store.timers.commit
        self._job_id = job_id
        monkeypatch.setattr(rig.store.timers, "commit", self.commit)

    async def commit(self, batch_id: int, fires: Sequence[Fire]) -> int:
        self.batches.append(len(fires))
        if self.error is not None and any(fire.job_id == self._job_id and fire.runs for fire in fires):
            raise self.error
        return await self._commit(batch_id, fires)


@pytest.mark.parametrize("error", [Invalid("a text that it cannot keep"), Bug("a number too large")])
async def test_a_fire_that_the_store_refuses_stops_no_other_job(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Of one batch the others are recorded in the same round; it is told which job was put off."""
    now = rig.clock.now()
    first = await rig.cron("* * * * *", now + 60)
    bad = await rig.cron("* * * * *", now + 60)
    last = await rig.cron("* * * * *", now + 60)
    Refusing(rig, bad.job_id, error, monkeypatch)
    await rig.clock.advance(60)
    with structlog.testing.capture_logs() as told:
        await drive(rig.clock, rig.scheduler().tick())
    assert {first.job_id, last.job_id} == {row.job_id for row in await rig.rows(RunState.QUEUED)}
    assert [(str(bad.job_id), now + 60)] == [
        (line["job_id"], line["due"]) for line in told if line["event"] == "schedule_unrecordable"
    ]
    row = await rig.store.jobs.get("default", bad.job_id)
    assert row is not None
    assert row.timer is not None
    assert (now + 120, now + 60, Hold.CALENDAR) == (row.timer.due, row.timer.since, row.timer.hold)


async def test_what_was_put_off_is_recorded_once_the_store_takes_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs late, and the one after at its time."""
    now = rig.clock.now()
    bad = await rig.cron("* * * * *", now + 60)
    refusing = Refusing(rig, bad.job_id, Invalid("a text that it cannot keep"), monkeypatch)
    scheduler = rig.scheduler()
    await rig.clock.advance(60)
    await drive(rig.clock, scheduler.tick())
    refusing.error = None
    await rig.clock.advance(65)
    await drive(rig.clock, scheduler.tick())
    records = [(row.nominal_at - now, row.state) for row in await rig.rows()]
    assert [(60.0, RunState.QUEUED), (120.0, RunState.QUEUED)] == records


async def test_after_a_refusal_many_are_recorded_at_once_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one is for those of the batch that was refused."""
    now = rig.clock.now()
    jobs = [await rig.cron("* * * * *", now + 60) for _ in range(5)]
    refusing = Refusing(rig, jobs[2].job_id, Invalid("a text that it cannot keep"), monkeypatch)
    scheduler = rig.scheduler()
    await rig.clock.advance(60)
    await drive(rig.clock, scheduler.tick())
    assert 5 == refusing.batches[0]
    assert {1} == set(refusing.batches[1:])
    refusing.error = None
    refusing.batches.clear()
    await rig.clock.advance(120)
    await drive(rig.clock, scheduler.tick())
    assert [5] == refusing.batches


async def test_a_batch_that_was_refused_is_not_counted_for_its_namespace(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the repeat would find the limit used up by what never ran."""
    now = rig.clock.now()
    jobs = [await rig.cron("* * * * *", now + 60) for _ in range(4)]
    Refusing(rig, jobs[0].job_id, Invalid("a text that it cannot keep"), monkeypatch)
    await rig.clock.advance(60)
    await drive(rig.clock, rig.scheduler(fires_per_minute_most=4).tick())
    assert {job.job_id for job in jobs[1:]} == {row.job_id for row in await rig.rows(RunState.QUEUED)}
    assert [] == await rig.rows(RunState.SKIPPED)
