"""A notice that waits, and what joins it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tickwise.domain.notices.changes import NoticeChange
from tickwise.domain.notices.judging import STORM_SECONDS
from tickwise.domain.notices.rules import MAX_LINES, NoticeLine, Severity


class WaitingNotice(NamedTuple):
    """The fields of a waiting notice that change when lines join it."""

    severity: Severity
    """The worst of its events."""
    events: int
    first_at: float
    last_at: float
    due: float
    made_at: float
    lines: Sequence[NoticeLine]
    tries: int = 0
    subjects: int = 0
    """0: they were not counted."""
    repeated: int = 0
    """Of `subjects`, those that the notice counts too that was under way when this one was made."""
    beside_first_at: float | None = None
    """The time of the first event of that notice; None: there was none."""


def counted_since(change: NoticeChange, since: float) -> int:
    """The subjects of a change that a notice whose first event was at this time counts already."""
    return sum(at >= since for at in change.before)


def joined(waiting: WaitingNotice, change: NoticeChange) -> WaitingNotice:
    """The notice with these lines. In a storm a follow-up waits longer, but not for ever, and the first message goes at
    once; otherwise it is due as early as one of both. A change that is only counted does not move it, and no change
    moves one that was tried: its receiver is left alone until then."""
    due, end = waiting.due, waiting.made_at + STORM_SECONDS
    if waiting.tries:
        pass
    elif change.gathers and waiting.made_at < due <= end:
        due = max(due, min(change.due, end))
    elif not change.joins:
        due = min(due, change.due)
    severities = list(Severity)
    known = counted_since(change, waiting.first_at)
    repeated = waiting.repeated
    if waiting.beside_first_at is not None:
        repeated += max(counted_since(change, waiting.beside_first_at) - known, 0)
    return WaitingNotice(
        severity=max(waiting.severity, change.severity, key=severities.index),
        events=waiting.events + change.events,
        first_at=min(waiting.first_at, change.first_at),
        last_at=max(waiting.last_at, change.last_at),
        due=due,
        made_at=waiting.made_at,
        tries=waiting.tries,
        subjects=waiting.subjects + change.subjects - known if waiting.subjects else 0,
        lines=[*waiting.lines, *change.lines][-MAX_LINES:],
        repeated=repeated,
        beside_first_at=waiting.beside_first_at,
    )
