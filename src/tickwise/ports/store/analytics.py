"""Questions about many ended runs at once (`domain.observing.analytics`)."""

from __future__ import annotations

from dataclasses import dataclass

from tickwise.domain.observing.analytics import GroupBy, GroupSort
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
