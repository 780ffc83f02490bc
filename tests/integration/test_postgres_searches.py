"""A search reads about as much as it shows, however much is on record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from itertools import combinations
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.connection.link import PAGE_SETTINGS
from tickwise.adapters.store.postgres.jobs import jobs
from tickwise.adapters.store.postgres.records import letters, run_walks, searches
from tickwise.adapters.store.postgres.records.paging import bounded
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Invalid, StoreUnavailable
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Trigger
from tickwise.ports.store import MAX_TIMERS_LOOKED, PAGE_BYTES, JobQuery, LetterQuery, LetterStatus, Retention, RunQuery

DAY_SECONDS = 86_400.0
RUNS = 60_000
"""Finished runs, over four days up to noon of yesterday, and as many jobs; and half as many that lie ahead. Were they
to end now, the hour would say how many fall on which day, and so what the planner does. Up to about 40,000 that were
never analysed it takes for as cheap to read and sort all of them."""
UNKNOWN_AND_MANY = {"a page further on", "succeeded", "of a kind of schedule", "of the executor of all"}
"""Of a partition that was never analysed the planner believes that few rows match, and puts all of these in order. Such
a partition has at most the million rows at which it is analysed."""
MAX_READ = 2_000
"""Rows that a page of 50 may read: it is merged from some partitions, and ids and due times differ by minutes."""

FILL = """
CREATE FUNCTION pg_temp.id(at timestamptz, n bigint) RETURNS uuid LANGUAGE sql AS $$
  SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '8' || substr(md5(n::text), 1, 3)
          || '8' || substr(md5(n::text), 4, 15))::uuid
$$;
INSERT INTO tickwise.lanes (namespace, queue, priority, requires) VALUES ('default', 'default', 5, '{{}}');
CREATE TEMP TABLE n AS
  SELECT n, date_trunc('day', tickwise.now(), 'UTC') - interval '108 hours' + n * interval '4 days' / {runs} AS at,
         CASE WHEN n % 500 = 7 THEN 'tiny' ELSE 'default' END AS namespace
  FROM generate_series(1, {runs}) n;
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition, labels)
SELECT at, at, pg_temp.id(at, n), 1, false, false, namespace, 'past ' || n, 'IMMEDIATE', 'function', 'ada', '{{}}',
       CASE WHEN n % 4000 = 5 THEN '{{"team": "a"}}'::jsonb WHEN n % 10 = 0 THEN '{{"team": "many"}}'::jsonb END
FROM n;
INSERT INTO tickwise.history (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before,
                              attempt, failures, crashes, trigger, namespace, reason)
SELECT at, at, at, at, at, 1, 1, pg_temp.id(at, -n), pg_temp.id(at, n), CASE WHEN n % 1000 = 0 THEN 6 ELSE 5 END, 3,
       1, 0, 0, 1, namespace, CASE WHEN n % 1000 = 0 THEN 'exit_code' END
FROM n;
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition)
SELECT at, at, pg_temp.id(at, {runs} + n), 1, true, false, namespace, 'ahead ' || n, 'FUTURE', 'function', 'ada',
       '{{}}'
FROM n WHERE n % 2 = 0;
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition, standing, paused)
SELECT at, at, pg_temp.id(at, 2 * {runs} + n), 1, true, true, namespace, 'still ' || n, 'CRON', 'function', 'ada',
       '{{}}', 1 + n / 1000 % 2, at
FROM n WHERE n % 1000 = 1;
INSERT INTO tickwise.timers (due, job_id, run_id)
SELECT tickwise.now() + interval '2 days' + n * interval '1 minute', pg_temp.id(at, {runs} + n),
       pg_temp.id(at, {runs} + n)
FROM n WHERE n % 2 = 0;
"""


UNWATCHED = """
DO $$
DECLARE part regclass;
BEGIN
  FOR part IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'tickwise'::regnamespace AND c.relkind = 'r' LOOP
    EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', part);
  END LOOP;
END $$
"""
"""Else the planner comes to know some of the tables in the middle of a test."""


@pytest_asyncio.fixture(scope="module")
async def session(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session as searches have it, beside a past that nobody has analysed."""
    await upgrade(database_url)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    connection = await asyncpg.connect(database_url)
    # Partitions of the days that are filled: the clock stands days back while they are made.
    for days in (6, 4, 2, 0):
        await store.shift(-days * DAY_SECONDS)
        await store.upkeep.maintain(Retention(runs_seconds=30 * DAY_SECONDS, failed_seconds=90 * DAY_SECONDS))
    await connection.execute(UNWATCHED)  # a busy machine takes longer to fill them than autovacuum waits
    await connection.execute(FILL.format(runs=RUNS), timeout=100)
    await connection.execute(statement("search_terms").replace("$1::text", "'60000'").replace(", true)", ", false)"))
    yield connection
    await connection.close()
    await store.close()


@pytest_asyncio.fixture(scope="module", params=["never analysed", "analysed"])
async def known(session: asyncpg.Connection, request: pytest.FixtureRequest) -> str:
    """What the planner believes of the tables."""
    said: str = request.param
    if said == "analysed":
        await session.execute("ANALYZE tickwise.history, tickwise.jobs, tickwise.timers, tickwise.runs", timeout=60)
    return said


@pytest_asyncio.fixture
async def store(session: asyncpg.Connection, database_url: str) -> AsyncIterator[PostgresStore]:
    """A client of the same database."""
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


async def as_for_pages(session: asyncpg.Connection) -> None:
    """Let the rest of this transaction be planned as pages are whose plan is kept."""
    for name, value in {**PAGE_SETTINGS, "statement_timeout": "60s"}.items():
        await session.execute(f"SET LOCAL {name} = '{value}'")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


async def rows_read(session: asyncpg.Connection, text: str, arguments: list[Any]) -> float:
    """Rows that the scans of a statement met, those that it passed over included."""
    return met(await session.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {text}", *arguments))


def sorted_rows(text: str) -> float:
    """Rows that came out of sorts, of a plan that was carried out."""
    sorts = [node for node in nodes(json.loads(text)[0]["Plan"]) if "Sort" in node["Node Type"]]
    read: float = sum(node["Actual Loops"] * node["Actual Rows"] for node in sorts)
    return read if not sorts else max(read, 0.1)


def met(text: str) -> float:
    """The same of a plan that was carried out."""
    scans = [node for node in nodes(json.loads(text)[0]["Plan"]) if "Relation Name" in node]
    read: float = sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0.0))
        for node in scans
        if node["Relation Name"] != "lanes"
    )
    return read


def too_much(read: dict[str, float], known: str) -> dict[str, float]:
    """The searches that read more than they may, and how much."""
    excused = UNKNOWN_AND_MANY if known == "never analysed" else set()
    return {name: rows for name, rows in read.items() if rows > MAX_READ and name not in excused}


async def runs_asked(session: asyncpg.Connection) -> dict[str, RunQuery]:
    """Searches for runs, by name."""
    now = await session.fetchval("SELECT date_part('epoch', tickwise.now())")
    job: UUID = await session.fetchval("SELECT job_id FROM tickwise.history WHERE namespace = 'default' LIMIT 1")
    old = now - 2.5 * DAY_SECONDS
    some = await session.fetchval(
        "SELECT array_agg(run_id) FROM (SELECT run_id FROM tickwise.history WHERE namespace = 'default' LIMIT 25) s"
    )
    return {
        "newest": RunQuery(namespace="default"),
        "a page further on": RunQuery(namespace="default", before=searches.first_id(old)),
        "of a job": RunQuery(namespace="default", job_id=job),
        "by their ids": RunQuery(namespace="default", ids=tuple(some)),
        "by their ids, those that failed": RunQuery(namespace="default", ids=tuple(some), states=(RunState.FAILED,)),
        "failed": RunQuery(namespace="default", states=(RunState.FAILED,)),
        "succeeded": RunQuery(namespace="default", states=(RunState.SUCCESS,)),
        "running": RunQuery(namespace="default", states=(RunState.RUNNING,)),
        "of a small namespace": RunQuery(namespace="tiny"),
        "of a namespace without any": RunQuery(namespace="nobody"),
        "of an old window": RunQuery(namespace="default", due_after=old, due_before=old + 60.0),
        "of the last minutes": RunQuery(namespace="default", due_after=now - 300.0),
        "of a time to come": RunQuery(namespace="default", due_after=now + DAY_SECONDS),
        "with a reason": RunQuery(namespace="default", reason="exit_code"),
        "with a reason that none has": RunQuery(namespace="default", reason="timeout"),
        "asked for by a person": RunQuery(namespace="default", triggers=(int(Trigger.RETRY),)),
        "from one origin": RunQuery(namespace="default", origin=job),
        "of jobs with a label": RunQuery(namespace="default", labels={"team": "a"}),
        "of a selector": RunQuery(namespace="default", within=SELECTOR),
        "of a selector that no job is of": RunQuery(namespace="default", within=NO_JOB),
        "of a selector of many jobs": RunQuery(namespace="default", within=MANY),
        "of jobs with a name": RunQuery(namespace="default", job_name="past"),
        "of jobs of a queue": RunQuery(namespace="default", queue="default"),
        "of jobs of a queue that is not there": RunQuery(namespace="default", queue="defualt"),
        "of the executor of all": RunQuery(namespace="default", executor=1),
    }


SELECTOR = ((("team", "a"),), (("env", "prod"), ("team", "b")))
NO_JOB = ((("team", "nobody"),),)
MANY = ((("team", "many"),),)

JOBS = {
    "newest": JobQuery(namespace="default"),
    "that lie ahead": JobQuery(namespace="default", statuses=(JobStatus.SCHEDULED,)),
    "that failed": JobQuery(namespace="default", statuses=(JobStatus.FAILED,)),
    "paused": JobQuery(namespace="default", statuses=(JobStatus.PAUSED,)),
    "cancelled": JobQuery(namespace="default", statuses=(JobStatus.CANCELLED,)),
    "recurring": JobQuery(namespace="default", schedule_type="CRON"),
    "of a kind of schedule": JobQuery(namespace="default", schedule_type="FUTURE"),
    "of a small namespace": JobQuery(namespace="tiny"),
    "of a namespace without any": JobQuery(namespace="nobody"),
    "with a key": JobQuery(namespace="default", key="nightly"),
    "with a label": JobQuery(namespace="default", labels={"team": "a"}),
    "of a selector": JobQuery(namespace="default", within=SELECTOR),
    "of a selector that no job is of": JobQuery(namespace="default", within=NO_JOB),
    "that lie ahead, of a selector": JobQuery(namespace="default", statuses=(JobStatus.SCHEDULED,), within=SELECTOR),
    "that lie ahead, with a key": JobQuery(namespace="default", statuses=(JobStatus.SCHEDULED,), key="nightly"),
    "that lie ahead, with a label": JobQuery(
        namespace="default", statuses=(JobStatus.SCHEDULED,), labels={"team": "a"}
    ),
    "that lie ahead, recurring": JobQuery(namespace="default", statuses=(JobStatus.SCHEDULED,), schedule_type="CRON"),
    "that lie ahead, of a small namespace": JobQuery(namespace="tiny", statuses=(JobStatus.SCHEDULED,)),
} | {
    " or ".join(statuses): JobQuery(namespace="default", statuses=statuses)
    for count in range(2, len(JobStatus) + 1)
    for statuses in combinations(JobStatus, count)
}
"""Every combination of statuses is among them."""


@pytest.mark.takes_up_to(240)
async def test_a_search_for_runs_reads_about_as_much_as_it_shows(
    session: asyncpg.Connection, known: str, store: PostgresStore
) -> None:
    """Whatever is asked that an index is for; what is rare is found by its index with no statistics too."""
    read = {
        name: await rows_read(
            session,
            bounded("runs_list"),
            [*await store.searches._searched_for(session, query), *run_walks.texts_of(query), PAGE_BYTES],
        )
        for name, query in (await runs_asked(session)).items()
    }
    assert too_much(read, known) == {}, known


OPEN = (LetterStatus.OPEN, LetterStatus.HELD)
LOOKS = {"runs_latest", "jobs_of", "jobs_coming"}
"""Their plans are kept, too; they are no pages, and have sorts of as many rows as they show."""


@pytest.mark.takes_up_to(240)
async def test_a_look_at_many_jobs_reads_about_as_much_as_it_shows(
    session: asyncpg.Connection, known: str, database_url: str
) -> None:
    """The runs of 25 jobs, their names, the jobs that come next: of this namespace, of one that has nothing among the
    next timers, and within a window."""
    ids = await session.fetch("SELECT job_id FROM tickwise.jobs WHERE namespace = 'default' LIMIT 25")
    jobs = "{" + ",".join(str(row["job_id"]) for row in ids) + "}"
    now = float(await session.fetchval("SELECT date_part('epoch', tickwise.now())"))
    partitions = await session.fetchval("SELECT count(*) FROM pg_partition_tree('tickwise.history') WHERE isleaf")
    timers = MAX_TIMERS_LOOKED
    asked: dict[str, tuple[str, list[Any], int]] = {
        "runs of jobs": ("runs_latest", ["default", jobs, 20, now, None], 25 * (20 + partitions)),
        "jobs by id": ("jobs_of", ["default", jobs, None], 25 * (8 + partitions)),
        "next": ("jobs_coming", ["default", None, None, 10, timers, None], 2 * timers + 100),
        "next in a window": (
            "jobs_coming",
            ["default", now, now + 3 * DAY_SECONDS, 10, timers, None],
            2 * timers + 100,
        ),
        "nothing next": ("jobs_coming", ["nobody", None, None, 10, timers, None], 4 * timers),
    }
    read = {}
    connection = await asyncpg.connect(database_url)
    for what, (name, arguments, most) in asked.items():
        async with connection.transaction(readonly=True):
            await as_for_pages(connection)
            told = ", ".join("NULL" if each is None else repr(each) for each in arguments)
            await connection.execute(f"PREPARE look AS {statement(name)}")
            text = await connection.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE look({told})")
            await connection.execute("DEALLOCATE look")
        if met(text) > most:
            read[what] = met(text)
    await connection.close()
    few: list[Any] = ["tiny", None, None, 10, timers, None]
    if (rows := await rows_read(session, statement("jobs_coming_of"), few)) > MAX_READ:
        read["of few jobs"] = rows
    assert read == {}, known


UNDER_WAY = """
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, trigger)
SELECT at, at, at, pg_temp.id(at, 9 * {runs} + n), CASE WHEN n % 2 = 0 THEN '{busy}'::uuid ELSE pg_temp.id(at, n) END,
       1, namespace, 1
FROM n WHERE n <= 6000;
"""
"""Half of them of one job."""


@pytest.mark.takes_up_to(240)
async def test_a_look_at_a_job_passes_over_the_runs_of_all_others(session: asyncpg.Connection, known: str) -> None:
    """Thousands are under way, one of them of this job; or thousands of this one."""
    busy, idle = UUID(int=7), UUID(int=8)
    read, found = {}, {}
    transaction = session.transaction()
    await transaction.start()
    await session.execute(UNDER_WAY.format(runs=RUNS, busy=busy))
    few = await session.fetchval(
        "SELECT job_id FROM tickwise.runs WHERE job_id <> $1 AND namespace = 'default' LIMIT 1", busy
    )
    await as_for_pages(session)
    for job, newest in ((few, 1), (busy, 50), (idle, 0)):
        asked: dict[str, list[Any]] = {
            "runs_newest_of_job": ["default", searches.LAST_ID, 50, job, True, True],
            "runs_latest": ["default", [job], 50, 9e9, None],
        }
        for name, arguments in asked.items():
            rows = await session.fetch(statement(name), *arguments)
            found[name, job] = len([row for row in rows if row["ended_at"] is None])
            assert [row["run_id"] for row in rows] == sorted((row["run_id"] for row in rows), reverse=True)
            # `count` and the array read a thousand at most; the rows of a page, and one of each partition.
            if (count := await rows_read(session, statement(name), arguments)) > (1_400 if job == busy else 120):
                read[name, job] = count
            assert found[name, job] == newest, name
    await transaction.rollback()
    assert read == {}, known


@pytest.mark.takes_up_to(240)
async def test_a_page_whose_plan_is_kept_reads_about_as_much_as_it_shows(
    session: asyncpg.Connection, known: str, database_url: str
) -> None:
    """One plan for all values, made by a session that knows nothing of them: the newest, the oldest, another namespace,
    a job. Its bound in bytes adds no sort to it; the few runs of a job that are under way are put in order."""
    job: UUID = await session.fetchval("SELECT job_id FROM tickwise.history WHERE namespace = 'default' LIMIT 1")
    old = searches.first_id(await session.fetchval("SELECT date_part('epoch', tickwise.now())") - 2.5 * DAY_SECONDS)
    texts_and_bound = [True, True, PAGE_BYTES]
    pages: dict[str, list[list[Any]]] = {
        "jobs_newest": [["default", searches.LAST_ID, 51, PAGE_BYTES], ["default", old, 501, PAGE_BYTES]],
        "jobs_newest_of": [["tiny", searches.LAST_ID, 51, PAGE_BYTES], ["nobody", old, 51, PAGE_BYTES]],
        "runs_newest": [["default", searches.LAST_ID, 51, *texts_and_bound], ["default", old, 501, *texts_and_bound]],
        "runs_newest_of": [["tiny", searches.LAST_ID, 51, *texts_and_bound], ["nobody", old, 51, *texts_and_bound]],
        "runs_newest_failed": [
            ["default", searches.LAST_ID, 51, *texts_and_bound],
            ["default", old, 51, *texts_and_bound],
        ],
        "runs_newest_of_job": [
            ["default", searches.LAST_ID, 51, job, *texts_and_bound],
            ["default", old, 51, job, *texts_and_bound],
        ],
        "job_get": [["default", job]],
    }
    assert set(pages) | LOOKS == searches.KEPT
    read, sorts = {}, set()
    connection = await asyncpg.connect(database_url)
    for name, calls in pages.items():
        for arguments in calls:
            async with connection.transaction(readonly=True):
                await as_for_pages(connection)
                told = ", ".join(f"'{value}'" if not isinstance(value, int) else str(value) for value in arguments)
                text = statement(name) if name == "job_get" else bounded(name)
                await connection.execute(f"PREPARE page AS {text}")
                text = await connection.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE page({told})")
                await connection.execute("DEALLOCATE page")
            # A page reads its rows, some for each of what is joined to it, and one of each partition that it is of.
            shown = arguments[2] if len(arguments) > 2 else 1
            if sorted_rows(text) > (2 * shown if name == "runs_newest_of_job" else 0):
                sorts.add(name)
            if met(text) > 4 * shown + 100:
                read[f"{name}({told})"] = met(text)
    await connection.close()
    assert (read, sorts) == ({}, set()), known


@pytest.mark.takes_up_to(240)
async def test_a_search_for_jobs_reads_about_as_much_as_it_shows(
    session: asyncpg.Connection, known: str, store: PostgresStore
) -> None:
    """The same, with what is read to choose the search; what has no index (a part of a name, an owner, a kind of task)
    is looked for in a bounded time."""
    now = await session.fetchval("SELECT date_part('epoch', tickwise.now())")
    day = now + 5 * DAY_SECONDS
    some = await session.fetchval(
        "SELECT array_agg(job_id) FROM (SELECT job_id FROM tickwise.jobs WHERE namespace = 'default' LIMIT 25) s"
    )
    asked = JOBS | {
        "due in an hour of a day to come": JobQuery(
            namespace="default", next_run_after=day, next_run_before=day + 3600.0
        ),
        "due from a day on": JobQuery(namespace="default", next_run_after=day),
        "by their ids": JobQuery(namespace="default", ids=tuple(some)),
        "by their ids, paused": JobQuery(namespace="default", ids=tuple(some), statuses=(JobStatus.PAUSED,)),
    }
    read = {}
    for name, query in asked.items():
        page, arguments = await store.searches._looked_for("jobs_found", "jobs_list", query)
        read[name] = await rows_read(session, bounded(page), [*arguments, PAGE_BYTES])
        if jobs._found_by(query) and jobs._may_be_few(query):
            read[name] += await rows_read(session, statement("jobs_alike"), jobs._alike(query))
    assert too_much(read, known) == {}, known


LARGE = """
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition)
SELECT at, at, pg_temp.id(at, 4 * {runs} + n), 1, true, true, 'large', 'large ' || n, 'CRON', 'function', 'ada',
       (SELECT string_agg(md5(n || '/' || at), '') FROM generate_series(1, 8192) at)
FROM n WHERE n <= {jobs};
"""
LARGE_JOBS = 100
LARGE_BYTES = 8192 * 32
OF_TOAST = """
SELECT coalesce(sum(t.heap_blks_read + t.heap_blks_hit), 0)::bigint
FROM pg_class c JOIN pg_statio_all_tables t ON t.relid = c.reltoastrelid
WHERE c.relnamespace = 'tickwise'::regnamespace AND c.relname LIKE 'jobs%'
"""


async def test_the_text_of_a_row_that_is_cut_off_is_never_read(
    session: asyncpg.Connection, store: PostgresStore, database_url: str
) -> None:
    """The database knows the size of a large text without reading it, so a page costs what it holds."""
    await session.execute(LARGE.format(runs=RUNS, jobs=LARGE_JOBS), timeout=100)
    blocks = []
    for bytes_most in (LARGE_BYTES * 5 + 1, None):
        reader = await asyncpg.connect(database_url)
        before = await _flushed(reader, OF_TOAST)
        page = await reader.fetch(bounded("jobs_newest_of"), "large", searches.LAST_ID, LARGE_JOBS + 1, bytes_most)
        blocks.append(await _flushed(reader, OF_TOAST) - before)
        assert len(page) == (LARGE_JOBS if bytes_most is None else 5)
        assert {row["page_rows"] for row in page} == {LARGE_JOBS}
        await reader.close()
    bound, everything = blocks
    assert everything * 8192 > LARGE_JOBS * LARGE_BYTES / 4  # they are compressed, and kept apart from their rows
    assert bound <= everything / LARGE_JOBS * 6


async def _flushed(session: asyncpg.Connection, count: str) -> int:
    """A figure after what this session did is counted too."""
    await session.execute("SELECT pg_stat_force_next_flush()")
    await session.execute("SELECT pg_stat_clear_snapshot()")
    found: int = await session.fetchval(count)
    return found


@pytest.mark.takes_up_to(240)
async def test_a_search_for_letters_of_a_selector_reads_about_as_much_as_it_shows(
    session: asyncpg.Connection, known: str, store: PostgresStore
) -> None:
    """Of few labelled jobs, of none, and of many."""
    read = {}
    for name, within in {"few": SELECTOR, "none": NO_JOB, "many": MANY}.items():
        query = LetterQuery(namespace="default", expire_seconds=30 * DAY_SECONDS, within=within)
        async with store._links.pooled(writes=False) as connection:
            asked = await store.searches._letters_asked(connection, query)
        read[name] = await rows_read(session, bounded("letters_list"), [*asked, True, True, None, PAGE_BYTES])
    assert too_much(read, known) == {}, known


async def test_the_letters_of_a_group_of_errors_are_looked_up(
    session: asyncpg.Connection, known: str, store: PostgresStore
) -> None:
    """A few of all that failed: a page and the count of them read no others."""
    group = UUID("61e019fb-4e50-5b76-8699-14756a430416")
    await session.execute(
        "INSERT INTO tickwise.error_letters (run_id, group_id) "
        "SELECT run_id, $1 FROM tickwise.history WHERE state = 6 ORDER BY md5(run_id::text) LIMIT 20",
        group,
    )
    query = LetterQuery(namespace="default", expire_seconds=30 * DAY_SECONDS, error_group=group)
    async with store._links.pooled(writes=False) as connection:
        asked = await store.searches._letters_asked(connection, query)
    page = await rows_read(session, bounded("letters_list"), [*asked, True, True, group, PAGE_BYTES])
    count = await rows_read(session, statement("letters_count"), [*asked, group])
    await session.execute("DELETE FROM tickwise.error_letters WHERE group_id = $1", group)
    assert too_much({"page": page, "count": count}, known) == {}, (page, count)


async def test_a_search_for_letters_reads_them_in_their_order(
    session: asyncpg.Connection, known: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each failure has the reason that is asked for. The planner cannot know that: it took state and reason
    for independent, expected few, and put all in order. Only letters of few jobs that are named are sorted."""
    conditions: dict[str, dict[str, Any]] = {
        "all": {}, "by reason": {"reason": "exit_code"}, "by kind": {"task_kind": "function"},
        "open by reason": {"reason": "exit_code", "statuses": OPEN},
    }  # fmt: skip
    explained = bounded("letters_list")
    monkeypatch.setattr(letters, "bounded", lambda _: f"EXPLAIN (FORMAT JSON) {explained}")
    sorted_ones = []
    for name, each in conditions.items():
        query = LetterQuery(namespace="default", expire_seconds=30 * DAY_SECONDS, limit=26, **each)
        plans: list[str] = []
        monkeypatch.setattr(letters, "page_of", lambda rows, _, plans=plans: plans.append(rows[0][0]))
        await store.searches.letters(query)
        if any("Sort" in node["Node Type"] for node in nodes(json.loads(plans[0])[0]["Plan"])):
            sorted_ones.append(name)
    assert [] == sorted_ones, known


SLOW = "SELECT pg_sleep(50)"
CANCEL = f"""
    SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE query = '{SLOW}' AND state = 'active' AND datname = current_database()"""


async def slow_search(store: PostgresStore, monkeypatch: pytest.MonkeyPatch, *, may_take: float) -> None:
    """One that finds nothing for 50 s."""
    monkeypatch.setattr(searches, "SEARCH_SECONDS", may_take)
    monkeypatch.setattr(searches, "statement", lambda name: SLOW if name == "slow" else statement(name))
    await searches.search(store._links, "slow", [], SystemClock())


async def test_a_search_that_takes_too_long_says_what_would_narrow_it(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, and what asked for too much is told so."""
    with pytest.raises(Invalid, match=r"nothing more was found within 0.5 s: narrow the search"):
        await slow_search(store, monkeypatch, may_take=0.5)


async def test_a_search_that_an_operator_cancels_is_not_at_fault(
    store: PostgresStore, session: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store refused for now; the same search may be asked again."""
    searched = asyncio.create_task(slow_search(store, monkeypatch, may_take=45.0))

    async def is_cancelled() -> bool:
        await session.execute(CANCEL)
        return searched.done()

    await eventually(is_cancelled, what="the search has ended")
    with pytest.raises(StoreUnavailable):
        await searched


async def test_a_search_that_waits_for_a_lock_is_not_at_fault(
    store: PostgresStore, session: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up before its time is over, and what is told is no advice to narrow it."""
    monkeypatch.setattr(searches, "SEARCH_SECONDS", 4.0)
    async with session.transaction():
        await session.execute("LOCK TABLE tickwise.timers IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable):
            await store.searches.jobs(JobQuery(namespace="default", statuses=(JobStatus.SCHEDULED,)))
