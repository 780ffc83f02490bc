"""The absences of the store, or of every scheduler: noticed by the scheduler that comes back, and put on record.

        asked, in vain, asked, in vain, answered ──► `store_away`: from the last answer until this one
        first look of a scheduler: something is overdue ──► `scheduler_away`: since the oldest was due

People ask the record why something was late. Invariant: what was noticed is kept until the store has it.
"""

from __future__ import annotations

from typing import Final

import structlog

from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import Incident, Store

AWAY_LEAST_SECONDS: Final = 5.0
"""A shorter outage delays no run noticeably."""
MAX_KEPT: Final = 100
"""Incidents that wait to be recorded; of more the oldest are dropped."""

logger = structlog.get_logger("tickwise.scheduler")


class Presence:
    """The absences that one scheduler knows."""

    def __init__(self, store: Store, clock: Clock, *, who: str, look_seconds: float) -> None:
        """`who` names it in the record; it looks for timers at least every `look_seconds`."""
        self._store = store
        self._clock = clock
        self._who = who
        self._gap_seconds = AWAY_LEAST_SECONDS + look_seconds
        self._answered: float | None = None
        """The store's time of its last answer."""
        self._failed = False
        self._looked_at: float | None = None
        """Our monotonic time of the last look for timers, whether or not it found the store."""
        self._unrecorded: list[Incident] = []

    async def ask(self) -> float:
        """The store's clock; and a record if it was away until now."""
        try:
            now = await self._store.now()
        except Unavailable:
            self._failed = True
            raise
        answered = self._answered
        if self._failed and answered is not None and now - answered > AWAY_LEAST_SECONDS:
            self._note("store_away", answered, now)
        self._failed, self._answered = False, now
        await self._record()
        return now

    async def look(self) -> None:
        """Look for an outage; to be called before each look for timers. Free of cost after a recent look. At the start,
        or after this process stood still for a while, overdue timers show that no other scheduler worked either."""
        at, last = self._clock.monotonic(), self._looked_at
        if last is None or at - last > self._gap_seconds:
            late = (await self._store.upkeep.stats()).timers_late_seconds
            if late > AWAY_LEAST_SECONDS:
                now = await self._store.now()
                self._note("scheduler_away", now - late, now)
        self._looked_at = at

    def looked_in_vain(self) -> None:
        """The store was not there. That is an absence of its own, and none of schedulers."""
        if self._looked_at is not None:
            self._looked_at = self._clock.monotonic()

    def _note(self, kind: str, begin: float, end: float) -> None:
        begin = round(begin, 6)
        logger.warning("absence_noticed", kind=kind, begin=begin, seconds=round(end - begin, 1))
        self._unrecorded.append(Incident(kind=kind, begin=begin, end=end, who=self._who))
        del self._unrecorded[:-MAX_KEPT]

    async def _record(self) -> None:
        while self._unrecorded:
            await self._store.incidents.add(self._unrecorded[0])
            del self._unrecorded[0]
