"""The measure of `ports.limits`, and one count for requests that come together.

    hit ──► was refused, and is too early again? ──► refused here, without a question
        └─► gathered by caller while a count is under way ──► one count for all of them ──► each its answer

Each process has such a count of its own; the shared ones fall back to it. A flood of refused requests costs the others
nothing: the time before which no request of a caller can be let through is known.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from tickwise.observability.bounded import Bounded
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.limits import Pace, Passed

MAX_CALLERS: Final = 10_000
"""Callers whose counts one process keeps. Those with the most of their burst left are forgotten first: callers that are
made up push each other out, and nobody who has to wait."""
AWAY_SECONDS: Final = 1.0
"""The interval of attempts at a shared count that failed, beside the requests."""
COUNT_SECONDS: Final = 0.25
"""The longest wait of a request for a count that does not answer; once, then this process counts for itself."""


class Wanted(NamedTuple):
    """Requests of one caller that are counted together."""

    requests: int
    pace: Pace


NOBODY: Final[Mapping[str, Wanted]] = {"-": Wanted(0, Pace(1.0, 1))}
"""Asked for to see whether there is an answer."""

log = logging.getLogger(__name__)


class Standing(NamedTuple):
    """A caller after a count."""

    granted: int
    """Of the requests that were counted."""
    ahead_seconds: float
    """The distance of the caller's theoretical time from now."""

    def passed(self, pace: Pace, turn: int) -> Passed:
        """The answer to the request that was counted as number `turn`, from 0."""
        ahead = self.ahead_seconds
        remaining = max(0, math.floor((pace.tolerance_seconds - ahead) / pace.interval_seconds + 1e-6))
        if turn < self.granted:
            return Passed(True, remaining, ahead, 0.0)
        return Passed(False, 0, ahead, max(0.0, ahead + pace.interval_seconds - pace.tolerance_seconds))


def count(pace: Pace, ahead_seconds: float, wanted: int) -> Standing:
    """Count `wanted` requests of a caller who is that far ahead of now (0 if that is in the past; at most as far as
    this pace allows, if another one counted before)."""
    ahead = min(max(0.0, ahead_seconds), pace.tolerance_seconds)
    room = math.floor((pace.tolerance_seconds - ahead) / pace.interval_seconds + 1e-6)
    granted = min(wanted, max(0, room))
    return Standing(granted, ahead + granted * pace.interval_seconds)


class OwnCount:
    """The count of one process."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._times: Bounded[str, float] = Bounded(MAX_CALLERS, float)

    def count(self, pace: Pace, who: str, wanted: int) -> Standing:
        """Count them."""
        now = self._monotonic()
        standing = count(pace, (self._times.get(who) or now) - now, wanted)
        if standing.granted:
            self._times.put(who, now + standing.ahead_seconds)
        return standing


class _Refused(NamedTuple):
    """A caller that comes too early before `until`."""

    until: float
    reset: float
    """The time at which its whole burst is there again."""
    pace: Pace


@dataclass(slots=True)
class _Asked:
    """Requests of one caller that wait for a count."""

    pace: Pace
    answers: list[asyncio.Future[Passed]] = field(default_factory=list)


Shared = Callable[[Mapping[str, Wanted]], Awaitable[Mapping[str, Standing]]]
"""Counts the requests of each caller, for all processes."""


class SharedLimits:
    """`ports.limits.Limits` over a shared count: what comes while a count is under way is counted by the next one."""

    def __init__(
        self,
        shared: Shared,
        *,
        clock: Clock,
        away: tuple[type[Exception], ...],
        api_processes: Callable[[], int] = lambda: 1,
        wait_seconds: float = COUNT_SECONDS,
    ) -> None:
        """`shared` raises one of `away` where it cannot count. `api_processes`: how many processes share the pace of a
        caller then, as far as is known."""
        self._shared = shared
        self._clock = clock
        self._away: tuple[type[Exception], ...] = (TimeoutError, *away)
        self._sharers = api_processes
        self._wait_seconds = wait_seconds
        self._own = OwnCount(clock)
        self._refused: Bounded[str, _Refused] = Bounded(MAX_CALLERS, itemgetter(0))
        self._waiting: dict[str, _Asked] = {}
        self._more = asyncio.Event()
        self._alone = True
        """This process counts for itself: before the start, after the end, and while the others cannot be reached."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See the port."""
        if self._task is None:
            self._alone = False
            self._task = asyncio.create_task(self._count_for_ever(), name="limits")

    async def stop(self) -> None:
        """See the port."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])
        self._alone = True
        self._answer_alone(self._take())

    async def hit(self, who: str, pace: Pace) -> Passed:
        """See the port."""
        if self._alone:
            return self._hit_alone(who, pace)
        refused = self._refused.get(who)
        if refused is not None and refused.pace == pace and (early := refused.until - self._clock.monotonic()) > 0.0:
            return Passed(False, 0, early + refused.reset - refused.until, early)
        answer: asyncio.Future[Passed] = asyncio.get_running_loop().create_future()
        asked = self._waiting.setdefault(who, _Asked(pace))
        asked.pace = pace
        asked.answers.append(answer)
        self._more.set()
        return await answer

    async def _count_for_ever(self) -> None:
        task = asyncio.current_task()
        while task is None or not task.cancelling():
            if self._alone:
                await self._clock.sleep(AWAY_SECONDS)
            else:
                await self._more.wait()
            asked = self._take()
            wanted = {who: Wanted(len(each.answers), each.pace) for who, each in asked.items()}
            begun = self._clock.monotonic()
            try:
                async with asyncio.timeout(self._wait_seconds):
                    found = await self._shared(wanted or NOBODY)
            except self._away as error:
                self._lost(f"{type(error).__name__}: {error}")
            except Exception:
                log.exception("requests cannot be counted together")
                self._lost("an error of our own")
            else:
                self._back()
                for who, each in asked.items():
                    self._answer(who, each, found[who], begun)
            finally:
                self._answer_alone(asked)

    def _answer(self, who: str, asked: _Asked, standing: Standing, begun: float) -> None:
        """Answer the requests of one caller by a count that was `begun` then."""
        for turn, answer in enumerate(asked.answers):
            _settle(answer, standing.passed(asked.pace, turn))
        if standing.granted < len(asked.answers):
            # From before the question, so that none is refused here that the others would let through.
            early = standing.passed(asked.pace, standing.granted).retry_seconds
            self._refused.put(who, _Refused(begun + early, begun + standing.ahead_seconds, asked.pace))

    def _take(self) -> dict[str, _Asked]:
        self._more.clear()
        asked, self._waiting = self._waiting, {}
        return asked

    def _answer_alone(self, asked: Mapping[str, _Asked]) -> None:
        """Answer the requests that have no answer yet by this process's own count."""
        for who, each in asked.items():
            for answer in each.answers:
                if not answer.done():
                    answer.set_result(self._hit_alone(who, each.pace))

    def _hit_alone(self, who: str, pace: Pace) -> Passed:
        """By the count of this process: its share, so that all together let through what they should."""
        share = max(1, self._sharers())
        own = Pace(pace.rate / share, max(1, pace.burst // share))
        return self._own.count(own, who, 1).passed(own, 0)

    def _lost(self, why: str) -> None:
        if not self._alone:
            log.warning("each process counts requests for itself: %s", why)
        self._alone = True

    def _back(self) -> None:
        if self._alone:
            log.info("requests are counted by all processes together again")
        self._alone = False


def _settle(answer: asyncio.Future[Passed], passed: Passed) -> None:
    if not answer.done():  # its request was given up meanwhile
        answer.set_result(passed)
