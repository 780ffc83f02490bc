"""The one line of an error that says most, where there is room for one."""

from __future__ import annotations

import re
from typing import Final

_OF_PROCESS: Final = re.compile(r"(exit status \d+|ended by signal \S+): ")
"""The begin of a process's error text; after it comes the end of its output (`adapters.runner.process`)."""
_TRACEBACK: Final = "Traceback (most recent call last)"


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
