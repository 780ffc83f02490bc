"""Texts with values of a run in them: `https://example.com/orders/{{ payload.order.id }}`.

    text ──parse──► "https://example.com/orders/", Lookup(("payload", "order", "id"))
                                                     │
                    rendering: each value is escaped for the place where it stands, and never read as text of the task

    {{ payload.order.id }}              a value of the payload, by the names of fields and the numbers of items
    {{ payload."a name".0 }}            a name with other signs, in quotes as in JSON
    {{ run.id }}                        a fact of the run: `RUN_FACTS`
    {{ secret.NAME }}                   a secret; of another provider in quotes: {{ secret."vault:app/db#key" }}
    {{ identity_token }}                the identity token of the attempt, in headers alone
    {{ payload.note | default("-") }}   in the place of a value that is not there
    {{ "{{" }}                          a text, here the two braces themselves

That is all: no conditions, no loops, no filters, no attributes. Parsing takes time in proportion to the text.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from tickwise.domain.errors import Invalid
from tickwise.domain.secrets.places import SECRET, reference_text
from tickwise.domain.secrets.references import read_reference

OPEN: Final = "{{"
CLOSE: Final = "}}"
PAYLOAD: Final = "payload"
RUN: Final = "run"
IDENTITY_TOKEN: Final = "identity_token"
RUN_FACTS: Final = (
    "id", "due", "nominal", "attempt", "idempotency_key", "fencing_token", "job_id", "namespace",
)  # fmt: skip
MAX_LOOKUPS: Final = 100
"""Values in one text."""
MAX_DEPTH: Final = 20
"""Names in one path."""

_BLANKS: Final = re.compile(r"[ \t]*")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"')
_SCALAR: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?|true|false|null")
_DEFAULT: Final = re.compile(r"\|[ \t]*default[ \t]*\([ \t]*")
_BRACKET: Final = re.compile(r"\[[ \t]*([0-9]+|'[^']*'|\"[^\"]*\")[ \t]*\]")


class TemplateFault(Exception):
    """A template that cannot be read. Its text says what is wrong and what to write."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A value of the run that stands in a text."""

    path: tuple[str, ...]
    """`payload` and the names below it, `run` and one of `RUN_FACTS`, `secret` and its name, or
    `identity_token`."""
    source: str
    """As it is written, for messages."""
    has_default: bool = False
    default: str | int | float | bool | None = None


@dataclass(frozen=True, slots=True)
class Literal:
    """A text that was written inside braces. It is a value: escaped as one."""

    text: str
    source: str
    """As it is written, with its braces."""


Part = str | Lookup | Literal


def parse(text: str) -> tuple[Part, ...]:
    """The parts of a text, in their order. Raises `TemplateFault`."""
    parts: list[Part] = []
    place = 0
    while (begin := text.find(OPEN, place)) != -1:
        if begin > place:
            parts.append(text[place:begin])
        part, place = _Reader(text, begin).read()
        parts.append(part)
        if len(parts) > 2 * MAX_LOOKUPS:
            raise TemplateFault(f"there are more than {MAX_LOOKUPS} values in it")
    if place < len(text):
        parts.append(text[place:])
    return tuple(parts)


def has_templates(value: Any) -> bool:
    """Check whether a text, or a text anywhere in a JSON value, has two opening braces."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if OPEN in one:
                return True
        elif isinstance(one, dict):
            waiting.extend(one.keys())
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)
    return False


class _Reader:
    """Reads what stands between one pair of braces."""

    def __init__(self, text: str, begin: int) -> None:
        self._text = text
        self._begin = begin
        self._place = begin + len(OPEN)

    def read(self) -> tuple[Part, int]:
        self._skip()
        if (found := _STRING.match(self._text, self._place)) is not None:
            self._place = found.end()
            self._close()
            return Literal(self._string(found.group()), self._text[self._begin : self._place]), self._place
        path = self._path()
        self._skip()
        default: tuple[Any] | None = None
        if (opened := _DEFAULT.match(self._text, self._place)) is not None:
            self._place = opened.end()
            default = (self._default(),)
        self._close()
        source = self._text[self._begin : self._place]
        if default is None:
            return Lookup(path, source), self._place
        if path[0] == IDENTITY_TOKEN:
            raise TemplateFault("an identity token has no default: without it the request is not sent")
        if path[0] == SECRET:
            raise TemplateFault("a secret has no default: without its value the request is not sent")
        return Lookup(path, source, has_default=True, default=default[0]), self._place

    def _path(self) -> tuple[str, ...]:
        names = [self._name()]
        while self._text.startswith(".", self._place):
            self._place += 1
            names.append(self._name())
            if len(names) > MAX_DEPTH:
                raise TemplateFault(f"a path has at most {MAX_DEPTH} names")
        if (bracket := _BRACKET.match(self._text, self._place)) is not None:
            inner = bracket.group(1)
            inner = inner if inner.isdecimal() else f'"{inner[1:-1]}"'
            raise TemplateFault(f"an item is named behind a dot: write {{{{ {'.'.join(names)}.{inner} }}}}")
        return _checked_path(names)

    def _name(self) -> str:
        if (found := _NAME.match(self._text, self._place)) is not None:
            self._place = found.end()
            return found.group()
        if (found := _STRING.match(self._text, self._place)) is not None:
            self._place = found.end()
            return self._string(found.group())
        raise self._fault()

    def _default(self) -> Any:
        for form in (_STRING, _SCALAR):
            if (found := form.match(self._text, self._place)) is not None:
                self._place = found.end()
                self._skip()
                if not self._text.startswith(")", self._place):
                    break
                self._place += 1
                return self._string(found.group()) if form is _STRING else json.loads(found.group())
        raise TemplateFault(
            'a default is a text in double quotes, a number, true, false or null: {{ payload.note | default("none") }}'
        )

    def _string(self, text: str) -> str:
        found: str = json.loads(text)
        try:
            found.encode()
        except UnicodeEncodeError:
            raise TemplateFault("a text in it has half of a surrogate pair") from None
        return found

    def _skip(self) -> None:
        blanks = _BLANKS.match(self._text, self._place)
        assert blanks is not None
        self._place = blanks.end()

    def _close(self) -> None:
        self._skip()
        if not self._text.startswith(CLOSE, self._place):
            raise self._fault()
        self._place += len(CLOSE)

    def _fault(self) -> TemplateFault:
        rest = self._text[self._place : self._place + 20]
        if CLOSE not in self._text[self._begin : self._begin + 2_000]:
            return TemplateFault(
                'two opening braces begin a value, and nothing closes it; to send the braces themselves, write {{ "{{" '
                "}} or set `templates` to false"
            )
        if rest.startswith("|"):
            return TemplateFault('the only filter is a default, as in {{ payload.note | default("none") }}')
        if rest.startswith("'"):
            return TemplateFault('a text is in double quotes, as in JSON: {{ payload."a name" }}')
        return TemplateFault(
            'a value is a path such as {{ payload.order.id }}, {{ payload."a name".0 }} or {{ run.id }}, with no signs '
            'beside it; to send the braces themselves, write {{ "{{" }} or set `templates` to false'
        )


def _checked_path(names: list[str]) -> tuple[str, ...]:
    """The path, if it leads to a value that there can be. Raises `TemplateFault`."""
    first = names[0]
    if first == PAYLOAD:
        return tuple(names)
    if first == SECRET:
        return _checked_secret(names)
    if names == [IDENTITY_TOKEN]:
        return (IDENTITY_TOKEN,)
    if first != RUN:
        near = difflib.get_close_matches(first[:50], (PAYLOAD, RUN, SECRET), n=1)
        rest = ".".join(names[1:] if near else names)
        better = f"{near[0] if near else PAYLOAD}.{rest}".removesuffix(".")
        raise TemplateFault(f"a value begins with `payload`, `run` or `secret`; did you mean {{{{ {better} }}}}?")
    if len(names) != 2 or names[1] not in RUN_FACTS:
        near = difflib.get_close_matches(".".join(names[1:])[:50], RUN_FACTS, n=1)
        hint = f"did you mean {{{{ run.{near[0]} }}}}?" if near else f"there are {', '.join(RUN_FACTS)}"
        raise TemplateFault(f"a run has no such fact; {hint}")
    return tuple(names)


def _checked_secret(names: list[str]) -> tuple[str, ...]:
    """The path of a secret. Raises `TemplateFault`."""
    if len(names) < 2:
        raise TemplateFault("a secret is named behind a dot, as in {{ secret.api-token }}")
    try:
        read_reference(reference_text(names[1:]))
    except Invalid as refusal:
        raise TemplateFault(refusal.detail) from None
    return tuple(names)
