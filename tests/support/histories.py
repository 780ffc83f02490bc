"""Good histories, drawn by a seed: what clients, journal, tasks and records say of a system that keeps its promises.

Everything that a checker must not take for an error happens in them: retries, executors killed before and after a start
was recorded, zombies that go on, give-backs, cancels of free and held runs, skips, runs that were taken back, unknown
answers and repeated requests, limits, sequences, quarantine.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from uuid import UUID

from tickwise.domain.history.checker import (
    ClientAnswer,
    Edge,
    Execution,
    Fault,
    History,
    LeaseEnd,
    Operation,
    RequestKind,
    Run,
    RunChange,
    Target,
)
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger, run_id, time_id
from tickwise.domain.retry import CRASHES_MAX

BEGIN = 1_790_000_000.0
LEASE = 10.0
QUEUED, DISPATCHED, RUNNING, RETRYING = RunState.QUEUED, RunState.DISPATCHED, RunState.RUNNING, RunState.RETRYING
SUCCESS, FAILED, CANCELLED, SKIPPED = RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED


class Walk:
    """One run on its way: writes its changes and executions, and counts as the store does."""

    def __init__(self, world: World, job_id: UUID, run: UUID, due: float) -> None:
        self.world, self.job_id, self.run_id, self.due = world, job_id, run, due
        self.state: RunState | None = None
        self.at = due - 2.0
        self.version = self.token = self.executor = 0
        self.attempt = self.failures = self.crashes = 0
        self.started: float | None = None
        self.move(QUEUED)

    def move(self, after: RunState | None, *, after_seconds: float = 0.1, by: int = 0) -> None:
        """One change, named by the token of whoever holds it."""
        self.at += after_seconds
        self.version += 1
        held = self.state in (DISPATCHED, RUNNING) or after is DISPATCHED
        change = RunChange(self.run_id, self.version, self.state, after, self.token if held else 0, by, self.at)
        self.world.journal.append(change)
        self.state = after

    def claim(self) -> None:
        """By a new executor, with a new token; its task can begin from the due time on."""
        self.token = next(self.world.tokens)
        self.executor = next(self.world.executors)
        self.attempt += 1
        self.move(DISPATCHED, by=self.executor)
        self.world.lease_ends.append(LeaseEnd(self.executor, max(self.at, self.due) + LEASE))
        self.at = max(self.at, self.due)

    def run(self, seconds: float, *, recorded: bool, ends: bool = True) -> None:
        """The task begins, and ends if it may."""
        begin = self.at + 0.01
        end = begin + seconds if ends else None
        self.world.executions.append(Execution(self.run_id, self.token, begin, end, self.job_id))
        self.started, self.at = begin, begin
        if recorded:
            self.move(RUNNING, after_seconds=0.001, by=self.executor)
        self.at = max(self.at, begin + seconds)

    def lose(self, *, in_flight: int = 1, poison: bool = False) -> None:
        """Its executor is killed; its lease runs out, and the run is freed or quarantined."""
        self.world.faults.append(Fault("kill", self.at, f"executor {self.executor}", in_flight, self.executor))
        self.crashes += self.state is RUNNING
        self.move(FAILED if poison else QUEUED, after_seconds=LEASE, by=self.executor)

    def record(self, **more: object) -> Run:
        """The run as the system records it."""
        assert self.state is not None
        run = Run(
            self.run_id,
            self.job_id,
            self.state,
            due=self.due,
            started=self.started,
            ended=self.at,
            token=self.token,
            attempt=self.attempt,
            failures=self.failures,
            crashes=self.crashes,
            attempts_most=3,
        )._replace(**more)  # type: ignore[arg-type]  # fields by name
        self.world.runs.append(run)
        return run  # fmt: skip


class World:
    """The record of runs that walk."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tokens = itertools.count(1)
        self.executors = itertools.count(1)
        self.runs: list[Run] = []
        self.journal: list[RunChange] = []
        self.operations: list[Operation] = []
        self.executions: list[Execution] = []
        self.targets: list[Target] = []
        self.faults: list[Fault] = []
        self.lease_ends: list[LeaseEnd] = []
        self.edges: list[Edge] = []
        self.limits: dict[str, int] = {}
        self.stale_refused = 0

    def job(self) -> UUID:
        """A new job's id."""
        return time_id(round(BEGIN * 1000), self.random.randbytes(10))

    def walk(self, job_id: UUID, due: float, trigger: Trigger = Trigger.SCHEDULE) -> Walk:
        """A new run's way."""
        request = b"" if trigger is Trigger.SCHEDULE else self.random.randbytes(8)
        return Walk(self, job_id, run_id(job_id, due, trigger, request), due)

    def history(self) -> History:
        """All of it, in no order."""
        for rows in (self.runs, self.journal, self.operations, self.executions, self.targets):
            self.random.shuffle(rows)
        return History(
            runs=self.runs, journal=self.journal, operations=self.operations, executions=self.executions,
            targets=self.targets, faults=self.faults, lease_ends=self.lease_ends, limits=self.limits,
            edges=self.edges, stale_refused=self.stale_refused, late_starts=True,
        )  # fmt: skip


# --------------------------------------------------------------------------------------------------- ways of a run


def succeeds(walk: Walk) -> None:
    """The bulk of all."""
    walk.claim()
    walk.run(0.2, recorded=walk.world.random.random() < 0.3)
    walk.move(SUCCESS, by=walk.executor)


def retries(walk: Walk) -> None:
    """One or two failures, then success, or the last one allowed."""
    for number in range(1, 4):
        walk.claim()
        walk.run(0.2, recorded=walk.world.random.random() < 0.5)
        if walk.world.random.random() < 0.3:
            walk.move(SUCCESS, by=walk.executor)
            return
        walk.failures += 1
        walk.move(RETRYING if number < 3 else FAILED, by=walk.executor)


def is_lost(walk: Walk) -> None:
    """Its executor is killed while it runs, its start recorded or not."""
    walk.claim()
    walk.run(0.2, recorded=walk.world.random.random() < 0.5, ends=False)
    walk.lose()
    succeeds(walk)


def goes_on_as_a_zombie(walk: Walk) -> None:
    """Its executor stands still past its lease; what it reports afterwards is refused."""
    walk.claim()
    begin = walk.at + 0.01
    walk.world.executions.append(Execution(walk.run_id, walk.token, begin, begin + LEASE + 5.0, walk.job_id))
    walk.at = begin
    walk.lose()
    succeeds(walk)
    walk.world.stale_refused += 1


def is_given_back(walk: Walk) -> None:
    """Unbegun, by an executor that drains: no attempt is counted."""
    walk.claim()
    walk.attempt -= 1
    walk.move(QUEUED, by=walk.executor)
    succeeds(walk)


def is_cancelled(walk: Walk) -> None:
    """Free or held, begun or not."""
    where = walk.world.random.randrange(3)
    if where:
        walk.claim()
    if where == 2:
        walk.run(0.2, recorded=True)
    walk.move(CANCELLED, by=walk.executor)
    asked = Operation(RequestKind.CANCEL, ClientAnswer.OK, walk.at, walk.at + 0.1, run_id=walk.run_id, state=CANCELLED)
    walk.world.operations.append(asked)


def is_skipped(walk: Walk) -> None:
    """For a reason on record."""
    walk.move(SKIPPED)


def is_poison(walk: Walk) -> None:
    """It takes one executor after the other down."""
    for number in range(1, CRASHES_MAX + 1):
        walk.claim()
        walk.run(0.2, recorded=True, ends=False)
        walk.lose(poison=number == CRASHES_MAX)


WAYS: dict[Callable[[Walk], None], int] = {
    succeeds: 60, retries: 10, is_lost: 8, goes_on_as_a_zombie: 4, is_given_back: 6, is_cancelled: 6, is_skipped: 3,
    is_poison: 2,
}  # fmt: skip


# --------------------------------------------------------------------------------------------------- what is asked for


def once(world: World, due: float) -> None:
    """A job with one run, submitted under a key, perhaps more than once, perhaps with no answer."""
    job_id = world.job()
    key = f"key {job_id}"
    walk = world.walk(job_id, due)
    world.random.choices(list(WAYS), list(WAYS.values()))[0](walk)
    walk.record(key=key, reason="poison" if walk.crashes == CRASHES_MAX else None)
    answers = world.random.choice(
        [
            [ClientAnswer.OK],
            [ClientAnswer.INFO],
            [ClientAnswer.INFO, ClientAnswer.OK],
            [ClientAnswer.FAIL, ClientAnswer.OK],
        ]
    )
    for number, answer in enumerate(answers):
        asked = due - 4 + number
        told = job_id if answer is ClientAnswer.OK else None
        ended = None if answer is ClientAnswer.INFO else asked + 0.5
        world.operations.append(Operation(RequestKind.SUBMIT, answer, asked, ended, key, told))


def refused(world: World, due: float) -> None:
    """A submit that was refused, and one of which nothing is known and nothing came."""
    for answer in (ClientAnswer.FAIL, ClientAnswer.INFO):
        job_id = world.job()
        world.operations.append(Operation(RequestKind.SUBMIT, answer, due, due + 1, f"key {job_id}", job_id))


def recurring(world: World, due: float) -> None:
    """A job that fires each minute; one occurrence is skipped, one was made ahead and taken back."""
    job_id = world.job()
    world.operations.append(Operation(RequestKind.SUBMIT, ClientAnswer.OK, due, due + 0.1, None, job_id, once=False))
    for number in range(10):
        at = due + 60.0 * number
        walk = world.walk(job_id, at)
        if number == 9:
            walk.claim()
            walk.move(None, by=walk.executor)
            continue
        way = is_skipped if number == 5 else is_lost if number == 7 else succeeds
        way(walk)
        walk.record()
        world.targets.append(Target(job_id, at, at + 30.0, skippable=number == 5))


def limited(world: World, due: float) -> None:
    """A job that two of its runs may run of at once."""
    key = f"limit {world.job()}"
    world.limits[key] = 2
    for lane in range(2):
        for number in range(4):
            walk = world.walk(world.job(), due + 30.0 * number + lane * 0.05)
            (goes_on_as_a_zombie if number == 2 else succeeds)(walk)
            walk.record(limit_key=key)


def sequence(world: World, due: float) -> None:
    """A job with one that follows its success and one that follows its failure."""
    first, then, on_failure = world.job(), world.job(), world.job()
    world.edges += [Edge(first, SUCCESS, then), Edge(first, FAILED, on_failure)]
    for number in range(6):
        walk = world.walk(first, due + 100.0 * number)
        (retries if number % 2 else succeeds)(walk)
        ended = walk.record()
        follower = world.walk(then if ended.state is SUCCESS else on_failure, walk.at + 2.0, Trigger.SEQUENCE)
        succeeds(follower)
        follower.record(trigger=Trigger.SEQUENCE, origin=ended.run_id)


def asked_for(world: World, due: float) -> None:
    """A run that somebody asked for now."""
    walk = world.walk(world.job(), due, Trigger.RUN_NOW)
    succeeds(walk)
    run = walk.record(trigger=Trigger.RUN_NOW)
    told = Operation(RequestKind.RUN_NOW, ClientAnswer.OK, due, due + 0.1, f"now {run.run_id}", run.job_id, run.run_id)
    world.operations += [told._replace(answer=ClientAnswer.INFO, ended=None, run_id=None), told]


def good(seed: int, jobs: int = 150) -> History:
    """A history without a fault of the system."""
    world = World(seed)
    for number in range(jobs):
        once(world, BEGIN + number * 0.1)
    for ask in (refused, recurring, limited, sequence, asked_for):
        ask(world, BEGIN + world.random.random() * 100)
    return world.history()
