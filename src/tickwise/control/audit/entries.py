"""Makers of entries: the caller, the action, the thing, and its fields before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from tickwise.domain.audit import AuditAction, AuditEntry, Source
from tickwise.domain.audit_masking import changed, shown
from tickwise.domain.model import Lane, Principal
from tickwise.ports.store import JobChange, JobMove, JobRow

_decode = msgspec.json.Decoder().decode

Fields = Mapping[str, Any]


def entry(
    who: Principal,
    action: AuditAction,
    kind: str,
    target: str | UUID | None = None,
    *,
    namespace: str | None = None,
    before: Fields | None = None,
    after: Fields | None = None,
    detail: Fields | None = None,
) -> AuditEntry:
    """An entry about one thing, in the namespace of the caller unless another one is named. Fields with secrets are
    masked here."""
    was, now = changed(before, after)
    return AuditEntry(
        who.namespace if namespace is None else namespace,
        action,
        Source.of(who),
        kind,
        target=None if target is None else str(target),
        before=was,
        after=now,
        detail=shown(detail),
    )


def job_changed(who: Principal, row: JobRow, change: JobChange) -> AuditEntry:
    """The entry of a change of a job: the fields that differ."""
    return entry(
        who,
        AuditAction.JOB_CHANGED,
        "job",
        row.job_id,
        before=_job_fields(row.name, row.key, row.labels, row.owner, row.lane, row.definition),
        after=_job_fields(change.name, change.key, change.labels, change.owner, change.lane, change.definition),
        detail={"version": change.expected_version + 1},
    )


def job_moved(who: Principal, action: AuditAction, row: JobRow, move: JobMove) -> AuditEntry:
    """The entry of a job that is paused, resumed or cancelled."""
    detail = {"reason": move.reason, "until": move.until}
    return entry(
        who,
        action,
        "job",
        row.job_id,
        before={"status": row.status.value},
        detail={name: value for name, value in detail.items() if value is not None} or None,
    )


def _job_fields(
    name: str, key: str | None, labels: Mapping[str, str], owner: str, lane: Lane, definition: str
) -> dict[str, Any]:
    said = _decode(definition)
    return {
        **(said if isinstance(said, dict) else {}),
        "name": name,
        "key": key,
        "labels": dict(labels),
        "owner": owner,
        "queue": lane.queue,
        "priority": lane.priority,
        "requires": list(lane.requires),
    }
