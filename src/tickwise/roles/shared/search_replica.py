"""Searches on a replica of the store: what people list and count, and nothing that anything is decided by.

    GET /jobs, /runs, … ──► Replica ──► the replica   may lag behind; asked first
                                   └──► the primary   while the replica is away

Invariant: only the methods below ever reach the replica. What reads one thing, or reads before it writes, asks the
primary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

import structlog

from tickwise.domain.errors import Misconfigured, Unavailable
from tickwise.domain.observing.analytics import Analysis
from tickwise.ports.clock import Clock
from tickwise.ports.store import (
    AnalyticsQuery,
    ComingQuery,
    EndingQuery,
    JobQuery,
    JobRow,
    JobsOfQuery,
    JobStarts,
    LatestRunsQuery,
    LetterQuery,
    LetterRow,
    OperationRow,
    Page,
    PlannedQuery,
    RunQuery,
    RunRow,
    SearchCount,
    Searches,
    StartsQuery,
    Tally,
)

AWAY_SECONDS: Final = 5.0
"""The time for which the primary is asked at once after the replica was found away."""
SLOW_SECONDS: Final = 2.0
"""A search that the replica gave up after this long is no quicker on the primary, which has other work."""

T = TypeVar("T")

logger = structlog.get_logger("tickwise.searching")


class Replica:
    """Searches that ask a replica as long as it answers."""

    def __init__(
        self, replica: Searches, primary: Searches, clock: Clock, opens: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`opens` connects the replica. Called before its first search: nothing waits for a replica at the start."""
        self._replica = replica
        self._primary = primary
        self._clock = clock
        self._opens = opens
        self._opening = asyncio.Lock()
        self._away_until = float("-inf")
        self._told = False

    async def jobs(self, query: JobQuery | JobsOfQuery | ComingQuery | PlannedQuery | EndingQuery) -> Page[JobRow]:
        """See `Searches`."""
        return await self._ask(lambda searches: searches.jobs(query))

    async def runs(self, query: RunQuery | LatestRunsQuery | EndingQuery) -> Page[RunRow]:
        """See `Searches`."""
        return await self._ask(lambda searches: searches.runs(query))

    async def tally(self, namespace: str | None, since: float, until: float) -> Sequence[Tally]:
        """See `Searches`."""
        return await self._ask(lambda searches: searches.tally(namespace, since, until))

    async def analyse(self, query: AnalyticsQuery) -> Analysis:
        """See `Searches`."""
        return await self._ask(lambda searches: searches.analyse(query))

    async def starts(self, query: StartsQuery) -> Mapping[UUID, JobStarts]:
        """See `Searches`."""
        return await self._ask(lambda searches: searches.starts(query))

    async def letters(self, query: LetterQuery) -> Page[LetterRow]:
        """See `Searches`."""
        return await self._ask(lambda searches: searches.letters(query))

    async def operations(
        self,
        namespace: str,
        before: UUID | None,
        limit: int,
        *,
        kinds: Sequence[str] | None = None,
        bytes_most: int | None = None,
    ) -> Page[OperationRow]:
        """See `Searches`."""
        return await self._ask(
            lambda searches: searches.operations(namespace, before, limit, kinds=kinds, bytes_most=bytes_most)
        )

    async def count(self, query: JobQuery | RunQuery | LetterQuery) -> SearchCount:
        """See `Searches`."""
        return await self._ask(lambda searches: searches.count(query))

    async def _opened(self) -> None:
        if self._opens is None:
            return
        async with self._opening:
            if self._opens is not None:
                await self._opens()
                self._opens = None

    async def _ask(self, look: Callable[[Searches], Awaitable[T]]) -> T:
        began = self._clock.monotonic()
        if began < self._away_until:
            return await look(self._primary)
        try:
            await self._opened()
            found = await look(self._replica)
        except (Unavailable, Misconfigured) as away:  # its schema may be behind, as its rows may
            now = self._clock.monotonic()
            if now - began >= SLOW_SECONDS:
                raise
            self._away_until = now + AWAY_SECONDS
            if not self._told:
                self._told = True
                logger.warning("search_replica_away", detail=away.detail)
        else:
            if self._told:
                self._told = False
                logger.info("search_replica_back")
            return found
        return await look(self._primary)
