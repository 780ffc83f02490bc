"""The wall time of a zone at an instant, in whole seconds, and the zone's clock changes.

`zoneinfo` answers "which offset holds now"; a schedule must also know when that ends. So a zone's time
line is cut into stretches of one constant offset, found once per zone and year and kept:

        instant   ──────────────┬───────────────────────────┬────────────►
        stretch   offset -5 h   │  offset -4 h              │  offset -5 h
        wall      … 01:59:59    │  03:00:00 … 01:59:59      │  01:00:00 …
                             a gap                       an overlap

Instants and wall times are integers: seconds since 1970-01-01T00:00:00, of UTC and of the wall clock.
Invariant: the stretches of a zone cover every instant, and inside one `wall = instant + offset`.

Governments change clocks, so the data has a version: `data_version` names the one that this process computes with.
Zone data that was read is kept until `forget`. Looking at that data, as `zoneinfo` does, is the only I/O of the domain.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import re
import zoneinfo
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import pairwise
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
    """A time of one constant offset, from `begin` to before `end`; `before` held until `begin`, `after` from `end` on.

    Where `before` equals `offset`, the begin is only an edge of our book-keeping and no change of the clock; so is the
    end where `after` does.
    """

    begin: int
    end: int
    offset: int
    before: int
    after: int


class GapRule(StrEnum):
    """The policy for wall times that the clock skips."""

    RUN_AFTER = "run_after"
    """They become one fire, at the instant of the change."""
    SKIP = "skip"
    SHIFT = "shift"
    """Each fires at the real moment at which an unchanged clock would have shown it: 02:30 becomes 03:30."""


class RepeatRule(StrEnum):
    """At which pass a wall time fires that the clock shows twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Dst:
    """The policy of a schedule at clock changes. None: as Debian's cron does with that kind of line."""

    gap: GapRule | None = None
    overlap: RepeatRule | None = None


DEBIAN: Final = Dst()

_UTC_STRETCH: Final = Stretch(FIRST_INSTANT, LAST_INSTANT + 1, 0, 0, 0)


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
    """The stretches that hold the instants of a chunk. A change shortly before or after it is told with its real time,
    because wall times that it repeats lie inside; what is farther off is cut at the chunk's edge."""
    start, end = chunk * _CHUNK_SECONDS, (chunk + 1) * _CHUNK_SECONDS
    left, last = start - CHANGE_REACH_SECONDS, end + CHANGE_REACH_SECONDS - 1
    offset = _offset_at(zone, left)
    changes: list[tuple[int, int, int]] = []
    while left < last:
        right = min(left + _SAMPLE_SECONDS, last)
        following = _offset_at(zone, right)
        if following != offset:
            changes.append((_first_with_other_offset(zone, left, right, offset), offset, following))
        left, offset = right, following
    if not changes or changes[0][0] > start:
        first = changes[0][1] if changes else offset
        changes.insert(0, (start, first, first))
    if changes[-1][0] < end:
        changes.append((end, changes[-1][2], changes[-1][2]))
    return tuple(
        Stretch(begin, stop, offset, before, after)
        for (begin, before, offset), (stop, _, after) in pairwise(changes)
        if begin < end
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


# ------------------------------------------------------------------------------------------ which data it is


@cache
def data_version() -> str:
    """The version of the zone data in use, such as "2026a"; "2025b+2026a" where one source fills gaps of another.

    `zoneinfo` takes each zone from the first folder of its path that has it, and from the package `tzdata` if none has.
    So the first source is named, and the ones behind it up to the first that is complete. "unknown" if there are none.
    """
    found: list[str] = []
    for folder in zoneinfo.TZPATH:
        complete = _content(f"{folder}/UTC") is not None
        version = _version_in(folder) or (_digest_of(folder) if complete else None)
        if version is not None:
            found.append(version)
        if complete:
            return "+".join(found)
    with contextlib.suppress(ModuleNotFoundError):  # `zoneinfo` does without it, too
        found.append(str(importlib.import_module("tzdata").IANA_VERSION))
    return "+".join(found) or "unknown"


def forget() -> None:
    """Drop all that was read, so that the next question is answered from the data as it is then.

    For a program that lives longer than its machine's zone data. A `ZoneInfo` handed out before keeps its old rules:
    ask `zone_named` again.
    """
    ZoneInfo.clear_cache()
    data_version.cache_clear()
    zone_named.cache_clear()
    _stretches.cache_clear()


def _version_in(folder: str) -> str | None:
    """The version of a zone data folder: in the first line of `tzdata.zi` (Linux), or in `+VERSION` (macOS, BSD)."""
    compiled = _content(f"{folder}/tzdata.zi", 80)
    if compiled is not None and (match := re.match(rb"# version (\S{1,40})", compiled)):
        return match.group(1).decode("ascii", "replace")
    named = _content(f"{folder}/+VERSION", 40)
    return named.decode("ascii", "replace").strip() or None if named is not None else None


def _digest_of(folder: str) -> str:
    """A name for data that has none: it changes when any zone does. Reads every zone, about 30 ms."""
    digest = blake2b(digest_size=4)
    for name in sorted(available_timezones()):
        content = _content(f"{folder}/{name}")
        if content is not None:
            digest.update(name.encode() + b"\0" + content)
    return f"unnamed-{digest.hexdigest()}"


def _content(path: str, most: int = 1 << 20) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return None
