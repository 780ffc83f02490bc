"""Decides on runs that are about to start and may have to wait: for an earlier run, a limit or a rate.

    claimed ── its queue on hold? ──► back to QUEUED
        └── overlap open? ── settle ──┬── start   RUNNING, settled for good ── gate? ──► `gates`
                                      ├── wait    QUEUED and blocked; what it waits for is `watched`
                                      └── skip    SKIPPED, on record
    a watched run ends ── `wakeups` ──► the first that waits is claimable, and is settled again at its start

Invariant: of two runs of a line one is let start only after the other was looked at under a lock that both take.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.codes import ON_UNKNOWN
from tickwise.adapters.store.postgres.queue.gates import Candidate, limits_of, pass_gates
from tickwise.adapters.store.postgres.queue.wakeups import Ended, halves, lock_limits
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store import Began, Gate

START, WAIT = "start", "wait"

TRIES: Final = 3
"""Locks are taken in one order everywhere, so a deadlock is not to be expected; one is tried again all the same."""


class OpenStart(NamedTuple):
    """An attempt that wants to begin, and is to be settled first."""

    line: UUID
    """Those of one line are settled one after the other: its job while its overlap is open, else itself."""
    began: Began


@dataclass(slots=True)
class Settlement:
    """The result of settling a batch of starts."""

    started: set[UUID] = field(default_factory=set)
    stopping: list[UUID] = field(default_factory=list)
    """Runs whose holders were asked to stop them in favour of a later one."""
    over: Ended = field(default_factory=Ended)
    """The effects of runs that ended instead, because they were asked back."""

    def add(self, other: Settlement) -> None:
        """Together with another batch."""
        self.started |= other.started
        self.stopping += other.stopping
        self.over.jobs += other.over.jobs
        self.over.keys |= other.over.keys


async def settle(connection: asyncpg.Connection, executor: int, starts: Sequence[OpenStart]) -> Settlement:
    """Settle them, those of one line one after the other in the order of their nominal times."""
    plain = [began for line, began in starts if line == began.run_id]
    rounds: list[list[Began]] = []
    seen: dict[UUID, int] = {}
    for line, began in sorted(starts, key=lambda start: start.began.run_id):
        if line == began.run_id:
            continue
        number = seen[line] = seen.get(line, -1) + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(began)
    # Apart from each other: what is open locks other runs of its job, and all locks of runs go by their ids.
    settled = await _settle_again(connection, executor, plain, line_open=False) if plain else Settlement()
    for batch in rounds:
        settled.add(await _settle_again(connection, executor, batch, line_open=True))
    return settled


async def _settle_again(
    connection: asyncpg.Connection, executor: int, starts: Sequence[Began], *, line_open: bool
) -> Settlement:
    for _ in range(TRIES - 1):
        with contextlib.suppress(asyncpg.TransactionRollbackError):
            return await _settle(connection, executor, starts, line_open=line_open)
    return await _settle(connection, executor, starts, line_open=line_open)


async def _settle(
    connection: asyncpg.Connection, executor: int, starts: Sequence[Began], *, line_open: bool
) -> Settlement:
    """Of at most one start in each line."""
    async with connection.transaction():
        if line_open:
            await connection.execute(statement("lines_lock"), [began.run_id for began in starts])
        look = statement("starts_look" if line_open else "starts_lock")
        found = {row["run_id"]: row for row in await connection.fetch(look, executor, *_ids(starts))}
        free = [began for began in starts if began.run_id in found and not found[began.run_id]["held"]]
        back = [began for began in starts if began.run_id in found and found[began.run_id]["held"]]
        candidates = [_candidate(began, found[began.run_id]) for began in free if began.gate is not None]
        if line_open:
            settled, returned = await _settle_overlap(connection, executor, free)
            candidates = [one for one in candidates if one.run_id in settled.started]
            await lock_limits(connection, limits_of(candidates))
        else:
            arguments = *_columns(free), *halves(limits_of(candidates))
            begun = {row[0] for row in await connection.fetch(statement("starts_begin"), executor, *arguments)}
            # The hold of their queue has begun in between.
            back += [began for began in free if began.run_id not in begun]
            settled, returned = Settlement(begun), []
        if back:
            await connection.execute(statement("starts_return"), executor, *_ids(back))
        refused = await pass_gates(connection, [one for one in candidates if one.run_id in settled.started])
        returned += [began.run_id for began in back] + list(refused)
        if returned:
            _, *left = await connection.fetchrow(statement("settle_requests"), returned, [])
            settled.over.add(*left)
        # Once for all: a start that its gate refused never was one to anybody else.
        await connection.execute(statement("starts_note"), list(found))
    settled.started -= refused
    return settled


def _candidate(began: Began, row: asyncpg.Record) -> Candidate:
    gate = began.gate or Gate()
    slot = row["slot"] if row["rate_key"] == gate.rate_key else None
    return Candidate(began.run_id, row["namespace"], row["place"], slot, gate)


async def _settle_overlap(
    connection: asyncpg.Connection, executor: int, starts: Sequence[Began]
) -> tuple[Settlement, list[UUID]]:
    """The verdicts on them; and those that wait although they were asked back."""
    rows = await connection.fetch(statement("starts_settle"), executor, *_columns(starts))
    settled = Settlement({run for run, verdict, _, _ in rows if verdict == START})
    settled.stopping += [run for *_, stopping in rows if stopping is not None for run in stopping]
    return settled, [run for run, verdict, asked, _ in rows if verdict == WAIT and asked]


def _ids(starts: Sequence[Began]) -> tuple[list[UUID], list[int]]:
    return [began.run_id for began in starts], [began.token for began in starts]


def _columns(starts: Sequence[Began]) -> list[list[Any]]:
    """One array for each parameter that the statements of starts have in common."""
    return [*_ids(starts), [began.started for began in starts], [ON_UNKNOWN[began.on_unknown] for began in starts]]
