"""Healing, after occurrences that were made up for."""

from __future__ import annotations

from uuid import UUID

from tests.support.scene import START, scene
from tests.unit.roles.rig import Silent
from tickwise.domain.decision import SkipReason
from tickwise.ports.store import Fire, FireRequest, NewSkip
from tickwise.roles.scheduler.invariant_repair import Healing
from tickwise.testing.contracts.base import taken


async def test_what_was_made_up_for_after_a_pause_is_not_planned_again() -> None:
    """The schedule ended during the pause, and its last occurrences ran by resume: that the job has no timer is right,
    and what ran does not run once more."""
    async with scene() as here:
        job_id = await here.create(interval_seconds=10, end_at="2027-01-15T08:00:35Z")
        await here.schedule(12.0, step=1.0)
        await here.ask("POST", f"/jobs/{job_id}/pause")
        await here.schedule(60.0)
        await here.ask("POST", f"/jobs/{job_id}/resume", body={"missed": "run_all"})
        healing = Healing(here.store, signals=here.world.bell, clock=here.clock, telemetry=Silent())
        await healing.look()
        job = await here.store.jobs.get("default", UUID(job_id))
        assert job is not None
        assert job.timer is None


async def test_a_record_of_many_skips_counts_as_far_as_it_reaches() -> None:
    """Also where a later record, which a schedule before this one left, reaches less far."""
    async with scene() as here:
        job_id = await here.create(interval_seconds=10, end_at="2027-01-15T08:00:45Z")
        async with taken(here.store, FireRequest(horizon_seconds=60.0, limit=1)) as batch:
            [timer] = batch.timers
            skips = [
                NewSkip(UUID(int=1), START + 10.0, START + 40.0, 4, SkipReason.MISFIRE, "too late"),
                NewSkip(UUID(int=2), START + 20.0, START + 20.0, 1, SkipReason.MISFIRE, "of the schedule before"),
            ]
            await batch.commit([Fire(timer.job_id, timer.pending.due, None, (), skips)])
        healing = Healing(here.store, signals=here.world.bell, clock=here.clock, telemetry=Silent())
        await healing.look()
        job = await here.store.jobs.get("default", UUID(job_id))
        assert job is not None
        assert job.timer is None
