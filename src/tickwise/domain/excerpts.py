"""Texts of people and tasks where there is room for one line: the line that says most, with all of it visible."""

from __future__ import annotations

import re
from typing import Final

_OF_PROCESS: Final = re.compile(r"(exit status \d+|ended by signal \S+): ")
"""The begin of a process's error text; after it comes the end of its output (`adapters.runner.process`)."""
_TRACEBACK: Final = "Traceback (most recent call last)"


INVISIBLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tab and the ends of lines, and those that reverse the direction of text: `exe.png` must
not read `gnp.exe`."""

_SPELLED: Final = {code: f"\\u{code:04x}" for code in range(0x2070) if INVISIBLE.match(chr(code))}
"""A call for each of a million such characters would take seconds, and a stranger may send them."""
_BREAKS: Final = re.compile(r"[\t\n\r\u2028\u2029]+")


def main_line(error: str | None) -> str:
    """Of a process or a traceback its last line that stands at the margin, for there the exception is named; of any
    other error its first."""
    text = (error or "").strip()
    begins = _OF_PROCESS.match(text)
    lines = [line.rstrip() for line in text[begins.end() if begins else 0 :].splitlines() if line.strip()]
    if not lines:
        return text
    if begins is None and _TRACEBACK not in text:
        return lines[0]
    at_margin = [line for line in lines if not line[0].isspace()]
    return (begins[0] if begins else "") + (at_margin or lines)[-1].strip()


def spelled(text: str) -> str:
    """The text with each such character as `\\u202e`."""
    return text.translate(_SPELLED) if INVISIBLE.search(text) else text


def one_line(text: str, characters_most: int) -> str:
    """The text as one line that is no longer than that; an end of a line becomes a space."""
    line = spelled(_BREAKS.sub(" ", text[: characters_most + 1])).strip()
    return line if len(line) <= characters_most else line[: characters_most - 1] + "…"
