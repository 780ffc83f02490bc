"""A router over the four shards of a keyspace keeps every promise of the store's port, but for the gaps that it names.

Each is a store over a log in a folder. The map of namespaces is in the first one's log. `default`, which most promises
are about, is in the third, away from people and keys. The wire is judged by `test_keeper_wire`, and both together on a
real node by `test_sharded_cassandra`. Gaps are those of several databases, and each must really fail.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from tests.conformance import test_memory, test_sharded
from tests.support.keepers import OpenShards, open_shards, served
from tests.support.patient_router import wait_for_each_shard
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.log import EffectLog
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.sharded import ShardedStore
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.notices.rules import Notice
from tickwise.ports.shards import ShardMap
from tickwise.ports.store import Check, Store
from tickwise.testing.clock import VirtualClock
from tickwise.testing.contracts.shards import ShardMapContract

SHARDS: Final = 4
DEFAULT_SHARD: Final = 3
_ELSEWHERE = "a job goes to another namespace within one shard alone"
_PAGES = "a page of all namespaces ends where that of one shard ends, so there may be another number of pages"
_APART: Final = {
    "TestFairNotices.test_namespaces_take_turns",
    "TestQuotas.test_a_job_that_comes_from_elsewhere_needs_room",
    "TestQuotas.test_a_job_that_is_not_stored_takes_no_room",
}
"""Gaps of two databases whose namespaces have one place where there are four shards, or meet another one before."""
GAPS: Final = {
    **{name: reason for name, reason in test_sharded.GAPS.items() if name not in _APART},
    "TestAuditedJobs.test_a_job_that_goes_to_another_namespace_leaves_an_entry_in_each": _ELSEWHERE,
    "TestTransfers.test_a_job_goes_with_its_id_its_key_and_its_schedule": _ELSEWHERE,
    "TestTransfers.test_its_next_run_is_one_of_the_other_namespace": _ELSEWHERE,
    "TestTransfers.test_who_reads_the_former_runs_learns_nothing_of_the_job_by_then": _ELSEWHERE,
    "TestTransfers.test_its_former_dead_letters_outlive_the_namespace_that_it_went_to": _ELSEWHERE,
    "TestTransfers.test_a_job_with_an_unfinished_run_stays": _ELSEWHERE,
    "TestTransfers.test_what_a_window_held_back_is_asked_anew": _ELSEWHERE,
    "TestSecretUses.test_names_go_with_a_job_to_another_namespace": _ELSEWHERE,
    "TestFairness.test_a_higher_priority_goes_before_another_namespaces_turn": "priorities count within a shard",
    "TestDelays.test_overdue_timers_of_others_hide_none": _PAGES,
    "TestSamples.test_watched_jobs_are_pages_by_id": _PAGES,
}


class Backend(test_memory.Backend):
    """Two routers over four shards."""

    databases = SHARDS
    by_wire = False
    kept: OpenShards

    def log(self, number: int, folder: Path) -> EffectLog:
        """The log of a shard."""
        return FileLog(folder / f"shard-{number}", sync=lambda _file: None)

    @pytest.fixture(autouse=True)
    def _patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        wait_for_each_shard(monkeypatch)

    @pytest.fixture
    async def shards(
        self, clock: VirtualClock, tmp_path: Path, request: pytest.FixtureRequest
    ) -> AsyncIterator[OpenShards]:
        """The shards of the test."""
        reason = GAPS.get(f"{request.cls.__name__}.{request.node.name}")
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
        self.virtual_clock = clock
        logs = [self.log(number, tmp_path) for number in range(1, SHARDS + 1)]
        async with open_shards(logs, clock, by_wire=self.by_wire) as self.kept:
            await self.kept.stores[0].shard_map.place(DEFAULT_NAMESPACE, DEFAULT_SHARD)
            yield self.kept

    @pytest.fixture
    async def store(self, shards: OpenShards) -> Store:
        return await shards.router()

    @pytest.fixture
    async def other(self, shards: OpenShards) -> Store:
        return await shards.router()

    async def restart(self, store: Store) -> None:
        for part in self.kept.stores:
            await part.open()

    async def add_channel(self, store: Store, namespace: str, name: str) -> UUID:
        return await super().add_channel(self._of(store, namespace), namespace, name)

    async def notices(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Notice]:
        return await super().notices(self._of(store, namespace), namespace)

    async def take_notices(self, store: Store) -> None:
        for part in self.kept.stores:
            await super().take_notices(part.memory)

    async def damage(self, store: Store, check: Check, subject: UUID) -> None:
        await super().damage(self.kept.stores[DEFAULT_SHARD - 1].memory, check, subject)

    def _of(self, store: Store, namespace: str) -> MemoryStore:
        assert isinstance(store, ShardedStore)
        if namespace == INSTALLATION:
            return self.kept.stores[0].memory
        return self.kept.stores[store.fleet.places.of(namespace) - 1].memory


def over_shards(backend: type, names: Any = None) -> dict[str, type]:
    """The suites that the memory store runs, over this backend; `names`: those alone."""
    made = {}
    for name, suite in vars(test_memory).items():
        if name.startswith("Test") and isinstance(suite, type) and (names is None or name in names):
            bases = tuple(backend if each is test_memory.Backend else each for each in suite.__bases__)
            own = {word: value for word, value in vars(suite).items() if word in ("seeds", "pytestmark")}
            made[name] = type(name, bases, {**own, "__doc__": suite.__doc__, "__module__": backend.__module__})
    return made


globals().update(over_shards(Backend))


class TestKeepersShardMap(ShardMapContract):
    """The map that a keeper has in its log, through the wire."""

    @pytest.fixture
    async def shard_map(self, clock: VirtualClock, tmp_path: Path) -> AsyncIterator[ShardMap]:
        async with served(tmp_path / "store", clock) as kept:
            yield (await kept.client()).shard_map

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()
