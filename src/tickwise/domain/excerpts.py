"""Texts of people and tasks where there is room for one line, with all of it visible."""

from __future__ import annotations

import re
from typing import Final

INVISIBLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tab and the ends of lines, and those that reverse the direction of text: `exe.png` must
not read `gnp.exe`."""

_SPELLED: Final = {code: f"\\u{code:04x}" for code in range(0x2070) if INVISIBLE.match(chr(code))}
"""A call for each of a million such characters would take seconds, and a stranger may send them."""
_BREAKS: Final = re.compile(r"[\t\n\r\u2028\u2029]+")


def spelled(text: str) -> str:
    """The text with each such character as `\\u202e`."""
    return text.translate(_SPELLED) if INVISIBLE.search(text) else text


def one_line(text: str, characters_most: int) -> str:
    """The text as one line that is no longer than that; an end of a line becomes a space."""
    line = spelled(_BREAKS.sub(" ", text[: characters_most + 1])).strip()
    return line if len(line) <= characters_most else line[: characters_most - 1] + "…"
