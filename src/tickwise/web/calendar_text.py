"""Calendars as lines of text that people type into a form, one entry a line. Pure functions; `read` and `shown` agree.

2026-12-25 Christmas Day                        a day
2026-12-20 to 2027-01-06 freeze                 days, both included
mon-fri 09:00-17:00 office                      hours of each week
30 2 * * * for 45m backup                       from each fire of a cron line on
2026-11-26 12:00 to 2026-11-26 14:00 upgrade    a period, in the zone of the calendar unless it has an offset
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from tickwise.documents.calendars import (
    CalendarBody,
    DaysBody,
    HolidaysBody,
    PeriodBody,
    RecurringBody,
    WeeklyBody,
)
from tickwise.domain.calendar.entries import WEEKDAYS
from tickwise.domain.calendar.sentences import weekdays
from tickwise.domain.errors import Invalid
from tickwise.domain.zones import zone_named

T = TypeVar("T")

LINES_MAX: Final = 1_000

_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)(?: *(?:to|\.\.) *(\d{4}-\d\d-\d\d))?(?: +(\S.*))?", re.ASCII)
_HOURS = re.compile(r"(\d\d?:\d\d(?::\d\d)?) *(?:-|to) *(\d\d?:\d\d(?::\d\d)?)(?: +(\S.*))?", re.ASCII)
_RECURRING = re.compile(r"(\S.*?) +for +(\d\w*)(?: +(\S.*))?")
_MOMENT = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d)?(?:[Zz]|[+-]\d\d:\d\d)?"
_PERIOD = re.compile(rf"({_MOMENT}) *(?:to|\.\.) *({_MOMENT})(?: +(\S.*))?", re.ASCII)


def read(form: Mapping[str, str]) -> CalendarBody:
    """The calendar of a form. Raises `Invalid` with the field, and the line in its words."""
    zone = form.get("timezone", "").strip() or "UTC"
    country, subdivision = form.get("country", "").strip(), form.get("subdivision", "").strip()
    if subdivision and not country:
        raise Invalid("name the country too", pointer="/country")
    return CalendarBody(
        timezone=zone,
        dates=_lines(form, "dates", _days),
        weekly=_lines(form, "weekly", _weekly),
        recurring=_lines(form, "recurring", _recurring),
        periods=_lines(form, "periods", lambda line: _period(line, zone)),
        holidays=HolidaysBody(country=country, subdivision=subdivision or None) if country else None,
        ics=form.get("ics", "").strip() or None,
    )


def shown(body: CalendarBody) -> dict[str, str]:
    """The fields of the form for a calendar."""
    return {
        "timezone": body.timezone,
        "dates": "\n".join(map(_days_text, body.dates)),
        "weekly": "\n".join(
            _named(f"{_weekdays_text(each.days)} {each.begin}-{each.end}", each.name) for each in body.weekly
        ),
        "recurring": "\n".join(_named(f"{each.cron} for {each.duration}", each.name) for each in body.recurring),
        "periods": "\n".join(_named(f"{each.begin} to {each.end}", each.name) for each in body.periods),
        "country": "" if body.holidays is None else body.holidays.country,
        "subdivision": "" if body.holidays is None else body.holidays.subdivision or "",
        "ics": body.ics or "",
    }


def place_of(pointer: str | None) -> tuple[str, int | None]:
    """The field of the form, and the number of its line, that a refusal points at: `/when/dates/3/from` is line 4 of
    `dates`."""
    parts = (pointer or "").strip("/").split("/")
    if parts[0] in ("when", "calendar"):
        parts = parts[1:] or [""]
    if parts[0] == "holidays":
        return (parts[1] if len(parts) > 1 else "country"), None
    line = int(parts[1]) + 1 if len(parts) > 1 and parts[1].isdigit() else None
    return parts[0], line


def _lines(form: Mapping[str, str], field: str, reader: Callable[[str], T]) -> list[T]:
    found = []
    lines = [line.strip() for line in form.get(field, "").splitlines()]
    lines = [line for line in lines if line]
    if len(lines) > LINES_MAX:
        raise Invalid(f"at most {LINES_MAX} lines, these are {len(lines)}", pointer=f"/{field}")
    for number, line in enumerate(lines):
        try:
            found.append(reader(line))
        except Invalid as refusal:
            raise Invalid(refusal.detail, pointer=f"/{field}/{number}") from None
    return found


def _matched(pattern: re.Pattern[str], line: str, example: str) -> Any:
    found = pattern.fullmatch(line)
    if found is None:
        raise Invalid(f"write a line such as: {example}")
    return found.groups()


def _days(line: str) -> str | DaysBody:
    first, last, name = _matched(_DAYS, line, "2026-12-25 Christmas Day, or 2026-12-20 to 2027-01-06 freeze")
    return first if last is None and name is None else DaysBody(first=first, last=last, name=name)


def _weekly(line: str) -> WeeklyBody:
    example = "mon-fri 09:00-17:00 office"
    words = line.split()
    known = next((place for place, word in enumerate(words) if not _is_days(word)), len(words))
    days, rest = " ".join(words[:known]), " ".join(words[known:])
    hours = _HOURS.fullmatch(rest)
    begin, end, name = ("00:00", "24:00", rest or None) if hours is None else hours.groups()
    if not days or (name is not None and name[0].isdigit()):
        raise Invalid(f"write a line such as: {example}")
    return WeeklyBody(days=_weekdays(days, example), begin=begin, end=end, name=name)


def _is_days(word: str) -> bool:
    return all(part in (*WEEKDAYS, "") for part in re.split(r"[-,]", word))


def _weekdays(text: str, example: str) -> list[str]:
    found: list[str] = []
    for part in re.sub(r" *- *", "-", text).replace(",", " ").split():
        first, _, last = part.partition("-")
        if first not in WEEKDAYS or (last and last not in WEEKDAYS):
            raise Invalid(f"write a line such as: {example}; weekdays are {', '.join(WEEKDAYS)}")
        begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last or first)
        found += [WEEKDAYS[day % 7] for day in range(begin, end + 1 if end >= begin else end + 8)]
    return list(dict.fromkeys(found))


def _recurring(line: str) -> RecurringBody:
    text, duration, name = _matched(_RECURRING, line, "30 2 * * * for 45m backup")
    return RecurringBody(cron=text, duration=duration, name=name)


def _period(line: str, zone: str) -> PeriodBody:
    begin, end, name = _matched(_PERIOD, line, "2026-11-26 12:00 to 2026-11-26 14:00 upgrade")
    return PeriodBody(begin=_instant(begin, zone), end=_instant(end, zone), name=name)


def _instant(text: str, zone: str) -> str:
    try:
        found = datetime.fromisoformat(text.upper().replace(" ", "T"))
    except ValueError as failure:
        raise Invalid(f"{text} is no time: {failure}") from None
    moment = found if found.tzinfo is not None else found.replace(tzinfo=zone_named(zone))
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _named(text: str, name: str | None) -> str:
    return f"{text} {name}" if name else text


def _days_text(said: str | DaysBody) -> str:
    if isinstance(said, str):
        return said
    return _named(said.first if said.last is None else f"{said.first} to {said.last}", said.name)


def _weekdays_text(days: list[str]) -> str:
    known = frozenset(WEEKDAYS.index(day.lower()) for day in days if day.lower() in WEEKDAYS)
    return weekdays(known)
