"""Puts the values of a run into the texts of an http task, each escaped for the place where it stands.

    path, query   a percent-encoded component: a value adds no `/`, `?`, `&`, `=`, `#`, and makes no `.` or `..`
    header        one line: no control characters
    JSON body     a JSON value: a number stays a number; inside a longer text, its characters
    form          urlencoded
    plain text    as it is

Scheme and host never have a value in them: `templated` refuses that when the task is stored.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

import msgspec

from tickwise.adapters.runner.calls.templates import IDENTITY_TOKEN, PAYLOAD, Literal, Lookup, Part, parse
from tickwise.adapters.runner.checks import json_type
from tickwise.domain.secrets.places import SECRET, reference_text
from tickwise.ports.runner import NO_SECRETS

RENDERED_BYTES_MAX: Final = 8 << 20
"""Of all values in one request: a large one that is named often would fill the memory."""
COOKIE: Final = "cookie"
PARAMETER: Final = "a parameter"

_LINE_ENDS: Final = ("Cc", "Zl", "Zp", "Cs")
_NOT_IN_COOKIES: Final = frozenset(' ",;\\')
_READ: Final = msgspec.json.Decoder(float_hook=Decimal)
_WRITE: Final = msgspec.json.Encoder(decimal_format="number")


class TemplateValueError(Exception):
    """A value that is not there, or that cannot stand where it is asked for. Its text is for people, and has no value
    of the payload in it."""


class Values:
    """The values of one run, and the room that they may take in its request."""

    def __init__(
        self,
        payload: bytes,
        facts: Mapping[str, str | int],
        *,
        templates: bool = True,
        secrets: Mapping[str, bytes] = NO_SECRETS,
        identity_token: str | None = None,
    ) -> None:
        """`payload`: JSON text. `facts`: by the names of `RUN_FACTS`. Without `templates`, texts are as they are, but
        for those that are references. `secrets`: by their references."""
        self._parts: Callable[[str], tuple[Part, ...]] = parse if templates else _as_it_is
        self._secrets = secrets
        self._identity_token = identity_token
        self._payload = payload
        self._facts = facts
        self._decoded: tuple[Any] | None = None
        self._room = RENDERED_BYTES_MAX

    def _parse(self, text: str) -> tuple[Part, ...]:
        if text in self._secrets:
            return (Literal(self.secret(text), text),)
        return self._parts(text)

    def secret(self, reference: str) -> str:
        """The value of a secret as text. Raises `TemplateValueError`."""
        try:
            return self._secrets[reference].decode()
        except KeyError:
            raise TemplateValueError(f"the value of {reference} did not come with the run") from None
        except UnicodeDecodeError:
            raise TemplateValueError(
                f"the value of {reference} is no text (UTF-8), so no request can hold it"
            ) from None

    def address(self, text: str) -> str:
        """An address: its path and its query each by its own rule. The fragment, which is never sent, is left out."""
        path, query = _parted(self._parse(text))
        found = self._path(path)
        if query is None:
            return found
        return f"{found}?{self._joined(query, 'the query of the address', lambda value: quote(value, safe=''))}"

    def _path(self, parts: tuple[Part, ...]) -> str:
        found = self._joined(parts, "the path of the address", lambda value: quote(value, safe=""))
        for written, segment in zip(_segments(parts), found.split("/"), strict=True):
            if written is not None:
                continue
            plain = unquote(segment).partition(";")[0]
            if not plain or plain in (".", ".."):
                raise TemplateValueError(
                    "a value makes a part of the path that is empty, `.` or `..`: that would call another address"
                )
        return found

    def plain(self, text: str, where: str) -> str:
        """A text whose place has no signs of its own; `where` is for messages."""
        return self._joined(self._parse(text), where, str)

    def header(self, name: str, text: str) -> str:
        """The value of a header."""

        def checked(value: str) -> str:
            if any(unicodedata.category(character) in _LINE_ENDS for character in value):
                raise TemplateValueError(f"a value in the header `{name}` has a line break or a control character")
            if name.lower() == COOKIE and not _NOT_IN_COOKIES.isdisjoint(value):
                raise TemplateValueError("a value in the header `Cookie` has a blank, a quote, a comma or a semicolon")
            return value

        return self._joined(self._parse(text), f"the header `{name}`", checked)

    def json(self, value: Any) -> Any:
        """A JSON value whose texts have values in them."""
        if isinstance(value, str):
            parts = self._parse(value)
            if len(parts) == 1 and isinstance(parts[0], Lookup):
                return self._json_value(parts[0])
            return self._joined(parts, "the body", str)
        if isinstance(value, Mapping):
            return {name: self.json(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(inner) for inner in value]
        return value

    def parameters(self, fields: Mapping[str, Any]) -> str:
        """Fields as the query of an address or a form has them. A list gives its name once for each item, null leaves
        it out."""
        pairs: list[str] = []
        for name, value in fields.items():
            for one in value if isinstance(value, list | tuple) else (value,):
                text = self._parameter(one)
                if text is not None:
                    pairs.append(f"{quote_plus(name)}={quote_plus(text)}")
        return "&".join(pairs)

    def _parameter(self, value: Any) -> str | None:
        """The text of a parameter; None: its value is null, which leaves it out."""
        if not isinstance(value, str):
            return _scalar(value)
        parts = self._parse(value)
        if len(parts) == 1 and isinstance(parts[0], Lookup):
            found = self._found(parts[0], PARAMETER, null_is_missing=False)
            if found is None:
                return None
        return self._joined(parts, PARAMETER, str)

    def _json_value(self, lookup: Lookup) -> msgspec.Raw:
        found = self._found(lookup, "the body", null_is_missing=False)
        encoded = _WRITE.encode(found)
        self._take(len(encoded))
        return msgspec.Raw(encoded)

    def _joined(self, parts: tuple[Part, ...], where: str, escape: Callable[[str], str]) -> str:
        pieces: list[str] = []
        for part in parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            value = part.text if isinstance(part, Literal) else self._text(part, where)
            self._take(len(value))
            pieces.append(escape(value))
        return "".join(pieces)

    def _text(self, lookup: Lookup, where: str) -> str:
        found = self._found(lookup, where, null_is_missing=True)
        if found is None or isinstance(found, dict | list):
            raise TemplateValueError(
                f"{lookup.source} is {json_type(found)}, and {where} takes a text, a number, true or false"
            )
        return _scalar(found)

    def _found(self, lookup: Lookup, where: str, *, null_is_missing: bool) -> Any:
        """The value of the run, or the default. Raises `TemplateValueError`."""
        if lookup.path[0] == IDENTITY_TOKEN:
            if self._identity_token is None:
                raise TemplateValueError(f"{lookup.source}: the job asks for no identity token; give it identity_token")
            return self._identity_token
        if lookup.path[0] == SECRET:
            return self.secret(reference_text(lookup.path[1:]))
        value: Any = self._payload_value() if lookup.path[0] == PAYLOAD else self._facts
        known = lookup.path[0]
        for name in lookup.path[1:]:
            inner = _inner(value, name)
            if inner is None:
                if lookup.has_default:
                    return lookup.default
                raise TemplateValueError(
                    f"{lookup.source} in {where}: {_has_not(known, value, name)}. Give it a value, or a default: "
                    f'{{{{ {lookup.source[2:-2].strip()} | default("…") }}}}'
                )
            value, known = inner[0], f"{known}.{name}"
        if value is None and null_is_missing:
            if lookup.has_default and lookup.default is not None:
                return lookup.default
            raise TemplateValueError(f"{lookup.source} is null, and {where} takes a text, a number, true or false")
        return value

    def _payload_value(self) -> Any:
        if self._decoded is None:
            try:
                self._decoded = (_READ.decode(self._payload),)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                raise TemplateValueError("the payload cannot be read as JSON") from None
        return self._decoded[0]

    def _take(self, count: int) -> None:
        self._room -= count
        if self._room < 0:
            raise TemplateValueError(f"the values in the request have more than {RENDERED_BYTES_MAX} bytes")


def _as_it_is(text: str) -> tuple[Part, ...]:
    return (text,)


def _parted(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], tuple[Part, ...] | None]:
    """The parts of an address before its `?` and behind it, without what follows a `#`; None: there is no query."""
    path: list[Part] = []
    query: list[Part] | None = None
    for part in parts:
        here = path if query is None else query
        if not isinstance(part, str):
            here.append(part)
            continue
        text, sharp, _ = part.partition("#")
        if query is None:
            text, sign, rest = text.partition("?")
            path.append(text)
            query = [rest] if sign else None
        else:
            query.append(text)
        if sharp:
            break
    return tuple(path), None if query is None else tuple(query)


def _segments(parts: tuple[Part, ...]) -> list[str | None]:
    """The segments of a path as they are written; None: there is a value in it."""
    segments: list[str | None] = [""]
    for part in parts:
        if not isinstance(part, str):
            segments[-1] = None
            continue
        first, *others = part.split("/")
        if segments[-1] is not None:
            segments[-1] += first
        segments.extend(others)
    return segments


def _scalar(value: Any) -> str:
    """A scalar as its JSON writes it, a text without its quotes."""
    if isinstance(value, str):
        return value
    return _WRITE.encode(value).decode()


def _inner(value: Any, name: str) -> tuple[Any] | None:
    """The field or the item of this name; None: there is none."""
    if isinstance(value, Mapping):
        return (value[name],) if name in value else None
    if isinstance(value, list) and name.isascii() and name.isdecimal() and len(name) < 9 and int(name) < len(value):
        return (value[int(name)],)
    return None


def _has_not(known: str, value: Any, name: str) -> str:
    if isinstance(value, Mapping):
        return f"`{known}` has no field `{name}`"
    if isinstance(value, list):
        return f"`{known}` has {len(value)} items, and none is `{name}`"
    kind = "a number" if isinstance(value, Decimal) else json_type(value)
    return f"`{known}` is {kind} and has no `{name}`"
