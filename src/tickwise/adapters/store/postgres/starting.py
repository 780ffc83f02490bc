"""What becomes of a run that is about to start while others of its job are unfinished, and of those that wait.

    claimed, overlap open ── settle ──┬── start   RUNNING, settled for good
                                      ├── wait    QUEUED and blocked; what it waits for is `watched`
                                      └── skip    SKIPPED, on record
    a watched run ends ── unblock ──► the first that waits is claimable, and is settled again at its start

Invariant: of two runs of a line one is let start only after the other was looked at under a lock that both take.
A wake-up that is lost (a link cut after the end of a run, a row that was locked) is made up for by the sweep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.decision import Overlap
from tickwise.ports.store import Began

OVERLAPS: Final = MappingProxyType(
    {
        Overlap.ALLOW: 0,
        Overlap.SKIP: 1,
        Overlap.QUEUE_ONE: 2,
        Overlap.QUEUE_ALL: 3,
        Overlap.CANCEL_RUNNING: 4,
    }
)
"""What the table of runs holds."""

START, WAIT = "start", "wait"

TRIES: Final = 3
"""Locks are taken in one order everywhere, so a deadlock is not to be expected; one is tried again all the same."""


class OpenStart(NamedTuple):
    """An attempt that wants to begin, and whose overlap is open."""

    job_id: UUID
    began: Began


async def settle(connection: asyncpg.Connection, executor: int, starts: Sequence[OpenStart]) -> set[UUID]:
    """Settle them, those of one job one after the other in the order of their nominal times; those that started."""
    started: set[UUID] = set()
    rounds: list[list[Began]] = []
    seen: dict[UUID, int] = {}
    for job_id, began in sorted(starts, key=lambda start: start.began.run_id):
        number = seen[job_id] = seen.get(job_id, -1) + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(began)
    for batch in rounds:
        started |= await _settle_again(connection, executor, batch)
    return started


async def _settle_again(connection: asyncpg.Connection, executor: int, starts: Sequence[Began]) -> set[UUID]:
    for _ in range(TRIES - 1):
        with contextlib.suppress(asyncpg.TransactionRollbackError):
            return await _settle(connection, executor, starts)
    return await _settle(connection, executor, starts)


async def _settle(connection: asyncpg.Connection, executor: int, starts: Sequence[Began]) -> set[UUID]:
    ids, tokens, instants = zip(*starts, strict=True)
    async with connection.transaction():
        rows = await connection.fetch(statement("starts_settle"), executor, ids, tokens, instants)
        asked = [run for run, verdict, asked in rows if verdict == WAIT and asked]
        if asked:
            await connection.execute(statement("settle_requests"), asked, [])
    return {run for run, verdict, _ in rows if verdict == START}


async def unblock(connection: asyncpg.Connection, jobs: Sequence[UUID]) -> int:
    """In each of these jobs, make the first run that waits claimable, if nothing is before it any more; how many."""
    count: int = await connection.fetchval(statement("unblock"), jobs) if jobs else 0
    return count
