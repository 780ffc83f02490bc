"""Preconditions of requests: `ETag`, `If-Match` and `If-None-Match`, as RFC 9110 has them (sections 8.8 and 13).

    GET, HEAD    answer ──► its tag ──► If-Match (412) ──► If-None-Match (304)
    writes       look ──► tag of what is there ──► If-Match, If-None-Match (412) ──► write, pinned to what was looked at
                   ▲                                                                   │
                   └────────────── somebody else wrote in between ◄────────────────────┘

A tag is a digest of the whole answer to a GET, so it changes whenever anything in that changes, the derived fields
included. A write is pinned to the version that its precondition was judged by, and the store compares that in the
write's own transaction: no other write of the job, calendar, window or task comes between.

Invariant: a write whose precondition is false changes nothing.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeVar

from tickwise.api.problems import BadHeader, Headers
from tickwise.domain.errors import Busy, VersionConflict

T = TypeVar("T")
Row = TypeVar("Row")

IF_MATCH: Final = b"if-match"
IF_NONE_MATCH: Final = b"if-none-match"
RACES_MAX: Final = 5
"""The number of times that a precondition is judged anew because of another write in between."""
TAG_BYTES: Final = 15

_ELEMENT = re.compile(rb'[ \t]*(?:(W/)?("[\x21\x23-\x7e\x80-\xff]*"))?[ \t]*(?:,|\Z)')
_EXAMPLE: Final = 'write * or a list of tags as they were answered, such as "3kQ0XhJ5", W/"3"'


def tag_of(body: bytes) -> bytes:
    """The strong tag of a representation: equal for equal bytes, and for no others."""
    return b'"%b"' % urlsafe_b64encode(blake2b(body, digest_size=TAG_BYTES).digest())


def etag(body: bytes) -> Headers:
    """The header that belongs to a representation."""
    return [(b"etag", tag_of(body))]


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags that one of the two headers lists."""

    anything: bool = False
    """`*`: any present version."""
    strong: frozenset[bytes] = frozenset()
    weak: frozenset[bytes] = frozenset()
    """Without their `W/`."""

    def match_strongly(self, current: bytes | None) -> bool:
        """By the strong comparison: a weak tag matches nothing."""
        return current is not None and (self.anything or current in self.strong)

    def match_weakly(self, current: bytes | None) -> bool:
        """By the weak comparison: a weak tag matches as a strong one does."""
        return self.match_strongly(current) or (current is not None and current in self.weak)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The preconditions of one request."""

    match: Tags | None = None
    none_match: Tags | None = None

    @property
    def lists_tags(self) -> bool:
        """Check whether one of them names a tag; `*` names none."""
        return any(tags is not None and not tags.anything for tags in (self.match, self.none_match))

    def check(self, current: bytes | None) -> None:
        """Raise `VersionConflict` if they forbid a write of a resource whose tag is `current`; None: there is none."""
        self.check_match(current)
        if self.none_match is not None and self.none_match.match_weakly(current):
            raise VersionConflict(
                "If-None-Match lists the present version: with * a request only creates, and this exists"
            )

    def check_match(self, current: bytes | None) -> None:
        """Check `If-Match` alone, which is judged first."""
        if self.match is None or self.match.match_strongly(current):
            return
        if current is None:
            raise VersionConflict("there is nothing that If-Match could match; leave If-Match out to create it")
        raise VersionConflict(
            f"it has changed since it was read: its ETag is {current.decode()} by now; read it again, then decide"
        )

    def is_known(self, current: bytes) -> bool:
        """Check whether the client has this representation already."""
        return self.none_match is not None and self.none_match.match_weakly(current)


def conditions_of(headers: Iterable[tuple[bytes, bytes]]) -> Conditions | None:
    """The preconditions among a request's headers; None: there are none. Raises `BadHeader`."""
    said: dict[bytes, list[bytes]] = {IF_MATCH: [], IF_NONE_MATCH: []}
    for name, value in headers:
        if name in said:
            said[name].append(value)
    match, none_match = said[IF_MATCH], said[IF_NONE_MATCH]
    if not match and not none_match:
        return None
    return Conditions(
        _tags(match, "If-Match") if match else None, _tags(none_match, "If-None-Match") if none_match else None
    )


def _tags(values: list[bytes], name: str) -> Tags:
    # A header that comes in several lines is one list.
    text = b",".join(values).strip(b" \t")
    if text == b"*":
        return Tags(anything=True)
    strong: set[bytes] = set()
    weak: set[bytes] = set()
    position = 0
    while position < len(text):
        element = _ELEMENT.match(text, position)
        if element is None:
            raise BadHeader(f"{name} cannot be read from its character {position + 1} on; {_EXAMPLE}", parameter=name)
        position = element.end()
        prefix, tag = element.groups()
        if tag is not None:
            (weak if prefix else strong).add(tag)
    return Tags(strong=frozenset(strong), weak=frozenset(weak))


async def guarded(
    conditions: Conditions | None,
    look: Callable[[], Awaitable[tuple[Row, bytes | None]]],
    write: Callable[[Row | None], Awaitable[T]],
) -> T:
    """Write if the preconditions allow it.

    `look` gives what is there, with its tag. `write` is given what was looked at, and raises `VersionConflict` if that
    is no longer so; None: there are no preconditions to hold to. Raises `VersionConflict`, `Busy`.
    """
    if conditions is None:
        return await write(None)
    for _ in range(RACES_MAX):
        seen, current = await look()
        conditions.check(current)
        try:
            return await write(seen)
        except VersionConflict:
            # Another write came in between: judge the preconditions by the present version.
            continue
    raise Busy("too many concurrent changes; send the same again")
