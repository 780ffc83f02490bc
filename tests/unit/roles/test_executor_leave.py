"""What an executor says before it leaves."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from tests.unit.roles.rig import Rig, drive
from tickwise.domain.lifecycle import RunState
from tickwise.roles.executor.departure import LEAVE_SECONDS

BETWEEN_SECONDS = 4.0
"""More than from one comparison to the next."""


@pytest.fixture
async def rig() -> Rig:
    """An executor that was born."""
    made = Rig()
    await drive(made.clock, made.executor.prepare())
    return made


def kept_open(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The runner closes when this is set: its children take a while to die."""
    over, close = asyncio.Event(), rig.runner.close

    async def closes_later() -> None:
        await over.wait()
        await close()

    monkeypatch.setattr(rig.runner, "close", closes_later)
    return over


async def test_what_began_and_is_killed_at_the_end_counts_as_an_attempt(rig: Rig) -> None:
    """Its start was not worth recording yet. Given back as if it had never begun, it would run twice as attempt 1."""
    job = await rig.submit()
    await rig.tick()
    await drive(rig.clock, rig.executor.stop())
    assert job.run_id is not None
    attempts = await rig.store.runs.attempts(job.run_id)
    assert [(1, RunState.QUEUED)] == [(each.attempt, each.state) for each in attempts]


async def test_what_ended_before_the_end_is_recorded_and_not_run_again(rig: Rig) -> None:
    """Its outcome still waited for the store when the process was told to go."""
    job = await rig.submit()
    await rig.tick()
    rig.runner.end(rig.runner.launched[0])
    assert "DISPATCHED" == await rig.state(job)
    await drive(rig.clock, rig.executor.stop())
    assert "SUCCESS" == await rig.state(job)


async def test_a_store_that_is_back_within_seconds_still_hears_what_had_ended(rig: Rig) -> None:
    """Both are restarted at once, as in an upgrade: what is done must not be done again for that."""
    job, running = await rig.submit(), await rig.submit()
    await rig.tick()
    assert job.run_id is not None
    rig.runner.end(job.run_id)
    rig.flaky.gone = True

    async def comes_back() -> None:
        await rig.clock.sleep(LEAVE_SECONDS / 2)
        rig.flaky.gone = False

    back = asyncio.ensure_future(comes_back())
    await drive(rig.clock, rig.executor.stop())
    await back
    assert ["SUCCESS", "QUEUED"] == [await rig.state(job), await rig.state(running)]


async def test_a_store_that_stays_away_is_not_waited_for_longer_than_that(rig: Rig) -> None:
    """The lease runs out by itself; a process that was told to end has to."""
    await rig.submit()
    await rig.tick()
    rig.flaky.gone = True
    begun = rig.clock.monotonic()
    await drive(rig.clock, rig.executor.stop())
    assert rig.clock.monotonic() - begun <= LEAVE_SECONDS


async def test_a_start_on_record_that_never_came_to_be_is_no_unknown_outcome(rig: Rig) -> None:
    """Its task had not begun when the process was told to go, so nobody has to find out what it has done."""
    rig.flaky.answers_lost = {"attempts.start"}
    job = await rig.submit(on_unknown="hold")
    await rig.tick()
    await rig.clock.settle()
    assert "RUNNING" == await rig.state(job)
    rig.flaky.answers_lost = set()
    await drive(rig.clock, rig.executor.stop())
    assert ([], "QUEUED", 0) == (rig.runner.launched, await rig.state(job), (await rig.row(job)).attempt)


@pytest.mark.parametrize("thorough", [False, True])
async def test_what_is_killed_at_the_end_is_no_difference(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, thorough: bool
) -> None:
    """The store says that we hold it until we have left, and it is right: a comparison while its children die finds
    nothing, and what was killed goes back because its executor left, not because its end was lost."""
    job = await rig.submit()
    await rig.tick()
    assert job.run_id is not None
    rig.runner.begin(job.run_id)
    await rig.tick(BETWEEN_SECONDS)  # so that the comparison after this one covers its claim
    over = kept_open(rig, monkeypatch)
    stopping = asyncio.ensure_future(rig.executor.stop())
    await rig.clock.settle()
    with structlog.testing.capture_logs() as logs:
        if thorough:
            rig.executor._reconciliation.doubt()
        await rig.clock.advance(BETWEEN_SECONDS)
        await drive(rig.clock, rig.executor._reconciliation.compare())
    over.set()
    await drive(rig.clock, stopping)
    assert [] == [entry for entry in logs if entry["event"] == "held_otherwise"]
    [(attempt, state, reason)] = await rig.attempts(job)
    assert (1, "QUEUED") == (attempt, state)
    assert "end_lost" != reason
