"""Questions about many ended runs at once (`domain.observing.analytics`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.decision import SkipReason
from tickwise.domain.observing.analytics import GroupBy, GroupSort
from tickwise.domain.observing.objectives import StartCount
from tickwise.domain.selectors import Selector
from tickwise.ports.store.records import RunQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsQuery:
    """The runs, and how they are grouped."""

    runs: RunQuery
    """The filter: its states, window of due times, job, reason, executor, triggers, and what its job is (name, labels,
    queue, `within`). Only ended runs are counted. Its window has both ends. Page, ids, texts and origin are passed
    over."""
    group_by: GroupBy
    label: str | None = None
    """The name of the label, for `GroupBy.LABEL`."""
    sort: GroupSort = GroupSort.RUNS
    top: int = 20
    """The most groups that have a row of their own. By hour, each has one."""
    everywhere: bool = False
    """Of all namespaces, not only that of the filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsQuery:
    """The runs of some jobs, counted by whether they began in time."""

    jobs: Mapping[UUID, float]
    """Each with the seconds within which its runs should begin."""
    windows: Sequence[float]
    """Seconds before now: the runs that were due within each are counted."""
    each: int
    """The most ended runs of one job that are read, the newest first."""


class JobStarts(NamedTuple):
    """The counts of one job."""

    counts: Mapping[float, StartCount]
    """By window."""
    since: float | None
    """Earlier runs were not read, for there are more than `each`: nothing is said of them. None: all were."""


MAX_OBJECTIVES_LOOKED: Final = 1_000
"""Jobs that a look for those of certain labels reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveJobsQuery:
    """A page of recurring jobs that have an objective for their starts, by id."""

    namespace: str | None
    """None: all."""
    after: UUID | None = None
    """Those with a greater id."""
    within: Selector | None = None
    limit: int = 50


class ObjectiveJob(NamedTuple):
    """A recurring job whose definition may name an objective: a payload may look alike."""

    namespace: str
    job_id: UUID
    name: str
    definition: str


class ObjectiveJobs(NamedTuple):
    """A page of such jobs."""

    jobs: Sequence[ObjectiveJob]
    """Fewer than asked for, also before the last page, where labels were asked for."""
    beyond: UUID | None
    """The next page begins behind this job; None: there is none."""


LATE_REASONS: Final = (SkipReason.EXPIRED, SkipReason.MISFIRE)
"""Of runs that were skipped because nothing could start them in time. All others were not meant to begin."""
