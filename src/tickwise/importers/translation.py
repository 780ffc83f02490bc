"""Shared by importers: numbers as cron fields, days that must suit both, programs as shell text, and giving up.

A source is translated entry by entry. An entry that a job body cannot express raises `Untranslatable`, whose text
becomes the entry's `reason`; `translated` is the one place that catches it. Everything here is pure and bounded:
a text longer than a task may be is refused while it is built, for any repeats or nesting of the source."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tickwise.domain.cron import expression as cron
from tickwise.domain.errors import Invalid
from tickwise.domain.zones import zone_named
from tickwise.importers.report import ImportEntry, imported, refused, shown

MAX_SOURCE_CHARACTERS: Final = 4 << 20
"""About 2,000 CronJobs as a cluster prints them, which take about two seconds to read."""
MAX_ENTRIES: Final = 2_000
MAX_COMMAND_CHARACTERS: Final = 100_000
"""The longest command of a shell task: Linux refuses a single argument above 128 kB."""
MAX_ARGUMENTS: Final = 1_000
MAX_NAME_CHARACTERS: Final = 200
MAX_RETRIES: Final = 1_000
MAX_JITTER_SECONDS: Final = 86_400
MAX_GRACE_SECONDS: Final = 366 * 86_400
MAX_TIMEOUT_SECONDS: Final = 366 * 86_400
MAX_INTERVAL_SECONDS: Final = 10 * 366 * 86_400

UTC_NAME: Final = "UTC"
ALL_WEEKDAYS: Final = frozenset(range(7))
ALL_DAYS: Final = frozenset(range(1, 32))

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""A name that a shell can export."""

_NAMES_SHOWN: Final = 12


class Untranslatable(Exception):
    """There is no job that means this. The text says why, and what to write or do instead."""


class Translation(NamedTuple):
    """A job body, and the ways in which it means something else than the source."""

    job: Mapping[str, Any]
    changes: Sequence[str]
    notes: Sequence[str] = ()
    recipients: Sequence[str] = ()


def translated(line: int, text: str, translate: Callable[[], Translation]) -> ImportEntry:
    """The entry that `translate` comes to: imported, or refused with what it raised."""
    try:
        job, changes, notes, recipients = translate()
        _check_texts(job)
        if not str(job["name"]).isprintable():
            job = {**job, "name": " ".join(shown(job["name"]).split())}  # one line, as the server wants it
    except Untranslatable as refusal:
        return given_up(line, text, refusal)
    entry = imported(line, text, job=job, changes=map(shown, changes), notes=map(shown, notes))
    return replace(entry, recipients=tuple(recipients))


def given_up(line: int, text: str, refusal: Untranslatable) -> ImportEntry:
    """The entry that is refused for this reason."""
    return refused(line, text, reason=shown(str(refusal)))


def unique(entries: Iterable[ImportEntry]) -> tuple[ImportEntry, ...]:
    """The entries, those refused whose key another one has already: one import holds each key once."""
    lines: dict[str, int] = {}
    kept: list[ImportEntry] = []
    for entry in entries:
        if entry.job is not None and lines.setdefault(entry.job["key"], len(kept)) != len(kept):
            first = kept[lines[entry.job["key"]]]
            reason = (
                f"it has the name of {shown(first.text)[:100]!a} in line {first.line}; leave out or rename one of them"
            )
            kept.append(refused(entry.line, entry.text, reason=reason))
        else:
            kept.append(entry)
    return tuple(kept)


def decoded(text: str | bytes) -> str:
    """The source as text. Raises `Untranslatable` if it is too long or no UTF-8."""
    if len(text) > MAX_SOURCE_CHARACTERS:
        raise Untranslatable(
            f"the file has {len(text)} bytes, {MAX_SOURCE_CHARACTERS} are read at most; split it into several files"
        )
    if isinstance(text, str):
        return text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = text.count(b"\n", 0, failure.start) + 1
        raise Untranslatable(f"the file is no UTF-8 (line {line}); save it as UTF-8") from None


def _check_texts(value: Any) -> None:
    """Refuse text that no store keeps and no program can be given."""
    if isinstance(value, str):
        if "\0" in value:
            raise Untranslatable("it contains the character U+0000, which no program can be given; leave it out")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise Untranslatable("it contains half a character (a lone surrogate); write the whole character")
    elif isinstance(value, Mapping):
        for name, member in value.items():
            _check_texts(name)
            _check_texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            _check_texts(member)


# ------------------------------------------------------------------------------------------------ names and zones


def name_of(text: str) -> str:
    """A job's name: the source's own, cut to what a name may have."""
    return text[:MAX_NAME_CHARACTERS]


def key_of(system: str, *names: str) -> str:
    """A key that stays the same when the source is read again, and is nobody else's: `k8s:shop:backup`.

    A key stands in paths, so it has no slash; names that have one, or are too long, are told apart by a digest.
    """
    plain = ":".join((system, *names))
    if len(plain) <= MAX_NAME_CHARACTERS and "/" not in plain:
        return plain
    digest = hashlib.sha256("\0".join(names).encode(errors="replace")).hexdigest()[:16]
    return f"{plain.replace('/', '.')[: MAX_NAME_CHARACTERS - 17]}:{digest}"


def known_zone(name: str, field: str) -> str:
    """The name of a time zone. Raises `Untranslatable` if we do not know it; `field` is where it stands."""
    if name.upper() == UTC_NAME:
        return UTC_NAME
    try:
        zone_named(name)
    except Invalid as refusal:
        raise Untranslatable(f"{field}: {refusal.detail}") from None
    return name


def listed(names: Iterable[str]) -> str:
    """Names for a sentence, in order, each once, the first dozen of them."""
    unique = list(dict.fromkeys(name if len(name) <= 60 else name[:59] + "…" for name in names))
    more = f" and {len(unique) - _NAMES_SHOWN} more" if len(unique) > _NAMES_SHOWN else ""
    return ", ".join(unique[:_NAMES_SHOWN]) + more


# ---------------------------------------------------------------------------------------------------- cron fields


def field_text(values: Collection[int], size: int) -> str:
    """A set of values of a field that has `size` of them, in cron's words, without a step over `*`.

    `0-4,9`, `0-56/7`: only a whole field begins with `*`, which in the two day fields has a meaning of its own.
    """
    ordered = sorted(values)
    if not ordered:
        raise Untranslatable("it names no time at all")
    if len(ordered) == size:
        return "*"
    steps = {later - earlier for earlier, later in pairwise(ordered)}
    if len(ordered) > 2 and len(steps) == 1 and (step := steps.pop()) > 1:
        return f"{ordered[0]}-{ordered[-1]}/{step}"
    items, begin = [], ordered[0]
    for value, following in zip(ordered, [*ordered[1:], None], strict=True):
        if following != value + 1:
            items.append(str(value) if value == begin else f"{begin}-{value}")
            begin = following if following is not None else value
    return ",".join(items)


def stepped_text(values: Collection[int], low: int, size: int) -> str | None:
    """The values as `*` or `*/n`; None if it is no such set, or a single value."""
    for step in range(1, size):
        if set(values) == set(range(low, low + size, step)):
            return "*" if step == 1 else f"*/{step}"
    return None


def time_text(values: Collection[int], size: int) -> str:
    """Seconds, minutes or hours."""
    return stepped_text(values, 0, size) or field_text(values, size)


def days_suiting_both(days: Collection[int], weekdays: Collection[int]) -> tuple[str, str]:
    """The cron fields (day of month, day of week) for days that suit both sets.

    Cron takes days that suit either, unless a field begins with `*`. So where both are narrowed it is said with a
    step over `*`, or as the nth such weekday of a month. Raises `Untranslatable` where none of this can say it.
    """
    if len(weekdays) == 7:
        return field_text(days, 31), "*"
    if len(days) == 31:
        return "*", field_text(weekdays, 7)
    if (stepped := stepped_text(days, 1, 31)) is not None:
        return stepped, field_text(weekdays, 7)
    if (stepped := stepped_text(weekdays, 0, 7)) is not None:
        return field_text(days, 31), stepped
    weeks = [number for number in range(1, 6) if set(range(7 * number - 6, min(7 * number, 31) + 1)) <= set(days)]
    if len(days) == sum(7 if number < 5 else 3 for number in weeks):
        return "*", ",".join(f"{weekday}#{number}" for number in weeks for weekday in sorted(weekdays))
    raise Untranslatable(
        "a day must suit both its date and its weekday, which one cron line can say only for whole weeks of a month; "
        "give one of them, and let the task check the other, or keep the dates in a calendar that the job includes"
    )


def checked_line(expression: str) -> str:
    """The cron line, found readable. Raises `Untranslatable` with what the product would say."""
    try:
        cron.parse(expression)
    except Invalid as refusal:
        raise Untranslatable(refusal.detail) from None
    return expression


# ------------------------------------------------------------------------------------------------------ shell text


class Reference(NamedTuple):
    """A place where the value of a variable belongs that is known only when the task runs."""

    name: str
    splits: bool = False
    """It becomes as many words as its value has."""


Words = tuple[str | Reference, ...]
"""One argument: known text and references, in order."""


def joined(parts: Iterable[str | Reference]) -> Words:
    """The parts of an argument, with texts that follow each other made one."""
    found: list[str | Reference] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        else:
            found += ["".join(texts), part]
            texts.clear()
    found.append("".join(texts))
    return tuple(part for part in found if part != "") or ("",)


def plain(words: Words) -> str | None:
    """The argument, if all of it is known."""
    return "".join(map(str, words)) if all(isinstance(part, str) for part in words) else None


def quoted(words: Words) -> str:
    """The argument as /bin/sh reads it."""
    parts = []
    for part in words:
        if isinstance(part, str):
            parts.append(shlex.quote(part) if part else "")
        else:
            parts.append(f"${{{part.name}}}" if part.splits else f'"${{{part.name}}}"')
    return "".join(parts) or "''"


def command_line(arguments: Sequence[Words]) -> str:
    """A program and its arguments as one line for /bin/sh."""
    return " ".join(map(quoted, arguments))


def exports(values: Mapping[str, Words]) -> list[str]:
    """Lines that set variables for the programs after them."""
    return [f"export {name}={quoted(value)}" for name, value in values.items()]


def check_arguments(arguments: Sequence[Words]) -> None:
    """Refuse more than a task takes."""
    if len(arguments) > MAX_ARGUMENTS:
        raise Untranslatable(
            f"the command has {len(arguments)} arguments, {MAX_ARGUMENTS} are the most; put it into a script"
        )
    if sum(len(str(part)) for words in arguments for part in words) > MAX_COMMAND_CHARACTERS:
        raise Untranslatable(
            f"the command has more than {MAX_COMMAND_CHARACTERS} characters; put it into a script and run that"
        )
    if not quoted(arguments[0]).strip("'"):
        raise Untranslatable("the command is empty; write the program to run")


def shell_task(lines: Sequence[str]) -> dict[str, Any]:
    """A task of the kind `shell` that runs these lines."""
    command = "\n".join(lines)
    if len(command) > MAX_COMMAND_CHARACTERS:
        raise Untranslatable(
            f"the command has more than {MAX_COMMAND_CHARACTERS} characters; put it into a script and run that"
        )
    return {"kind": "shell", "command": command}


def program_task(arguments: Sequence[Words]) -> dict[str, Any] | None:
    """A task of the kind `shell` that starts a program without a shell; None if a reference needs one."""
    known = [plain(words) for words in arguments]
    argv = [argument for argument in known if argument is not None]
    return {"kind": "shell", "argv": argv} if len(argv) == len(known) else None
