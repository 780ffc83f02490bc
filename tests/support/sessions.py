"""Sessions of PostgreSQL that one test leaves to the next.

    a test's store ── connect ──► shelf ──► a session that was given back, or a new one
                   ◄── close ──── shelf ◄── reset: no transaction, lock, listener or setting stays, plans do

A new session plans each statement anew, which takes longer than the rest of a test: the 917 promises of the store took
165 s with new ones. A pool's sessions are kept in the same way, and an address is probed for a shared pool once.
Invariant: nothing but plans goes from a test to the next.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import pytest

from tickwise.adapters.store.postgres.connection.dialer import Dialer

END_SECONDS: Final = 2.0


class _Shelf:
    """Idle sessions, by the address and the settings that they were asked for with."""

    def __init__(self) -> None:
        self._connect = asyncpg.connect
        self._kept: dict[Any, type[_Session]] = {}
        self._idle: defaultdict[str, list[_Session]] = defaultdict(list)

    async def connect(
        self, *address: Any, connection_class: type[asyncpg.Connection] = asyncpg.Connection, **options: Any
    ) -> asyncpg.Connection:
        """In place of `asyncpg.connect`, also for a pool."""
        idle = self._idle[repr((address, connection_class.__name__, sorted(options.items())))]
        while idle:
            session = idle.pop()
            if not session.is_closed():
                return session
        session = await self._connect(*address, connection_class=self._class_of(connection_class), **options)
        session.idle = idle
        return session

    def _class_of(self, asked: type[asyncpg.Connection]) -> type[_Session]:
        """The class of sessions that are kept, with what the other class says."""
        if asked not in self._kept:
            self._kept[asked] = type(f"Kept{asked.__name__}", (_Session, asked), {})
        return self._kept[asked]

    async def close(self) -> None:
        """End them."""
        for idle in self._idle.values():
            for session in idle:
                await session.end()


class _Session(asyncpg.Connection):  # type: ignore[misc]  # asyncpg carries no types
    """One of them."""

    idle: list[_Session]
    """The pool that takes the session back."""
    _pool_holder: Any

    async def close(self, *, timeout: float | None = None) -> None:
        """Go back to the shelf, as new."""
        if self.is_closed():
            return
        try:
            await self.reset(timeout=timeout)
            await self.execute(asyncpg.Connection.get_reset_query(self))  # the class of a pool may leave it out
            self._leave_pool()
        except BaseException:
            self.terminate()
            raise
        self.idle.append(self)

    def _leave_pool(self) -> None:
        """Tell the pool that this session is not its own any more, as the driver does when a session ends."""
        held, self._pool_holder = self._pool_holder, None
        holder = held and held()
        if holder is not None:
            holder._release_on_close()

    async def end(self) -> None:
        """Close it in earnest."""
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            await super().close(timeout=END_SECONDS)


class _Probes:
    """The addresses that were found to give each client a session of its own."""

    def __init__(self) -> None:
        self._probe = Dialer.check
        self._found: set[str] = set()

    async def check(self, dialer: Dialer, dsn: str, **options: Any) -> None:
        """In place of `Dialer.check`, of which one answer serves for all."""
        if dsn not in self._found:
            await self._probe(dialer, dsn, **options)
            self._found.add(dsn)


@asynccontextmanager
async def kept_sessions() -> AsyncIterator[None]:
    """While this lasts, a session that is closed is given to the next who connects in the same way."""
    shelf, probes = _Shelf(), _Probes()

    async def check(dialer: Dialer, dsn: str, **options: Any) -> None:
        await probes.check(dialer, dsn, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncpg, "connect", shelf.connect)
        patched.setattr(Dialer, "check", check)
        try:
            yield
        finally:
            await shelf.close()
