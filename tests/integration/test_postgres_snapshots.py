"""Pages stay cheap while somebody's snapshot keeps dead rows: a dump, a report, a stalled replication slot."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade
from tickwise.adapters.store.postgres.connection.link import POOL_SETTINGS
from tickwise.adapters.store.postgres.statements import statement

DEAD, LIVE, PAGES = 110_000, 2_000, 100
FILL = f"""
ALTER TABLE tickwise.runs SET (autovacuum_enabled = off);
INSERT INTO tickwise.lanes (namespace, queue, priority, requires)
SELECT 'default', queue, 5, '{{}}' FROM unnest(ARRAY['busy', 'quiet']) queue;
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, state, holder)
SELECT now(), now(), now(), gen_random_uuid(), gen_random_uuid(),
       (SELECT lane FROM tickwise.lanes WHERE queue = 'busy'), 'default', 1, 0
FROM generate_series(1, {DEAD + LIVE});
"""
END_ALL_BUT = """
WITH gone AS (
  DELETE FROM tickwise.runs WHERE ctid NOT IN (SELECT ctid FROM tickwise.runs ORDER BY run_id DESC LIMIT $1) RETURNING 1
) SELECT count(*) FROM gone"""
QUIET = """
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, state, holder)
SELECT now(), now(), now(), gen_random_uuid(), gen_random_uuid(),
       (SELECT lane FROM tickwise.lanes WHERE queue = 'quiet'), 'default', 1, 0
FROM generate_series(1, 3)"""


@pytest_asyncio.fixture(scope="module")
async def dumped(postgres_url: str, database_url: str) -> AsyncIterator[str]:
    """The address of a database with some live runs and many dead ones, which a dump of an hour still sees."""
    del postgres_url
    await upgrade(database_url)
    session, dump = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    await session.execute(FILL)
    snapshot = dump.transaction(isolation="repeatable_read")
    await snapshot.start()
    assert DEAD + LIVE == await dump.fetchval("SELECT count(*) FROM tickwise.runs")
    assert DEAD == await session.fetchval(END_ALL_BUT, LIVE)
    await session.execute(QUIET)
    await session.execute("SELECT pg_stat_force_next_flush()")
    yield database_url
    await snapshot.rollback()
    for each in (session, dump):
        await each.close()


@pytest.mark.parametrize("name", ["stats", "queues_list"])
async def test_a_look_at_live_runs_reads_no_dead_ones_by_their_index(dumped: str, name: str) -> None:
    """Each of them would be read, by each look, for as long as the snapshot lasts."""
    arguments: list[object] = [PAGES, 50] if name == "stats" else ["default", None, PAGES]
    session = await asyncpg.connect(dumped, server_settings=POOL_SETTINGS)
    try:
        await eventually(lambda: session.fetchval("SELECT tickwise.many_dead_runs()"))
        await session.fetch(statement(name), *arguments)
        [row] = await session.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement(name)}", *arguments)
    finally:
        await session.close()
    plan = json.loads(row[0])[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 10 * PAGES


async def test_a_quiet_queue_is_counted_as_it_is(dumped: str) -> None:
    """Its part of the index has no dead rows."""
    session = await asyncpg.connect(dumped, server_settings=POOL_SETTINGS)
    try:
        found = {
            row["queue"]: row["queued"] for row in await session.fetch(statement("queues_list"), "default", None, PAGES)
        }
    finally:
        await session.close()
    assert found["quiet"] == 3
