"""Instants that callers send, and how instants are written for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from tickwise.domain.errors import Invalid
from tickwise.domain.zones import LAST_INSTANT

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_LOOK: Final = LAST_INSTANT - 1_000 * 366 * 86_400.0
FIRST: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH).total_seconds()
LAST: Final = (datetime.max.replace(microsecond=0, tzinfo=UTC) - EPOCH).total_seconds()


def instant(time: datetime) -> float:
    """Unix seconds of an aware time; of every year, which `timestamp` is not made for. A time that its offset puts
    outside of the years 1 to 9999 of UTC is the first or the last second of them: no other could be written again."""
    return min(max((time - EPOCH).total_seconds(), FIRST), LAST)


def instant_within(time: datetime, pointer: str) -> float:
    """`instant` of a time that is looked from: one at the ends of the calendar has nothing around it. Raises
    `Invalid`."""
    found = instant(time)
    if not 0 <= found <= LAST_LOOK:
        raise Invalid("give a time between the years 1970 and 8990", pointer=pointer)
    return found


def written(moment: float) -> str:
    """An instant for people: 2027-09-25T10:00:00Z."""
    shown = EPOCH + timedelta(microseconds=round(moment * 1_000_000))
    return shown.replace(tzinfo=None).isoformat() + "Z"
