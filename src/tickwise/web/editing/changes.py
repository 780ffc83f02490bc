"""Two definitions side by side: which parts differ, in words and lines; and three, where two people edit one job.

         base (as the form was opened) ──┬── yours  (typed)          both changed: you decide
                                         └── theirs (as it is now)   one changed: that one is taken

Pure functions.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from tickwise.control.jobs.changes import ChangeResult
from tickwise.domain.zones import zone_named
from tickwise.web import texts
from tickwise.web.editing.fields import FIELDS, TASKS, WORDS
from tickwise.web.editing.form import OBJECTS, PARTS, Body
from tickwise.web.editing.tasks import fields_of, task_texts
from tickwise.web.editing.values import duration_text, moment_text, plain, written

LINES_MAX: Final = 2_000
"""Longer texts are not compared line by line."""
SHOWN_LINES: Final = 60
CONTEXT: Final = 2
FIRES_SHOWN: Final = 10


class DiffLine(NamedTuple):
    """A line of a text: `+` it comes, `-` it goes, a space it stays."""

    sign: str
    text: str


class PartChange(NamedTuple):
    """One part of a job in two versions."""

    part: str
    label: str
    before: str
    after: str
    lines: Sequence[DiffLine] = ()
    """Of a text of several lines, in place of `before` and `after`."""


class Rival(NamedTuple):
    """A part that two people changed, or one of them."""

    part: str
    label: str
    base: str
    theirs: str
    yours: str
    decide: bool
    """Both changed it, each to another value."""


class FireChange(NamedTuple):
    """A time that comes (`+`), goes (`-`) or stays (a space) with a change."""

    sign: str
    instant: float
    local: str


def words(part: str, body: Body) -> str:
    """A part of a job as people read it; empty: it says nothing."""
    value, zone = body[part], zone_named(body["timezone"] or "UTC")
    if value in (None, [], {}):
        return ""
    if part == "when":
        return _when(value, body)
    if part == "task":
        return _task(value)
    if part in OBJECTS:
        return ", ".join(
            f"{FIELDS[f'{part}.{name}'].label if f'{part}.{name}' in FIELDS else name}: "
            f"{written(FIELDS[f'{part}.{name}'], each, zone) if f'{part}.{name}' in FIELDS else each}"
            for name, each in value.items()
        )
    field = FIELDS[part]
    said = written(field, value, zone)
    return dict(field.choices).get(said, said) if field.choices else said


def _when(when: Mapping[str, Any], body: Body) -> str:
    zone = zone_named(body["timezone"] or "UTC")
    match when["schedule_type"]:
        case "CRON":
            return str(when["cron_expression"])
        case "INTERVAL":
            counted = f", counted from {moment_text(when['anchor'], zone)}" if "anchor" in when else ""
            return f"every {duration_text(when['interval_seconds'])}{counted}"
        case "FUTURE":
            return f"once, at {moment_text(when['schedule_time'], zone)}"
        case "IMMEDIATE":
            return "once, now"
    return "only when it is asked for"


def _task(task: Mapping[str, Any]) -> str:
    said = task_texts(dict(task))
    fields = [field for field in fields_of(said["kind"]) if said[field.name]]
    if len(fields) == 1 and len(TASKS[said["kind"]]) == 1:
        return said[fields[0].name]
    return "\n".join(f"{field.label}: {said[field.name]}" for field in fields if said[field.name])


def compared(before: Body, after: Body, parts: Iterable[str] = PARTS) -> list[PartChange]:
    """The parts that differ, in the order of the form."""
    found = []
    for part in parts:
        if before[part] == after[part]:
            continue
        one, other = words(part, before), words(part, after)
        several = "\n" in one or "\n" in other
        lines = difference(one, other) if several and max(one.count("\n"), other.count("\n")) < LINES_MAX else ()
        found.append(PartChange(part, WORDS[part], one, other, lines))
    return found


def difference(before: str, after: str) -> list[DiffLine]:
    """The lines that come and go, with some around them."""
    ours, others = before.splitlines(), after.splitlines()
    found: list[DiffLine] = []
    matcher = difflib.SequenceMatcher(None, ours, others, autojunk=True)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if found:
            found.append(DiffLine("…", ""))
        for tag, begin, end, from_other, to_other in group:
            if tag == "equal":
                found += [DiffLine(" ", line) for line in ours[begin:end]]
                continue
            found += [DiffLine("-", line) for line in ours[begin:end]]
            found += [DiffLine("+", line) for line in others[from_other:to_other]]
    return [*found[:SHOWN_LINES], DiffLine("…", "")] if len(found) > SHOWN_LINES else found


def rivals(base: Body, theirs: Body, yours: Mapping[str, Any]) -> list[Rival]:
    """The parts that changed since the form was opened, by whose hand. `yours`: the parts that you changed."""
    mine = {**base, **yours}
    found = []
    for part in PARTS:
        if theirs[part] == base[part]:
            continue
        decide = part in yours and yours[part] != theirs[part]
        shown = words(part, mine) if part in yours else ""
        found.append(Rival(part, WORDS[part], words(part, base), words(part, theirs), shown, decide))
    return found


def fires_of(result: ChangeResult, timezone: str) -> list[FireChange]:
    """The next times before and after a change, in their order; none if all of them stay."""
    if not result.removed and not result.added:
        return []
    zone = zone_named(timezone)
    signs = dict.fromkeys(result.kept, " ") | dict.fromkeys(result.removed, "-") | dict.fromkeys(result.added, "+")
    return [
        FireChange(signs[instant], instant, f"{texts.utc(instant).astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}")
        for instant in sorted(signs)
    ][:FIRES_SHOWN]


def digest(changed: Mapping[str, Any], version: int) -> str:
    """Names a change of one version: what is saved is what was shown."""
    return sha256(msgspec.json.encode([version, plain(dict(changed))])).hexdigest()
