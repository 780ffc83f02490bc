"""A search that may pause reads so many rows and no more, also where none of the rows in front matches."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.connection.link import PAGE_SETTINGS
from tickwise.adapters.store.postgres.large_sets import KEPT_SECONDS, LargeSets
from tickwise.adapters.store.postgres.records import job_walks, letters, run_walks, searches
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Trigger
from tickwise.ports.clock import Clock
from tickwise.ports.store import JobQuery, LetterQuery, LetterStatus, RunQuery
from tickwise.testing.clock import VirtualClock

JOBS: Final = 40_000
"""One-time jobs that are over and stand in front, and half as many others of each kind behind them."""
LOOKED: Final = 500
"""The candidates of a look, in these tests."""
MAX_READ: Final = 6 * LOOKED + 100
"""Rows that one call may read: two looks, a set for each condition, and what they are looked up in."""
MAX_FIRST_READ: Final = 1_000
"""Rows that a page of 26 with a status may read where its first look fills it. A whole look reads 4,000 and more."""
LOOKS_MOST: Final = 4
COUNTED: Final = 1_001
MAX_SET_READ: Final = 4 * COUNTED
"""Rows that a count may read beside its looks: a set of so many jobs, and what they are looked up in."""

FILL = """
INSERT INTO tickwise.lanes (namespace, queue, priority, requires) VALUES ('default', 'default', 5, '{{}}');
CREATE TEMP TABLE n AS
  SELECT n, tickwise.now() - interval '1 day' + n * interval '1 second' AS at,
         (lpad(to_hex((extract(epoch FROM tickwise.now()) * 1000)::bigint - ({jobs} - n) * 1000), 12, '0') || '8'
          || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid AS id
  FROM generate_series(1 - {jobs}, {jobs}) n;
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, standing, namespace, name, schedule_type,
                           task_kind, created_by, owner, labels, definition)
SELECT at, at, id, 1, n <= 0, n <= 0 AND n % 4 < 0, CASE WHEN n <= 0 AND n % 5000 = 0 THEN 1 ELSE 0 END,
       CASE WHEN n <= 0 AND n % 3 = 0 THEN 'other' ELSE 'default' END,
       CASE WHEN n <= 0 AND n % 10000 = -1 THEN 'rare one' ELSE 'job' END || ' ' || n,
       CASE WHEN n > 0 THEN 'IMMEDIATE' WHEN n % 4 = 0 THEN 'FUTURE' WHEN n = -7001 THEN 'ON_DEMAND' ELSE 'CRON' END,
       CASE WHEN n <= 0 AND n % 10000 = -2 THEN 'rare' ELSE 'shell' END, 'ada',
       CASE WHEN n <= 0 THEN CASE WHEN n % 10000 = -1 THEN 'eve' WHEN n < -20000 THEN 'bob' ELSE 'ada' END END,
       CASE WHEN n <= 0 AND n % 10000 = -1 THEN '{{"team": "rare"}}'::jsonb
            WHEN n < -20000 THEN '{{"team": "many"}}'::jsonb END,
       '{{}}'
FROM n;
INSERT INTO tickwise.timers (due, job_id) SELECT tickwise.now() + n * interval '1 minute' + interval '90 days', id
FROM n WHERE n <= 0 AND n % 4 < 0;
INSERT INTO tickwise.history (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before,
                              attempt, failures, crashes, trigger, namespace, reason)
SELECT at, at, at, at, at, CASE WHEN n < -30000 THEN 2 ELSE 1 END, 1, id, id,
       CASE WHEN n <= 0 AND n % 4 < 0 THEN 6 ELSE 5 END, 3, 1, 0, 0, 1, 'default',
       CASE WHEN n <= 0 AND n % 4 < 0 THEN CASE WHEN n % 3 = 0 THEN 'timeout' ELSE 'exit_code' END END
FROM n;
INSERT INTO tickwise.history (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before,
                              attempt, failures, crashes, trigger, namespace)
SELECT at, at, at, at, at, 1, 1, (substr(id::text, 1, 14) || '8999-9' || substr(id::text, 21))::uuid,
       (SELECT id FROM n WHERE n = -5), 6, 3, 1, 0, 0, 1, 'default'
FROM n WHERE n BETWEEN -20000 AND 0;
"""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


def rows_met(plan: str) -> float:
    """The rows that scans of a plan met, those that they passed over included."""
    met: float = sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0.0)
                                + node.get("Rows Removed by Index Recheck", 0.0))
        for node in nodes(json.loads(plan)[0]["Plan"]) if "Relation Name" in node and node["Relation Name"] != "lanes"
    )  # fmt: skip
    return met


@pytest_asyncio.fixture(scope="module")
async def session(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """One-time jobs in front; behind them few that match each condition, among many that do not."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(FILL.format(jobs=JOBS), timeout=100)
    # As a session for such searches has it (`Links.search_line`).
    for name, value in {**PAGE_SETTINGS, "statement_timeout": "60s"}.items():
        await connection.execute(f"SET {name} = '{value}'")
    yield connection
    await connection.close()


@pytest_asyncio.fixture(params=["never analysed", "analysed"])
async def known(session: asyncpg.Connection, request: pytest.FixtureRequest) -> str:
    """What the planner believes of the tables."""
    said: str = request.param
    if said == "analysed":
        await session.execute("ANALYZE tickwise.jobs, tickwise.timers, tickwise.history")
    return said


class Reads:
    """Carries out the statements of searches, and counts the rows that each call meets."""

    def __init__(self) -> None:
        self.rows = 0.0
        self.most: dict[str, float] = {}

    async def fetched(
        self, connection: asyncpg.Connection, text: str, arguments: Sequence[Any], clock: Clock, terms: str | None
    ) -> list[asyncpg.Record]:
        """As `searches.fetched`, with the plan that a session has for any values where it keeps one."""
        types = [each.name for each in (await connection.prepare(text)).get_parameters()]
        said = [f"{_literal(value)}::{kind}" for value, kind in zip(arguments, types, strict=True)]
        async with connection.transaction(readonly=True):
            if terms is not None:
                await connection.fetchrow(statement(terms), "60000")
            await connection.execute(f"PREPARE look ({', '.join(types)}) AS {text}")
            plan = await connection.fetchval(
                f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE look ({', '.join(said)})"
            )
            await connection.execute("DEALLOCATE look")
        self.rows += rows_met(plan)
        return await searches.fetched(connection, text, arguments, clock, terms)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    escaped = str(value).replace("'", "''")
    return f"'{escaped}'"


FRONT: Final[Mapping[str, Mapping[str, Any]]] = {
    "an owner of few": {"owner": "eve"},
    "an owner of many": {"owner": "bob"},
    "an owner of none": {"owner": "nobody"},
    "a rare label": {"labels": {"team": "rare"}},
    "a label of many": {"labels": {"team": "many"}},
    "a label of none": {"labels": {"team": "none"}},
    "a rare name": {"name": "RARE one"},
    "a name of none": {"name": "no such name"},
    "a rare kind of task": {"task_kind": "rare"},
    "on demand": {"schedule_type": "ON_DEMAND"},
    "by cron": {"schedule_type": "CRON"},
    "at a time": {"schedule_type": "FUTURE"},
    "by interval, of which is none": {"schedule_type": "INTERVAL"},
    "of an owner, by cron, with a label": {"owner": "bob", "schedule_type": "CRON", "labels": {"team": "many"}},
    "of an owner, with a label of others": {"owner": "ada", "labels": {"team": "many"}},
    "soon due": {"next_run_after": 0.0, "next_run_before": 4e9},
    **{status.value: {"statuses": (status,)} for status in JobStatus},
    **{f"{status.value} of an owner": {"statuses": (status,), "owner": "bob"} for status in JobStatus},
    "paused, with a rare name": {"statuses": (JobStatus.PAUSED,), "name": "rare one"},
}
"""Conditions on jobs that none of the jobs in front matches, or all of them."""


@pytest.mark.takes_up_to(240)
@pytest.mark.parametrize("namespace", ["default", "other"])
async def test_a_call_reads_a_bounded_number_of_rows(
    session: asyncpg.Connection, known: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first calls with each filter, and each call that goes on after a pause."""
    for name in ("LOOKED_JOBS", "LOOKED_REPEATING", "LOOKED_MARKED", "FEW_JOBS"):
        monkeypatch.setattr(job_walks, name, LOOKED)
    reads = Reads()
    monkeypatch.setattr(job_walks, "fetched", reads.fetched)
    too_many = {}
    for name, asked in FRONT.items():
        query = JobQuery(namespace=namespace, may_pause=True, limit=26, **asked)
        for look in range(LOOKS_MOST):
            reads.rows = 0
            page = await job_walks.JobWalk(session, query, SystemClock(), LargeSets(SystemClock())).page()
            if reads.rows > MAX_READ:
                too_many[name, look] = reads.rows
            if page.paused_at is None:
                break
            before, is_rest, rest_from = page.paused_at
            query = replace(query, before=before, is_rest=is_rest, rest_from=rest_from)
    assert too_many == {}, known


@pytest.mark.takes_up_to(240)
@pytest.mark.parametrize("namespace", ["default", "other"])
async def test_a_count_reads_a_bounded_number_of_rows(
    session: asyncpg.Connection, known: str, namespace: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever filter it has; and where it says that it is whole, it has each job."""
    for name in ("LOOKED_JOBS", "LOOKED_REPEATING", "LOOKED_MARKED", "FEW_JOBS"):
        monkeypatch.setattr(job_walks, name, LOOKED)
    monkeypatch.setattr(job_walks, "COUNT_LOOKS", LOOKS_MOST)
    reads = Reads()
    monkeypatch.setattr(job_walks, "fetched", reads.fetched)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    too_many, wrong, wholes = {}, {}, 0
    try:
        for name, asked in FRONT.items():
            query = JobQuery(namespace=namespace, may_pause=True, limit=COUNTED, **asked)
            reads.rows = 0
            found = await job_walks.count_jobs(session, query, SystemClock(), LargeSets(SystemClock()))
            if reads.rows > LOOKS_MOST * MAX_READ + MAX_SET_READ:
                too_many[name] = reads.rows
            expected = await store.searches.count(replace(query, may_pause=False))
            if found > expected or (found.is_whole and found != expected):
                wrong[name] = found, expected
            wholes += found.is_whole
    finally:
        await store.close()
    assert (too_many, wrong) == ({}, {}), known
    assert wholes > 5


async def test_looks_in_order_come_to_each_job_in_the_order_of_the_list(
    session: asyncpg.Connection, known: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a bulk operation that goes on behind a place has none of before it again."""
    for name in ("LOOKED_JOBS", "LOOKED_REPEATING", "LOOKED_MARKED"):
        monkeypatch.setattr(job_walks, name, 10 * LOOKED)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    try:
        for name in ("an owner of few", "a rare label", "on demand", "PAUSED", "PAUSED of an owner", "FAILED"):
            query = JobQuery(namespace="default", limit=2_000, **FRONT[name])
            expected = [row.job_id for row in await store.searches.jobs(query)]
            query, found, more = replace(query, may_pause=True, keeps_order=True, limit=500), list[UUID](), True
            while more:
                page = await store.searches.jobs(query)
                found += [row.job_id for row in page]
                more = page.is_full(query.limit) or page.paused_at is not None
                if more:
                    before = page[-1].listed if page.is_full(query.limit) else page.paused_at and page.paused_at.before
                    query = replace(query, before=before)
            assert expected == found[:2_000], (known, name)
    finally:
        await store.close()


async def test_a_set_that_was_too_large_is_not_counted_again(
    session: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the page is the same. After the time for which that is believed it is."""
    for name in ("LOOKED_JOBS", "LOOKED_REPEATING", "FEW_JOBS"):
        monkeypatch.setattr(job_walks, name, LOOKED)
    reads = Reads()
    monkeypatch.setattr(job_walks, "fetched", reads.fetched)
    clock = VirtualClock()
    large_sets = LargeSets(clock)
    query = JobQuery(namespace="default", may_pause=True, limit=26, labels={"team": "many"})
    read, found = [], []
    for seconds in (0.0, 1.0, KEPT_SECONDS):
        await clock.advance(seconds)
        reads.rows = 0
        page = await job_walks.JobWalk(session, query, SystemClock(), large_sets).page()
        read.append(reads.rows)
        found.append([row.job_id for row in page])
    assert found[0] == found[1] == found[2]
    assert read[0] == read[2] >= read[1] + LOOKED


async def test_a_status_is_looked_for_among_as_many_jobs_as_a_page_has_first(
    session: asyncpg.Connection, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all jobs with the mark of a status have it: the page is full before the whole look."""
    reads = Reads()
    monkeypatch.setattr(job_walks, "fetched", reads.fetched)
    query = JobQuery(namespace="default", may_pause=True, limit=26, statuses=(JobStatus.SCHEDULED,))
    page = await job_walks.JobWalk(session, query, SystemClock(), LargeSets(SystemClock())).page()
    assert len(page) == 26
    assert reads.rows <= MAX_FIRST_READ, known


RUNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "of an executor": {"executor": 2},
    "of an executor that has none": {"executor": 3},
    "with a label of few": {"labels": {"team": "rare"}},
    "with a label of many": {"labels": {"team": "many"}},
    "by a rare name": {"job_name": "rare one"},
    "by a common name": {"job_name": "job"},
    "by a name of none": {"job_name": "no such name"},
    "of a queue": {"queue": "default", "executor": 3},
    "of a queue that is not there": {"queue": "none"},
    "that failed": {"states": (RunState.FAILED,), "executor": 3},
    "that succeeded": {"states": (RunState.SUCCESS,), "executor": 3},
    "that go on": {"states": (RunState.RUNNING, RunState.QUEUED)},
    "with a reason": {"reason": "timeout", "labels": {"team": "none"}},
    "of an origin": {"origin": UUID(int=1)},
    "asked for": {"triggers": (int(Trigger.RUN_NOW),)},
    "due in an hour": {"due_after": -50_000.0, "due_before": -46_400.0, "executor": 3},
    "due since": {"due_after": -50_000.0, "executor": 3},
    "due before": {"due_before": -50_000.0, "executor": 3},
}
"""Conditions on runs; a due time is given by the seconds from now."""


@pytest.mark.takes_up_to(240)
async def test_a_call_for_runs_reads_a_bounded_number_of_rows(
    session: asyncpg.Connection, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of runs."""
    for module, name in (
        *((run_walks, each) for each in ("LOOKED_RUNS", "LOOKED_JOBS", "FEW_JOBS", "FEW_LATE")),
        (job_walks, "FEW_JOBS"),
    ):
        monkeypatch.setattr(module, name, LOOKED)
    reads = Reads()
    monkeypatch.setattr(job_walks, "fetched", reads.fetched)
    monkeypatch.setattr(run_walks, "fetched", reads.fetched)
    now = await session.fetchval("SELECT date_part('epoch', tickwise.now())")
    busy = await session.fetchval("SELECT job_id FROM tickwise.jobs_lasting WHERE name = 'job -5'")
    of_a_job = {"job_id": busy, "states": (RunState.SUCCESS,)}
    failed_of_a_job = {"job_id": busy, "states": (RunState.FAILED,)}
    too_many = {}
    for name, said in {**RUNS, "of a job, that succeeded": of_a_job, "of a job, that failed": failed_of_a_job}.items():
        asked = {key: now + value if key.startswith("due") else value for key, value in said.items()}
        query = RunQuery(namespace="default", may_pause=True, limit=51, **asked)
        for look in range(LOOKS_MOST):
            reads.rows = 0
            walk = run_walks.RunWalk(session, query, SystemClock(), LargeSets(SystemClock()))
            rows, goes_on, _ = await walk.page()
            if reads.rows > MAX_READ:
                too_many[name, look] = reads.rows
            if goes_on is None or len(rows) == query.limit:
                break
            query = replace(query, before=goes_on.before, is_rest=goes_on.is_rest)
    assert too_many == {}, known


LETTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "open": {"statuses": (LetterStatus.OPEN,)},
    "settled, of which is none": {"statuses": (LetterStatus.REDRIVEN,)},
    "of a rare kind of task": {"task_kind": "rare"},
    "with a reason of none": {"reason": "nothing"},
    "with a reason, of a rare kind of task": {"reason": "timeout", "task_kind": "rare"},
    "of a selector of few": {"within": ((("team", "rare"),),)},
    "of a selector of many": {"within": ((("team", "many"),),)},
    "that ended long ago": {"ended_before": 0.0},
}


@pytest.mark.takes_up_to(240)
async def test_a_call_for_dead_letters_reads_a_bounded_number_of_rows(
    session: asyncpg.Connection, known: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of dead letters: 50,000 runs failed, and all are open."""
    for module, name in ((letters, "LOOKED_LETTERS"), (run_walks, "FEW_JOBS"), (job_walks, "FEW_JOBS")):
        monkeypatch.setattr(module, name, LOOKED)
    reads = Reads()
    for module in (job_walks, run_walks, letters):
        monkeypatch.setattr(module, "fetched", reads.fetched)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    too_many = {}
    try:
        for name, asked in LETTERS.items():
            query = LetterQuery(namespace="default", expire_seconds=9e6, may_pause=True, limit=26, **asked)
            for look in range(LOOKS_MOST):
                reads.rows = 0
                page = await store.searches.letters(query)
                if reads.rows > MAX_READ:
                    too_many[name, look] = reads.rows
                if page.paused_at is None:
                    break
                query = replace(query, before=page.paused_at.before)
    finally:
        await store.close()
    assert too_many == {}, known


async def test_what_an_index_knows_is_on_the_first_page(
    session: asyncpg.Connection, known: str, database_url: str
) -> None:
    """Behind more newer jobs than one call looks at: few of an owner, with a name, a label or a kind of task."""
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    try:
        for name in ("an owner of few", "a rare label", "a rare name", "a rare kind of task", "PAUSED", "on demand"):
            query = JobQuery(namespace="default", limit=26, **FRONT[name])
            expected = [row.job_id for row in await store.searches.jobs(query)]
            page = await store.searches.jobs(replace(query, may_pause=True))
            assert ([row.job_id for row in page], bool(expected)) == (expected, True), (known, name)
    finally:
        await store.close()


async def test_one_time_jobs_pay_nothing_for_these_indexes(session: asyncpg.Connection) -> None:
    """They come by the thousand a second."""
    indexes = ("jobs_repeating", "jobs_owners", "jobs_task_kinds", "jobs_names")
    sizes = "SELECT array_agg(pg_relation_size(to_regclass('tickwise.' || name))) FROM unnest($1::text[]) name"
    before = await session.fetchval(sizes, indexes)
    assert min(before) > 0
    await session.execute(
        "INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,"
        " task_kind, created_by, owner, definition) SELECT now(), now(), gen_random_uuid(), 1, true, false, 'default',"
        " md5(n::text), 'FUTURE', md5(n::text), 'ada', md5(n::text), '{}' FROM generate_series(1, 5000) n"
    )
    assert await session.fetchval(sizes, indexes) == before
