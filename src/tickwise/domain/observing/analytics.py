"""Analytics: ended runs counted and measured by a group, the largest groups one by one and the rest together.

    ended runs ──► key (job, label, hour, …) ──► the first `top` groups by `sort`, each a row
                                            ├──► runs without a key (no such label, no reason): one row
                                            └──► all other groups: one row, the remainder
    all of them ──► the total

Invariant: the rows add up to the total, in each of their counts. Durations are seconds from the start of the last
attempt to the end; lateness is seconds from the due time to the start, of runs with one attempt alone: where there were
several, the record has the start of the last one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tickwise.domain.lifecycle import RunState

HOUR_SECONDS: Final = 3_600.0
QUANTILES: Final = (0.5, 0.95, 0.99)


class GroupBy(StrEnum):
    """A property that runs are grouped by."""

    JOB = "job"
    LABEL = "label"
    NAMESPACE = "namespace"
    EXECUTOR = "executor"
    REASON = "reason"
    HOUR = "hour"
    """The hour, in UTC, in which they were due."""


class GroupSort(StrEnum):
    """The number by which groups stand, the largest first."""

    RUNS = "runs"
    FAILED = "failed"
    SECONDS = "seconds"
    """The time that their last attempts took together."""
    CPU = "cpu"
    """The processor time that their last attempts took together, as far as it was measured."""


class GroupKind(StrEnum):
    """A row of an analysis."""

    GROUP = "group"
    NONE = "none"
    """Runs without a key: their job has no such label, they ended without a reason, or no executor had them."""
    REST = "rest"
    """All groups beyond the first ones."""


class Coverage(StrEnum):
    """The runs that an analysis has read, of those that match."""

    EXACT = "exact"
    """All of them."""
    SAMPLED = "sampled"
    """A random share of the table: counts are estimates, sums too; quantiles are those of the sample."""
    NEWEST = "newest"
    """The newest of them: everything is exact from the time `since` on, and nothing before it is counted."""


class Spread(NamedTuple):
    """The spread of a quantity in seconds, or in bytes. A quantile lies between the two nearest values, by its
    distance."""

    runs: int
    """Those that have it."""
    p50: float
    p95: float
    p99: float
    mean: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """The runs of a row."""

    kind: GroupKind
    key: str | None
    """Of a GROUP: the id of its job or executor, the value of its label, its namespace or reason, or the first instant
    of its hour in Unix seconds; of others None."""
    name: str | None = None
    """The name of its job or executor, if it is on record."""
    runs: int
    states: Mapping[RunState, int] = field(default_factory=dict)
    retries: int = 0
    """Attempts after the first."""
    seconds: float = 0.0
    """The time that the last attempts took together."""
    duration: Spread | None = None
    lateness: Spread | None = None
    cpu_seconds: float = 0.0
    """The processor time that the last attempts took together, of those that were measured."""
    cpu: Spread | None = None
    """The processor time of the last attempt, of those that were measured."""
    memory: Spread | None = None
    """The peak of the memory of the last attempt, in bytes, of those that were measured."""

    @property
    def success_ratio(self) -> float | None:
        """Succeeded runs among those that succeeded or failed; None: there are none."""
        return self.good / self.judged if self.judged else None

    @property
    def good(self) -> int:
        """Runs that succeeded."""
        return self.states.get(RunState.SUCCESS, 0)

    @property
    def judged(self) -> int:
        """Runs that succeeded or failed."""
        return self.good + self.states.get(RunState.FAILED, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The answer to a question about many runs."""

    groups: Sequence[RunGroup]
    """GROUP rows by their order, then NONE and REST where there are such runs. By hour: the oldest first."""
    total: RunGroup
    """`kind` and `key` say nothing."""
    distinct: int
    """The groups that there are, the remainder's included; of a sample, those that it met."""
    coverage: Coverage
    rows: int
    """The runs that were read."""
    share: float = 1.0
    """Of SAMPLED: the share of the table that was read; each count is one of the sample divided by it."""
    since: float | None = None
    """The due time of the earliest run that was read; None: there was none. Of NEWEST: earlier ones are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """The parts of an ended run that an analysis reads."""

    key: str | None
    state: RunState
    due_at: float
    retries: int
    seconds: float | None
    lateness: float | None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of the ordered values lies, between the two nearest ones by its distance: as
    `percentile_cont` of SQL. Of one value at least."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    least, most = ordered[below], ordered[math.ceil(place)]
    return least + (most - least) * (place - below)


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values that are there; None of none."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    p50, p95, p99 = (percentile(ordered, share) for share in QUANTILES)
    return Spread(len(ordered), p50, p95, p99, sum(ordered) / len(ordered), ordered[-1])


def row_of_runs(kind: GroupKind, key: str | None, runs: Sequence[MeasuredRun]) -> RunGroup:
    """One row."""
    return RunGroup(
        kind=kind,
        key=key,
        runs=len(runs),
        states=Counter(run.state for run in runs),
        retries=sum(run.retries for run in runs),
        seconds=sum(run.seconds or 0.0 for run in runs),
        duration=spread_of(run.seconds for run in runs),
        lateness=spread_of(run.lateness for run in runs),
        cpu_seconds=sum(run.cpu_seconds or 0.0 for run in runs),
        cpu=spread_of(run.cpu_seconds for run in runs),
        memory=spread_of(run.memory_bytes for run in runs),
    )


def analysed(runs: Sequence[MeasuredRun], *, group_by: GroupBy, sort: GroupSort, top: int) -> Analysis:
    """Each of these runs is counted. Groups of one size stand by their key; hours by their time, and each has a row."""
    by_key = defaultdict[str | None, list[MeasuredRun]](list)
    for run in runs:
        by_key[run.key].append(run)
    without = by_key.pop(None, [])
    rows = [row_of_runs(GroupKind.GROUP, key, found) for key, found in by_key.items()]
    if group_by is GroupBy.HOUR:
        rows.sort(key=lambda row: float(row.key or 0.0))
        top = len(rows)
    else:
        rows.sort(key=lambda row: (-_size(row, sort), row.key or ""))
    rest = [run for row in rows[top:] for run in by_key[row.key]]
    shown = rows[:top]
    for kind, others in ((GroupKind.NONE, without), (GroupKind.REST, rest)):
        if others:
            shown.append(row_of_runs(kind, None, others))
    return Analysis(
        groups=shown,
        total=row_of_runs(GroupKind.GROUP, None, runs),
        distinct=len(rows),
        coverage=Coverage.EXACT,
        rows=len(runs),
        since=min((run.due_at for run in runs), default=None),
    )


def _size(row: RunGroup, sort: GroupSort) -> float:
    if sort is GroupSort.FAILED:
        return row.states.get(RunState.FAILED, 0)
    if sort is GroupSort.CPU:
        return row.cpu_seconds
    return row.runs if sort is GroupSort.RUNS else row.seconds
