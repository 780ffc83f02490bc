"""Calendar entries in words, for the sentence that a skipped occurrence is explained with."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from tickwise.domain.calendar.entries import WEEKDAYS, Dates, Entry, Period, Recurring, Weekly
from tickwise.domain.zones import FIRST_INSTANT, LAST_INSTANT


def entry(entry: Entry, begin: float, zone: ZoneInfo) -> str:
    """One entry where it covers time from `begin` on, such as "2026-12-25 Christmas Day"."""
    if isinstance(entry, Dates):
        days = entry.first.isoformat() if entry.first == entry.last else f"{entry.first} to {entry.last}"
        return _named(days, entry.name)
    if isinstance(entry, Weekly):
        hours = f"{weekdays(entry.days)} {clock(entry.from_second)} to {clock(entry.to_second)}"
        return _named(hours, entry.name)
    if isinstance(entry, Recurring):
        return _named(
            f"{duration(entry.duration_seconds)} from {moment(begin, zone)} on, by {entry.cron!r}", entry.name
        )
    return _named(_period(entry, zone), entry.name)


def clock(second_of_day: int) -> str:
    """A time of day as `09:00`, with seconds only if there are some."""
    minutes, seconds = divmod(second_of_day, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds:02d}" if seconds else text


def weekdays(days: frozenset[int]) -> str:
    """`mon-fri`, `sat, sun`, `mon, wed`: three or more adjacent days as a range."""
    parts: list[list[int]] = []
    for day in sorted(days):
        if parts and parts[-1][-1] == day - 1:
            parts[-1].append(day)
        else:
            parts.append([day])
    return ", ".join(
        f"{WEEKDAYS[part[0]]}-{WEEKDAYS[part[-1]]}" if len(part) > 2 else ", ".join(WEEKDAYS[day] for day in part)
        for part in parts
    )


def duration(seconds: int) -> str:
    """`2h`, `1d12h`, `90s` as `1m30s`: in the words that a duration is written with."""
    text = ""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        text += f"{count}{unit}" if count else ""
    return text


def moment(instant: float, zone: ZoneInfo) -> str:
    """An instant on the wall clock, to the minute unless it has seconds."""
    second = max(FIRST_INSTANT, min(int(instant // 1), LAST_INSTANT))
    shown = datetime.fromtimestamp(second, zone)
    return f"{shown.date()} {clock(shown.hour * 3_600 + shown.minute * 60 + shown.second)}"


def _period(period: Period, zone: ZoneInfo) -> str:
    begin, end = moment(period.begin, zone), moment(period.end, zone)
    day = begin.partition(" ")[0] + " "
    return f"{begin} to {end.removeprefix(day)}"


def _named(what: str, name: str | None) -> str:
    return f"{what} {name}" if name else what
