"""Simulates jobs between two times: the product's own scheduler on a clock that is moved, and a store in memory.

    step by step:  scheduler.fire_due ──► runs, skips ──► each run starts at its due time, is settled by the store as
    (or: an outage,    a real one is, and ends after the time that runs are said to take ──► Happenings, in order
     nothing happens)

Nothing here decides anything: what fires, what is skipped and why is said by the scheduler and the store. What is
made up is the time that a run takes, that it succeeds, and that an executor always has room.

Invariant: the same jobs between the same times give the same happenings, in the same order.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import CODES, CancelKind, RunState
from tickwise.domain.model import Claimed, Outcome
from tickwise.domain.schedule import just_before
from tickwise.ports.store import (
    Began,
    ClaimRequest,
    Fire,
    NewExecutor,
    Retention,
    Store,
)
from tickwise.ports.store.wrapping import WrappedStore

STEP_SECONDS: Final = 3_600.0
"""The time that the simulated scheduler plans ahead at once; a real one plans a few seconds ahead, and decides the
same."""
BUSY_STEP_SECONDS: Final = 60.0
"""That time where a job fires more than once a minute: overlap is settled by looking at all runs that were made."""
MAX_CLAIM: Final = 10_000
MAX_ENDED: Final = 50_000
"""After so many runs the store forgets those that have ended: a year of many jobs would not fit in memory."""
_SUCCESS: Final = CODES[RunState.SUCCESS]
_CANCELLED: Final = CODES[RunState.CANCELLED]
_QUEUE: Final = "default"


class Movable(Protocol):
    """A clock that is moved by hand."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def move_to(self, instant: float) -> None:
        """Let it be `instant`, no earlier than now."""
        ...


class DrivenScheduler(Protocol):
    """The part of a scheduler that a simulation drives."""

    async def fire_due(self) -> int:
        """One look for timers within the horizon; how many it decided."""
        ...


class TimeSpan(NamedTuple):
    """From one instant to before another."""

    begin: float
    end: float


class Happening(NamedTuple):
    """The fate of an occurrence."""

    at: float
    """The time at which it was settled: its start, or the time at which it was skipped."""
    job_id: UUID
    nominal: float
    due: float
    reason: str | None = None
    """The reason why it was skipped; None: it ran."""
    occurrences: int = 1
    until: float | None = None
    """Of a skip that stands for several: the nominal time of the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationInput:
    """The input of a simulation: namespace, caller, period, and the duration of runs."""

    store: Store
    """With the jobs in it."""
    clock: Movable
    span: TimeSpan
    outages: Sequence[TimeSpan] = ()
    """In these nothing fires and nothing starts; what runs goes on. Ascending, apart from each other."""
    run_seconds: float = 0.0
    step_seconds: float = STEP_SECONDS


class Watched(WrappedStore):
    """A store that tells what the scheduler has it record. Everything else is the store's own."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._store = store
        self.timers.commit = self._commit
        self.skipped: list[tuple[UUID, float, float, int, SkipReason]] = []

    async def _commit(self, batch_id: int, fires: Sequence[Fire]) -> int:
        """Commit as the store does, and count the skips."""
        made = await self._store.timers.commit(batch_id, fires)
        for fire in fires:
            for skip in fire.skips:
                self.skipped.append((fire.job_id, skip.nominal, skip.until, skip.occurrences, skip.reason))
        return made


class Simulator:
    """One simulation. `happenings` gives, step by step, what happened in it."""

    def __init__(self, world: SimulationInput, scheduler: Callable[[float], DrivenScheduler], watched: Watched) -> None:
        """`scheduler` gives the one that plans so many seconds ahead: a step, and no further than an outage."""
        self._store = world.store
        self._clock = world.clock
        self._world = world
        self._scheduler = scheduler
        self._watched = watched
        self._executor = 0
        self._lease_seconds = world.span.end - world.span.begin + STEP_SECONDS
        self._labels: tuple[str, ...] = ()
        self._waiting: list[tuple[float, UUID, Claimed]] = []
        self._running: list[tuple[float, UUID, int, float]] = []
        self._ended: list[Outcome] = []
        self._blocked: set[UUID] = set()
        """Runs that wait for an earlier one: while there are any, each end is told at once."""
        self._forgettable = 0
        self._found: list[Happening] = []

    async def happenings(self, labels: Iterable[str]) -> AsyncIterator[Sequence[Happening]]:
        """All between begin and end, a step at a time, in the order of time. `labels` are what runs require."""
        world = self._world
        self._labels = tuple(labels)
        self._executor = await self._store.executors.join(
            NewExecutor(
                number=1,
                name="simulated",
                queues=(_QUEUE,),
                labels=self._labels,
                functions=(),
                slots=1,
                lease_seconds=self._lease_seconds,
            )
        )
        for begin, end in _steps(world):
            self._clock.move_to(begin)
            # A timer that is due at the end belongs to the next step: an outage may begin with that step.
            scheduler = self._scheduler(just_before(end) - begin)
            while await scheduler.fire_due():
                pass
            await self._run_until(end)
            yield self._happenings()
            await self._forget()

    def _happenings(self) -> Sequence[Happening]:
        """The events of this step, in the order of time."""
        now = self._clock.now()
        for job_id, nominal, until, count, reason in self._watched.skipped:
            last = None if count == 1 else until
            self._found.append(Happening(min(max(nominal, until), now), job_id, nominal, nominal, reason, count, last))
        self._watched.skipped.clear()
        found, self._found = sorted(self._found, key=in_order), []
        return found

    async def _run_until(self, end: float) -> None:
        """Start the runs that are due before `end`, and end those whose time has passed."""
        await self._claim(end)
        while True:
            next_end = self._running[0][0] if self._running else end
            next_start = self._waiting[0][0] if self._waiting else end
            if min(next_end, next_start) >= end:
                break
            if next_end <= next_start:
                await self._end_one()
            else:
                await self._start_one()
        await self._report()
        self._clock.move_to(end)

    async def _claim(self, until: float) -> None:
        while True:
            claims = await self._store.attempts.claim(
                ClaimRequest(
                    executor=self._executor,
                    queues=(_QUEUE,),
                    labels=self._labels,
                    limit=MAX_CLAIM,
                    ahead_seconds=until - self._clock.now(),
                )
            )
            for claimed in claims:
                self._blocked.discard(claimed.run_id)
                heapq.heappush(self._waiting, (max(claimed.due, claimed.now), claimed.run_id, claimed))
            if len(claims) < MAX_CLAIM:
                return

    async def _start_one(self) -> None:
        start, _, claimed = heapq.heappop(self._waiting)
        self._clock.move_to(start)
        if claimed.guarded:
            await self._report()
            refused = await self._store.attempts.start(self._executor, [Began(claimed.run_id, claimed.token, start)])
            if refused:
                await self._settled(claimed, start)
                return
        self._found.append(Happening(start, claimed.job_id, claimed.nominal, claimed.due))
        heapq.heappush(self._running, (start + self._world.run_seconds, claimed.run_id, claimed.token, start))

    async def _settled(self, claimed: Claimed, at: float) -> None:
        """Its start was refused: it was skipped, or it waits for the run before and will be claimed again. That one may
        have been asked to stop: then it does."""
        row = await self._store.runs.get(claimed.namespace, claimed.run_id)
        if row is not None and row.state is RunState.SKIPPED:
            self._found.append(Happening(at, claimed.job_id, claimed.nominal, claimed.due, row.reason))
        elif row is not None and row.blocked:
            self._blocked.add(claimed.run_id)
            await self._obey(at)

    async def _obey(self, at: float) -> None:
        """End the runs that the store asks to stop."""
        beat = await self._store.executors.beat(self._executor, self._lease_seconds)
        stopped = {request.run_id for request in beat.cancels if request.kind is CancelKind.CANCEL}
        if not stopped:
            return
        for _, run_id, token, start in self._running:
            if run_id in stopped:
                self._ended.append(Outcome(run_id, token, _CANCELLED, start, at, "cancelled"))
        self._running = [each for each in self._running if each[1] not in stopped]
        heapq.heapify(self._running)
        await self._report()

    async def _end_one(self) -> None:
        end, run_id, token, start = heapq.heappop(self._running)
        self._ended.append(Outcome(run_id, token, _SUCCESS, start, end))
        if self._blocked or len(self._ended) >= MAX_CLAIM:
            await self._report()

    async def _report(self) -> None:
        """Tell the store what ended; what waited for it may start now."""
        if not self._ended:
            return
        last = max(outcome.ended for outcome in self._ended)
        self._clock.move_to(max(last, self._clock.now()))
        await self._store.attempts.finish(self._executor, self._ended)
        self._forgettable += len(self._ended)
        self._ended = []
        await self._claim(self._clock.now())

    async def _forget(self) -> None:
        if self._forgettable >= MAX_ENDED:
            self._forgettable = 0
            await self._store.upkeep.maintain(Retention(runs_seconds=0.0, failed_seconds=0.0))


def in_order(each: Happening) -> tuple[float, float, UUID]:
    """The key by which happenings are sorted."""
    return each.at, each.nominal, each.job_id


def _steps(world: SimulationInput) -> Iterable[TimeSpan]:
    """The stretches of work: a step long, or until an outage begins; after it they go on at its end."""
    span, begin = world.span, world.span.begin
    for outage in [*world.outages, TimeSpan(span.end, span.end)]:
        until = min(outage.begin, span.end)
        while begin < until:
            end = min(begin + world.step_seconds, until)
            yield TimeSpan(begin, end)
            begin = end
        begin = max(begin, min(outage.end, span.end))


def tidied(outages: Sequence[TimeSpan]) -> tuple[TimeSpan, ...]:
    """Outages in their order, those that touch made one."""
    found: list[TimeSpan] = []
    for outage in sorted(outages):
        if found and outage.begin <= found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, outage.end))
        else:
            found.append(outage)
    return tuple(found)
