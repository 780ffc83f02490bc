"""`/events` and `/runs/{run_id}/logs/stream`: server-sent events, for as long as the client listens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import NAMESPACE_CHARACTERS_MAX, Call, Endpoint, Reply, given, labels_of
from tickwise.api.problems import BadParameter
from tickwise.api.resources.runs import OFFSET_MAX, States
from tickwise.api.wire import API, Instant
from tickwise.control.live.filters import EventFilter
from tickwise.control.live.log_follower import LogPosition, read_log_id
from tickwise.control.live.permits import Credential
from tickwise.control.live.service import LiveService
from tickwise.domain.errors import Invalid, Unauthenticated
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal

EVENT_STREAM: Final = "text/event-stream"
EVERY_NAMESPACE: Final = "*"
LAST_EVENT_ID: Final = b"last-event-id"
_HEADERS: Final = [
    (b"cache-control", b"no-cache, no-transform"),
    # nginx, and gateways made of it, hold an answer back until a buffer is full.
    (b"x-accel-buffering", b"no"),
]

Ids = Annotated[list[UUID], Meta(max_length=100, description="May be given several times.")]
LastId = Annotated[
    str, Meta(max_length=4_000, description="As the header `Last-Event-ID`, for clients that cannot send headers.")
]


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes to be told of; everything given must match."""

    job_id: Ids = []
    run_id: Ids = []
    status: States = []
    label: Annotated[
        list[str], Meta(max_length=20, description="name=value, of its job; may be given several times.")
    ] = []
    namespace: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=NAMESPACE_CHARACTERS_MAX,
                description="Left out: that of the request. `*`: each one, for callers who may see runs everywhere.",
            ),
        ]
        | UnsetType
    ) = UNSET
    last_event_id: LastId | UnsetType = UNSET


class LogStreamQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The log, and where to begin."""

    attempt: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="This attempt alone. Left out: the newest and later ones.")]
        | UnsetType
    ) = UNSET
    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="Byte of the attempt's log.")] = 0
    last_event_id: LastId | UnsetType = UNSET


class RunEventView(msgspec.Struct, kw_only=True):
    """The data of an event `run`: a run came into a state."""

    run_id: UUID
    job_id: UUID
    namespace: str
    status: RunState
    attempt: int
    time: Instant
    change: str
    """The name of the change, the same in each stream: a client that gets it again can drop it."""


class LogLineView(msgspec.Struct, kw_only=True):
    """The data of an event `log`: a line of a run's output."""

    run_id: UUID
    attempt: int
    offset: int
    next_offset: int
    line: str
    """Without its end; of more than 64 kB: a part of it."""
    origin: Literal["task", "tickwise"]
    """`tickwise`: Tickwise itself wrote it, and no task can make it say so."""


def _credential(call: Call, namespace: str | None) -> Credential:
    """The caller of a stream, to be asked for again while it is open."""
    ask, directory = call.caller_now, call.control.directory

    async def principal() -> Principal:
        if ask is None:
            raise Unauthenticated("send a key: Authorization: Bearer KEY")
        return await directory.principal(await ask(), namespace)

    return Credential((call.headers.get(b"authorization", b""), namespace or ""), principal)


def _last_id(call: Call, said: str | UnsetType) -> str | None:
    """The id with which a client comes back. The header counts more: a browser sends it by itself."""
    header = call.headers.get(LAST_EVENT_ID)
    return header.strip().decode("latin-1") or None if header is not None else given(said) or None


def _streamed(chunks: AsyncGenerator[bytes]) -> Reply:
    return Reply(200, b"", list(_HEADERS), EVENT_STREAM.encode(), stream=chunks)


async def events(call: Call) -> Reply:
    """Changes as they happen."""
    said: EventsQuery = call.query
    who, named = call.principal, given(said.namespace)
    everywhere = named == EVERY_NAMESPACE
    if named is not None and not everywhere and named != who.namespace and call.caller is not None:
        who = (await call.control.directory.principal(call.caller, named)).with_origin(call.address, call.request_id)
    asked = EventFilter(
        namespace=None if everywhere else who.namespace,
        jobs=frozenset(each.bytes for each in said.job_id),
        runs=frozenset(each.bytes for each in said.run_id),
        states=frozenset(said.status),
        labels=labels_of(said.label) or None,
    )
    try:
        chunks = await call.control.live.events(
            who, asked, _credential(call, who.namespace), _last_id(call, said.last_event_id)
        )
    except Invalid as refusal:
        raise BadParameter(refusal.detail, parameter="Last-Event-ID") from None
    return _streamed(chunks)


async def log_stream(call: Call) -> Reply:
    """A log as it is written."""
    said: LogStreamQuery = call.query
    attempt, offset, last = given(said.attempt), said.offset, _last_id(call, said.last_event_id)
    only = attempt is not None
    if last is not None:
        place = read_log_id(last)
        if place is None:
            raise BadParameter(
                "this Last-Event-ID is not from this server: begin without one", parameter="Last-Event-ID"
            )
        attempt, offset = place
    run_id = call.uuid("run_id", "run")
    position = LogPosition(attempt, offset, only)
    chunks = await call.control.live.log(call.principal, run_id, _credential(call, call.principal.namespace), position)
    return _streamed(chunks)


EVENTS: Final = (
    Endpoint(
        method="GET", path=f"{API}/events", control=LiveService.events, name="streamEvents", tag="runs",
        summary="Changes of the states of runs as they happen, as server-sent events.",
        description="Events `run` have the data of `RunEventView`. `Last-Event-ID` goes on after an earlier event "
        "without a gap for 5 minutes. Markers: `coalesced` (more than 1,000 a second: what was left out, by state), "
        "`gap` (the id was too old), `end` (why the server ends the stream: `slow_reader`, `unauthenticated`, "
        "`forbidden`, `not_found`, `stopping`; come back with the last id).",
        handler=events, answers=(RunEventView,), query=EventsQuery, refuses=(429,), headers=("Last-Event-ID",),
        endless=True, answer_media=(EVENT_STREAM,), answer_headers=("Cache-Control", "X-Accel-Buffering"),
    ),
    Endpoint(
        method="GET", path=f"{API}/runs/{{run_id}}/logs/stream", control=LiveService.log, name="streamRunLog",
        tag="runs",
        summary="The lines of a run's output as they are written, as server-sent events until it ends.",
        description="Events `log` have the data of `LogLineView`; the id of one goes on after it. Events `progress` "
        "have `run_id`, `attempt` and the members of `ProgressView`. The marker `end` with the reason `complete` has "
        "the run's final state.",
        handler=log_stream, answers=(LogLineView,), query=LogStreamQuery, refuses=(404, 429),
        headers=("Last-Event-ID",),
        endless=True, answer_media=(EVENT_STREAM,), answer_headers=("Cache-Control", "X-Accel-Buffering"),
    ),
)  # fmt: skip
