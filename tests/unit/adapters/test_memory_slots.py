"""Slots of the memory store: what is left to it by the port, and that it keeps nothing of what is over."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Lane
from tickwise.domain.rules.limits import CLAIM_SECONDS, START_SECONDS
from tickwise.ports.store import Added, Began, ClaimRequest, Gate, Retention
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory, executor, outcome

ONE = Gate(limit_key="namespace", limit=1)
LONG_SECONDS = 1_000_000.0


class Rig:
    """A memory store, one executor that lives long, and its claims."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.make = Factory(self.clock.now())

    async def held(self, *lanes: Lane) -> list[Claimed]:
        """A run in each of these lanes, claimed, the earliest first."""
        self.executor = await self.store.executors.join(executor(lease_seconds=LONG_SECONDS))
        jobs = [self.make.job(self.make.now - 100.0 + number, lane=lane) for number, lane in enumerate(lanes)]
        assert await self.store.jobs.add(jobs) == [Added.CREATED] * len(jobs)
        return sorted(await self.claim(), key=lambda claimed: claimed.due)

    async def claim(self) -> list[Claimed]:
        request = ClaimRequest(
            executor=self.executor, queues=("default", "still"), labels=(), limit=100, ahead_seconds=0.0
        )
        return list(await self.store.attempts.claim(request))

    async def start(self, claimed: Claimed, gate: Gate | None = ONE) -> bool:
        began = Began(claimed.run_id, claimed.token, claimed.now, gate=gate)
        return await self.store.attempts.start(self.executor, [began]) == []

    async def blocked(self, claimed: Claimed) -> bool:
        row = await self.store.runs.get("default", claimed.run_id)
        assert row is not None
        return row.blocked

    async def finish(self, claimed: Claimed, **fields: Any) -> None:
        assert await self.store.attempts.finish(self.executor, [outcome(claimed, **fields)]) == []


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_slot_is_kept_for_a_moment_for_who_was_woken(rig: Rig) -> None:
    """Nobody claims it: a second later another one goes on, too."""
    first, still, other = await rig.held(Lane(), Lane("still"), Lane())
    assert [await rig.start(claimed) for claimed in (first, still, other)] == [True, False, False]
    await rig.finish(first)
    assert (await rig.blocked(still), await rig.blocked(other)) == (False, True)
    await rig.clock.advance(CLAIM_SECONDS)
    assert await rig.store.runs.unblock() == 0
    await rig.clock.advance(0.001)
    assert await rig.store.runs.unblock() == 1
    assert await rig.blocked(other) is False


async def test_a_slot_is_kept_for_who_claimed_it_until_its_start_should_be_on_record(rig: Rig) -> None:
    """Its executor may have come to its end just then."""
    first, second, third = await rig.held(Lane(), Lane(), Lane())
    assert [await rig.start(claimed) for claimed in (first, second, third)] == [True, False, False]
    await rig.finish(first)
    assert [claimed.run_id for claimed in await rig.claim()] == [second.run_id]
    await rig.clock.advance(START_SECONDS - 0.001)
    assert await rig.store.runs.unblock() == 0
    await rig.clock.advance(0.001)
    assert await rig.store.runs.unblock() == 1
    assert await rig.blocked(third) is False


async def test_a_run_that_waits_is_asked_anew_when_its_job_is_edited(rig: Rig) -> None:
    """Its new definition may know no limit."""
    first, second = await rig.held(Lane(), Lane())
    assert [await rig.start(claimed) for claimed in (first, second)] == [True, False]
    row = await rig.store.jobs.get("default", second.job_id)
    assert row is not None
    await rig.store.jobs.change(rig.make.change(row, definition='{"without": "limit"}'))
    [claimed] = await rig.claim()
    assert (claimed.run_id, claimed.spec) == (second.run_id, '{"without": "limit"}')
    assert await rig.start(claimed, gate=None) is True


async def test_a_start_without_a_gate_takes_no_slot_even_if_the_run_waited_for_one(rig: Rig) -> None:
    """Then the slot that it was woken for is the next one's."""
    first, second, third = await rig.held(Lane(), Lane(), Lane())
    assert [await rig.start(claimed) for claimed in (first, second, third)] == [True, False, False]
    await rig.finish(first)
    [claimed] = await rig.claim()
    assert (claimed.run_id, await rig.start(claimed, gate=None)) == (second.run_id, True)
    row = await rig.store.runs.get("default", second.run_id)
    assert row is not None
    assert (row.state, row.limit_key) == (RunState.RUNNING, None)
    assert await rig.blocked(third) is False


async def test_those_with_a_higher_limit_pass_those_who_wait_for_a_lower_one(rig: Rig) -> None:
    """Two jobs share a key; the one says one at a time, the other three."""
    one, two, strict, lax = await rig.held(Lane(), Lane(), Lane(), Lane())
    three = ONE._replace(limit=3)
    assert [await rig.start(claimed, gate=three) for claimed in (one, two)] == [True, True]
    assert await rig.start(strict) is False
    assert await rig.start(lax, gate=ONE._replace(limit=2)) is False
    await rig.finish(one)
    assert (await rig.blocked(strict), await rig.blocked(lax)) == (True, False)


async def test_nothing_is_kept_of_keys_that_nobody_uses(rig: Rig) -> None:
    """A year of keys that are made up anew each time leaves no trace."""
    claims = await rig.held(*[Lane()] * 20)
    for number, (first, second) in enumerate(zip(claims[::2], claims[1::2], strict=True)):
        gate = Gate(limit_key=f"key:{number}", limit=1)
        assert [await rig.start(first, gate=gate), await rig.start(second, gate=gate)] == [True, False]
        await rig.finish(first)
        [again] = await rig.claim()
        assert await rig.start(again, gate=gate) is True
        await rig.finish(again)
    assert list(rig.store.state.slots.names()) == []


async def test_nothing_is_kept_of_rates_whose_time_is_over(rig: Rig) -> None:
    """Upkeep forgets them; what is forgotten would have held up nobody."""
    claims = await rig.held(*[Lane()] * 6)
    for number, claimed in enumerate(claims[:4]):
        assert await rig.start(claimed, gate=Gate(rate_key=f"key:{number}", rate_gap_seconds=60.0)) is True
    await rig.clock.advance(61.0)
    slow = Gate(rate_key="key:slow", rate_gap_seconds=60.0)
    assert await rig.start(claims[4], gate=slow) is True
    await rig.store.upkeep.maintain(Retention(runs_seconds=3600.0, failed_seconds=3600.0))
    assert len(rig.store.state.slots.paces) == 1
    assert await rig.start(claims[5], gate=slow) is False
