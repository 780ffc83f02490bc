"""Rows of the view of jobs, as the port says them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tickwise.domain.decision import Hold, TimerState
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Lane
from tickwise.ports.store import JobRow

_STATUSES: Final = {status.value: status for status in JobStatus}
_decode_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


def job_row(row: Mapping[str, Any]) -> JobRow:
    """A row of the view of jobs, as the port says it."""
    return JobRow(
        job_id=row["job_id"],
        namespace=row["namespace"],
        name=row["name"],
        key=row["key"],
        schedule_type=row["schedule_type"],
        task_kind=row["task_kind"],
        lane=Lane(row["queue"], row["priority"], tuple(row["requires"])),
        definition=row["definition"],
        labels=_decode_labels(row["labels"]),
        owner=row["owner"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        version=row["version"],
        status=_STATUSES[row["status"]],
        paused_at=row["paused_at"],
        pause_reason=row["pause_reason"],
        pause_until=row["pause_until"],
        paused_by=row["paused_by"],
        next_run_at=row["next_run_at"],
        timer=None if row["timer_due"] is None else pending(row, "timer_"),
        listed=row["listed"],
        task_changed_at=row["task_changed_at"],
    )


def pending(row: Mapping[str, Any], prefix: str = "") -> TimerState:
    """The position of a schedule, from columns whose names begin with `prefix`."""
    hold = row[f"{prefix}hold"]
    return TimerState(
        due=row[f"{prefix}due"],
        since=row[f"{prefix}since"],
        hold=None if hold is None else Hold(hold),
        fired=row[f"{prefix}fired"],
        minute=row[f"{prefix}minute"],
        in_minute=row[f"{prefix}in_minute"],
    )
