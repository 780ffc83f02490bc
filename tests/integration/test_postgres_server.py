"""What `tickwise doctor` says of a server that will be slow tomorrow: nobody cleans up, or somebody holds it up."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio

from tests.support import databases
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.store.postgres import PostgresStore, server, upgrade
from tickwise.adapters.store.postgres.connection.link import UPKEEP, Links
from tickwise.cli.main import main
from tickwise.domain.errors import StoreUnavailable


@pytest_asyncio.fixture(scope="module")
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    await upgrade(database_url)
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def session(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else's."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def said(store: PostgresStore, word: str) -> list[str]:
    """The findings that have this word in them."""
    return [finding for finding in await store.findings() if word in finding]


# ------------------------------------------------------------------------------------------ nobody cleans up


async def test_a_table_without_autovacuum_is_named_with_the_way_back(
    store: PostgresStore, session: asyncpg.Connection
) -> None:
    """Named while it is so, and no longer."""
    assert [] == await said(store, "autovacuum is switched off")
    await session.execute("ALTER TABLE tickwise.runs SET (autovacuum_enabled = false)")
    [finding] = await said(store, "autovacuum is switched off")
    assert "for runs:" in finding
    assert finding.endswith("reset the option autovacuum_enabled of tickwise.runs")
    await session.execute("ALTER TABLE tickwise.runs RESET (autovacuum_enabled)")
    assert [] == await said(store, "autovacuum is switched off")


async def test_a_table_that_is_far_behind_is_named_with_its_figures(
    store: PostgresStore, session: asyncpg.Connection
) -> None:
    """Dead rows that nobody removes, and changes that no statistics know of. (Switched off, so that nobody comes.)"""
    await session.execute(
        "ALTER TABLE tickwise.incidents SET (autovacuum_enabled = false, autovacuum_vacuum_threshold = 10, "
        "autovacuum_analyze_threshold = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_scale_factor = 0)"
    )
    await session.execute(
        "INSERT INTO tickwise.incidents (began, ended, kind, who) "
        "SELECT now(), now(), 'store_away', n::text FROM generate_series(1, 60000) n"
    )
    await session.execute("DELETE FROM tickwise.incidents")
    await session.execute("SELECT pg_stat_force_next_flush()")
    [unclean] = await said(store, "vacuum is far behind")
    assert "incidents (60,000 dead rows)" in unclean
    [unread] = await said(store, "no statistics are collected")
    assert "incidents (120,000 changes)" in unread
    await session.execute("VACUUM ANALYZE tickwise.incidents")
    await session.execute("SELECT pg_stat_force_next_flush()")
    assert [] == await said(store, "vacuum is far behind") + await said(store, "no statistics are collected")


# ------------------------------------------------------------------------------------------ somebody holds it up


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open at all is worth a word."""
    monkeypatch.setattr(server, "PINNED_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_who_holds_a_snapshot_is_named_with_its_process_and_its_age(
    store: PostgresStore, session: asyncpg.Connection
) -> None:
    """While it holds it."""
    mine = f"process {session.get_server_pid()} "
    assert [] == await said(store, mine)
    transaction = session.transaction(isolation="repeatable_read")
    await transaction.start()
    await session.fetchval("SELECT count(*) FROM tickwise.runs")
    [finding] = await said(store, mine)
    assert "(idle in transaction) has had a transaction open for " in finding
    assert f"call pg_terminate_backend({session.get_server_pid()})" in finding
    await transaction.rollback()
    assert [] == await said(store, mine)


@pytest_asyncio.fixture
async def stranger(database_url: str, session: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """A session of another role, of which the server tells ours little."""
    if not await session.fetchval("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"):
        pytest.skip(f"the role that {databases.VARIABLE} names may make no roles")
    name = f"{urlsplit(database_url).path.strip('/')}_stranger"
    await session.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    try:
        connection = await asyncpg.connect(databases.with_role(database_url, name, "secret"))
        yield connection
        await connection.close()
    finally:
        await session.execute(f"DROP ROLE {name}")


@pytest.mark.usefixtures("at_once")
async def test_a_session_of_another_role_is_named_too(
    store: PostgresStore, stranger: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of the others are: backups, reports. Its times are not shown to us, so its transactions are counted."""
    monkeypatch.setattr(server, "PINNED_TRANSACTIONS", -1)
    who = await stranger.fetchval("SELECT current_user")
    assert [] == await said(store, who)
    transaction = stranger.transaction(isolation="repeatable_read")
    await transaction.start()
    await stranger.fetchval("SELECT count(*) FROM pg_class")
    [finding] = await said(store, who)
    assert finding.startswith(f"process {stranger.get_server_pid()} of {who}")
    assert f"call pg_terminate_backend({stranger.get_server_pid()})" in finding
    await transaction.rollback()
    assert [] == await said(store, who)


@pytest.mark.usefixtures("at_once")
async def test_nobody_is_told_to_end_our_own_upkeep(
    store: PostgresStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads a whole day at a time and ends by itself; only one that ought to have ended long ago is named."""
    upkeep = await Links(database_url, changed=lambda: None).connect(UPKEEP)
    try:
        async with upkeep.transaction(isolation="repeatable_read"):
            await upkeep.fetchval("SELECT count(*) FROM tickwise.runs")
            mine = f"process {upkeep.get_server_pid()} "
            assert [] == await said(store, mine)
            monkeypatch.setattr(server, "UPKEEP_SECONDS", 0.0)
            assert 1 == len(await said(store, mine))
    finally:
        await upkeep.close()


async def test_a_short_transaction_is_no_matter(store: PostgresStore, session: asyncpg.Connection) -> None:
    """Each of ours is one."""
    async with session.transaction():
        await session.fetchval("SELECT count(*) FROM tickwise.runs")
        assert [] == await said(store, f"process {session.get_server_pid()} ")


def test_a_slot_that_nobody_reads_and_a_forgotten_transaction_say_how_to_end_them() -> None:
    """Also where the server does not tell since when: before PostgreSQL 17 it did not of slots."""
    slot = {"kind": "slot", "name": "old", "who": "physical", "doing": "", "seconds": None, "transactions": 7}
    text = server.of_pin({**slot, "bytes": 5e9})
    assert "the replication slot old (physical), 7 transactions back: it keeps 5,000 MB" in text
    assert text.endswith("call pg_drop_replication_slot('old')")
    prepared = {**slot, "kind": "prepared", "name": "two", "who": "app", "seconds": 90.4, "bytes": 0.0}
    assert "the transaction 'two' of app has been prepared for 90 s, 7 transactions back" in server.of_pin(prepared)


# ------------------------------------------------------------------------------------------ the whole server


def test_a_server_with_autovacuum_off_is_told_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    """By `tickwise doctor`, as a person calls it; and what else a crash of such a server would lose."""
    folder = Path(tempfile.mkdtemp(prefix="tickwise-doctor-"))
    settings = {"autovacuum": "off", "synchronous_commit": "off"}

    async def examined() -> list[dict[str, Any]]:
        postgres = EmbeddedPostgres(folder, clock=SystemClock(), settings=settings)
        try:
            url = await postgres.start()
            await upgrade(url)
            capsys.readouterr()
            await asyncio.to_thread(main, ["doctor", "--json", "--database", url, "--data-dir", str(folder)])
            found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        finally:
            await postgres.stop()
        return found

    try:
        found = asyncio.run(examined())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = [each["detail"] for each in found if (each["name"], each["level"]) == ("database", "warning")]
    assert 2 == len(told)
    assert "synchronous_commit=off" in told[0]
    assert "autovacuum=off" in told[1]
    assert told[1].endswith("set it to on and reload")


async def test_a_table_that_is_locked_by_hand_is_an_outage_and_not_a_wait(
    store: PostgresStore, database_url: str
) -> None:
    """Who asks meanwhile hears it as long as the lock lasts, and is served after it."""
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE tickwise.jobs")
            with pytest.raises(StoreUnavailable):
                await store.jobs.get("default", uuid4())
        assert await store.jobs.get("default", uuid4()) is None
    finally:
        await connection.close()


def test_a_time_limit_of_the_role_is_found() -> None:
    """And what to do about it."""
    row = {
        "superuser": False, "role": "tick", "fsync": "on", "synchronous_commit": "on", "autovacuum": "on",
        "track_counts": "on", "statement_timeout": "5s",
    }  # fmt: skip
    [finding] = server.of_settings(row)
    assert "statement_timeout is 5s for the role tick" in finding
    assert [] == list(server.of_settings({**row, "statement_timeout": "0"}))
