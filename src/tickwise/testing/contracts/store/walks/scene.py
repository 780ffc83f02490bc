"""The state of a walk of holds, pauses and requests: jobs and runs, as the calls so far have left them, and the stores.

    call ──► each store ──► the answers agree? ──► what the stores show agrees? ──► each run is where it must be?

Times are whole minutes and calls come half a minute between them, so that no store is asked at the very moment at which
something changes.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import FINAL, JobStatus, RunState
from tickwise.domain.model import Claimed
from tickwise.ports.store import Gate, JobRow, QueueRow, RunRow, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory

MINUTE: Final = 60.0
DRIFT_SECONDS: Final = 15.0
"""Of a clock that goes on by itself, before it is put half a minute between two minutes again."""
NEAR_SECONDS: Final = 20.0
"""Instants that are no further apart are the same one: a store reads its own clock in each call."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class WalkedJob:
    """A job, as the calls so far have left it."""

    job_id: UUID
    queue: str
    overlap: Overlap
    gate: Gate | None
    paused_at: float | None = None
    paused_until: float = math.inf
    cancelled: bool = False

    def is_paused(self, now: float) -> bool:
        """Check whether a pause holds."""
        return self.paused_at is not None and now < self.paused_until


@dataclass(slots=True, eq=False)
class WalkedRun:
    """A run that was made."""

    run_id: UUID
    job: WalkedJob
    by_schedule: bool
    holder: int | None = None
    begun: bool = False
    """Its attempt has; `holder` is set."""
    tried: bool = False
    """An attempt of it has begun at some time."""
    forgettable: bool = False
    """A plan without it was made."""


class LostClaim(NamedTuple):
    """A claim of an executor that is gone."""

    executor: int
    run: WalkedRun
    begun: bool
    claims: Sequence[Claimed]
    """One of each store."""


@dataclass(slots=True)
class StandstillScene:
    """Jobs in two queues, two executors, and the stores that have them. Names are drawn by the factory."""

    contract: StoreContract
    stores: Sequence[Store]
    make: Factory
    name: str
    now: float = 0.0
    jobs: list[WalkedJob] = field(default_factory=list)
    runs: dict[UUID, WalkedRun] = field(default_factory=dict)
    executors: list[int] = field(default_factory=list)
    holds: dict[str, tuple[float, float]] = field(default_factory=dict)
    claims: dict[UUID, Sequence[Claimed]] = field(default_factory=dict)
    lost: list[LostClaim] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    # ------------------------------------------------------------------------------------------- what is drawn

    def draw(self, below: int) -> int:
        """A number from 0 on."""
        return int.from_bytes(self.make.random_bytes()[:4], "big") % below

    def one_of(self, among: Collection[T]) -> T | None:
        """One of them; None if there is none."""
        return list(among)[self.draw(len(among))] if among else None

    @property
    def queues(self) -> list[str]:
        """The queues of this walk."""
        return [f"{self.name}-a", f"{self.name}-b"]

    def minutes(self, first: int, last: int) -> float:
        """A whole minute, so far from now."""
        minute = round((self.now - self.make.now) // MINUTE) + first + self.draw(last - first + 1)
        return self.make.now + minute * MINUTE

    # ------------------------------------------------------------------------------------------- each store

    async def each(self, call: Callable[[Store], Awaitable[T]]) -> T:
        """The answer of every store, which must be the same."""
        answers = [await call(store) for store in self.stores]
        assert all(are_same(answer, answers[0]) for answer in answers), f"the stores answer {answers}"
        return answers[0]

    async def pass_time(self, minutes: int) -> None:
        """Put the clock forward, to half a minute between two minutes."""
        now = await self.stores[0].now()
        wanted = self.make.now + (round((now - self.make.now) // MINUTE) + minutes) * MINUTE + MINUTE / 2
        await self.contract.shift(self.stores[0], max(0.0, wanted - now))
        self.now = wanted

    async def settle_clock(self) -> None:
        """Go on to the next minute if the clock has gone on by itself."""
        if abs(await self.stores[0].now() - self.now) > DRIFT_SECONDS:
            await self.pass_time(1)

    async def each_claim(
        self, claims: Sequence[Claimed], call: Callable[[Store, Claimed], Awaitable[Sequence[UUID]]]
    ) -> list[UUID]:
        """As `each`, with the claim of each store."""
        answers = [list(await call(store, claimed)) for store, claimed in zip(self.stores, claims, strict=True)]
        assert all(answer == answers[0] for answer in answers), f"the stores answer {answers}"
        return answers[0]

    # ------------------------------------------------------------------------------------------- what is known

    def on_hold(self, queue: str) -> bool:
        """Check whether a queue is on hold."""
        begin, until = self.holds.get(queue, (math.inf, -math.inf))
        return begin <= self.now < until

    def held(self, *, begun: bool) -> list[WalkedRun]:
        """The runs that executors hold."""
        return [run for run in self.runs.values() if run.holder is not None and run.begun is begun]

    def held_by(self, executor: int, *, begun: bool) -> list[WalkedRun]:
        """The runs that this executor holds."""
        return [run for run in self.held(begun=begun) if run.holder == executor]

    def holder_of(self, run: WalkedRun) -> int:
        """The executor that holds this run."""
        assert run.holder is not None
        return run.holder

    def due(self) -> list[WalkedRun]:
        """The runs that are to begin by now, and have not."""
        return [run for run in self.held(begun=False) if self.begins_at(run) <= self.now]

    def begins_at(self, run: WalkedRun) -> float:
        """The time at which the holder of a run begins it."""
        claimed = self.claims[run.run_id][0]
        return max(claimed.due, claimed.ready)

    def waits_for_pause(self, run: WalkedRun, *, since: float | None) -> bool:
        """Check whether a claimed run would begin within a pause of its job, and was not yet to begin at this time."""
        if not run.by_schedule or run.tried or not run.job.is_paused(self.now) or since is None:
            return False
        return since + NEAR_SECONDS < self.begins_at(run) < run.job.paused_until - NEAR_SECONDS

    def let_go(self, run: WalkedRun) -> None:
        """Its holder has it no more."""
        run.holder, run.begun = None, False
        del self.claims[run.run_id]

    async def found(self, run_id: UUID) -> RunRow | None:
        """A run, if it is not forgotten."""
        return await self.stores[0].runs.get("default", run_id)

    async def row(self, run_id: UUID) -> RunRow:
        """A run that is there."""
        return await self.contract.run_row(self.stores[0], run_id)

    # ------------------------------------------------------------------------------------------- the promises

    async def compare(self) -> None:
        """All stores show the same, and each run ends, is held, or waits for something that is told."""
        for run_id in list(self.runs):
            rows = [await store.runs.get("default", run_id) for store in self.stores]
            shown = [None if row is None else shown_run(row) for row in rows]
            assert all(are_same(each, shown[0]) for each in shown), f"the stores show {shown} of {run_id}"
            self.check(self.runs[run_id], rows[0])
            if rows[0] is None or rows[0].state in FINAL:
                del self.runs[run_id]
        for job in self.jobs:
            jobs = [shown_job(await self.contract.job_row(store, job.job_id)) for store in self.stores]
            assert all(are_same(each, jobs[0]) for each in jobs), f"the stores show {jobs}"
            assert (jobs[0][0] is JobStatus.PAUSED) == job.is_paused(self.now)
        queues = [
            [shown_queue(row) for row in await store.queues.all("default") if row.queue in self.queues]
            for store in self.stores
        ]
        assert all(are_same(each, queues[0]) for each in queues), f"the stores show {queues}"

    def check(self, run: WalkedRun, row: RunRow | None) -> None:
        """A run is not lost, and is where the executors know it to be."""
        if row is None:
            assert run.forgettable, f"{run.run_id} is gone"
            return
        if row.state in FINAL:
            assert run.holder is None, f"{run.run_id} ended under its holder"
            return
        state = RunState.RUNNING if run.begun else RunState.DISPATCHED
        if run.holder is not None:
            assert (row.state, row.executor) == (state, run.holder), f"{run.run_id} is {row}"
            return
        assert row.state in (RunState.QUEUED, RunState.RETRYING), f"nobody holds {run.run_id}, {row}"
        held_back = run.job.is_paused(self.now) and run.job.paused_until == math.inf
        assert row.blocked or row.ready_at is not None or held_back, f"{run.run_id} waits for nothing, {row}"

    def note(self, *what: object) -> None:
        """Add to the last step, for the reader of a failure."""
        self.trace[-1] += f" {' '.join(map(str, what))}"


def shown_run(row: RunRow) -> tuple[object, ...]:
    """The part of a run that people and executors see."""
    request = None if row.cancel is None else (row.cancel.error, row.cancel.heard_at is not None)
    counts = (row.attempt, row.failures, row.crashes, row.executor, row.blocked, row.limit_key)
    return (row.state, row.reason, row.error, *counts, request, row.due_at, row.nominal_at, row.ready_at)


def shown_job(row: JobRow) -> tuple[object, ...]:
    """The part of a job that people see."""
    pause = (row.paused_at, row.pause_until, row.paused_by, row.pause_reason)
    timer = None if row.timer is None else (row.timer.due, row.timer.since, row.timer.hold)
    return (row.status, row.version, row.lane, *pause, row.next_run_at, timer)


def shown_queue(row: QueueRow) -> tuple[object, ...]:
    """The part of a queue that people see."""
    hold = None if row.hold is None else (row.hold.begin, row.hold.until)
    return (row.queue, row.held, hold, row.queued, row.dispatched, row.running)


def are_same(one: object, other: object) -> bool:
    """Check whether two answers are equal, but for readings of the clock."""
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(are_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) < NEAR_SECONDS
    return one == other
