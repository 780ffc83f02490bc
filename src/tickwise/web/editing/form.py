"""The form of a job: from typed texts to a definition with a fault for each text that says nothing, and back.

    texts ──read──► Typed: body + faults          JobRow ──body_of_job──► body ──texts_of──► texts

A body has each part of a job under its own name, in one form, so two bodies can be compared part by part. Two parts
hold several fields: `when` (type and time of the schedule) and `task` (the task, or the id of a stored one).

Invariant: what the form cannot write exactly is never changed by it (`kept`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from tickwise.documents.definition import (
    ClockChanges,
    Concurrency,
    Definition,
    Limits,
    MisfirePolicy,
    Rate,
    Retry,
)
from tickwise.domain.errors import Invalid
from tickwise.domain.masking import masked
from tickwise.domain.schedule import ScheduleType
from tickwise.domain.zones import zone_named
from tickwise.ports.store import JobRow
from tickwise.web import texts
from tickwise.web.editing.fields import DEFAULTS, FIELDS, VALUE_TYPES
from tickwise.web.editing.http_tasks import PROOF, PROOF_FIELDS
from tickwise.web.editing.tasks import task_of, task_texts
from tickwise.web.editing.values import explained, parsed, plain, written

Body = dict[str, Any]
Texts = Mapping[str, str]

OBJECTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "dst": ClockChanges, "misfire": MisfirePolicy, "retry": Retry, "limits": Limits, "concurrency": Concurrency,
    "rate": Rate,
}  # fmt: skip
"""Parts with inputs of their own for each member."""
RECURRING: Final = (ScheduleType.CRON, ScheduleType.INTERVAL)
WHEN_FIELDS: Final = ("schedule_time", "cron_expression", "interval_seconds", "anchor")
_WHEN: Final = msgspec.defstruct(
    "When",
    [("schedule_type", ScheduleType), *((name, VALUE_TYPES[FIELDS[name].input] | None, None) for name in WHEN_FIELDS)],
    forbid_unknown_fields=True,
)
"""The part `when` of a body."""
_TIME_OF: Final = {"CRON": "cron_expression", "INTERVAL": "interval_seconds", "FUTURE": "schedule_time"}
PLAIN: Final = tuple(
    name for name in FIELDS if "." not in name and name not in ("task", "taskId", *WHEN_FIELDS)
)  # fmt: skip
"""Parts with one input."""
PARTS: Final = ("name", "key", "owner", "description", "labels", "task", "payload", "when", *(
    name for name in PLAIN if name not in ("name", "description", "labels", "key", "owner", "payload")
), *OBJECTS)  # fmt: skip
"""All parts, in the order of the form."""


@dataclass(slots=True)
class Typed:
    """A form as it was sent."""

    texts: dict[str, str]
    body: Body = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    """By input, in the order of the form; under the empty name what no input is at fault for."""

    def blame(self, pointer: str | None, detail: str) -> None:
        """Note a refusal of control at the input that it is about."""
        self.faults.setdefault(input_of(pointer, self.texts), detail)


def read(form: Texts) -> Typed:
    """A form, read."""
    said = {name: value.replace("\r\n", "\n").replace("\r", "\n") for name, value in form.items()}
    typed = Typed(said)
    body, faults = typed.body, typed.faults
    zone = _zone(said, faults)

    def part(name: str, read_it: Callable[[], Any]) -> Any:
        try:
            return read_it()
        except Invalid as fault:
            faults.setdefault(input_of(fault.pointer, said) or name, fault.detail)
            return None

    for name in PLAIN:
        value = part(name, lambda: parsed(FIELDS[name], said.get(name, ""), zone))  # noqa: B023 - called within the turn
        body[name] = DEFAULTS.get(name) if value is None else value
    if body["name"] is None and "name" not in faults:
        faults["name"] = "a job needs a name"
    body["task"] = part("kind", lambda: task_of(said))
    body["when"] = part("schedule_type", lambda: _when(said, zone))
    for name, struct in OBJECTS.items():
        body[name] = part(name, lambda: _object(name, struct, said, zone))  # noqa: B023 - called within the turn
    _leave_out(body)
    return typed


def _leave_out(body: Body) -> None:
    """Fields that mean nothing to a schedule of this type."""
    kind = (body["when"] or {}).get("schedule_type")
    if kind not in RECURRING:
        body.update(start_at=None, end_at=None, max_runs=None)
    if kind != ScheduleType.CRON:
        body["dst"] = None
    if kind in (ScheduleType.IMMEDIATE, ScheduleType.ON_DEMAND):
        body.update(jitter_seconds=None, window_seconds=None)


def _zone(said: Texts, faults: dict[str, str]) -> ZoneInfo:
    try:
        return zone_named(said.get("timezone", "").strip() or "UTC")
    except Invalid as fault:
        faults["timezone"] = fault.detail
        return zone_named("UTC")


def _when(said: Texts, zone: ZoneInfo) -> dict[str, Any]:
    """The type of the schedule with its time."""
    try:
        kind = ScheduleType(said.get("schedule_type", ""))
    except ValueError:
        raise Invalid("choose when it runs", pointer="/schedule_type") from None
    needed = {
        ScheduleType.CRON: "cron_expression", ScheduleType.INTERVAL: "interval_seconds",
        ScheduleType.FUTURE: "schedule_time",
    }.get(kind)  # fmt: skip
    found: dict[str, Any] = {"schedule_type": kind.value}
    names = [] if needed is None else [needed, *(["anchor"] if kind is ScheduleType.INTERVAL else [])]
    for name in names:
        try:
            value = parsed(FIELDS[name], said.get(name, ""), zone)
        except Invalid as fault:
            fault.pointer = f"/{name}"
            raise
        if value is None and name == needed:
            raise Invalid("this is missing", pointer=f"/{name}")
        if value is not None:
            found[name] = value
    return found


def _object(name: str, struct: type[msgspec.Struct], said: Texts, zone: ZoneInfo) -> dict[str, Any] | None:
    """A part with several inputs, without what is as usual. None: nothing is said."""
    found = {}
    for each in struct.__struct_fields__:
        input_name = f"{name}.{each}"
        if input_name in FIELDS:
            try:
                value = parsed(FIELDS[input_name], said.get(input_name, ""), zone)
            except Invalid as fault:
                fault.pointer = f"/{name}/{each}"
                raise
            if value not in (None, [], {}):
                found[each] = value
    if not found:
        return None
    try:
        return plain(msgspec.convert(found, struct)) or None
    except msgspec.ValidationError as error:
        raise explained(error, f"/{name}") from None


def input_of(pointer: str | None, said: Texts) -> str:
    """The input that a pointer of control leads to; empty: none."""
    steps = [step for step in (pointer or "").split("/") if step]
    steps = {"cron": ["cron_expression"], "every": ["interval_seconds"], "at": ["schedule_time"]}.get(
        "/".join(steps), steps
    )
    if steps[:1] == ["task"] and said.get("kind") == "json":
        return "task"
    if steps[:1] == ["task"] and len(steps) > 1 and steps[1] in PROOF_FIELDS:
        return PROOF
    for count in range(len(steps), 0, -1):
        name = ".".join(steps[:count])
        if name in FIELDS and name != "task":
            return name
    if steps and steps[0] in OBJECTS:
        return next(name for name in FIELDS if name.startswith(f"{steps[0]}."))
    return {"task": "kind", "schedule_type": "schedule_type"}.get(steps[0], "") if steps else ""


# ------------------------------------------------------------------------------------------ back to texts


def body_of_job(row: JobRow, definition: Definition) -> Body:
    """A job as a body, without its secrets."""
    body: Body = {name: _stored(getattr(definition, name)) for name in PLAIN if hasattr(definition, name)}
    for name in ("start_at", "end_at"):
        body[name] = _instant(getattr(definition, name))
    body.update(
        name=row.name,
        key=row.key,
        owner=row.owner,
        labels=dict(row.labels),
        queue=row.lane.queue,
        priority=row.lane.priority,
        # Labels with a colon are Tickwise's own.
        requires=[label for label in row.lane.requires if ":" not in label],
        calendars=plain(list(definition.calendars)),
        then=[str(job) for job in definition.then],
        on_failure=[str(job) for job in definition.on_failure],
        notify=list(definition.notify),
        allow_network=plain(definition.allow_network) or None,
        resources=dict(definition.resources),
        payload=msgspec.json.decode(bytes(definition.payload)),
        jitter_seconds=definition.jitter_seconds or None,
        window_seconds=definition.window_seconds or None,
    )
    when = {
        "schedule_type": definition.schedule_type.value,
        "schedule_time": _instant(definition.schedule_time),
        "cron_expression": definition.cron_expression,
        "interval_seconds": definition.interval_seconds,
        "anchor": _instant(definition.anchor),
    }
    body["when"] = {name: value for name, value in when.items() if value is not None}
    if definition.task_id is not None:
        body["task"] = {"taskId": definition.task_id}
    else:
        body["task"] = {"task": dict(masked(msgspec.json.decode(bytes(definition.task))))}
    for name in OBJECTS:
        value = getattr(definition, name)
        body[name] = (plain(value) or None) if value is not None else None
    return {name: body[name] for name in PARTS}


def body_of_json(text: str) -> Body | None:
    """The body that a form carries in a hidden field; None: it is none of ours. A visitor may send anything there."""
    try:
        body = msgspec.json.decode(text)
        if not isinstance(body, dict) or body.keys() != frozenset(PARTS):
            return None
        for name in PLAIN:
            msgspec.convert(body[name], VALUE_TYPES[FIELDS[name].input] | None)
        when = msgspec.to_builtins(msgspec.convert(body["when"], _WHEN))
        if when.get(_TIME_OF.get(when["schedule_type"], "schedule_type")) is None:
            return None
        for name, struct in OBJECTS.items():
            msgspec.convert(body[name], struct | None)
        msgspec.convert(body["task"], dict[str, Any] | None)
        texts_of(body)
    except (ValueError, OverflowError, RecursionError, Invalid):
        return None
    return {part: body[part] for part in PARTS}


def _stored(value: Any) -> Any:
    return plain(value) if isinstance(value, msgspec.Struct | str) else value


def _instant(instant: float | None) -> str | None:
    return None if instant is None else texts.utc(instant).isoformat()


def texts_of(body: Body) -> dict[str, str]:
    """The texts of all inputs for a body."""
    zone = zone_named(body["timezone"] or "UTC")
    found = {name: written(FIELDS[name], body[name], zone) for name in PLAIN}
    when = body["when"] or {}
    found["schedule_type"] = when.get("schedule_type", "")
    found |= {name: written(FIELDS[name], when.get(name), zone) for name in WHEN_FIELDS}
    for part in OBJECTS:
        for name, said in FIELDS.items():
            if name.startswith(f"{part}."):
                found[name] = written(said, (body[part] or {}).get(name.partition(".")[2]), zone)
    return found | task_texts(body["task"] or {})


def kept(base: Body) -> frozenset[str]:
    """The parts of a job that the form cannot write exactly: it leaves them as they are. A page spells out what cannot
    be seen, and an input of one line takes no second one, so neither would come back."""
    said = texts_of(base)
    again = read(said)
    unseen = {part_of(name) for name, text in said.items() if texts.visible(text) != text or _is_cut(name, text)}
    return frozenset(name for name in PARTS if name in unseen or again.body.get(name) != base[name])


def _is_cut(name: str, text: str) -> bool:
    return "\n" in text and name in FIELDS and not FIELDS[name].is_area


def part_of(name: str) -> str:
    """The part that an input belongs to."""
    first = name.partition(".")[0]
    if first in ("schedule_type", *WHEN_FIELDS):
        return "when"
    return "task" if first in ("task", "taskId", "kind") else first


def changes(base: Body, typed: Body) -> dict[str, Any]:
    """The parts that were changed, with their new values."""
    left = kept(base)
    return {name: typed[name] for name in PARTS if name not in left and typed[name] != base[name]}


# ------------------------------------------------------------------------------------------ as control takes it


def as_created(body: Body, job_id: str) -> bytes:
    """The JSON body of a create: what says nothing is left out."""
    said = {name: body[name] for name in PARTS if body[name] not in (None, DEFAULTS.get(name))}
    return msgspec.json.encode({**_spread(said), "job_id": job_id})


def as_changed(body: Body, changed: Mapping[str, Any]) -> bytes:
    """The JSON body of a change. A new schedule replaces the old one as a whole: it comes with all of its details."""
    said = dict(changed)
    if "when" in said:
        details = ("timezone", "start_at", "end_at", "max_runs", "dst")
        said = {**{name: body[name] for name in details if body[name] is not None}, **said}
        said = {name: value for name, value in said.items() if name not in details or value is not None}
    return msgspec.json.encode(_spread(said))


def as_previewed(body: Body, known: Sequence[str]) -> dict[str, Any]:
    """The fields of a preview."""
    said = {name: value for name, value in body.items() if value not in (None, DEFAULTS.get(name))}
    return {name: value for name, value in _spread(said).items() if name in known}


def _spread(said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the parts with several."""
    found = {name: value for name, value in said.items() if name not in ("when", "task")}
    return {**found, **(said.get("when") or {}), **(said.get("task") or {})}
