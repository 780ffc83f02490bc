"""`SearchTurns`: the searches of a process run one at a time, and leave time between them for everything else.

    searches of a ──► ▣ ▣ ▣ ─┐
    searches of b ──► ▣      ├─► one of each namespace in turn ──► it runs ──► a pause as long as it took ──► the next
    searches of c ──► ▣ ▣ ───┘

A search holds the only thread of a keeper. Many that run one behind the other would keep it from renewing its leases,
and so take its shards from it, and writes would wait for all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from tickwise.domain.errors import Busy
from tickwise.ports.clock import Clock

PACED: Final = frozenset(
    {
        "alerts.find",
        "audit.contents",
        "audit.find",
        "error_groups.search",
        "notices.find",
        "searches.analyse",
        "searches.count",
        "searches.jobs",
        "searches.letters",
        "searches.operations",
        "searches.runs",
        "searches.starts",
        "searches.tally",
    }
)
"""Calls that may look at very many rows, and that people ask for."""
WAITING_MOST: Final = 64
"""Searches of one namespace, …"""
TOGETHER_MOST: Final = 160
"""… and of all, but for one of each. A link carries 256 calls at a time, and others must have room among them."""
WAIT_SECONDS: Final = 10.0
"""A search that has waited for longer is not begun: its caller is told, or has gone."""
SHORT_SECONDS: Final = 0.001
"""A search that takes less needs no pause behind it."""
BUSY_SECONDS: Final = 2.0


class SearchTurns:
    """Gives turns to searches, by namespace."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By namespace; the first one comes next."""
        self._is_taken = False
        self._free_at = clock.monotonic()

    async def turn(self, namespace: str) -> SearchTurn:
        """Wait for a turn, which is to be ended. Raises `Busy` if too many searches of the namespace wait."""
        asked_at = self._clock.monotonic()
        if self._is_taken:
            await self._wait(namespace)
        self._is_taken = True
        if self._clock.monotonic() - asked_at > WAIT_SECONDS:
            self.pass_on()
            raise _busy(namespace)
        try:
            pause = self._free_at - self._clock.monotonic()
            if pause > 0.0:
                await self._clock.sleep(pause)
        except asyncio.CancelledError:
            self.pass_on()
            raise
        return SearchTurn(self, self._clock)

    async def _wait(self, namespace: str) -> None:
        queue = self._waiting.setdefault(namespace, deque())
        if len(queue) >= WAITING_MOST or (queue and sum(map(len, self._waiting.values())) >= TOGETHER_MOST):
            raise _busy(namespace)
        mine = asyncio.get_running_loop().create_future()
        queue.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.pass_on()
            elif mine in queue:
                queue.remove(mine)
            raise

    def pause_for(self, seconds: float) -> None:
        """Let the next search begin so long from now at the earliest."""
        self._free_at = self._clock.monotonic() + seconds

    def pass_on(self) -> None:
        """Give the turn to the next one that waits. It begins in a later pass of the loop."""
        self._is_taken = False
        while self._waiting:
            namespace = next(iter(self._waiting))
            queue = self._waiting.pop(namespace)
            while queue:
                mine = queue.popleft()
                if not mine.done():
                    mine.set_result(None)
                    self._is_taken = True
                    break
            if queue:
                self._waiting[namespace] = queue
            if self._is_taken:
                return


class SearchTurn:
    """The right to run one search now."""

    def __init__(self, turns: SearchTurns, clock: Clock) -> None:
        self._turns: SearchTurns | None = turns
        self._clock, self._began = clock, clock.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """The search has run. A second time changes nothing."""
        turns, self._turns = self._turns, None
        if turns is None:
            return
        seconds = self._clock.monotonic() - self._began
        if seconds >= SHORT_SECONDS:
            turns.pause_for(seconds)
        turns.pass_on()


def _busy(namespace: str) -> Busy:
    return Busy(
        f"too many searches of the namespace {namespace or '(all)'} wait for their turn: send fewer at a time, and "
        "this one a little later",
        retry_after_seconds=BUSY_SECONDS,
    )


def namespace_of(given: Sequence[Any]) -> str:
    """The namespace that a search is about; empty: none, or all."""
    about = given[0] if given else None
    found = about if isinstance(about, str) else getattr(about, "namespace", None)
    return found if isinstance(found, str) else ""
