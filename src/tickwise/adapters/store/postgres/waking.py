"""Runs that wait are claimable once what they wait for is over: an earlier run of their job, or who has their slot.

Whoever ends a run says so at once (`wake`); whatever is lost on the way (a link cut after the end of a run, a row that
was locked) is made up for by the `sweep`. Invariant: locks are taken in one order, runs (by id) before keys (by
namespace and key), and who has a key waits for no run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.statements import statement

KEYS_A_PAGE: Final = 100
"""Locked at once by a sweep, for one statement's time."""

Key = tuple[str, str]
"""Namespace, and what a limit or a rate goes by there."""


@dataclass(slots=True)
class Ended:
    """What runs that ended, or that run no longer, may leave to others."""

    jobs: list[UUID] = field(default_factory=list)
    """In which a run waits for one of them."""
    keys: set[Key] = field(default_factory=set)
    """Of which one had a slot."""

    def add(
        self, jobs: Sequence[UUID] | None, namespaces: Sequence[str] | None = None, keys: Sequence[str] | None = None
    ) -> None:
        """What a statement told: NULL where there was nothing."""
        if jobs:
            self.jobs += jobs
        if keys and namespaces:
            self.keys.update(zip(namespaces, keys, strict=True))

    def __bool__(self) -> bool:
        return bool(self.jobs or self.keys)


async def wake(connection: asyncpg.Connection, ended: Ended) -> int:
    """Make claimable what waited for this; how many."""
    return await unblock(connection, ended.jobs) + await _wake_keys(connection, sorted(ended.keys))


async def unblock(connection: asyncpg.Connection, jobs: Sequence[UUID]) -> int:
    """In each of these jobs, make the first run that waits claimable, if nothing is before it any more; how many."""
    count: int = await connection.fetchval(statement("unblock"), jobs) if jobs else 0
    return count


async def wake_queue(connection: asyncpg.Connection, namespace: str, queue: str) -> int:
    """Make claimable who waited for a slot in a queue that was on hold, as far as there are free ones; how many."""
    rows = await connection.fetch(statement("limits_of_queue"), namespace, queue)
    return await _wake_keys(connection, sorted((row["namespace"], row["limit_key"]) for row in rows))


async def _wake_keys(connection: asyncpg.Connection, keys: Sequence[Key], *, sweeping: bool = False) -> int:
    """Sweeping, more are woken than there are free slots, if nobody claims what was woken before."""
    if not keys:
        return 0
    namespaces, names = [namespace for namespace, _ in keys], [key for _, key in keys]
    async with connection.transaction():
        await lock_limits(connection, keys)
        # Another statement: it sees whoever began to wait before the lock was given.
        count: int = await connection.fetchval(statement("limits_wake"), namespaces, names, sweeping)
    return count


async def lock_limits(connection: asyncpg.Connection, keys: Sequence[Key]) -> None:
    """Nobody else starts or wakes anything with these keys, each given once, until this transaction ends."""
    await connection.execute(statement("limits_lock"), [namespace for namespace, _ in keys], [key for _, key in keys])


async def sweep(connection: asyncpg.Connection) -> int:
    """Look at everything that waits; how many are claimable by it."""
    count = await unblock(connection, [row[0] for row in await connection.fetch(statement("blocked_jobs"))])
    after: tuple[str | None, str | None] = (None, None)
    while True:
        rows = await connection.fetch(statement("limits_waiting"), *after, KEYS_A_PAGE)
        keys = [(row["namespace"], row["limit_key"]) for row in rows if row["waiting"]]
        count += await _wake_keys(connection, keys, sweeping=True)
        if len(rows) < KEYS_A_PAGE:
            return count
        after = (rows[-1]["namespace"], rows[-1]["limit_key"])
