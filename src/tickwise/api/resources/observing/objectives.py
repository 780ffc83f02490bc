"""`/objectives`: how the objectives for the starts of recurring jobs stand."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import LIMIT_SAID, Call, Endpoint, Reply, answer, cursor_id, page_links
from tickwise.api.resources.runs import Cursor
from tickwise.api.wire import API, Instant, time_or_none
from tickwise.control.observing.objectives import JobObjective, ObjectiveService
from tickwise.domain.observing.objectives import WINDOW_SECONDS, ObjectiveState


class ObjectivesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A page of objectives."""

    limit: Annotated[int, Meta(ge=1, le=50, description=LIMIT_SAID)] = 50
    cursor: Cursor | UnsetType = UNSET


class BurnView(msgspec.Struct, kw_only=True):
    """The speed at which a budget is used in a window before now."""

    window_seconds: float
    rate: float
    """1 uses up the budget of 30 days in 30 days."""


class ObjectiveView(msgspec.Struct, kw_only=True):
    """The objective of a job, and how it stands."""

    job_id: UUID
    name: str
    start_within_seconds: float
    ratio: float
    """The share of the runs that shall begin in time."""
    state: ObjectiveState
    window_seconds: float
    good: int
    """Runs of the window that began in time."""
    late: int
    """Runs that began later, wait beyond their time, or were skipped because nothing could start them in time."""
    budget_left: float
    """1: nothing of it is used; 0: all of it; below 0: more."""
    burn: list[BurnView]
    """Of 6 hours, an hour, 30 and 5 minutes."""
    since: Instant | None
    """Earlier runs are not counted, for there are too many. Null: all of the window that are on record are."""


def objective_view(found: JobObjective) -> ObjectiveView:
    """An objective as it is answered."""
    standing = found.standing
    return ObjectiveView(
        job_id=found.job.job_id,
        name=found.job.name,
        start_within_seconds=found.objective.within_seconds,
        ratio=found.objective.ratio,
        state=standing.state,
        window_seconds=WINDOW_SECONDS,
        good=standing.count.good,
        late=standing.count.late,
        budget_left=standing.budget_left,
        burn=[BurnView(window_seconds=seconds, rate=rate) for seconds, rate in standing.burn.items()],
        since=time_or_none(found.since),
    )


async def objectives_list(call: Call) -> Reply:
    """A page of objectives, by job."""
    said: ObjectivesQuery = call.query
    page = await call.control.objectives.page(call.principal, after=cursor_id(said.cursor), limit=said.limit)
    last = None if page.next is None else str(page.next)
    return answer(200, [objective_view(each) for each in page.objectives], headers=page_links(call, last))


OBJECTIVES: Final = (
    Endpoint(
        method="GET", path=f"{API}/objectives", control=ObjectiveService.page, name="listObjectives", tag="runs",
        summary="Objectives for the starts of recurring jobs: error budgets, and how fast they burn.",
        description="A job has one by `objective_start_seconds` and `objective_ratio`. It is `burning` while two "
        "windows do: an hour and 5 minutes at 14.4 times the even rate, or 6 hours and 30 minutes at 6 times, with two "
        "late runs at least.",
        handler=objectives_list, answers=(list[ObjectiveView],), query=ObjectivesQuery,
    ),
)  # fmt: skip
