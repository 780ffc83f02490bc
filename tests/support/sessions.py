"""Sessions of PostgreSQL that one test leaves to the next.

    a test's store ── connect ──► shelf ──► a session that was given back, or a new one
                   ◄── close ──── shelf ◄── reset: no transaction, lock, listener or setting stays, plans do

A new session plans each statement anew, which takes longer than the rest of a test: the 917 promises of the store took
165 s with new ones. Invariant: nothing but plans goes from a test to the next.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import pytest

END_SECONDS: Final = 2.0


class _Shelf:
    """Idle sessions, by the address and the settings that they were asked for with."""

    def __init__(self) -> None:
        self._connect = asyncpg.connect
        self._idle: defaultdict[str, list[_Session]] = defaultdict(list)

    async def connect(self, *address: Any, **options: Any) -> asyncpg.Connection:
        """In place of `asyncpg.connect`. A pool's sessions are its own: it ends idle ones later, whoever has them."""
        if "connection_class" in options:
            return await self._connect(*address, **options)
        idle = self._idle[repr((address, sorted(options.items())))]
        while idle:
            session = idle.pop()
            if not session.is_closed():
                return session
        session = await self._connect(*address, connection_class=_Session, **options)
        session.idle = idle
        return session

    async def close(self) -> None:
        """End them."""
        for idle in self._idle.values():
            for session in idle:
                await session.end()


class _Session(asyncpg.Connection):  # type: ignore[misc]  # asyncpg carries no types
    """One of them."""

    idle: list[_Session]
    """Where it goes back to."""

    async def close(self, *, timeout: float | None = None) -> None:
        """Go back to the shelf, as new."""
        if self.is_closed():
            return
        try:
            await self.reset(timeout=timeout)
        except BaseException:
            self.terminate()
            raise
        self.idle.append(self)

    async def end(self) -> None:
        """Close it in earnest."""
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            await super().close(timeout=END_SECONDS)


@asynccontextmanager
async def kept_sessions() -> AsyncIterator[None]:
    """While this lasts, a session that is closed is given to the next who connects in the same way."""
    shelf = _Shelf()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncpg, "connect", shelf.connect)
        try:
            yield
        finally:
            await shelf.close()
