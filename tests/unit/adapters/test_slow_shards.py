"""Heartbeats of an executor on two shards, of which one does not say what became of a beat."""

from __future__ import annotations

from typing import Any

from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.sharded import ShardedStore
from tickwise.domain.errors import InDoubt
from tickwise.ports.store import Beat, NewExecutor
from tickwise.testing.clock import VirtualClock

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


async def test_a_beat_in_doubt_on_one_shard_is_one_on_no_other() -> None:
    """A keeper was killed: the lease is renewed at once on the other shards, and on that one by the next beat."""
    clock = VirtualClock()
    parts = [MemoryStore(clock, shard=number) for number in (1, 2)]
    shard_map = parts[0].shard_map
    for part in parts:
        await part.open()
        await shard_map.add(part.upkeep.cluster_id)
    doubtful = DoubtfulBeats(parts[1].executors)
    parts[1].executors = doubtful  # type: ignore[assignment]  # the same port
    router = ShardedStore(parts, shard_map, clock=clock)
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
