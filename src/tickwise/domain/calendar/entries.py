"""The entries of a calendar: frozen values, each checked by the parser that makes them.

Days and times of day are those of the wall clock of the calendar's zone. `search` finds them in time, `sentences`
describes them to people.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final, TypeAlias

DURATION_MAX_SECONDS: Final = 31 * 86_400
"""Of a recurring window: longer ones are better said as days or periods."""
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""By number, as `date.weekday` counts."""


@dataclass(frozen=True, slots=True)
class Dates:
    """Whole civil days, both ends included."""

    first: date
    last: date
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Weekly:
    """Hours that are open on each of some weekdays."""

    days: frozenset[int]
    """0 is Monday; of a window over midnight the day on which it begins."""
    from_second: int
    """Of the day on the wall clock, 0 to 86,399."""
    to_second: int
    """0 to 86,400; at most `from_second` means on the following day."""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Recurring:
    """From each fire of a cron line on, for a while of real time."""

    cron: str
    duration_seconds: int
    """1 to `DURATION_MAX_SECONDS`."""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Period:
    """From one instant to before another, in Unix seconds."""

    begin: float
    end: float
    name: str | None = None


Entry: TypeAlias = Dates | Weekly | Recurring | Period
