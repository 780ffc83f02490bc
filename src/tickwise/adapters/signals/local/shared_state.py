"""The shared state of one process: a dictionary with times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tickwise.adapters.signals.noting import check_name, read, written
from tickwise.ports.clock import Clock
from tickwise.ports.shared_state import MAX_LOOK, Facts, Note

MAX_KEPT: Final = 10_000
"""Notes of a kind; of more the oldest are dropped."""


class LocalSharedState:
    """`ports.shared_state.SharedState` inside one process."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._kinds: dict[str, dict[str, tuple[float, str]]] = {}

    async def start(self) -> None:
        """There is nothing to begin."""

    async def stop(self) -> None:
        """There is nothing to free."""

    async def put(self, notes: Sequence[Note], ttl_seconds: float) -> bool:
        """See the port."""
        until = self._monotonic() + ttl_seconds
        for kind, name, facts in written(notes, ttl_seconds):
            kept = self._kinds.setdefault(kind, {})
            kept.pop(name, None)
            kept[name] = (until, facts)
            if len(kept) > MAX_KEPT:
                del kept[next(iter(kept))]
        return True

    async def take_down(self, kind: str, names: Sequence[str]) -> None:
        """See the port."""
        for name in names:
            self._kinds.get(kind, {}).pop(name, None)

    async def look(self, kind: str, names: Sequence[str] | None = None) -> Mapping[str, Facts] | None:
        """See the port."""
        for name in (kind, *(names or ())):
            check_name(name)
        kept, now = self._kinds.get(kind, {}), self._monotonic()
        for name in [name for name, (until, _) in kept.items() if until <= now]:
            del kept[name]
        wanted = [*kept][-MAX_LOOK:] if names is None else [name for name in names if name in kept]
        return {name: facts for name in wanted if (facts := read(kept[name][1])) is not None}
