"""A router over two PostgreSQL databases of one server keeps the promises that matter of the store's port.

The whole suite runs over two memory stores (`test_sharded`), and over one PostgreSQL (`test_postgres`). Here are the
groups in which a router and real databases could differ from both: what is claimed, started, finished and fired, what
is listed from several, and what is given once. `RUN_ALL` runs the others too.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.conformance import test_postgres
from tests.conformance.test_postgres import empty
from tests.conformance.test_sharded import GAPS
from tests.support.databases import database
from tests.support.patient_router import wait_for_each_shard
from tests.support.sessions import kept_sessions
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.adapters.store.sharded import ShardedStore
from tickwise.domain.audit import AuditAction
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.notices.rules import Notice
from tickwise.ports.store import Check, NoticeQuery, Store
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.contracts.store.jobs.audit import EVE, entry, log
from tickwise.testing.factories import Factory
from tickwise.wiring.storage.databases import upgrade_all

RUN_ALL: Final = "TICKWISE_TEST_ALL_SHARDED"
"""With this variable every suite is run."""
PLACES: Final = """
    DELETE FROM tickwise.shard_places;
    INSERT INTO tickwise.shard_places (shard, namespace) VALUES (2, 'default');
    UPDATE tickwise.shard_map SET version = version + 1"""
GROUPS: Final = frozenset(
    {
        "TestClaims", "TestFinishes", "TestKeeps", "TestLeases", "TestTimers", "TestSubmits", "TestReceipts",
        "TestNamedClaims", "TestHandovers", "TestEpochs", "TestHeld", "TestDiffers", "TestRules", "TestNamespaces",
        "TestClosedNamespaces", "TestRemovals", "TestFeed", "TestSequences", "TestOperations", "TestMarks",
        "TestChecks", "TestHeals", "TestListings", "TestPages", "TestBoundExecutors", "TestWalls", "TestDecisions",
        "TestAuditSearch", "TestAuditSeals", "TestDueNotices", "TestDelays", "TestFolds", "TestQuotas", "TestSecrets",
        "TestWaitingNames", "TestFiredNames", "TestObjectiveJobs", "TestStarts", "TestUnknown", "TestUpkeep",
    }
)  # fmt: skip


@pytest_asyncio.fixture(scope="module")
async def two_urls(database_url: str, postgres_url: str) -> AsyncIterator[list[str]]:
    """Two databases of one installation."""
    async with database(postgres_url) as second:
        urls = [database_url, second]
        await upgrade_all(" ".join(urls))
        async with kept_sessions():
            yield urls


class Backend:
    """Two clients of two databases behind routers, emptied before each test, whose clocks the test moves together."""

    databases = 2

    @pytest.fixture(autouse=True)
    def _patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        wait_for_each_shard(monkeypatch)

    @pytest_asyncio.fixture
    async def clients(self, two_urls: list[str], request: pytest.FixtureRequest) -> AsyncIterator[list[ShardedStore]]:
        name = f"{request.cls.__name__}.{request.node.name}"
        if name in GAPS and name not in REPLACED:
            request.applymarker(pytest.mark.xfail(reason=GAPS[name], strict=True))
        self.urls = two_urls
        for url in two_urls:
            connection = await asyncpg.connect(url)
            await empty(connection)
            if url == two_urls[0]:
                await connection.execute(PLACES)
            await connection.close()
        self.clock = ShiftedClock()
        self.shifted_seconds = self.late_start_seconds = 0.0
        self.parts = [[PostgresStore(url, clock=self.clock, near_seconds=2.0) for url in two_urls] for _ in range(2)]
        self.stores = [ShardedStore(parts, parts[0].shard_map, clock=self.clock) for parts in self.parts]
        for store in self.stores:
            await store.open()
        yield self.stores
        for store in self.stores:
            await store.close()

    @pytest.fixture
    def store(self, clients: list[ShardedStore]) -> Store:
        return clients[0]

    @pytest.fixture
    def other(self, clients: list[ShardedStore]) -> Store:
        return clients[1]

    async def shift(self, store: Store, seconds: float) -> None:
        self.clock.shift(seconds)
        self.shifted_seconds += seconds
        await self._adjust()

    async def restart(self, store: Store) -> None:
        """The server of all tests stays; these clients take it to have started just now."""
        connection = await asyncpg.connect(self.urls[0])
        self.late_start_seconds = self.shifted_seconds + await connection.fetchval(test_postgres.STARTED)
        await connection.close()
        await self._adjust()

    async def add_channel(self, store: Store, namespace: str, name: str) -> UUID:
        return UUID(str(await self._query(store, namespace, test_postgres.CHANNEL, namespace, name)))

    async def notices(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Notice]:
        found = await store.notices.find(NoticeQuery(namespace=namespace, limit=1_000))
        notices = {each.notice_id: each for each in found}
        wanted = await self._query(store, namespace, test_postgres.NOTICES, namespace)
        return [notices[notice_id] for notice_id in wanted]

    async def take_notices(self, store: Store) -> None:
        for url in self.urls:
            connection = await asyncpg.connect(url)
            await connection.execute("UPDATE tickwise.notices SET sender = 'sender' WHERE state = 'waiting'")
            await connection.close()

    async def damage(self, store: Store, check: Check, subject: UUID) -> None:
        connection = await asyncpg.connect(self.urls[1])
        assert await connection.execute(test_postgres.DAMAGES[check], subject) in {"INSERT 0 1", "UPDATE 1", "DELETE 1"}
        await connection.close()

    async def _query(self, store: Store, namespace: str, query: str, *arguments: object) -> Any:
        assert isinstance(store, ShardedStore)
        shards = sorted(store.fleet.stores)
        connection = await asyncpg.connect(self.urls[shards.index(store.fleet.places.of(namespace))])
        found = await connection.fetchval(query, *arguments)
        await connection.close()
        return found

    async def _adjust(self) -> None:
        for parts in self.parts:
            for part in parts:
                await part.shift(self.shifted_seconds, start_seconds=self.late_start_seconds)


async def _found_in_any_order(_self: Backend, store: Store, make: Factory) -> None:
    """By what they say, as in the suite. Two databases stamp the entries of one call each by its clock and number, so
    their order is by chance: neither a promise nor a gap that is sure to show."""
    thing = str(make.identifier())
    await store.audit.add([entry(target=thing), entry(AuditAction.SIGNED_IN, "*", source=EVE, target_kind="user")])
    now = await store.now()
    mine, hers = AuditAction.JOB_CHANGED, AuditAction.SIGNED_IN
    for fields, expected in (
        ({}, [mine, hers]),
        ({"namespace": "default"}, [mine]),
        ({"actor": "eve"}, [hers]),
        ({"target": thing}, [mine]),
        ({"target": thing, "actor": "eve"}, []),
        ({"since": now - 60, "until": now + 60}, [mine, hers]),
        ({"since": now + 60}, []),
    ):
        assert sorted(expected) == sorted(row.action for row in await log(store, **fields)), fields


REPLACED: Final = {"TestAuditSearch.test_entries_are_found_by_what_they_say": _found_in_any_order}
"""Tests in whose place this file has another one."""


def _over_two(suite: type) -> type:
    kinds = tuple(Backend if base is test_postgres.Backend else base for base in suite.__bases__)
    own = {name.partition(".")[2]: test for name, test in REPLACED.items() if name.startswith(f"{suite.__name__}.")}
    return type(suite.__name__, kinds, {"__module__": __name__, "__doc__": suite.__doc__, **own})


globals().update(
    {
        name: _over_two(kind)
        for name, kind in vars(test_postgres).items()
        if name.startswith("Test")
        and test_postgres.Backend in kind.__bases__
        and (name in GROUPS or RUN_ALL in os.environ)
    }
)
