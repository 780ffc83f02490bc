"""A shard that is slow, or does not say what became of a call, holds up no work of another one."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.sharded import ShardedStore, dispatch
from tickwise.domain.errors import InDoubt
from tickwise.ports.store import Beat, FireBatch, Fired, FireRequest, NewExecutor
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory

EXECUTOR = 7
LEASE_SECONDS = 60.0


class DoubtfulBeats:
    """`ExecutorStore` of a keeper whose link breaks before the answer to a beat."""

    def __init__(self, executors: Any) -> None:
        self._executors = executors
        self.in_doubt = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executors, name)

    async def beat(self, *given: Any, **named: Any) -> Beat:
        """As of the port."""
        answer: Beat = await self._executors.beat(*given, **named)
        if self.in_doubt:
            raise InDoubt("the link to the keeper broke before its answer came")
        return answer


async def two_shards() -> tuple[VirtualClock, list[MemoryStore], ShardedStore]:
    """A clock, the stores of two shards, and a router over them that is not open yet."""
    clock = VirtualClock()
    parts = [MemoryStore(clock, shard=number) for number in (1, 2)]
    shard_map = parts[0].shard_map
    for part in parts:
        await part.open()
        await shard_map.add(part.upkeep.cluster_id)
    return clock, parts, ShardedStore(parts, shard_map, clock=clock)


class GatedTimers:
    """`TimerStore` of a shard whose keeper does not answer for a while."""

    def __init__(self, timers: Any) -> None:
        self._timers = timers
        self.gate = asyncio.Event()
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._timers, name)

    async def take(self, request: FireRequest) -> FireBatch:
        """As of the port."""
        self.looks += 1
        await self.gate.wait()
        return await self._timers.take(request)  # type: ignore[no-any-return]  # the port's own

    async def fire(self, *given: Any, **named: Any) -> Fired:
        """As of the port."""
        self.looks += 1
        await self.gate.wait()
        return await self._timers.fire(*given, **named)  # type: ignore[no-any-return]  # the port's own


async def test_a_beat_in_doubt_on_one_shard_is_one_on_no_other() -> None:
    """A keeper was killed: the lease is renewed at once on the other shards, and on that one by the next beat."""
    _, parts, router = await two_shards()
    doubtful = DoubtfulBeats(parts[1].executors)
    parts[1].executors = doubtful  # type: ignore[assignment]  # the same port
    await router.open()
    await router.executors.join(
        NewExecutor(
            number=EXECUTOR,
            name="one",
            queues=("default",),
            labels=(),
            functions=(),
            slots=1,
            lease_seconds=LEASE_SECONDS,
        )
    )
    doubtful.in_doubt = True
    beat = await router.executors.beat(EXECUTOR, LEASE_SECONDS)
    assert (True, []) == (beat.alive, list(beat.lost))
    doubtful.in_doubt = False
    assert (await router.executors.beat(EXECUTOR, LEASE_SECONDS)).alive
    await router.close()


async def test_timers_of_a_shard_fire_while_another_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A takeover takes seconds. Its batch comes late, and counts for the next look: a shard that is always slow fires,
    too."""
    monkeypatch.setattr(dispatch, "SLOW_SECONDS", 0.05)
    clock, parts, router = await two_shards()
    gated = GatedTimers(parts[1].timers)
    parts[1].timers = gated  # type: ignore[assignment]  # the same port
    await router.open()
    jobs: list[UUID] = []
    for part in parts:
        make = Factory(await part.now(), seed=part.upkeep.cluster_id)
        jobs.append((job := make.recurring(make.now)).job_id)
        await part.jobs.add([job])
    request = FireRequest(horizon_seconds=60.0, limit=10)

    async def taken() -> list[UUID]:
        await clock.advance(2.0)  # a slow shard is looked at again
        batch = await asyncio.wait_for(router.timers.take(request), 60.0)
        await router.timers.release(batch.batch_id)
        return [timer.job_id for timer in batch.timers]

    assert [[jobs[0]]] * 3 == [await taken() for _ in range(3)]
    assert 1 == gated.looks, "the shard was asked again while it was slow"
    gated.gate.set()
    await VirtualClock().settle()
    found = [await taken() for _ in range(2)]
    assert [jobs[1]] in found
    await router.close()


async def test_one_time_jobs_of_a_shard_fire_while_another_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call to the slow shard goes on: its runs are made once it answers."""
    monkeypatch.setattr(dispatch, "SLOW_SECONDS", 0.05)
    _, parts, router = await two_shards()
    gated = GatedTimers(parts[0].timers)
    parts[0].timers = gated  # type: ignore[assignment]  # the same port
    await router.open()
    for part in parts:
        make = Factory(await part.now(), seed=part.upkeep.cluster_id)
        await part.jobs.add([make.job(make.now + 40.0)])
    assert 1 == (await asyncio.wait_for(router.timers.fire(60.0, 10), 60.0)).timers
    assert not parts[0].state.runs
    gated.gate.set()
    await router.close()
    assert [1, 1] == [len(part.state.runs) for part in parts]
