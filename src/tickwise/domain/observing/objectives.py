"""Objectives for starts: the share of a job's runs that begin within a time of their due time, and the budget for those
that do not.

    runs of the last 30 days ──► good, late ──► budget left = 1 - late share / allowed share
    long and short window ──► burn rate = late share / allowed share; both fast ──► BURNING

The allowed share is 1 - ratio. A burn rate of 1 uses up the budget in just the window; 14.4 uses 2 % of it in an hour,
6 uses 5 % in six hours. Both windows of a pair must burn: the long one says that it matters, the short one that it
still goes on.

Invariant: one late run is no burn, however rarely its job runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

MINUTE: Final = 60.0
HOUR: Final = 3_600.0
WINDOW_SECONDS: Final = 30 * 24 * HOUR
"""The time that a budget is for."""
LATE_LEAST: Final = 2
"""Late runs in the long window of a pair, below which it does not burn."""


class BurnPair(NamedTuple):
    """Two windows that tell together whether a budget burns too fast."""

    long_seconds: float
    short_seconds: float
    rate: float
    """From this burn rate on."""


PAIRS: Final = (BurnPair(HOUR, 5 * MINUTE, 14.4), BurnPair(6 * HOUR, 30 * MINUTE, 6.0))
WINDOWS: Final = (WINDOW_SECONDS, *sorted({each for pair in PAIRS for each in pair[:2]}, reverse=True))
"""All windows, the longest first."""


class ObjectiveState(StrEnum):
    """The state of an objective."""

    MET = "met"
    BURNING = "burning"
    """The budget burns too fast now."""
    EXHAUSTED = "exhausted"
    """No budget is left, and it does not burn too fast now."""
    UNKNOWN = "unknown"
    """Nothing was due."""


class StartCount(NamedTuple):
    """The runs that were due in a window."""

    good: int
    late: int
    """They began too late, wait still, or were skipped because nothing could start them in time."""

    @property
    def late_share(self) -> float:
        """Of all of them; 0 of none."""
        return self.late / (self.good + self.late) if self.late else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartObjective:
    """The wish: this share of the runs begins within this time of its due time."""

    within_seconds: float
    ratio: float
    """Above 0 and below 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObjective(StartObjective):
    """An objective for the starts of all runs of a namespace, of one priority, of jobs with certain labels, or both."""

    objective_id: UUID
    namespace: str
    name: str
    priority: int | None
    """None: any."""
    labels: Mapping[str, str]
    """The jobs have all of them; empty: any job."""
    created_at: float
    created_by: str

    def concerns(self, priority: int, labels: Mapping[str, str]) -> bool:
        """Check whether the runs of a job with this priority and these labels count."""
        return self.priority in (None, priority) and self.labels.items() <= labels.items()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveStanding:
    """The standing of an objective."""

    state: ObjectiveState
    count: StartCount
    """Of the 30 days."""
    budget_left: float
    """1: nothing of it is used; 0: all; below 0: more than all."""
    burn: Mapping[float, float]
    """The burn rate of each shorter window, by its seconds."""


def standing_of(objective: StartObjective, counts: Mapping[float, StartCount]) -> ObjectiveStanding:
    """The standing of an objective by the counts of `WINDOWS`."""
    allowed = 1.0 - objective.ratio
    # Rounded, so that 6 of 100 late is 6 times the share of 1 of 100.
    burn = {seconds: round(counts[seconds].late_share / allowed, 9) for seconds in WINDOWS[1:]}
    count = counts[WINDOW_SECONDS]
    left = round(1.0 - count.late_share / allowed, 9)
    burning = any(
        counts[pair.long_seconds].late >= LATE_LEAST
        and burn[pair.long_seconds] >= pair.rate
        and burn[pair.short_seconds] >= pair.rate
        for pair in PAIRS
    )
    if burning:
        state = ObjectiveState.BURNING
    elif count.good + count.late == 0:
        state = ObjectiveState.UNKNOWN
    else:
        state = ObjectiveState.MET if left > 0 else ObjectiveState.EXHAUSTED
    return ObjectiveStanding(state=state, count=count, budget_left=left, burn=burn)
