"""The waiting runs of one function, and the measured time that a run takes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

import msgspec

from tickwise.adapters.runner.output import OutputSink
from tickwise.ports.runner import Assignment

QUICK_SECONDS = 0.001
"""Functions that take less on average travel in batches."""
SMOOTHING = 0.1
MAX_SAMPLE_SECONDS = 0.005
"""The most that one run counts for, so that a single stall of the machine does not make a quick function slow."""


class FunctionQueue:
    """The waiting runs of one function."""

    __slots__ = ("is_async", "mean_seconds", "name", "waiting")

    def __init__(self, name: str, *, is_async: bool) -> None:
        self.name = name
        self.is_async = is_async
        self.mean_seconds: float | None = None
        """None: it never ran, so one goes ahead to see."""
        self.waiting: deque[QueuedRun] = deque()

    @property
    def oldest(self) -> int:
        """The arrival of the run that waits longest; there must be one."""
        return self.waiting[0].arrival

    @property
    def is_quick(self) -> bool:
        return self.mean_seconds is not None and self.mean_seconds < QUICK_SECONDS

    def took(self, seconds: float) -> None:
        """A run of it ended well after so long."""
        mean = self.mean_seconds
        if seconds > MAX_SAMPLE_SECONDS:  # `min` takes as long as all the rest of this, for every run
            seconds = MAX_SAMPLE_SECONDS
        self.mean_seconds = seconds if mean is None else mean + SMOOTHING * (seconds - mean)


class RunHolder(Protocol):
    """A worker as its runs see it."""

    sacrificed: bool
    """It is killed for a run that did not stop in time."""

    def ask_to_stop(self, run: QueuedRun) -> None:
        """Pass on that a run shall stop; the worker may obey."""
        ...

    def current(self) -> int:
        """The number of the run that holds its main thread now, or 0."""
        ...

    def kill(self) -> None:
        """End it now, with all that its functions started."""
        ...


class QueuedRun(msgspec.Struct, eq=False):
    """One assignment on its way through workers. A struct: tens of thousands are made a second."""

    assignment: Assignment
    lane: FunctionQueue
    arrival: int
    """Its place in the order of all runs of the runner: the oldest is served first."""
    launched: float
    """The time at which it came, on the monotonic clock."""
    worker: RunHolder | None = None
    number: int = 0
    started: float | None = None
    """Since when it runs, once that is known."""
    stop_reason: str | None = None
    """The reason why it was asked to stop: `cancelled` or `timeout`."""
    deadline: asyncio.TimerHandle | None = None
    """The next step of its timeout or of its stop."""
    patience_until: float = 0.0
    """Until when it may take to stop, on the loop's clock."""
    sink: OutputSink | None = None
