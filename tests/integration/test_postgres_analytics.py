"""Analytics of many runs on PostgreSQL: the answer says how far it goes, and reads what its bounds allow."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.records import analytics
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Invalid, StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.observing.analytics import Coverage, GroupBy
from tickwise.ports.store import AnalyticsQuery, Retention, RunQuery

DAY_SECONDS = 86_400.0
RUNS = 60_000
FAILED = RUNS // 10

FILL = f"""
CREATE FUNCTION pg_temp.id(at timestamptz, n bigint) RETURNS uuid LANGUAGE sql AS $$
  SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '8' || substr(md5(n::text), 1, 3)
          || '8' || substr(md5(n::text), 4, 15))::uuid
$$;
INSERT INTO tickwise.history (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before,
                              attempt, failures, crashes, trigger, namespace, reason)
SELECT at, at, at, at + interval '100 milliseconds', at + (n % 10 + 1) * interval '1 second', 1, 1, pg_temp.id(at, -n),
       pg_temp.id(tickwise.now(), n % 7), CASE WHEN n % 10 = 0 THEN 6 ELSE 5 END, 3, 1, 0, 0, 1, 'default',
       CASE WHEN n % 10 = 0 THEN 'exit_code' END
FROM (SELECT n, tickwise.now() - interval '20 hours' + n * interval '19 hours' / {RUNS} AS at FROM generate_series(1,
{RUNS}) n) s; """


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    await upgrade(database_url)
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    await made.upkeep.maintain(Retention(runs_seconds=30 * DAY_SECONDS, failed_seconds=90 * DAY_SECONDS))
    connection = await asyncpg.connect(database_url)
    await connection.execute(FILL, timeout=100)
    await connection.close()
    yield made
    await made.close()


async def asked(store: PostgresStore, group_by: GroupBy = GroupBy.REASON, **said: Any) -> AnalyticsQuery:
    """About the last day."""
    now = await store.now()
    return AnalyticsQuery(
        runs=RunQuery(namespace="default", due_after=now - DAY_SECONDS, due_before=now, **said), group_by=group_by
    )


async def test_the_answer_says_how_far_it_goes(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs are read one by one; of more, a table of few pages is read whole; of a large one a share is, whose
    counts are near the truth; where that share has too few, the newest are counted, and since when."""
    for name in ("EXACT_SECONDS", "SAMPLE_SECONDS", "FEW_SECONDS"):
        monkeypatch.setattr(analytics, name, 30.0)
    query = await asked(store)
    few = await store.searches.analyse(await asked(store, states=(RunState.FAILED,)))
    assert (few.coverage, few.total.runs) == (Coverage.EXACT, FAILED)
    monkeypatch.setattr(analytics, "PAGES_MOST", 10_000)
    whole = await store.searches.analyse(query)
    assert (whole.coverage, whole.total.runs, whole.rows) == (Coverage.EXACT, RUNS, RUNS)
    monkeypatch.setattr(analytics, "ROWS_MOST", 2_000)
    monkeypatch.setattr(analytics, "PAGES_MOST", 200)
    sampled = await store.searches.analyse(query)
    assert sampled.coverage is Coverage.SAMPLED
    assert sampled.total.success_ratio == pytest.approx(0.9, abs=0.03)
    assert sampled.total.runs == pytest.approx(RUNS, rel=0.02)
    assert sampled.rows == pytest.approx(sampled.total.runs * sampled.share, abs=1.0)
    assert sampled.rows < RUNS / 2
    assert sampled.total.duration is not None
    assert whole.total.duration is not None
    assert sampled.total.duration.p50 == pytest.approx(whole.total.duration.p50, rel=0.1)
    assert [row.key for row in sampled.groups] == ["exit_code", None]
    assert sampled == await store.searches.analyse(query)
    monkeypatch.setattr(analytics, "SAMPLE_LEAST", RUNS)
    newest = await store.searches.analyse(query)
    assert (newest.coverage, newest.rows, newest.total.runs) == (Coverage.NEWEST, 2_001, 2_001)
    assert newest.since is not None
    assert query.runs.due_before is not None
    assert query.runs.due_before - newest.since < DAY_SECONDS / 8


async def test_pages_whose_runs_were_removed_do_not_count_twice(
    store: PostgresStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the runs were removed at once, their pages are still there: the estimate is of those that are left."""
    for name in ("EXACT_SECONDS", "SAMPLE_SECONDS", "FEW_SECONDS"):
        monkeypatch.setattr(analytics, name, 30.0)
    monkeypatch.setattr(analytics, "ROWS_MOST", 2_000)
    monkeypatch.setattr(analytics, "PAGES_MOST", 300)
    connection = await asyncpg.connect(database_url)
    await connection.execute("DELETE FROM tickwise.history WHERE ended > tickwise.now() - interval '10 hours'")
    left: int = await connection.fetchval("SELECT count(*) FROM tickwise.history")
    await connection.close()
    sampled = await store.searches.analyse(await asked(store))
    assert sampled.coverage is Coverage.SAMPLED
    assert sampled.total.runs == pytest.approx(left, rel=0.2)


async def test_a_question_that_takes_too_long_is_refused_or_sampled(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no index, and matches nothing, has the time that it is given: then a share is read. Without time for
    that either, the caller is told what narrows the question. What the store ends for another reason is none of the
    question's fault."""
    for name in ("SAMPLE_SECONDS", "FEW_SECONDS"):
        monkeypatch.setattr(analytics, name, 30.0)
    query = await asked(store, executor=7)
    monkeypatch.setattr(analytics, "PAGES_MOST", 100)
    monkeypatch.setattr(analytics, "EXACT_SECONDS", 0.001)
    found = await store.searches.analyse(query)
    assert (found.coverage, found.total.runs) == (Coverage.SAMPLED, 0)
    monkeypatch.setattr(analytics, "SAMPLE_SECONDS", 0.001)
    monkeypatch.setattr(analytics, "PAGES_FEW", 50)
    few = await store.searches.analyse(await asked(store, GroupBy.JOB))
    assert few.coverage is Coverage.SAMPLED
    assert few.rows < RUNS / 10
    monkeypatch.setattr(analytics, "FEW_SECONDS", 0.001)
    with pytest.raises(Invalid, match="a shorter time, a job, a label or a status"):
        await store.searches.analyse(await asked(store, GroupBy.JOB))
    monkeypatch.setattr(analytics, "NEARLY", 1e9)
    with pytest.raises(StoreUnavailable):
        await store.searches.analyse(query)


@pytest.mark.parametrize("group_by", GroupBy)
async def test_a_sample_reads_its_pages_and_no_more(
    store: PostgresStore, database_url: str, group_by: GroupBy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By each way to group: a table is never read from end to end."""
    plans: list[str] = []
    monkeypatch.setattr(analytics, "ROWS_MOST", 2_000)
    monkeypatch.setattr(analytics, "PAGES_MOST", 100)
    for name in ("EXACT_SECONDS", "SAMPLE_SECONDS", "FEW_SECONDS"):
        monkeypatch.setattr(analytics, name, 30.0)
    monkeypatch.setattr(analytics, "MANY", 1e9)  # so that the newest are asked for, too
    plain = analytics._grouped

    def grouped(name: str) -> str:
        plans.append(plain(name))
        return plans[-1]

    monkeypatch.setattr(analytics, "_grouped", grouped)
    query = replace(await asked(store, group_by), label="team")
    await store.searches.analyse(query)
    assert len(plans) == 2
    parameters = await _parameters(store, query)
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await connection.fetchrow(statement("analytics_terms"), "5000")
            for text, last in zip(plans, (1.0, 2_001), strict=True):
                said = await connection.fetchval(
                    f"EXPLAIN (FORMAT JSON) {text}", *parameters, last, group_by.value, "team", "runs", 20
                )
                scanned = {(node.get("Node Type"), node.get("Alias")) for node in _nodes(json.loads(said)[0]["Plan"])}
                assert ("Seq Scan", "h") not in scanned, scanned
                assert not {kind for kind, alias in scanned if kind == "Seq Scan" and alias == "j"}, scanned
    finally:
        await connection.close()


async def _parameters(store: PostgresStore, query: AnalyticsQuery) -> list[Any]:
    part = store.searches
    async with part._links.pooled(writes=False) as connection:
        return await part._asked(connection, query)


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(found for inner in plan.get("Plans", []) for found in _nodes(inner))]
