"""Times as people write and read them: "tomorrow 10:00", "5m", "in 5 min".

The terminal reads this machine's clock here and nowhere else, to show times and to turn "in five minutes" into one.
Nothing is ever judged by it: what is due is decided by the store's clock.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_UNIT_SECONDS: Final = {
    "ms": 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60,
    "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400, "w": 604_800, "week": 604_800,
}  # fmt: skip
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}
_STEPS: Final = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (float("inf"), 86_400, "d"))


class UnreadableTime(ValueError):
    """A text that is no time or duration; the message says what to write."""


def now() -> float:
    """Seconds since the Unix epoch on this machine."""
    return time.time()  # noqa: TID251  # what a terminal shows is relative to its own clock, and decides nothing


def monotonic() -> float:
    """Seconds from an arbitrary point, for waiting."""
    return time.monotonic()  # noqa: TID251  # only measures how long a command has waited


def pause(seconds: float) -> None:
    """Wait before the next look at a server or process."""
    time.sleep(seconds)  # noqa: TID251  # a command between two looks has nothing else to do


def zone_named(name: str) -> tzinfo:
    """The zone of an IANA name. Raises `UnreadableTime`."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UnreadableTime(f"{name!r} is no time zone; write an IANA name such as Europe/Berlin, or UTC") from None


def duration_seconds(text: str) -> float:
    """`90s`, `5m`, `1h30m`, `2 days`, or a bare number of seconds. Raises `UnreadableTime`."""
    wanted = text.strip().lower()
    try:
        seconds = float(wanted)
    except ValueError:
        seconds = _spelled_seconds(wanted)
    if not 0 <= seconds < 1e11:
        raise UnreadableTime(f"{text!r} is no length of time; write one such as 90s, 5m, 1h30m or 2d")
    return seconds


def _spelled_seconds(wanted: str) -> float:
    """The sum of its parts, or -1 if something in it is none."""
    seconds, rest = 0.0, wanted
    while rest:
        part = _PART.match(rest)
        if part is None:
            return -1
        unit = part[2] if part[2] in _UNIT_SECONDS else part[2].removesuffix("s")
        if unit not in _UNIT_SECONDS:
            return -1
        seconds += float(part[1]) * _UNIT_SECONDS[unit]
        rest = rest[part.end() :].strip()
    return seconds if wanted else -1


def moment(text: str, zone: tzinfo | None, at: float, *, ago: bool = False) -> datetime:
    """A point in time: RFC 3339, `2027-01-31 10:00`, `10:00`, `today 10:00` (or tomorrow, yesterday; alone, its begin),
    or `5m` from now.

    With `ago`, where a time that has passed is expected, `5m` is five minutes ago, and a bare clock time its last
    occurrence; else its next one. A text without an offset is a wall clock in `zone` (None: this machine's). Raises
    `UnreadableTime`.
    """
    wanted = " ".join(text.strip().split())
    today = datetime.fromtimestamp(at, UTC).astimezone(zone)
    day, _, rest = wanted.partition(" ")
    if day.lower() in _DAYS:
        base = today + timedelta(days=_DAYS[day.lower()])
        rest = rest or "0:00"
        clock = _CLOCK.fullmatch(rest.removeprefix("at "))
        if clock:
            return _wall(base, clock, zone)
    clock = _CLOCK.fullmatch(wanted)
    if clock:
        found = _wall(today, clock, zone)
        if ago:
            return found if found.timestamp() <= at else _wall(today - timedelta(days=1), clock, zone)
        return found if found.timestamp() > at else _wall(today + timedelta(days=1), clock, zone)
    if _NUMBER.fullmatch(wanted):
        raise UnreadableTime(
            f"{text!r} has no unit, and could be a year or seconds; write a time such as '2027-01-31 10:00', "
            "or how far away it is, such as 30d or 90s"
        )
    try:
        read = datetime.fromisoformat(wanted)
    except ValueError:
        try:
            seconds = duration_seconds(wanted)
            return datetime.fromtimestamp(at - seconds if ago else at + seconds, UTC)
        except (UnreadableTime, ValueError, OverflowError):
            raise UnreadableTime(
                f"{text!r} is no time; write one such as '2027-01-31 10:00', 'tomorrow 10:00' or 2027-01-31T10:00:00Z"
            ) from None
    return read if read.tzinfo is not None else _placed(read, zone)


def _wall(day: datetime, clock: re.Match[str], zone: tzinfo | None) -> datetime:
    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    try:
        naive = datetime(day.year, day.month, day.day, hour, minute, second)  # noqa: DTZ001  # placed in its zone below
    except ValueError:
        raise UnreadableTime(f"there is no {clock[0]} on a clock") from None
    return _placed(naive, zone)


def _placed(naive: datetime, zone: tzinfo | None) -> datetime:
    """A wall clock's reading as an instant with its offset."""
    return naive.astimezone() if zone is None else naive.replace(tzinfo=zone)


def instant(text: str | None) -> float | None:
    """The instant of a time as the API writes it."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


def absolute(at: float, zone: tzinfo | None) -> str:
    """`2026-11-21 10:05:00 CET`, in the viewer's zone."""
    shown = datetime.fromtimestamp(at, UTC).astimezone(zone)
    return f"{shown:%Y-%m-%d %H:%M:%S} {shown.tzname()}"


def relative(at: float, seen_at: float) -> str:
    """`in 5 min`, `3 h ago`, `now`."""
    distance = at - seen_at
    if abs(distance) < 1:
        return "now"
    amount = length(abs(distance))
    return f"in {amount}" if distance > 0 else f"{amount} ago"


def size(count: float) -> str:
    """A number of bytes in its largest fitting unit, each 1,000 of the one before: `512 B`, `3.2 MB`, `48 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if round(count) < 1000:
            return f"{count:.1f} {unit}" if count < 9.95 and unit != "B" else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.0f} TB"


def length(seconds: float) -> str:
    """A duration in its largest fitting unit: `420 ms`, `12 s`, `5 min`, `3 h`, `2 d`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for limit, unit_seconds, unit in _STEPS:
        if seconds < limit:
            return f"{seconds / unit_seconds:.0f} {unit}"
    return "forever"
