"""What an executor says before it leaves."""

from __future__ import annotations

import pytest

from tests.unit.roles.rig import Rig, drive
from tickwise.domain.lifecycle import RunState


@pytest.fixture
async def rig() -> Rig:
    """An executor that was born."""
    made = Rig()
    await drive(made.clock, made.executor.prepare())
    return made


async def test_what_began_and_is_killed_at_the_end_counts_as_an_attempt(rig: Rig) -> None:
    """Its start was not worth recording yet. Given back as if it had never begun, it would run twice as attempt 1."""
    job = await rig.submit()
    await rig.tick()
    await drive(rig.clock, rig.executor.stop())
    assert job.run_id is not None
    attempts = await rig.store.run_attempts(job.run_id)
    assert [(1, RunState.QUEUED)] == [(each.attempt, each.state) for each in attempts]


async def test_what_ended_before_the_end_is_recorded_and_not_run_again(rig: Rig) -> None:
    """Its outcome still waited for the store when the process was told to go."""
    job = await rig.submit()
    await rig.tick()
    rig.runner.end(rig.runner.launched[0])
    assert "DISPATCHED" == await rig.state(job)
    await drive(rig.clock, rig.executor.stop())
    assert "SUCCESS" == await rig.state(job)
