"""JSON for people: indented, where that does not make a book of it."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, Final

import msgspec

INDENTED_BYTES_MAX: Final = 256 << 10
"""Of what indenting may add. A document that is nested deeply has more indents than content: 60 kB can make 60 MB."""
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_INNER: Final = bytes(set(range(256)) - set(b"[]{},"))
_STEP: Final = [1 if code in b"[{" else -1 if code in b"]}" else 0 for code in range(256)]


def pretty(text: bytes) -> str:
    """JSON text for people; as it is, where it is none, or would get too long."""
    try:
        if _added(text) <= INDENTED_BYTES_MAX:
            text = msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        pass
    return text.decode(errors="replace")


def pretty_value(value: Any) -> str:
    """A value as JSON for people."""
    return pretty(bytes(value) if isinstance(value, msgspec.Raw) else msgspec.json.encode(value))


def _added(text: bytes) -> int:
    """The bytes of the indents: two for each level, on a line of its own for each value."""
    marks = _TEXT.sub(b"", text).translate(None, _INNER)
    return 2 * sum(accumulate(map(_STEP.__getitem__, marks))) + len(marks)
