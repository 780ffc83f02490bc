"""The gates that a start has to pass besides its fence: limits, the quota of runs at once of its namespace, and rates,
decided apart from being carried out.

    RUNNING in this transaction ── limit? ──┬── full      back to QUEUED, blocked; it waits for a slot of the key
                                            ├── quota? ─── full   the same, with the key of the quota
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

from tickwise.adapters.store.postgres.queue.wakeups import Key, halves
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.rules.limits import QUOTA_KEY, has_slot
from tickwise.domain.rules.rates import RateState, step
from tickwise.ports.store import Gate


class Candidate(NamedTuple):
    """A start that is on record in this transaction, and may have to be taken back."""

    run_id: UUID
    namespace: str
    place: float
    """Since when it was ready, before it waited."""
    slot: float | None
    """Its own under this rate, if it was given one."""
    gate: Gate
    quota: int | None = None
    """As many runs of its namespace may go on at once; None: any number."""

    @property
    def of_quota(self) -> Key | None:
        """The key of the quota of which it needs a slot."""
        return None if self.quota is None else (self.namespace, QUOTA_KEY)

    @property
    def limit(self) -> Key | None:
        """The key of which it needs a slot."""
        return None if self.gate.limit_key is None else (self.namespace, self.gate.limit_key)

    @property
    def rate(self) -> Key | None:
        """The rate under which it needs a slot."""
        return None if self.gate.rate_key is None else (self.namespace, self.gate.rate_key)


class Wait(NamedTuple):
    """One that does not pass."""

    run_id: UUID
    limit_key: str | None
    """The key that it waits for a slot of."""
    most: int | None
    """It may start while fewer than these run with that key."""
    place: float
    slot: float | None
    """Its slot under its rate."""
    rate_key: str | None
    """The rate of that slot."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The verdicts on a batch of candidates."""

    passed: list[Candidate] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    paces: dict[Key, RateState] = field(default_factory=dict)
    """The state of each rate that a start asked for."""


def decide(
    candidates: Sequence[Candidate], *, running: Mapping[Key, int], paces: Mapping[Key, RateState], now: float
) -> Passage:
    """The candidates that pass, the longest ready first."""
    passage = Passage(paces=dict(paces))
    taken = dict(running)
    for one in candidates:  # The result does not depend on their order.
        if one.rate is not None and one.slot is not None:
            pace = passage.paces.get(one.rate, RateState())
            passage.paces[one.rate] = pace._replace(given=_latest(one.slot, pace.given))
    for one in sorted(candidates, key=lambda one: (one.place, one.run_id)):
        gate = one.gate
        if one.limit is not None and not has_slot(gate.limit, taken.get(one.limit, 0)):
            rate_key = None if one.slot is None else gate.rate_key
            passage.waits.append(Wait(one.run_id, gate.limit_key, gate.limit, one.place, one.slot, rate_key))
            continue
        if one.quota is not None and not has_slot(one.quota, taken.get((one.namespace, QUOTA_KEY), 0)):
            rate_key = None if one.slot is None else gate.rate_key
            passage.waits.append(Wait(one.run_id, QUOTA_KEY, one.quota, one.place, one.slot, rate_key))
            continue
        if one.rate is not None:
            pace = passage.paces.get(one.rate, RateState())
            slot, passage.paces[one.rate] = step(pace, gap=gate.rate_gap_seconds, slot=one.slot, now=now)
            if slot > now:
                passage.waits.append(Wait(one.run_id, None, None, one.place, slot, gate.rate_key))
                continue
        for key in filter(None, (one.limit, one.of_quota)):
            taken[key] = taken.get(key, 0) + 1
        passage.passed.append(one)
    return passage


def _latest(instant: float, *others: float | None) -> float:
    """Of these, where there is one."""
    return max([instant, *(other for other in others if other is not None)])


def limits_of(candidates: Sequence[Candidate]) -> list[Key]:
    """The keys of which they need a slot, each once."""
    return list(dict.fromkeys(key for one in candidates for key in (one.limit, one.of_quota) if key is not None))


async def pass_gates(connection: asyncpg.Connection, candidates: Sequence[Candidate]) -> Sequence[Wait]:
    """Carry it out within the caller's transaction, which has the rows of these runs and their limits; those that
    wait."""
    if not candidates:
        return []
    limits = limits_of(candidates)
    rates = list(dict.fromkeys(one.rate for one in candidates if one.rate is not None))
    if rates:
        await connection.execute(statement("rates_lock"), *halves(rates))
    running, paces, now = await _read(connection, limits, rates)
    passage = decide(candidates, running=running, paces=paces, now=now)
    if passage.passed:
        keys = [one.gate.limit_key or (None if one.quota is None else QUOTA_KEY) for one in passage.passed]
        await connection.execute(statement("gates_pass"), [one.run_id for one in passage.passed], keys)
    if passage.waits:
        await connection.execute(statement("gates_refuse"), *map(list, zip(*passage.waits, strict=True)))
    begun = list(dict.fromkeys(one.rate for one in passage.passed if one.rate is not None))
    if begun:
        await connection.execute(statement("rates_start"), *halves(begun), [now] * len(begun))
    return passage.waits


async def _read(
    connection: asyncpg.Connection, limits: Sequence[Key], rates: Sequence[Key]
) -> tuple[dict[Key, int], dict[Key, RateState], float]:
    """The RUNNING runs of each key, the last slot of each rate, and the clock."""
    quotas = [namespace for namespace, key in limits if key == QUOTA_KEY]
    keys_of_jobs = [key for key in limits if key[1] != QUOTA_KEY]
    rows = await connection.fetch(statement("gates_read"), *halves(keys_of_jobs), *halves(rates), quotas, QUOTA_KEY)
    keys = [(row["namespace"], row["key"]) for row in rows]
    running = {key: row["running"] for key, row in zip(keys, rows, strict=True) if row["running"] is not None}
    of_rates = [(key, row) for key, row in zip(keys, rows, strict=True) if row["running"] is None]
    paces = {key: RateState(row["slot"], row["started"]) for key, row in of_rates}
    return running, paces, rows[0]["now"] if rows else 0.0
