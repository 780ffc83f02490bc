"""The only reader of the wall clock, of randomness and of new ids; and clocks that stand until a test moves them.

    SystemClock    the machine's own time and dice
    VirtualClock   tests: time passes when `advance` says so, sleepers wake in the order of their time
    MovedClock     simulation: one driver moves it between calls, and waits for nobody

Invariant: nobody who slept on one of the first two wakes before the time that they asked for.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import random
import time
from hashlib import blake2b
from itertools import count
from typing import Final

SETTLE_TURNS: Final = 50
"""Turns of the event loop that one wake-up may need until all that follows from it at that instant has happened:
chains of awaits without I/O are a few turns long."""


class SystemClock:
    """The machine's time and dice, as `ports.clock.Clock` describes them."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        await asyncio.sleep(max(0.0, seconds))
        # Event loops round timers (uvloop to whole milliseconds), so that one may fire a little early.
        while (left := end - time.monotonic()) > 0.0:  # noqa: ASYNC110  # no event announces that time has passed
            await asyncio.sleep(left)

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def chance(self) -> float:
        return random.random()


class VirtualClock:
    """Time that stands still until it is advanced; random bytes and chances follow from the seed. One event loop
    only."""

    def __init__(self, start: float = 1_800_000_000.0, seed: int = 0) -> None:
        self._start = start
        self._elapsed_seconds = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        self._noise_seed = seed.to_bytes(8, "big", signed=True)
        self._noise_calls = count()
        self._dice = random.Random(seed)

    def now(self) -> float:
        return round(self._start + self._elapsed_seconds, 6)

    def monotonic(self) -> float:
        return self._elapsed_seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0.0:
            await asyncio.sleep(0)
            return
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_seconds + seconds, next(self._order), alarm))
        await alarm

    def random_bytes(self, count: int) -> bytes:
        number = next(self._noise_calls)
        found = b""
        while len(found) < count:
            salt = number.to_bytes(8, "big") + len(found).to_bytes(8, "big")
            found += blake2b(self._noise_seed + salt).digest()
        return found[:count]

    def chance(self) -> float:
        return self._dice.random()

    def next_alarm_seconds(self) -> float | None:
        """The time until the first sleeper wakes; None if there is no sleeper."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] - self._elapsed_seconds if self._sleepers else None

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass. Each sleeper wakes at its own time, the earlier first, and does all that it can do at
        that time before the next one wakes; a sleeper that falls asleep again meanwhile is woken too if its time
        comes."""
        await self.settle()
        end = self._elapsed_seconds + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, alarm = heapq.heappop(self._sleepers)
            if alarm.done():
                continue
            self._elapsed_seconds = max(self._elapsed_seconds, at)
            alarm.set_result(None)
            await self.settle()
        self._elapsed_seconds = max(self._elapsed_seconds, end)

    async def settle(self) -> None:
        """Let every task run that can go on without a move of the clock."""
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)


class MovedClock(VirtualClock):
    """A clock with a single driver, which moves it between one call and the next. A pause within a call is over at
    once, because the driver cannot move the clock meanwhile."""

    def move_to(self, instant: float) -> None:
        """Let it be `instant`, no earlier than now."""
        self._elapsed_seconds = max(self._elapsed_seconds, instant - self._start)

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - see the class
        await asyncio.sleep(0)
