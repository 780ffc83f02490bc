"""The payload that a run received: its own, or that of its job."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from tickwise.control.runs.service import RunDetails
from tickwise.documents.definition import decode_definition
from tickwise.ports.store import JobRow, RunRow

PAYLOAD_BYTES_SHOWN: Final = 65_536


class PayloadSource(StrEnum):
    """The origin of a run's payload."""

    RUN = "run"
    """Its own: it was made with it, or for it."""
    JOB = "job"
    """The payload of its job."""
    JOB_CHANGED = "job_changed"
    """The present payload of its job. The task or the payload of the job was changed after the run began, so the run
    may have received another one."""


def received_payload(details: RunDetails) -> tuple[msgspec.Raw | None, int | None, PayloadSource | None]:
    """The payload that a run received, or will receive, if it is not too long to be shown; its bytes; and where it is
    from."""
    row, job = details.row, details.job
    own = run_payload(row)
    payload, source = own, PayloadSource.RUN
    if own is None and job is not None:
        payload = decode_definition(job.definition).payload
        source = PayloadSource.JOB_CHANGED if is_task_changed(row, job) else PayloadSource.JOB
    if payload is None:
        return None, None, None
    size = len(bytes(payload))
    return payload if size <= PAYLOAD_BYTES_SHOWN else None, size, source


def is_task_changed(row: RunRow, job: JobRow) -> bool:
    """Check whether the task or the payload of the job was changed after the run began: the same run again does
    something else. A change of its schedule, labels or limits is none."""
    began = row.dispatched_at or row.ended_at
    return began is not None and job.task_changed_at > began


def run_payload(row: RunRow) -> msgspec.Raw | None:
    """A run's own payload; None: it has that of its job."""
    return None if row.definition is None else decode_definition(row.definition).payload
