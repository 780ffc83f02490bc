"""Open circuits on record: `explain` reads there why a run of an http task was given back.

    namespace, Ending(circuit_open, (host,)) ──► add ──► one incident each time a circuit opens ──► the store

A circuit is in the memory of one executor, and people ask another process. Invariant: the incidents that wait for the
store are bounded in number, and are kept until the store has them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from tickwise.domain.model import joined
from tickwise.domain.retry import CIRCUIT_OPEN
from tickwise.ports.runner import Ending
from tickwise.ports.store import Incident, IncidentStore
from tickwise.roles.shared.service import IDLE_SECONDS

MAX_KEPT: Final = 1_000
"""Incidents that wait for the store, and circuits that are remembered; the oldest are dropped."""


class CircuitRecord:
    """The open circuits of one executor."""

    def __init__(self, incidents: IncidentStore) -> None:
        self._incidents = incidents
        self._open_until: dict[str, float] = {}
        self._waiting: deque[Incident] = deque(maxlen=MAX_KEPT)
        self.more = asyncio.Event()
        """Set when something waits for the store."""

    def add(self, namespace: str, ending: Ending) -> None:
        """Note the circuit of this namespace that an ending tells of. A circuit that is on record as open is not noted
        again."""
        if ending.reason != CIRCUIT_OPEN or not ending.symptoms:
            return
        target, until = joined(namespace, ending.symptoms[0]), ending.ended + (ending.retry_after_seconds or 0.0)
        if self._open_until.get(target, 0.0) >= ending.ended:
            return
        if len(self._open_until) >= MAX_KEPT:
            del self._open_until[next(iter(self._open_until))]
        self._open_until[target] = until
        self._waiting.append(Incident(kind=CIRCUIT_OPEN, begin=round(ending.ended, 6), end=until, who=target))
        self.more.set()

    async def record(self) -> float:
        """Tell the store all that waits. Returns after how many seconds to look again at the latest."""
        self.more.clear()
        while self._waiting:
            await self._incidents.add(self._waiting[0])
            self._waiting.popleft()
        return IDLE_SECONDS
