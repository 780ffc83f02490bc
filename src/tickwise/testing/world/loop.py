"""An event loop without a machine below it: time is a number, and what is ready goes on in the order of the dice.

    ready ──(one drawn at a time)──► its process: runs it · is frozen: keeps it · is dead: it is gone
      ▲
      └── timers: when nothing is ready, the earliest is due, and that is how time passes

Invariants: the same dice give the same order; nothing here reads a clock, a file or a thread; a step of a dead process
never runs.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.events import Handle, TimerHandle
from collections.abc import Callable
from contextvars import Context, ContextVar
from itertools import count
from random import Random
from typing import Any, Final, Protocol

MAX_STEPS_AT_ONCE: Final = 50_000
"""The number of steps without any time passing that counts as a spinning loop."""
MAX_CANCELLED: Final = 500
"""Cancelled timers that may lie in the heap before it is made anew: roles set timers of an hour and drop most."""


class Scheduled(Protocol):
    """The owner of the steps: the loop asks it before each, and tells it after each."""

    def admits(self, step: Handle) -> bool:
        """Check whether the step may run now; if not, the process has kept it or thrown it away."""
        ...

    def stepped(self) -> None:
        """A step of this process has run."""
        ...


PROCESS: ContextVar[Scheduled | None] = ContextVar("simulated process", default=None)
"""The simulated process of the current step. Tasks and callbacks inherit it from their creator."""


NETWORK: Final = Context()
"""The context of all that belongs to no process: messages on their way, faults, and the tasks themselves."""


class Stalled(Exception):
    """Nothing is ready and no timer is set, or something spins: the world cannot go on."""


class WorldLoop(asyncio.BaseEventLoop):
    """The loop of one world. Everything in it happens in one thread."""

    def __init__(self, dice: Random, *, lag_seconds: float = 0.0) -> None:
        """`lag_seconds`: a timer may be late by up to so much, as on a busy machine."""
        super().__init__()
        self._draw = dice.random
        self._lag_seconds = lag_seconds
        self._virtual_seconds = 0.0
        self._ready: list[Handle] = []
        self._scheduled: list[tuple[float, int, TimerHandle]] = []
        self._tickets = count()
        self._timer_cancelled_count = 0
        self.steps = 0
        """The number of steps that have run."""
        self.tasks_made: Callable[[Scheduled, asyncio.Task[Any]], None] | None = None
        """Told of each task that a process makes."""

    def time(self) -> float:
        return self._virtual_seconds

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]  # typeshed types the arguments as a tuple of variables
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> TimerHandle:  # type: ignore[override]  # as above
        return self.call_at(self._virtual_seconds + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> TimerHandle:  # type: ignore[override]  # as above
        timer = TimerHandle(when, callback, args, self, context)
        # Entries that compare as numbers: timers compare themselves in Python, and that was a tenth of all time.
        heapq.heappush(self._scheduled, (when, next(self._tickets), timer))
        timer._scheduled = True  # type: ignore[attr-defined]  # what tells a cancelled one to say so
        return timer

    def create_task(self, coro: Any, **named: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **named)
        process = (named.get("context") or _CURRENT).get(PROCESS)
        if process is not None and self.tasks_made is not None:
            self.tasks_made(process, task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # as above
        """There are no threads here: what would be done in one is done at once."""
        assert executor is None
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as failure:  # noqa: BLE001  # any failure goes to the waiter
            done.set_exception(failure)
        return done

    def _timer_handle_cancelled(self, _handle: TimerHandle) -> None:
        self._timer_cancelled_count += 1

    def _run_once(self) -> None:
        """All that happens at one instant; before that, if nothing is left of the last one, time passes."""
        ready, draw = self._ready, self._draw
        if not ready:
            self._pass_time()
        most = self.steps + MAX_STEPS_AT_ONCE
        while ready and not self._stopping:  # type: ignore[attr-defined]  # as the loop below it has it
            place = int(draw() * len(ready))
            handle = ready[place]
            ready[place] = ready[-1]
            ready.pop()
            if handle.cancelled():
                continue
            process = handle._context.get(PROCESS)  # type: ignore[attr-defined]  # whose it is, nothing else tells
            if process is not None and not process.admits(handle):
                continue
            self.steps += 1
            handle._run()
            if process is not None:
                process.stepped()
            if self.steps > most:
                raise Stalled(f"no time passes, and steps go on and on, lately {handle!r} of {process}")

    def _pass_time(self) -> None:
        """To the next timer that is set, and all that are due with it."""
        if self._timer_cancelled_count > MAX_CANCELLED:
            self._scheduled = [entry for entry in self._scheduled if not entry[2].cancelled()]
            heapq.heapify(self._scheduled)
            self._timer_cancelled_count = 0
        scheduled = self._scheduled
        while scheduled and scheduled[0][2].cancelled():
            heapq.heappop(scheduled)
            self._timer_cancelled_count -= 1
        if not scheduled:
            raise Stalled("nothing is ready, no timer is set, and the world has not ended")
        now = max(self._virtual_seconds, scheduled[0][0])
        if self._lag_seconds:
            now += self._draw() * self._lag_seconds
        self._virtual_seconds = now
        while scheduled and scheduled[0][0] <= now:
            timer = heapq.heappop(scheduled)[2]
            timer._scheduled = False  # type: ignore[attr-defined]  # so that a late cancel is not counted
            if timer.cancelled():
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(timer)


class _Current:
    """The context that runs now, where a context is asked for."""

    def get(self, variable: ContextVar[Scheduled | None]) -> Scheduled | None:
        return variable.get()


_CURRENT: Final = _Current()
