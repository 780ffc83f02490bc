"""Decides on runs that are about to start and may have to wait: for an earlier run, a limit or a rate.

    claimed ── its queue on hold? ──► back to QUEUED
        └── overlap open? ── settle ──┬── start   RUNNING, settled for good ── gate, quota? ──► `gates`
                                      ├── wait    QUEUED and blocked; what it waits for is `watched`
                                      └── skip    SKIPPED, on record
    a watched run ends ── `wakeups` ──► the first that waits is claimable, and is settled again at its start

Invariant: of two runs of a line one is let start only after the other was looked at under a lock that both take.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.codes import ON_UNKNOWN
from tickwise.adapters.store.postgres.queue.gates import Candidate, limits_of, pass_gates
from tickwise.adapters.store.postgres.queue.wakeups import Ended, Woken, halves, lock_limits
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.rules.limits import QUOTA_KEY
from tickwise.ports.store import Began, Gate

START, WAIT, PASSED = "start", "wait", "passed"

TRIES: Final = 3
"""Locks are taken in one order everywhere, so a deadlock is not to be expected; one is tried again all the same."""


class OpenStart(NamedTuple):
    """An attempt that wants to begin, and is to be settled first."""

    line: UUID
    """Those of one line are settled one after the other: its job while its overlap is open, else itself."""
    began: Began


class Terms(NamedTuple):
    """The terms on which starts are settled."""

    executor: int
    quotas: Mapping[str, int]
    """Runs at once, of the namespaces that have a quota of them."""
    line_open: bool
    """Their overlap is open."""


@dataclass(slots=True)
class Settlement:
    """The result of settling a batch of starts."""

    started: set[UUID] = field(default_factory=set)
    stopping: list[UUID] = field(default_factory=list)
    """Runs whose holders were asked to stop them in favour of a later one."""
    over: Ended = field(default_factory=Ended)
    """The effects of runs that ended instead, because they were asked back."""
    passed: list[Woken] = field(default_factory=list)
    """Runs that were locked meanwhile and can be claimed. A claim passes over what is locked, so who looked for them
    found nothing, and has to look again."""

    def add(self, other: Settlement) -> None:
        """Together with another batch."""
        self.started |= other.started
        self.stopping += other.stopping
        self.over.jobs += other.over.jobs
        self.over.keys |= other.over.keys
        self.passed += other.passed


async def settle(
    connection: asyncpg.Connection, executor: int, starts: Sequence[OpenStart], *, quotas: Mapping[str, int]
) -> Settlement:
    """Settle them, those of one line one after the other in the order of their nominal times. `quotas`: of runs at
    once, by namespace."""
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
    terms = Terms(executor, quotas, line_open=False)
    settled = await _settle_again(connection, plain, terms) if plain else Settlement()
    for batch in rounds:
        settled.add(await _settle_again(connection, batch, terms._replace(line_open=True)))
    return settled


async def _settle_again(connection: asyncpg.Connection, starts: Sequence[Began], terms: Terms) -> Settlement:
    for _ in range(TRIES - 1):
        with contextlib.suppress(asyncpg.TransactionRollbackError):
            return await _settle(connection, starts, terms)
    return await _settle(connection, starts, terms)


async def _settle(connection: asyncpg.Connection, starts: Sequence[Began], terms: Terms) -> Settlement:
    """Of at most one start in each line."""
    executor, quotas, line_open = terms
    async with connection.transaction():
        if line_open:
            await connection.execute(statement("lines_lock"), [began.run_id for began in starts])
        look = statement("starts_look" if line_open else "starts_lock")
        found = {row["run_id"]: row for row in await connection.fetch(look, executor, *_ids(starts))}
        free = [began for began in starts if began.run_id in found and not found[began.run_id]["held"]]
        back = [began for began in starts if began.run_id in found and found[began.run_id]["held"]]
        candidates = [
            _candidate(began, found[began.run_id], quotas)
            for began in free
            if began.gate is not None or found[began.run_id]["namespace"] in quotas
        ]
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
        waits = await pass_gates(connection, [one for one in candidates if one.run_id in settled.started])
        returned += [began.run_id for began in back] + [wait.run_id for wait in waits]
        if returned:
            _, *left = await connection.fetchrow(statement("settle_requests"), returned, [])
            settled.over.add(*left)
        # Once for all: a start that its gate refused never was one to anybody else.
        await connection.execute(statement("starts_note"), list(found))
    settled.started -= {wait.run_id for wait in waits}
    # A run that was woken for the quota may wait for something else now: the next one has its turn.
    left = {found[wait.run_id]["namespace"] for wait in waits if wait.limit_key != QUOTA_KEY}
    settled.over.keys |= {(namespace, QUOTA_KEY) for namespace in left & quotas.keys()}
    return settled


def _candidate(began: Began, row: asyncpg.Record, quotas: Mapping[str, int]) -> Candidate:
    gate = began.gate or Gate()
    slot = row["slot"] if row["rate_key"] == gate.rate_key else None
    return Candidate(began.run_id, row["namespace"], row["place"], slot, gate, quotas.get(row["namespace"]))


async def _settle_overlap(
    connection: asyncpg.Connection, executor: int, starts: Sequence[Began]
) -> tuple[Settlement, list[UUID]]:
    """The verdicts on them; and those that wait although they were asked back."""
    rows = await connection.fetch(statement("starts_settle"), executor, *_columns(starts))
    settled = Settlement({run for run, verdict, *_ in rows if verdict == START})
    settled.stopping += [run for _, _, _, stopping, _, _ in rows if stopping is not None for run in stopping]
    settled.passed += [Woken(run, ready, lane) for run, verdict, _, _, ready, lane in rows if verdict == PASSED]
    return settled, [run for run, verdict, asked, *_ in rows if verdict == WAIT and asked]


def _ids(starts: Sequence[Began]) -> tuple[list[UUID], list[int]]:
    return [began.run_id for began in starts], [began.token for began in starts]


def _columns(starts: Sequence[Began]) -> list[list[Any]]:
    """One array for each parameter that the statements of starts have in common."""
    return [*_ids(starts), [began.started for began in starts], [ON_UNKNOWN[began.on_unknown] for began in starts]]
