"""An iCalendar file (RFC 5545) as days and periods.

        text ──► lines of events that matter ──► plain, else icalendar ──► _Event ──► its times in the span, in order
                  (no VTIMEZONE, no alarms)                                  └── rules, RDATE, EXDATE, RECURRENCE-ID

Only lines that we use reach the library: what a mail program adds beside them cannot break a calendar, nor cost time.
A VTIMEZONE is left out too, because it is a program of recurrence rules: zones are taken by their name alone. Times are
computed as they are merged, so there are never more of them than are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar
from zoneinfo import ZoneInfo, available_timezones

import icalendar

from tickwise.adapters.calendars import plain, recurrence
from tickwise.adapters.calendars.recurrence import Budget, Recurrence, Unreadable
from tickwise.domain.calendar.entries import Dates, Period
from tickwise.domain.errors import Invalid
from tickwise.domain.zones import zone_named
from tickwise.ports.calendars import ENTRIES_MAX, ICS_MAX, DaySpan, Resolved

LINES_MAX: Final = 60_000
"""Lines of events that matter: 10,000 events of six. Plain ones take a sixth of a second, and ten times as long if each
of them has to go through the library."""
LIBRARY_LINES_MAX: Final = 12_000
"""Lines of events that are not plain: about half a second."""
RULE_STEPS_MAX: Final = 500_000
"""About as long. `ENTRIES_MAX` times of a weekly rule are a fifth of it."""
_NAME_MAX: Final = 200
_FIRST_YEAR: Final = 1583
_LAST_YEAR: Final = 9000
_LENGTH_MAX_DAYS: Final = 36_600  # a hundred years
_POINTER: Final = "/ics"

_PROPERTY = re.compile(r"[A-Za-z0-9-]+", re.ASCII)
_VENDORS_ZONE = re.compile(r';TZID="?/([^:;"]*)"?(?=[:;])', re.IGNORECASE)
_ZONE: Final = re.compile(r';TZID=(?:"[^"]*"|[^:;]*)', re.IGNORECASE)
_KEPT: Final = frozenset(
    {"UID", "DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID", "SUMMARY", "STATUS"}
)
_HEEDED: Final = _KEPT | {"BEGIN", "END", "X-WR-TIMEZONE"}
_NAMES_MAX: Final = 1_000
_RULE_CACHED: Final = 200
"""Characters of a rule that is kept."""
_IN_EVENT: Final = ["VCALENDAR", "VEVENT"]
_MIDNIGHT: Final = time()
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - on the clock of UTC
_UTC_ZONE: Final = zone_named("UTC")
_DAY: Final = timedelta(days=1)
_NOTHING: Final = timedelta(0)


class _Moment(NamedTuple):
    """A time as it was written."""

    wall: datetime
    """Naive; of a day its midnight."""
    zone: ZoneInfo | None
    """None: a whole day."""

    def key(self) -> float:
        """The key that identifies and sorts it: the instant, of a whole day that of its midnight in UTC. A time that
        the clock skips is as long after the change as it says, of one that it repeats it is the first."""
        if self.zone is None or self.zone is _UTC_ZONE:
            return (self.wall - _EPOCH).total_seconds()
        return self.wall.replace(tzinfo=self.zone).timestamp()


class _Length(NamedTuple):
    """The duration of an event: in real time, or (whole days that were said as such) on the wall clock."""

    time: timedelta
    on_wall: bool

    def end_of(self, begin: _Moment, key: float) -> float:
        """The end, in terms of `_Moment.key`. `key`: that of the begin."""
        if self.on_wall:
            return _Moment(begin.wall + self.time, begin.zone).key()
        return key + self.time.total_seconds()


class _Event(NamedTuple):
    """An event as read, not carried out yet. A tuple: there are thousands."""

    line: int
    uid: str
    name: str | None
    start: _Moment
    length: _Length
    cancelled: bool = False
    rules: tuple[Recurrence, ...] = ()
    added: tuple[tuple[_Moment, _Length], ...] = ()
    """RDATE, each with its length."""
    removed: frozenset[float] = frozenset()
    """EXDATE, by key."""
    removed_days: frozenset[date] = frozenset()
    """EXDATE of whole days."""
    replaces: float | None = None
    """RECURRENCE-ID, by key: the occurrence of the event with the same UID that this one stands for."""


Event = TypeVar("Event", _Event, "_Event | None")


class _Time(NamedTuple):
    """One time of an event."""

    key: float
    entry: Dates | Period


def read(text: str, timezone: str, span: DaySpan) -> Resolved:
    """Read an iCalendar file, as the port says. Raises `Invalid` that names the line of the event."""
    file = _File(text)
    zone = zone_named(timezone)
    events = _events(file.events, zone)
    if not events:
        raise Invalid("there is no event (BEGIN:VEVENT) in the text; send a whole iCalendar file", pointer=_POINTER)
    warnings = []
    if file.zone is not None and file.zone != timezone:
        warnings.append(f"the file is made for {file.zone[:100]}, its whole days are taken as those of {timezone}")
    empty = sum(not (each.length.time or each.added or each.cancelled) for each in events)
    if empty:
        warnings.append(f"{empty} events without a duration cover no time and were left out")
    found = list(islice(_all_times(events, span), ENTRIES_MAX + 1))
    if len(found) > ENTRIES_MAX:
        found.pop()
        last = datetime.fromtimestamp(found[-1].key, UTC).date()
        warnings.append(f"cut after {ENTRIES_MAX} times: events that begin after {last} are not covered")
    if not found:
        warnings.append(f"no event falls between {span.first} and {span.last}")
    return Resolved(tuple(each.entry for each in found), tuple(warnings))


# -------------------------------------------------------------------------------------------------------- the lines


class _Names(dict[str, str]):
    """The properties that matter, by what stands before the colon; of any other one an empty text."""

    def __missing__(self, head: str) -> str:
        match = _PROPERTY.match(head)
        name = match[0].upper() if match else ""
        found = name if name in _HEEDED else ""
        if len(self) < _NAMES_MAX:
            self[head] = found
        return found


@dataclass(slots=True)
class _Lines:
    """The lines of one event that matter."""

    line: int
    """The number of its first line, from 1."""
    kept: list[str] = field(default_factory=list)


class _File:
    """The events of a text, and the zone that it says it is made for."""

    def __init__(self, text: str) -> None:
        if len(text) > ICS_MAX:
            raise Invalid(f"an iCalendar file may have {ICS_MAX} characters; send less", pointer=_POINTER)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Invalid("the text holds half a surrogate pair; send it as UTF-8", pointer=_POINTER) from None
        self.events: list[_Lines] = []
        self.zone: str | None = None
        self._inside: list[str] = []
        self._kept = 0
        names, in_event, begun = _Names(), False, False
        for number, line in _unfolded(text.removeprefix("\ufeff")):
            if not begun and line.strip().upper() != "BEGIN:VCALENDAR":
                raise Invalid("an iCalendar file begins with BEGIN:VCALENDAR", pointer=_POINTER)
            begun = True
            name = names[line[:colon] if (colon := line.find(":")) >= 0 else line]
            if name in _KEPT:
                if in_event:
                    self._keep(line)
            elif name:
                self._take(number, line, name)
                in_event = self._inside == _IN_EVENT
        if not begun or self._inside:
            missing = self._inside[-1][:40] if begun else "VCALENDAR"
            raise Invalid(f"the file ends too early: END:{missing} is missing", pointer=_POINTER)

    def _take(self, number: int, line: str, name: str) -> None:
        if name == "BEGIN":
            component = line[6:].strip().upper()
            if component == "VEVENT" and self._inside == ["VCALENDAR"]:
                self.events.append(_Lines(number))
            self._inside.append(component)
        elif name == "END":
            component = line[4:].strip().upper()
            if not self._inside or self._inside.pop() != component:
                raise Invalid(f"line {number}: END:{component[:40]} ends nothing that began", pointer=_POINTER)
        elif self._inside == ["VCALENDAR"]:
            self.zone = line.partition(":")[2].strip() or None

    def _keep(self, line: str) -> None:
        """Add a line that matters to the event that was begun last."""
        self._kept += 1
        if self._kept > LINES_MAX:
            raise Invalid(f"the events have more than {LINES_MAX} lines; send fewer events", pointer=_POINTER)
        # Only a vendor's name begins with a slash, perhaps within quotes.
        is_vendors = "=/" in line or '="/' in line
        self.events[-1].kept.append(_VENDORS_ZONE.sub(_own_zone, line) if is_vendors else line)


def _own_zone(vendors: re.Match[str]) -> str:
    """The parameter without the vendor that stands before the IANA name: `/mozilla.org/20050126_1/Europe/Berlin`."""
    parts = vendors[1].split("/")
    for begin in range(max(0, len(parts) - 3), len(parts)):
        name = "/".join(parts[begin:])
        if name in _zone_names():
            return f";TZID={name}"
    return vendors[0]


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


def _unfolded(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; a line that begins with a blank goes on with the one before."""
    if "\n " not in text and "\n\t" not in text:
        lines = text.replace("\r\n", "\n").removesuffix("\r").split("\n")
        yield from ((number, line) for number, line in enumerate(lines, start=1) if line and not line.isspace())
        return
    parts: list[str] = []
    begin = 1
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if line[:1] in (" ", "\t") and parts:
            parts.append(line[1:])
            continue
        if parts:
            yield begin, "".join(parts)
        parts, begin = [line] if line.strip() else [], number
    if parts:
        yield begin, "".join(parts)


# -------------------------------------------------------------------------------------------------------- one event


def _events(several: Iterable[_Lines], zone: ZoneInfo) -> list[_Event]:
    """Read events. Raises `Invalid` with the line of the one that cannot be read, or that is one too many."""
    events, left = [], LIBRARY_LINES_MAX
    for lines in several:
        event = _event(lines, zone, _plain_event)
        if event is None:
            left -= len(lines.kept)
            if left < 0:
                raise Invalid(
                    "the events with more than a name, a begin, an end, a rule and days left out have more than "
                    f"{LIBRARY_LINES_MAX} lines; send fewer of them",
                    pointer=_POINTER,
                )
            event = _event(lines, zone, _read_event)
        events.append(event)
    return events


def _event(lines: _Lines, zone: ZoneInfo, read: Callable[[_Lines, ZoneInfo], Event]) -> Event:
    """Read an event in one of the two ways. Raises `Invalid` with its line."""
    try:
        return read(lines, zone)
    except (Unreadable, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as failure:
        # The library takes what it is given for well-formed in places; an event that is not must not look like a bug.
        raise _refused(lines.line, failure) from None


def _refused(line: int, failure: Exception) -> Invalid:
    return Invalid(f"the event in line {line}: {str(failure)[:300]}", pointer=_POINTER)


def _plain_event(lines: _Lines, zone: ZoneInfo) -> _Event | None:
    """Read an event without the library. None: it is not plain, or something is wrong with it."""
    said = plain.read(lines.kept, _zone_names())
    if said is None:
        return None
    start = _plain_moment(said.start, zone)
    end = None if said.end is None else _plain_moment(said.end, zone)
    if start is None or (said.end is not None and (end is None or (end.zone is None) != (start.zone is None))):
        return None
    length = _length_of(start, end, said.duration)
    rules = () if said.rule is None else (_rule(_parts(said.rule), start),)
    name, cancelled = _cleaned(said.summary), said.status.upper() == "CANCELLED"
    event = _Event(lines.line, said.uid, name, start, length, cancelled, rules)
    if not said.removed:
        return event
    removed = [_plain_moment(each, zone) for each in said.removed]
    if None in removed:
        return None
    return _without(event, [each for each in removed if each is not None])


def _plain_moment(said: plain.PlainTime, zone: ZoneInfo) -> _Moment | None:
    if not _FIRST_YEAR <= said.wall.year <= _LAST_YEAR:
        return None
    if said.is_day:
        return _Moment(said.wall, None)
    return _Moment(said.wall, _zone(said.zone) if said.zone else zone)


@lru_cache(maxsize=1_000)
def _zone(name: str) -> ZoneInfo:
    return zone_named(name)


def _read_event(lines: _Lines, zone: ZoneInfo) -> _Event:
    # The library looks for a zone's file by any name, and fails of a long one in ways of the system's.
    if any(len(found[0]) > _NAME_MAX for line in lines.kept if len(line) > _NAME_MAX for found in _ZONE.finditer(line)):
        raise Unreadable("a TZID names no zone; write an IANA name such as Europe/Berlin")
    said = icalendar.Event.from_ical("\r\n".join(("BEGIN:VEVENT", *lines.kept, "END:VEVENT", "")))
    for name, reason in said.errors:
        raise Unreadable(f"{name}: {reason}")
    if "EXRULE" in said:
        raise Unreadable("EXRULE is not supported; write the days that are left out as EXDATE")
    if "DTSTART" not in said:
        raise Unreadable("DTSTART is missing")
    start = _moment(_one(said, "DTSTART"), zone)
    length = _length(said, start, zone)
    replaced = _one(said, "RECURRENCE-ID")
    if replaced is not None and "RANGE" in replaced.params:
        raise Unreadable("RECURRENCE-ID with RANGE is not supported; end the rule with UNTIL and write a new event")
    event = _Event(
        line=lines.line,
        uid=str(_one(said, "UID") or ""),
        name=_cleaned(str(_one(said, "SUMMARY") or "")),
        start=start,
        length=length,
        cancelled=str(_one(said, "STATUS") or "").upper() == "CANCELLED",
        rules=tuple(_rule(each, start) for each in _several(said, "RRULE")),
        added=tuple(_added(each, length, zone) for each in _listed(said, "RDATE")),
        replaces=None if replaced is None else _moment(replaced, zone).key(),
    )
    return _without(event, [_moment(each, zone) for each in _listed(said, "EXDATE")])


def _without(event: _Event, removed: Sequence[_Moment]) -> _Event:
    """The event without these times."""
    start = event.start
    return event._replace(
        removed=frozenset(each.key() for each in removed),
        removed_days=frozenset(each.wall.date() for each in removed if each.zone is None or start.zone is None),
    )


def _several(said: icalendar.Component, name: str) -> list[Any]:
    found = said.get(name)
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


def _one(said: icalendar.Component, name: str) -> Any:
    found = _several(said, name)
    if len(found) > 1:
        raise Unreadable(f"{name} is given more than once")
    return found[0] if found else None


class _Listed(NamedTuple):
    """One of the times of a property that lists them; the zone is named by the property."""

    dt: Any
    params: Any


def _listed(said: icalendar.Component, name: str) -> list[_Listed]:
    return [_Listed(each.dt, many.params) for many in _several(said, name) for each in many.dts]


def _moment(value: Any, zone: ZoneInfo) -> _Moment:
    """A time that the library read; without a zone of its own it is on the clock of `zone`."""
    said = value.dt
    if not isinstance(said, date):
        raise Unreadable(f"{str(said)[:40]} is no day and no time; write 20261225 or 20261225T090000Z")
    if not _FIRST_YEAR <= said.year <= _LAST_YEAR:
        raise Unreadable(f"the year {said.year} is too far away")
    if not isinstance(said, datetime):
        return _Moment(datetime.combine(said, _MIDNIGHT), None)
    own = said.tzinfo
    if own is None and "TZID" in value.params:
        name = str(value.params["TZID"])[:60]
        raise Unreadable(f"the zone {name!r} is not known; write TZID with an IANA name such as Europe/Berlin")
    if own is not None:
        try:
            zone = zone_named(str(own))  # of a ZoneInfo its name
        except Invalid as unknown:
            raise Unreadable(unknown.detail) from None
    return _Moment(said.replace(tzinfo=None, microsecond=0, fold=0), zone)


def _length(said: icalendar.Component, start: _Moment, zone: ZoneInfo) -> _Length:
    """From DTEND or DURATION; of a day without either, that day."""
    end, duration = _one(said, "DTEND"), _one(said, "DURATION")
    if end is not None:
        last = _moment(end, zone)
        if (last.zone is None) != (start.zone is None):
            raise Unreadable("DTSTART and DTEND must both be days, or both times")
        return _length_of(start, last, None)
    if duration is not None and not isinstance(duration.dt, timedelta):
        raise Unreadable("DURATION must be such as PT1H or P1D")
    return _length_of(start, None, None if duration is None else duration.dt)


def _length_of(start: _Moment, end: _Moment | None, duration: timedelta | None) -> _Length:
    """The length of an event by its end or its duration."""
    on_wall = start.zone is None
    if end is not None:
        length = timedelta(seconds=end.key() - start.key())
    elif duration is not None:
        length = duration
        on_wall = on_wall or not length % _DAY
    else:
        length = _NOTHING
    _check_length(length)
    # An event that begins with a day lasts whole days.
    return _Length(length if start.zone is not None else max(_DAY, -(-length // _DAY) * _DAY), on_wall)


def _check_length(length: timedelta) -> None:
    if length < _NOTHING:
        raise Unreadable("it ends before it begins")
    if length.days > _LENGTH_MAX_DAYS:
        raise Unreadable(f"it lasts for more than {_LENGTH_MAX_DAYS} days")


def _rule(said: Any, start: _Moment) -> Recurrence:
    parts = {str(name).upper(): list(values) for name, values in said.items()}
    begin: date | datetime = start.wall if start.zone is not None else start.wall.date()
    for index, until in enumerate(parts.get("UNTIL", ())):
        if isinstance(until, datetime) and until.tzinfo is not None:
            parts["UNTIL"][index] = until.astimezone(start.zone or UTC).replace(tzinfo=None)
    return recurrence.read(parts, begin)


def _parts(rule: str) -> Mapping[str, Sequence[Any]]:
    """The parts of a rule. Most rules of a file are alike, and the library takes longer for one than all else does."""
    return _known_parts(rule) if len(rule) <= _RULE_CACHED else _known_parts.__wrapped__(rule)


@lru_cache(maxsize=1_000)
def _known_parts(rule: str) -> Mapping[str, Sequence[Any]]:
    parts: Mapping[str, Sequence[Any]] = icalendar.vRecur.from_ical(rule)
    return parts


def _added(value: _Listed, length: _Length, zone: ZoneInfo) -> tuple[_Moment, _Length]:
    """A time of RDATE: a day, a time, or a period with its own length."""
    if not isinstance(value.dt, tuple):
        return _moment(value, zone), length
    begin, end = value.dt
    first = _moment(_Listed(begin, value.params), zone)
    if isinstance(end, timedelta):
        own = _Length(end, not end % _DAY)
    else:
        last = _moment(_Listed(end, value.params), zone)
        own = _Length(timedelta(seconds=last.key() - first.key()), on_wall=False)
    _check_length(own.time)
    return first, own


def _cleaned(text: str) -> str | None:
    cut = text[: 4 * _NAME_MAX]
    printable = cut if cut.isprintable() else "".join(each if each.isprintable() else " " for each in cut)
    return " ".join(printable.split())[:_NAME_MAX] or None


# ---------------------------------------------------------------------------------------------------- carrying out


def _all_times(events: Iterable[_Event], span: DaySpan) -> Iterator[_Time]:
    """The times of all events in the span, in order, computed as they are asked for."""
    replaced: dict[str, set[float]] = {}
    for event in events:
        if event.replaces is not None:
            replaced.setdefault(event.uid, set()).add(event.replaces)
    budget = Budget(RULE_STEPS_MAX)
    earliest, latest = _midnight(span.first), _midnight(span.last + _DAY)
    times: list[Iterator[_Time]] = []
    single: list[_Time] = []
    for event in events:
        if not event.cancelled:
            elsewhere = replaced.get(event.uid, set()) if event.replaces is None else set()
            if event.rules or event.added:
                times.append(_located(_times(event, span, budget, elsewhere), event.line))
            elif (found := _own_time(event, earliest, latest, elsewhere)) is not None:
                single.append(found)
    # A merge of thousands of events of one time each would cost more than to read them.
    return merge(sorted(single, key=itemgetter(0)), *times, key=itemgetter(0))


def _located(times: Iterator[_Time], line: int) -> Iterator[_Time]:
    try:
        yield from times
    except Unreadable as failure:
        raise _refused(line, failure) from None


def _own_time(event: _Event, earliest: float, latest: float, elsewhere: Collection[float]) -> _Time | None:
    """The time of an event that is neither repeated nor added to, if it is in the span and stays."""
    key = event.start.key()
    end = event.length.end_of(event.start, key)
    if not max(earliest, key) < end or key >= latest or key in event.removed or key in elsewhere:
        return None
    if event.removed_days and event.start.wall.date() in event.removed_days:
        return None
    return _Time(key, _entry(event, event.start, key, end))


def _times(event: _Event, span: DaySpan, budget: Budget, elsewhere: Collection[float]) -> Iterator[_Time]:
    """The times of one event in order, less those removed and those that another event stands for."""
    earliest, latest = _midnight(span.first), _midnight(span.last + _DAY)
    seen: _Moment | None = None
    added = sorted(event.added, key=_key_of)
    for moment, length in merge(_by_rules(event, span, budget), added, key=_key_of):
        key = moment.key()
        end = length.end_of(moment, key)
        if moment == seen or not max(earliest, key) < end or key >= latest:
            continue
        seen = moment
        if key not in event.removed and key not in elsewhere and moment.wall.date() not in event.removed_days:
            yield _Time(key, _entry(event, moment, key, end))


def _by_rules(event: _Event, span: DaySpan, budget: Budget) -> Iterator[tuple[_Moment, _Length]]:
    """The event's own time if it has no rule; else those of its rules, from the first that lasts into the span."""
    if not event.rules:
        return iter([(event.start, event.length)])
    reach = max(date.min.toordinal(), span.first.toordinal() - event.length.time.days - 2)
    wider = DaySpan(date.fromordinal(reach), span.last + _DAY)
    start, clock = event.start.wall.date(), event.start.wall.time()
    return (
        (_Moment(datetime.combine(day, clock), event.start.zone), event.length)
        for day in merge(*(recurrence.days(rule, start, wider, budget) for rule in event.rules))
    )


def _entry(event: _Event, moment: _Moment, key: float, end: float) -> Dates | Period:
    if moment.zone is not None:
        return Period(key, end, event.name)
    last = moment.wall + timedelta(seconds=end - key) - _DAY
    return Dates(moment.wall.date(), last.date(), event.name)


def _key_of(time: tuple[_Moment, _Length]) -> float:
    return time[0].key()


def _midnight(day: date) -> float:
    return _Moment(datetime.combine(day, _MIDNIGHT), None).key()
