"""A router over two stores keeps every promise of the store's port, but for the gaps that it names.

Namespaces are spread over two memory stores by the map. `default`, which most promises are about, is in the second one,
away from people and keys. A gap is a promise of the suite that several databases do not keep: it must really fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import pytest
import pytest_asyncio

from tests.conformance import test_memory
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.sharded import ShardedStore
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.notices.rules import Notice
from tickwise.ports.store import Check, Store
from tickwise.testing.clock import VirtualClock

_TOTAL = "a total over all namespaces counts in each database apart"
_IDS = "an id that a client chose is looked up in the database of its namespace alone"
_TURNS = "databases take turns, then the namespaces in each"
_SENDER = "a sender has its turns in each database"
_ELSEWHERE = "a job goes to another namespace within one database alone"
_PERCENTILES = "percentiles of several databases make no common one: the question is refused"
_MODULE = "this test changes a constant in the module of the part, which is the router's here"
_EPOCHS = "each database has epochs of its own, and all are listed"

GAPS: Final = {
    "TestLanes.test_namespaces_do_not_use_up_each_others_lanes": _TOTAL,
    "TestRules.test_there_are_only_so_many_rules": _TOTAL,
    "TestFairNotices.test_channels_that_failed_share_a_part_of_a_senders_turns": _SENDER,
    "TestFairNotices.test_namespaces_take_turns": _TURNS,
    "TestFairness.test_namespaces_take_turns": _TURNS,
    "TestBoundExecutors.test_priority_goes_first_within_its_namespaces": "priorities count within a database",
    "TestWalls.test_an_id_of_another_namespace_is_taken_and_tells_nothing": _IDS,
    "TestQuotas.test_a_job_that_is_not_stored_takes_no_room": _IDS,
    "TestQuotas.test_a_job_that_comes_from_elsewhere_needs_room": _ELSEWHERE,
    "TestTransfers.test_a_transfer_is_refused_for_what_stands_in_its_way": _ELSEWHERE,
    "TestAnalytics.test_runs_are_grouped_by_what_is_asked": _PERCENTILES,
    "TestAnalytics.test_filters_are_those_of_runs[asked12-ac]": _PERCENTILES,
    "TestAnalytics.test_filters_are_those_of_runs[asked13-abcde]": _PERCENTILES,
    "TestAuditSearch.test_entries_are_found_by_what_they_say": "entries of one instant in two databases have no order",
    "TestCountedFailures.test_a_namespace_has_no_more_than_its_groups": _MODULE,
    "TestCountedFailures.test_a_job_has_its_share_of_the_groups": _MODULE,
    "TestEpochs.test_epochs_are_listed_newest_first": _EPOCHS,
    "TestEpochs.test_what_executors_knew_better_is_counted_in_the_epoch": _EPOCHS,
}


class Backend:
    """Two memory stores behind one router, on a clock that stands until the test moves it."""

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest_asyncio.fixture
    async def store(self, clock: VirtualClock, request: pytest.FixtureRequest) -> Store:
        reason = GAPS.get(f"{request.cls.__name__}.{request.node.name}")
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
        self.parts = [MemoryStore(clock, shard=number) for number in (1, 2)]
        shard_map = self.parts[0].shard_map
        for part in self.parts:
            await part.open()
            await shard_map.add(part.upkeep.cluster_id)
        await shard_map.place(DEFAULT_NAMESPACE, 2)
        self.memory = test_memory.Backend()
        self.memory.virtual_clock = clock
        router = ShardedStore(self.parts, shard_map, clock=clock)
        await router.open()
        return router

    @pytest.fixture
    def other(self, store: Store) -> Store:
        return store

    async def shift(self, store: Store, seconds: float) -> None:
        await self.memory.shift(store, seconds)

    async def restart(self, store: Store) -> None:
        for part in self.parts:
            await self.memory.restart(part)

    async def add_channel(self, store: Store, namespace: str, name: str) -> UUID:
        return await self.memory.add_channel(self._of(store, namespace), namespace, name)

    async def notices(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Notice]:
        return await self.memory.notices(self._of(store, namespace), namespace)

    async def take_notices(self, store: Store) -> None:
        for part in self.parts:
            await self.memory.take_notices(part)

    async def damage(self, store: Store, check: Check, subject: UUID) -> None:
        await self.memory.damage(self.parts[1], check, subject)

    def _of(self, store: Store, namespace: str) -> MemoryStore:
        assert isinstance(store, ShardedStore)
        return self.parts[store.fleet.places.of(namespace) - 1]


def _over_two(suite: type) -> type:
    """The suite that a class of the memory store runs, on two stores."""
    kinds = tuple(Backend if base is test_memory.Backend else base for base in suite.__bases__)
    own = {name: value for name, value in vars(suite).items() if name in ("seeds", "pytestmark")}
    return type(suite.__name__, kinds, {**own, "__module__": __name__, "__doc__": suite.__doc__})


globals().update({name: _over_two(kind) for name, kind in vars(test_memory).items() if name.startswith("Test")})
