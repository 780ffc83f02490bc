"""Answers that cost the store much while it is busy: the last one serves many callers, and is renewed beside them.

    cheap (below 50 ms)    ──► asked each time: nobody sees an old answer on a store that is not busy
    costly                 ──► the last answer, if it is younger than 20 times what it cost, 10 s at most
                           ──► an older one up to 30 s, and one renewal in the background
                           ──► else, or after a failure, the store is asked, once for all that wait

So such an answer takes at most a twentieth of one connection's time, however many pages show it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from tickwise.observability.tasks import retrieve_error
from tickwise.ports.clock import Clock

CHEAP_SECONDS: Final = 0.05
FRESH_SHARE: Final = 20
"""An answer is fresh for so many times what it cost."""
FRESH_SECONDS_MOST: Final = 10.0
STALE_SECONDS: Final = 30.0
"""An older answer is given to nobody."""
MAX_KEPT: Final = 256

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

logger = structlog.get_logger("tickwise.control")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    value: T
    at: float
    """The time at which it was given, …"""
    cost_seconds: float
    """… and the time that it took."""


class CostlyAnswers(Generic[K, T]):
    """The last answers to some questions, by their keys; those that were given longest ago make room."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._kept: OrderedDict[K, _Answer[T]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[T]] = {}

    async def of(self, key: K, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer that `ask` gives, or the last one, at most 30 s old. Raises what `ask` raises."""
        kept = self._kept.get(key)
        if kept is None or kept.cost_seconds < CHEAP_SECONDS:
            return await self._asked(key, ask)
        age = self._monotonic() - kept.at
        if age >= STALE_SECONDS:
            return await self._asked(key, ask)
        if age >= min(FRESH_SECONDS_MOST, FRESH_SHARE * kept.cost_seconds):
            self._begun(key, ask).add_done_callback(_noted)
        return kept.value

    async def _asked(self, key: K, ask: Callable[[], Awaitable[T]]) -> T:
        # One caller that goes away must not take the answer of the others with it.
        return await asyncio.shield(self._begun(key, ask))

    def _begun(self, key: K, ask: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._renew(key, ask), name="costly answer")
            # All callers may have gone when it fails: that is no fault of ours.
            task.add_done_callback(retrieve_error)
        return task

    async def _renew(self, key: K, ask: Callable[[], Awaitable[T]]) -> T:
        begun = self._monotonic()
        try:
            value = await ask()
        except BaseException:
            self._kept.pop(key, None)
            raise
        finally:
            self._asking.pop(key, None)
        now = self._monotonic()
        self._kept.pop(key, None)
        self._kept[key] = _Answer(value, now, now - begun)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return value


def _noted(task: asyncio.Task[T]) -> None:
    """Nobody waits for a renewal: the next caller asks again, and gets the error."""
    if not task.cancelled() and task.exception() is not None:
        logger.info("answer_not_renewed", detail=str(task.exception()))
