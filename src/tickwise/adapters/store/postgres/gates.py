"""What a start has to pass besides its fence: limits and rates, decided apart from being carried out.

    RUNNING in this transaction ── limit? ──┬── full      back to QUEUED, blocked; it waits for a slot of the key
                                            └── rate? ────┬── too early   back to QUEUED, claimable from its slot on
                                                          └── now         it stays RUNNING, and has a slot of the key

Invariant: who counts what is RUNNING with a key holds that key's lock until its own starts are on record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.statements import statement
from tickwise.adapters.store.postgres.waking import Key, lock_limits
from tickwise.ports.store import Gate


class Candidate(NamedTuple):
    """A start that is on record in this transaction, and may have to be taken back."""

    run_id: UUID
    namespace: str
    place: float
    """Since when it was ready, before it waited."""
    paced: bool
    """It has a slot under its rate already."""
    gate: Gate

    @property
    def limit(self) -> Key | None:
        """The key that it needs a slot of."""
        return None if self.gate.limit_key is None else (self.namespace, self.gate.limit_key)

    @property
    def rate(self) -> Key | None:
        """The rate that it needs a slot under."""
        if self.gate.rate_key is None or self.paced:
            return None
        return (self.namespace, self.gate.rate_key)


class Wait(NamedTuple):
    """One that does not pass."""

    run_id: UUID
    limit_key: str | None
    """The key that it waits for a slot of."""
    place: float
    slot: float | None
    """Its slot under its rate."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What becomes of a batch of candidates."""

    passed: list[Candidate] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    given: dict[Key, float] = field(default_factory=dict)
    """The last slot of each rate under which one was given."""


def decide(
    candidates: Sequence[Candidate], *, running: Mapping[Key, int], slots: Mapping[Key, float], now: float
) -> Passage:
    """Who passes, the longest ready first. `slots`: the last one given under each rate."""
    passage = Passage()
    taken = dict(running)
    for one in sorted(candidates, key=lambda one: (one.place, one.run_id)):
        if one.limit is not None and taken.get(one.limit, 0) >= one.gate.limit:
            passage.waits.append(Wait(one.run_id, one.gate.limit_key, one.place, None))
            continue
        if one.rate is not None:
            last = passage.given.get(one.rate, slots.get(one.rate))
            slot = now if last is None else max(now, last + one.gate.rate_gap_seconds)
            passage.given[one.rate] = slot
            if slot > now:
                passage.waits.append(Wait(one.run_id, None, one.place, slot))
                continue
        if one.limit is not None:
            taken[one.limit] = taken.get(one.limit, 0) + 1
        passage.passed.append(one)
    return passage


async def pass_gates(connection: asyncpg.Connection, candidates: Sequence[Candidate]) -> set[UUID]:
    """Carry it out within the caller's transaction, which has the rows of these runs; those that wait."""
    if not candidates:
        return set()
    limits: dict[Key, int | None] = {one.limit: one.gate.limit for one in candidates if one.limit is not None}
    rates = list(dict.fromkeys(one.rate for one in candidates if one.rate is not None))
    if limits:
        await lock_limits(connection, limits)
    if rates:
        await connection.execute(statement("rates_lock"), *_halves(rates))
    running, slots, now = await _read(connection, list(limits), rates)
    passage = decide(candidates, running=running, slots=slots, now=now)
    if passage.passed:
        keys = [one.gate.limit_key for one in passage.passed]
        await connection.execute(statement("gates_pass"), [one.run_id for one in passage.passed], keys)
    if passage.waits:
        await connection.execute(statement("gates_refuse"), *map(list, zip(*passage.waits, strict=True)))
    if passage.given:
        await connection.execute(statement("rates_give"), *_halves(list(passage.given)), list(passage.given.values()))
    return {wait.run_id for wait in passage.waits}


async def _read(
    connection: asyncpg.Connection, limits: Sequence[Key], rates: Sequence[Key]
) -> tuple[dict[Key, int], dict[Key, float], float]:
    """What is RUNNING with each key, the last slot of each rate, and the clock."""
    running: dict[Key, int] = {}
    slots: dict[Key, float] = {}
    rows = await connection.fetch(statement("gates_read"), *_halves(limits), *_halves(rates))
    for what, namespace, key, value, _ in rows:
        if what == "running":
            running[namespace, key] = int(value)
        elif value is not None:
            slots[namespace, key] = value
    return running, slots, rows[0]["now"] if rows else 0.0


def _halves(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    return [namespace for namespace, _ in keys], [key for _, key in keys]
