"""The use of quotas: what an addition would take of them, and whether it has room.

    add ──► the namespace has quotas? ──no──► as ever
                     └─yes──► its use, locked ──► QuotaRoom ──► what fits is added, and counted in the same transaction

Invariant: from `QUOTAS_FRESH_SECONDS` after a quota was set, no two additions together pass it, in any process. An edit
adds what it makes count (`cost_of_change`). What was added before the quota is counted by the first addition after
`RECOUNT_SECONDS`. Fires of schedules are counted in their transaction (`QuotaStore.take_runs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tickwise.domain.errors import Conflict
from tickwise.domain.quotas import Quotas
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store.definitions import Added, JobChange, NewJob
from tickwise.ports.store.placement import change_lasts, is_lasting

RECOUNT_SECONDS: Final = 60.0
"""The age from which a count of jobs and bytes is made anew."""
CROWDED_SECONDS: Final = 1.0
"""The age from which it is made anew if there seems to be no room: jobs that have ended may have made some."""


class Cost(NamedTuple):
    """The cost of an addition, by quota."""

    jobs: int = 0
    runs: int = 0
    bytes: int = 0

    @classmethod
    def total(cls, costs: Sequence[Cost]) -> Cost:
        """The cost of all of them."""
        return cls(*map(sum, zip(*costs, strict=True))) if costs else cls()


def cost_of(job: NewJob) -> Cost:
    """The cost of a new job: that it lasts, and the run that it asks for if it runs once."""
    lasting = is_lasting(job)
    runs = len(job.missed) + (0 if job.recurring or job.never else 1)
    return Cost(1 if lasting else 0, runs, len(job.definition.encode()) if lasting else 0)


class StoredJob(NamedTuple):
    """The properties of a stored job that quotas count."""

    lasts: bool
    has_timer: bool
    has_runs: bool
    """Unfinished ones."""
    bytes: int
    """Of its definition."""


def cost_of_change(change: JobChange, schedule_type: str, stored: StoredJob) -> Cost:
    """The cost of an edit: that the job counts from now on, the bytes that it then has more, and the runs that it asks
    for. Nothing of an edit that shrinks or keeps. `schedule_type`: that before the edit."""
    plan = change.replan
    counted = stored.lasts and _is_active(schedule_type, stored.has_timer, stored.has_runs)
    has_timer = stored.has_timer if plan is None else plan.timer is not None or bool(plan.missed)
    counts = (stored.lasts or change_lasts(change)) and _is_active(change.schedule_type, has_timer, stored.has_runs)
    runs = _runs_asked(change, schedule_type, stored)
    if not counts:
        return Cost(runs=runs)
    more = len(change.definition.encode()) - (stored.bytes if counted else 0)
    return Cost(jobs=0 if counted else 1, runs=runs, bytes=max(0, more))


_ONE_TIME: Final = frozenset({ScheduleType.IMMEDIATE, ScheduleType.FUTURE})


def _runs_asked(change: JobChange, schedule_type: str, stored: StoredJob) -> int:
    """The runs that an edit asks for by itself, as a submit does: those that it makes up for, and the run of a job that
    runs once. The run of a job that was to run once before, and has not, is counted already; fires of a schedule are
    counted when they are due."""
    plan = change.replan
    if plan is None:
        return 0
    counted = schedule_type in _ONE_TIME and (stored.has_timer or stored.has_runs)
    once = not plan.recurring and plan.timer is not None and not counted
    return len(plan.missed) + (1 if once else 0)


def _is_active(schedule_type: str, has_timer: bool, has_runs: bool) -> bool:
    return schedule_type == ScheduleType.ON_DEMAND or has_timer or has_runs


def cost_of_transfer(definition: str) -> Cost:
    """The cost of a job that comes from another namespace. It always counts as one that lasts."""
    return Cost(jobs=1, bytes=len(definition.encode()))


_REFUSED: Final = {
    "jobs": Added.NO_QUOTA_JOBS,
    "runs_per_day": Added.NO_QUOTA_RUNS,
    "bytes": Added.NO_QUOTA_BYTES,
}
_QUOTA: Final = {added: name for name, added in _REFUSED.items()}


def quota_refusal(added: Added, namespace: str) -> Conflict | None:
    """The refusal that this answer stands for; None: it is none of a quota."""
    name = _QUOTA.get(added)
    return None if name is None else no_quota(name, namespace)


def no_quota(name: str, namespace: str) -> Conflict:
    """The refusal of what would be more than a quota."""
    code, remedy = _REFUSALS[name]
    return Conflict(
        f"the namespace {namespace} has no room for this under its quota {name}: {remedy}, or ask an administrator of "
        f"the installation for more. What is used: tickwise namespaces quota {namespace}, or "
        f"GET /api/v1/namespaces/{namespace}/usage",
        pointer="",
        code=code,
    )


_REFUSALS: Final = {
    "jobs": ("quota_jobs", "cancel jobs that are not needed"),
    "runs_per_day": ("quota_runs", "wait for the next day of UTC"),
    "bytes": ("quota_bytes", "cancel jobs that are not needed, or store less in them"),
}


@dataclass(slots=True)
class QuotaRoom:
    """The use of a namespace beside its quotas, while something is added."""

    namespace: str
    quotas: Quotas
    jobs: int
    """Used so far, as the two below."""
    runs: int
    bytes: int

    def lacks(self, cost: Cost) -> str | None:
        """The quota that this would pass; None: it fits."""
        quotas = self.quotas
        for name, used, wanted in (
            ("jobs", self.jobs, cost.jobs),
            ("runs_per_day", self.runs, cost.runs),
            ("bytes", self.bytes, cost.bytes),
        ):
            most = getattr(quotas, name)
            if wanted and most is not None and used + wanted > most:
                return name
        return None

    def take(self, cost: Cost) -> Added | None:
        """Take it; None. Or take nothing; the answer that says of which quota there is no room."""
        if (lacking := self.lacks(cost)) is not None:
            return _REFUSED[lacking]
        self.jobs, self.runs, self.bytes = self.jobs + cost.jobs, self.runs + cost.runs, self.bytes + cost.bytes
        return None

    def give_back(self, cost: Cost) -> None:
        """Take it back: it was not used."""
        self.jobs, self.runs, self.bytes = self.jobs - cost.jobs, self.runs - cost.runs, self.bytes - cost.bytes

    def demand(self, cost: Cost) -> Cost:
        """Take it, and return it. Raises `Conflict`."""
        if (lacking := self.lacks(cost)) is not None:
            raise no_quota(lacking, self.namespace)
        self.take(cost)
        return cost
