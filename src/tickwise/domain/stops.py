"""Stops: for a time, nothing of a namespace, of jobs with certain labels, of a queue or of a job starts.

        Stop ──┬── a scheduler: occurrences in it are held, and started once afterwards, or are skipped on record
               └── a store: no run of its scope is claimed, waiting runs keep their places

Invariant: a stop never ends a run. It ends by itself at its time, or when a person lifts it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

MAX_STOPS: Final = 100
"""Stops of one namespace that are in force or to come. Each decision looks at all of them."""
OPEN_END_SECONDS: Final = 4 * 366 * 86_400.0
"""The end of a stop without one, after its begin: within the search for a time at which a schedule opens again."""
STOPS_KEPT_SECONDS: Final = 90 * 86_400.0
"""Stops that are over are listed for so long."""


class Meanwhile(StrEnum):
    """The fate of occurrences whose time falls into a stop."""

    HOLD = "hold"
    """They are held back, and the job runs once for all of them when the stop ends."""
    SKIP = "skip"
    """They are skipped, on record."""


class StopScope(NamedTuple):
    """The jobs that a stop concerns: those of the namespace that fit what is given. Nothing given: all of them."""

    labels: Mapping[str, str] = {}
    """All of these pairs must be among a job's labels."""
    queue: str | None = None
    job_id: UUID | None = None

    @property
    def is_of_jobs(self) -> bool:
        """True if a run's queue does not tell whether it is concerned."""
        return bool(self.labels) or self.job_id is not None

    @property
    def is_one(self) -> bool:
        """True if its words are in the singular."""
        return self.queue is not None or self.job_id is not None

    def concerns(self, job_id: UUID, labels: Mapping[str, str], queue: str) -> bool:
        """Check whether a job is concerned."""
        if self.job_id is not None:
            return self.job_id == job_id
        if self.queue is not None:
            return self.queue == queue
        return all(labels.get(name) == value for name, value in self.labels.items())

    def words(self) -> str:
        """The scope in a sentence: `the jobs with the labels customer=x`."""
        if self.job_id is not None:
            return f"the job {self.job_id}"
        if self.queue is not None:
            return f"the queue {self.queue}"
        if self.labels:
            shown = ", ".join(f"{name}={value}" for name, value in sorted(self.labels.items()))
            return f"the jobs with the label{'s' if len(self.labels) > 1 else ''} {shown}"
        return "all jobs of the namespace"

    def __hash__(self) -> int:
        return hash((json.dumps(self.labels, sort_keys=True), self.queue, self.job_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A stop, as it was asked for."""

    stop_id: UUID
    namespace: str
    scope: StopScope = field(default=StopScope())
    begin: float
    """Unix seconds."""
    until: float
    """Unix seconds; without an end `OPEN_END_SECONDS` after the begin; of one that was lifted, when."""
    open_ended: bool = False
    """It lasts until a person lifts it."""
    meanwhile: Meanwhile = Meanwhile.HOLD
    reason: str
    by: str
    asked_at: float = 0.0
    """Given by the store."""
    lifted_by: str | None = None
    """The caller who ended it before its time."""

    def is_on(self, now: float) -> bool:
        """True if it is in force."""
        return self.begin <= now < self.until

    def is_over(self, now: float) -> bool:
        """True if it has ended, or was lifted before it began."""
        return now >= self.until

    def concerns(self, job_id: UUID, labels: Mapping[str, str], queue: str) -> bool:
        """Check whether a job of its namespace is concerned."""
        return self.scope.concerns(job_id, labels, queue)

    def closed_until(self, instant: float) -> float | None:
        """None if it is not in force at an instant; else when it ends."""
        return self.until if self.begin <= instant < self.until else None

    def sentence(self, instant: float) -> str:
        """The reason of the closure at an instant at which it closes."""
        del instant
        return f"stopped by {self.by}: {self.reason} ({self.scope.words()})"
