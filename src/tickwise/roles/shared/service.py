"""The frame that every role shares: loops that wake, step, survive an absent store, and stop cleanly.

    start ──► each loop:  step ──► sleep until its own time, or a signal ──► step ──► …
                           │
                           └─ Unavailable: say so once, back off, go on; any other error: say so, go on

Invariant: no error ends a loop. A step that fails now is tried again, and a role that fell silent is a bug.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from tickwise.domain.errors import BrokerUnavailable, Unavailable
from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.store import KindBacklog, StoreStats

IDLE_SECONDS: Final = 3600.0
"""The pause that a step returns when only its signal brings it new work."""
BACKOFF_FIRST_SECONDS: Final = 0.1
BACKOFF_MAX_SECONDS: Final = 2.0
"""The longest that a role waits before it looks for an absent store again: recovery is felt within seconds."""
BACKOFF_LEAST_SHARE: Final = 0.5
"""A pause is drawn between this share of its length and all of it, so that many processes that missed the store
together do not come back to it together."""

logger = structlog.get_logger("tickwise.roles")


class Telemetry(Protocol):
    """The reports of roles to the metrics. Batches, because each call costs about a microsecond."""

    def claimed(self, count: int) -> None:
        """Attempts that were taken in one claim."""
        ...

    def started(self, lateness_seconds: Sequence[float]) -> None:
        """First attempts that began, each with how late."""
        ...

    def finished(
        self, states: Sequence[int], durations_seconds: Sequence[float], latencies_seconds: Sequence[float]
    ) -> None:
        """Outcomes that the store accepted, as `lifecycle.CODES`, with how long each took; and of those that ended
        their run, how long after its nominal time."""
        ...

    def used(self, kind: str, usage: ResourceUsage) -> None:
        """An attempt of this kind of task ended, and its usage was measured."""
        ...

    def refused(self, count: int) -> None:
        """Outcomes that the store refused as stale."""
        ...

    def retried(self, reasons: Mapping[str, int]) -> None:
        """Attempts that failed and will be repeated, by what they failed of."""
        ...

    def failed(self, reasons: Mapping[str, int]) -> None:
        """Runs that ended FAILED, each with a dead letter, by why."""
        ...

    def lease_stopped(self, count: int) -> None:
        """Attempts that an executor stopped because its lease ended."""
        ...

    def differed(self, count: int) -> None:
        """Runs that an executor holds and the store does not say so, or the other way round."""
        ...

    def fired(self, count: int) -> None:
        """Runs that a scheduler made."""
        ...

    def skipped(self, occurrences: Mapping[str, int]) -> None:
        """Occurrences that a scheduler put on record as skipped, by reason."""
        ...

    def parked(self, count: int) -> None:
        """Jobs that a scheduler paused, because they made too many runs."""
        ...

    def healed(self, *, executors: int, freed: int, quarantined: int, unknown: int) -> None:
        """Count the effects of one expiry of leases."""
        ...

    def sequenced(self, count: int) -> None:
        """Runs that were made because another one ended."""
        ...

    def operated(self, *, done: int, refused: int) -> None:
        """Count the results of one page of an operation."""
        ...

    def violated(self, invariant: str, count: int | None) -> None:
        """Set the number of violations of an invariant that a whole pass found and could not repair; None: it could not
        be checked."""
        ...

    def mended(self, invariant: str, count: int) -> None:
        """Violations that were put right."""
        ...

    def queues_counted(self, stats: StoreStats | None) -> None:
        """The fullest queues of the store; None: it cannot be asked."""
        ...

    def notices_counted(self, backlog: Mapping[NoticeChannelKind, KindBacklog] | None) -> None:
        """The notices that wait, by the kind of their channel; None: the store cannot be asked."""
        ...

    def pinged(self, result: str) -> None:
        """A heartbeat was sent: `well` or `unwell` as it was told, or `lost`."""
        ...

    def hinted(self, *, named: int, claimed: int) -> None:
        """Runs that an executor claimed by the names that hints told it, and how many of them it got."""
        ...

    def expects(self, channel: str, reasons: Sequence[str] = ()) -> None:
        """This role takes messages of the channel, and refuses them for these reasons: what counts them begins at 0."""
        ...

    def parked_message(self, channel: str) -> None:
        """A message that could not be read or applied was put aside."""
        ...

    def unverified(self, channel: str, reason: str) -> None:
        """A message was refused because its sender is unknown, or because it is sent again."""
        ...

    def unsigned(self, channel: str, count: int) -> None:
        """Messages without a signature were accepted, as the settings say."""
        ...


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set or after `seconds`, whichever comes first. The event is not cleared."""
    if seconds <= 0 or event.is_set():
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def is_cancelled() -> bool:
    """Check whether the calling task was asked to end, also if the cancellation error was swallowed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Loop:
    """One repeated step of a role."""

    def __init__(
        self,
        name: str,
        step: Callable[[], Awaitable[float]],
        clock: Clock,
        wake: asyncio.Event | None = None,
        *,
        after: float = 0.0,
    ) -> None:
        """`step` returns how many seconds may pass until the next; `wake` brings it forward. The first one is `after`
        seconds from the start, for what is not due then and would hold up what is."""
        self._name = name
        self._step = step
        self._clock = clock
        self._wake = wake
        self._after = after
        self._failures = 0

    async def run(self) -> None:
        """Until cancelled; also if what came out of the step then was another error, of a driver that was cleaning up
        after it."""
        if self._after:
            await self._clock.sleep(self._after)
        while not is_cancelled():
            if self._wake is not None:
                # Cleared before the step looks: a signal that comes while it looks is not lost.
                self._wake.clear()
            pause = await self._guarded()
            if is_cancelled():
                # The step did not let it through: a driver took the cancel for a failure of its own, or lost it.
                return
            if self._wake is None or self._failures:
                await self._clock.sleep(pause)
            elif pause > 0:
                await wait_for(self._wake, pause)
            else:
                await self._clock.sleep(0)

    async def _guarded(self) -> float:
        """One step; after an error, how long to back off."""
        try:
            pause = await self._step()
        except Unavailable as away:
            self._failures += 1
            if self._failures == 1:
                if isinstance(away, BrokerUnavailable):
                    logger.warning("broker_unavailable", loop=self._name, detail=away.detail)
                else:
                    logger.warning("store_away", loop=self._name, detail=away.detail)
        except Exception:
            self._failures += 1
            logger.exception("loop_failed", loop=self._name, failures=self._failures)
        else:
            if self._failures:
                logger.info("loop_recovered", loop=self._name, failures=self._failures)
                self._failures = 0
            return pause
        longest = min(BACKOFF_FIRST_SECONDS * 2.0 ** min(self._failures - 1, 10), BACKOFF_MAX_SECONDS)
        return longest * (BACKOFF_LEAST_SHARE + (1.0 - BACKOFF_LEAST_SHARE) * self._clock.chance())


class Service:
    """A role: named, started, drained, stopped."""

    name = "service"

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def spawn(self, *loops: Loop) -> None:
        """Run these loops until `stop`."""
        for loop in loops:
            self._tasks.append(asyncio.create_task(loop.run()))

    def buffers(self) -> Mapping[str, tuple[int, int]]:
        """Its bounded buffers for the metrics, by name: what waits in each, and how much may. A role that holds nothing
        has none."""
        return {}

    def facts(self) -> Mapping[str, Any]:
        """Its facts besides that it is alive: fields of `membership.RoleFacts`."""
        return {}

    async def start(self) -> None:
        """Begin. Returns when the role is at work."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Take nothing new and bring what is under way to its end. A role without such work has nothing to do."""

    async def stop(self) -> None:
        """End every loop."""
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)
