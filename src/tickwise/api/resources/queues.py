"""`/queues`: what waits and runs in each; hold, resume and drain them."""

from __future__ import annotations

from typing import Final

import msgspec

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API, Instant, time_or_none
from tickwise.control.bodies import QueueDrainBody, QueueHoldBody
from tickwise.control.runs.queues import QueueService
from tickwise.ports.store import QueueHold, QueueRow

_hold: Final = msgspec.json.Decoder(QueueHoldBody)
_drain: Final = msgspec.json.Decoder(QueueDrainBody)


class HoldView(msgspec.Struct, kw_only=True):
    """A time in which a queue stands still."""

    start: Instant | None = msgspec.field(name="from")
    until: Instant | None
    """Null: until a person resumes the queue."""
    reason: str | None
    by: str
    asked_at: Instant | None


class QueueView(msgspec.Struct, kw_only=True):
    """A queue as it is now."""

    queue: str
    held: bool
    """It stands still now."""
    hold: HoldView | None
    """The hold that there is, or that will be."""
    queued: int
    """Runs that wait for an executor, or for their next attempt."""
    dispatched: int
    """Runs that an executor holds and has not begun."""
    running: int


def _view(row: QueueRow) -> QueueView:
    return QueueView(
        queue=row.queue,
        held=row.held,
        hold=None if row.hold is None else _hold_view(row.hold),
        queued=row.queued,
        dispatched=row.dispatched,
        running=row.running,
    )


def _hold_view(hold: QueueHold) -> HoldView:
    return HoldView(
        start=time_or_none(hold.asked_at if hold.begin is None else hold.begin),
        until=time_or_none(hold.until),
        reason=hold.reason,
        by=hold.by,
        asked_at=time_or_none(hold.asked_at),
    )


async def queues_list(call: Call) -> Reply:
    """List all queues."""
    return answer(200, [_view(row) for row in await call.control.queues.overview(call.principal)])


async def queue_get(call: Call) -> Reply:
    """One."""
    return answer(200, _view(await call.control.queues.get(call.principal, call.path_values["queue"])))


async def queue_hold(call: Call) -> Reply:
    """Let it stand still."""
    body = decode(_hold, call.body or b"{}", field_names(QueueHoldBody))
    return answer(200, _view(await call.control.queues.hold(call.principal, call.path_values["queue"], body)))


async def queue_drain(call: Call) -> Reply:
    """Hold it, and say what still goes on."""
    body = decode(_drain, call.body or b"{}", field_names(QueueDrainBody))
    return answer(200, _view(await call.control.queues.drain(call.principal, call.path_values["queue"], body)))


async def queue_resume(call: Call) -> Reply:
    """Let it go on."""
    return answer(200, _view(await call.control.queues.resume(call.principal, call.path_values["queue"])))


QUEUES: Final = (
    Endpoint(
        method="GET", path=f"{API}/queues", control=QueueService.overview, name="listQueues", tag="queues",
        summary="Queues by name: their waiting and running runs, and their holds.",
        handler=queues_list, answers=(list[QueueView],),
    ),
    Endpoint(
        method="GET", path=f"{API}/queues/{{queue}}", control=QueueService.get, name="getQueue", tag="queues",
        summary="One queue.", handler=queue_get, answers=(QueueView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/queues/{{queue}}/hold", control=QueueService.hold, name="holdQueue", tag="queues",
        summary="Hold a queue, from now or a time on, until a time or until it is resumed.",
        description="No more of its runs begin. Running ones go on, and waiting ones keep their places. A hold "
        "replaces the one before.",
        handler=queue_hold, body=QueueHoldBody, optional_body=True, answers=(QueueView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/queues/{{queue}}/drain", control=QueueService.drain,
        name="drainQueue", tag="queues",
        summary="Hold a queue from now on; the answer says how many of its runs still go on.",
        description="It is drained when `dispatched` and `running` are 0: ask again until they are.",
        handler=queue_drain, body=QueueDrainBody, optional_body=True, answers=(QueueView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/queues/{{queue}}/resume", control=QueueService.resume,
        name="resumeQueue", tag="queues",
        summary="Resume a queue; this changes nothing if it is not on hold.",
        handler=queue_resume, answers=(QueueView,), refuses=(404,),
    ),
)  # fmt: skip
