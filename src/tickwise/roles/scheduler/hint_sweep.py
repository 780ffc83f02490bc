"""Publishes hints again for runs that stay queued, in case their first hints were lost."""

from __future__ import annotations

from typing import Final

from tickwise.ports.store import Store
from tickwise.roles.shared.hint_publisher import HintPublisher

SWEEP_SECONDS: Final = 0.5
"""The interval at which executors are told again of runs that stayed queued, …"""
SWEPT_FIRST_SECONDS: Final = 0.25
"""… beginning so long after it was ready, then after 1, 2, 4 … seconds. Two schedulers that sweep at once tell it
twice, and the more runs there are of one age, the less often they are told. No scheduler need remember anything."""
SWEPT_LAST_SECONDS: Final = 128.0
"""Older runs are found by executors that look themselves, as all do at least every second."""
MAX_SWEPT: Final = 1_000
"""In one sweep. More than this waits because executors are busy, or because many hints were lost at once; either way
executors find it when they look themselves, and hints for all of it would only be in their way."""


class HintSweep:
    """Publishes hints again for one scheduler."""

    def __init__(self, store: Store, hint_publisher: HintPublisher) -> None:
        self._store = store
        self._hint_publisher = hint_publisher

    async def step(self) -> float:
        """Publish hints again for runs that have been queued for about one of several lengths of time."""
        room, first = MAX_SWEPT, SWEPT_FIRST_SECONDS
        if not await self._store.runs.waiting(2 * SWEPT_LAST_SECONDS, first, 1):
            return SWEEP_SECONDS  # as nearly always: one look instead of one for each length of time
        while room > 0 and first <= SWEPT_LAST_SECONDS:
            waiting = await self._store.runs.waiting(first + SWEEP_SECONDS, first, room)
            if waiting:
                self._hint_publisher.publish(waiting)
                room -= len(waiting)
            first = max(1.0, 2 * first)
        return SWEEP_SECONDS
