"""Calendars as people write them, and as they are stored.

    CalendarBody (JSON) ──► read_calendar ──► StoredCalendar ──► encode_calendar ──► text in the store
                              │ asks the CalendarReader for        ▲                     │
                              │ `ics` and `holidays`, once         └── decode_calendar ──┘

The stored text has both the body, to be shown and edited, and its resolved entries, to be searched. Every refusal is
`Invalid` and points at the field as it was written, such as `/weekly/0/from`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from tickwise.domain.calendar import sentences as words
from tickwise.domain.calendar.entries import DURATION_MAX_SECONDS, WEEKDAYS
from tickwise.domain.calendar.rules import Calendar, Dates, Entry, Period, Recurring, Weekly
from tickwise.domain.cron import expression as cron
from tickwise.domain.errors import CronInvalid, Invalid
from tickwise.domain.zones import DAY_SECONDS, zone_named
from tickwise.ports.calendars import ICS_MAX, CalendarReader, DaySpan

NAME_MAX: Final = 200
DAYS_MAX: Final = 1_000
"""Days, and periods, that people write; what is more comes as an iCalendar file."""
HOURS_MAX: Final = 100
"""Weekly hours, and recurring windows: each is looked at whenever a job of the calendar fires."""
_FIRST_YEAR: Final = 1900
_LAST_YEAR: Final = 9000

Name = Annotated[str, Meta(max_length=NAME_MAX, description="The name for people.")]
Day = Annotated[str, Meta(max_length=50, description="A day such as 2026-12-25.")]
Clock = Annotated[str, Meta(max_length=50, description="A time on the wall clock, such as 09:00; 24:00 as an end.")]
Instant = Annotated[str, Meta(max_length=50, description="RFC 3339 with an offset, such as 2026-12-24T18:00:00Z.")]
Weekday = Annotated[str, Meta(max_length=50, description="mon, tue, wed, thu, fri, sat or sun.")]


class DaysBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Whole days, both included; without `to` one day."""

    first: Day = msgspec.field(name="from")
    last: Day | None = msgspec.field(name="to", default=None)
    name: Name | None = None


class WeeklyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Hours that are open on each of some weekdays; `to` at or before `from` is on the next day."""

    days: Annotated[list[Weekday], Meta(min_length=1, max_length=7)]
    begin: Clock = msgspec.field(name="from", default="00:00")
    end: Clock = msgspec.field(name="to", default="24:00")
    name: Name | None = None


class RecurringBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """From each fire of a cron line on, for a duration such as 2h."""

    cron: Annotated[str, Meta(min_length=1, max_length=500)]
    duration: Annotated[str, Meta(max_length=50, description="Such as 90s, 45m, 1h30m, 2d; at most 31d.")]
    name: Name | None = None


class PeriodBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """From one instant to before another."""

    begin: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    name: Name | None = None


class HolidaysBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The public holidays of a country, and of a part of it."""

    country: Annotated[str, Meta(max_length=50, description="ISO 3166-1, two letters, such as DE.")]
    subdivision: Annotated[str, Meta(max_length=50, description="ISO 3166-2, such as BY.")] | None = None


class CalendarBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A calendar as people write it: the union of all that is given."""

    timezone: Annotated[str, Meta(min_length=1, max_length=100, description="IANA name.")] = "UTC"
    dates: Annotated[list[Day | DaysBody], Meta(max_length=DAYS_MAX)] = []
    weekly: Annotated[list[WeeklyBody], Meta(max_length=HOURS_MAX)] = []
    recurring: Annotated[list[RecurringBody], Meta(max_length=HOURS_MAX)] = []
    periods: Annotated[list[PeriodBody], Meta(max_length=DAYS_MAX)] = []
    holidays: HolidaysBody | None = None
    ics: Annotated[str, Meta(max_length=ICS_MAX, description="The text of an iCalendar file.")] | None = None


class ResolvedBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The entries of a calendar after `holidays` and `ics` were resolved, which can make it long."""

    timezone: str = "UTC"
    dates: list[str | DaysBody] = []
    weekly: list[WeeklyBody] = []
    recurring: list[RecurringBody] = []
    periods: list[PeriodBody] = []


@dataclass(frozen=True, slots=True)
class StoredCalendar:
    """A calendar, where it came from, and what was not taken over from there."""

    calendar: Calendar
    said: CalendarBody
    warnings: tuple[str, ...] = ()


def span_from(now: float) -> DaySpan:
    """The span for which `ics` and `holidays` are resolved at an instant: from the first day of last year, for ten
    years on."""
    year = datetime.fromtimestamp(now, UTC).year
    return DaySpan(date(year - 1, 1, 1), date(year + 10, 12, 31))


def read_calendar(body: CalendarBody, reader: CalendarReader, *, now: float, pointer: str = "") -> StoredCalendar:
    """Parse a body into the domain's values. `pointer` leads to the body, if it is a part of another (`/when`). Raises
    `Invalid`, and `Misconfigured` if a library for `ics` or `holidays` is not installed. These two may take seconds:
    call it in a thread if one is given."""
    try:
        return _read(body, reader, span_from(now))
    except Invalid as refusal:
        refusal.pointer = pointer + (refusal.pointer or "")
        raise


def encode_calendar(stored: StoredCalendar) -> str:
    """The text to store."""
    said = stored.said
    all_said = said.holidays is None and said.ics is None
    text = _Text(said=said, resolved=None if all_said else written(stored.calendar), warnings=stored.warnings)
    return _encoder.encode(text).decode()


@lru_cache(maxsize=64)
def decode_calendar(text: str) -> StoredCalendar:
    """A text of `encode_calendar`. The last few are remembered: each is searched at every fire of its jobs."""
    found = _texts.decode(text)
    body = found.said if found.resolved is None else found.resolved
    return StoredCalendar(Calendar(body.timezone, tuple(_entries(body))), found.said, found.warnings)


def written(calendar: Calendar) -> ResolvedBody:
    """A calendar in the words of a body, everything resolved: what `read_calendar` makes the same calendar of."""
    body = ResolvedBody(timezone=calendar.timezone)
    for entry in calendar.entries:
        if isinstance(entry, Dates):
            first, last = entry.first.isoformat(), entry.last.isoformat()
            if first == last and entry.name is None:
                body.dates.append(first)
            else:
                body.dates.append(DaysBody(first=first, last=None if first == last else last, name=entry.name))
        elif isinstance(entry, Weekly):
            days, end = [WEEKDAYS[day] for day in sorted(entry.days)], entry.to_second
            body.weekly.append(
                WeeklyBody(days=days, begin=words.clock(entry.from_second), end=words.clock(end), name=entry.name)
            )
        elif isinstance(entry, Recurring):
            duration = words.duration(entry.duration_seconds)
            body.recurring.append(RecurringBody(cron=entry.cron, duration=duration, name=entry.name))
        else:
            begin, end_text = _rfc3339(entry.begin), _rfc3339(entry.end)
            body.periods.append(PeriodBody(begin=begin, end=end_text, name=entry.name))
    return body


# ---------------------------------------------------------------------------------------------------------- reading


class _Text(msgspec.Struct, omit_defaults=True):
    """The stored form."""

    said: CalendarBody
    resolved: ResolvedBody | None = None
    """None: what was said is all that there is."""
    warnings: tuple[str, ...] = ()


_encoder = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(_Text)


def _read(body: CalendarBody, reader: CalendarReader, span: DaySpan) -> StoredCalendar:
    zone_named(body.timezone)
    _check_names(body)
    entries = list(_entries(body))
    warnings: list[str] = []
    if body.holidays is not None:
        found = reader.holidays(body.holidays.country, body.holidays.subdivision, span)
        entries += found.entries
        warnings += found.warnings
    if body.ics is not None:
        found = reader.ics(body.ics, body.timezone, span)
        entries += found.entries
        warnings += found.warnings
    if not entries and not warnings:
        raise Invalid("a calendar needs dates, weekly, recurring, periods, holidays or ics", pointer="")
    # In the order in which they are stored, so that what is read back equals what was written.
    entries.sort(key=lambda entry: _KINDS.index(type(entry)))
    return StoredCalendar(Calendar(body.timezone, tuple(entries)), body, tuple(warnings))


_KINDS: Final = (Dates, Weekly, Recurring, Period)


def _check_names(body: CalendarBody) -> None:
    """Check the names of entries: they stand in the records of skips, so every store must be able to keep them."""
    for kind in ("dates", "weekly", "recurring", "periods"):
        for number, entry in enumerate(getattr(body, kind)):
            if not isinstance(entry, str) and "\0" in (entry.name or ""):
                raise Invalid("the character U+0000 cannot be stored; leave it out", pointer=f"/{kind}/{number}/name")


class _Entries(Protocol):
    """The entries that a body and a stored text share."""

    @property
    def dates(self) -> Sequence[str | DaysBody]: ...
    @property
    def weekly(self) -> Sequence[WeeklyBody]: ...
    @property
    def recurring(self) -> Sequence[RecurringBody]: ...
    @property
    def periods(self) -> Sequence[PeriodBody]: ...


def _entries(body: _Entries) -> Iterator[Entry]:
    """Raises `Invalid` with the pointer of what cannot be."""
    for number, days in enumerate(body.dates):
        yield _days(days, f"/dates/{number}")
    for number, hours in enumerate(body.weekly):
        yield _weekly(hours, f"/weekly/{number}")
    for number, window in enumerate(body.recurring):
        yield _recurring(window, f"/recurring/{number}")
    for number, period in enumerate(body.periods):
        yield _period(period, f"/periods/{number}")


def _days(said: str | DaysBody, pointer: str) -> Dates:
    if isinstance(said, str):
        day = _day(said, pointer)
        return Dates(day, day)
    first = _day(said.first, f"{pointer}/from")
    last = first if said.last is None else _day(said.last, f"{pointer}/to")
    if last < first:
        raise Invalid(
            f"the last day {last} is before the first, {first}; write the later one as to", pointer=f"{pointer}/to"
        )
    return Dates(first, last, said.name)


def _weekly(said: WeeklyBody, pointer: str) -> Weekly:
    days = frozenset(_weekday(day, f"{pointer}/days/{number}") for number, day in enumerate(said.days))
    begin = _clock(said.begin, f"{pointer}/from")
    if begin == DAY_SECONDS:
        raise Invalid("24:00 is an end; write from as 00:00 of the next day", pointer=f"{pointer}/from")
    return Weekly(days, begin, _clock(said.end, f"{pointer}/to"), said.name)


def _recurring(said: RecurringBody, pointer: str) -> Recurring:
    try:
        cron.parse(said.cron)
    except CronInvalid as refusal:
        refusal.pointer = f"{pointer}/cron"
        raise
    parts = _DURATION.fullmatch(said.duration)
    seconds = 0
    if parts is not None:
        seconds = sum(int(part or 0) * unit for part, unit in zip(parts.groups(), _UNITS, strict=True))
    if not 1 <= seconds <= DURATION_MAX_SECONDS:
        raise Invalid("write a duration such as 90s, 45m, 1h30m or 2d, of at most 31d", pointer=f"{pointer}/duration")
    return Recurring(said.cron, seconds, said.name)


def _period(said: PeriodBody, pointer: str) -> Period:
    begin, end = _instant(said.begin, f"{pointer}/from"), _instant(said.end, f"{pointer}/to")
    if end <= begin:
        raise Invalid("a period must end after it begins; write a later to", pointer=f"{pointer}/to")
    return Period(begin, end, said.name)


# ------------------------------------------------------------------------------------------------------- single values

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION = re.compile(r"(?:(\d{1,2})d)?(?:(\d{1,3})h)?(?:(\d{1,5})m)?(?:(\d{1,7})s)?", re.ASCII)
_UNITS: Final = (DAY_SECONDS, 3_600, 60, 1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _day(text: str, pointer: str) -> date:
    if _DAY.fullmatch(text):
        try:
            found = date.fromisoformat(text)
        except ValueError as failure:
            raise Invalid(f"{text} is no day: {failure}", pointer=pointer) from None
        if _FIRST_YEAR <= found.year <= _LAST_YEAR:
            return found
    raise Invalid(f"{text!a} is no day; write such as 2026-12-25, from {_FIRST_YEAR} to {_LAST_YEAR}", pointer=pointer)


def _weekday(text: str, pointer: str) -> int:
    if text.lower() in WEEKDAYS:
        return WEEKDAYS.index(text.lower())
    raise Invalid(f"{text!a} is no weekday; write one of {', '.join(WEEKDAYS)}", pointer=pointer)


def _clock(text: str, pointer: str) -> int:
    """Seconds of the day, 86,400 included."""
    found = _CLOCK.fullmatch(text)
    if found is not None:
        hour, minute, second = (int(part or 0) for part in found.groups())
        seconds = (hour * 60 + minute) * 60 + second
        if minute < 60 and second < 60 and seconds <= DAY_SECONDS:
            return seconds
    raise Invalid(f"{text!a} is no time of day; write such as 09:00, at most 24:00", pointer=pointer)


def _instant(text: str, pointer: str) -> float:
    if _INSTANT.fullmatch(text):
        try:
            found = datetime.fromisoformat(text.upper())
        except ValueError as failure:
            raise Invalid(f"{text} is no time: {failure}", pointer=pointer) from None
        if _FIRST_YEAR <= found.year <= _LAST_YEAR:
            return (found - _EPOCH).total_seconds()
    raise Invalid(f"{text!a} is no time; write it with its offset, such as 2026-12-24T18:00:00Z", pointer=pointer)


def _rfc3339(instant: float) -> str:
    return (_EPOCH + timedelta(seconds=instant)).isoformat().replace("+00:00", "Z")
