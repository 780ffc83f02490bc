"""Reading the text of a cron line: from characters to one bit mask a field, and what to say when that fails.

    ┌──────────── second        0-59, only in a line of six fields
    │ ┌────────── minute        0-59
    │ │ ┌──────── hour          0-23
    │ │ │ ┌────── day of month  1-31, L for the last
    │ │ │ │ ┌──── month         1-12, JAN-DEC
    │ │ │ │ │ ┌── day of week   0-7 (0 and 7 are Sunday), SUN-SAT, 5L for the last Friday, 5#2 for the second
    0 5 9 1 * MON

A field is a list of items with commas; an item is `*`, a value, a range (it may wrap: FRI-MON, 22-2) and
may end in a step. `H`, `H(0-29)`, `H/15` and `H(0-29)/10` take values that a seed picks: for ever the same ones for the
same seed, so the hash behind them must never change. `@every 90s` is an interval and has no fields.

Invariant: for any text, the answer is masks (or seconds) or a `CronInvalid` that names the field, its place in the
line, what was found and what to write.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from typing import Final, NamedTuple, NoReturn

from tickwise.domain.errors import CronInvalid

# The longest line in a corpus of public crontabs has 60 characters; a list of all minutes has 169.
MAX_LENGTH: Final = 256

MONTH_NAMES: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class FieldKind:
    """One of the six fields: its values run from `low` for `size` values; `allowed` says so to people."""

    name: str
    low: int
    size: int
    allowed: str
    names: tuple[str, ...] = ()
    everything: int = field(init=False)
    """The mask of all values."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "everything", ((1 << self.size) - 1) << self.low)

    @property
    def high(self) -> int:
        """The largest number that may be written: 7 is a second way to write Sunday."""
        return self.low + self.size - (0 if self is WEEKDAY else 1)


SECOND: Final = FieldKind("second", 0, 60, "0-59")
MINUTE: Final = FieldKind("minute", 0, 60, "0-59")
HOUR: Final = FieldKind("hour", 0, 24, "0-23")
DAY: Final = FieldKind("day of month", 1, 31, "1-31 or L (the last day)")
MONTH: Final = FieldKind("month", 1, 12, "1-12 or JAN-DEC", MONTH_NAMES)
WEEKDAY: Final = FieldKind("day of week", 0, 7, "0-7 (0 and 7 are Sunday) or SUN-SAT", WEEKDAY_NAMES)
KINDS: Final = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class FieldText(NamedTuple):
    """One field as it stands in the line, with its offset there."""

    kind: FieldKind
    text: str
    position: int

    def refuse(self, problem: str, *, advice: str = "") -> NoReturn:
        """Raise the error of this field; `advice` says what to write when the allowed values alone do not."""
        hint = advice or f"allowed: {self.kind.allowed}"
        raise CronInvalid(f"{self.kind.name}: {problem}", position=self.position, hint=hint)


@dataclass(slots=True)
class FieldMasks:
    """The values of a field: bit n for value n, and beside it the forms that only the two day fields have."""

    values: int = 0
    last_day: bool = False
    last_weekdays: int = 0
    """Bit w: the last such weekday of the month."""
    nth_weekdays: int = 0
    """Bit 7 * (n - 1) + w: the n-th such weekday of the month."""
    hashed: bool = False
    """Some of them were picked by `H`."""
    warnings: tuple[str, ...] = ()


_WORD = re.compile(r"[^ \t]+")
_ITEM = re.compile(r"(\*|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/([0-9]+))?", re.ASCII)
_NTH = re.compile(r"([0-9A-Za-z]+)#([0-9]+)", re.ASCII)
_HASHED = re.compile(r"[Hh](?:\(([0-9A-Za-z]+)-([0-9A-Za-z]+)\))?(?:/([0-9]+))?", re.ASCII)
# `H` alone stays clear of days that only some months have, as in Jenkins.
_HASHED_DAYS: Final = 28


def split_line(text: str) -> list[FieldText]:
    """The fields of a line: five, or six with seconds first."""
    _refuse_length(text)
    if not text.isascii() or not text.isprintable():
        _refuse_characters(text)
    words = text.split()
    if words and words[0][0] == "@":
        return _expand_macro([(match.group(), match.start()) for match in _WORD.finditer(text)])
    count = len(words)
    if not 5 <= count <= 6 or "=" in words[0]:
        _refuse_count(text, [(match.group(), match.start()) for match in _WORD.finditer(text)])
    fields, position = [], 0
    for kind, word in zip(KINDS[-count:], words, strict=True):
        position = text.index(word, position)
        fields.append(FieldText(kind, word, position))
        position += len(word)
    return fields


def _refuse_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise CronInvalid(
            f"the line has {len(text)} characters", position=MAX_LENGTH, hint=f"write at most {MAX_LENGTH}"
        )


def _refuse_characters(text: str) -> None:
    """Refuse characters that no cron line holds: beyond ASCII, or a control character other than a tab."""
    for position, character in enumerate(text):
        if character != "\t" and not (character.isascii() and character.isprintable()):
            raise CronInvalid(
                f"the character {character!a} does not belong in a cron line",
                position=position,
                hint="write one line of plain ASCII",
            )


def _expand_macro(words: list[tuple[str, int]]) -> list[FieldText]:
    """The five fields that `@daily` and the like stand for; every error points at the macro."""
    name, position = words[0][0].lower(), words[0][1]
    if name in MACROS and len(words) == 1:
        return [FieldText(kind, word, position) for kind, word in zip(KINDS[1:], MACROS[name].split(), strict=True)]
    if name in MACROS:
        raise CronInvalid(
            f"{name} stands alone, but {words[1][0][:20]!a} follows",
            position=words[1][1],
            hint="leave that out; a command is given as the job's task",
        )
    if name == "@every":
        _read_every(words)
        problem, hint = "@every is an interval and names no times of the day", "give it as interval_seconds"
    elif name == "@reboot":
        problem, hint = "@reboot has no meaning for a job that any machine may run", "give a time, such as @daily"
    else:
        near = difflib.get_close_matches(name, MACROS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        problem, hint = f"{name[:20]!a} is not known", f"{hint}there are @every 5m, {', '.join(sorted(MACROS))}"
    raise CronInvalid(problem, position=position, hint=hint)


def _refuse_count(text: str, words: list[tuple[str, int]]) -> NoReturn:
    shape = "minute hour day-of-month month day-of-week, or six with seconds first"
    if not words:
        raise CronInvalid("the line is empty", position=0, hint=f"write five fields: {shape}")
    if "=" in words[0][0]:
        name, _, value = words[0][0].partition("=")
        hint = "give the zone in the field `timezone`"
        if name.upper() in ("CRON_TZ", "TZ") and re.fullmatch(r"[\w+/-]{1,64}", value):
            hint += f": {value}, and the line without it"
        raise CronInvalid("variables are not read here", position=words[0][1], hint=hint)
    if len(words) < 5:
        raise CronInvalid(
            f"the line has {len(words)} of five fields", position=len(text.rstrip()), hint=f"write five: {shape}"
        )
    raise CronInvalid(
        f"the line has {len(words)} fields",
        position=words[6][1],
        hint=f"write five: {shape}. Years and commands are not part of it; for an end there is end_at",
    )


# ------------------------------------------------------------------------------------------------------ @every

# From the largest to the smallest, as Go's durations are written.
_UNITS: Final = {
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "ns": Decimal("1e-9"),
}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([A-Za-z]*)", re.ASCII)
_EVERY_MIN: Final = Decimal(1)
_EVERY_MAX: Final = Decimal(10 * 366 * 86_400)
_EVERY_ADVICE: Final = "write numbers with units h, m and s, such as 90s or 1h30m"


def every_seconds(text: str) -> float | None:
    """The seconds of `@every 90s` or `@every 1h30m` (durations as Go writes them), exact to the microsecond.

    None if the text is no `@every`. `CronInvalid` if its duration cannot be read, or is not from a second to ten years.
    """
    words = [(match.group(), match.start()) for match in _WORD.finditer(text[:MAX_LENGTH])]
    if not words or words[0][0].lower() != "@every":
        return None
    _refuse_length(text)
    _refuse_characters(text)
    return _read_every(words)


def _read_every(words: list[tuple[str, int]]) -> float:
    if len(words) != 2:
        word, position = words[2] if len(words) > 2 else words[0]
        problem = f"{_shown(word)} is one word too many" if len(words) > 2 else "it lacks its duration"
        raise CronInvalid(f"@every: {problem}", position=position, hint="write one word after it, such as @every 1h30m")
    word, position = words[1]
    total, at = Decimal(0), 0
    while at < len(word):
        match = _DURATION_PART.match(word, at)
        if match is None:
            raise CronInvalid(f"@every: {_shown(word[at:])} is no duration", position=position + at, hint=_EVERY_ADVICE)
        number, unit = match.groups()
        if unit not in _UNITS:
            known = "d" in unit or "w" in unit
            advice = "write days in hours: 24h, 168h" if known else _EVERY_ADVICE
            problem = f"{_shown(unit)} is no unit" if unit else f"{_shown(number)} has no unit"
            raise CronInvalid(f"@every: {problem}", position=position + match.start(2 if unit else 1), hint=advice)
        total += Decimal(number) * _UNITS[unit]
        at = match.end()
    if not _EVERY_MIN <= total <= _EVERY_MAX:
        raise CronInvalid(
            f"@every: {_shown(word)} is not from 1 second to 10 years",
            position=position,
            hint="write a duration from 1s to 87840h",
        )
    return float(round(total, 6))


# ------------------------------------------------------------------------------------------------------ fields


def read_field(given: FieldText, seed: bytes = b"") -> FieldMasks:
    """The masks of one field, or `CronInvalid`. `seed` picks the values of `H`."""
    kind, text = given.kind, given.text
    if text == "*":
        return FieldMasks(kind.everything)
    masks = FieldMasks()
    for item in text.split(","):
        # Nearly all items are small plain numbers: they skip the expression and its groups.
        if len(item) <= 2 and item.isdigit() and kind.low <= int(item) < kind.low + kind.size:
            masks.values |= 1 << int(item)
        elif item[:1] in ("H", "h"):
            _read_hashed(given, item, masks, seed)
        elif not (kind is DAY or kind is WEEKDAY) or not _read_day_item(given, item, masks):
            _read_item(given, item, masks)
    return masks


def _read_hashed(given: FieldText, item: str, masks: FieldMasks, seed: bytes) -> None:
    """Read `H`, with a range, a step, or both: one value of the range, or every step from one of its first values."""
    kind = given.kind
    match = _HASHED.fullmatch(item)
    if match is None:
        given.refuse(f"{_shown(item)} cannot be read", advice="write H, H/15, H(0-29) or H(0-29)/10")
    first_text, last_text, step_text = match.groups()
    first, count = kind.low, _HASHED_DAYS if kind is DAY else kind.size
    if first_text is not None:
        first, last = _value(given, first_text, item), _value(given, last_text, item)
        count = _width(kind, first, last)
    picked = int.from_bytes(blake2b(seed + bytes((KINDS.index(kind),)), digest_size=8).digest())
    if step_text is None:
        offsets = range(picked % count, count, count)
    else:
        step = _step(given, step_text)
        offsets = range(picked % min(step, count), count, step)
        _warn_of_step(given, item, masks, first=None, whole=first_text is None, step=step, count=count)
    masks.hashed = True
    for offset in offsets:
        masks.values |= 1 << kind.low + (first - kind.low + offset) % kind.size


def _read_day_item(given: FieldText, item: str, masks: FieldMasks) -> bool:
    """Read an item that only the two day fields know: `?`, `L`, `5L`, `5#2`. False if the item is none of them."""
    if item == "?":
        if given.text != "?":
            given.refuse("'?' stands alone", advice="write ? or * alone, or the days")
        masks.values = given.kind.everything
    elif given.kind is DAY and item in ("L", "l"):
        masks.last_day = True
    elif given.kind is WEEKDAY and len(item) > 1 and item[-1] in "Ll" and item[:-1].isalnum():
        masks.last_weekdays |= 1 << _value(given, item[:-1], item) % 7
    elif given.kind is WEEKDAY and (match := _NTH.fullmatch(item)):
        number = int(match.group(2)[:4])
        if not 1 <= number <= 5:
            given.refuse(f"{_shown(item)} asks for occurrence {number} of that day in a month", advice="write #1 to #5")
        masks.nth_weekdays |= 1 << 7 * (number - 1) + _value(given, match.group(1), item) % 7
    else:
        return False
    return True


def _read_item(given: FieldText, item: str, masks: FieldMasks) -> None:
    kind = given.kind
    match = _ITEM.fullmatch(item)
    if match is None:
        _refuse_item(given, item)
    first_text, last_text, step_text = match.groups()
    step = 1 if step_text is None else _step(given, step_text)
    if first_text == "*":
        if last_text is not None:
            _refuse_item(given, item)
        first, count = kind.low, kind.size
    else:
        first = _value(given, first_text, item)
        # As Quartz, FreeBSD and most libraries read it, 5/15 begins at 5 and goes on to the end of the field.
        last = _value(given, last_text, item) if last_text is not None else first
        if last_text is None and step_text is not None:
            last = kind.low + kind.size - 1
            masks.warnings += (f"{kind.name}: {item} is read as {first}-{last}/{step}; other crons differ",)
        count = _width(kind, first, last)
    if step_text is not None:
        _warn_of_step(given, item, masks, first=first, whole=first_text == "*", step=step, count=count)
    for offset in range(0, count, step):
        masks.values |= 1 << kind.low + (first - kind.low + offset) % kind.size


def _width(kind: FieldKind, first: int, last: int) -> int:
    """The number of values of a range; one that ends below its begin goes around."""
    return last - first + 1 if last >= first else (last - first) % kind.size + 1


def _warn_of_step(
    given: FieldText, item: str, masks: FieldMasks, *, first: int | None, whole: bool, step: int, count: int
) -> None:
    """A step that leaves one value, or that jumps where the field begins anew. `first` is None if a seed picks it."""
    kind = given.kind
    if step >= count > 1:
        left, instead = ("one value", "H") if first is None else (f"only {first}", str(first))
        masks.warnings += (f"{kind.name}: a step of {step} leaves {left}; write {instead} instead of {item}",)
    elif whole and kind.size % step:
        end = "the last one before the field begins anew is too short"
        if first is not None:
            end = f"after {kind.low + (kind.size - 1) // step * step} comes {kind.low} again, too soon"
        masks.warnings += (f"{kind.name}: {item} does not divide the field evenly; {end}",)


def _step(given: FieldText, text: str) -> int:
    step = int(text[:9])
    if step == 0:
        given.refuse("a step of 0 never moves on", advice=f"write 1 to {given.kind.size}")
    if step > given.kind.size:
        given.refuse(
            f"a step of {text[:9]} is larger than the field's {given.kind.size} values",
            advice=f"write a step of 1 to {given.kind.size}; for longer use interval_seconds or a coarser field",
        )
    return step


def _value(given: FieldText, text: str, item: str) -> int:
    """A number or a name of the field; `item` is what it stands in."""
    kind = given.kind
    if text.isdigit():
        number = int(text[:9])
        if kind is WEEKDAY and 1970 <= number <= 2199:
            given.refuse(f"{_shown(text)} looks like a year", advice="leave it out; for an end there is end_at")
        if not kind.low <= number <= kind.high:
            last = kind.low + kind.size
            wrapped = (
                f"write {kind.low}, or an allowed value: {kind.allowed}" if kind.low == 0 and number == last else ""
            )
            given.refuse(f"{_shown(text)} is out of range", advice=wrapped)
        return number
    name = text.upper()
    if name not in kind.names:
        _refuse_item(given, item, text)
    return kind.low + kind.names.index(name)


_UNSUPPORTED: Final = (
    (
        r"R([(/-].*)?|.*~.*",
        "random times are not supported",
        "write H for a value that each job keeps, or a fixed value such as 17",
    ),
    (
        r"LW|WL",
        "the last weekday of the month is not supported",
        "write L for the last day, or 5L in the day-of-week field",
    ),
    (
        r"[0-9]*W[0-9]*",
        "the nearest weekday is not supported",
        "write the day itself, such as 15, and let the task check",
    ),
    (r"L-[0-9]+", "days before the last are not supported", "write L for the last day, or a fixed day such as 28"),
)


def _refuse_item(given: FieldText, item: str, part: str = "") -> NoReturn:
    """Say what is wrong with an item that cannot be read, or with a `part` of it, as helpfully as it can be guessed."""
    kind, upper = given.kind, item.upper()
    if not item:
        given.refuse(f"{_shown(given.text)} has an empty item", advice="write values with one comma between them")
    for pattern, problem, advice in _UNSUPPORTED:
        if len(upper) <= 20 and re.fullmatch(pattern, upper):
            given.refuse(f"{_shown(item)}: {problem}", advice=advice)
    if upper == "?":
        given.refuse("'?' belongs to the day of month and the day of week", advice="write * here")
    if kind is WEEKDAY and re.fullmatch(r"L[0-7]?", upper):
        given.refuse(
            f"{_shown(item)} is not read", advice="write 6 for Saturday, or 5L for the last Friday of the month"
        )
    if kind is WEEKDAY and "#" in item:
        given.refuse(f"{_shown(item)} cannot be read", advice="write 5#2 or FRI#2 for the second Friday, #1 to #5")
    if "#" in item or (upper.endswith("L") and upper[:-1].isdigit()):
        given.refuse(f"{_shown(item)} does not belong here", advice="5#2 and 5L are read in the day-of-week field only")
    upper = (part or item).upper()
    # A full name (Monday, January) is the commonest slip of all; then typing errors.
    near = (
        [upper[:3]] if upper[:3] in kind.names else difflib.get_close_matches(upper[:20], kind.names, n=1, cutoff=0.5)
    )
    if near and upper.isalpha():
        given.refuse(f"{_shown(part or item)} is not known", advice=f"did you mean {near[0]}?")
    if kind is WEEKDAY and part in ("", item) and not item[0].isdigit():
        given.refuse(
            f"{_shown(item)} cannot be read",
            advice=f"allowed: {kind.allowed}; a user or a command is not part of a line",
        )
    given.refuse(f"{_shown(part or item)} cannot be read")


def _shown(text: str) -> str:
    """Quote the input without flooding the message."""
    return ascii(text if len(text) <= 24 else text[:21] + "...")
