"""What a question about the users of a secret reads of PostgreSQL, among many jobs; and what an upgrade finds out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.schema import FOLDER
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store.secrets import USES_LOOKED_AT, SecretPlace
from tickwise.testing.factories import Factory

JOBS = 100_000
FILL = f"""
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition, secrets)
SELECT now(), now(), gen_random_uuid(), 1, true, true, 'default', 'job ' || n, 'CRON', 'shell', 'ada', repeat('x', 500),
       ARRAY['s' || n % 1000, 'all' || n % 2]
FROM generate_series(1, {JOBS}) n;
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition, secrets)
SELECT now(), now(), gen_random_uuid(), 1, true, false, 'default', 'once ' || n, 'IMMEDIATE', 'shell', 'ada', '',
       ARRAY['s' || n % 1000, 'once']
FROM generate_series(1, {JOBS // 2}) n;
INSERT INTO tickwise.secrets (created_at, changed_at, version, namespace, name, created_by, changed_by, key_id,
                              sealed_key, sealed_value)
SELECT now(), now(), 1, 'default', 's' || n, '', '', '', '', '' FROM generate_series(1, 50) n;
"""
"""100,000 jobs that stay, 100 for each of 1,000 secrets and half of them for each of two more, and half as many
one-time jobs that last, of which none waits or runs."""


@pytest_asyncio.fixture(scope="module")
async def session(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """On a database that nobody has analysed."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute("ALTER TABLE tickwise.jobs_lasting SET (autovacuum_enabled = off)")
    await connection.execute(FILL)
    yield connection
    await connection.close()


async def buffers(session: asyncpg.Connection, name: str, *asked: Any) -> int:
    """The buffers that a statement reads."""
    rows = await session.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement(name)}", *asked)
    plan = json.loads(rows)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize("analysed", [False, True])
@pytest.mark.parametrize(
    ("name", "asked", "most"),
    [
        ("secret_uses", ("default", "s7", 1_001, USES_LOOKED_AT), 1_000),
        ("secret_uses", ("default", "nobody", 1_001, USES_LOOKED_AT), 100),
        ("secret_uses", ("default", "all1", 1_001, USES_LOOKED_AT), 1_000),
        ("secret_uses", ("default", "once", 1_001, USES_LOOKED_AT), 25_000),
        ("secrets_find", ("default", None, None, None, [], 50, 1_000), 7_000),
    ],
)
async def test_a_question_reads_what_it_tells(
    session: asyncpg.Connection, name: str, asked: tuple[Any, ...], most: int, *, analysed: bool
) -> None:
    """The jobs of that secret, up to a bound, and no others, of 150,000: of a secret that nobody names, nearly
    nothing."""
    if analysed:
        await session.execute("ANALYZE tickwise.jobs")
    assert await buffers(session, name, *asked) < most


async def test_one_time_jobs_beyond_those_looked_at_are_told_as_perhaps_more(
    session: asyncpg.Connection, database_url: str
) -> None:
    """So that a removal asks. Of fewer that are over, it knows that none is left."""
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    try:
        many = await store.secrets.uses(SecretPlace("default", "once"), 10)
        assert ([], True) == (list(many.jobs), many.more)
        few = await store.secrets.uses(SecretPlace("default", "s7"), 1_000)
        assert (JOBS // 1_000, False) == (len(few.jobs), few.more)
    finally:
        await store.close()


async def test_an_upgrade_finds_the_names_in_jobs_that_were_stored_before(session: asyncpg.Connection) -> None:
    """In each form of a reference; nothing in other texts, and of other providers."""
    make = Factory(0.0)
    texts = {
        '{"task":{"env":{"A":"secret:db","B":"secret-file:tls.key","C":"secret:db"}}}': ["db", "tls.key"],
        json.dumps({"task": {"headers": {"A": "Bearer {{ secret.api-token }}"}}}): ["api-token"],
        json.dumps({"task": {"body": '{{secret."a.b"}} {{ secret.c.d }}'}}): ["a.b", "c.d"],
        '{"task":{"env":{"A":"secret:vault:app/db#key"},"command":"echo a secret"}}': None,
    }
    ids = [make.identifier() for _ in texts]
    add = (
        "INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,"
        " task_kind, created_by, definition) VALUES (now(), now(), $1, 1, true, true, 'old', '', 'CRON', '', '', $2)"
    )
    await session.executemany(add, list(zip(ids, texts, strict=True)))
    file = (FOLDER / "0060_secret_uses.sql").read_text(encoding="utf-8")
    update = file[file.index("UPDATE tickwise.jobs_lasting") :]
    await session.execute(update)
    rows = await session.fetch("SELECT job_id, secrets FROM tickwise.jobs_lasting WHERE namespace = 'old'")
    assert dict(zip(ids, texts.values(), strict=True)) == {row["job_id"]: row["secrets"] for row in rows}
