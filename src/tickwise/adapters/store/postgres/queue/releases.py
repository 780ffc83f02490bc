"""Runs whose holder is gone, set free by pages; one that cannot be freed holds up no other.

    page ── runs_free ──┬── all of it
                        └── refused: each for itself ──► the bad ones are logged, and left alone for a while

Invariant: an executor is settled only once it holds nothing, so what was left alone is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.connection.link import UniqueBroken, translated
from tickwise.adapters.store.postgres.queue.wakeups import Ended, Woken, wake_or_not
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug, Invalid
from tickwise.ports.clock import Clock

PAGE: Final = 1_000
STUCK_SECONDS: Final = 60.0
"""For so long a run that could not be freed is not tried again: each try costs a millisecond, and there may be many."""
MAX_SHOWN: Final = 3

FREE, POISON, UNKNOWN, HELD = "free", "poison", "unknown", "held"
BAD: Final = "bad: "
"""The begin of a verdict if the run could not be freed."""

log = logging.getLogger(__name__)


class Freed(NamedTuple):
    """The result for one run."""

    run_id: UUID
    verdict: str


class FreeTerms(NamedTuple):
    """The terms on which runs are freed."""

    crashes_max: int
    in_order: bool
    """Their holder left; else it was lost."""


class Stuck:
    """Runs that could not be freed, and until when (on our clock) they are left alone."""

    def __init__(self) -> None:
        self._until: dict[UUID, float] = {}

    def clear(self) -> None:
        """Forget them: they are tried again."""
        self._until.clear()

    def waiting(self, runs: Sequence[UUID], clock: Clock) -> list[UUID]:
        """The runs that may be tried now."""
        if not self._until:
            return list(runs)
        now = clock.monotonic()
        self._until = {run: until for run, until in self._until.items() if until > now}
        return [run for run in runs if run not in self._until]

    def note(self, bad: Mapping[UUID, str], clock: Clock) -> None:
        """Leave these alone for a while, and say why."""
        if not bad:
            return
        until = clock.monotonic() + STUCK_SECONDS
        self._until.update(dict.fromkeys(bad, until))
        shown = "; ".join(f"{run} ({why.removeprefix(BAD)})" for run, why in list(bad.items())[:MAX_SHOWN])
        log.error("%d runs whose executor is gone cannot be freed, the first of them: %s", len(bad), shown)


async def free_runs(
    connection: asyncpg.Connection, runs: Sequence[UUID], terms: FreeTerms
) -> tuple[list[Freed], list[Woken]]:
    """Free these, each page in a transaction of its own; pages with bad ones in them after all others. Those that
    somebody else has in hand are left out, unless their holder left in order. Also, what waited for one of them and is
    claimable by it."""
    rows: list[asyncpg.Record] = []
    refused: list[Sequence[UUID]] = []
    for first in range(0, len(runs), PAGE):
        page = runs[first : first + PAGE]
        try:
            rows += await _free_page(connection, page, terms)
        except (Bug, Invalid, UniqueBroken) as error:
            log.warning("a page of %d runs cannot be freed at once (%s): each is tried for itself", len(page), error)
            refused.append(page)
    for page in refused:
        with translated(writes=True):
            async with connection.transaction():
                rows += await _free_held(connection, statement("runs_free_each"), page, terms)
    ended = Ended()
    for row in rows:
        ended.add_row(row["job_id"], row["namespace"], row["limit_key"])
    return [Freed(row["run_id"], row["verdict"]) for row in rows], await wake_or_not(connection, ended)


async def _free_page(connection: asyncpg.Connection, runs: Sequence[UUID], terms: FreeTerms) -> list[asyncpg.Record]:
    with translated(writes=True):
        async with connection.transaction():
            if terms.in_order:
                # The executor becomes free at once, so wait for transactions that have one of its runs locked.
                await connection.execute(statement("runs_lock"), runs)
            else:
                # First, in a statement of its own: the next one then sees all that was asked of them until they were
                # ours, also by a cancel that was committed in this very moment.
                runs = [row["run_id"] for row in await connection.fetch(statement("runs_lock_free"), runs)]
            return await _free_held(connection, statement("runs_free"), runs, terms)


async def _free_held(
    connection: asyncpg.Connection, frees: str, runs: Sequence[UUID], terms: FreeTerms
) -> list[asyncpg.Record]:
    """Free these within the caller's transaction; what a pause asked back waits until the pause is over."""
    asked_back = [row[0] for row in await connection.fetch(statement("runs_asked_back"), runs)]
    rows: list[asyncpg.Record] = await connection.fetch(frees, runs, *terms)
    if asked_back:
        await connection.execute(statement("runs_hold_back"), asked_back)
    return rows
