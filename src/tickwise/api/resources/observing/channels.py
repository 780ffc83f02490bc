"""`/channels` and `/notices`: the ways to tell people, and each message that was sent or waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, Secret, answer, cursor_id, page_links
from tickwise.api.problems import Headers
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.notices.channel_bodies import ChannelBody, ChannelChangeBody
from tickwise.control.notices.channels import ChannelService, ChannelStanding, MadeChannel
from tickwise.control.notices.notices import NoticeService
from tickwise.control.notices.sending import WAIT_SECONDS_MOST
from tickwise.domain.notices.rules import (
    INSTALLATION,
    Notice,
    NoticeChannel,
    NoticeChannelKind,
    NoticeEvent,
    NoticeLine,
    NoticeState,
    Severity,
)
from tickwise.ports.store.notices import NoticeQuery

_channel: Final = msgspec.json.Decoder(ChannelBody)
_change: Final = msgspec.json.Decoder(ChannelChangeBody)

OfInstallation = Annotated[
    bool, Meta(description="Those of the installation, not of the namespace: for its administrators.")
]
WaitSeconds = Annotated[
    float, Meta(ge=0, le=WAIT_SECONDS_MOST, description="Wait so many seconds for the outcome of the first try.")
]


class ChannelsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The channels of the list."""

    installation: OfInstallation = False


class TestQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The time to wait for the outcome."""

    wait: WaitSeconds = 0.0


class NoticesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The notices of the list, and the page."""

    state: Annotated[list[NoticeState], Meta(description="Only notices in one of these states.")] = []
    channel_id: UUID | UnsetType = UNSET
    rule_id: UUID | UnsetType = UNSET
    installation: OfInstallation = False
    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class ChannelView(msgspec.Struct, kw_only=True):
    """A channel, without its secrets."""

    channel_id: UUID
    name: str
    kind: NoticeChannelKind
    url: str | None
    """Its scheme and host; the rest may be a secret."""
    to: list[str] | None
    sender: str | None = msgspec.field(name="from")
    headers: dict[str, str] | None
    """The names of further headers; each value is `***`."""
    allow_private: bool
    installation: bool
    created_at: Instant
    created_by: str
    version: int
    delivered_at: Instant | None
    """The newest delivery."""
    failed_at: Instant | None
    """The newest failed try."""
    error: str | None
    """The error of that try."""
    failures: int
    """Tries in a row that failed."""
    resting_until: Instant | None
    """Until then no notice of it is sent but tests, because its tries failed; null: it does not rest."""
    waiting: int
    """Notices that are due or were tried, and wait for it, 1,000 at most."""
    waiting_events: int
    """The events in these."""


class MadeChannelView(ChannelView, kw_only=True):
    """A channel, with the secret that signs its webhooks, which is told this once."""

    secret: Secret | None
    """`whsec_…`, as Standard Webhooks writes it; null: it is no webhook."""


class NoticeLineView(msgspec.Struct, kw_only=True):
    """One event in a notice."""

    at: Instant
    event: NoticeEvent
    severity: Severity
    subject: str
    subject_name: str
    run_id: UUID | None
    alert_id: UUID | None
    sentence: str
    labels: dict[str, str]


class NoticeView(msgspec.Struct, kw_only=True):
    """One message for one channel."""

    notice_id: UUID
    channel_id: UUID
    channel: str | None
    """The name of the channel; null: it was removed."""
    rule_id: UUID | None
    """Null: the job's own `notify`, or a test of a channel."""
    rule: str
    severity: Severity
    """The worst of its events."""
    state: NoticeState
    events: int
    first_at: Instant
    last_at: Instant
    lines: list[NoticeLineView]
    """The newest of its events, 20 at most; `events` counts all."""
    due: Instant
    """Not tried before."""
    tries: int
    error: str | None
    """The error of the last try."""
    ended_at: Instant | None
    test: bool
    escalation: bool


def channel_view(standing: ChannelStanding) -> ChannelView:
    """A channel as it is answered."""
    channel = standing.channel
    settings: Mapping[str, object] = channel.settings
    return ChannelView(
        channel_id=channel.channel_id,
        name=channel.name,
        kind=channel.kind,
        url=msgspec.convert(settings.get("url"), str | None),
        to=msgspec.convert(settings.get("to"), list[str] | None),
        sender=msgspec.convert(settings.get("from"), str | None),
        headers=msgspec.convert(settings.get("headers"), dict[str, str] | None),
        allow_private=channel.allow_private,
        installation=channel.namespace == INSTALLATION,
        created_at=time_of(channel.created_at),
        created_by=channel.created_by,
        version=channel.version,
        delivered_at=time_or_none(channel.delivered_at),
        failed_at=time_or_none(channel.failed_at),
        error=channel.error,
        failures=channel.failures,
        resting_until=time_or_none(standing.resting_until),
        waiting=standing.backlog.notices,
        waiting_events=standing.backlog.waiting_events,
    )


async def _view(call: Call, channel: NoticeChannel) -> ChannelView:
    [standing] = await call.control.channels.standings(call.principal, [channel])
    return channel_view(standing)


def notice_view(notice: Notice, names: Mapping[UUID, str]) -> NoticeView:
    """A notice as it is answered. `names`: of channels."""
    return NoticeView(
        notice_id=notice.notice_id,
        channel_id=notice.channel_id,
        channel=names.get(notice.channel_id),
        rule_id=notice.rule_id,
        rule=notice.rule_name,
        severity=notice.severity,
        state=notice.state,
        events=notice.events,
        first_at=time_of(notice.first_at),
        last_at=time_of(notice.last_at),
        lines=[_line_view(line) for line in notice.lines],
        due=time_of(notice.due),
        tries=notice.tries,
        error=notice.error,
        ended_at=time_or_none(notice.ended_at),
        test=notice.is_test,
        escalation=notice.is_escalation,
    )


def _line_view(line: NoticeLine) -> NoticeLineView:
    return NoticeLineView(
        at=time_of(line.at),
        event=line.event,
        severity=line.severity,
        subject=line.subject,
        subject_name=line.subject_name,
        run_id=line.run_id,
        alert_id=line.alert_id,
        sentence=line.sentence,
        labels=dict(line.labels),
    )


async def channel_add(call: Call) -> Reply:
    """Make a channel."""
    made = await call.control.channels.add(call.principal, decode(_channel, call.body, field_names(ChannelBody)))
    return await _told(call, 201, made)


async def channel_rotate(call: Call) -> Reply:
    """Give a webhook another secret."""
    return await _told(call, 200, await call.control.channels.rotate_secret(call.principal, _channel_id(call)))


async def _told(call: Call, status: int, made: MadeChannel) -> Reply:
    """The only answers that have the secret."""
    view = MadeChannelView(**msgspec.structs.asdict(await _view(call, made.channel)), secret=made.secret)
    headers: Headers = [(b"cache-control", b"no-store")]
    if status == 201:
        headers.append((b"location", f"{API}/channels/{made.channel.channel_id}".encode()))
    return answer(status, view, headers=headers)


async def channels_list(call: Call) -> Reply:
    """All channels."""
    query: ChannelsQuery = call.query
    found = await call.control.channels.all(call.principal, installation=query.installation)
    return answer(200, [channel_view(each) for each in await call.control.channels.standings(call.principal, found)])


async def channel_get(call: Call) -> Reply:
    """One channel."""
    return answer(200, await _view(call, await call.control.channels.get(call.principal, _channel_id(call))))


async def channel_change(call: Call) -> Reply:
    """Change a channel."""
    body = decode(_change, call.body, field_names(ChannelChangeBody))
    return answer(200, await _view(call, await call.control.channels.change(call.principal, _channel_id(call), body)))


async def channel_remove(call: Call) -> Reply:
    """Remove a channel."""
    return answer(200, await _view(call, await call.control.channels.remove(call.principal, _channel_id(call))))


async def channel_try_now(call: Call) -> Reply:
    """Try a channel that rests."""
    return answer(200, await _view(call, await call.control.channels.try_now(call.principal, _channel_id(call))))


async def channel_test(call: Call) -> Reply:
    """Send a test notice."""
    query: TestQuery = call.query
    notice = await call.control.channels.test(call.principal, _channel_id(call), wait_seconds=query.wait)
    return answer(202, notice_view(notice, {}), headers=_notice_location(notice.notice_id))


async def notices_list(call: Call) -> Reply:
    """A page of notices."""
    said: NoticesQuery = call.query
    query = NoticeQuery(
        namespace=call.principal.namespace,
        states=said.state,
        channel_id=None if said.channel_id is UNSET else said.channel_id,
        rule_id=None if said.rule_id is UNSET else said.rule_id,
        before=cursor_id(said.cursor),
        limit=said.limit + 1,
    )
    rows = await call.control.notices.page(call.principal, query, installation=said.installation)
    page = rows[: said.limit]
    names = await call.control.notices.channel_names(call.principal, page)
    last = str(page[-1].notice_id) if len(rows) > said.limit else None
    return answer(200, [notice_view(each, names) for each in page], headers=page_links(call, last))


async def notice_get(call: Call) -> Reply:
    """One notice."""
    notice = await call.control.notices.get(call.principal, call.uuid("notice_id", "notice"))
    return answer(200, notice_view(notice, await call.control.notices.channel_names(call.principal, [notice])))


async def notice_again(call: Call) -> Reply:
    """Try a notice again."""
    notice = await call.control.notices.again(call.principal, call.uuid("notice_id", "notice"))
    return answer(202, notice_view(notice, {}), headers=_notice_location(notice.notice_id))


def _channel_id(call: Call) -> UUID:
    return call.uuid("channel_id", "channel")


def _notice_location(notice: UUID | str) -> Headers:
    return [(b"location", f"{API}/notices/{notice}".encode())]


def _location_of_notice(body: bytes) -> Headers:
    """The header that belongs to a stored answer."""
    return _notice_location(msgspec.json.decode(body)["notice_id"])


_WHAT: Final = (
    "A `webhook` is sent as JSON and signed as Standard Webhooks says; its secret is in this answer alone. An `email` "
    "has `to`, and `from` and `url` unless the installation has a mail server of its own. `slack` takes the address of "
    "an incoming webhook, `apprise` any address of that library (Teams, ntfy, PagerDuty, …). An address in a private "
    "network needs `allow_private`, which administrators of the installation set. The answer is not kept, so an "
    "Idempotency-Key has no effect."
)

CHANNELS: Final = (
    Endpoint(
        method="POST", path=f"{API}/channels", control=ChannelService.add, name="createChannel", tag="channels",
        summary="Make a channel: an address that notices are sent to.", description=_WHAT,
        handler=channel_add, body=ChannelBody, answers=(MadeChannelView,), status=201, refuses=(409,), secret=True,
        answer_headers=("Cache-Control", "Location"),
    ),
    Endpoint(
        method="GET", path=f"{API}/channels", control=ChannelService.all, name="listChannels", tag="channels",
        summary="All channels by name, with the outcome of their newest deliveries.",
        handler=channels_list, answers=(list[ChannelView],), query=ChannelsQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/channels/{{channel_id}}", control=ChannelService.get, name="getChannel",
        tag="channels", summary="One channel.", handler=channel_get, answers=(ChannelView,), refuses=(404,),
    ),
    Endpoint(
        method="PATCH", path=f"{API}/channels/{{channel_id}}", control=ChannelService.change, name="changeChannel",
        tag="channels", summary="Change fields of a channel; its kind and its secret stay.",
        handler=channel_change, body=ChannelChangeBody, answers=(ChannelView,), refuses=(404, 409),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/channels/{{channel_id}}", control=ChannelService.remove, name="removeChannel",
        tag="channels",
        summary="Remove a channel: it leaves its rules, its waiting notices are dropped; it is returned as it was.",
        handler=channel_remove, answers=(ChannelView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/channels/{{channel_id}}/rotate-secret", control=ChannelService.rotate_secret,
        name="rotateChannelSecret", tag="channels",
        summary="Give a webhook another signing secret; the present one no longer signs.",
        description="The answer is not kept, so an Idempotency-Key has no effect.",
        handler=channel_rotate, answers=(MadeChannelView,), refuses=(404, 409), secret=True,
        answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="POST", path=f"{API}/channels/{{channel_id}}/try-now", control=ChannelService.try_now,
        name="tryChannelNow", tag="channels",
        summary="Try a resting channel now, with the notices that wait for it.",
        description="A channel whose tries fail rests, longer with each failure: meanwhile no notice of it is sent but "
        "tests. This ends the rest; if the next try fails too, the channel rests longer. Without effect on one that "
        "does not rest.",
        handler=channel_try_now, answers=(ChannelView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/channels/{{channel_id}}/test", control=ChannelService.test, name="testChannel",
        tag="channels", summary="Send a test notice. `GET /notices/{notice_id}` says what became of it.",
        handler=channel_test, answers=(NoticeView,), status=202, refuses=(404,), query=TestQuery,
        headers_of=_location_of_notice, answer_headers=("Location",),
    ),
    Endpoint(
        method="GET", path=f"{API}/notices", control=NoticeService.page, name="listNotices", tag="notices",
        summary="Notices, the newest first: those that wait, were delivered, could not be delivered, were dropped.",
        handler=notices_list, answers=(list[NoticeView],), query=NoticesQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/notices/{{notice_id}}", control=NoticeService.get, name="getNotice", tag="notices",
        summary="One notice.", handler=notice_get, answers=(NoticeView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/notices/{{notice_id}}/send-again", control=NoticeService.again,
        name="sendNoticeAgain", tag="notices", summary="Try a notice again that could not be delivered.",
        handler=notice_again, answers=(NoticeView,), status=202, refuses=(404, 409),
        headers_of=_location_of_notice, answer_headers=("Location",),
    ),
)  # fmt: skip
