"""The columns of a row, out of the image of a record or of what stays on record.

A column is None where the record has nothing to say. Times are in ms. A text of more than `TEXT_CHARACTERS` is cut: a
node takes no mutation above 16 MiB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from tickwise.adapters.store.keeper.tables import TimerImage
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.domain.lifecycle import CancelKind
from tickwise.domain.model import Lane, Trigger
from tickwise.domain.rules.requests import StopRequest
from tickwise.ports.audit import AuditRow
from tickwise.ports.store import AttemptRow, CancelRow, JobAction

TEXT_CHARACTERS: Final = 1 << 20
_FAR: Final = 1e15
"""In seconds, and before what 64 bits of ms can say."""

Columns = dict[str, Any]


def millis(seconds: float | None) -> int | None:
    """A time in ms; None for one that never comes."""
    return None if seconds is None or not -_FAR < seconds < _FAR else math.floor(seconds * 1_000)


def text(value: str | None) -> str | None:
    """A text that fits into a row."""
    return value if value is None or len(value) <= TEXT_CHARACTERS else value[:TEXT_CHARACTERS]


def _name(value: Any) -> str | None:
    return None if value is None else str(value)


_TRIGGERS: Final[Mapping[int, str]] = {each.value: each.name for each in Trigger}
_JOB_STATES: Final[Mapping[str, str]] = {JobAction.PAUSE.value: "PAUSED", JobAction.CANCEL.value: "CANCELLED"}


def _trigger(number: int) -> str:
    return _TRIGGERS.get(number) or str(number)  # of a later release


def _job_state(standing: JobAction | None) -> str:
    return "ACTIVE" if standing is None else _JOB_STATES.get(str(standing), str(standing))


Convert = Callable[[Any], Any] | None
"""From a value of a record to that of its column; None: it is the same."""


# ----------------------------------------------------------------------------------------------- jobs


_JOB_FIELDS: Final[Mapping[str, tuple[str, Convert]]] = {
    "name": ("name", None),
    "key": ("job_key", None),
    "standing": ("state", _job_state),
    "schedule_type": ("schedule_type", None),
    "task_kind": ("task_kind", None),
    "owner": ("owner", None),
    "definition": ("definition", text),
    "recurring": ("recurring", None),
    "version": ("version", None),
    "created_at": ("created_at", millis),
    "created_by": ("created_by", None),
    "updated_at": ("updated_at", millis),
    "paused_at": ("paused_at", millis),
    "pause_until": ("pause_until", millis),
    "pause_reason": ("pause_reason", text),
    "paused_by": ("paused_by", None),
}
_JOB_DEFAULTS: Final[Mapping[str, Any]] = {"standing": None, "version": 1}


def job_columns(fields: Mapping[str, Any], *, whole: bool) -> Columns:
    """Of the fields of a job; `whole`: the fields that are left out have their defaults."""
    if whole:
        fields = {**dict.fromkeys(_JOB_FIELDS), "timer": None, **_JOB_DEFAULTS, **fields}
    found: Columns = {}
    for name, value in fields.items():
        if (known := _JOB_FIELDS.get(name)) is not None:
            column, convert = known
            found[column] = value if convert is None else convert(value)
    if (lane := fields.get("lane")) is not None:
        found |= _lane_columns(lane)
    if "labels" in fields:
        found["labels"] = dict(fields["labels"])
    if "timer" in fields:
        found |= _timer_columns(fields["timer"])
    return found


def new_job_columns(fields: Mapping[str, Any]) -> Columns:
    """Of a job that no table knows: what there is to say."""
    return without_nothing(job_columns({**_JOB_DEFAULTS, **fields}, whole=False))


def _lane_columns(lane: Lane) -> Columns:
    return {"queue": lane.queue, "priority": lane.priority, "requires": list(lane.requires)}


def _timer_columns(timer: TimerImage | None) -> Columns:
    if timer is None:
        return {"next_due_at": None, "timer_hold": None, "fired": None}
    pending = timer.pending
    return {"next_due_at": millis(pending.due), "timer_hold": _name(pending.hold), "fired": pending.fired}


# ----------------------------------------------------------------------------------------------- runs


_RUN_FIELDS: Final[Mapping[str, tuple[str, Convert]]] = {
    "state": ("state", str),
    "trigger": ("trigger", _trigger),
    "due": ("due_at", millis),
    "nominal": ("nominal_at", millis),
    "queued": ("queued_at", millis),
    "ready": ("ready_at", millis),
    "dispatched": ("dispatched_at", millis),
    "started": ("started_at", millis),
    "attempt": ("attempt", None),
    "failures": ("failures", None),
    "crashes": ("crashes", None),
    "executor": ("executor", None),
    "token": ("execution_token", lambda token: token or None),
    "origin": ("origin", None),
    "definition": ("definition", text),
}
_RUN_DEFAULTS: Final[Mapping[str, Any]] = {"state": "QUEUED", "attempt": 0, "failures": 0, "crashes": 0, "token": 0}
NOTHING_OF_LIVE_RUNS: Final[Mapping[str, None]] = dict.fromkeys(
    (
        "ready_at", "dispatched_at", "started_at", "executor", "execution_token", "origin", "definition",
        "cancel_asked_at", "cancel_error", "cancel_heard_at",
    )
)  # fmt: skip
"""The columns that a live run may have and its record not."""


def run_columns(fields: Mapping[str, Any], *, whole: bool) -> Columns:
    """Of the fields of an active run; `whole`: the fields that are left out have their defaults."""
    if whole:
        fields = {**dict.fromkeys(_RUN_FIELDS), "request": None, **_RUN_DEFAULTS, **fields}
    found: Columns = {}
    for name, value in fields.items():
        if (known := _RUN_FIELDS.get(name)) is not None:
            column, convert = known
            found[column] = value if value is None or convert is None else convert(value)
    if "request" in fields:
        found |= _cancel_columns(fields["request"])
    return found


def new_run_columns(fields: Mapping[str, Any]) -> Columns:
    """Of an active run that no table knows: what there is to say."""
    return without_nothing(run_columns({**_RUN_DEFAULTS, **fields}, whole=False))


def _cancel_columns(request: StopRequest | CancelRow | None) -> Columns:
    if request is None or (isinstance(request, StopRequest) and request.kind is CancelKind.RETURN):
        return {"cancel_asked_at": None, "cancel_error": None, "cancel_heard_at": None}
    return {
        "cancel_asked_at": millis(request.asked_at),
        "cancel_error": text(request.error),
        "cancel_heard_at": millis(request.heard_at),
    }


_ENDED_FIELDS: Final[Mapping[str, str]] = {
    **{name: name for name in ("attempt", "failures", "crashes", "executor", "reason", "origin", "occurrences")},
    **{name: name for name in ("state", "trigger", "error", "result", "definition", "cancel")},
    "due_at": "due_at",
    "nominal_at": "nominal_at",
    "queued_at": "queued_at",
    "ready_at": "ready_at",
    "dispatched_at": "dispatched_at",
    "started_at": "started_at",
    "ended_at": "ended_at",
    "until_at": "until",
}
_ATTEMPT_FIELDS: Final = (
    "attempt", "executor", "state", "dispatched_at", "started_at", "ended_at", "reason", "error", "cpu_seconds",
    "memory_bytes", "output_bytes", "read_bytes", "written_bytes", "network_bytes", "work_bytes", "image",
)  # fmt: skip
_CONVERTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "state": str,
    "trigger": _trigger,
    **dict.fromkeys(("due_at", "nominal_at", "queued_at", "ready_at", "dispatched_at"), millis),
    **dict.fromkeys(("started_at", "ended_at", "until_at"), millis),
    **dict.fromkeys(("error", "result", "definition"), text),
}
_ENDED_COLUMNS: Final = tuple((name, _CONVERTED.get(name)) for name in _ENDED_FIELDS)
_ATTEMPT_COLUMNS: Final = tuple((name, _CONVERTED.get(name)) for name in _ATTEMPT_FIELDS)
_ended_values: Final = attrgetter(*_ENDED_FIELDS.values())
_attempt_values: Final = attrgetter(*_ATTEMPT_FIELDS)


def _said(columns: Iterable[tuple[str, Convert]], values: Iterable[Any]) -> Columns:
    """The columns of which there is something to say."""
    found: Columns = {}
    for (name, convert), value in zip(columns, values, strict=True):
        if value is not None:
            said = value if convert is None else convert(value)
            if said is not None:
                found[name] = said
    return found


def ended_columns(ended: EndedRun) -> Columns:
    """Of a run that has ended, all that there is to say."""
    found = _said(_ENDED_COLUMNS, _ended_values(ended.row))
    if ended.token:
        found["execution_token"] = ended.token
    if "cancel" in found:
        found |= without_nothing(_cancel_columns(found.pop("cancel")))
    return found


def attempt_columns(attempt: AttemptRow) -> Columns:
    """Of an attempt that is on record, all that there is to say."""
    return _said(_ATTEMPT_COLUMNS, _attempt_values(attempt))


# ----------------------------------------------------------------------------------------------- audit


def audit_columns(row: AuditRow) -> Columns:
    """Of an entry of the audit log: each column of `audit`."""
    source = row.source
    return {
        "at": millis(row.at),
        "action": str(row.action),
        "source_kind": str(source.kind),
        "source_id": source.caller_id,
        "source_name": source.name,
        "source_address": source.address,
        "request_id": source.request_id,
        "target_kind": row.target_kind,
        "target": row.target,
        "targets": list(row.targets),
        "value_before": text(row.before),
        "value_after": text(row.after),
        "detail": text(row.detail),
    }


def without_nothing(columns: Columns) -> Columns:
    """The columns of a new row: where there is nothing to say, no cell is written."""
    return {name: value for name, value in columns.items() if value is not None and value != [] and value != {}}
