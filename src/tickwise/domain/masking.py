"""Secrets in the parameters of http tasks: left out of what is answered, and put back when an answer is sent again.

    stored task ──masked──► GET …  "Authorization": "***"        PUT …  "Authorization": "***" ──restored──► stored task

A value that is masked is `***`, whole. Sent back, it means "as it is": so who reads a job, changes a field and writes
it back loses nothing, and never needs the secret. It is put back only where it was: under the same name, towards the
same scheme, host and port. Invariant: who may change a job, and does not know its secret, can send it nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from tickwise.domain.errors import Invalid

MASK: Final = "***"
HTTP: Final = "http"

_HEADER: Final = re.compile(
    r"auth(?!or(?!i[sz])|enticate)|cookie|token|secret|passw|passphrase|credential|signature|session"
    r"|(?:api|access|account|subscription|functions|private|signing|master|service)[-_]?key",
    re.IGNORECASE,
)
"""Names of headers that carry secrets: Authorization, Proxy-Authorization, Cookie, X-Api-Key, Private-Token,
X-Amz-Security-Token, Ocp-Apim-Subscription-Key, X-Hub-Signature, …"""
_PARAMETER: Final = re.compile(rf"{_HEADER.pattern}|^(?:key|sig|code|pwd|pass|apikey|jwt|sas|hmac)$", re.IGNORECASE)
"""And of parameters of addresses: access_token, api_key, sig, code, …"""


def masked(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """A task as it is answered. One of another kind than http is as it is."""
    if task.get("kind") != HTTP:
        return task
    headers = task.get("headers", {})
    shown = {name: MASK if _HEADER.search(name) else value for name, value in headers.items()}
    return {**task, "url": masked_url(task["url"]), **({"headers": shown} if headers else {})}


def masked_url(url: str) -> str:
    """An address without user, password and the parameters that are named like secrets."""
    return _rewritten(url, lambda _name, _place: MASK, lambda: MASK)


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

    def known_header(name: str) -> str:
        stored = known.get("headers", {}) if known else {}
        in_any_case = {each.lower(): value for each, value in stored.items()}
        return _found(
            stored.get(name, in_any_case.get(name.lower())), "/headers/" + name.replace("~", "~0").replace("/", "~1")
        )

    parameters = _parameters(known["url"]) if known else {}
    found = dict(task)
    found["url"] = _rewritten(
        url,
        lambda name, place: _found(dict(enumerate(parameters.get(name, []))).get(place), "/url"),
        lambda: _found(_userinfo(known["url"]) if known else None, "/url"),
        only_masked=True,
    )
    if headers:
        found["headers"] = {
            name: known_header(name) if value == MASK and isinstance(name, str) and _HEADER.search(name) else value
            for name, value in headers.items()
        }
    return found


def _found(value: str | None, pointer: str) -> str:
    if value is None:
        raise Invalid(
            f"{MASK} stands for a secret that is stored, and none is stored here for this scheme, host and port; send "
            "the secret itself",
            pointer=pointer,
            code="secret_masked",
        )
    return value


def _rewritten(
    url: str, parameter: Callable[[str, int], str], userinfo: Callable[[], str], *, only_masked: bool = False
) -> str:
    """The address with its secrets replaced: of each parameter by name and place among those of its name."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    said, sign, host = parts.netloc.rpartition("@")
    netloc = f"{userinfo()}@{host}" if sign and (not only_masked or said == MASK) else parts.netloc
    seen: dict[str, int] = {}
    pairs = []
    for pair in parts.query.split("&"):
        raw, equals, value = pair.partition("=")
        name = unquote_plus(raw)
        place = seen.get(name, 0)
        seen[name] = place + 1
        if equals and _PARAMETER.search(name) and (not only_masked or value == MASK):
            pair = f"{raw}={parameter(name, place)}"
        pairs.append(pair)
    query = "&".join(pairs)
    if (netloc, query) == (parts.netloc, parts.query):
        return url  # as it is written, to the last sign
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def _parameters(url: str) -> dict[str, list[str]]:
    """The values of the parameters of an address as they are written, by name."""
    found: dict[str, list[str]] = {}
    for pair in urlsplit(url).query.split("&"):
        raw, _, value = pair.partition("=")
        found.setdefault(unquote_plus(raw), []).append(value)
    return found


def _userinfo(url: str) -> str | None:
    said, sign, _ = urlsplit(url).netloc.rpartition("@")
    return said if sign else None


def _origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port; None of what cannot be read."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
