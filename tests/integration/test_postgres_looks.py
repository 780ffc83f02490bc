"""The looks that schedulers repeat read a bounded number of pages, in tables that nobody has analysed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.connection.link import POOL_SETTINGS
from tickwise.adapters.store.postgres.records.records import MAX_PAGES_COUNTED
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store import MAX_OBJECTIVES_LOOKED, BusyQueue

NONE, LAST = UUID(int=0), UUID(int=(1 << 128) - 1)
OBJECTIVES = 40
ROWS = 60_000
FILL = f"""
ALTER TABLE tickwise.runs SET (autovacuum_enabled = off);
ALTER TABLE tickwise.timers SET (autovacuum_enabled = off);
ALTER TABLE tickwise.jobs_lasting SET (autovacuum_enabled = off);
INSERT INTO tickwise.lanes (namespace, queue, priority, requires)
SELECT 'default', 'q' || n, 5, '{{}}' FROM generate_series(1, 4) n;
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition, labels)
SELECT now(), now(), id, 1, true, true, CASE WHEN n % 2 = 0 THEN 'team' ELSE 'default' END, 'job', 'CRON',
       'shell', 'ada',
       CASE WHEN n % ({ROWS} / {OBJECTIVES}) < 2 THEN '{{"objective_start_seconds":30}}' ELSE '{{}}' END,
       CASE WHEN n % 3 = 0 THEN '{{"team":"data"}}'::jsonb END
FROM generate_series(1, {ROWS}) n, LATERAL (SELECT gen_random_uuid() AS id OFFSET n * 0) t;
INSERT INTO tickwise.timers (due, job_id) SELECT now() + interval '1 hour', job_id FROM tickwise.jobs_lasting;
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, state, holder)
SELECT t, t, t, gen_random_uuid(), gen_random_uuid(), 1 + (n % 10) / 4, 'default', 1, 0
FROM generate_series(1, {ROWS}) n, LATERAL (SELECT now() - n * interval '1 second' AS t) c;
"""
MOST: dict[str, tuple[list[Any], int, set[str]]] = {
    "objective_jobs": ([NONE, 51], 120, {"jobs_objectives"}),
    "objective_jobs_of": (["team", NONE, None, 9, 9], 40, {"jobs_objectives_of"}),
    "objective_jobs_of, of labels": (
        ["team", NONE, ['{"team":"data"}'], 51, MAX_OBJECTIVES_LOOKED], 120, {"jobs_objectives_of"},
    ),
    "stats": ([MAX_PAGES_COUNTED, 50], 2 * MAX_PAGES_COUNTED + 2_500, {"runs_ready"}),
    "delays_runs": ([["default"], 60.0, 100, NONE, LAST], 1_500, {"runs_pkey"}),
    "delays_timers": ([["default"], 60.0, 100, 0.0, NONE], 50, {"timers_decided", "timers_once"}),
}  # fmt: skip
"""Each with the most buffers that it reads, and its indexes. All tables together have some 6,000 pages."""


@pytest_asyncio.fixture(scope="module")
async def filled(postgres_url: str, database_url: str) -> AsyncIterator[str]:
    """The address of tables with many rows and without statistics."""
    del postgres_url
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(FILL, timeout=120)
    await connection.close()
    yield database_url


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan and all parts of it."""
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


@pytest.mark.parametrize("name", MOST)
async def test_a_look_reads_few_pages(filled: str, name: str) -> None:
    """Along its indexes, by the plan for its own values and by the one that a session keeps for all."""
    arguments, most, indexes = MOST[name]
    text = statement(name.partition(",")[0])
    for mode in ("force_custom_plan", "force_generic_plan"):
        session = await asyncpg.connect(filled, server_settings={**POOL_SETTINGS, "plan_cache_mode": mode})
        try:
            await session.fetch(text, *arguments)  # what a session reads of the catalogue at first is another matter
            [row] = await session.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", *arguments)
        finally:
            await session.close()
        plan = json.loads(row[0])[0]["Plan"]
        read = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert read <= most, f"{name}, {mode}: {read} buffers"
        assert indexes <= {node.get("Index Name") for node in nodes(plan)}, (name, mode)
        scanned = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
        assert not scanned & {"runs", "timers", "jobs_lasting"}, (name, mode)


async def test_the_figures_of_a_large_table_are_estimated_from_a_share_of_it(filled: str) -> None:
    """The whole from the server's counters, the queues by their shares in the sample."""
    store = PostgresStore(filled, clock=SystemClock())
    await store.open()
    stats = await store.upkeep.stats(10)
    await store.close()
    assert (stats.queued, stats.timers) == (ROWS, ROWS)
    shares = {queue.queue: queue.waiting / ROWS for queue in stats.queues}
    assert ["q1", "q2", "q3"] == sorted(shares)
    for queue, share in (("q1", 0.4), ("q2", 0.4), ("q3", 0.2)):
        assert shares[queue] == pytest.approx(share, abs=0.03)
    assert all(isinstance(queue, BusyQueue) and queue.held == 0 for queue in stats.queues)


async def test_few_rows_of_a_large_table_are_counted_as_they_are(filled: str) -> None:
    """All others have just gone, and the few lie together: a sample of pages has all of them, or none."""
    session = await asyncpg.connect(filled, server_settings=POOL_SETTINGS)
    transaction = session.transaction()
    await transaction.start()
    try:
        for table in ("runs", "timers"):
            kept = f"SELECT ctid FROM tickwise.{table} ORDER BY ctid LIMIT 120"
            await session.execute(f"DELETE FROM tickwise.{table} WHERE ctid NOT IN ({kept})")
        row = await session.fetchrow(statement("stats"), 10, 9)
    finally:
        await transaction.rollback()
        await session.close()
    assert (row["queued"], row["timers"]) == (120, 120)
    assert sum(waiting for _, _, waiting, _ in json.loads(row["queues"])) == 120
