"""Bodies of channels, and how they are divided into what is shown and what is secret.

    ChannelBody ──► settings   shown: the host of its address, recipients, names of headers
                └─► secrets    for senders alone: `url` (the whole address), `secret` (signs a webhook, `whsec_…`),
                               `headers` (JSON: further headers of a webhook)

Invariant: no answer and no entry of the audit log holds an address whose path, user or query may be a secret.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Annotated, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.names import clean_email
from tickwise.domain.errors import Invalid
from tickwise.domain.networks import plain
from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.ports.clock import Clock

URL_CHARACTERS_MAX: Final = 2_000
RECIPIENTS_MAX: Final = 50
HEADERS_MAX: Final = 20
SECRET_BYTES: Final = 32
"""Standard Webhooks asks for 24 to 64 bytes."""
SECRET_PREFIX: Final = "whsec_"

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN_HEADERS: Final = frozenset(
    {"webhook-id", "webhook-timestamp", "webhook-signature", "content-type", "content-length", "host", "user-agent"}
)
_SCHEMES: Final[Mapping[NoticeChannelKind, Sequence[str]]] = {
    NoticeChannelKind.WEBHOOK: ("https", "http"),
    NoticeChannelKind.EMAIL: ("smtp", "smtps"),
    NoticeChannelKind.SLACK: ("https", "http"),
}
_LOCAL_SCHEMES: Final = frozenset({"dbus", "file", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"})
"""Of apprise: they tell the machine itself, and nobody reads that there."""

Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=URL_CHARACTERS_MAX,
        description="`https://…` of a webhook or of Slack, `smtp://user:password@host:port` or `smtps://…` of e-mail, "
        "any address that apprise knows. An answer shows its scheme and host alone.",
    ),
]
ChannelName = Annotated[str, Meta(min_length=1, max_length=100, description="Unique in the namespace.")]
Recipients = Annotated[
    list[Annotated[str, Meta(max_length=254)]],
    Meta(min_length=1, max_length=RECIPIENTS_MAX, description="Of e-mail: the recipients."),
]
Sender = Annotated[str, Meta(max_length=254, description="Of e-mail: the sender; the first recipient if not sent.")]
Headers = Annotated[
    dict[Annotated[str, Meta(max_length=100)], Annotated[str, Meta(max_length=2_000)]],
    Meta(max_length=HEADERS_MAX, description="Of a webhook: further headers. An answer shows their names alone."),
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
    url: Url
    to: Recipients | UnsetType = UNSET
    sender: Sender | UnsetType = msgspec.field(name="from", default=UNSET)
    headers: Headers | UnsetType = UNSET
    allow_private: AllowPrivate = False
    installation: ForInstallation = False


class ChannelChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The fields of a channel to change; those that are not sent stay as they are."""

    name: ChannelName | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    to: Recipients | UnsetType = UNSET
    sender: Sender | UnsetType = msgspec.field(name="from", default=UNSET)
    headers: Headers | UnsetType = UNSET
    allow_private: AllowPrivate | UnsetType = UNSET


class ChannelParts(NamedTuple):
    """A body, divided."""

    settings: Mapping[str, object]
    secrets: Mapping[str, str]


def new_signing_secret(clock: Clock) -> str:
    """A secret that signs webhooks, in the form of Standard Webhooks."""
    return SECRET_PREFIX + b64encode(clock.random_bytes(SECRET_BYTES)).decode()


def channel_parts(
    kind: NoticeChannelKind,
    body: ChannelBody | ChannelChangeBody,
    old: ChannelParts,
    *,
    allow_private: bool,
) -> ChannelParts:
    """The parts of a body over those that are there. Raises `Invalid` with the field at fault."""
    settings, secrets = dict(old.settings), dict(old.secrets)
    for name, sent, kinds in (
        ("to", body.to, (NoticeChannelKind.EMAIL,)),
        ("from", body.sender, (NoticeChannelKind.EMAIL,)),
        ("headers", body.headers, (NoticeChannelKind.WEBHOOK,)),
    ):
        if sent is not UNSET and kind not in kinds:
            raise Invalid(f"{name} is for channels of the kind {kinds[0].value}; leave it out", pointer=f"/{name}")
    url = secrets.get("url", "")
    if not isinstance(body.url, UnsetType):
        url = body.url.strip()
        secrets["url"], settings["url"] = url, _shown(kind, _address(kind, url))
    if not allow_private and kind is not NoticeChannelKind.APPRISE:
        _check_public(urlsplit(url).hostname or "")
    if not isinstance(body.to, UnsetType):
        settings["to"] = [clean_email(each, f"/to/{place}") for place, each in enumerate(body.to)]
    if not isinstance(body.sender, UnsetType):
        settings["from"] = clean_email(body.sender, "/from")
    if not isinstance(body.headers, UnsetType):
        _check_headers(body.headers)
        settings["headers"] = sorted(body.headers)
        secrets["headers"] = msgspec.json.encode(body.headers).decode()
    if kind is NoticeChannelKind.EMAIL and "to" not in settings:
        raise Invalid("say who gets the mails", pointer="/to")
    return ChannelParts(settings, secrets)


def _address(kind: NoticeChannelKind, url: str) -> SplitResult:
    """The address, if its scheme is one of the kind. Raises `Invalid`."""
    if not url.isprintable() or " " in url:
        raise Invalid("blanks, line breaks and control characters are not allowed in an address", pointer="/url")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid("this is no address; write it as scheme://host/path", pointer="/url") from None
    schemes = _SCHEMES.get(kind)
    if schemes is not None and parts.scheme not in schemes:
        wanted = " or ".join(f"{each}://" for each in schemes)
        raise Invalid(f"the address of a channel of the kind {kind.value} begins with {wanted}", pointer="/url")
    if not parts.scheme or "://" not in url:
        raise Invalid("this is no address; write it as scheme://host/path", pointer="/url")
    if schemes is None and parts.scheme in _LOCAL_SCHEMES:
        raise Invalid(
            f"{parts.scheme}:// tells nobody but the machine that sends; choose another service", pointer="/url"
        )
    if schemes is not None and not parts.hostname:
        raise Invalid("the address has no host; write it as scheme://host/path", pointer="/url")
    if parts.fragment and schemes is not None:
        raise Invalid("an address to send to has no #fragment; leave it out", pointer="/url")
    return parts


def _shown(kind: NoticeChannelKind, parts: SplitResult) -> str:
    """The scheme and the host. An address of apprise may have a token in the place of its host."""
    if kind is NoticeChannelKind.APPRISE:
        return f"{parts.scheme}://…"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = f":{parts.port}" if parts.port is not None else ""
    tail = "/…" if parts.path.strip("/") or parts.query else ""
    return f"{parts.scheme}://{host}{port}{tail}"


def _check_public(host: str) -> None:
    """Refuse a host that is private on its face. Senders check the addresses that a name stands for."""
    name = host.rstrip(".").lower()
    private = name == "localhost" or name.endswith(".localhost")
    try:
        private = private or not plain(str(ip_address(host.partition("%")[0]))).is_global
    except ValueError:
        pass
    if private:
        raise Invalid(
            f"{host} is on this machine or in a private network; an administrator of the installation can set "
            "allow_private for the channel",
            pointer="/url",
        )


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        pointer = "/headers/" + name.replace("~", "~0").replace("/", "~1")
        if _HEADER.fullmatch(name) is None:
            raise Invalid("this is no name of a header; write letters, digits and hyphens", pointer=pointer)
        if name.lower() in _OWN_HEADERS:
            raise Invalid(f"the header {name} is set by Tickwise; leave it out", pointer=pointer)
        if not value.isprintable() or not value.isascii():
            raise Invalid("a header holds printable ASCII characters on one line", pointer=pointer)
