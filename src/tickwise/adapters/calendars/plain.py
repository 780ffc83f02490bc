"""Events that are written in the plainest way, which most events of a file are: read without the library.

    UID:… · SUMMARY:… · STATUS:…        without parameters
    DTSTART, DTEND                      a day with VALUE=DATE, or a time: of UTC, of a zone by its IANA name, or of none
    DURATION                            weeks, days, or hours, minutes and seconds
    RRULE                               as it is; the library reads its value

Invariant: what is read here, the library reads in the same way. An event with anything else, with a line twice, or with
a fault is left to it, so it alone says what is wrong. The library takes ten times as long.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

UTC_NAME: Final = "UTC"

_TEXT: Final = re.compile(r"(UID|SUMMARY|STATUS|RRULE):((?:[^\\%]|\\[,;nN])*)")
_DAY: Final = re.compile(r"(DTSTART|DTEND);VALUE=DATE:(\d{4})(\d\d)(\d\d)", re.ASCII)
_TIME: Final = re.compile(
    r"(DTSTART|DTEND)(?:;TZID=([A-Za-z_]+(?:/[A-Za-z_-]+)+))?:(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(Z?)", re.ASCII
)
_ESCAPED: Final = re.compile(r"\\(.)")
_DURATION: Final = re.compile(
    r"DURATION:P(?:(\d{1,4})W|(\d{1,5})D|T(?=\d)(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?)", re.ASCII
)


class PlainTime(NamedTuple):
    """A day or a time."""

    wall: datetime
    """Naive; of a day its midnight."""
    zone: str
    """The name of its zone; empty: that of the calendar."""
    is_day: bool


class PlainEvent(NamedTuple):
    """The lines of an event, read."""

    start: PlainTime
    end: PlainTime | None
    duration: timedelta | None
    uid: str
    summary: str
    status: str
    rule: str | None
    """The value of RRULE."""


def read(lines: Sequence[str], zones: Collection[str]) -> PlainEvent | None:
    """An event by its lines. `zones`: the names of zones. None: it is not written in a plain way."""
    found: dict[str, Any] = {}
    try:
        for line in lines:
            part = _read_line(line, zones)
            if part is None or part[0] in found:
                return None
            found[part[0]] = part[1]
    except (ValueError, OverflowError):
        return None
    if "DTSTART" not in found or ("DTEND" in found and "DURATION" in found):
        return None
    said = found.get
    return PlainEvent(
        found["DTSTART"], said("DTEND"), said("DURATION"), said("UID", ""), said("SUMMARY", ""), said("STATUS", ""),
        said("RRULE"),
    )  # fmt: skip


def _read_line(line: str, zones: Collection[str]) -> tuple[str, Any] | None:
    """The name of a line and its value. Raises `ValueError` for a day or a time that is none."""
    if line.startswith("DT"):
        return _read_time(line, zones)
    if (text := _TEXT.fullmatch(line)) is not None:
        return text[1], _ESCAPED.sub(_unescaped, text[2]) if "\\" in text[2] else text[2]
    if (said := _DURATION.fullmatch(line)) is not None:
        weeks, days, hours, minutes, seconds = (int(each or 0) for each in said.groups())
        return "DURATION", timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return None


def _read_time(line: str, zones: Collection[str]) -> tuple[str, PlainTime] | None:
    if (time := _TIME.fullmatch(line)) is not None:
        name, zone, year, month, day, hour, minute, second, utc = time.groups()
        if zone is not None and (utc or zone not in zones):
            return None
        wall = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second))  # noqa: DTZ001 - on a clock
        return name, PlainTime(wall, UTC_NAME if utc else zone or "", is_day=False)
    if (said := _DAY.fullmatch(line)) is not None:
        wall = datetime(int(said[2]), int(said[3]), int(said[4]))  # noqa: DTZ001 - a day is of any zone
        return said[1], PlainTime(wall, "", is_day=True)
    return None


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] in "nN" else found[1]
