"""Processes and the hosts that they run on: they start, freeze, thaw, and die without a farewell.

    boot ──► at work ──freeze──► frozen ──thaw──► at work
                │                  │
                └──────kill────────┴──► dead; the host boots another one later, with another identity

Invariant: a dead process never takes a step again. Its coroutines stay where they were until the world ends, so that
no `finally` of theirs can tidy up: a machine that loses power does not either.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.events import Handle
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from hashlib import blake2b
from itertools import count
from random import Random
from typing import Any

from tickwise.testing.world.loop import PROCESS, WorldLoop


class SimulatedProcess:
    """One life of one role."""

    def __init__(self, loop: WorldLoop, name: str) -> None:
        self.name = name
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)
        self.alive = True
        self.frozen = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.at_death: list[Callable[[], None]] = []
        """Told when it is gone: what others notice of it, such as a link that breaks."""
        self._loop = loop
        self._withheld: list[Handle] = []
        self._steps_left: int | None = None
        self._fate: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return self.name

    # ------------------------------------------------------------------ what the loop asks

    def admits(self, step: Handle) -> bool:
        if self.frozen and self.alive:
            self._withheld.append(step)
        return self.alive and not self.frozen

    def stepped(self) -> None:
        if self._steps_left is not None:
            self._steps_left -= 1
            if self._steps_left <= 0 and self._fate is not None:
                fate, self._fate, self._steps_left = self._fate, None, None
                fate()

    # ------------------------------------------------------------------ what becomes of it

    def after_steps(self, steps: int, fate: Callable[[], None]) -> None:
        """Let `fate` befall it between two of its steps, so many from now: at any await, that is."""
        self._steps_left, self._fate = max(1, steps), fate

    def spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        """Run this in it."""
        return self._loop.create_task(coroutine, context=self.context.copy())

    def soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Let it hear of something from outside: at its next step, if it ever takes one."""
        self._loop.call_soon(callback, *arguments, context=self.context)

    def later(self, seconds: float, callback: Callable[..., None], *arguments: Any) -> asyncio.TimerHandle:
        """A timer of its own."""
        return self._loop.call_later(seconds, callback, *arguments, context=self.context)

    def freeze(self) -> None:
        """It stands still, whatever it was at."""
        self.frozen = True

    def thaw(self) -> None:
        """It goes on as if nothing had been."""
        self.frozen = False
        withheld, self._withheld = self._withheld, []
        for step in withheld:
            if not step.cancelled():
                self._loop._ready.append(step)

    def kill(self) -> None:
        """It is gone."""
        if not self.alive:
            return
        self.alive = False
        self._withheld.clear()
        self._fate = None
        for notice in self.at_death:
            notice()

    def unheard(self) -> list[BaseException]:
        """The unretrieved errors of its tasks; read when the world has ended. A dead process may have died before a
        task took the error that it was waiting for: that one is not among them."""
        awaited = set() if self.alive else {*self._awaited()}
        failed = [task for task in self.tasks if task.done() and not task.cancelled() and task not in awaited]
        found = [task.exception() for task in failed if task._log_traceback]
        return [failure for failure in found if failure is not None]

    def _awaited(self) -> Iterator[asyncio.Future[Any]]:
        """Yield the futures that its tasks wait for, those of a `gather` each."""
        for task in self.tasks:
            waits_for = None if task.done() else task._fut_waiter  # type: ignore[attr-defined]  # only asyncio knows
            if waits_for is not None:
                yield waits_for
                yield from getattr(waits_for, "_children", ())

    def clean_up(self) -> None:
        """Close what it left behind. Only after the end of the world: what it does then, nobody sees."""
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # nobody need hear of it
            if not task.done():
                with contextlib.suppress(BaseException):
                    task.get_coro().close()


class ProcessClock:
    """The port `Clock` as one process has it: a wall clock that may be wrong, a monotonic one that is not, own dice."""

    def __init__(self, loop: WorldLoop, *, start: float, seed: str) -> None:
        """`start` is what the wall clock shows when the world begins."""
        self._loop = loop
        self._start = start
        self._seed = seed.encode()
        self._numbers = count()
        self._dice = Random(seed)
        self.wrong_seconds = 0.0
        """The error of the wall clock; moved by faults."""
        self._boot_seconds = self._dice.random() * 1e6
        self._exact = self._rounded = 0.0
        """The last answer of `now`, before and after it was rounded: the store asks twenty times at one instant."""

    def now(self) -> float:
        exact = self._start + self._loop._virtual_seconds + self.wrong_seconds
        if exact != self._exact:
            self._exact, self._rounded = exact, round(exact, 6)
        return self._rounded

    def monotonic(self) -> float:
        return self._boot_seconds + self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))  # noqa: TID251 - this is a clock: the loop's own timers are the time

    def random_bytes(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            found += blake2b(self._seed + b"/%d" % next(self._numbers)).digest()
        return found[:count]

    def chance(self) -> float:
        return self._dice.random()
