"""Waiting runs become claimable after the end of the run that they wait for: an earlier run of their job, or the holder
of their slot.

    a run ends ──► finish ──(only if somebody may wait for it)──► wake ──► claimable ──► told to who listens (`base`)
                                                                   ▲
    what was lost on the way: a link cut after the end, a row that was locked ──► sweep

Invariant: locks are taken in one order, runs (by id) before keys (by namespace and key), and who has a key waits for no
run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Unavailable

KEYS_A_PAGE: Final = 100
"""Locked at once by a sweep, for one statement's time."""

Key = tuple[str, str]
"""Namespace, and what a limit or a rate goes by there."""


class Woken(NamedTuple):
    """A run that waited and can be claimed."""

    run_id: UUID
    ready: float
    lane: int


@dataclass(slots=True)
class Ended:
    """The slots and places that ended runs may leave to others."""

    jobs: list[UUID] = field(default_factory=list)
    """In which a run waits for one of them."""
    keys: set[Key] = field(default_factory=set)
    """Of which one had a slot."""

    def add(
        self, jobs: Sequence[UUID] | None, namespaces: Sequence[str] | None = None, keys: Sequence[str] | None = None
    ) -> None:
        """Add the answer of a statement: NULL where there was none."""
        if jobs:
            self.jobs += jobs
        if keys and namespaces:
            self.keys.update(zip(namespaces, keys, strict=True))

    def add_row(self, job: UUID | None, namespace: str | None, key: str | None) -> None:
        """Add the slots and places that one run left."""
        self.add([job] if job else None, [namespace] if key and namespace else None, [key] if key else None)

    def __bool__(self) -> bool:
        return bool(self.jobs or self.keys)


async def wake(connection: asyncpg.Connection, ended: Ended, *, apart: bool = False) -> list[Woken]:
    """Make the runs claimable that waited for these ends. `apart`: the transactions write nothing else, so they need
    not be durable before the runs are announced."""
    woken = await unblock(connection, ended.jobs, apart=apart)
    return woken + await _wake_keys(connection, sorted(ended.keys), apart=apart)


async def wake_or_not(connection: asyncpg.Connection, ended: Ended) -> list[Woken]:
    """Wake as `wake` does, outside of any transaction, for runs that have ended by now. A failure is left to
    the sweep."""
    if not ended:
        return []
    with contextlib.suppress(Unavailable), translated(writes=True):
        return await wake(connection, ended, apart=True)
    return []


async def unblock(connection: asyncpg.Connection, jobs: Sequence[UUID], *, apart: bool = False) -> list[Woken]:
    """Make the first waiting run of each job claimable, if no earlier run is before it."""
    return [Woken(*row[:3]) for row in await connection.fetch(statement("unblock"), jobs, apart)] if jobs else []


async def wake_queue(connection: asyncpg.Connection, namespace: str, queue: str) -> list[Woken]:
    """Make the runs claimable that waited for a slot in a queue that was on hold, up to the free slots."""
    rows = await connection.fetch(statement("limits_of_queue"), namespace, queue)
    return await _wake_keys(connection, sorted((row["namespace"], row["limit_key"]) for row in rows), apart=True)


async def _wake_keys(
    connection: asyncpg.Connection, keys: Sequence[Key], *, sweeping: bool = False, apart: bool = False
) -> list[Woken]:
    """Wake runs of these keys. Sweeping, wake more than there are free slots, if no executor claims the runs woken
    before."""
    if not keys:
        return []
    rows = await connection.fetch(statement("limits_wake"), *halves(keys), sweeping, apart)
    return [Woken(*row[:3]) for row in rows]


async def lock_limits(connection: asyncpg.Connection, keys: Sequence[Key]) -> None:
    """Lock these keys, each given once: no other transaction starts or wakes a run with them until this one ends."""
    if keys:
        await connection.execute(statement("limits_lock"), *halves(keys))


def halves(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    """As statements take them: namespaces, and names."""
    return [namespace for namespace, _ in keys], [key for _, key in keys]


async def sweep(connection: asyncpg.Connection) -> list[Woken]:
    """Look at everything that waits; what is claimable by it."""
    jobs = [row[0] for row in await connection.fetch(statement("blocked_jobs"))]
    woken = await unblock(connection, jobs, apart=True)
    after: tuple[str | None, str | None] = (None, None)
    while True:
        rows = await connection.fetch(statement("limits_waiting"), *after, KEYS_A_PAGE)
        keys = [(row["namespace"], row["limit_key"]) for row in rows if row["waiting"]]
        woken += await _wake_keys(connection, keys, sweeping=True, apart=True)
        if len(rows) < KEYS_A_PAGE:
            return woken
        after = (rows[-1]["namespace"], rows[-1]["limit_key"])
