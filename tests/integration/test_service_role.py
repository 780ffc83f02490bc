"""API and scheduler with a database role that does not own the schema: their work, and an audit log that only grows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import with_role
from tests.support.local_up import environment, run_command
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.control.audit.verification import verify
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.ports.store import Added, Retention
from tickwise.testing.factories import Factory

DAY = 86_400.0
SOURCE = Source(CallerKind.KEY, None, "ada")


@pytest_asyncio.fixture(scope="module")
async def role_url(database_url: str) -> AsyncIterator[str]:
    """The address for a role that has what a service needs."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    name = f"service_of_{urlsplit(database_url).path.removeprefix('/')}"
    await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    ran = run_command(["db", "grant-service", name], environment(TICKWISE_DATABASE_URL=database_url))
    assert (0, "") == (ran.code, ran.err)
    yield with_role(database_url, name, "secret")
    for what in ("ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA", "ALL FUNCTIONS IN SCHEMA", "SCHEMA"):
        await connection.execute(f"REVOKE ALL ON {what} tickwise FROM {name}")
    await connection.execute(f"DROP ROLE {name}")
    await connection.close()


@pytest_asyncio.fixture
async def store(role_url: str) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(role_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


async def test_the_role_writes_seals_and_verifies_the_log(store: PostgresStore) -> None:
    """With a job's own transaction, too."""
    make = Factory(await store.now())
    assert await store.jobs.add([make.job(source=SOURCE)]) == [Added.CREATED]
    await store.audit.add([AuditEntry("default", AuditAction.DENIED, SOURCE, "request")])
    assert await store.audit.seal(100) == 2
    report = await verify(store.audit)
    assert (report.found, report.entries) == (0, 2)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tickwise.audit SET caller = 'eve'",
        "DELETE FROM tickwise.audit",
        "TRUNCATE tickwise.audit",
        "DELETE FROM tickwise.audit_rest",
        "UPDATE tickwise.audit_seals SET hash = ''",
        "DELETE FROM tickwise.audit_seals",
        "INSERT INTO tickwise.audit_checkpoints SELECT now(), now(), 1, 'default', ''",
        "ALTER TABLE tickwise.audit DISABLE TRIGGER USER",
        "SELECT tickwise.audit_retire(current_date)",
        "SELECT tickwise.service_history_retire('audit_seals', NULL, NULL, now(), now())",
        "SELECT tickwise.service_jobs_retire('keys', NULL, NULL)",
        "SELECT tickwise.service_partition_make('audit', 'audit_20270101', NULL, NULL)",
        "UPDATE tickwise.schema_version SET serves = '0001'",
    ],
)
async def test_the_role_changes_nothing_of_the_log(role_url: str, statement: str) -> None:
    """The server refuses it, also where the role sets what the functions of retention set."""
    connection = await asyncpg.connect(role_url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT set_config('tickwise.audit_retires', pg_current_xact_id()::text, true)")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(statement)
    await transaction.rollback()
    await connection.close()


async def test_the_upkeep_makes_and_drops_partitions_with_the_role(store: PostgresStore, database_url: str) -> None:
    """Those of days ahead are made; those of long ago go, with the rights that functions of the owner lend."""
    kept = Retention(runs_seconds=DAY, failed_seconds=DAY, ahead_seconds=6 * DAY, audit_seconds=30 * DAY)
    made = await store.upkeep.maintain(kept)
    assert {name.rpartition("_")[0] for name in made.made} == {"history", "jobs", "audit"}
    await store.shift(45 * DAY)
    dropped = await store.upkeep.maintain(kept)
    assert {name.rpartition("_")[0] for name in dropped.dropped} >= {"history", "audit"}
    checkpoints = await store.audit.checkpoints()
    assert checkpoints
    assert [] == [seal for each in checkpoints for seal in await store.audit.seals(each.namespace, 0, each.seq)]
