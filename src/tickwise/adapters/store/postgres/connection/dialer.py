"""New sessions at one address of PostgreSQL, also through a pool such as PgBouncer.

    directly            settings go with the start-up of the session
    pool of sessions    it refuses or ignores most of them: the session gets them by SET, as its first statement
    pool of transactions, of statements    `Misconfigured`: nothing that we keep in a session would stay there

Invariant: a session that leaves here has the settings that it was asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import asyncpg

from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Misconfigured

MARK: Final = "1001ms"
"""A value that no other program sets: a session with another value did not get this one."""
PROBE: Final = {"application_name": "tickwise probe", "idle_in_transaction_session_timeout": MARK}
"""The settings of a session that finds out what lies between."""
PROBE_SECONDS: Final = 10.0
PROBE_ROUNDS: Final = 3
"""Other clients of the pool may take the shared session between two steps of a round."""

SHARED: Final = (
    "the database address leads to a pool that shares sessions between clients (PgBouncer with pool_mode=transaction "
    "or statement). Tickwise keeps prepared statements, settings and advisory locks in its sessions, and listens in "
    "one. Use PostgreSQL's own address, or a pool with pool_mode=session: docs/how-to/pgbouncer.md"
)
_LOST_STATEMENTS = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
"""A session that does not know what was prepared in it is another one."""


class SharedSessions(Misconfigured):
    """The pool before the database gives no client a session of its own."""


class Dialer:
    """Of one address."""

    def __init__(self) -> None:
        self._by_set = False
        """Settings at the start-up were refused or ignored here."""

    async def dial(self, *address: Any, server_settings: Mapping[str, str], **options: Any) -> asyncpg.Connection:
        """Connect as `asyncpg.connect` does, with these settings, also through a pool. Raises its errors."""
        if not self._by_set:
            try:
                return await asyncpg.connect(*address, server_settings=dict(server_settings), **options)
            except asyncpg.ProtocolViolationError as refusal:
                if "startup parameter" not in str(refusal):
                    raise
                self._by_set = True
        name = {"application_name": server_settings["application_name"]}
        connection = await asyncpg.connect(*address, server_settings=name, **options)
        try:
            settings = {key: value for key, value in server_settings.items() if key not in name}
            await connection.execute(statement("session_settings"), list(settings), list(settings.values()))
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def check(self, dsn: str, **options: Any) -> None:
        """Check the connection for a pool in between. Raises `Misconfigured` if sessions are shared, and the driver's
        errors."""
        async with self._session(dsn, **options) as first:
            try:
                pid, mark = await first.fetchrow(statement("session_probe"))
            except _LOST_STATEMENTS:
                raise SharedSessions(SHARED) from None
            if first.get_server_pid() == pid:
                return  # a pool makes up numbers of its own
            self._by_set = self._by_set or mark != MARK
            async with self._session(dsn, **options) as second:
                for _ in range(PROBE_ROUNDS):
                    if await _is_shared(first, second):
                        raise SharedSessions(SHARED)

    @contextlib.asynccontextmanager
    async def _session(self, dsn: str, **options: Any) -> AsyncIterator[asyncpg.Connection]:
        try:
            connection = await self.dial(dsn, server_settings=PROBE, timeout=PROBE_SECONDS, **options)
        except _LOST_STATEMENTS:
            raise SharedSessions(SHARED) from None
        try:
            yield connection
        finally:
            connection.terminate()


async def _is_shared(first: asyncpg.Connection, second: asyncpg.Connection) -> bool:
    """Check whether the two sessions share state in the server: a setting of one is seen, or lost, in the other. By the
    simple protocol, which prepares nothing."""
    try:
        await second.execute(statement("session_mark_off"))
        await first.execute(statement("session_mark_on"))
        await second.execute(statement("session_unmarked"))
        await first.execute(statement("session_marked"))
    except asyncpg.DivisionByZeroError:
        return True
    return False


async def check_sessions(dsn: str) -> None:
    """Raises `SharedSessions` if sessions at this address are shared with others; nothing if no server
    answers there."""
    away = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
    with contextlib.suppress(*away):
        await Dialer().check(dsn)
