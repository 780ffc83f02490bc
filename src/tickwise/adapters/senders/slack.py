"""Notices for an incoming webhook of Slack, or of what takes the same (Mattermost, Rocket.Chat).

`text` is what a notification of a phone shows, `blocks` what the channel shows; Mattermost and Rocket.Chat show `text`.
Names and errors are words of others. In blocks they are plain text, which has no markup. In `text` `&`, `<` and `>` are
escaped, and behind each sign of markup stands a space without width: they mention nobody, make no link and no style.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tickwise.adapters.senders.http_delivery import HttpDelivery, Posting
from tickwise.adapters.senders.outcomes import refused
from tickwise.domain.notices.rules import NoticeChannel
from tickwise.ports.senders import ChannelSender, DeliveryResult, NoticeMessage

TEXT_CHARACTERS: Final = 3_000
"""Of one block; Slack refuses more."""
HEADER_CHARACTERS: Final = 150
LABEL_CHARACTERS: Final = 75
URL_CHARACTERS: Final = 3_000
MAX_BUTTONS: Final = 10
FINAL_STATUSES: Final = frozenset({400, 403, 404, 410})
"""A webhook that was revoked, a channel that is gone or archived, a body that Slack does not take."""

_MARKUP: Final = re.compile(r"[*_~`@\[\]]")


class SlackSender(ChannelSender):
    """The sender of kind `slack`."""

    def __init__(self, delivery: HttpDelivery) -> None:
        self._delivery = delivery

    async def send(
        self, channel: NoticeChannel, secrets: Mapping[str, str], message: NoticeMessage, *, timeout: float
    ) -> DeliveryResult:
        """See the port."""
        if "url" not in secrets:
            return refused("the channel has no address: set it again", secrets)
        posting = Posting(
            url=secrets["url"],
            headers={"Content-Type": "application/json; charset=utf-8", "User-Agent": "Tickwise"},
            body=msgspec.json.encode(slack_body(message)),
            allow_private=channel.allow_private,
            secrets=secrets,
            final=FINAL_STATUSES,
        )
        return await self._delivery.post(posting, now=message.now, timeout=timeout)

    async def load(self) -> None:
        """See the port."""
        await self._delivery.load()

    async def close(self) -> None:
        """See the port."""
        await self._delivery.close()


def slack_body(message: NoticeMessage) -> dict[str, Any]:
    """The message within the sizes that Slack takes."""
    blocks: list[dict[str, Any]] = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": _cut(message.title, HEADER_CHARACTERS), "emoji": False},
        },
        {
            "type": "section",
            "text": {"type": "plain_text", "text": _cut(_told(message), TEXT_CHARACTERS), "emoji": False},
        },
    ]
    buttons = [
        {"type": "button", "text": {"type": "plain_text", "text": _cut(label, LABEL_CHARACTERS)}, "url": url}
        for label, url in message.links.items()
        if len(url) <= URL_CHARACTERS
    ]
    if buttons:
        blocks.append({"type": "actions", "elements": buttons[:MAX_BUTTONS]})
    return {
        "text": _cut(escaped(message.title), TEXT_CHARACTERS),
        "mrkdwn": False,
        "parse": "none",
        "link_names": 0,
        "blocks": blocks,
    }


def escaped(text: str) -> str:
    """Text that Slack, and what takes the same, shows as it is."""
    text = _MARKUP.sub("\\g<0>\u200b", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _told(message: NoticeMessage) -> str:
    """The text without its links, which are buttons."""
    links = {f"{label}: {url}" for label, url in message.links.items()}
    return "\n".join(line for line in message.text.split("\n") if line not in links)


def _cut(text: str, most: int) -> str:
    """The text within a size, with no half of an escape at its end."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    start = kept.rfind("&", len(kept) - 5)
    return (kept[:start] if start >= 0 and ";" not in kept[start:] else kept) + "…"
