"""A PostgreSQL for the tests: the one that TICKWISE_TEST_DATABASE_URL names, or an embedded one of this process.

The embedded one is the product's own, started by the product's own supervisor, so its role is no superuser. Tests get
a database each, which that role may not make; beyond the product's rights it is given CREATEDB and CREATEROLE alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres

VARIABLE = "TICKWISE_TEST_DATABASE_URL"

# Nobody looks at these databases after a crash of the machine, and a database a test means many files to sync. Tests
# of durability start servers of their own.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
DROP_ATTEMPTS = 5
CONNECT_SECONDS = 60.0
"""A busy machine takes seconds to begin a session."""

SAID_BYTES = 3_000

_numbers = count(1)
_log_files: list[Path] = []


def with_role(url: str, name: str, password: str) -> str:
    """The address with another role: server and database stay."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{name}:{password}@{place}"))


def with_database(url: str, name: str) -> str:
    """The address with another database: server and role stay."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@asynccontextmanager
async def server() -> AsyncIterator[str]:
    """The address of a server whose role may make databases."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    # Directly below the system's folder for such things: pytest's own are closed to the server's user, and long.
    data_dir = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    postgres = EmbeddedPostgres(data_dir, clock=SystemClock(), settings=SETTINGS)
    try:
        url = await postgres.start()
        await _may_make_databases(postgres, _cluster(data_dir), url)
        _log_files.append(_cluster(data_dir) / "log" / "postgres.log")
        yield url
    finally:
        await postgres.stop()
        shutil.rmtree(_cluster(data_dir), ignore_errors=True)
        shutil.rmtree(data_dir, ignore_errors=True)


def last_said() -> str:
    """The end of the log of this process's embedded server; empty: it has none."""
    try:
        return "".join(file.read_text(errors="replace")[-SAID_BYTES:] for file in _log_files)
    except OSError as error:
        return f"its log cannot be read: {error}"


def _cluster(data_dir: Path) -> Path:
    """The folder of the supervisor's cluster: elsewhere if the server's user cannot reach the temporary folder."""
    pointer = data_dir / "postgres" / "LOCATION"
    return Path(pointer.read_text().strip()) if pointer.exists() else data_dir / "postgres"


async def _may_make_databases(postgres: EmbeddedPostgres, cluster: Path, url: str) -> None:
    """The superuser's password is thrown away by design; here its socket is opened to it for a moment."""
    rules = cluster / "data" / "pg_hba.conf"
    product_rules = rules.read_text()
    rules.write_text(f"local all postgres trust\n{product_rules}")
    superuser = url.replace("://tickwise:", "://postgres:")
    assert postgres.pid is not None
    os.kill(postgres.pid, signal.SIGHUP)
    connection = await eventually(lambda: connects(superuser), what="the superuser may connect")
    async with closed_at_end(connection):
        await connection.execute("ALTER ROLE tickwise CREATEDB CREATEROLE")
    rules.write_text(product_rules)
    os.kill(postgres.pid, signal.SIGHUP)


async def connects(url: str) -> asyncpg.Connection | None:
    """A session of the database `postgres`, if the server lets that role in by now."""
    try:
        return await asyncpg.connect(with_database(url, "postgres"), timeout=CONNECT_SECONDS)
    except asyncpg.InvalidPasswordError:
        return None


@asynccontextmanager
async def closed_at_end(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """However the block ends: what is left open is found in a later test."""
    try:
        yield
    finally:
        await connection.close()


@asynccontextmanager
async def database(server_url: str, template: str = "template1") -> AsyncIterator[str]:
    """The address of a fresh database, empty or a copy of another one, gone afterwards whoever is still connected."""
    name = f"tickwise_test_{os.getpid()}_{next(_numbers)}"
    connection = await asyncpg.connect(server_url, timeout=CONNECT_SECONDS)
    async with closed_at_end(connection):
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield with_database(server_url, name)
    finally:
        await _drop(server_url, name)


async def sessions_waiting(connection: asyncpg.Connection) -> int:
    """The number of sessions of the connection's database that wait for a lock now."""
    # Within a transaction the server would remember what it saw at the first look.
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    return count


async def _drop(server_url: str, name: str) -> None:
    """Not WITH (FORCE), which only a superuser may use while autovacuum is at work there; plain DROP sends it away."""
    connection = await asyncpg.connect(server_url, timeout=CONNECT_SECONDS)
    async with closed_at_end(connection):
        for attempt in range(1, DROP_ATTEMPTS + 1):
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = current_user",
                name,
            )
            try:
                await connection.execute(f"DROP DATABASE {name}")
                return
            except asyncpg.ObjectInUseError:
                if attempt == DROP_ATTEMPTS:
                    raise
