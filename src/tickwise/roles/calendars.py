"""Calendars as people write them, and as they are stored.

    CalendarBody (JSON) ──► read_calendar ──► StoredCalendar ──► encode_calendar ──► text in the store
                              │ asks the CalendarReader for        ▲                     │
                              │ `ics` and `holidays`, once         └── decode_calendar ──┘

What is stored is both what was said, to be shown and edited, and what it resolves to, to be searched. Every refusal is
`Invalid` and points at the field as it was written, such as `/weekly/0/from`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tickwise.domain.calendar import Calendar
from tickwise.ports.calendars import CalendarReader, Span

NAME_MAX: Final = 200
LIST_MAX: Final = 1_000
"""Of each list that people write; what is longer comes as an iCalendar file."""
ICS_MAX: Final = 1_000_000
"""Characters of an iCalendar file: the holidays of ten years of a country are 60,000."""

Name = Annotated[str, Meta(max_length=NAME_MAX, description="What people call it.")]
Day = Annotated[str, Meta(max_length=50, description="A day such as 2026-12-25.")]
Clock = Annotated[str, Meta(max_length=50, description="A time on the wall clock, such as 09:00; 24:00 as an end.")]
Instant = Annotated[str, Meta(max_length=50, description="RFC 3339 with an offset, such as 2026-12-24T18:00:00Z.")]
Weekday = Annotated[str, Meta(max_length=50, description="mon, tue, wed, thu, fri, sat or sun.")]


class DaysBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Whole days, both included."""

    first: Day = msgspec.field(name="from")
    last: Day | None = msgspec.field(name="to", default=None)
    name: Name | None = None


class WeeklyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The same hours on each of some weekdays; `to` at or before `from` is on the next day."""

    days: Annotated[list[Weekday], Meta(min_length=1, max_length=7)]
    begin: Clock = msgspec.field(name="from", default="00:00")
    end: Clock = msgspec.field(name="to", default="24:00")
    name: Name | None = None


class RecurringBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """From each fire of a cron line on, for a duration such as 2h."""

    cron: Annotated[str, Meta(min_length=1, max_length=500)]
    duration: Annotated[str, Meta(max_length=50)]
    name: Name | None = None


class PeriodBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """From one instant to before another."""

    begin: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    name: Name | None = None


class HolidaysBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The public holidays of a country, and of a part of it."""

    country: Annotated[str, Meta(max_length=50, description="ISO 3166-1, two letters, such as DE.")]
    subdivision: (
        Annotated[str, Meta(max_length=50, description="ISO 3166-2 without the country, such as BY.")] | None
    ) = None


class CalendarBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A calendar as people write it: the union of all that is given."""

    timezone: Annotated[str, Meta(min_length=1, max_length=100, description="IANA name, UTC if it is not sent.")] = (
        "UTC"
    )
    dates: Annotated[list[Day | DaysBody], Meta(max_length=LIST_MAX)] = []
    weekly: Annotated[list[WeeklyBody], Meta(max_length=LIST_MAX)] = []
    recurring: Annotated[list[RecurringBody], Meta(max_length=LIST_MAX)] = []
    periods: Annotated[list[PeriodBody], Meta(max_length=LIST_MAX)] = []
    holidays: HolidaysBody | None = None
    ics: Annotated[str, Meta(max_length=ICS_MAX, description="The text of an iCalendar file.")] | None = None


@dataclass(frozen=True, slots=True)
class StoredCalendar:
    """A calendar, where it came from, and what was not taken over from there."""

    calendar: Calendar
    said: CalendarBody
    warnings: tuple[str, ...] = ()


def span_from(now: float) -> Span:
    """What `ics` and `holidays` are resolved for at an instant: from the first day of last year, for ten years on."""
    year = datetime.fromtimestamp(now, UTC).year
    return Span(date(year - 1, 1, 1), date(year + 10, 12, 31))


def read_calendar(body: CalendarBody, reader: CalendarReader, *, now: float, pointer: str = "") -> StoredCalendar:
    """What was said, as the domain knows it. `pointer` leads to the body, if it is a part of another (`/when`). Raises
    `Invalid`, and `Misconfigured` if a library for `ics` or `holidays` is not installed. It may take a second or two if
    one of these is given: call it in a thread then."""
    raise NotImplementedError


def encode_calendar(stored: StoredCalendar) -> str:
    """The text to store."""
    raise NotImplementedError


def decode_calendar(text: str) -> StoredCalendar:
    """A text of `encode_calendar`. The last few are remembered, because each is searched at each fire of its jobs."""
    raise NotImplementedError


def write_calendar(calendar: Calendar) -> dict[str, Any]:
    """A resolved calendar in the words of a body: what `read_calendar` makes the same calendar of."""
    raise NotImplementedError
