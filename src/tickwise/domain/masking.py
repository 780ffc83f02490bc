"""Secrets in the parameters of http tasks: left out of what is answered, and put back when an answer is sent again.

    stored task ──masked──► GET …  "Authorization": "***"        PUT …  "Authorization": "***" ──restored──► stored task

A reference to a secret (`secret:NAME`, `Bearer {{ secret.NAME }}`) is none itself, and is answered as it is.

Headers are masked unless they are known to carry no secret; of an address the user and password, the fragment, and
the parameters of its path and query that are named like secrets; so are the fields of `query` and `form` with such
names, the secrets of `sign`, the client's secret of `oauth` and the private key of `tls`. A masked value is `***`,
whole. Sent back, it means "as it is": a caller that reads a job, changes a field and writes it back loses nothing, and
never needs the secret. It is put back only where it was: under the same name, towards the same scheme, host and port;
the secret of `oauth` also only for the same server of tokens. Invariant: a caller that may change a job, and does not
know its secret, can send it nowhere else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus, urlsplit

from tickwise.domain.errors import Invalid
from tickwise.domain.secrets.places import is_shown

MASK: Final = "***"
HTTP: Final = "http"
PARAMETERS: Final = ("query", "form")
"""Fields of an http task with parameters by name."""

SHOWN_HEADERS: Final = frozenset({
    "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-encoding",
    "content-language", "content-type", "if-match", "if-modified-since", "if-none-match", "if-unmodified-since",
    "prefer", "range", "user-agent",
})  # fmt: skip
"""Headers whose values are answered. All others are masked, because anybody may name a secret as they like: `Key`,
`X-Pin`, `X-JWT`. An `Idempotency-Key` and a `Referer` are not here: services take the first for a capability, and the
second is an address with all that addresses hold."""

_PARAMETER: Final = re.compile(
    r"auth(?!or(?!i[sz])|enticate)|cookie|token|secret|passw|passphrase|credential|signature|session|bearer|jwt"
    r"|(?:api|access|account|subscription|functions|private|signing|master|service)[-_]?key"
    r"|(?:^|[^a-z0-9])(?:key|sig|sign|sid|pwd|pw|pass|pin|otp|totp|sas|hmac|assertion|ticket)$|^code$"
    r"|(?-i:[a-z0-9](?:Key|Sig|Sid|Pwd|Pass|Pin|Otp|Sas|Hmac))$",
    re.IGNORECASE,
)
"""Parameters of addresses that are named like secrets: access_token, api_key, sig, code, userPin, …"""
_ADDRESS: Final = re.compile(r"([^:/?#]+:)?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
"""RFC 3986, appendix B: it fits every text, and its parts joined are that text."""
_INNER_USER: Final = re.compile(r"//[^/?#@]*@")
"""User and password of an address inside of another one: `?next=https://ada:pw@example.com/`."""

_INNER_NAME: Final = re.compile(r"[?&;#]([^?&;#=]*)=")
"""And the names of its parameters."""


def masked(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """A task as it is answered. One of another kind than http is as it is."""
    if task.get("kind") != HTTP:
        return task
    shown: dict[str, Any] = {**task, "url": masked_url(task["url"])}
    if task.get("headers"):
        shown["headers"] = {
            name: MASK if _is_hidden(name) and not is_shown(value) else value for name, value in task["headers"].items()
        }
    for field in PARAMETERS:
        if task.get(field):
            shown[field] = {
                name: MASK if is_secret_name(name) and not is_shown(value) else value
                for name, value in task[field].items()
            }
    if task.get("sign"):
        shown["sign"] = {**task["sign"], "secrets": [_masked_value(each) for each in task["sign"]["secrets"]]}
    if task.get("oauth"):
        token_url = masked_url(task["oauth"]["token_url"])
        shown["oauth"] = {
            **task["oauth"],
            "client_secret": _masked_value(task["oauth"]["client_secret"]),
            "token_url": token_url,
        }
    if task.get("tls") and "key" in task["tls"]:
        shown["tls"] = {**task["tls"], "key": _masked_value(task["tls"]["key"])}
    return shown


def _masked_value(value: str) -> str:
    return value if is_shown(value) else MASK


def masked_url(url: str) -> str:
    """An address without user, password, fragment and the parameters that are named like secrets."""
    return "".join(piece.text if piece.place is None else MASK for piece in _pieces(url))


def restored(task: Mapping[str, Any], before: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A task that was sent, with what is masked in it as it is in the task `before` that it replaces. Raises `Invalid`,
    code `secret_masked`, where there is nothing to put back, or it would be sent elsewhere."""
    if task.get("kind") != HTTP:
        return task
    url, headers = task.get("url"), task.get("headers")
    if not isinstance(url, str) or not isinstance(headers, Mapping | None):
        return task  # the check of the task says what is wrong
    known = before if before is not None and before.get("kind") == HTTP else None
    if known is not None and _origin(url) != _origin(known["url"]):
        known = None
    stored: Mapping[str, Any] = known or {}

    def known_header(name: str) -> Any:
        in_any_case = {each.lower(): value for each, value in stored.get("headers", {}).items()}
        return _found(stored.get("headers", {}).get(name, in_any_case.get(name.lower())), f"/headers/{_escaped(name)}")

    found = {**task, "url": _restored_url(url, stored.get("url"), "/url")}
    if headers:
        found["headers"] = {
            name: known_header(name) if value == MASK and isinstance(name, str) and _is_hidden(name) else value
            for name, value in headers.items()
        }
    for field in PARAMETERS:
        if isinstance(said := task.get(field), Mapping):
            found[field] = _restored_fields(said, stored.get(field), f"/{field}")
    return {**found, **_restored_proofs(task, stored)}


def _restored_proofs(task: Mapping[str, Any], stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """`sign`, `oauth` and `tls` with their secrets. What cannot be read stays: its check says what is wrong."""
    found: dict[str, Any] = {}
    if isinstance(sign := task.get("sign"), Mapping) and isinstance(secrets := sign.get("secrets"), list | tuple):
        # The masks stand for the stored secrets in their order, so a new one may be put before the first. A reference
        # was answered as it is, so no mask stands for it.
        known = (each for each in (stored.get("sign") or {}).get("secrets", ()) if not is_shown(each))
        put_back = [
            _found(next(known, None), f"/sign/secrets/{place}") if secret == MASK else secret
            for place, secret in enumerate(secrets)
        ]
        found["sign"] = {**sign, "secrets": put_back}
    if isinstance(oauth := task.get("oauth"), Mapping) and isinstance(url := oauth.get("token_url"), str):
        before = stored.get("oauth") or {}
        if before and _origin(url) != _origin(before["token_url"]):
            before = {}
        found["oauth"] = {**oauth, "token_url": _restored_url(url, before.get("token_url"), "/oauth/token_url")}
        if oauth.get("client_secret") == MASK:
            found["oauth"]["client_secret"] = _found(before.get("client_secret"), "/oauth/client_secret")
    if isinstance(tls := task.get("tls"), Mapping) and tls.get("key") == MASK:
        found["tls"] = {**tls, "key": _found((stored.get("tls") or {}).get("key"), "/tls/key")}
    return found


def _restored_url(url: str, stored: str | None, pointer: str) -> str:
    if MASK not in url:
        return url
    secrets = {piece.place: piece.text for piece in _pieces(stored) if piece.place} if stored else {}
    return "".join(
        _found(secrets.get(piece.place), pointer) if piece.place is not None and piece.text == MASK else piece.text
        for piece in _pieces(url)
    )


def _restored_fields(said: Mapping[str, Any], stored: Mapping[str, Any] | None, pointer: str) -> Mapping[str, Any]:
    return {
        name: _found((stored or {}).get(name), f"{pointer}/{_escaped(name)}")
        if value == MASK and is_secret_name(name)
        else value
        for name, value in said.items()
    }


def _escaped(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def is_secret_name(name: str) -> bool:
    """Check whether a parameter or a field is named like a secret."""
    return _PARAMETER.search(name) is not None


def _is_hidden(header: str) -> bool:
    return header.lower() not in SHOWN_HEADERS


def _found(value: Any, pointer: str) -> Any:
    if value is None:
        raise Invalid(
            f"{MASK} stands for a secret that is stored, and none is stored here for this scheme, host and port; send "
            "the secret itself",
            pointer=pointer,
            code="secret_masked",
        )
    return value


class _Piece(NamedTuple):
    """A part of an address as it is written. All of them joined are the address."""

    text: str
    place: tuple[str, str, int] | None = None
    """Of a secret: in which part of the address it is, its name there, and how many of that name are before it."""


def _pieces(url: str) -> Iterator[_Piece]:
    found = _ADDRESS.fullmatch(url)
    assert found is not None
    scheme, authority, path, query, fragment = (part or "" for part in found.groups())
    seen: Counter[tuple[str, str]] = Counter()
    user, sign, host = authority[2:].rpartition("@")
    yield from (_Piece(scheme), _Piece(authority[:2]))
    if sign:
        yield _Piece(user, ("user", "", 0))
    yield _Piece(sign + host)
    before = None
    for segment in re.split("(/)", path):
        inner, sign, rest = segment.rpartition("@")
        if sign and before == "":  # behind `//`: the user of an address inside of this one
            yield _secret("path", "@", inner, seen)
            segment = sign + rest
        yield from _parameters("path", segment, seen)
        before = segment if segment != "/" else before
    yield _Piece(query[:1])
    for pair in re.split("(&)", query[1:]):
        yield from _parameters("query", pair, seen)
    yield _Piece(fragment[:1])
    if fragment[1:]:
        yield _Piece(fragment[1:], ("fragment", "", 0))


def _parameters(part: str, text: str, seen: Counter[tuple[str, str]]) -> Iterator[_Piece]:
    """A segment of a path, or what stands between two `&`: all behind the first secret's name is that secret, because a
    `;` may divide parameters and may belong to a value."""
    start = 0
    for parameter in text.split(";"):
        raw, equals, value = parameter.partition("=")
        name = unquote_plus(raw)
        begin = start + len(raw) + 1
        is_mask = value == MASK and begin + len(MASK) == len(text)
        if equals and (is_mask or _PARAMETER.search(name) or _holds_secret(unquote_plus(value))):
            yield _Piece(text[:begin])
            yield _secret(part, name, text[begin:], seen)
            return
        start += len(parameter) + 1
    yield _Piece(text)


def _holds_secret(value: str) -> bool:
    """Check whether the value of a parameter is an address with secrets of its own."""
    return _INNER_USER.search(value) is not None or any(map(_PARAMETER.search, _INNER_NAME.findall(value)))


def _secret(part: str, name: str, value: str, seen: Counter[tuple[str, str]]) -> _Piece:
    seen[part, name] += 1
    return _Piece(value, (part, name, seen[part, name]))


def _origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port; None of what cannot be read."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
