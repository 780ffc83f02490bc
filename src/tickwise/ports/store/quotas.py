"""The use of quotas: what an addition would take of them, and whether it has room.

    add ──► the namespace has quotas? ──no──► as ever
                     └─yes──► its use, locked ──► QuotaRoom ──► what fits is added, and counted in the same transaction

Invariant: from `QUOTAS_FRESH_SECONDS` after a quota was set, no two additions together pass it, in any process. What
was added before, and jobs that last by a change, are counted by the first addition after `RECOUNT_SECONDS`. Fires of
schedules are counted before their transaction: those of one that fails stay counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from tickwise.domain.errors import Conflict
from tickwise.domain.quotas import Quotas
from tickwise.ports.store.definitions import Added, NewJob
from tickwise.ports.store.placement import is_lasting

RECOUNT_SECONDS: Final = 60.0
"""Jobs and bytes are counted anew after so long, and,"""
CROWDED_SECONDS: Final = 1.0
"""if there seems to be no room, after so long: what has ended made room."""


class Cost(NamedTuple):
    """The cost of an addition, by quota."""

    jobs: int = 0
    runs: int = 0
    bytes: int = 0


def cost_of(job: NewJob) -> Cost:
    """The cost of a new job: that it lasts, and the run that it asks for if it runs once."""
    lasting = is_lasting(job)
    runs = len(job.missed) + (0 if job.recurring or job.never else 1)
    return Cost(1 if lasting else 0, runs, len(job.definition.encode()) if lasting else 0)


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

    def demand(self, cost: Cost) -> None:
        """Take it. Raises `Conflict`."""
        if (lacking := self.lacks(cost)) is not None:
            raise no_quota(lacking, self.namespace)
        self.take(cost)
