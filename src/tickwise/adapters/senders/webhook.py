"""Notices as signed JSON: Standard Webhooks (https://www.standardwebhooks.com), version 1 of its signatures.

    webhook-id         the same for each try of one content: a receiver that has seen it has seen it all
    webhook-timestamp  seconds, of this try
    webhook-signature  v1,base64(HMAC-SHA256(secret, "{id}.{timestamp}.{body}"))

The shape of the body is told in `docs/how-to/notices.md`. It only grows: a field never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tickwise.adapters.outgoing.webhook_signature import signature_headers
from tickwise.adapters.senders.http_delivery import HttpDelivery, Posting
from tickwise.adapters.senders.outcomes import refused
from tickwise.domain.notices.channels import HEADER, SIGNING_SECRET
from tickwise.domain.notices.rules import Notice, NoticeChannel, NoticeLine
from tickwise.ports.senders import ChannelSender, DeliveryResult, NoticeMessage

VERSION: Final = 1
USER_AGENT: Final = "Tickwise"


class WebhookSender(ChannelSender):
    """The sender of kind `webhook`."""

    def __init__(self, delivery: HttpDelivery) -> None:
        self._delivery = delivery

    async def send(
        self, channel: NoticeChannel, secrets: Mapping[str, str], message: NoticeMessage, *, timeout: float
    ) -> DeliveryResult:
        """See the port."""
        body = webhook_body(message)
        try:
            signed = signature_headers([secrets[SIGNING_SECRET]], message_id(message.notice), int(message.now), body)
            url = secrets["url"]
        except (KeyError, ValueError) as error:
            return refused(f"the channel is incomplete ({error}): set its address again", secrets)
        own = {name.removeprefix(HEADER): value for name, value in secrets.items() if name.startswith(HEADER)}
        posting = Posting(
            url=url,
            headers={**own, **signed, "Content-Type": "application/json", "User-Agent": USER_AGENT},
            body=body,
            allow_private=channel.allow_private,
            secrets=secrets,
        )
        return await self._delivery.post(posting, now=message.now, timeout=timeout)

    async def load(self) -> None:
        """See the port."""
        await self._delivery.load()

    async def close(self) -> None:
        """See the port."""
        await self._delivery.close()


def message_id(notice: Notice) -> str:
    """The id of a content of a notice. What joins a notice after a try that failed makes another content: a receiver
    that got that try, and whose answer was lost, must not take the new events for seen."""
    return f"{notice.notice_id}-{notice.events}"


def webhook_body(message: NoticeMessage) -> bytes:
    """The JSON of a notice."""
    notice = message.notice
    body: dict[str, Any] = {
        "version": VERSION,
        "type": "notice.test" if notice.is_test else "notice.escalation" if notice.is_escalation else "notice",
        "timestamp": _iso(notice.last_at),
        "data": {
            "notice_id": str(notice.notice_id),
            "namespace": notice.namespace,
            "rule": notice.rule_name or None,
            "severity": notice.severity.value,
            "title": message.title,
            "text": message.text,
            "count": notice.events,
            "subjects": notice.subjects or None,
            "first_at": _iso(notice.first_at),
            "last_at": _iso(notice.last_at),
            "events": [_event(line) for line in notice.lines],
            "links": [{"label": label, "url": url} for label, url in message.links.items()],
        },
    }
    return msgspec.json.encode(body)


def _event(line: NoticeLine) -> dict[str, Any]:
    return {
        "at": _iso(line.at),
        "event": line.event.value,
        "severity": line.severity.value,
        "subject": line.subject,
        "subject_name": line.subject_name,
        "sentence": line.sentence,
        "run_id": None if line.run_id is None else str(line.run_id),
        "alert_id": None if line.alert_id is None else str(line.alert_id),
        "labels": dict(line.labels),
    }


def _iso(instant: float) -> str:
    return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
