"""A search for a part of a name reads about as much as it shows, with its index and without it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, schema, upgrade
from tickwise.adapters.store.postgres.records import job_walks, searches
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store import JobQuery, RunQuery

JOBS = 30_000
FILL = """
INSERT INTO tickwise.lanes (namespace, queue, priority, requires) VALUES ('default', 'default', 5, '{{}}');
CREATE TEMP TABLE n AS
  SELECT n, tickwise.now() - interval '4 days' + n * interval '4 days' / {jobs} AS at,
         (lpad(to_hex((extract(epoch FROM tickwise.now()) * 1000)::bigint - ({jobs} - n) * 10), 12, '0') || '8'
          || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid AS id
  FROM generate_series(1, {jobs}) n;
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition)
SELECT at, at, id, 1, true, n % 10 < 5, 'default', (ARRAY['import', 'backup'])[n % 2 + 1] || ' of branch ' || n,
       CASE WHEN n % 10 < 5 THEN 'CRON' ELSE 'FUTURE' END, 'function', 'ada', '{{}}'
FROM n;
INSERT INTO tickwise.history (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before,
                              attempt, failures, crashes, trigger, namespace)
SELECT at, at, at, at, at, 1, 1, id, id, 5, 3, 1, 0, 0, 1, 'default' FROM n;
"""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


@pytest_asyncio.fixture(scope="module")
async def session(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Jobs of which half have an index of names, each with a run."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(FILL.format(jobs=JOBS), timeout=100)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def store(session: asyncpg.Connection, database_url: str) -> AsyncIterator[PostgresStore]:
    """A client of that database."""
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture(params=["never analysed", "analysed"])
async def known(session: asyncpg.Connection, request: pytest.FixtureRequest) -> str:
    """What the planner believes of the tables."""
    said: str = request.param
    if said == "analysed":
        await session.execute("ANALYZE tickwise.jobs, tickwise.history")
    return said


async def explained(session: asyncpg.Connection, terms: str, text: str, *arguments: Any) -> list[dict[str, Any]]:
    """The scans of a statement that was carried out under the terms of its searches."""
    async with session.transaction(readonly=True):
        await session.fetchrow(statement(terms), "60000")
        plan = await session.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {text}", *arguments)
    return [node for node in nodes(json.loads(plan)[0]["Plan"]) if "Relation Name" in node or "Index Name" in node]


def rows_read(scans: list[dict[str, Any]]) -> float:
    """The rows that scans of tables met."""
    read: float = sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0.0)
                                + node.get("Rows Removed by Index Recheck", 0.0))
        for node in scans if "Relation Name" in node
    )  # fmt: skip
    return read


async def test_a_name_is_looked_up_in_its_index(session: asyncpg.Connection, known: str) -> None:
    """A rare one, and one that no job has: nothing else is read."""
    text = job_walks.look_text("jobs_with_name", is_ordered=False)
    for name, most in (("branch 12344", 10), ("no such name", 0)):
        asked = ["default", searches.LAST_ID, 100, 100, searches.like(name), None, None, None, None, None]
        scans = await explained(session, searches.OF_A_SET, text, *asked)
        assert "jobs_names" in {node.get("Index Name") for node in scans}, (known, name)
        read = rows_read([node for node in scans if node.get("Relation Name") == "jobs_lasting"])
        assert read <= most, (known, name)


async def test_old_recurring_jobs_are_on_the_first_page(store: PostgresStore, session: asyncpg.Connection) -> None:
    """Behind more newer jobs than one call looks at; so are their runs."""
    page = await store.searches.jobs(JobQuery(namespace="default", name="of branch 1234", may_pause=True))
    assert {row.name.rpartition(" ")[2] for row in page} == {"1234", "12340", "12341", "12342", "12343", "12344"}
    assert page.paused_at is not None
    assert page.paused_at.is_rest
    runs = await store.searches.runs(RunQuery(namespace="default", job_name="of branch 1234", may_pause=True))
    assert [run.job_id for run in runs] == [row.job_id for row in page]
    assert runs.paused_at is not None


async def test_without_the_extension_all_works_and_is_told(
    database_url: str, session: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has no such extension: the upgrade goes on, the search pauses at the newest jobs, and a finding names
    the cure; the next upgrade that finds one makes the index."""
    await session.execute("DROP INDEX tickwise.jobs_names")
    monkeypatch.setattr(job_walks, "LOOKED_REPEATING", 2_000)

    def without(name: str) -> str:
        return "CREATE EXTENSION pg_trigrams_of_nobody" if name == "trigrams_make" else statement(name)

    monkeypatch.setattr(schema, "statement", without)
    assert await upgrade(database_url) == schema.WANTED
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    try:
        assert [each for each in await store.findings() if "CREATE EXTENSION pg_trgm" in each]
        page = await store.searches.jobs(JobQuery(namespace="default", name="of branch 12344", may_pause=True))
        assert (list(page), page.paused_at and page.paused_at.is_rest) == ([], False)
        every = await store.searches.jobs(JobQuery(namespace="default", name="of branch 12344"))
        assert [row.name for row in every] == ["import of branch 12344"]
        monkeypatch.undo()
        monkeypatch.setattr(job_walks, "LOOKED_REPEATING", 2_000)
        await upgrade(database_url)
        assert not [each for each in await store.findings() if "pg_trgm" in each]
        page = await store.searches.jobs(JobQuery(namespace="default", name="of branch 12344", may_pause=True))
        assert [row.name for row in page] == ["import of branch 12344"]
    finally:
        await store.close()


async def test_the_index_of_names_leaves_out_one_time_jobs(session: asyncpg.Connection) -> None:
    """They come by the million, and pay nothing for it."""
    before = await session.fetchval("SELECT pg_relation_size('tickwise.jobs_names')")
    await session.execute(
        "INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,"
        " task_kind, created_by, definition) SELECT now(), now(), gen_random_uuid(), 1, true, false, 'default',"
        " md5(n::text) || md5((-n)::text), 'FUTURE', 'shell', 'ada', '{}' FROM generate_series(1, 2000) n"
    )
    assert await session.fetchval("SELECT pg_relation_size('tickwise.jobs_names')") == before
