"""A simulation, put together: the product's scheduler on a clock that is moved, over a store in memory.

Nothing of it leaves the machine: no server, no port, no file. Jobs do not touch each other, so a large simulation is
shared out to processes, each with some of the jobs, which go through time step by step together:

    parent ◄── happenings of step n ── child (its jobs, its store, its clock)
           ◄── happenings of step n ── child …          ──► merged in the order of time
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from itertools import chain
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

import msgspec
import structlog

from tickwise.adapters.clock import MovedClock, SystemClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.memory import MemoryStore
from tickwise.control.bodies import JobBody
from tickwise.control.jobs.planning import Timing, plan_fields, timing
from tickwise.documents.definition import Definition, encode_definition
from tickwise.domain.errors import Bug, Invalid, TickwiseError
from tickwise.domain.model import DEFAULT_NAMESPACE, Lane, time_id
from tickwise.domain.schedule import ScheduleType, just_before, most_per_minute
from tickwise.ports.blobs import Blobs
from tickwise.ports.store import NewJob, Retention, RuleKind, RuleRow, Store
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings
from tickwise.roles.scheduler.simulator import (
    BUSY_STEP_SECONDS,
    STEP_SECONDS,
    Happening,
    SimulationInput,
    Simulator,
    TimeSpan,
    Watched,
    in_order,
    tidied,
)

JOBS_AT_ONCE: Final = 1_000
DAY_SECONDS: Final = 86_400.0
MAX_PROCESSES: Final = 8
SHARED_FROM_JOB_DAYS: Final = 20_000
"""A smaller simulation takes no longer than it takes to start a process."""
NO_TASK: Final = msgspec.Raw(b'{"kind":"simulated"}')
_BODY_FIELDS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(JobBody))
_KEEP_NOTHING: Final = Retention(runs_seconds=0.0, failed_seconds=0.0)
_DEFAULT_LANE: Final = Lane(requires=("task:simulated",))
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject:
    """A job to simulate."""

    name: str
    job_id: UUID
    body: JobBody


class StoredRule(NamedTuple):
    """A calendar or a maintenance window, as a store keeps it."""

    kind: RuleKind
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The input of a simulation."""

    subjects: Sequence[Subject]
    begin: float
    end: float
    outages: Sequence[tuple[float, float]] = ()
    run_seconds: float = 0.0
    """The duration of each run."""
    rules: Sequence[StoredRule] = ()
    step_seconds: float | None = None
    """The step of time; None: as suits the jobs."""


def subject_of(job: Mapping[str, Any], number: int) -> Subject:
    """A job as a file or `GET /jobs/{id}` says it; what has nothing to do with time is left out. Raises `Invalid`."""
    said = {name: value for name, value in job.items() if name in _BODY_FIELDS and name not in ("task", "payload")}
    try:
        body = msgspec.convert(said, JobBody, strict=False)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"job {number}: {wrong}", pointer=f"/{number}") from None
    name = str(job.get("name") or f"job {number}")
    job_id = body.job_id if isinstance(body.job_id, UUID) else _stable_id(str(job.get("key") or f"{number} {name}"))
    return Subject(name, job_id, body)


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Let this process log nothing meanwhile: what a scheduler tells an operator of a real outage is no news in a
    simulation."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


async def simulate(simulation: Simulation) -> AsyncIterator[Sequence[Happening]]:
    """Yield the events, a step at a time, in the order of time. Raises `Invalid` for a job that could not be
    submitted."""
    shares = min(os.cpu_count() or 1, MAX_PROCESSES)
    days = (simulation.end - simulation.begin) / DAY_SECONDS
    clock = SystemClock()
    if shares == 1 or len(simulation.subjects) * days < SHARED_FROM_JOB_DAYS:
        async for found in simulate_here(simulation):
            yield found
            await clock.sleep(0.0)  # no other code here ever waits, and Ctrl-C is handled only during a wait
        return
    # All processes take the same steps, whichever of them has the busy jobs.
    simulation = replace(simulation, step_seconds=_step_seconds(simulation))
    for found in _simulate_shared(simulation, shares):
        yield found
        await clock.sleep(0.0)


def _simulate_shared(simulation: Simulation, shares: int) -> Iterator[Sequence[Happening]]:
    """Simulate in several processes."""
    # Spawned, not forked: a forked child of a process with threads may inherit a lock that no thread releases.
    context = multiprocessing.get_context("spawn")
    children = [_Child(context, replace(simulation, subjects=simulation.subjects[n::shares])) for n in range(shares)]
    try:
        while True:
            parts = [child.step() for child in children]
            if parts[0] is None:
                return
            yield sorted(chain.from_iterable(part or () for part in parts), key=in_order)
    finally:
        for child in children:
            child.end()


class _Child:
    """A process that simulates some of the jobs."""

    def __init__(self, context: SpawnContext, simulation: Simulation) -> None:
        self._ids = [subject.job_id for subject in simulation.subjects]
        self._feed, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_live, args=(simulation, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def step(self) -> list[Happening] | None:
        """The events of its next step; None: there is no more."""
        try:
            found = self._feed.recv()
        except EOFError:
            raise Bug("a process of the simulation ended before it was done") from None
        if isinstance(found, TickwiseError):
            raise found
        ids = self._ids
        return None if found is None else [Happening(at, ids[job], *rest) for at, job, *rest in found]

    def end(self) -> None:
        self._process.terminate()
        self._process.join()


def _live(simulation: Simulation, feed: Connection) -> None:
    """A child's whole life. It names jobs by their number: ids would be most of what is sent."""
    numbers = {subject.job_id: number for number, subject in enumerate(simulation.subjects)}

    async def life() -> None:
        async for found in simulate_here(simulation):
            feed.send([(each.at, numbers[each.job_id], *each[2:]) for each in found])

    # Ctrl-C reaches the whole group: the parent ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with hushed():
            asyncio.run(life())
    except Invalid as refusal:
        feed.send(Invalid(refusal.detail, pointer=refusal.pointer))
    else:
        feed.send(None)


async def simulate_here(simulation: Simulation) -> AsyncIterator[Sequence[Happening]]:
    """`simulate`, in this process."""
    clock = MovedClock(simulation.begin)
    store = MemoryStore(clock, near_seconds=0.0)
    await store.open()
    for kind, name, text in simulation.rules:
        await store.rules.put(RuleRow(namespace=DEFAULT_NAMESPACE, kind=kind, name=name, body=text), audit=None)
    known = {rule.name for rule in simulation.rules if rule.kind is RuleKind.CALENDAR}
    jobs = [_new_job(subject, simulation.begin, known) for subject in simulation.subjects]
    for first in range(0, len(jobs), JOBS_AT_ONCE):
        await store.jobs.add(jobs[first : first + JOBS_AT_ONCE])
    watched = Watched(cast("Store", store))

    @cache
    def scheduler(horizon_seconds: float) -> Scheduler:
        return Scheduler(
            store=cast("Store", watched),
            blobs=cast("Blobs", None),  # only what forgets old outputs looks there, and that is not driven
            signals=LocalSignals(),
            clock=clock,
            settings=SchedulerSettings(horizon_seconds=horizon_seconds, retention=_KEEP_NOTHING),
            telemetry=_Deaf(),
        )

    world = SimulationInput(
        store=cast("Store", store),
        clock=clock,
        span=TimeSpan(simulation.begin, simulation.end),
        outages=tidied([TimeSpan(*outage) for outage in simulation.outages]),
        run_seconds=simulation.run_seconds,
        step_seconds=simulation.step_seconds or _step_seconds(simulation),
    )
    async for found in Simulator(world, scheduler, watched).happenings(_DEFAULT_LANE.requires):
        yield found


def _step_seconds(simulation: Simulation) -> float:
    """An hour, unless some job fires more often than once a minute."""
    busy = any(
        when.recurs and most_per_minute(when.plan.schedule(subject.job_id)) > 1
        for subject in simulation.subjects
        for when in [_timing(subject, simulation.begin)]
    )
    return BUSY_STEP_SECONDS if busy else STEP_SECONDS


def _timing(subject: Subject, now: float) -> Timing:
    """A run that is due at the very begin belongs to a simulation; an interval counts from there."""
    try:
        when = timing(subject.body, subject.job_id, now)
        if when.plan.schedule_type is ScheduleType.CRON:
            when = timing(subject.body, subject.job_id, just_before(now))
    except Invalid as refusal:
        raise Invalid(f"{subject.name}: {refusal.detail}", pointer=refusal.pointer) from None
    return when


def _new_job(subject: Subject, now: float, calendars: Collection[str]) -> NewJob:
    body, when = subject.body, _timing(subject, now)
    unknown = [use.name for use in when.plan.calendars if use.name not in calendars]
    if unknown:
        raise Invalid(
            f"{subject.name}: there is no calendar {unknown[0]!a}; give it beside the jobs: "
            '{"jobs": […], "calendars": {"NAME": {…}}}'
        )
    return NewJob(
        job_id=subject.job_id,
        namespace=DEFAULT_NAMESPACE,
        name=subject.name,
        schedule_type=when.plan.schedule_type.value,
        task_kind="simulated",
        definition=encode_definition(Definition(**plan_fields(when.plan), task=NO_TASK)),
        lane=_DEFAULT_LANE,
        created_by="simulation",
        recurring=when.recurs,
        # Jobs of each schedule type are decided by the scheduler: windows concern one-time jobs too.
        run_id=None,
        due=when.due,
        never=when.never,
        labels=body.labels or None,
        calendars=tuple(use.name for use in when.plan.calendars),
        zone_data=when.zone_data,
    )


def _stable_id(text: str) -> UUID:
    """An id that is equal for equal jobs each time, so that `H` and jitter fall on the same places."""
    return time_id(0, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).digest())


class _Deaf:
    """Telemetry without a reader."""

    def __getattr__(self, _name: str) -> Any:
        return self._ignore

    def _ignore(self, *_counts: object, **_labels: object) -> None:
        """Count nothing."""
