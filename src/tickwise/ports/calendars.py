"""Calendars that others keep: iCalendar files and the holidays of countries, as plain days and periods.

They are resolved when they are stored, for a span of years, so that no fire waits for a library and no update of
one moves what was agreed on.
"""

from __future__ import annotations

from datetime import date
from typing import Final, NamedTuple, Protocol

from tickwise.domain.calendar.entries import Dates, Period

ENTRIES_MAX: Final = 10_000
"""Entries that one calendar may come to. Further entries are cut from the end, and a warning says so."""
ICS_MAX: Final = 1_000_000
"""Characters of an iCalendar file: the holidays of a country over ten years are 60,000."""


class DaySpan(NamedTuple):
    """The days that matter, both included."""

    first: date
    last: date


class Resolved(NamedTuple):
    """The entries of a source within a span, in order of time."""

    entries: tuple[Dates | Period, ...]
    warnings: tuple[str, ...] = ()
    """The entries that were left out, with the reasons, in sentences."""


class CalendarReader(Protocol):
    """Both raise `Invalid` with a pointer below `/ics` or `/holidays` for what cannot be read, and `Misconfigured` with
    what to install if this installation lacks the library. Bounded in time and size for any input, and pure:
    call them in a thread, they take up to seconds."""

    def ics(self, text: str, timezone: str, span: DaySpan) -> Resolved:
        """The events of an iCalendar file (RFC 5545), recurring ones at each of their times. Times without a zone are
        on the clock of `timezone`, an IANA name; whole days stay days."""
        ...

    def holidays(self, country: str, subdivision: str | None, span: DaySpan) -> Resolved:
        """The public holidays of a country (ISO 3166-1, two letters), and those of one part of it, if that is named."""
        ...
