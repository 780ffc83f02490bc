"""The audit log with many entries: what each call reads follows from what it answers, never from the size of the log.

Each call is made as its users make it, in the sessions of the store; what the server read for it is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.records.audit import LOOKED_ENTRIES
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.ports.audit import AuditPage, AuditPlace, AuditQuery, AuditSpan

DAYS: Final = 12
ENTRIES_OF_DAY: Final = 20_000
NAMESPACE: Final = "default"
DAY_SECONDS: Final = 86_400.0
SOURCE: Final = Source(CallerKind.KEY, None, "ada", "192.0.2.1", "r1")

FILL = f"""
SELECT tickwise.audit_make((now() AT TIME ZONE 'UTC')::date - d) FROM generate_series(1, {DAYS}) d;
INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller, address, request_id, target_kind, target)
SELECT ((now() AT TIME ZONE 'UTC')::date - d)::timestamp AT TIME ZONE 'UTC' + n * interval '4 seconds',
       CASE WHEN n % 100 = 0 THEN 'team' ELSE '{NAMESPACE}' END, 'job.changed', 'key',
       CASE WHEN n = 7 THEN 'rare' ELSE 'ada' END, '192.0.2.1', 'r', 'job', n::text
FROM generate_series(1, {DAYS}) d, generate_series(1, {ENTRIES_OF_DAY}) n;
ANALYZE tickwise.audit;
"""
READ = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables
WHERE schemaname = 'tickwise' AND relname ~ '^audit_(rest|\\d{8})$'
"""


@pytest_asyncio.fixture(scope="module")
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    """A store with a log of 240,000 entries in 12 days, which was analysed."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(FILL, timeout=120)
    await connection.close()
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def owner(database_url: str, store: PostgresStore) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the role that owns the tables."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def rows_read(store: PostgresStore, owner: asyncpg.Connection, call: Callable[[], Awaitable[Any]]) -> int:
    """The number of entries that the server reads for a call."""
    await _counted(store)
    before: int = await owner.fetchval(READ)
    await call()
    await _counted(store)
    after: int = await owner.fetchval(READ)
    return after - before


async def _counted(store: PostgresStore) -> None:
    """What the session of the last call read is counted from here on."""
    async with store._links.pooled(writes=False) as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")


async def midnight(store: PostgresStore, days_ago: int) -> float:
    """The begin of a day (UTC)."""
    return await store.now() // DAY_SECONDS * DAY_SECONDS - days_ago * DAY_SECONDS


@pytest.mark.parametrize("namespace", [NAMESPACE, "team", None])
async def test_the_newest_page_of_a_list_reads_what_it_shows(
    store: PostgresStore, owner: asyncpg.Connection, namespace: str | None
) -> None:
    """And one entry more of each day; at each of the first calls and of the later ones, whose plan may be another."""
    for _ in range(7):
        assert await rows_read(store, owner, lambda: store.audit.find(AuditQuery(namespace=namespace, limit=51))) <= 100


@pytest.mark.parametrize("ascending", [True, False])
async def test_a_further_page_reads_what_it_shows(
    store: PostgresStore, owner: asyncpg.Connection, ascending: bool
) -> None:
    """In the middle of the log, in both directions."""
    place = AuditPlace(await midnight(store, 6), 0)
    query = AuditQuery(namespace=NAMESPACE, beyond=place, ascending=ascending, limit=500)
    for _ in range(7):
        assert await rows_read(store, owner, lambda: store.audit.find(query)) <= 600


@pytest.mark.parametrize(
    "filters", [{"actor": "rare"}, {"action": AuditAction.QUEUE_HELD}, {"target": str(UUID(int=1))}], ids=str
)
async def test_a_search_of_a_day_reads_that_day_alone(
    store: PostgresStore, owner: asyncpg.Connection, filters: dict[str, Any]
) -> None:
    """For a rare caller, action or thing, which no index has: an export goes by days, so each of its searches ends.
    (The planner looks at some entries, too.)"""
    begin = await midnight(store, 5)
    query = AuditQuery(namespace=NAMESPACE, since=begin, until=begin + DAY_SECONDS, ascending=True, **filters)
    for _ in range(7):
        assert await rows_read(store, owner, partial(store.audit.find, query)) <= ENTRIES_OF_DAY + 100


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(
    "filters", [{"actor": "rare"}, {"action": AuditAction.QUEUE_HELD}, {"target": str(UUID(int=1))}], ids=str
)
async def test_a_search_that_may_pause_reads_one_look(
    store: PostgresStore, owner: asyncpg.Connection, filters: dict[str, Any], ascending: bool
) -> None:
    """Of a rare caller, action or thing, at each of its calls; the end of the look is found by an index alone. (The
    planner looks at some entries, too.)"""
    query = AuditQuery(namespace=NAMESPACE, ascending=ascending, limit=51, may_pause=True, **filters)
    for _ in range(3):
        pages: list[AuditPage] = []

        async def look(query: AuditQuery = query, pages: list[AuditPage] = pages) -> None:
            pages.append(await store.audit.find(query))

        assert await rows_read(store, owner, look) <= 2 * LOOKED_ENTRIES + 500
        [page] = pages
        assert page.goes_on is not None
        query = replace(query, beyond=page.goes_on)


async def test_a_search_that_may_pause_finds_what_one_that_does_not_finds(store: PostgresStore) -> None:
    """Each entry once, in the same order."""
    query = AuditQuery(namespace=NAMESPACE, actor="rare", limit=51)
    expected = [row.entry for row in await store.audit.find(query)]
    found, looks, beyond = list[int](), 0, None
    while True:
        page = await store.audit.find(replace(query, may_pause=True, beyond=beyond))
        found += [row.entry for row in page]
        looks += 1
        if (beyond := page.place_after(50)) is None:
            break
    assert (expected, True) == (found, looks >= DAYS * ENTRIES_OF_DAY * 99 // 100 // LOOKED_ENTRIES)
    assert DAYS == len(found)


async def test_contents_for_a_check_read_what_they_show(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """A page of them, from the begin of a span and behind a place."""
    since = await midnight(store, DAYS)
    for after in (None, AuditPlace(since + 3_600.0, 0)):
        span = AuditSpan(NAMESPACE, since, since + DAYS * DAY_SECONDS, after, limit=1_000)
        for _ in range(7):
            assert await rows_read(store, owner, partial(store.audit.contents, span)) <= 1_100


async def test_sealing_reads_what_it_seals(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """Two hundred new entries, though statistics of a busy moment say that thousands are waiting, and that the log is
    large."""
    new = AuditEntry(NAMESPACE, AuditAction.JOB_CHANGED, SOURCE, "job")
    await store.audit.add([new] * 20_000)
    await owner.execute("ANALYZE tickwise.audit, tickwise.audit_unsealed")
    while await store.audit.seal(10_000):
        pass
    for _ in range(7):
        await store.audit.add([new] * 200)
        assert await rows_read(store, owner, lambda: store.audit.seal(10_000)) <= 400


# ------------------------------------------------------------------------------------------ retention

OLD_SEALS: Final = 20_000
OLD = f"""
SELECT tickwise.audit_make((now() AT TIME ZONE 'UTC')::date - 50);
INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller, address, request_id, target_kind)
SELECT ((now() AT TIME ZONE 'UTC')::date - 50)::timestamp AT TIME ZONE 'UTC' + n * interval '1 second', 'busy',
       'job.changed', 'key', 'ada', '', '', 'job' FROM generate_series(1, {OLD_SEALS}) n;
INSERT INTO tickwise.audit_seals (at, namespace, seq, since, until, entries, digests, previous, hash)
SELECT at, 'busy', n, at, at, ARRAY[n], decode(repeat('ab', 32), 'hex'), decode(repeat('cd', 32), 'hex'),
       decode(lpad(to_hex(n), 64, '0'), 'hex')
FROM (SELECT n, ((now() AT TIME ZONE 'UTC')::date - CASE WHEN n <= {OLD_SEALS} THEN 50 ELSE 3 END)::timestamp
                AT TIME ZONE 'UTC' + n * interval '1 second' AS at FROM generate_series(1, {OLD_SEALS} + 1000) n) s;
"""
SEALS_READ = """
SELECT (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relid = 'tickwise.audit_seals'::regclass)
       + (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relid = 'tickwise.audit_seals'::regclass)
"""
RETIRE = "SELECT tickwise.audit_retire((now() AT TIME ZONE 'UTC')::date - 40)"


async def _seals_read(owner: asyncpg.Connection) -> int:
    """The number of seals, and of entries of their indexes, that this session has read."""
    await owner.execute("SELECT pg_stat_force_next_flush()")
    read: int = await owner.fetchval(SEALS_READ)
    return read


async def test_retention_of_many_seals_is_linear_and_keeps_no_writer_waiting(
    store: PostgresStore, owner: asyncpg.Connection
) -> None:
    """A seal each second makes 86,400 a day. The log is locked while partitions are dropped; seals go afterwards, a
    bounded number in each transaction, while entries are written."""
    await owner.execute(OLD)
    before = await _seals_read(owner)
    [dropped] = await owner.fetchval(RETIRE)
    assert dropped.startswith("audit_")
    assert await _seals_read(owner) - before <= 2 * OLD_SEALS
    assert (
        await owner.fetchval("SELECT count(*) FROM tickwise.audit_seals WHERE namespace = 'busy'") == OLD_SEALS + 1_000
    )
    [checkpoint] = [each for each in await store.audit.checkpoints() if each.namespace == "busy"]
    assert (checkpoint.seq, checkpoint.hash) == (OLD_SEALS, OLD_SEALS.to_bytes(32, "big"))
    left = OLD_SEALS
    while left:
        async with owner.transaction():
            trimmed = await owner.fetchval("SELECT tickwise.audit_trim(7000)")
            # A writer that this transaction keeps waiting waits until its end: for ever.
            await asyncio.wait_for(store.audit.add([AuditEntry("busy", AuditAction.JOB_CHANGED, SOURCE, "job")]), 60.0)
        assert trimmed == min(left, 7_000)
        left -= trimmed
        head = await owner.fetchrow("SELECT min(seq), max(seq) FROM tickwise.audit_seals WHERE namespace = 'busy'")
        assert tuple(head) == (OLD_SEALS - left + 1, OLD_SEALS + 1_000)
    assert await owner.fetchval("SELECT tickwise.audit_trim(7000)") == 0


async def test_retention_drops_many_days_a_few_at_a_time(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """A shorter `audit_days` makes a year of days go: the lock is let go between them."""
    await owner.execute(
        "SELECT tickwise.audit_make((now() AT TIME ZONE 'UTC')::date - d) FROM generate_series(100, 119) d"
    )
    dropped = [await owner.fetchval(RETIRE) for _ in range(4)]
    assert [len(each) for each in dropped] == [8, 8, 4, 0]
    assert sorted(name for each in dropped for name in each) == [name for each in dropped for name in each]
