"""A Celery beat schedule as jobs: a Python module (read, never run) or the same as JSON.

    "nightly": {"task": "shop.nightly", "schedule": crontab(hour=3, minute=0), "options": {"queue": "slow"}}
         └ key and name  └ function             └ schedule, in the settings' `timezone`      └ queue, priority, timeout

Beat sends a task whether or not the one before still runs (`overlap: allow`), makes up for what it missed with one run,
and leaves retries to the task. The task becomes the registered function of the same name; what Celery passes as
arguments it gets as its payload.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NoReturn

from tickwise.importers.celery_crontab import CRONTAB_FIELDS, Crontab, Interval, crontab_of_line, schedule_fields
from tickwise.importers.celery_module import CeleryEntry, Module, shown_source
from tickwise.importers.report import ImportEntry, ImportReport, refused
from tickwise.importers.translation import (
    MAX_ENTRIES,
    MAX_NAME_CHARACTERS,
    MAX_TIMEOUT_SECONDS,
    UTC_NAME,
    Translation,
    Untranslatable,
    decoded,
    given_up,
    key_of,
    known_zone,
    listed,
    name_of,
    translated,
    unique,
)

_ENTRY: Final = frozenset({"task", "schedule", "args", "kwargs", "options", "relative", "enabled"})
_SETTINGS_OF_JSON: Final = ("beat_schedule", "CELERYBEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE")
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_MAX_NESTING: Final = 50
_PERIOD_SECONDS: Final = {
    "days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6,
}  # fmt: skip

_Zone = Callable[[list[str]], str]
"""The zone of the schedule; what must be said of it goes to the changes."""


def read_celery(text: str | bytes, *, source: str, timezone: str | None = None) -> ImportReport:
    """Every entry of a beat schedule as an entry.

    `source` is what the file is called. `timezone` is the machine's, for settings that mean that (`enable_utc=False`
    without a `timezone`) or say it in a way that cannot be read.
    """
    try:
        whole = decoded(text)
        is_json = source.endswith(".json") or whole.lstrip()[:1] in ("{", "[")
        found = list(_of_json(whole, timezone) if is_json else _of_module(whole, timezone))
    except Untranslatable as refusal:
        return ImportReport((given_up(1, source, refusal),))
    if not found:
        reason = 'there is no beat schedule in it; write beat_schedule = {"name": {"task": …, "schedule": …}}'
        return ImportReport((refused(1, source, reason=reason),))
    return ImportReport(unique(found))


def _bounded(entries: int, line: int, source: str) -> ImportEntry | None:
    if entries < MAX_ENTRIES:
        return None
    return refused(line, source, reason=f"only {MAX_ENTRIES} entries are read at once; import the rest by itself")


# -------------------------------------------------------------------------------------------------- Python and JSON


def _of_module(text: str, timezone: str | None) -> Iterator[ImportEntry]:
    module = Module(text)

    def zone(changes: list[str]) -> str:
        try:
            said, problem = module.timezone(), "the settings mean the machine's own time zone"
        except Untranslatable as refusal:
            said, problem = None, str(refusal)
        return _zone(said, problem, timezone, changes)

    def translate(found: CeleryEntry) -> Translation:
        if found.failure is not None:
            raise found.failure
        value = module.value(found.value)
        return _translate(found.name, value if isinstance(value, dict) else {}, zone)

    for number, found in enumerate(module.entries()):
        text_of_entry = f"{found.name}: {shown_source(found.value)}"
        if (stop := _bounded(number, found.line, text_of_entry)) is not None:
            yield stop
            return
        yield translated(found.line, text_of_entry, partial(translate, found))


def _of_json(text: str, timezone: str | None) -> Iterator[ImportEntry]:
    try:
        whole = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as failure:
        raise Untranslatable(f"it cannot be read as JSON: {str(failure)[:200] or 'it is nested too deeply'}") from None
    if not isinstance(whole, dict):
        raise Untranslatable('it is no JSON object; write {"name": {"task": "module.function", "schedule": 60}}')
    settings = whole if any(isinstance(whole.get(name), dict) for name in _SETTINGS_OF_JSON) else {}
    said = settings.get("timezone", UTC_NAME if settings.get("enable_utc", True) else None)
    zone = partial(_zone, said, "the settings mean the machine's own time zone", timezone)
    for number, (name, entry, line) in enumerate(_json_entries(text, in_settings=bool(settings))):
        text_of_entry = f"{name}: {json.dumps(entry, ensure_ascii=False)[:500]}"
        if (stop := _bounded(number, line, text_of_entry)) is not None:
            yield stop
            return
        yield translated(line, text_of_entry, partial(_translate, name, entry if isinstance(entry, dict) else {}, zone))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _json_entries(text: str, *, in_settings: bool) -> Iterator[tuple[str, Any, int]]:
    """Name, value and line of each member of the schedule. The text was found to be JSON before."""
    for name, value, line, place in _members(text, text.index("{")):
        if not in_settings:
            yield name, value, line
        elif name in _SETTINGS_OF_JSON and isinstance(value, dict):
            for inner, entry, inner_line, _ in _members(text, place):
                yield inner, entry, inner_line


def _members(text: str, position: int) -> Iterator[tuple[str, Any, int, int]]:
    """Name, value, line of the name and place of the value, of each member of the object that begins at `position`."""
    decoder = json.JSONDecoder()
    line, seen = text.count("\n", 0, position) + 1, position
    position = _skip(text, position + 1)
    while text[position] != "}":
        line, seen = line + text.count("\n", seen, position), position
        name, position = decoder.raw_decode(text, position)
        place = _skip(text, _skip(text, position) + 1)
        value, position = decoder.raw_decode(text, place)
        yield name, value, line, place
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    """The next place that is not blank."""
    while text[position] in " \t\r\n":
        position += 1
    return position


# ------------------------------------------------------------------------------------------------------- one entry


def _zone(said: object, problem: str, timezone: str | None, changes: list[str]) -> str:
    if isinstance(said, str):
        return known_zone(said, "the setting `timezone`")
    if timezone is None:
        changes.append(
            f"the times are read as UTC, because {problem}; give the time zone to the import if it is another"
        )
    return known_zone(timezone or UTC_NAME, "the time zone")


def _translate(name: str, entry: Mapping[str, Any], zone: _Zone) -> Translation:
    task = entry.get("task")
    if not isinstance(task, str) or not task.strip() or len(task) > MAX_NAME_CHARACTERS:
        raise Untranslatable('the entry names no task; write {"task": "module.function", "schedule": …}')
    if entry.get("enabled") is False:
        raise Untranslatable("the entry is not enabled; enable it, or leave it out")
    changes: list[str] = []
    schedule = _schedule(entry.get("schedule"))
    if isinstance(schedule, Interval) and entry.get("relative"):
        schedule = Interval(schedule.seconds, relative=True)
    timezone = zone(changes) if isinstance(schedule, Crontab) else UTC_NAME
    if not name.strip():
        raise Untranslatable("the entry has no name; give it one, so that importing it again finds the same job")
    job: dict[str, Any] = {
        "name": name_of(name),
        "key": key_of("celery", name),
        **schedule_fields(schedule, timezone, changes),
        "misfire": {"grace_seconds": 60, "mode": "latest"},
        "overlap": "allow",
        "max_retries": 0,
        "task": {"kind": "function", "name": task},
        **_payload(entry, changes),
        **_options(entry.get("options"), changes),
    }
    left_out = [field for field in entry if field not in _ENTRY]
    if left_out:
        changes.append(f"left out, because nothing here means the same: {listed(left_out)}")
    return Translation(job, changes)


def _schedule(said: Any) -> Crontab | Interval:
    """The times that a module or a JSON value gives."""
    if isinstance(said, Crontab | Interval):
        return said
    if isinstance(said, int | float) and not isinstance(said, bool):
        return Interval(_seconds(said))
    if isinstance(said, str):
        return crontab_of_line(said)
    if isinstance(said, Mapping):
        fields = {name: value for name, value in said.items() if name not in ("__type__", "type", "timezone")}
        if fields and all(name in CRONTAB_FIELDS for name in fields):
            return Crontab(**fields)
        if "every" in fields:
            unit = _PERIOD_SECONDS.get(str(fields.get("period", "seconds")))
            if unit is not None:
                return Interval(_seconds(fields["every"]) * unit, bool(fields.get("relative")))
        if fields and all(name in _PERIOD_SECONDS for name in fields):
            return Interval(math.fsum(_seconds(value) * _PERIOD_SECONDS[name] for name, value in fields.items()))
    raise Untranslatable(
        "the schedule cannot be read; write seconds, crontab(minute=0, hour=3) or timedelta(minutes=5), and in JSON "
        '60, {"minute": 0, "hour": 3} or {"every": 60}'
    )


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise Untranslatable("the seconds of the schedule are no number; write one such as 60 or 30.0")
    return float(value)


def _payload(entry: Mapping[str, Any], changes: list[str]) -> dict[str, Any]:
    args, named = entry.get("args") or [], entry.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(named, dict):
        raise Untranslatable("args is a list and kwargs a mapping; write [1, 2] and {'name': 1}")
    if not args and not named:
        return {}
    _check_json(args, 0)
    _check_json(named, 0)
    payload = {"args": args, "kwargs": named} if args else named
    shape = "an object with `args` and `kwargs`" if args else "the object of its keyword arguments"
    changes.append(f"the function gets one payload, {shape}; Celery passes the arguments one by one")
    return {"payload": payload}


def _check_json(value: Any, depth: int) -> None:
    """Refuse values that JSON cannot hold."""
    if depth > _MAX_NESTING:
        raise Untranslatable(f"an argument is nested in more than {_MAX_NESTING} levels; flatten it")
    if isinstance(value, dict):
        for member in value.values():
            _check_json(member, depth + 1)
    elif isinstance(value, list):
        for member in value:
            _check_json(member, depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise Untranslatable("an argument is no finite number; write one that JSON can say")
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise Untranslatable("an argument is a number of more than 64 bits; write it as a text")
    elif value is not None and not isinstance(value, str | int):
        raise Untranslatable("an argument is neither number, text, list nor mapping; write it as one of these")


def _options(said: Any, changes: list[str]) -> dict[str, Any]:
    """Queue, priority and time limit; Celery's other options are about its messages."""
    options = said if isinstance(said, dict) else {}
    found: dict[str, Any] = {}
    left_out = [
        name for name in options if name not in ("queue", "priority", "time_limit", "soft_time_limit", "expires")
    ]
    queue = options.get("queue")
    if isinstance(queue, str) and _QUEUE.fullmatch(queue):
        found["queue"] = queue
    elif queue is not None:
        left_out.append("queue")
    priority = options.get("priority")
    if isinstance(priority, int) and not isinstance(priority, bool) and 0 <= priority <= 9:
        found["priority"] = priority
        changes.append("priority: 9 goes first, as with RabbitMQ; with Redis 0 does")
    elif priority is not None:
        left_out.append("priority")
    limit = options.get("time_limit", options.get("soft_time_limit"))
    if isinstance(limit, int | float) and not isinstance(limit, bool) and 0 < limit <= MAX_TIMEOUT_SECONDS:
        found["timeout_seconds"] = limit
        if "soft_time_limit" in options:
            changes.append("soft_time_limit: the function is not asked to end early, it is stopped at the time limit")
    if options.get("expires") is not None:
        changes.append("expires: a run that waited for longer than that still runs; Celery throws it away")
    if left_out:
        changes.append(f"options left out, because nothing here means the same: {listed(left_out)}")
    return found
