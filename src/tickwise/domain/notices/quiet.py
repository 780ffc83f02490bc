"""Quiet hours: from one time of day to another, on the wall clock of a zone.

A time that a change of clocks leaves out counts as that many minutes later; one that comes twice counts the first time.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Final

from tickwise.domain.notices.rules import QuietHours
from tickwise.domain.zones import zone_named

MINUTES_OF_DAY: Final = 1440


def quiet_until(quiet: QuietHours | None, now: float) -> float | None:
    """The end of the quiet hours that `now` lies in; None: it lies in none. Hours that end when they begin are a whole
    day."""
    if quiet is None:
        return None
    zone = zone_named(quiet.zone)
    today = datetime.fromtimestamp(now, zone).date()
    days = 0 if quiet.begin < quiet.end else 1
    for day in (today, today - timedelta(days=1)):
        if day.weekday() not in quiet.weekdays:
            continue
        begin = datetime.combine(day, _time(quiet.begin), zone).timestamp()
        end = datetime.combine(day + timedelta(days=days), _time(quiet.end), zone).timestamp()
        if begin <= now < end:
            return end
    return None


def _time(minutes: int) -> time:
    return time(minutes % MINUTES_OF_DAY // 60, minutes % 60)
