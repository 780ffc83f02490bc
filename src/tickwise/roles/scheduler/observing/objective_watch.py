"""Watches the objectives: notes each whose budget burns too fast, and when it does no more.

    jobs with an objective, and objectives by priority or labels, a page at a time
      └──► counts of their starts ──► BURNING ──► event for the rules

Each scheduler does it. Invariant: an event has a name, so several schedulers note it once; an alert is one while it is
not closed, so several events of one burn are one alert. A crash loses a page, which the next round has again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from tickwise.domain.notices.rules import NoticeEvent
from tickwise.domain.observing.objectives import GroupObjective, ObjectiveStanding, ObjectiveState, StartObjective
from tickwise.ports.clock import Clock
from tickwise.ports.store import AlertStore, NotedEvent, ObjectiveJobsQuery, ObjectiveStore, Searches
from tickwise.roles.shared.objective_standings import group_standings, objective_of, standings

PAGE: Final = 50
PAUSE_SECONDS: Final = 60.0
FOLDS_MOST: Final = 20
"""Folds of one step, of 10,000 counts each."""
BURN_MINUTES: Final = 60
"""A budget that goes on burning is an event again after so long."""
OF_EACH: Final = 2_000
"""Ended runs of one job that are read: those of six hours, the longest window that burns, at five a minute."""

logger = structlog.get_logger("tickwise.scheduler")


class WatchedObjective(NamedTuple):
    """An objective, and how it stands."""

    namespace: str
    job_id: UUID | None
    """None: it is a `GroupObjective`."""
    name: str
    objective: StartObjective
    standing: ObjectiveStanding


TellObjectives = Callable[[Sequence[WatchedObjective], Sequence[WatchedObjective]], Awaitable[None]]
"""Told of each step: those that burn, and the others; of all namespaces."""


class ObjectiveNotes:
    """Notes for alerts that the budget of a job burns, or that it does no more."""

    def __init__(self, alerts: AlertStore, clock: Clock) -> None:
        self._alerts = alerts
        self._clock = clock

    async def tell(self, burning: Sequence[WatchedObjective], calm: Sequence[WatchedObjective]) -> None:
        """Note them, and those that burn also in the log of the process."""
        minute = int(self._clock.now() // PAUSE_SECONDS)
        noted = [_event(each, NoticeEvent.OBJECTIVE, minute // BURN_MINUTES, _burning(each)) for each in burning]
        # An alert that comes from an event that is not judged yet stands by the next round.
        over = await self._alerted(calm)
        noted += [_event(each, NoticeEvent.RECOVERY, minute, "its error budget burns no more") for each in over]
        await self._alerts.note(noted)
        for each in burning:
            logger.warning(
                "objective_burning",
                namespace=each.namespace,
                objective_id=str(_id_of(each)),
                budget_left=round(each.standing.budget_left, 4),
                late=each.standing.count.late,
            )

    async def _alerted(self, calm: Sequence[WatchedObjective]) -> list[WatchedObjective]:
        """Those of which an alert stands."""
        found = list[WatchedObjective]()
        for namespace in dict.fromkeys(each.namespace for each in calm):
            mine = {_subject(each): each for each in calm if each.namespace == namespace}
            standing = await self._alerts.standing(namespace, mine.keys())
            found += [mine[subject] for subject in dict.fromkeys(each.alert.subject for each in standing)]
        return found


def _subject(each: WatchedObjective) -> str:
    """The objective and not the job, for a recovery of the one is none of the other."""
    return f"objective/{_id_of(each)}"


def _id_of(each: WatchedObjective) -> UUID | None:
    return each.objective.objective_id if isinstance(each.objective, GroupObjective) else each.job_id


def _event(each: WatchedObjective, event: NoticeEvent, moment: int, sentence: str) -> NotedEvent:
    subject = _subject(each)
    return NotedEvent(each.namespace, event, f"{subject}/{event}/{moment}", subject, each.name, sentence, each.job_id)


def _burning(each: WatchedObjective) -> str:
    count, left = each.standing.count, max(each.standing.budget_left, 0.0)
    return (
        f"{count.late} of {count.late + count.good} runs began more than {each.objective.within_seconds:g} s after "
        f"they were due; {left:.0%} of the error budget is left"
    )


class ObjectiveWatch:
    """The watch of one scheduler."""

    def __init__(self, searches: Searches, objectives: ObjectiveStore, tell: TellObjectives) -> None:
        self._searches = searches
        self._objectives = objectives
        self._tell = tell
        self._jobs = _RoundPlace()
        self._groups = _RoundPlace()

    async def step(self) -> float:
        """Look at one page of each kind. Returns the seconds until the next one: 0 while there are more in this
        round."""
        for _ in range(FOLDS_MOST):
            if not await self._objectives.fold():
                break
        burning, calm = list[WatchedObjective](), list[WatchedObjective]()
        for watched in (*await self._of_jobs(self._jobs), *await self._of_groups(self._groups)):
            (burning if watched.standing.state is ObjectiveState.BURNING else calm).append(watched)
        if burning or calm:
            await self._tell(burning, calm)
        if not (self._jobs.is_over and self._groups.is_over):
            return 0.0
        self._jobs, self._groups = _RoundPlace(), _RoundPlace()
        return PAUSE_SECONDS

    async def _of_jobs(self, place: _RoundPlace) -> list[WatchedObjective]:
        if place.is_over:
            return []
        page = await self._objectives.jobs(ObjectiveJobsQuery(namespace=None, after=place.after, limit=PAGE))
        place.move(page.beyond)
        found = await standings(self._searches, page.jobs, each=OF_EACH)
        return [
            WatchedObjective(job.namespace, job.job_id, job.name, objective, found[job.job_id].standing)
            for job in page.jobs
            if (objective := objective_of(job)) is not None
        ]

    async def _of_groups(self, place: _RoundPlace) -> list[WatchedObjective]:
        if place.is_over:
            return []
        page = await self._objectives.find(None, after=place.after, limit=PAGE)
        place.move(page[-1].objective_id if len(page) >= PAGE else None)
        found = await group_standings(self._objectives, page)
        return [
            WatchedObjective(each.namespace, None, each.name, each, found[each.objective_id])
            for each in page
            if each.objective_id in found
        ]


class _RoundPlace:
    """The place in a round through the objectives of one kind."""

    def __init__(self) -> None:
        self.after: UUID | None = None
        self.is_over = False

    def move(self, beyond: UUID | None) -> None:
        """Go on behind this id; None: that was all."""
        self.after, self.is_over = beyond, beyond is None
