"""A real PgBouncer before the database: sessions work as they are, transactions are refused with the way out."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import pytest

from tests.services.pgbouncer import PgBouncer
from tests.support.databases import with_database, with_role
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, check_sessions, upgrade
from tickwise.adapters.store.postgres.connection.link import HOT_SETTINGS
from tickwise.domain.errors import Misconfigured, StoreUnavailable
from tickwise.testing.factories import executor

pytestmark = pytest.mark.usefixtures("patient_beats")

IGNORING = {"ignore_startup_parameters": "extra_float_digits," + ",".join(HOT_SETTINGS)}


@asynccontextmanager
async def bouncer(database_url: str, settings: Mapping[str, str]) -> AsyncIterator[PgBouncer]:
    """One before this database, whose schema is there."""
    await upgrade(database_url)
    async with PgBouncer(database_url, settings={"default_pool_size": "20", **settings}) as server:
        yield server


@pytest.mark.parametrize("settings", [{}, IGNORING], ids=["refuses parameters", "ignores parameters"])
async def test_a_pool_of_sessions_works_as_it_is(database_url: str, settings: Mapping[str, str]) -> None:
    """Whether it refuses or ignores the settings that a connection begins with: each session has them."""
    async with bouncer(database_url, {"pool_mode": "session", **settings}) as server:
        store = PostgresStore(server.url, clock=SystemClock())
        await store.open()
        try:
            number = await store.executors.join(executor("e", lease_seconds=60.0))
            assert (await store.executors.beat(number, 60.0)).alive
            for expected, use in (
                (HOT_SETTINGS, store._links.line("claim").use(writes=False)),
                ({"jit": "off"}, store._links.pooled(writes=False)),
            ):
                async with use as connection:
                    names = list(expected)
                    found = await connection.fetch("SELECT current_setting(n) FROM unnest($1::text[]) n", names)
                    assert expected == dict(zip(names, [row[0] for row in found], strict=True))
        finally:
            await store.close()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pool_of_transactions_is_refused_with_the_way_out(database_url: str, mode: str) -> None:
    """Sessions of ours hold prepared statements and listen, so it would fail later, and for no reason to be seen."""
    async with bouncer(database_url, {"pool_mode": mode}) as server:
        store = PostgresStore(server.url, clock=SystemClock())
        with pytest.raises(Misconfigured, match="pool_mode=session"):
            await store.open()
        with pytest.raises(Misconfigured, match="pool_mode=session"):
            await upgrade(server.url)
        command = [sys.executable, "-m", "tickwise", "scheduler"]
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "TICKWISE_DATABASE_URL": server.url}, stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        assert (6, True) == (process.returncode, b"pool_mode=session" in said)


async def test_a_server_is_taken_for_what_it_is(database_url: str) -> None:
    """Without a pool between, nothing is asked beside."""
    await upgrade(database_url)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    connection = await asyncpg.connect(database_url)
    try:
        assert not await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1",
            "tickwise probe",
        )
    finally:
        await connection.close()
        await store.close()


async def test_a_password_that_is_changed_is_an_outage_that_names_its_cause(database_url: str) -> None:
    """A store that was open waits for the right one: whoever asks is told what is wrong, and no name or address."""
    await upgrade(database_url)
    admin = await asyncpg.connect(database_url)
    role = f"changed_{uuid4().hex[:8]}"
    await admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'first'")
    store = PostgresStore(with_role(database_url, role, "first"), clock=SystemClock())
    try:
        await admin.execute(f"GRANT USAGE ON SCHEMA tickwise TO {role}")
        await admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA tickwise TO {role}")
        await store.open()
        assert await store.now() > 0.0
        await admin.execute(f"ALTER ROLE {role} PASSWORD 'second'")
        for line in store._links._lines.values():
            await line.close()
        with pytest.raises(StoreUnavailable, match="refuses the role of its URL, or the password") as outage:
            await store.now()
        assert role not in outage.value.detail
        await admin.execute(f"ALTER ROLE {role} PASSWORD 'first'")
        assert await store.now() > 0.0
    finally:
        await store.close()
        await admin.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA tickwise FROM {role}")
        await admin.execute(f"REVOKE ALL ON SCHEMA tickwise FROM {role}")
        await admin.execute(f"DROP ROLE {role}")
        await admin.close()


async def test_a_database_that_the_pool_does_not_know_ends_the_start(database_url: str) -> None:
    """No waiting makes it known."""
    async with bouncer(database_url, {"pool_mode": "session"}) as server:
        store = PostgresStore(with_database(server.url, "nowhere"), clock=SystemClock())
        with pytest.raises(Misconfigured, match="the pool before PostgreSQL refuses"):
            await store.open()


async def test_signals_through_a_pool_of_transactions_are_refused(database_url: str) -> None:
    """Nobody would ever be woken; where nobody answers, signals are only late."""
    async with bouncer(database_url, {"pool_mode": "transaction"}) as server:
        with pytest.raises(Misconfigured, match="pool_mode=session"):
            await check_sessions(server.url)
    await check_sessions(server.url)
    await check_sessions(database_url)
