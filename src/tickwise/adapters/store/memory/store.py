"""The whole store, as wiring hands it out."""

from __future__ import annotations

from collections.abc import Callable

from tickwise.adapters.store.memory.continuity import Continuity
from tickwise.adapters.store.memory.definitions import Definitions
from tickwise.adapters.store.memory.dispatch import Dispatch
from tickwise.adapters.store.memory.executors import Executors
from tickwise.adapters.store.memory.flow import Flow
from tickwise.adapters.store.memory.health import Health
from tickwise.adapters.store.memory.history import History
from tickwise.adapters.store.memory.keys import ApiKeys
from tickwise.adapters.store.memory.letters import Letters
from tickwise.adapters.store.memory.operations import Operations
from tickwise.adapters.store.memory.rules import Rules
from tickwise.adapters.store.memory.state import State
from tickwise.adapters.store.memory.timers import Timers
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover, JobQuery, LetterQuery, RunQuery

NEAR_SECONDS = 2.0


class MemoryStore(
    Definitions,
    Timers,
    Dispatch,
    Executors,
    Continuity,
    History,
    Rules,
    Letters,
    Operations,
    Flow,
    Health,
    ApiKeys,
):
    """The ports `Store` and `Keys`. Its clock is the store's clock; what it holds lives as long as the object."""

    def __init__(self, clock: Clock, near_seconds: float = NEAR_SECONDS) -> None:
        super().__init__(State(clock, near_seconds))

    async def open(self) -> None:
        """Be there. Leases that ran out while it was closed get one more period."""
        self._state.opened_at = self._state.now()

    async def close(self) -> None:
        """Nothing is lost by it: there is nothing to give back."""

    async def now(self) -> float:
        return self._state.now()

    async def count(self, query: JobQuery | RunQuery | LetterQuery) -> int:
        if isinstance(query, JobQuery):
            return len(await self.jobs_list(query))
        return len(await (self.runs_list(query) if isinstance(query, RunQuery) else self.letters_list(query)))

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        self._state.on_handover = tell
