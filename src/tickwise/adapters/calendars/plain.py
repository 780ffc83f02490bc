"""Events that are written in the plainest way, which most events of a file are: read without the library.

    UID:… · SUMMARY:… · STATUS:…        without parameters but for the language of a summary
    DTSTART, DTEND                      a day with VALUE=DATE, or a time: of UTC, of a zone by its IANA name, or of none
    DURATION                            weeks, days, or hours, minutes and seconds
    EXDATE                              as many as there are, each a list of days or times
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

_TEXT: Final = re.compile(
    r"(UID|SUMMARY|STATUS|RRULE)(?:(?<=SUMMARY);LANGUAGE=[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*)?:((?:[^\\%]|\\[,;nN])*)"
)
_DAY: Final = re.compile(r"(DTSTART|DTEND);VALUE=DATE:(\d{8})", re.ASCII)
_TIME: Final = re.compile(r"(DTSTART|DTEND)(?:;TZID=([A-Za-z_]+(?:/[A-Za-z_-]+)+))?:(\d{8}T\d{6})(Z?)", re.ASCII)
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
    removed: Sequence[PlainTime] = ()
    """EXDATE."""


def read(lines: Sequence[str], zones: Collection[str]) -> PlainEvent | None:
    """An event by its lines. `zones`: the names of zones. None: it is not written in a plain way."""
    found: dict[str, Any] = {}
    removed: list[PlainTime] = []
    try:
        for line in lines:
            if line.startswith("EXDATE"):
                times = _read_list(line, zones)
                if times is None:
                    return None
                removed += times
                continue
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
        said("RRULE"), removed,
    )  # fmt: skip


def _read_line(line: str, zones: Collection[str]) -> tuple[str, Any] | None:
    """The name of a line and its value. Raises `ValueError` for a day or a time that is none."""
    if line.startswith("DT"):
        return _read_time(line, zones)
    if (text := _TEXT.fullmatch(line)) is not None:
        name, value = text.groups()
        return name, _ESCAPED.sub(_unescaped, value) if "\\" in value else value
    if (said := _DURATION.fullmatch(line)) is not None:
        weeks, days, hours, minutes, seconds = (int(each or 0) for each in said.groups())
        return "DURATION", timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return None


def _read_time(line: str, zones: Collection[str]) -> tuple[str, PlainTime] | None:
    if (found := _TIME.fullmatch(line)) is not None:
        name, zone, wall, utc = found.groups()
        if zone is not None and (utc or zone not in zones):
            return None
        return name, PlainTime(datetime.fromisoformat(wall), UTC_NAME if utc else zone or "", is_day=False)
    if (found := _DAY.fullmatch(line)) is not None:
        return found[1], PlainTime(datetime.fromisoformat(found[2]), "", is_day=True)
    return None


def _read_list(line: str, zones: Collection[str]) -> Sequence[PlainTime] | None:
    """The days or times of an EXDATE. Raises `ValueError` for one that is none."""
    head, _, values = line.partition(":")
    found = [_read_time(f"DTSTART{head.removeprefix('EXDATE')}:{value}", zones) for value in values.split(",")]
    return [each[1] for each in found if each is not None] if None not in found else None


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] in "nN" else found[1]
