"""The fields of a channel, checked, and divided into those that are shown and those that only its sender is told.

    {url: https://hooks.slack.com/services/T0/B0/secret} ──► settings {url: https://hooks.slack.com/***}
                                                             secrets  {url: https://hooks.slack.com/services/T0/B0/secret}

    webhook  url, headers {name: value}                      url, header values and `signing_secret` are secrets
    email    to [addresses], from, url smtp[s]://u:p@host    url is a secret; without one: the installation's server
    slack    url of an incoming webhook                      url is a secret
    apprise  url of Apprise, such as msteams://…             url is a secret

Invariant: no secret is in `settings`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK
from tickwise.domain.notices.rules import NoticeChannelKind

MAX_RECIPIENTS: Final = 50
MAX_HEADERS: Final = 20
URL_CHARACTERS_MAX: Final = 4_096
HEADER_CHARACTERS_MAX: Final = 4_096
SIGNING_SECRET: Final = "signing_secret"
SECRET_PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
"""Of a signing secret; Standard Webhooks wants 24 to 64."""
PART_CHARACTERS: Final = 8
"""A shorter part of an address is no secret that is worth masking."""
HEADER: Final = "header:"
"""The prefix of the name of a secret that is the value of a header."""

APPRISE_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("dbus", "glib", "gnome", "kde", "qt", "macosx", "windows", "growl"),
        "it shows a message on the scheduler's own desktop",
    ),
    **dict.fromkeys(("syslog",), "it writes to the scheduler's own log"),
    **dict.fromkeys(("http", "https", "file", "schema", "python"), "it is no service"),
    **dict.fromkeys(
        ("json", "jsons", "xml", "xmls", "form", "forms"), "use a channel of kind webhook, which is signed"
    ),
    **dict.fromkeys(("mailto", "mailtos"), "use a channel of kind email"),
}
"""Schemes of Apprise that are refused, with the reason."""
APPRISE_PARAMETERS_REFUSED: Final = frozenset(
    {"attach", "config", "file", "keyfile", "template", "path", "store", "storage", "pgp", "pgpkey", "smime", "cert",
     "key_file", "log_to", "include", "plugin_path", "vapid", "subfile"}
)  # fmt: skip
"""Parameters of Apprise's addresses that name files of the scheduler."""

_RESERVED_HEADERS: Final = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "user-agent", "webhook-id",
     "webhook-timestamp", "webhook-signature"}
)  # fmt: skip
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"()\[\]\\\x00-\x1f\x7f]{1,64}@[^\s@<>,;:\"()\[\]\\\x00-\x1f\x7f]{1,255}")
_PARTS: Final = re.compile(r"[/?#&=:@\s]+")
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")
_FIELDS: Final[Mapping[NoticeChannelKind, frozenset[str]]] = {
    NoticeChannelKind.WEBHOOK: frozenset({"url", "headers"}),
    NoticeChannelKind.EMAIL: frozenset({"to", "from", "url"}),
    NoticeChannelKind.SLACK: frozenset({"url"}),
    NoticeChannelKind.APPRISE: frozenset({"url"}),
}


class ChannelFields(NamedTuple):
    """The fields of a channel, divided."""

    settings: Mapping[str, object]
    secrets: Mapping[str, str]


def channel_fields(
    kind: NoticeChannelKind,
    fields: Mapping[str, Any],
    *,
    random: bytes = b"",
    before: Mapping[str, str] | None = None,
) -> ChannelFields:
    """Check the fields of a channel of this kind, and divide them. `random`: `SECRET_BYTES` bytes, of which a new
    webhook has its signing secret. `before`: the secrets of the channel that this one replaces; a value that comes as
    it is shown, masked, and a signing secret stay as they are. A masked header goes nowhere else than before. Raises
    `Invalid`."""
    for name in fields:
        if name not in _FIELDS[kind]:
            known = ", ".join(sorted(_FIELDS[kind]))
            raise Invalid(f"a channel of kind {kind} has no field `{name}`; it has {known}", pointer=f"/{name}")
    known_secrets = before or {}
    if kind is NoticeChannelKind.WEBHOOK:
        return _webhook(fields, random, known_secrets)
    if kind is NoticeChannelKind.EMAIL:
        return _email(fields, known_secrets)
    if kind is NoticeChannelKind.SLACK:
        url = _url(fields, known_secrets)
        _split(url, ("https", "http"))
        return ChannelFields({"url": shown_url(url)}, {"url": url})
    return _apprise(_url(fields, known_secrets))


def signing_secret(random: bytes) -> str:
    """The text of a signing secret, as receivers are given it. Raises `ValueError` for too few bytes."""
    if len(random) < 24:
        raise ValueError("a signing secret has at least 24 bytes")
    return SECRET_PREFIX + b64encode(random).decode()


def signing_key(secret: str) -> bytes:
    """The bytes that a signing secret stands for. Raises `ValueError`."""
    try:
        return b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        raise ValueError("the signing secret is not base64") from None


def shown_url(url: str) -> str:
    """An address as it is shown: scheme and host. All else may be a secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return MASK
    if not parts.scheme:
        return MASK
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port else ''}/{MASK}"


def shown_apprise(url: str) -> str:
    """An address of Apprise as it is shown: the scheme alone, because the host of many is a token."""
    return f"{url.partition('://')[0]}://{MASK}"


def without_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """A text of a receiver or a library with each secret of the channel masked, and the parts of its addresses but for
    their hosts."""
    known: set[str] = set()
    for value in secrets.values():
        known |= {value, unquote(value)}
        parts = set(_PARTS.split(value))
        try:
            split = urlsplit(value)
            parts -= {split.hostname or "", split.netloc}
            known |= {unquote(each) for each in (split.username, split.password) if each and len(each) >= 4}
        except ValueError:
            pass
        known.update(part for each in parts for part in (each, unquote(each)) if len(part) >= PART_CHARACTERS)
    for each in sorted(known - {""}, key=len, reverse=True):
        text = text.replace(each, MASK)
    return text


def _webhook(fields: Mapping[str, Any], random: bytes, before: Mapping[str, str]) -> ChannelFields:
    url = _url(fields, before)
    _split(url, ("https", "http"))
    headers = {} if fields.get("headers") is None else fields["headers"]
    if not isinstance(headers, Mapping) or len(headers) > MAX_HEADERS:
        raise Invalid(f"`headers` must be an object with at most {MAX_HEADERS} names", pointer="/headers")
    secrets = {"url": url, SIGNING_SECRET: before.get(SIGNING_SECRET) or signing_secret(random)}
    is_same_host = shown_url(url) == shown_url(before.get("url", ""))
    named: set[str] = set()
    for name, value in headers.items():
        pointer = "/headers/" + str(name).replace("~", "~0").replace("/", "~1")
        if not isinstance(name, str) or not _TOKEN.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
            raise Invalid(f"{name!r} is no name of a header that a channel may set", pointer=pointer)
        if name.lower() in named:
            raise Invalid(f"the header {name} is named twice, for case makes no difference", pointer=pointer)
        named.add(name.lower())
        kept = value
        if value == MASK:
            kept = before.get(HEADER + name) if is_same_host else None
        if (
            not isinstance(kept, str)
            or len(kept) > HEADER_CHARACTERS_MAX
            or not kept.isprintable()
            or not kept.isascii()
        ):
            raise Invalid("the value of a header is a text of printable ASCII characters", pointer=pointer)
        secrets[HEADER + name] = kept
    shown = dict.fromkeys(headers, MASK)
    return ChannelFields({"url": shown_url(url), **({"headers": shown} if shown else {})}, secrets)


def _email(fields: Mapping[str, Any], before: Mapping[str, str]) -> ChannelFields:
    to = fields.get("to")
    if isinstance(to, str):
        to = [to]
    if not isinstance(to, Sequence) or not 0 < len(to) <= MAX_RECIPIENTS:
        raise Invalid(f"`to` must be a list of 1 to {MAX_RECIPIENTS} addresses", pointer="/to")
    for place, each in enumerate(to):
        _check_address(each, f"/to/{place}")
    settings: dict[str, object] = {"to": list(dict.fromkeys(to))}
    if fields.get("from") is not None:
        _check_address(fields["from"], "/from")
        settings["from"] = fields["from"]
    if fields.get("url") is None:
        return ChannelFields(settings, {})
    url = _url(fields, before)
    _split(url, ("smtp", "smtps"))
    if "from" not in settings:
        raise Invalid("a channel with a server of its own needs `from`, the sender's address", pointer="/from")
    settings["url"] = shown_url(url)
    return ChannelFields(settings, {"url": url})


def _apprise(url: str) -> ChannelFields:
    scheme, sign, rest = url.partition("://")
    scheme = scheme.lower()
    if not sign or not re.fullmatch(r"[a-z][a-z0-9]{1,30}", scheme) or not rest:
        raise Invalid("`url` must be an address of Apprise, such as ntfy://topic or msteams://…", pointer="/url")
    check_apprise(url)
    return ChannelFields({"url": shown_apprise(url)}, {"url": url})


def check_apprise(url: str) -> None:
    """Refuse an address of Apprise that would act on the scheduler's own machine. Raises `Invalid`."""
    scheme = url.partition("://")[0].lower()
    if (reason := APPRISE_REFUSED.get(scheme)) is not None:
        raise Invalid(f"{scheme}:// is refused: {reason}", pointer="/url", code="channel_scheme_refused")
    for name, _ in parse_qsl(url.partition("?")[2].replace("?", "&"), keep_blank_values=True):
        if name.lower().lstrip("+-: ") in APPRISE_PARAMETERS_REFUSED:
            raise Invalid(
                f"the parameter `{name[:40]}` is refused: it names a file of the scheduler",
                pointer="/url",
                code="channel_scheme_refused",
            )


def _url(fields: Mapping[str, Any], before: Mapping[str, str]) -> str:
    url = fields.get("url")
    if not isinstance(url, str) or not url or len(url) > URL_CHARACTERS_MAX or _CONTROL.search(url):
        raise Invalid(
            f"`url` must be an address of at most {URL_CHARACTERS_MAX} characters, without spaces", pointer="/url"
        )
    if url.endswith(MASK):
        kept = before.get("url")
        if kept is None or url not in (shown_url(kept), shown_apprise(kept)):
            raise Invalid(
                f"{MASK} stands for a secret that is stored, and none is stored here for this address; send the whole "
                "address",
                pointer="/url",
                code="secret_masked",
            )
        return kept
    return url


def _split(url: str, schemes: Sequence[str]) -> SplitResult:
    """The parts of an address with one of these schemes and a host. Raises `Invalid`."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"`url` cannot be read: {error}", pointer="/url") from None
    if parts.scheme not in schemes or not host:
        raise Invalid(
            f"`url` must begin with {' or '.join(f'{each}://' for each in schemes)} and name a host", pointer="/url"
        )
    if parts.fragment:
        raise Invalid("`url` must have no fragment (#…)", pointer="/url")
    return parts


def _check_address(address: object, pointer: str) -> None:
    if not isinstance(address, str) or len(address) > 320 or not _ADDRESS.fullmatch(address):
        raise Invalid(f"{str(address)[:100]!r} is no e-mail address, such as ada@example.com", pointer=pointer)
