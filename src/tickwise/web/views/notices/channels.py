"""Channels, and the notices that were sent: the newest deliveries, what failed, what rests, a test, another try."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.notices.channel_bodies import ChannelBody
from tickwise.control.notices.channels import ChannelService, MadeChannel
from tickwise.control.notices.notices import NoticeService
from tickwise.domain.errors import Conflict, Forbidden, Invalid, NotFound, Refused
from tickwise.domain.notices.rules import Notice, NoticeChannelKind, NoticeState
from tickwise.ports.store.notices import NoticeQuery
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
PAGE_SIZE: Final = 50
FILTERS: Final = ("state", "channel_id", "rule_id", "test", "done")
URL_MAX: Final = 4_096
TEST_SECONDS: Final = 10.0
"""A test waits so long for its first try; after that the page of the notice says more."""
KINDS: Final = {
    NoticeChannelKind.WEBHOOK: "webhook, signed",
    NoticeChannelKind.EMAIL: "e-mail",
    NoticeChannelKind.SLACK: "Slack",
    NoticeChannelKind.APPRISE: "another service, by apprise",
}
DONE: Final = {
    "removed": "The channel is removed.",
    "again": "The notice is tried again.",
    "tried": "The channel is tried now, with what waits for it.",
}


async def channels_page(visit: Visit) -> Response:
    """Channels and notices."""
    return await _page(visit)


async def _page(
    visit: Visit,
    *,
    made: MadeChannel | None = None,
    fault: Refused | None = None,
) -> Response:
    asked = [forms.choice(NoticeState, each, "state") for each in visit.request.query_params.getlist("state") if each]
    query = NoticeQuery(
        namespace=visit.who.namespace,
        states=asked,
        channel_id=forms.identifier(visit.query.get("channel_id"), "channel_id"),
        rule_id=forms.identifier(visit.query.get("rule_id"), "rule_id"),
        before=forms.identifier(visit.query.get("cursor"), "cursor"),
        limit=PAGE_SIZE + 1,
    )
    channels = await visit.control.channels.all(visit.who)
    standings = await visit.control.channels.standings(visit.who, channels)
    rows = await visit.control.notices.page(visit.who, query)
    shown, more = rows[:PAGE_SIZE], len(rows) > PAGE_SIZE
    filters = {name: visit.query[name] for name in ("state", "channel_id", "rule_id") if visit.query.get(name)}
    values: dict[str, Any] = {
        "standings": standings,
        "names": {channel.channel_id: channel.name for channel in channels},
        "notices": shown,
        "states": [each.value for each in NoticeState],
        "chosen": [each.value for each in asked],
        "filters": filters,
        "kinds": KINDS,
        "made": made,
        "typed": visit.form if fault is not None else {},
        "fault": fault,
        "fault_field": (getattr(fault, "pointer", None) or "").strip("/").split("/")[0],
        "tested": await _tested(visit),
        "done": DONE.get(visit.query.get("done", "")),
        "next": visit.url("/channels", **filters, cursor=shown[-1].notice_id) if more else None,
        "first": visit.url("/channels", **filters) if query.before is not None else None,
    }
    status = 200 if fault is None else 409 if isinstance(fault, Conflict) else 422
    return visit.page("channels.html", values, 403 if isinstance(fault, Forbidden) else status)


async def add(visit: Visit) -> Response:
    """Make a channel; the secret of a webhook is on the page that answers."""
    try:
        made = await visit.control.channels.add(visit.who, _body(visit.form))
    except (Invalid, Conflict, Forbidden) as refusal:
        if not visit.may(ChannelService.all) or (isinstance(refusal, Forbidden) and not visit.may(ChannelService.add)):
            raise
        return await _page(visit, fault=refusal)
    return await _page(visit, made=made)


async def rotate(visit: Visit) -> Response:
    """Another secret for a webhook, on the page that answers."""
    try:
        made = await visit.control.channels.rotate_secret(visit.who, visit.uuid("channel_id", "channel"))
    except Conflict as refusal:
        return await _page(visit, fault=refusal)
    return await _page(visit, made=made)


async def remove(visit: Visit) -> Response:
    """Remove a channel."""
    channel_id = visit.uuid("channel_id", "channel")
    if visit.form.get("confirm") != "yes":
        fault = Invalid("tick the box: its rules no longer tell it, and its waiting notices are dropped")
        return await _page(visit, fault=fault)
    await visit.control.channels.remove(visit.who, channel_id)
    return RedirectResponse(visit.url("/channels", done="removed"), SEE_OTHER)


async def test(visit: Visit) -> Response:
    """Send a test notice, and show what became of it."""
    channel_id = visit.uuid("channel_id", "channel")
    notice = await visit.control.channels.test(visit.who, channel_id, wait_seconds=TEST_SECONDS)
    return RedirectResponse(visit.url("/channels", test=notice.notice_id), SEE_OTHER)


async def try_now(visit: Visit) -> Response:
    """End the rest of a channel."""
    await visit.control.channels.try_now(visit.who, visit.uuid("channel_id", "channel"))
    return RedirectResponse(visit.url("/channels", done="tried"), SEE_OTHER)


async def notice_page(visit: Visit) -> Response:
    """One notice."""
    notice = await visit.control.notices.get(visit.who, visit.uuid("notice_id", "notice"))
    names = await visit.control.notices.channel_names(visit.who, [notice])
    return visit.page("notice.html", {"notice": notice, "names": names})


async def again(visit: Visit) -> Response:
    """Try a notice again."""
    notice_id = visit.uuid("notice_id", "notice")
    try:
        await visit.control.notices.again(visit.who, notice_id)
    except Conflict as refusal:
        return await _page(visit, fault=refusal)
    return RedirectResponse(visit.url("/channels", done="again"), SEE_OTHER)


async def _tested(visit: Visit) -> Notice | None:
    """The test of which the page tells."""
    try:
        notice_id: UUID | None = forms.identifier(visit.query.get("test"), "test")
        return None if notice_id is None else await visit.control.notices.get(visit.who, notice_id)
    except (Invalid, NotFound):
        return None


def _body(form: Mapping[str, str]) -> ChannelBody:
    """The body of a channel from the fields of the form. Raises `Invalid`."""
    kind = forms.choice(NoticeChannelKind, form.get("kind", ""), "kind")
    name, url = forms.text(form, "name", 200), forms.text(form, "url", URL_MAX)
    if name is None:
        raise Invalid("give the channel a name: jobs and rules know it by that", pointer="/name")
    to = [each for each in (forms.text(form, "to", 10_000) or "").replace(",", " ").split() if each]
    return ChannelBody(
        name=name,
        kind=kind,
        url=url or UNSET,
        to=to or UNSET,
        sender=forms.text(form, "from", 320) or UNSET,
        allow_private=form.get("allow_private") == "yes",
    )


CHANNELS: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/channels",
        name="channels",
        query=(*FILTERS, "cursor"),
        handler=channels_page,
        control=(ChannelService.all, ChannelService.standings, NoticeService.page),
    ),
    WebPage(method="POST", path="/channels", name="channel_add", handler=add, control=(ChannelService.add,)),
    WebPage(
        method="POST",
        path="/channels/{channel_id}/rotate-secret",
        name="channel_rotate",
        handler=rotate,
        control=(ChannelService.rotate_secret, ChannelService.all),
    ),
    WebPage(
        method="POST",
        path="/channels/{channel_id}/remove",
        name="channel_remove",
        handler=remove,
        control=(ChannelService.remove, ChannelService.all),
    ),
    WebPage(
        method="POST", path="/channels/{channel_id}/test", name="channel_test", handler=test,
        control=(ChannelService.test,),
    ),
    WebPage(
        method="POST", path="/channels/{channel_id}/try-now", name="channel_try_now", handler=try_now,
        control=(ChannelService.try_now,),
    ),
    WebPage(
        method="GET", path="/notices/{notice_id}", name="notice", handler=notice_page, control=(NoticeService.get,)
    ),
    WebPage(
        method="POST", path="/notices/{notice_id}/send-again", name="notice_again", handler=again,
        control=(NoticeService.again, NoticeService.page),
    ),
)  # fmt: skip
