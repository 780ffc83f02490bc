"""`Searches`: the read model, apart from the store that decides.

The store answers every search itself. A replica of it, or another index, may answer in its place: its rows may lag
behind, so no decision goes by them. The package states the promises that hold for every method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self
from uuid import UUID

from tickwise.domain.observing.analytics import Analysis
from tickwise.domain.selectors import Selector
from tickwise.ports.paging import Page
from tickwise.ports.store.analytics import AnalyticsQuery, JobStarts, StartsQuery
from tickwise.ports.store.definitions import JobQuery, JobRow
from tickwise.ports.store.letters import LetterQuery, LetterRow, OperationRow
from tickwise.ports.store.planned import PlannedQuery
from tickwise.ports.store.records import RunQuery, RunRow, Tally

MAX_TIMERS_LOOKED: Final = 1_000
"""The timers that a look at the next jobs reads. A namespace of no more jobs is read whole, by its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRunsQuery:
    """The latest runs of each of some jobs."""

    namespace: str
    jobs: Sequence[UUID]
    """As many as a page has: each costs a look."""
    each: int
    """The most runs of one job."""
    until: float
    """Now: a planned skip of a later time is left out."""
    within: Selector | None = None
    """Of the jobs of this selector alone; None: of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsOfQuery:
    """Those of these jobs that are in the namespace, and within the selector."""

    namespace: str
    jobs: Sequence[UUID]
    within: Selector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingQuery:
    """Jobs by the time at which they run next: that of a timer that is due by itself, or of a run that nobody holds.

    Among the timers of many namespaces the first `MAX_TIMERS_LOOKED` of the window are looked at, so jobs of a large
    namespace may be missing behind those of others."""

    namespace: str
    after: float | None = None
    """From this instant on, …"""
    before: float | None = None
    """… and to before this one."""
    within: Selector | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingQuery:
    """Jobs or runs by the end of their ids, as lists show them: among what is live, and what is not older than a time.
    No index has this, so all of those are looked at."""

    namespace: str
    ending: str
    """The last characters of an id as it is written, in lower case."""
    since: float
    """One-time jobs that were made, and ended runs whose nominal time is, at this instant or later."""
    within: Selector | None = None
    limit: int = 10


COUNT_LOOKS: Final = 12
"""The looks of one count that may pause. Six find 10,000 jobs if all match."""


class SearchCount(int):
    """The number of hits of a search, as far as it was counted."""

    is_whole: bool
    """All rows were looked at, and fewer match than the query's `limit`. False: there may be more."""

    def __new__(cls, number: int, *, is_whole: bool) -> Self:
        """A number, and whether that is all."""
        made = super().__new__(cls, number)
        made.is_whole = is_whole
        return made


class Searches(Protocol):
    """Pages of jobs, runs, dead letters and operations, the tallies of runs, and bounded looks at many jobs."""

    async def jobs(self, query: JobQuery | JobsOfQuery | ComingQuery | PlannedQuery | EndingQuery) -> Page[JobRow]:
        """Up to `limit` jobs. Of a `JobsOfQuery` those that are there, in any order; of a `ComingQuery` the earliest
        first; of a `PlannedQuery` a `PlannedPage`. Raises `Invalid` for a search that would take too long, and says
        what narrows it."""
        ...

    async def runs(self, query: RunQuery | LatestRunsQuery | EndingQuery) -> Page[RunRow]:
        """Up to `limit` runs. Of a `LatestRunsQuery` those of a job together, newest first, without result, definition
        and error. Raises `Invalid` for a search that would take too long, and says what narrows it."""
        ...

    async def tally(self, namespace: str | None, since: float, until: float) -> Sequence[Tally]:
        """The number of runs that came on record in each hour that begins in this time (`until` excluded), oldest
        first, at most `MAX_TALLIES`; None: of all namespaces. Counted in the transaction that puts a run on record, so
        it is exact, costs the same however many there are, and stays when they are past their time. Nothing is said of
        states and hours in which nothing came."""
        ...

    async def analyse(self, query: AnalyticsQuery) -> Analysis:
        """Count and measure ended runs by groups, in bounded time however many match: where they are too many to read,
        the answer is of a sample or of the newest, and says so (`Coverage`). Raises `Invalid` if neither was found in
        time."""
        ...

    async def starts(self, query: StartsQuery) -> Mapping[UUID, JobStarts]:
        """Count by their starts the runs of each of these jobs that were due in each window before now. Good ones began
        in time; late ones began later, are waiting beyond their time, or were skipped for a reason of `LATE_REASONS`.
        Those that ended otherwise without a start, and those that are waiting in time, are not counted."""
        ...

    async def letters(self, query: LetterQuery) -> Page[LetterRow]:
        """Up to `limit` letters."""
        ...

    async def operations(
        self,
        namespace: str,
        before: UUID | None,
        limit: int,
        *,
        kinds: Sequence[str] | None = None,
        bytes_most: int | None = None,
    ) -> Page[OperationRow]:
        """Newest first by id (they begin with the milliseconds of their making); only those of `kinds`, if that is
        given. Cut before their requests and problems hold more than `bytes_most`."""
        ...

    async def count(self, query: JobQuery | RunQuery | LetterQuery) -> SearchCount:
        """The number of hits of a search, counted to its `limit` at most, of any size; of one that may pause, those of
        `COUNT_LOOKS` looks. Raises `Invalid` as the search does."""
        ...
