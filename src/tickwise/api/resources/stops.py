"""`/stops`: for a time, nothing of a namespace, of jobs with certain labels, of a queue or of a job starts."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, cursor_id, page_links
from tickwise.api.problems import Headers
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.wire import API, Instant, RunView, run_view, time_of
from tickwise.control.stops.service import MadeStop, StopBody, StopService
from tickwise.domain.stops import Meanwhile, Stop

_body: Final = msgspec.json.Decoder(StopBody)


class StopsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The stops of the list, and the page."""

    standing: Annotated[bool, Meta(description="Only stops that are in force or in the future.")] = True
    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class StopView(msgspec.Struct, kw_only=True):
    """A stop."""

    stop_id: UUID
    scope: str
    """The scope in words."""
    all: bool
    labels: dict[str, str]
    queue: str | None
    job_id: UUID | None
    reason: str
    start: Instant = msgspec.field(name="from")
    until: Instant | None
    """Null: until it is lifted."""
    meanwhile: Meanwhile
    in_force: bool
    """It holds back now."""
    over: bool
    by: str
    asked_at: Instant
    lifted_by: str | None
    """The caller who ended it before its time, at `until`."""


class StopMade(msgspec.Struct, kw_only=True):
    """A stop that is stored."""

    stop: StopView
    cancel_operation: UUID | None
    """The operation that cancels what runs, if that was asked for."""


class FireHitView(msgspec.Struct, kw_only=True):
    """A job with fires in the stop."""

    job_id: UUID
    name: str
    first_fire: Instant
    fires: int


class StopImpactView(msgspec.Struct, kw_only=True):
    """The work that a stop would hold back."""

    stop: StopView
    """The stop as it would be; its id is given when it is made."""
    jobs: int
    """Jobs with a fire in the stop; of a stop without an end, in its first day."""
    fires: int
    """The fires of these jobs in that time."""
    more: bool
    """There are more jobs than were looked at (1,000)."""
    waiting: int
    """Runs that wait now, 10,000 at most."""
    running: int
    """Runs that an executor holds or runs now, 10,000 at most."""
    sample: list[FireHitView]
    """The first jobs, by the time of their first fire in the stop. Empty without the permission `jobs:read`."""
    going: list[RunView]
    """The newest of the runs that are held or run. Empty without the permission `runs:read`."""


def stop_view(stop: Stop, now: float) -> StopView:
    """A stop as it is answered."""
    scope = stop.scope
    return StopView(
        stop_id=stop.stop_id,
        scope=scope.words(),
        all=scope.queue is None and not scope.is_of_jobs,
        labels=dict(scope.labels),
        queue=scope.queue,
        job_id=scope.job_id,
        reason=stop.reason,
        start=time_of(stop.begin),
        until=None if stop.open_ended and stop.lifted_by is None else time_of(stop.until),
        meanwhile=stop.meanwhile,
        in_force=stop.is_on(now),
        over=stop.is_over(now),
        by=stop.by,
        asked_at=time_of(stop.asked_at),
        lifted_by=stop.lifted_by,
    )


async def stops_list(call: Call) -> Reply:
    """A page of stops."""
    said: StopsQuery = call.query
    rows = await call.control.stops.page(
        call.principal, standing=said.standing, before=cursor_id(said.cursor), limit=said.limit + 1
    )
    page, now = rows[: said.limit], await call.control.context.time.now()
    last = str(page[-1].stop_id) if len(rows) > said.limit else None
    return answer(200, [stop_view(stop, now) for stop in page], headers=page_links(call, last))


async def stop_get(call: Call) -> Reply:
    """One."""
    stop = await call.control.stops.get(call.principal, call.uuid("stop_id", "stop"))
    return answer(200, stop_view(stop, await call.control.context.time.now()))


async def stop_preview(call: Call) -> Reply:
    """The work that it would hold back."""
    body = decode(_body, call.body, field_names(StopBody))
    found = await call.control.stops.preview(call.principal, body)
    view = StopImpactView(
        stop=stop_view(found.stop, found.stop.begin),
        jobs=found.jobs,
        fires=found.fires,
        more=found.more,
        waiting=found.waiting,
        running=found.running,
        sample=[
            FireHitView(job_id=hit.job_id, name=hit.name, first_fire=time_of(hit.first), fires=hit.fires)
            for hit in found.hits
        ],
        going=[run_view(row) for row in found.going],
    )
    return answer(200, view)


async def stop_add(call: Call) -> Reply:
    """Stop it."""
    body = decode(_body, call.body, field_names(StopBody))
    made: MadeStop = await call.control.stops.add(call.principal, body)
    now = max(await call.control.context.time.now(), made.stop.asked_at)
    view = StopMade(stop=stop_view(made.stop, now), cancel_operation=made.cancels)
    return answer(201, view, headers=_location(made.stop.stop_id))


async def stop_lift(call: Call) -> Reply:
    """End it."""
    stop = await call.control.stops.lift(call.principal, call.uuid("stop_id", "stop"))
    now = await call.control.context.time.now()
    return answer(200, stop_view(stop, max(now, stop.until) if stop.lifted_by is not None else now))


def _location(stop: UUID) -> Headers:
    return [(b"location", f"{API}/stops/{stop}".encode())]


def _location_of(body: bytes) -> Headers:
    """The header that belongs to a stored answer."""
    return _location(msgspec.json.decode(body)["stop"]["stop_id"])


_WHAT: Final = (
    "The scope is one of `labels`, `queue`, `job_id`, or `all` for the whole namespace. While the stop is in force no "
    "run of it is claimed; runs that an executor holds and has not begun are given back, running ones go on. It ends "
    "by itself, after an hour unless `until` says otherwise."
)

STOPS: Final = (
    Endpoint(
        method="GET", path=f"{API}/stops", control=StopService.page, name="listStops", tag="stops",
        summary="List stops, newest first: those in force or in the future; `standing=false`: all of the last 90 days.",
        handler=stops_list, answers=(list[StopView],), query=StopsQuery,
    ),
    Endpoint(
        method="POST", path=f"{API}/stops", control=StopService.add, name="createStop", tag="stops",
        summary="Stop a namespace, jobs with certain labels, a queue or a job for a time.", description=_WHAT,
        handler=stop_add, body=StopBody, answers=(StopMade,), status=201, headers_of=_location_of,
        answer_headers=("Location",), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/stops:preview", control=StopService.preview, name="previewStop", tag="stops",
        summary="Find what a stop would hold back: jobs with their fires, waiting and running runs.",
        handler=stop_preview, body=StopBody, answers=(StopImpactView,), refuses=(404,), previews=True,
    ),
    Endpoint(
        method="GET", path=f"{API}/stops/{{stop_id}}", control=StopService.get, name="getStop", tag="stops",
        summary="One stop.", handler=stop_get, answers=(StopView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/stops/{{stop_id}}/lift", control=StopService.lift, name="liftStop", tag="stops",
        summary="End a stop now; one that is over stays as it is.",
        handler=stop_lift, answers=(StopView,), refuses=(404,),
    ),
)  # fmt: skip
