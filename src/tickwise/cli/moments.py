"""Times as people write and read them: "tomorrow 10:00", "last friday 3am", "8 hours ago", "in 5 min".

The terminal reads this machine's clock here and nowhere else, to show times and to turn "in five minutes" into one.
Nothing is ever judged by it: what is due is decided by the store's clock.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

_UNIT_SECONDS: Final = {
    "ms": 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60,
    "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400, "w": 604_800, "week": 604_800,
}  # fmt: skip
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}))? ?(am|pm)?", re.ASCII)
"""`15:40`, `15:40:30`, `3am`, `3:40 pm`. A bare `15` is none."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_CLOCK_WORDS: Final = {"noon": "12:00", "midnight": "0:00"}
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WHICH: Final = ("last", "next", "this")
_FORMS: Final = "'2027-01-31 10:00', 'tomorrow 10:00', 'last friday 3am', '8 hours ago' or 2027-01-31T10:00:00Z"
_STEPS: Final = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (float("inf"), 86_400, "d"))


_SPANS: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


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


def duration_seconds(text: str, *, needs_unit: bool = False) -> float:
    """`90s`, `5m`, `1h30m`, `2 days`, or a bare number of seconds. `needs_unit`: no bare number, since a person may
    mean minutes. Raises `UnreadableTime`."""
    wanted = text.strip().lower()
    if needs_unit and _NUMBER.fullmatch(wanted) and not wanted.startswith("-"):
        number = wanted.removeprefix("+")
        raise UnreadableTime(
            f"{text!r} has no unit; write {number}s for seconds, {number}m for minutes, {number}h for hours"
        )
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


def moment(
    text: str,
    zone: tzinfo | None,
    at: float,
    *,
    ago: bool = False,
    tell: Callable[[str], None] | None = None,
) -> datetime:
    """A point in time: RFC 3339; `2027-01-31 10:00`; `10:00`, `3am`, `noon`; a day (`today`, `tomorrow`, `yesterday`,
    `friday`, `last friday`, `next friday`) with such a clock time, or alone, which is its begin; `8 hours ago`, `in 5
    minutes`; or `5m`, from now.

    With `ago`, where a time that has passed is expected, `5m` is five minutes ago, and a bare clock time or weekday its
    last occurrence; else its next one. A text without an offset is a wall clock in `zone` (None: this machine's).
    `tell` hears of a wall time that a change of the clock leaves out or repeats. Raises `UnreadableTime`.
    """
    wanted = " ".join(text.split())
    found = _distance(wanted.lower(), at) or _on_a_clock(wanted.lower(), _Clock(zone, at, ago, tell))
    if found is not None:
        return found
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
            raise UnreadableTime(f"{text!r} is no time; write one such as {_FORMS}") from None
    return read if read.tzinfo is not None else _placed(read, zone, tell)


def is_wall_time(text: str) -> bool:
    """Check whether the zone of a clock decides what the text means: not of a duration, nor of a time with an
    offset. A text that is no time is one for `moment` to refuse."""
    wanted = " ".join(text.split())
    try:
        if _distance(wanted.lower(), 0.0) is not None:
            return False
        duration_seconds(wanted)
        return False
    except UnreadableTime:
        pass
    try:
        return datetime.fromisoformat(wanted).tzinfo is None
    except ValueError:
        return True


class _Clock(NamedTuple):
    """A wall clock, and how what is read on it is meant."""

    zone: tzinfo | None
    at: float
    ago: bool
    tell: Callable[[str], None] | None

    def on(self, day: datetime, text: str) -> datetime:
        """The instant of a clock time on a day; an empty text is its begin. Raises `UnreadableTime`."""
        hour, minute, second = _hour_minute_second(text or "0:00")
        try:
            naive = datetime(day.year, day.month, day.day, hour, minute, second)  # noqa: DTZ001  # placed in its zone below
        except ValueError:
            raise UnreadableTime(f"there is no {text} on a clock") from None
        return _placed(naive, self.zone, self.tell)


def _distance(wanted: str, at: float) -> datetime | None:
    """`now`, `8 hours ago`, `in 5 minutes`."""
    if wanted == "now":
        return datetime.fromtimestamp(at, UTC)
    if wanted.endswith(" ago"):
        text, sign = wanted.removesuffix(" ago"), -1.0
    elif wanted.startswith("in "):
        text, sign = wanted.removeprefix("in "), 1.0
    else:
        return None
    amount = re.sub(r"^an? ", "1 ", text)
    try:
        return datetime.fromtimestamp(at + sign * duration_seconds(amount, needs_unit=True), UTC)
    except (ValueError, OverflowError) as error:
        if isinstance(error, UnreadableTime):
            raise
        raise UnreadableTime(f"{wanted!r} is beyond all calendars") from None


def _on_a_clock(wanted: str, clock: _Clock) -> datetime | None:
    """A day with or without a clock time, or a clock time alone."""
    today = datetime.fromtimestamp(clock.at, UTC).astimezone(clock.zone)
    if _is_clock(wanted):
        is_past = clock._replace(tell=None).on(today, wanted).timestamp() <= clock.at
        days = 0 if clock.ago == is_past else -1 if clock.ago else 1
        return clock.on(today + timedelta(days=days), wanted)
    words = wanted.split()
    which = words.pop(0) if words and words[0] in _WHICH else ""
    day = words.pop(0) if words else ""
    rest = " ".join(words).removeprefix("at ")
    if rest and not _is_clock(rest):
        return None
    if day in _DAYS and not which:
        return clock.on(today + timedelta(days=_DAYS[day]), rest)
    if day in _WEEKDAYS:
        ahead = (_WEEKDAYS.index(day) - today.weekday()) % 7
        return _on_a_weekday(clock, today, ahead, which, rest)
    if rest and not which and _DATE.fullmatch(day):
        try:
            return clock.on(datetime.fromisoformat(day), rest)
        except ValueError as error:
            raise error if isinstance(error, UnreadableTime) else UnreadableTime(f"there is no day {day}") from None
    return None


def _on_a_weekday(clock: _Clock, today: datetime, ahead: int, which: str, rest: str) -> datetime:
    """`ahead`: the days from today to the next such weekday, 0 to 6. `last` and `next` mean no time of today."""
    days = {"last": ahead - 7, "next": ahead or 7}.get(which, ahead)
    if not which:
        is_past = clock._replace(tell=None).on(today + timedelta(days=days), rest).timestamp() <= clock.at
        days += 0 if clock.ago == is_past else -7 if clock.ago else 7
    return clock.on(today + timedelta(days=days), rest)


def _is_clock(text: str) -> bool:
    found = _CLOCK.fullmatch(text)
    return text in _CLOCK_WORDS or (found is not None and bool(found[2] or found[4]))


def _hour_minute_second(text: str) -> tuple[int, int, int]:
    """Of a text that is a clock time. Raises `UnreadableTime`."""
    found = _CLOCK.fullmatch(_CLOCK_WORDS.get(text, text))
    if found is None:
        raise UnreadableTime(f"there is no {text} on a clock")
    hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3))
    if found[4]:
        if not 1 <= hour <= 12:
            raise UnreadableTime(f"there is no {text} on a clock")
        hour = hour % 12 + (12 if found[4] == "pm" else 0)
    return hour, minute, second


def _placed(naive: datetime, zone: tzinfo | None, tell: Callable[[str], None] | None) -> datetime:
    """A wall clock's reading as an instant with its offset. Of a time that comes twice, the first; one that a change of
    the clock leaves out is as long after the change as it is after the last time before."""
    readings = [
        naive.replace(fold=fold).astimezone() if zone is None else naive.replace(tzinfo=zone, fold=fold)
        for fold in (0, 1)
    ]
    # The folds of this machine's zone and of others stand for opposite sides of a gap, so the instants are compared.
    first, second = sorted(readings, key=datetime.timestamp)
    if first.timestamp() == second.timestamp():
        return readings[0]
    said = f"{naive:%H:%M} on {naive:%Y-%m-%d}"
    shown = second.astimezone(UTC).astimezone(zone)
    if shown.replace(tzinfo=None, fold=0) == naive:
        if tell is not None:
            tell(
                f"{said} comes twice, as the clock is put back; the first is taken. The second is {second.isoformat()}."
            )
        return first
    if tell is not None:
        tell(f"There is no {said}: the clock is put forward then. It is taken as {shown:%H:%M} {shown.tzname()}.")
    return second


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


def age(at: float, seen_at: float) -> str:
    """As `relative`, but short, for a cell of a table: `16s ago`, `in 4m`, `now`."""
    distance = at - seen_at
    if abs(distance) < 1:
        return "now"
    return f"in {span(distance)}" if distance > 0 else f"{span(-distance)} ago"


def span(seconds: float) -> str:
    """A duration for a cell of a table: `420ms`, `1.3s`, `16s`, `2m5s`, `48m`, `3h20m`, `3d4h`, `12d`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    for (size, unit), (below, smaller) in itertools.pairwise(_SPANS):
        if whole >= size:
            count, rest = divmod(whole, size)
            further = rest // below
            return f"{count}{unit}{further}{smaller}" if count < 10 and further else f"{count}{unit}"
    return f"{whole}s"


def written(at: float) -> str:
    """An instant as the API takes it."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def begin_of_yesterday(at: float, zone: tzinfo | None) -> float:
    """The instant at which yesterday began on this clock."""
    return moment("yesterday", zone, at).timestamp()


def day_words(at: float, seen_at: float, zone: tzinfo | None) -> str:
    """`yesterday` for its begin, else the absolute time."""
    return "yesterday" if at == begin_of_yesterday(seen_at, zone) else absolute(at, zone)


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
