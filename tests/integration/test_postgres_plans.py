"""Each hot statement goes by the index that it was made for, whatever the statistics say of tables that come and go."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.connection.link import POOL_SETTINGS
from tickwise.adapters.store.postgres.records.paging import bounded
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store import Retention

ROWS = 1_000_000

FILL = """
ALTER TABLE tickwise.runs SET UNLOGGED;
ALTER TABLE tickwise.timers SET UNLOGGED;
INSERT INTO tickwise.lanes (namespace, queue, priority, requires)
SELECT 'default', 'q' || n, 5, '{{}}' FROM generate_series(1, 20) n;
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace)
SELECT at, at, at, id, id, 1 + n % 20, 'default'
FROM generate_series(1, {rows}) n,
  LATERAL (SELECT now() + n * interval '1 millisecond' AS at, lpad(to_hex(n), 32, '0')::uuid AS id) t;
INSERT INTO tickwise.timers (due, job_id, run_id)
SELECT now() + n * interval '1 second', id, CASE WHEN n % 2 = 0 THEN id END
FROM generate_series(1, {rows} / 5) n, LATERAL (SELECT lpad(to_hex(n), 32, '0')::uuid AS id) t;
"""

INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
WHERE schemaname = 'tickwise' AND tablename IN ('runs', 'timers') AND indexname NOT LIKE '%pkey'
"""

EXPECTED = {
    "jobs_add": set(),
    "claim": {"runs_ready", "executors_living"},
    "claim_named": {"runs_pkey", "executors_living"},
    "start": {"runs_pkey"},
    "finish": {"runs_pkey"},
    "finish_refused": {"history_rest_pkey"},
    "release": {"runs_pkey"},
    "release_refused": {"attempts_pkey", "runs_pkey"},
    "skip": {"runs_pkey"},
    "settle_requests": {"cancel_requests_pkey", "runs_pkey"},
    "executor_beat": {"executors_living", "cancel_requests_holder"},
    "timers_fire": {"timers_once", "jobs_lasting_pkey", "jobs_rest_pkey"},
    "timers_fire_named": {"timers_once", "jobs_lasting_pkey", "jobs_rest_pkey"},
    "runs_waiting": {"runs_ready"},
    "fires_near": {"timers_decided", "timers_once"},
    "fires_take": {"timers_decided", "jobs_lasting_pkey", "jobs_rest_pkey"},
    "fires_take_all": {"timers_decided", "timers_once", "jobs_lasting_pkey", "jobs_rest_pkey"},
    "fires_take_outdated": {"timers_zone_data", "jobs_lasting_pkey"},
    "fires_commit": {"timers_pkey", "jobs_lasting_pkey", "history_rest_pkey", "runs_of_job", "runs_pkey"},
    "fires_park": {"timers_pkey", "jobs_lasting_pkey"},
    "lines_lock": {"runs_pkey"},
    "starts_settle": {"runs_pkey", "runs_line", "runs_waits", "attempts_pkey", "cancel_requests_pkey"},
    "holds_tell": {"runs_ready"},
    "starts_look": {"runs_pkey"},
    "starts_lock": {"runs_pkey"},
    "starts_begin": {"runs_pkey"},
    "starts_return": {"runs_pkey"},
    "starts_note": {"runs_pkey"},
    "feed_read": {"feed_transaction"},
    "feed_whole": {"feed_transaction"},
    "gates_read": {"runs_limited", "runs_paced", "rates_pkey"},
    "gates_pass": {"runs_pkey"},
    "gates_refuse": {"runs_pkey"},
    "limits_wake": {"runs_limited", "runs_pkey"},
    "completions_report": {"runs_pkey"},
    "unblock": {"runs_waits", "runs_line", "runs_pkey"},
    "run_cancel": {"runs_pkey"},
    "run_skip": {"runs_pkey"},
    "run_postpone": {"runs_pkey"},
}
LINES = ("starts_settle", "unblock", "run_cancel", "run_skip", "skip", "settle_requests")
"""These look for what waits in a job, or goes on there, and read none of the others. `runs_of_job` has all of them, so
it is asked for one policy alone."""


@pytest_asyncio.fixture(scope="module")
async def session(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A hot session of the store's, on a million runs that nobody has analysed."""
    await upgrade(database_url)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    await store.upkeep.maintain(Retention(runs_seconds=30 * 86_400.0, failed_seconds=90 * 86_400.0))
    connection = await store._links.connect("plans")  # the settings that hot statements run under are the store's own
    # Filled first and indexed then, with the schema's own definitions: a third of the time.
    indexes = await connection.fetch(INDEXES)
    for name, _ in indexes:
        await connection.execute(f"DROP INDEX tickwise.{name}")
    await connection.execute(FILL.format(rows=ROWS), timeout=120)
    for _, definition in indexes:
        await connection.execute(definition, timeout=60)
    yield connection
    await connection.close()
    await store.close()


PAGES = {"letters_list"}
"""These run within their bound in bytes."""
BELIEFS = ["never analysed", "analysed while empty", "analysed", "wrong numbers of values", "emptied since"]
WRONG = """
ALTER TABLE tickwise.runs ALTER run_id SET (n_distinct = 2), ALTER job_id SET (n_distinct = 2),
  ALTER lane SET (n_distinct = -1), ALTER due SET (n_distinct = 3), ALTER ready SET (n_distinct = 3);
ALTER TABLE tickwise.timers ALTER job_id SET (n_distinct = 2), ALTER due SET (n_distinct = 3);
ANALYZE tickwise.runs, tickwise.timers;
"""
RIGHT = re.sub(r"SET \(n_distinct = -?\d\)", "RESET (n_distinct)", WRONG)


@pytest_asyncio.fixture(scope="module", params=BELIEFS)
async def statistics(session: asyncpg.Connection, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """What the planner believes of the tables. The plan that a session makes while they are empty is the one that it
    keeps when they are full."""
    known: str = request.param
    if known == "analysed":
        await session.execute("ANALYZE tickwise.runs, tickwise.timers", timeout=60)
    if known == "wrong numbers of values":
        await session.execute(WRONG, timeout=60)
    if known == "analysed while empty":
        # What a vacuum that met an empty moment would have written is the same as for these, which are empty.
        await session.execute("ANALYZE tickwise.executors, tickwise.jobs, tickwise.history, tickwise.cancel_requests")
    yield known
    if known == "wrong numbers of values":
        await session.execute(RIGHT, timeout=60)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


async def inner(session: asyncpg.Connection, text: str) -> str:
    """The query that a function of ours returns, if the statement is a call of one; else the statement."""
    call = re.search(r"^SELECT \* FROM tickwise\.(\w+)\(", text, re.MULTILINE)
    if call is None:
        return text
    body, names, types = await session.fetchrow(
        "SELECT prosrc, proargnames, ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) t) FROM pg_proc "
        "WHERE pronamespace = 'tickwise'::regnamespace AND proname = $1",
        call[1],
    )
    [query] = re.findall(r"RETURN QUERY(.*?;)", body, re.DOTALL)
    for number, (argument, of_type) in enumerate(zip(names, types, strict=False), 1):
        query = re.sub(rf"\b{argument}\b", f"${number}::{of_type}", query)
    return str(query)


async def explained(session: asyncpg.Connection, name: str, asked: str | None = None) -> list[dict[str, Any]]:
    """The nodes of the one plan that a hot session uses for a statement; of another session, for these parameters."""
    text = await inner(session, bounded(name) if name in PAGES else statement(name))
    parameters = max((int(number) for number in re.findall(r"\$(\d+)", text)), default=0)
    nothing = f"({asked or ', '.join(['NULL'] * parameters)})" if parameters else ""
    await session.execute(f"PREPARE explained AS {text}")
    try:
        [row] = await session.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE explained{nothing}")
    finally:
        await session.execute("DEALLOCATE explained")
    return list(nodes(json.loads(row[0])[0]["Plan"]))


@pytest.mark.parametrize("name", EXPECTED)
async def test_a_hot_statement_uses_its_index(session: asyncpg.Connection, statistics: str, name: str) -> None:
    """And reads no large table from end to end."""
    async with session.transaction():
        if statistics == "emptied since":
            await session.execute("SAVEPOINT filled; TRUNCATE tickwise.runs, tickwise.timers")
        plan = await explained(session, name)
        if statistics == "emptied since":
            await session.execute("ROLLBACK TO filled")
    used = {node["Index Name"] for node in plan if "Index Name" in node}
    assert EXPECTED[name] <= used, f"{name}, {statistics}: uses {sorted(used)}"
    of_job = [node.get("Index Cond", "") for node in plan if node.get("Index Name") == "runs_of_job"]
    assert name not in LINES or all("overlap = 0" in condition for condition in of_job), f"{name}, {statistics}"
    large = re.compile(r"runs|timers|jobs.*|history.*|attempts")
    scanned = {node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"}
    assert not {table for table in scanned if large.fullmatch(table)}, f"{name}, {statistics}"


SEARCHES = {
    "letters_list": {"history_rest_state_run_id_idx"},
    "letters_count": {"history_rest_state_run_id_idx"},
    "letter_get": {"history_rest_state_run_id_idx"},
    "completions": {"follows_since", "history_rest_pkey", "runs_pkey"},
    "limits_waiting": {"runs_limited"},
    "operation_take": {"operations_running"},
    "check_ended_once": {"runs_pkey", "history_rest_pkey"},
    "check_held_by_active": {"runs_pkey"},
    "check_claimed_in_time": {"runs_pkey"},
    "check_fired_in_time": {"timers_pkey"},
    "check_waits_for_something": {"runs_pkey", "runs_of_job", "runs_limited"},
    "check_has_a_job": {"runs_pkey", "timers_pkey"},
}
NEWEST = "'default', 2592000.0, '{open,held}', NULL, NULL, NULL, NULL, NULL, NULL, 50"
ASKED = {
    "letters_list": f"{NEWEST}, NULL, NULL, false, false, NULL, 4194304",
    "letters_count": f"{NEWEST}, NULL, NULL, NULL",
    "letter_get": "'default', 2592000.0, '00000000-0000-0000-0000-000001000064'",
    "completions": "50",
    "limits_waiting": "NULL, NULL, 100",
    "operation_take": "30.0",
}
"""With what they are asked: their plans go by it."""
PAGE = "'00000000-0000-0000-0000-000000001000', 1000"

PAST = """
INSERT INTO tickwise.history (due, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures,
                              crashes, trigger, namespace)
SELECT now(), now(), now(), 1, 1, id, id, CASE WHEN n % 100 = 0 THEN 6 ELSE 5 END, 3, 1, 0, 0, 1, 'default'
FROM generate_series(1, 20000) n, LATERAL (SELECT lpad(to_hex(n + 16777216), 32, '0')::uuid AS id) t;
"""


@pytest_asyncio.fixture(scope="module")
async def searcher(session: asyncpg.Connection, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of the pool's, beside a past that was analysed."""
    connection = await asyncpg.connect(database_url, server_settings=POOL_SETTINGS)
    await connection.execute(PAST, timeout=60)
    await connection.execute("ANALYZE tickwise.history, tickwise.runs, tickwise.timers", timeout=60)
    yield connection
    await connection.close()


@pytest.mark.parametrize("name", SEARCHES)
async def test_a_search_or_a_page_of_a_check_uses_its_index(searcher: asyncpg.Connection, name: str) -> None:
    """And neither reads nor sorts a large table from end to end, however much waits or has happened."""
    plan = await explained(searcher, name, ASKED.get(name, PAGE))
    used = {node["Index Name"] for node in plan if "Index Name" in node}
    assert SEARCHES[name] <= used, f"{name} uses {sorted(used)}"
    large = re.compile(r"runs|timers|history_rest")
    scanned = {node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"}
    assert not {table for table in scanned if large.fullmatch(table)}, name


FEW = "generate_series(1, 10) n"


async def test_freeing_the_runs_of_a_dead_executor_reads_no_large_table(searcher: asyncpg.Connection) -> None:
    """It is a function of the database, whose plans nobody is shown; what it read is counted."""
    scans = "SELECT sum(seq_scan)::int FROM pg_stat_user_tables WHERE relname ~ '^(runs|timers|history|jobs|attempts)'"
    before = await _counted(searcher, scans)
    free = f"SELECT * FROM tickwise.runs_free(ARRAY(SELECT lpad(to_hex(n), 32, '0')::uuid FROM {FEW}), 3, false)"
    await searcher.execute(f"BEGIN; {free}; ROLLBACK")
    assert before == await _counted(searcher, scans)


async def _counted(session: asyncpg.Connection, scans: str) -> int:
    """After what this session did is counted too. (It counts at the end of a transaction, now and then.)"""
    await session.execute("SELECT pg_stat_force_next_flush()")
    count: int = await session.fetchval(scans)
    return count


async def test_a_claim_by_name_looks_at_what_is_named_and_at_nothing_else(
    session: asyncpg.Connection, statistics: str
) -> None:
    """Of a million runs: nothing is sorted, the queue is not read, and a lane is asked of what is in hand."""
    plan = await explained(session, "claim_named")
    assert [node for node in plan if node["Node Type"] == "Sort"] == []
    assert [node for node in plan if node["Node Type"] == "Tid Scan"]
    assert "runs_ready" not in {node.get("Index Name") for node in plan}
    assert [node["Index Cond"] for node in plan if node.get("Index Name") == "runs_pkey"] == ["(run_id = n.run_id)"]


@pytest.mark.parametrize("names", [("claim", "claim_named"), ("timers_fire", "timers_fire_named")])
def test_what_is_done_by_name_is_what_is_done_without(names: tuple[str, str]) -> None:
    """The texts are two, and say the same where the same must happen."""
    plain, named = (statement(name) for name in names)
    if names[0] == "claim":
        # Their parameters have other numbers.
        plain, named = (re.sub(r"--.*\n|\$\d+", "", text[text.index("noted AS") :]) for text in (plain, named))
    else:
        plain, named = (text[: text.index("ON CONFLICT")] for text in (plain, named))
    assert plain == named


async def test_a_claim_reads_the_queue_in_order_without_sorting_runs(session: asyncpg.Connection) -> None:
    """The only sort is that of the few lanes."""
    plan = await explained(session, "claim")
    assert len([node for node in plan if node["Node Type"] == "Sort"]) <= 1
    assert [node for node in plan if node["Node Type"] == "Tid Scan"]


BOUND = """
INSERT INTO tickwise.lanes (namespace, queue, priority, requires)
SELECT 'team-a', 'q' || n, 5, '{}' FROM generate_series(1, 2) n;
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace)
SELECT now(), now(), now(), id, id, lane, namespace
FROM tickwise.lanes, generate_series(1, 100) n, LATERAL (SELECT lpad(to_hex(lane * 1000000 + n), 32, 'f')::uuid AS id) t
WHERE namespace = 'team-a';
INSERT INTO tickwise.executors
  (born, lease, lease_seconds, slots, name, queues, labels, functions, executor, namespaces) OVERRIDING SYSTEM VALUE
SELECT now(), now() + interval '1 hour', 3600, 16, 'one', '{}', '{}', '{}', executor, namespaces
FROM (VALUES (1, NULL), (2, ARRAY['team-a']), (3, ARRAY['nobody'])) e(executor, namespaces);
"""
"""Two lanes of a namespace beside the twenty of another, and executors of all, of one, of one without lanes."""


async def claimed(session: asyncpg.Connection, executor: int) -> list[dict[str, Any]]:
    """The nodes of the plan by which an executor claims ten runs, with what each has done."""
    queues = f"'{{{','.join(f'q{number}' for number in range(1, 21))}}}'"
    nothing = "'{}', '{}', '{}', '{}'"
    asked = f"{executor}, 10, {queues}, '{{}}', 3600.0, false, 0.0, {nothing}, '{{}}', '{{}}', '{{}}'"
    await session.execute(f"PREPARE explained AS {statement('claim')}")
    try:
        [row] = await session.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE explained({asked})")
    finally:
        await session.execute("DEALLOCATE explained")
    return list(nodes(json.loads(row[0])[0]["Plan"]))


async def test_a_bound_executor_claims_by_the_same_plan_and_looks_at_its_own_lanes_alone(
    session: asyncpg.Connection, statistics: str
) -> None:
    """The index of what is ready is asked once for each lane that the executor takes, and no run of another namespace
    is read; the plan beside it, of an executor that takes all, is the same one."""
    plans: dict[int, list[dict[str, Any]]] = {}
    transaction = session.transaction()
    await transaction.start()
    try:
        await session.execute(BOUND)
        for executor in (1, 2, 3):
            plans[executor] = await claimed(session, executor)
    finally:
        await transaction.rollback()
    shapes = {tuple((node["Node Type"], node.get("Index Name")) for node in plan) for plan in plans.values()}
    assert 1 == len(shapes), statistics
    for executor, lanes, runs in ((1, 22, 10), (2, 2, 10), (3, 0, 0)):
        plan = plans[executor]
        asked = [node for node in plan if node.get("Index Name") == "runs_ready"]
        heads = max(node["Actual Loops"] for node in asked)
        read = sum(node["Actual Loops"] * node["Actual Rows"] for node in asked)
        assert (lanes, runs) == (heads, plan[0]["Actual Rows"]), f"executor {executor}, {statistics}"
        assert read <= lanes + runs, f"executor {executor}, {statistics}: {read} runs were read"
        removed = sum(node.get("Rows Removed by Filter", 0) for node in asked)
        assert 0 == removed, f"executor {executor}, {statistics}"
        assert "runs" not in {node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"}
