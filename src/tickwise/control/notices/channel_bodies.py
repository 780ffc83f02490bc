"""Bodies of channels, as they are sent; `domain.notices.channels` checks their fields and divides them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.domain.errors import Invalid
from tickwise.domain.networks import is_odd_number, plain
from tickwise.domain.notices.channels import MAX_HEADERS, MAX_RECIPIENTS, URL_CHARACTERS_MAX
from tickwise.domain.notices.rules import NoticeChannel, NoticeChannelKind

CHANNEL_FIELDS: Final = ("url", "to", "from", "headers")
"""The fields that depend on the kind."""

Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=URL_CHARACTERS_MAX,
        description="`https://…` of a webhook or of Slack, any address that apprise knows; of e-mail "
        "`smtp://user:password@host:port` or `smtps://…`, or nothing for the mail server of the settings. An answer "
        "shows its scheme and host alone.",
    ),
]
ChannelName = Annotated[str, Meta(min_length=1, max_length=100, description="Unique in the namespace.")]
Recipients = Annotated[
    list[Annotated[str, Meta(max_length=254)]],
    Meta(min_length=1, max_length=MAX_RECIPIENTS, description="Of e-mail: the recipients."),
]
Sender = Annotated[str, Meta(max_length=254, description="Of e-mail: the sender; the first recipient if not sent.")]
Headers = Annotated[
    dict[Annotated[str, Meta(max_length=100)], Annotated[str, Meta(max_length=2_000)]],
    Meta(max_length=MAX_HEADERS, description="Of a webhook: further headers. An answer shows their names alone."),
]
AllowPrivate = Annotated[
    bool,
    Meta(
        description="Its address may be in a private network or on the machine itself. Setting it needs the permission "
        "`channels:admin` in the whole installation."
    ),
]
ForInstallation = Annotated[
    bool,
    Meta(
        description="It belongs to the installation, not to the namespace. For administrators of the installation: "
        "rules about executors and certificates use such channels."
    ),
]


class ChannelBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A channel to make."""

    name: ChannelName
    kind: NoticeChannelKind
    url: Url | UnsetType | None = UNSET
    to: Recipients | UnsetType | None = UNSET
    sender: Sender | UnsetType | None = msgspec.field(name="from", default=UNSET)
    headers: Headers | UnsetType | None = UNSET
    allow_private: AllowPrivate = False
    installation: ForInstallation = False


class ChannelChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The fields of a channel to change; those that are not sent stay, null takes one away. Kind and name stay: jobs
    and files know a channel by its name."""

    url: Url | UnsetType | None = UNSET
    to: Recipients | UnsetType | None = UNSET
    sender: Sender | UnsetType | None = msgspec.field(name="from", default=UNSET)
    headers: Headers | UnsetType | None = UNSET
    allow_private: AllowPrivate | UnsetType = UNSET


def sent_fields(body: ChannelBody | ChannelChangeBody) -> dict[str, Any]:
    """The fields that depend on the kind, as far as they were sent."""
    said = {"url": body.url, "to": body.to, "from": body.sender, "headers": body.headers}
    return {name: value for name, value in said.items() if value is not UNSET and value is not None}


def removed_fields(body: ChannelChangeBody) -> frozenset[str]:
    """The fields that a change takes away, by null."""
    said = {"url": body.url, "to": body.to, "from": body.sender, "headers": body.headers}
    return frozenset(name for name, value in said.items() if value is None)


def kept_fields(channel: NoticeChannel) -> dict[str, Any]:
    """The fields of a channel that is there, with its secrets as they are shown."""
    return {name: channel.settings[name] for name in CHANNEL_FIELDS if name in channel.settings}


def check_public(kind: NoticeChannelKind, secrets: Mapping[str, str]) -> None:
    """Refuse a host that is private on its face. Senders check the addresses that a name stands for."""
    host = "" if kind is NoticeChannelKind.APPRISE else urlsplit(secrets.get("url", "")).hostname or ""
    name = host.rstrip(".").lower()
    if "%" in name or is_odd_number(name):
        raise Invalid(
            f"{host!r} is a number or an escape that programs read in different ways; write a name, or an address as "
            "four decimal numbers",
            pointer="/url",
        )
    private = name == "localhost" or name.endswith(".localhost")
    with suppress(ValueError):  # a name: its addresses are looked at when it is sent to
        private = private or not plain(name).is_global
    if private:
        raise Invalid(
            f"{host} is on this machine or in a private network; an administrator of the installation can set "
            "allow_private for the channel (--allow-private of `tickwise channels add` and `edit`)",
            pointer="/url",
        )
