"""The times of a crontab entry as those of a job, and the signs that cron daemons read in another way.

Our cron lines are Debian's, clock changes included, so nearly all entries are taken as they stand. What other daemons
add (`@every`, `~`, seconds after `@`) becomes what comes nearest; what cron itself would have refused, or never run,
and we read, is a change of meaning. The rules were measured with Debian's cron 3.0pl1-162.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tickwise.domain.cron import expression as cron
from tickwise.domain.cron.expression import Cron
from tickwise.domain.cron.fields import DAY, HOUR, KINDS, MACROS, WEEKDAY, FieldKind, every_seconds
from tickwise.importers.translation import MAX_INTERVAL_SECONDS, Untranslatable

REBOOT_REFUSED: Final = (
    "@reboot runs when the machine starts, and a job belongs to no machine; start it as a service of the machine "
    "(a systemd unit with WantedBy=multi-user.target), or give a time such as @hourly"
)
_QUARTER_MINUTES: Final = 15
"""The offsets of all clocks of our time are whole quarters of an hour."""

_ITEM: Final = re.compile(r"(\*|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/([0-9]+))?", re.ASCII)
_RANDOM: Final = re.compile(r"([0-9]*)~([0-9]*)", re.ASCII)
_FOREIGN: Final = re.compile(r"\?|[Hh][(/].*|[HhLl]|[0-9A-Za-z]+(?:[Ll]|#.*)")
_WORDS: Final = re.compile(r"[^ \t]+")


@dataclass(frozen=True, slots=True)
class CrontabTimes:
    """The schedule of an entry."""

    words: dict[str, Any]
    """`schedule_type` and `cron_expression` or `interval_seconds`, and `overlap` where the daemon says it."""
    changes: tuple[str, ...]
    needs_zone: bool
    """True if the clock of another time zone would give other times."""


def take_words(line: str, count: int) -> tuple[list[str], str]:
    """The first words of a line, at most `count`, and all that follows their blanks."""
    words: list[str] = []
    for match in _WORDS.finditer(line):
        if len(words) == count:
            return words, line[match.start() :]
        words.append(match.group())
    return words, ""


def read_times(line: str) -> tuple[CrontabTimes, str]:
    """The schedule at the begin of an entry, and the rest of the entry. Raises `Untranslatable` or `Invalid`."""
    if line.startswith("@"):
        return _read_macro(line)
    fields, rest = take_words(line, 5)
    if len(fields) < 5:
        raise Untranslatable(
            "it is no crontab line: write five time fields (minute, hour, day of month, month, day of week) and a "
            "command, NAME=value, or # before a comment"
        )
    if len(fields[0]) > 1 and fields[0][0] == "-":
        # With it, cron does not log the start; where it is legal, it has no other meaning.
        fields[0] = fields[0][1:]
    changes: list[str] = []
    for place, kind in enumerate(KINDS[1:]):
        fields[place] = _our_field(kind, fields[place], changes)
    return _cron_times(" ".join(fields), changes), rest


def _cron_times(expression: str, changes: list[str]) -> CrontabTimes:
    words = {"schedule_type": "CRON", "cron_expression": expression}
    return CrontabTimes(words, tuple(changes), _needs_zone(cron.parse(expression)))


def _needs_zone(line: Cron) -> bool:
    """False for a line that fires in the same minutes of every hour of every day, and by whole quarters of an hour."""
    later = line.minutes >> _QUARTER_MINUTES | (line.minutes << 60 - _QUARTER_MINUTES) & MINUTES_ALL
    every_day = line.hours == HOUR.everything and line.months == KINDS[4].everything and line.both_days
    whole = line.days == DAY.everything and line.weekdays == WEEKDAY.everything
    return not (line.keeps_real_time and every_day and whole and later == line.minutes)


MINUTES_ALL: Final = KINDS[1].everything


# -------------------------------------------------------------------------------------------------- five fields


def _our_field(kind: FieldKind, text: str, changes: list[str]) -> str:
    """The field in our words; what it then means otherwise than in cron is added to `changes`."""
    random = _RANDOM.fullmatch(text)
    if random is not None:
        first, last = random.groups()
        ours = f"H({first or kind.low}-{last or kind.low + kind.size - 1})" if first or last else "H"
        changes.append(
            f"{kind.name}: {text} is drawn anew whenever cron reads its file; here {ours} is one value for the job"
        )
        return ours
    items = [_our_item(kind, item) for item in text.split(",")]
    changes.extend(_unlike(kind, text))
    return ",".join(items)


def _our_item(kind: FieldKind, item: str) -> str:
    """A step beyond the field leaves its first value alone, in cron as here: only so far must it be written."""
    match = _ITEM.fullmatch(item)
    if match is None or match.group(3) is None or int(match.group(3)[:9]) <= kind.size:
        return item
    return f"{item.rpartition('/')[0]}/{kind.size}"


def _unlike(kind: FieldKind, text: str) -> Iterator[str]:
    """Cron's reading of a field, where it differs from ours."""
    items = text.split(",")
    if any(_FOREIGN.fullmatch(item) and item.upper() not in kind.names for item in items):
        yield f"{kind.name}: Debian's cron does not know {_shown(text)}, and refuses the file or runs it at other times"
    for item in items:
        match = _ITEM.fullmatch(item)
        if match is None:
            continue
        first, last, step = match.groups()
        if first != "*" and last is None and step is not None:
            yield (
                f"{kind.name}: cron refuses {_shown(item)}, or reads only {first}; here it goes on from {first} to the "
                "end of the field"
            )
        elif last is not None and _number(kind, first) > _number(kind, last):
            yield (
                f"{kind.name}: Debian's cron never runs at {_shown(item)}, others refuse it; here it goes on over the "
                "end of the field"
            )


def _number(kind: FieldKind, text: str) -> int:
    """The value of a number or a name; of anything else 0: the line is then refused for it."""
    if text.isdigit():
        return int(text[:9])
    return kind.low + kind.names.index(text.upper()) if text.upper() in kind.names else 0


def _shown(text: str) -> str:
    return text if len(text) <= 24 else text[:21] + "..."


# -------------------------------------------------------------------------------------------------------- macros


def _read_macro(line: str) -> tuple[CrontabTimes, str]:
    (name,), rest = take_words(line, 1)
    lower = name.lower()
    if lower == "@reboot":
        raise Untranslatable(REBOOT_REFUSED)
    if lower in MACROS:
        changes = [] if name == lower else [f"cron knows {lower} in small letters only, and refuses {name}"]
        return _cron_times(lower, changes), rest
    if lower == "@every_minute":
        return _cron_times("* * * * *", []), rest
    if lower == "@every_second":
        return _interval(1.0, "FreeBSD's @every_second counts from the start of cron, a job from its import"), rest
    if lower == "@every":
        words, rest = take_words(rest, 1)
        said = "@every counts from the start of the daemon that knows it, a job from its import"
        return _interval(every_seconds(" ".join(["@every", *words])) or 0.0, said), rest
    if lower[1:].isdecimal() and lower.isascii():
        said = (
            f"FreeBSD's {_shown(name)} counts from the end of the last run; here from its start, and a run is skipped "
            "while the last one still goes on"
        )
        times = _interval(float(lower[1:][:12]), said)
        return CrontabTimes({**times.words, "overlap": "skip"}, times.changes, times.needs_zone), rest
    cron.parse(_shown(name))  # says which names there are
    raise Untranslatable(f"{_shown(name)} is not known; write @daily, @hourly or five time fields")


def _interval(seconds: float, change: str) -> CrontabTimes:
    if not 1 <= seconds <= MAX_INTERVAL_SECONDS:
        raise Untranslatable(f"an interval lasts from 1 second to 10 years, not {seconds:g} seconds; write another")
    return CrontabTimes({"schedule_type": "INTERVAL", "interval_seconds": seconds}, (change,), needs_zone=False)
