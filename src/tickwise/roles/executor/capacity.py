"""The capacity of one runner: an executor takes as many runs as it has room for, and no more.

A runner with slots (processes, HTTP calls) takes as many runs as it has free slots, so that what it could not begin
stays for others. A quick runner (functions in warm workers) takes as many as it finished within the last moments, or
as many as could begin at once if that is more: slow functions are not hoarded, and fast ones do not starve.

    open = held until due + launched + ended but not yet recorded
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from tickwise.observability.buffers import Buffer
from tickwise.ports.clock import Clock
from tickwise.ports.runner import PreparingRunner, Runner

WINDOW_SECONDS: Final = 0.2
"""A quick runner may have as much open as it finishes in this time: long enough to bridge a claim and a finish."""
WINDOW_MAX: Final = 8000
"""Beyond this a larger window gains nothing: it bridges two batches of everything on the way."""
AHEAD_BATCH: Final = 500
"""The most runs that a quick runner claims at a time."""
DECAY: Final = 0.7
"""The share of its window that a runner keeps at least from one measurement to the next."""
MEASURE_SECONDS: Final = 0.02
MEASURE_COUNT: Final = 16
"""A measurement of speed spans at least this long and this many runs."""
AHEAD_SLOTS_SECONDS: Final = 0.6
"""The lead with which runs that need a slot are claimed: they keep the slot free until then."""


class RunnerConfig(NamedTuple):
    """A runner, and how it is fed."""

    runner: Runner
    spare: Callable[[], int] | None = None
    """Makes it a quick runner, which works off batches of short tasks: the number of tasks that could begin there now.
    The other runners take one run a slot."""


class RunnerCapacity:
    """The runs that one runner has, and its room for more."""

    def __init__(
        self,
        runner: Runner,
        *,
        clock: Clock,
        wake: asyncio.Event,
        slots: int,
        spare: Callable[[], int] | None,
        held_max: int,
    ) -> None:
        """`wake` is set when there is room again after `ready` had said no. `spare` makes it a quick runner: how many
        more could begin there now, for when nothing is known of its speed."""
        self.runner = runner
        self.prepare = runner.prepare if isinstance(runner, PreparingRunner) else None
        """Prepares runs that are not due yet; None: its runner prepares nothing."""
        self.quick = spare is not None
        self._spare = spare
        self.held = 0
        self.launched = 0
        self.unrecorded = 0
        self.hungry = False
        """Its last claim filled, so there may be more."""
        self.ahead_only = False
        """Its last claim brought only runs that are not due yet."""
        self.looked_at = float("-inf")
        """The time of the last claim without names; monotonic seconds."""
        self._wake = wake
        self._wanting = False
        self._clock = clock
        self._slots = slots
        self._window = float(slots)
        self._held_max = held_max
        self._measured_at = clock.monotonic()
        self._measured = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of tasks that go to it."""
        return tuple(kind.name for kind in self.runner.kinds)

    @property
    def busy(self) -> Buffer:
        """The number of its slots that run a task now. Of a quick runner more may be launched: those wait within it."""
        return Buffer(min(self.launched, self._slots), self._slots)

    def room(self) -> int:
        """The number of further runs that may be taken now."""
        if self._spare is not None:
            # Runs that are not due yet only wait in memory: while claims bring no others, the window does not bound
            # them.
            window = max(int(self._window), AHEAD_BATCH) if self.ahead_only else int(self._window)
            room = max(window - self.launched - self.unrecorded, min(self._slots, self._spare()) - self.held)
            return min(room, self._held_max - self.held)
        return self._slots - self.launched - self.held

    def ready(self) -> bool:
        """Check whether the room is worth a claim: half of its window for a quick runner, a slot for the others."""
        self._wanting = self.room() < (max(1, min(int(self._window) // 2, 250)) if self.quick else 1)
        return not self._wanting

    def pressed(self) -> bool:
        """A burst is under way: more was held for this moment than a quick runner takes at a time."""
        return self.quick and self.launched > WINDOW_MAX

    def freed(self) -> None:
        """A place became free."""
        if self._wanting and self.ready():
            self._wake.set()

    def recorded(self, count: int) -> None:
        """`count` outcomes are durable; measure the runner's speed."""
        self.unrecorded -= count
        self._measured += count
        now = self._clock.monotonic()
        elapsed = now - self._measured_at
        if elapsed >= MEASURE_SECONDS and self._measured >= MEASURE_COUNT:
            reached = self._measured / elapsed * WINDOW_SECONDS
            self._window = min(max(reached, self._window * DECAY, 1.0), float(WINDOW_MAX))
            self._measured_at, self._measured = now, 0
        self.freed()
