"""Makers of entries: the caller, the action, the thing, and its fields before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec

from tickwise.domain.audit import AuditAction, AuditEntry, Source, differences
from tickwise.domain.audit_masking import changed, shown
from tickwise.domain.masking import MASK
from tickwise.domain.model import Lane, Principal
from tickwise.ports.store import JobChange, JobMove, JobRow

READ_BYTES_MAX: Final = 16_384
"""The most JSON of a thing that is looked through for secrets; what is beyond it is masked whole. A definition of 1 MB
held up all other requests of the process for half a second; this much takes about 5 ms."""
MEMBERS_MAX: Final = 100
"""The most members of a large object that are tried one by one."""

_decode: Final = msgspec.json.Decoder().decode
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

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
    was = _columns(row.name, row.key, row.labels, row.owner, row.lane)
    now = _columns(change.name, change.key, change.labels, change.owner, change.lane)
    before, after = differences(was, now)
    for side, fields in zip((before, after), _definitions_differ(row.definition, change.definition), strict=True):
        side.update(fields)
    made = entry(who, AuditAction.JOB_CHANGED, "job", row.job_id, detail={"version": change.expected_version + 1})
    return made._replace(before=shown(before), after=shown(after))


def fields_of(text: str | bytes) -> dict[str, Any]:
    """The fields of a JSON object as an entry shows them: read as far as `READ_BYTES_MAX` allows."""
    return _Reading().fields(_members(text))


def job_standing_changed(who: Principal, action: AuditAction, row: JobRow, move: JobMove) -> AuditEntry:
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


def _definitions_differ(before: str, after: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of two definitions that differ. Texts that are alike are not read."""
    was, now = _members(before), _members(after)
    for name in was.keys() & now.keys():
        if bytes(was[name]) == bytes(now[name]) or _is_alike(was[name], now[name]):
            del was[name], now[name]
    return _Reading().fields(was), _Reading().fields(now)


def _is_alike(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    """Check whether two small texts say the same. Large ones that are spelled in two ways count as different."""
    if max(len(bytes(one)), len(bytes(other))) > READ_BYTES_MAX:
        return False
    same: bool = _decode(one) == _decode(other)
    return same


class _Reading:
    """Reads the values of one object, `READ_BYTES_MAX` in all; texts are cheap, and are always read."""

    def __init__(self) -> None:
        self._left = READ_BYTES_MAX

    def fields(self, members: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        """The values, masked where they are too large. Of a large object the members are tried, one by one."""
        return {name: self._value(bytes(raw), within=False) for name, raw in members.items()}

    def _value(self, text: bytes, *, within: bool) -> Any:
        if text[:1] == b'"':
            return _decode(text)
        if len(text) <= self._left:
            self._left -= len(text)
            return _decode(text)
        if within or text[:1] != b"{":
            return MASK
        members = _members(text)
        if len(members) > MEMBERS_MAX:
            return MASK
        return {name: self._value(bytes(inner), within=True) for name, inner in members.items()}


def _columns(name: str, key: str | None, labels: Mapping[str, str], owner: str, lane: Lane) -> dict[str, Any]:
    return {
        "name": name,
        "key": key,
        "labels": dict(labels),
        "owner": owner,
        "queue": lane.queue,
        "priority": lane.priority,
        "requires": list(lane.requires),
    }
