"""Healing, after occurrences that were made up for."""

from __future__ import annotations

from uuid import UUID

from tests.support.scene import scene
from tests.unit.roles.rig import Silent
from tickwise.roles.healing import Healing


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
        job = await here.store.job_get("default", UUID(job_id))
        assert job is not None
        assert job.timer is None
