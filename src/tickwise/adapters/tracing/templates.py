"""Encodes groups of spans by a template: the bytes that the library wrote for one group of the shape, with the places
of its ids and times.

    a group with ids and times of our choice ──► the library ──► bytes, in which each of them is found ──► template
    a group ──► template % (ids, times) ──► bytes of spans

In OTLP a trace's id has 16 bytes, a span's 8, and a time is a `fixed64`; the text of a UUID has 36 characters. So other
values change no length, and nothing else in the bytes.

Invariant: a template was tried with further values, and gave what the library writes for these. A shape for which it
does not has no template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final
from uuid import UUID

from tickwise.ports.tracing import SpanGroup

_SAMPLES: Final = (0x9E3779B97F4A7C15F39CC0605CEDC834, 0xD1B54A32D192ED03A0761D6578BD642F)
"""Of no meaning: their bytes stand nowhere else in a span. One gives even ids, one odd ones."""
_STEP: Final = 0x0101010101010101
_AT: Final = (1_712_345_678.910111, 1_698_765_432.101213)


def nanoseconds(at: float) -> int:
    """A time in OTLP, of Unix seconds. It is exact to the microsecond."""
    return round(at * 1_000_000) * 1_000


class GroupTemplate:
    """Of one shape, and the numbers of values that its groups have."""

    def __init__(self, text: bytes, order: Sequence[int]) -> None:
        """`text` has a `%b` for each value, and `order` the places of these among the values of a group."""
        self._text = text
        self._values = itemgetter(*order)

    def fill(self, group: SpanGroup) -> bytes:
        """The spans of a group, as they stand in a request."""
        filled: bytes = self._text % self._values(_written(group))
        return filled


def make_template(group: SpanGroup, encode: Callable[[SpanGroup], bytes]) -> GroupTemplate | None:
    """The template of groups like this one; `encode` has the library write one. None: there is none."""
    known, other = (_sample(group, number) for number in range(2))
    written = _written(known)
    if len(set(written)) < len(written):
        return None
    places = {text: place for place, text in enumerate(written)}
    # Longest first: a time could be a part of an id.
    pattern = b"|".join(re.escape(each) for each in sorted(written, key=len, reverse=True))
    parts = re.split(b"(" + pattern + b")", encode(known))
    order = [places[each] for each in parts[1::2]]
    if len(order) < 2:  # `itemgetter` gives a tuple of two or more
        return None
    template = GroupTemplate(b"%b".join(each.replace(b"%", b"%%") for each in parts[::2]), order)
    return template if all(template.fill(each) == encode(each) for each in (known, other, group)) else None


def _sample(group: SpanGroup, number: int) -> SpanGroup:
    """A group of the same shape, whose values are all different."""
    begin, at = _SAMPLES[number], _AT[number]
    return group._replace(
        trace_id=begin,
        span_ids=tuple((begin >> 32) + place * _STEP & (1 << 64) - 1 for place in range(len(group.span_ids))),
        instants=tuple(at + 86_461.377 * place for place in range(len(group.instants))),
        ids=tuple(UUID(int=begin ^ (place + 1) * _STEP) for place in range(len(group.ids))),
    )


def _written(group: SpanGroup) -> list[bytes]:
    """The values of a group, as they stand in the bytes of its spans."""
    _, _, trace_id, span_ids, instants, ids = group
    return [
        trace_id.to_bytes(16, "big"),
        *[each.to_bytes(8, "big") for each in span_ids],
        *[nanoseconds(each).to_bytes(8, "little") for each in instants],
        *[str(each).encode() for each in ids],
    ]
