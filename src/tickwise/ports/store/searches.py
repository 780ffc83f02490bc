"""`Searches`: the read model, apart from the store that decides.

The store answers every search itself. A replica of it, or another index, may answer in its place: its rows may lag
behind, so no decision goes by them. The package states the promises that hold for every method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from tickwise.domain.selectors import Selector
from tickwise.ports.paging import Page
from tickwise.ports.store.definitions import JobQuery, JobRow
from tickwise.ports.store.letters import LetterQuery, LetterRow, OperationRow
from tickwise.ports.store.planned import PlannedJobs, PlannedQuery
from tickwise.ports.store.records import RunQuery, RunRow, Tally


class Searches(Protocol):
    """Pages of jobs, runs, dead letters and operations, and the tallies of runs."""

    async def jobs(self, query: JobQuery) -> Page[JobRow]:
        """Up to `limit` jobs. Raises `Invalid` for a search that would take too long, and says what narrows it."""
        ...

    async def runs(self, query: RunQuery) -> Page[RunRow]:
        """Up to `limit` runs. Raises `Invalid` for a search that would take too long, and says what narrows it."""
        ...

    async def tally(self, namespace: str | None, since: float, until: float) -> Sequence[Tally]:
        """The number of runs that came on record in each hour that begins in this time (`until` excluded), oldest
        first, at most `MAX_TALLIES`; None: of all namespaces. Counted in the transaction that puts a run on record, so
        it is exact, costs the same however many there are, and stays when they are past their time. Nothing is said of
        states and hours in which nothing came."""
        ...

    async def planned(self, query: PlannedQuery) -> PlannedJobs:
        """The jobs that fire next. A timer that is held back without an end is due never."""
        ...

    async def calendar_jobs(
        self,
        namespace: str,
        calendar: str,
        limit: int,
        *,
        within: Selector | None = None,
        bytes_most: int | None = None,
    ) -> Page[JobRow]:
        """Up to `limit` jobs that go by a calendar and are not CANCELLED, the newest by id first; of the jobs of
        `within` alone, if it is given. Cut before their definitions hold more than `bytes_most`."""
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

    async def count(self, query: JobQuery | RunQuery | LetterQuery) -> int:
        """The number of hits of a search, counted to its `limit` at most, of any size. Raises `Invalid` as the
        search does."""
        ...
