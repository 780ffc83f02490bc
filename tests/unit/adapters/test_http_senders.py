"""Senders over HTTP, against a real receiver that fails in the ways of receivers."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import standardwebhooks
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.support.receivers import Receiver, receiver
from tickwise.adapters.senders.http_delivery import HttpDelivery, retry_after
from tickwise.adapters.senders.slack import SlackSender, slack_body
from tickwise.adapters.senders.webhook import WebhookSender
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.messages import notice_text
from tickwise.domain.notices.rules import (
    Notice,
    NoticeChannel,
    NoticeChannelKind,
    NoticeEvent,
    NoticeLine,
    NoticeState,
    Severity,
)
from tickwise.ports.senders import DeliveryOutcome, DeliveryResult, NoticeMessage

NOW = 1_800_000_000.0
RANDOM = bytes(range(32))
SECRET = "T0AAAAAAA/B0BBBBBBB/verysecrettoken"


def message(**fields: Any) -> NoticeMessage:
    """A notice of one failure, in words."""
    failure = NoticeLine(
        NOW, NoticeEvent.FAILURE, Severity.CRITICAL, "j1", "night <b>&", UUID(int=3), "exit status 1", UUID(int=4)
    )
    whole: dict[str, Any] = {
        "notice_id": UUID(int=1), "namespace": "default", "channel_id": UUID(int=2), "rule_id": None,
        "rule_name": "failures", "severity": Severity.CRITICAL, "state": NoticeState.WAITING, "events": 1,
        "first_at": NOW, "last_at": NOW, "lines": (failure,), **fields,
    }  # fmt: skip
    notice = Notice(**whole)
    words = notice_text(notice, public_url="https://tickwise.example.com")
    return NoticeMessage(notice, words.title, words.text, words.links, NOW)


class Channels:
    """Sends to a receiver as a channel of either kind does."""

    def __init__(self, delivery: HttpDelivery, at: Receiver) -> None:
        self.receiver = at
        self.webhook = WebhookSender(delivery)
        self.slack = SlackSender(delivery)

    async def send(
        self,
        kind: str = "webhook",
        path: str = "/hook",
        *,
        url: str | None = None,
        allow_private: bool = True,
        timeout: float = 60.0,
        **fields: Any,
    ) -> DeliveryResult:
        """One try."""
        whole = {"url": url or self.receiver.url + path, **fields}
        settings, secrets = channel_fields(NoticeChannelKind(kind), whole, random=RANDOM)
        channel = NoticeChannel(
            channel_id=UUID(int=2), namespace="default", name="ops", kind=NoticeChannelKind(kind), settings=settings,
            allow_private=allow_private,
        )  # fmt: skip
        sender = self.webhook if kind == "webhook" else self.slack
        return await sender.send(channel, secrets, message(), timeout=timeout)


@pytest.fixture
async def channels() -> AsyncIterator[Channels]:
    """A receiver on loopback, and senders."""
    delivery = HttpDelivery()
    async with receiver() as at:
        yield Channels(delivery, at)
        at.release.set()
        await delivery.close()


async def test_a_webhook_is_signed_as_standard_webhooks_says(channels: Channels) -> None:
    """Another library verifies it; one changed byte, and it does not."""
    _, secrets = channel_fields(NoticeChannelKind.WEBHOOK, {"url": "https://x.example.com/"}, random=RANDOM)
    assert b64decode(secrets["signing_secret"].removeprefix("whsec_")) == RANDOM
    assert (await channels.send(headers={"Authorization": "Bearer abc"})).delivery is DeliveryOutcome.DELIVERED
    [got] = channels.receiver.got
    assert (got.path, got.headers["Authorization"]) == ("/hook", "Bearer abc")
    assert got.headers["webhook-timestamp"] == str(int(NOW))
    verifier = standardwebhooks.Webhook(secrets["signing_secret"])
    headers = {name.lower(): value for name, value in got.headers.items()}
    body = verified(verifier, got.body, headers)
    assert (body["version"], body["type"], body["data"]["count"]) == (1, "notice", 1)
    assert body["data"]["events"][0]["sentence"] == "exit status 1"
    assert {link["label"] for link in body["data"]["links"]} == {"Run", "Alert"}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verified(verifier, got.body.replace(b"exit", b"EXIT"), headers)


def verified(verifier: standardwebhooks.Webhook, body: bytes, headers: dict[str, str]) -> Any:
    """What a verifier takes; the timestamp of these tests is not of today."""
    signed = verifier.sign(headers["webhook-id"], datetime.fromtimestamp(NOW, UTC), body.decode())
    if signed != headers["webhook-signature"]:
        raise standardwebhooks.WebhookVerificationError("No matching signature found")
    return json.loads(body)


async def test_each_try_has_the_id_of_its_content(channels: Channels) -> None:
    """The same notice the same; with events that joined it another one."""
    channels.receiver.says = [500]
    for _ in range(2):
        await channels.send()
    first, second = channels.receiver.got
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == f"{UUID(int=1)}-1"


async def test_a_receiver_that_fails_is_tried_again(channels: Channels) -> None:
    """It is told in its own words, cut; a pause that it asks for is heeded within bounds."""
    channels.receiver.says, channels.receiver.text = [503, 410, 302, 429], "busy \x1b[31m\u202e" + "y" * 9_000
    channels.receiver.headers = {"Retry-After": "120"}
    busy = await channels.send()
    assert (busy.delivery, busy.retry_after) == (DeliveryOutcome.LATER, 120.0)
    assert busy.error is not None
    assert busy.error.startswith("it answered 503: busy \\u001b[31m\\u202eyyy")
    assert len(busy.error) == 500
    assert (await channels.send()).delivery is DeliveryOutcome.REFUSED
    channels.receiver.headers = {"Location": "https://login.example.com/x"}
    led = await channels.send()
    assert led.delivery is DeliveryOutcome.LATER
    assert "302, a redirect to login.example.com" in str(led.error)
    assert len(channels.receiver.got) == 3


@pytest.mark.parametrize("way", ["hang", "drip"])
async def test_a_receiver_that_hangs_is_left(channels: Channels, way: str) -> None:
    """When its time is over, also if a byte comes now and then."""
    channels.receiver.says = [way]
    result = await channels.send(timeout=0.3)
    assert result == DeliveryResult(DeliveryOutcome.LATER, "no answer within 0.3 s")


async def test_an_answer_of_ten_megabytes_is_cut(channels: Channels) -> None:
    """No more of it is read than an error shows."""
    channels.receiver.says = ["flood", "reset"]
    flooded = await channels.send()
    assert (flooded.delivery, len(str(flooded.error))) == (DeliveryOutcome.LATER, 500)
    assert (await channels.send()).delivery is DeliveryOutcome.LATER
    assert (await channels.send()).delivery is DeliveryOutcome.DELIVERED


async def test_a_redirect_is_followed_to_the_same_origin_alone(channels: Channels) -> None:
    """With the body; another host, or another port, receives nothing."""
    channels.receiver.says, channels.receiver.headers = [307], {"Location": "/elsewhere"}
    assert (await channels.send()).delivery is DeliveryOutcome.DELIVERED
    assert [got.path for got in channels.receiver.got] == ["/hook", "/elsewhere"]
    assert channels.receiver.got[0].body == channels.receiver.got[1].body
    async with receiver() as other:
        channels.receiver.says, channels.receiver.headers = [307], {"Location": other.url}
        assert (await channels.send()).delivery is DeliveryOutcome.LATER
        assert other.got == []
    channels.receiver.says, channels.receiver.headers = [307] * 9, {"Location": "/round"}
    assert (await channels.send()).delivery is DeliveryOutcome.LATER
    assert len(channels.receiver.got) == 2 + 1 + 4


class Names(AbstractResolver):
    """Resolves each name to one address."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        """The one."""
        return [ResolveResult(hostname=host, host=self.address, port=port, family=2, proto=6, flags=0)]

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1"])
async def test_a_private_address_needs_the_channels_permission(channels: Channels, address: str) -> None:
    """Written as an address, or as the address of a name; what clouds keep their metadata at is never reached."""
    channels.webhook = WebhookSender(delivery := HttpDelivery(resolver=Names(address)))
    for host in (address, "hooks.example.com"):
        result = await channels.send(url=f"http://{host}:1/x", allow_private=False)
        assert result.delivery is DeliveryOutcome.REFUSED
        assert "is not public" in str(result.error)
        assert "allow_private" in str(result.error)
    # A refusal comes at once, however busy the machine is; a connection that is allowed may lead nowhere.
    expected, patience = (DeliveryOutcome.REFUSED, 60.0) if address.startswith("169") else (DeliveryOutcome.LATER, 0.2)
    allowed = await channels.send(url="http://hooks.example.com:1/x", allow_private=True, timeout=patience)
    assert allowed.delivery is expected
    await delivery.close()


@pytest.mark.parametrize("kind", ["webhook", "slack"])
async def test_no_secret_is_in_an_error(channels: Channels, kind: str) -> None:
    """Also if the receiver says it, or its address is what is wrong with it."""
    channels.receiver.says, channels.receiver.text = [500], f"no token {SECRET}, nor verysecrettoken"
    result = await channels.send(kind, f"/services/{SECRET}?key=hush-hush-1")
    assert "no token ***/***/***, nor ***" in str(result.error)
    gone = await channels.send(kind, url=f"http://127.0.0.1:1/services/{SECRET}")
    assert gone.delivery is DeliveryOutcome.LATER
    assert "verysecret" not in str(gone.error)
    assert "127.0.0.1" in str(gone.error)


async def test_slack_gets_text_and_blocks_within_its_sizes(channels: Channels) -> None:
    """Names mention nobody and make no link. A webhook that was revoked is refused for good."""
    assert (await channels.send("slack", f"/services/{SECRET}")).delivery is DeliveryOutcome.DELIVERED
    body = json.loads(channels.receiver.got[0].body)
    assert body["text"] == "[\u200bcritical]\u200b night &lt;b&gt;&amp; failed"
    assert [block["type"] for block in body["blocks"]] == ["header", "section", "actions"]
    assert {each["url"] for each in body["blocks"][2]["elements"]} == {
        f"https://tickwise.example.com/runs/{UUID(int=3)}?namespace=default",
        f"https://tickwise.example.com/alerts/{UUID(int=4)}?namespace=default",
    }
    long = message()._replace(title="t" * 400, text="<" * 9_000, links={f"l{at}" * 60: "u" for at in range(30)})
    header, section, actions = slack_body(long)["blocks"]
    assert (len(header["text"]["text"]), len(actions["elements"])) == (150, 10)
    assert len(section["text"]["text"]) <= 3_000
    assert section["text"]["text"].endswith("<…")
    channels.receiver.says, channels.receiver.text = [404], "no_service"
    assert (await channels.send("slack")).delivery is DeliveryOutcome.REFUSED


@pytest.mark.parametrize(
    "name",
    ["<!channel> @channel @here", "*bold* _it_ ~no~ `code`", "[a](https://e.example)", "<https://e.example|bank>"],
)
def test_foreign_words_are_no_markup_for_slack(name: str) -> None:
    """What Slack shows is plain text. What Mattermost shows makes neither a mention, a link, nor a style."""
    body = slack_body(message()._replace(title=f"{name} failed", text=f"{name}: exit status 1"))
    assert {block["text"]["type"] for block in body["blocks"] if "text" in block} == {"plain_text"}
    assert [body["blocks"][at]["text"]["text"] for at in (0, 1)] == [f"{name} failed", f"{name}: exit status 1"]
    assert (body["mrkdwn"], body["parse"], body["link_names"]) == (False, "none", 0)
    assert not re.search(r"[*_~`@\[\]](?!\u200b)|[<>]", body["text"])
    assert body["text"].replace("\u200b", "") == f"{name} failed".replace("<", "&lt;").replace(">", "&gt;")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("30", 30.0), ("999999999999999", 3_600.0), ("-1", None), ("soon", None), (None, None),
     ("Fri, 15 Jan 2027 08:01:00 GMT", 60.0), ("Fri, 15 Jan 2027 07:01:00 GMT", 0.0)],
)  # fmt: skip
def test_a_pause_that_is_asked_for_is_bounded(header: str | None, seconds: float | None) -> None:
    """In seconds or as a date; what cannot be read is none."""
    assert retry_after(header, NOW) == seconds
