"""The words for a pause that goes on, the same in explanations, in lists of occurrences and on the command line."""

from __future__ import annotations

from typing import Final

FUSE: Final = "fuse"
"""In the place of a person: the schedule made too many runs."""


def pause_in_words(*, by: str | None, since: str | None, until: str | None, reason: str | None) -> str:
    """`paused by ada, since …, until …: a release`. Instants are texts already; `until` None: it has no end."""
    words = "paused by " + ("its fuse" if by == FUSE else by or "somebody")
    words += f", since {since}" if since is not None else ""
    words += ", until it is resumed" if until is None else f", until {until}"
    return words + (f": {reason}" if reason else "")
