"""What a wall clock shows at an instant, in whole seconds, and where it is changed.

`zoneinfo` answers "which offset holds now"; a schedule must also know when that ends. So a zone's time
line is cut into stretches of one constant offset, found once per zone and year and kept:

        instant   ──────────────┬───────────────────────────┬────────────►
        stretch   offset -5 h   │  offset -4 h              │  offset -5 h
        wall      … 01:59:59    │  03:00:00 … 01:59:59      │  01:00:00 …
                             a gap                       an overlap

Instants and wall times are integers: seconds since 1970-01-01T00:00:00, of UTC and of the wall clock.
Invariant: the stretches of a zone cover every instant, and inside one `wall = instant + offset`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from tickwise.domain.errors import Invalid

DAY_SECONDS: Final = 86_400
UTC: Final = ZoneInfo("UTC")

# datetime ends at year 1 and year 9999; this far inside, neither an offset nor a look around a change leaves them.
FIRST_INSTANT: Final = -62_135_596_800 + 4 * DAY_SECONDS
LAST_INSTANT: Final = 253_402_300_799 - 4 * DAY_SECONDS

# No change has ever moved a clock by more than a day and two hours (Manila 1844 and Apia 2011: 24 h), so a wall
# time can repeat, or be missed, at most this long around a change.
CHANGE_REACH_SECONDS: Final = 2 * DAY_SECONDS

# Offsets are sampled this far apart to find the changes. In the data of 2026 no zone has ever had two changes
# within four days (closest: Freetown 1939, 344,400 s), so a sample cannot step over two of them.
_SAMPLE_SECONDS: Final = 7 * DAY_SECONDS // 2
_CHUNK_SECONDS: Final = 106 * _SAMPLE_SECONDS  # about a year

_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}", re.ASCII)
_ZONE_NAME_MAX_LENGTH: Final = 64
# Names that load, but mean the machine's own zone, no place, or clocks that count leap seconds.
_REFUSED_ZONES = frozenset({"localtime", "posixrules", "Factory", "right", "posix"})


class Stretch(NamedTuple):
    """A time of one constant offset, from `begin` to before `end`; `before` is the offset that held until `begin`.

    Where `before` equals `offset`, the begin is only an edge of our book-keeping and no change of the clock.
    """

    begin: int
    end: int
    offset: int
    before: int


class GapRule(StrEnum):
    """What becomes of wall times that the clock skips."""

    RUN_AFTER = "run_after"
    """They become one fire, at the instant of the change."""
    SKIP = "skip"
    SHIFT = "shift"
    """Each fires as long after the change as it would have come after the clock's stop: 02:30 becomes 03:30."""


class RepeatRule(StrEnum):
    """At which pass a wall time fires that the clock shows twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Dst:
    """What a schedule does when the clock is changed. None: as Debian's cron does with that kind of line."""

    gap: GapRule | None = None
    overlap: RepeatRule | None = None


DEBIAN: Final = Dst()

_UTC_STRETCH: Final = Stretch(FIRST_INSTANT, LAST_INSTANT + 1, 0, 0)


def stretch_at(zone: ZoneInfo, instant: int) -> Stretch:
    """The stretch that holds `instant`. Its end may be an edge of book-keeping: go on by asking for `end`."""
    if zone is UTC:
        return _UTC_STRETCH
    stretches = _stretches(zone, instant // _CHUNK_SECONDS)
    for stretch in stretches:
        if instant < stretch.end:
            return stretch
    return stretches[-1]


# A year of one zone takes about 0.3 ms to find and 1 kB to keep; 8,192 are every zone there is over 13 years.
@lru_cache(maxsize=8192)
def _stretches(zone: ZoneInfo, chunk: int) -> tuple[Stretch, ...]:
    """The stretches that touch a chunk. A change shortly before its start is kept with its real time, because the
    wall times that it repeated are still near; everything older begins at the chunk's start."""
    start, end = chunk * _CHUNK_SECONDS, (chunk + 1) * _CHUNK_SECONDS
    changes: list[tuple[int, int, int]] = []
    left = start - CHANGE_REACH_SECONDS
    offset = _offset_at(zone, left)
    while left < end - 1:
        right = min(left + _SAMPLE_SECONDS, end - 1)
        following = _offset_at(zone, right)
        if following != offset:
            changes.append((_first_with_other_offset(zone, left, right, offset), offset, following))
        left, offset = right, following
    if not changes or changes[0][0] > start:
        first = changes[0][1] if changes else offset
        changes.insert(0, (start, first, first))
    ends = [begin for begin, _, _ in changes[1:]] + [end]
    return tuple(
        Stretch(begin, stop, after, before) for (begin, before, after), stop in zip(changes, ends, strict=True)
    )


def _first_with_other_offset(zone: ZoneInfo, left: int, right: int, offset: int) -> int:
    """The instant of the only change in (left, right], by halving."""
    while right - left > 1:
        middle = (left + right) // 2
        if _offset_at(zone, middle) == offset:
            left = middle
        else:
            right = middle
    return right


def _offset_at(zone: ZoneInfo, instant: int) -> int:
    shown = datetime.fromtimestamp(max(FIRST_INSTANT, min(instant, LAST_INSTANT)), zone).utcoffset()
    return 0 if shown is None else shown.days * DAY_SECONDS + shown.seconds


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """The zone of an IANA name. `Invalid` with the pointer `/timezone` and the nearest names if there is none."""
    if name == "UTC":
        return UTC
    wellformed = len(name) <= _ZONE_NAME_MAX_LENGTH and _ZONE_NAME.fullmatch(name)
    if wellformed and name.split("/", 1)[0] not in _REFUSED_ZONES:
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # OSError: a folder of zones, such as "America"
            pass
    raise Invalid(
        f"{name[:40]!a} is no time zone; {_nearest_zones(name)}", pointer="/timezone", code="timezone_unknown"
    )


def _nearest_zones(name: str) -> str:
    """Advice for a name that is none: the real names that look like it, by their whole and by their last part."""
    advice = "write an IANA name such as Europe/Berlin"
    if not 2 <= len(name) <= _ZONE_NAME_MAX_LENGTH:
        return advice
    by_lower: dict[str, list[str]] = {}
    # Sorted, so that of two names for a place (Asia/Kolkata, Asia/Calcutta) the same one is always named first.
    for known in sorted(available_timezones()):
        if known.split("/", 1)[0] in _REFUSED_ZONES or known.startswith("Etc/"):
            continue
        lower = known.lower()
        by_lower.setdefault(lower, []).append(known)
        if "/" in lower:
            by_lower.setdefault(lower.rsplit("/", 1)[1], []).append(known)
    wanted = name.strip().lower().replace(" ", "_")
    close = difflib.get_close_matches(wanted, by_lower, n=3, cutoff=0.75)
    near = dict.fromkeys(known for match in close for known in by_lower[match])
    if not near:
        return advice
    return f"did you mean {' or '.join(list(near)[:3])}? ({advice})"
