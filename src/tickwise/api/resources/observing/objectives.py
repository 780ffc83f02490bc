"""`/objectives`: how the objectives for the starts of runs stand: of recurring jobs, and by priority or labels."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import LIMIT_SAID, Call, Endpoint, Reply, answer, cursor_id, page_links
from tickwise.api.problems import Headers
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor
from tickwise.api.wire import API, Instant, time_or_none
from tickwise.control.observing.objectives import ObjectiveBody, ObjectiveService, StandingObjective
from tickwise.domain.observing.objectives import WINDOW_SECONDS, ObjectiveState

_body: Final = msgspec.json.Decoder(ObjectiveBody)


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
    """An objective, and how it stands."""

    job_id: UUID | None
    """The job that has it; null: it is one by priority or labels."""
    objective_id: UUID | None
    """The id of one by priority or labels; null: it is that of a job."""
    name: str
    """Its own, or that of the job."""
    priority: int | None
    """Of one by priority; null: any."""
    labels: dict[str, str]
    """The jobs of one by labels have all of them."""
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
    """Earlier runs are not counted, for there are too many, or the objective was made then. Null: all of the window
    that are on record are."""


def objective_view(found: StandingObjective) -> ObjectiveView:
    """An objective as it is answered."""
    standing, group = found.standing, found.group
    return ObjectiveView(
        job_id=None if found.job is None else found.job.job_id,
        objective_id=None if group is None else group.objective_id,
        name=found.name,
        priority=None if group is None else group.priority,
        labels={} if group is None else dict(group.labels),
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
    """A page of objectives, by their id or that of their job."""
    said: ObjectivesQuery = call.query
    page = await call.control.objectives.page(call.principal, after=cursor_id(said.cursor), limit=said.limit)
    last = None if page.next is None else str(page.next)
    return answer(200, [objective_view(each) for each in page.objectives], headers=page_links(call, last))


async def objective_get(call: Call) -> Reply:
    """One by priority or labels."""
    return answer(200, objective_view(await call.control.objectives.get(call.principal, _objective_id(call))))


async def objective_add(call: Call) -> Reply:
    """Make one by priority or labels."""
    body = decode(_body, call.body, field_names(ObjectiveBody))
    view = objective_view(await call.control.objectives.add(call.principal, body))
    return answer(201, view, headers=_location(view.objective_id))


async def objective_remove(call: Call) -> Reply:
    """Remove one by priority or labels."""
    return answer(200, objective_view(await call.control.objectives.remove(call.principal, _objective_id(call))))


def _objective_id(call: Call) -> UUID:
    return call.uuid("objective_id", "objective")


def _location(objective: UUID | str | None) -> Headers:
    return [(b"location", f"{API}/objectives/{objective}".encode())]


def _location_of(body: bytes) -> Headers:
    """The header that belongs to a stored answer."""
    return _location(msgspec.json.decode(body)["objective_id"])


_WHAT: Final = (
    "It is `burning` while two windows do: an hour and 5 minutes at 14.4 times the even rate, or 6 hours and 30 "
    "minutes at 6 times, with two late runs at least."
)

OBJECTIVES: Final = (
    Endpoint(
        method="GET", path=f"{API}/objectives", control=ObjectiveService.page, name="listObjectives", tag="runs",
        summary="Objectives for starts: error budgets, and how fast they burn.",
        description="A job has one by `objective_start_seconds` and `objective_ratio`; others are made for a priority "
        f"or labels. {_WHAT} Callers with labels are shown those of jobs alone.",
        handler=objectives_list, answers=(list[ObjectiveView],), query=ObjectivesQuery,
    ),
    Endpoint(
        method="POST", path=f"{API}/objectives", control=ObjectiveService.add, name="createObjective", tag="runs",
        summary="Make an objective for all runs of the namespace, of a priority, or of jobs with labels.",
        description="It counts the runs that end from then on, and those that wait too long. It cannot be changed: "
        "remove it, and make another one. A namespace has 20 at most.",
        handler=objective_add, body=ObjectiveBody, answers=(ObjectiveView,), status=201, headers_of=_location_of,
        answer_headers=("Location",),
    ),
    Endpoint(
        method="GET", path=f"{API}/objectives/{{objective_id}}", control=ObjectiveService.get, name="getObjective",
        tag="runs", summary="One objective by priority or labels.", handler=objective_get, answers=(ObjectiveView,),
        refuses=(404,),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/objectives/{{objective_id}}", control=ObjectiveService.remove,
        name="removeObjective", tag="runs",
        summary="Remove an objective by priority or labels, with its counts; it is returned as it was.",
        handler=objective_remove, answers=(ObjectiveView,), refuses=(404,),
    ),
)  # fmt: skip
