"""Watches the objectives of jobs: tells of each whose budget burns too fast, once a minute for as long as it does.

    jobs with an objective, by id, a page at a time ──► counts of their starts ──► BURNING ──► `tell`

Each scheduler does it. Invariant: an objective may be told of by several schedulers, and several times, so `tell` keeps
one alert of a job. A crash loses a page, which the next round has again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from tickwise.domain.observing.objectives import ObjectiveStanding, ObjectiveState, StartObjective
from tickwise.ports.store import ObjectiveJobsQuery, Searches
from tickwise.roles.shared.objective_standings import objective_of, standings

PAGE: Final = 50
PAUSE_SECONDS: Final = 60.0
OF_EACH: Final = 2_000
"""Ended runs of one job that are read: those of six hours, the longest window that burns, at five a minute."""

logger = structlog.get_logger("tickwise.scheduler")


class BurningObjective(NamedTuple):
    """A job whose starts use up their budget too fast."""

    namespace: str
    job_id: UUID
    job_name: str
    objective: StartObjective
    standing: ObjectiveStanding


TellBurning = Callable[[Sequence[BurningObjective]], Awaitable[None]]
"""Told of the burning objectives of each page, of all namespaces."""


async def log_burning(burning: Sequence[BurningObjective]) -> None:
    """Note them in the log of the process."""
    for each in burning:
        logger.warning(
            "objective_burning",
            namespace=each.namespace,
            job_id=str(each.job_id),
            budget_left=round(each.standing.budget_left, 4),
            late=each.standing.count.late,
        )


class ObjectiveWatch:
    """The watch of one scheduler."""

    def __init__(self, searches: Searches, tell: TellBurning = log_burning) -> None:
        self._searches = searches
        self._tell = tell
        self._after: UUID | None = None

    async def step(self) -> float:
        """Look at one page. Returns the seconds until the next one: 0 while there are more in this round."""
        rows = await self._searches.jobs(ObjectiveJobsQuery(namespace=None, after=self._after, limit=PAGE))
        found = await standings(self._searches, rows, each=OF_EACH)
        burning = [
            BurningObjective(job.namespace, job.job_id, job.name, objective, found[job.job_id].standing)
            for job in rows
            if (objective := objective_of(job)) is not None
            and found[job.job_id].standing.state is ObjectiveState.BURNING
        ]
        if burning:
            await self._tell(burning)
        self._after = rows[-1].job_id if len(rows) >= PAGE else None
        return PAUSE_SECONDS if self._after is None else 0.0
