"""The causes that keep runs from here for a while, on record: `explain` reads there why a run was given back.

    namespace, Ending(circuit_open, (host,))          ──► add ──► one incident each time a circuit opens ──► the store
    namespace, Ending(secrets_away, (reference, …))   ──► add ──► one for each reference whose provider is away

A circuit is in the memory of one executor, and people ask another process. Invariant: the incidents that wait for the
store are bounded in number, and are kept until the store has them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from tickwise.domain.model import joined
from tickwise.domain.retry import CIRCUIT_OPEN, SECRETS_AWAY
from tickwise.ports.runner import Ending
from tickwise.ports.store import Incident, IncidentStore
from tickwise.roles.shared.service import IDLE_SECONDS

KINDS: Final = frozenset({CIRCUIT_OPEN, SECRETS_AWAY})
"""The reasons that are noted."""
SYMPTOMS_MOST: Final = 3
"""Of one ending."""
MAX_KEPT: Final = 1_000
"""Incidents that wait for the store, and circuits that are remembered; the oldest are dropped."""


class CircuitRecord:
    """The open circuits of one executor."""

    def __init__(self, incidents: IncidentStore) -> None:
        self._incidents = incidents
        self._open_until: dict[tuple[str, str], float] = {}
        self._waiting: deque[Incident] = deque(maxlen=MAX_KEPT)
        self.more = asyncio.Event()
        """Set when something waits for the store."""

    def add(self, namespace: str, ending: Ending) -> None:
        """Note the circuit of this namespace, or the secrets, that an ending tells of. What is on record for now is not
        noted again."""
        if ending.reason not in KINDS:
            return
        until = ending.ended + (ending.retry_after_seconds or 0.0)
        for symptom in ending.symptoms[:SYMPTOMS_MOST]:
            self._note(ending.reason, joined(namespace, symptom), ending.ended, until)

    def _note(self, kind: str, target: str, begin: float, until: float) -> None:
        if self._open_until.get((kind, target), 0.0) >= begin:
            return
        if len(self._open_until) >= MAX_KEPT:
            del self._open_until[next(iter(self._open_until))]
        self._open_until[kind, target] = until
        self._waiting.append(Incident(kind=kind, begin=round(begin, 6), end=until, who=target))
        self.more.set()

    async def record(self) -> float:
        """Tell the store all that waits. Returns after how many seconds to look again at the latest."""
        self.more.clear()
        while self._waiting:
            await self._incidents.add(self._waiting[0])
            self._waiting.popleft()
        return IDLE_SECONDS
