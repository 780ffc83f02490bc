"""A database of the release before is moved on while that release works on it (docs/decisions/0021).

The first schema is made here as its own programs made it: from its files, with their note of its version.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest
import pytest_asyncio

from tests.support import databases
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, schema, schema_status, upgrade
from tickwise.adapters.store.postgres.dispatch import attempts
from tickwise.adapters.store.postgres.jobs import submits
from tickwise.adapters.store.postgres.queue import lanes, quota_cache
from tickwise.adapters.store.postgres.schema import FOLDER, INDEXES, INDEXES_FOLDER, MIGRATIONS, WANTED, Migration
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug, Misconfigured, StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import ClaimRequest, MarkedChannel, NewOperation
from tickwise.testing import factories
from tickwise.testing.contracts.store.dispatch.named_claims import name_of
from tickwise.testing.factories import Factory

pytestmark = pytest.mark.usefixtures("patient_locks")

NOTE = """
    CREATE TABLE tickwise.alembic_version (
      version_num varchar(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
    INSERT INTO tickwise.alembic_version VALUES ('0001')"""


def _jobs_add() -> str:
    """The statement of the first schema: namespaces could not be closed, and there was no audit log."""
    text = statement("jobs_add").replace("(SELECT tickwise.namespaces_open($14))", "true")
    text = re.sub(
        r"  INSERT INTO tickwise\.audit .*?  FROM unnest\(", "  SELECT e.*\n  FROM unnest(", text, flags=re.DOTALL
    )
    text = text.replace("\n  RETURNING at, entry, namespace", "")
    return re.sub(r"u AS \(INSERT INTO tickwise\.audit_unsealed [^\n]*\n", "", text)


FIRST_WORDS = {
    "lanes": "SELECT lane, namespace, queue, priority, requires, false FROM tickwise.lanes",
    "lanes_add": """
        INSERT INTO tickwise.lanes (namespace, queue, priority, requires)
        SELECT e ->> 0, e ->> 1, (e ->> 2)::smallint, ARRAY(SELECT jsonb_array_elements_text(e -> 3))
        FROM jsonb_array_elements($1::jsonb) e WHERE $2::int + $3::int + $4::int > 0
        ON CONFLICT DO NOTHING""",
    # No namespace had a quota.
    "namespaces_limited": "SELECT '' AS name, '' AS quotas WHERE false",
    "namespaces_runs_limited": "SELECT '' AS namespace, 0 AS most WHERE false",
    "namespaces_sandboxed": "SELECT '' AS namespace WHERE false",
    "jobs_add": _jobs_add(),
}
"""Statements whose words for the first schema were others. Programs that have these work on every later one, too."""

ADD_OPERATION = """
INSERT INTO tickwise.operations (created, updated, free, operation_id, namespace, kind, request, created_by, matched)
SELECT at, at, at, $1, $2, $3, $4, $5, $6 FROM (SELECT tickwise.now() AS at) clock
"""
FORMS = {
    "columns": """
        SELECT table_name || '.' || column_name,
               concat_ws(' ', data_type, udt_name, is_nullable, column_default, identity_generation, ordinal_position)
        FROM information_schema.columns WHERE table_schema = 'tickwise'""",
    "tables": """
        SELECT relname, concat_ws(' ', relkind, relpersistence, reloptions::text, pg_get_expr(relpartbound, oid),
                                  pg_get_partkeydef(oid))
        FROM pg_class WHERE relnamespace = 'tickwise'::regnamespace AND relkind IN ('r', 'p', 'S', 'v', 'i', 'I')""",
    "constraints": """
        SELECT conrelid::regclass::text || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'tickwise'::regnamespace""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'tickwise'",
    "functions": """
        SELECT oid::regprocedure::text, CASE WHEN prokind = 'f' THEN pg_get_functiondef(oid) END FROM pg_proc
        WHERE pronamespace = 'tickwise'::regnamespace""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'tickwise'",
    "triggers": """
        SELECT c.relname || '.' || tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        WHERE NOT tgisinternal AND relnamespace = 'tickwise'::regnamespace""",
}
"""What a schema is made of, by name."""

Work = Callable[[], Awaitable[None]]


JOIN = """
    INSERT INTO tickwise.executors (born, lease, lease_seconds, slots, name, queues, labels, functions)
    VALUES (now(), now() + interval '10 minutes', 600, 16, 'before', '{default}', '{}', '{}') RETURNING executor"""
BEAT = """
    UPDATE tickwise.executors SET lease = now() + interval '10 minutes'
    WHERE executor = $1 AND gone IS NULL RETURNING true"""


@pytest_asyncio.fixture
async def old_url(postgres_url: str) -> AsyncIterator[str]:
    """A database of the first release, empty."""
    async with databases.database(postgres_url) as url:
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE SCHEMA tickwise")
        for name in MIGRATIONS[0].files:
            await connection.execute((FOLDER / name).read_text(encoding="utf-8"))
        await connection.execute(NOTE)
        await connection.close()
        yield url


def first_words(name: str) -> str:
    """A statement as programs of the first release say it: without the columns that came later."""
    text = FIRST_WORDS.get(name) or statement(name)
    if name in ("claim", "claim_named"):
        text = text.replace("true AS alive, namespaces", "true AS alive")
        text = "\n".join(line for line in text.splitlines() if "SELECT namespaces FROM me" not in line)
    if name == "finish":
        text = re.sub(r"origin, cpu_seconds,[\s\S]*?\bwork_bytes, image,", "origin,", text)
        text = re.sub(r"d\.origin, f\.cpu_seconds,[\s\S]*?f\.work_bytes, f\.image,", "d.origin,", text)
    # Nothing was stopped, and nobody followed runs.
    text = text.replace("FROM tickwise.stops_of_jobs", "FROM tickwise.holds WHERE false")
    text = re.sub(r"tickwise\.is_stopped\([^)]*\)", "false", text)
    return re.sub(r"tickwise\.feed_(?:note\([^)]*\)|watched\(\))", "true", text)


@asynccontextmanager
async def working_before(url: str) -> AsyncIterator[PostgresStore]:
    """A store that works whatever the schema, as one of the release before does: what is asked of it here, it asks
    in the words of the first schema."""
    store = PostgresStore(url, clock=SystemClock())
    await store._links.open()
    with pytest.MonkeyPatch.context() as patched:
        for part in (lanes, submits, quota_cache, attempts):
            patched.setattr(f"{part.__name__}.statement", first_words)
        try:
            yield store
        finally:
            await store.close()


async def joined_before(url: str) -> int:
    """An executor that joined as programs of the first release do."""
    connection = await asyncpg.connect(url)
    number: int = await connection.fetchval(JOIN)
    await connection.close()
    return number


async def added_before(url: str, operation: NewOperation) -> None:
    """An operation that programs of the first release stored."""
    connection = await asyncpg.connect(url)
    said = operation.operation_id, operation.namespace, operation.kind, operation.request, operation.created_by
    await connection.execute(ADD_OPERATION, *said, operation.matched)
    await connection.close()


async def form(url: str) -> dict[str, dict[str, str]]:
    """All that a schema is made of."""
    connection = await asyncpg.connect(url)
    found = {kind: dict(await connection.fetch(question)) for kind, question in FORMS.items()}
    await connection.close()
    return found


async def test_an_upgraded_database_is_as_one_that_was_made_anew(old_url: str, postgres_url: str) -> None:
    """To the last default, index and function."""
    async with databases.database(postgres_url) as fresh_url:
        assert await upgrade(fresh_url) == await upgrade(old_url) == WANTED
        fresh, upgraded = await form(fresh_url), await form(old_url)
    assert all(fresh.values())
    for kind, expected in fresh.items():
        assert expected == upgraded[kind], kind


async def test_a_program_does_not_work_on_a_schema_that_is_older(old_url: str) -> None:
    """It says what to do, and does nothing to it by itself."""
    found, _ = await schema_status(old_url)
    assert found == ("0001", "0001")
    before = await form(old_url)
    with pytest.raises(Misconfigured, match=r"0001.*tickwise db upgrade"):
        await PostgresStore(old_url, clock=SystemClock()).open()
    assert before == await form(old_url)


async def test_programs_of_the_first_release_find_the_version_that_they_need(old_url: str) -> None:
    """After the upgrade and in a database that was made by this release, so that going back needs no database."""
    await upgrade(old_url)
    connection = await asyncpg.connect(old_url)
    assert await connection.fetch("SELECT version_num FROM tickwise.alembic_version") == [("0001",)]
    assert await connection.fetch("SELECT * FROM tickwise.schema_version") == [(WANTED, "0001")]
    await connection.close()


async def test_what_was_there_is_there_after_an_upgrade(old_url: str) -> None:
    """Jobs, runs, what happened, operations; and the executor that worked goes on with what it holds."""
    async with working_before(old_url) as before:
        make = Factory(await before.now(), seed="kept")
        jobs = [make.job() for _ in range(3)]
        later = make.recurring(make.now + 3600.0)
        operation = make.operation()
        await before.jobs.add([*jobs, later])
        await added_before(old_url, operation)
        executor = await joined_before(old_url)
        request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=2, ahead_seconds=0.0)
        ended, held = await before.attempts.claim(request)
        assert await before.attempts.finish(executor, [factories.outcome(ended)]) == []
        await upgrade(old_url)
        assert await before.attempts.finish(executor, [factories.outcome(held)]) == []
    after = PostgresStore(old_url, clock=SystemClock())
    await after.open()
    rows = [await after.runs.get("default", name_of(job)) for job in jobs]
    states = Counter(row.state for row in rows if row is not None)
    assert states == {RunState.SUCCESS: 2, RunState.QUEUED: 1}
    assert (await after.upkeep.stats()).timers == 1
    kept = await after.operations.get("default", operation.operation_id)
    assert kept is not None
    assert kept.asker is None
    await after.marks.put(MarkedChannel.RESULTS, {executor: 5})
    assert await after.marks.get(MarkedChannel.RESULTS, [executor]) == {executor: 5}
    await after.close()


async def test_a_schema_moves_while_others_write(old_url: str) -> None:
    """Nobody is refused anything, and each run ends once, in the state that was reported."""
    moved = asyncio.Event()
    added: list[int] = []
    ended: Counter[bytes] = Counter()
    async with working_before(old_url) as submitter, working_before(old_url) as worker:
        make = Factory(await submitter.now(), seed="moves")
        executor = await joined_before(old_url)
        beating = await asyncpg.connect(old_url)
        request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=50, ahead_seconds=0.0)

        async def submit() -> None:
            await submitter.jobs.add([make.job() for _ in range(20)])
            added.append(20)

        async def work() -> None:
            claims = await worker.attempts.claim(request)
            assert await worker.attempts.finish(executor, [factories.outcome(claimed) for claimed in claims]) == []
            ended.update(claimed.run_id.bytes for claimed in claims)

        async def beat() -> None:
            assert await beating.fetchval(BEAT, executor)

        async def keep_on(doing: Work) -> None:
            while not moved.is_set():
                await doing()

        writers = [asyncio.create_task(keep_on(doing)) for doing in (submit, work, beat)]
        await eventually(lambda: len(ended) > 40, what="they are at work")
        # On a busy machine its tenth of a second may be too short ten times; then it is repeated, as wiring does.
        await eventually(lambda: _moved_on(old_url), what="the schema has moved")
        seen = len(ended)
        await eventually(lambda: len(ended) > seen + 40, what="they go on")
        moved.set()
        await asyncio.gather(*writers)
        await eventually(lambda: _done(work, ended, sum(added)), what="all have ended")
        counted = Counter[RunState]()
        for tally in await worker.searches.tally("default", 0.0, 4e9):
            counted[tally.state] += tally.runs
        await beating.close()
    assert set(ended.values()) == {1}
    assert counted == {RunState.SUCCESS: sum(added)}


async def _moved_on(url: str) -> bool:
    try:
        return await upgrade(url) == WANTED
    except StoreUnavailable:
        return False


async def _done(work: Work, ended: Counter[bytes], expected: int) -> bool:
    await work()
    return len(ended) == expected


async def test_an_upgrade_that_cannot_have_a_table_gives_up_and_holds_up_nobody(old_url: str) -> None:
    """Somebody reads for long: whoever comes meanwhile is served, nothing has moved, and it can be repeated."""
    before = await form(old_url)
    reader, other = await asyncpg.connect(old_url), await asyncpg.connect(old_url)
    await other.execute("SET lock_timeout = '30s'")
    reading = reader.transaction()
    await reading.start()
    await reader.fetch("SELECT * FROM tickwise.operations")
    upgrading = asyncio.create_task(upgrade(old_url))
    served = 0
    while not upgrading.done():
        await other.fetch("SELECT * FROM tickwise.operations")
        await other.execute("DELETE FROM tickwise.executors")
        served += 1
        await asyncio.wait([upgrading], timeout=0.05)
    with pytest.raises(StoreUnavailable):
        await upgrading
    assert served > 1
    after = await form(old_url)
    assert before == after
    assert (await schema_status(old_url))[0] == ("0001", "0001")
    await reading.rollback()
    assert await upgrade(old_url) == WANTED
    await reader.close()
    await other.close()


@pytest.mark.parametrize("last", range(1, len(MIGRATIONS)))
async def test_a_database_of_each_earlier_version_is_moved_on(empty_url: str, last: int) -> None:
    """What it has is not run again, and programs of the first version are served still."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", MIGRATIONS[:last])
        patched.setattr(schema, "INDEXES", ())
        await upgrade(empty_url)
    found, _ = await schema_status(empty_url)
    assert found == (MIGRATIONS[last - 1].version, "0001")
    assert await upgrade(empty_url) == WANTED
    found, _ = await schema_status(empty_url)
    assert found == (WANTED, "0001")


async def test_a_migration_that_fails_leaves_the_database_as_it_was(old_url: str) -> None:
    """Also what the migrations before it did is undone, and a repeated upgrade does all of it."""
    before = await form(old_url)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (*MIGRATIONS, Migration("9998", ("0001_tables.sql",))))
        with pytest.raises(Bug, match="already exists"):
            await upgrade(old_url)
    assert before == await form(old_url)
    assert await upgrade(old_url) == WANTED


def test_each_file_belongs_to_one_migration() -> None:
    """The migrations are in order, and each file bears the number of the migration that runs it."""
    versions = [each.version for each in MIGRATIONS]
    assert sorted(set(versions)) == versions
    assert all(name.startswith(f"{each.version}_") for each in MIGRATIONS for name in each.files)
    named = [name for each in MIGRATIONS for name in each.files]
    assert sorted(named) == sorted(path.name for path in FOLDER.glob("*.sql"))
    assert sorted(INDEXES) == sorted(path.name for path in INDEXES_FOLDER.iterdir())
