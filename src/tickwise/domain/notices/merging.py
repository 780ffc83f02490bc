"""Notices of one channel and rule become one while they wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tickwise.domain.notices.rules import MAX_LINES, Notice, NoticeLine, Severity

_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}


def worst(severities: Iterable[Severity]) -> Severity:
    """The worst of some severities."""
    return max(severities, key=_RANK.__getitem__)


def newest_lines(lines: Iterable[NoticeLine]) -> tuple[NoticeLine, ...]:
    """The newest `MAX_LINES`, the oldest of them first."""
    return tuple(sorted(lines, key=lambda line: line.at)[-MAX_LINES:])


def merged(notice: Notice, other: Notice) -> Notice:
    """The notice with the events of another one of its channel and rule."""
    later = notice if notice.last_at >= other.last_at else other
    shown = {line.subject for line in notice.lines} & {line.subject for line in other.lines}
    # The other one was made while this one was under way, and knows what both count. Else the lines show some of it.
    both = max(len(shown), other.repeated if other.beside == notice.notice_id else 0)
    return replace(
        notice,
        events=notice.events + other.events,
        first_at=min(notice.first_at, other.first_at),
        last_at=max(notice.last_at, other.last_at),
        severity=worst((notice.severity, other.severity)),
        rule_name=later.rule_name,
        subjects=notice.subjects + other.subjects - both if notice.subjects and other.subjects else 0,
        lines=newest_lines((*notice.lines, *other.lines)),
        served=(),  # nobody has the whole
    )
