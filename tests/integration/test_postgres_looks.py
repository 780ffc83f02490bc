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
from tickwise.adapters.store.postgres.dispatch import executors
from tickwise.adapters.store.postgres.jobs import flow, quotas
from tickwise.adapters.store.postgres.records.records import MAX_PAGES_COUNTED
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store import MAX_OBJECTIVES_LOOKED, BusyQueue
from tickwise.testing.factories import executor

pytestmark = pytest.mark.usefixtures("patient_beats")

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
    "stats_timers": ([MAX_PAGES_COUNTED], 2 * MAX_PAGES_COUNTED + 2_500, {"timers_decided", "timers_once"}),
    "delays_runs": ([["default"], 60.0, 100, NONE, LAST], 1_500, {"runs_pkey"}),
    "delays_timers": ([["default"], 60.0, 100, 0.0, NONE], 50, {"timers_decided", "timers_once"}),
    "queues_list": (["default", None, 100], 800, {"runs_ready"}),
    "executors_list": ([100], 50, set()),
    "quota_sizes_shown, of the default namespace": (["default", 50, 100], 12_000, set()),
    "quota_sizes_shown, of another one": (["team", 50, 100], 12_000, set()),
    "check_has_a_job": ([NONE, 50], 800, {"runs_pkey", "timers_pkey"}),
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
        done = [node for node in nodes(plan) if node["Actual Loops"] > 0]
        scanned = {node["Relation Name"] for node in done if node["Node Type"] == "Seq Scan"}
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
        timers = await session.fetchval(statement("stats_timers"), 10)
    finally:
        await transaction.rollback()
        await session.close()
    assert (row["queued"], timers) == (120, 120)
    assert sum(waiting for _, _, waiting, _ in json.loads(row["queues"])) == 120


async def test_a_busy_queue_of_a_large_table_is_estimated_and_a_quiet_one_is_counted(
    filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The three with a fifth of the runs and more each, and one with three runs, of which a sample would have none."""
    monkeypatch.setattr(flow, "COUNTED_PAGES", 300)
    session = await asyncpg.connect(filled)
    quiet = await session.fetch(
        "WITH q AS (SELECT run_id FROM tickwise.runs WHERE lane = 1 ORDER BY run_id LIMIT 3)"
        " UPDATE tickwise.runs SET lane = 4 WHERE run_id IN (SELECT run_id FROM q) RETURNING run_id"
    )
    store = PostgresStore(filled, clock=SystemClock())
    await store.open()
    try:
        found = {row.queue: row.queued for row in await store.queues.all("default")}
    finally:
        await store.close()
        await session.execute("UPDATE tickwise.runs SET lane = 1 WHERE run_id = ANY($1)", [row[0] for row in quiet])
        await session.close()
    assert found.pop("q4") == 3
    for queue, share in (("q1", 0.4), ("q2", 0.4), ("q3", 0.2)):
        assert found[queue] / ROWS == pytest.approx(share, abs=0.05)


async def test_the_jobs_of_a_large_table_are_estimated_for_a_page_and_counted_for_a_quota(
    filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second job is of the team. A small namespace beside them is counted by its index."""
    monkeypatch.setattr(quotas, "SHOWN_PAGES", 200)
    monkeypatch.setattr(quotas, "SHOWN_JOBS", 100)
    store = PostgresStore(filled, clock=SystemClock())
    await store.open()
    try:
        for namespace in ("team", "default"):
            use = await store.quotas.use(namespace)
            assert use.is_estimate
            assert use.jobs == pytest.approx(ROWS / 2, rel=0.15)
            assert use.bytes == pytest.approx(use.jobs * 2, rel=0.1)
        none = await store.quotas.use("nobody")
        assert (none.jobs, none.is_estimate) == (0, False)
        monkeypatch.setattr(quotas, "SHOWN_PAGES", 1_000_000)
        use = await store.quotas.use("team")
        assert (use.jobs, use.is_estimate) == (ROWS // 2, False)
    finally:
        await store.close()


async def test_the_runs_of_executors_of_a_large_table_are_as_many_as_they_say(
    filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count reads the whole table. What an executor says is as old as its last heartbeat."""
    store = PostgresStore(filled, clock=SystemClock())
    await store.open()
    try:
        number = await store.executors.join(executor())
        await store.executors.beat(number, 60.0, held=17)
        await store.executors.beat(number, 60.0)
        monkeypatch.setattr(executors, "COUNTED_PAGES", 100)
        assert [17] == [row.held for row in await store.executors.all()]
        assert [17] == [row.held for row in await store.executors.all((0.0, 1e10))]
        monkeypatch.setattr(executors, "COUNTED_PAGES", 1_000_000)
        assert [0] == [row.held for row in await store.executors.all()]
        monkeypatch.setattr(executors, "COUNTED_PAGES", 100)
        await store.executors.leave(number)
        await store.executors.expire(3)
        assert [0] == [row.held for row in await store.executors.all()]
    finally:
        await store.close()
