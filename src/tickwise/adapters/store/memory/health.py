"""Checks of the store's invariants, a page of subjects at a time, and the repairs that the store can make.

Most of them hold here by the way in which the state changes; they are checked all the same, because the reader of the
answer must be able to rely on it in the simulation as on a server.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from types import MappingProxyType
from typing import Final, cast
from uuid import UUID

from tickwise.adapters.store.memory.losses import lose
from tickwise.adapters.store.memory.records import RunRecord
from tickwise.adapters.store.memory.state import ON_DEMAND, Duty, State
from tickwise.domain.decision import TimerState
from tickwise.domain.lifecycle import CancelKind
from tickwise.domain.model import Lane
from tickwise.domain.retry import CRASHES_MAX
from tickwise.ports.store import Check, Examined, JobAction, OperationStatus, Violation

LATE_SECONDS: Final = 60.0
STILL_SECONDS: Final = 300.0
"""An operation stands still that has not moved for so long."""
_NUMBER: Final = attrgetter("int")
"""Of an id: numbers are compared by the interpreter itself, ids by a method of Python."""


class Checks(Duty):
    """`CheckStore` of the port."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._walks: dict[Check, list[UUID]] = {}
        """The subjects of walks under way, in order: sorted once, and not for each page."""

    async def violations(self, check: Check, *, after: UUID | None, limit: int) -> Examined:
        _, judge = CHECKS[check]
        page = self._page(check, after, limit)
        judged = [(each, judge(self._state, each)) for each in page]
        found = [
            Violation(each, detail, owner(self._state, each), self._lane(check, each))
            for each, detail in judged
            if detail is not None
        ]
        return Examined(last=page[-1] if len(page) == limit and page else None, found=found)

    def _page(self, check: Check, after: UUID | None, limit: int) -> list[UUID]:
        """The next subjects of a walk that are still there; of those that came since it began, the next one tells."""
        subjects = CHECKS[check][0](self._state)
        walk = self._walks.get(check)
        if after is None or walk is None:
            walk = self._walks[check] = sorted(subjects, key=_NUMBER)
        begin = 0 if after is None else bisect_right(walk, after.int, key=_NUMBER)
        # By slices: to count from the first subject to this page would make a walk quadratic.
        later = chain.from_iterable(walk[start : start + limit] for start in range(begin, len(walk), max(1, limit)))
        page = list(islice((each for each in later if each in subjects), limit))
        if len(page) < limit:
            del self._walks[check]
        return page

    def _lane(self, check: Check, subject: UUID) -> Lane | None:
        return self._state.runs[subject].lane if check is Check.CLAIMED_IN_TIME else None

    async def heal(self, check: Check, found: Sequence[Violation]) -> int:
        subjects = [violation.subject for violation in found]
        cure = CURES.get(check)
        _, judge = CHECKS[check]
        if check is Check.HELD_AS_TOLD:
            for subject in subjects:
                if judge(self._state, subject) is not None:
                    end_lease(self._state, subject)
        elif cure is None:
            return 0
        else:
            self._cure(cure, judge, subjects)
        return sum(judge(self._state, subject) is None for subject in subjects)

    def _cure(self, cure: Callable[[State, RunRecord], None], judge: Judgement, subjects: Sequence[UUID]) -> None:
        for subject in subjects:
            if (run := self._state.runs.get(subject)) is not None and judge(self._state, subject) is not None:
                cure(self._state, run)


class TimerRepair(Duty):
    """`TimerStore.restore` of the port."""

    async def restore(self, namespace: str, job_id: UUID, timer: TimerState, *, expected_version: int) -> bool:
        job = self._state.jobs.to_change(job_id)
        if job is None or job.namespace != namespace or job.version != expected_version or job.timer is not None:
            return False
        if job.standing is JobAction.CANCEL or self._state.is_paused(job):
            return False
        self._state.set_timer(job, timer)
        return True


def owner(state: State, subject: UUID) -> str | None:
    """The namespace of a subject that is there."""
    if subject in state.jobs:
        return state.jobs[subject].namespace
    if subject in state.runs:
        return state.runs[subject].job.namespace
    if subject in state.completions:
        return state.completions[subject].completion.run.namespace
    return state.operations[subject].row.namespace if subject in state.operations else None


class Planned(Collection[UUID]):
    """Runs, and jobs with a timer."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __contains__(self, subject: object) -> bool:
        job = self._state.jobs.get(cast("UUID", subject))
        return subject in self._state.runs or (job is not None and job.timer is not None)

    def __iter__(self) -> Iterator[UUID]:
        yield from self._state.runs
        yield from (timer.job.job_id for timer in self._state.timers())

    def __len__(self) -> int:
        return len(self._state.runs) + len(self._state.timers())


def all_runs(state: State) -> Collection[UUID]:
    return state.runs


def all_awake(state: State) -> Collection[UUID]:
    return {job.job_id for job in state.jobs.awake}


def all_planned(state: State) -> Collection[UUID]:
    return Planned(state)


def all_followed(state: State) -> Collection[UUID]:
    return state.completions


def all_executors(state: State) -> Collection[UUID]:
    return {UUID(int=number) for number in state.executors}


def all_operations(state: State) -> Collection[UUID]:
    return state.operations


def ended_once(state: State, run_id: UUID) -> str | None:
    if run_id in state.runs and run_id in state.ended:
        return f"it is {state.runs[run_id].state} and on record as {state.ended[run_id].row.state}"
    return None


def held_by_active(state: State, run_id: UUID) -> str | None:
    run = state.runs.get(run_id)
    if run is None or run.executor is None:
        return None
    executor = state.executors.get(run.executor)
    return None if executor is not None and executor.gone_at is None else f"executor {run.executor} is gone"


def claimed_in_time(state: State, run_id: UUID) -> str | None:
    run = state.runs[run_id]
    late = late_by(state, run.ready)
    free = not run.held and not run.blocked
    held_up = state.stands_still(run)
    return f"ready for {late:.0f} s in the queue {run.lane.queue}" if free and late and not held_up else None


def fired_in_time(state: State, job_id: UUID) -> str | None:
    timer = state.jobs[job_id].timer
    late = 0.0 if timer is None else late_by(state, timer.pending.due)
    return f"its timer is due for {late:.0f} s" if late else None


def planned(state: State, job_id: UUID) -> str | None:
    job = state.jobs[job_id]
    goes_on = job.recurring and job.schedule_type != ON_DEMAND and job.standing is not JobAction.CANCEL
    return "it has no timer" if goes_on and job.timer is None and not state.is_paused(job) else None


def waits_for_something(state: State, run_id: UUID) -> str | None:
    run = state.runs.get(run_id)
    if run is None or not run.blocked:
        return None
    if run.waits_for_slot:
        quota = state.quotas_of(run.job.namespace).concurrent_runs
        waits = state.slots.is_free(run, quota) and not held_of_late(state, run)
        return f"a slot of {run.limit_key} is free" if waits else None
    return None if state.earlier(run) else "no earlier run of its job is unfinished"


def held_of_late(state: State, run: RunRecord) -> bool:
    """Check whether the run's queue stands still, or did until so recently that no sweep may have come since."""
    for stop in state.stops.values():
        concerned = stop.namespace == run.job.namespace and not stop.scope.is_of_jobs
        concerned = concerned and stop.scope.queue in (None, run.lane.queue) and stop.begin <= state.now()
        if concerned and not late_by(state, stop.until):
            return True
    hold = state.queue_holds.get((run.job.namespace, run.lane.queue))
    if hold is None or (hold.begin or 0.0) > state.now():
        return False
    return hold.until is None or not late_by(state, hold.until)


def followed_in_time(state: State, run_id: UUID) -> str | None:
    late = late_by(state, state.completions[run_id].since)
    return f"it ended {late:.0f} s ago" if late else None


def heard_in_time(state: State, run_id: UUID) -> str | None:
    run = state.runs.get(run_id)
    if run is None or run.request is None or run.request.kind is CancelKind.RETURN or run.request.heard_at is not None:
        return None
    late = late_by(state, run.request.asked_at)
    return f"executor {run.executor} was asked {late:.0f} s ago" if late else None


def expired_in_time(state: State, subject: UUID) -> str | None:
    executor = state.executors[subject.int]
    if executor.gone_at is not None:
        return f"it is gone, and holds {len(executor.held)}" if executor.held else None
    late = late_by(state, max(executor.lease_until, state.opened_at + executor.lease_seconds))
    return f"its lease is over for {late:.0f} s" if late else None


def held_as_told(state: State, subject: UUID) -> str | None:
    executor = state.executors[subject.int]
    if executor.gone_at is not None or executor.differing_since is None:
        return None
    late = late_by(state, executor.differing_since)
    return f"for {late:.0f} s it has held other runs than the store says: {executor.differs} of them" if late else None


def stepped_in_time(state: State, operation_id: UUID) -> str | None:
    row = state.operations[operation_id].row
    late = late_by(state, row.updated_at, STILL_SECONDS)
    return f"it stands still for {late:.0f} s" if late and row.status is OperationStatus.RUNNING else None


def has_a_job(state: State, subject: UUID) -> str | None:
    run = state.runs.get(subject)
    job_id = subject if run is None else run.job.job_id
    return None if job_id in state.jobs else f"there is no job {job_id}"


def late_by(state: State, instant: float, patience_seconds: float = LATE_SECONDS) -> float:
    """The age of an instant in seconds, if it is greater than the patience; else 0."""
    ago = state.now() - instant
    return ago if ago > patience_seconds else 0.0


def end_lease(state: State, subject: UUID) -> None:
    """The executor is expired, as if it had not renewed its lease."""
    executor = state.executors[subject.int]
    executor.gone_at = state.now()
    for run in list(executor.held.values()):
        lose(state, run, CRASHES_MAX)


def forget(state: State, run: RunRecord) -> None:
    state.forget(run)


def free(state: State, run: RunRecord) -> None:
    lose(state, run, CRASHES_MAX)


def unblock(state: State, run: RunRecord) -> None:
    state.stop_waiting(run)


def keep_asking(state: State, run: RunRecord) -> None:
    """A request goes with its run; that of an active one stays until it is heard."""


Judgement = Callable[[State, UUID], str | None]
"""The fault of an existing subject; None: no fault."""

CHECKS: Final[Mapping[Check, tuple[Callable[[State], Collection[UUID]], Judgement]]] = MappingProxyType(
    {
        Check.ENDED_ONCE: (all_runs, ended_once),
        Check.HELD_BY_ACTIVE: (all_runs, held_by_active),
        Check.CLAIMED_IN_TIME: (all_runs, claimed_in_time),
        Check.FIRED_IN_TIME: (all_awake, fired_in_time),
        Check.PLANNED: (all_awake, planned),
        Check.WAITS_FOR_SOMETHING: (all_runs, waits_for_something),
        Check.FOLLOWED_IN_TIME: (all_followed, followed_in_time),
        Check.HEARD_IN_TIME: (all_runs, heard_in_time),
        Check.EXPIRED_IN_TIME: (all_executors, expired_in_time),
        Check.HELD_AS_TOLD: (all_executors, held_as_told),
        Check.STEPPED_IN_TIME: (all_operations, stepped_in_time),
        Check.HAS_A_JOB: (all_planned, has_a_job),
    }
)
"""The subjects and the check of each invariant."""

CURES: Final[Mapping[Check, Callable[[State, RunRecord], None]]] = MappingProxyType(
    {
        Check.ENDED_ONCE: forget,
        Check.HELD_BY_ACTIVE: free,
        Check.WAITS_FOR_SOMETHING: unblock,
        Check.HEARD_IN_TIME: keep_asking,
    }
)
"""The repairs that the store can make."""
