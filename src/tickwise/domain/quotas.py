"""Quotas: how much one namespace may have and do. None: no quota.

Set by an administrator of the installation, stored with the namespace, and enforced by the store in the transaction
that adds; `concurrent_runs` in the one that starts. What ends makes room again; a day of runs begins at midnight UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from tickwise.domain.rules.confinement import Isolation

DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The quotas of a namespace."""

    jobs: int | None = None
    """Active definitions that last: of jobs that recur, run on demand, have a key or an id of the client's own, or are
    due more than a day ahead. Others are over within a day, and count as a run."""
    runs_per_day: int | None = None
    """Runs that are asked for in a day of UTC: one-time jobs, runs now, retries, backfills, fires of schedules."""
    bytes: int | None = None
    """Of the definitions that count as jobs, and of all versions of stored tasks."""
    lanes: int | None = None
    """Combinations of queue, priority and labels. Those of the default queue and priority without labels of people
    count once a job has used them, and are never refused."""
    calendars: int | None = None
    windows: int | None = None
    concurrent_runs: int | None = None
    """Runs that are RUNNING at once. More wait for their start (`domain.rules.limits`)."""
    requests_per_second: float | None = None
    """In place of `namespace_requests_per_second_most`."""
    min_isolation: str | None = None
    """The least isolation of `python` and `shell` tasks: `sandbox` or `container`; None or `process`: none. Runs of
    jobs below it are claimed by no executor, and wait."""

    @property
    def least_isolation(self) -> Isolation:
        """The least isolation of tasks of the namespace that are processes of their own."""
        return Isolation.PROCESS if self.min_isolation is None else Isolation(self.min_isolation)

    def __bool__(self) -> bool:
        return any(getattr(self, name) is not None for name in QUOTA_NAMES)

    def said(self) -> dict[str, Any]:
        """Those that are set, by their names, as they are stored."""
        return {name: value for name in QUOTA_NAMES if (value := getattr(self, name)) is not None}

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Quotas:
        """The quotas of what is stored. One that a later version has added is left to that version."""
        return cls(**{name: value for name, value in said.items() if name in QUOTA_NAMES})


QUOTA_NAMES: Final = tuple(each.name for each in fields(Quotas))
NO_QUOTAS: Final = Quotas()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """The use of a namespace."""

    jobs: int
    runs_today: int | None
    """None: nobody counts them, because there is no quota of runs."""
    bytes: int
    lanes: int
    calendars: int
    windows: int
    concurrent_runs: int | None
    """None: nobody counts them, because there is no quota of them."""
    is_estimate: bool = False
    """`jobs` and `bytes` are grown from a sample of a large table. Quotas are enforced by exact counts."""
