"""A job that goes to another namespace."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTransfer:
    """A job goes to another namespace, with its id, key, definition, standing and timer.

    Ended runs stay on record in the namespace in which they ran, with their letters; there the job is gone, so no run
    is made from them again. What its timer was held back by, a calendar or window, is asked anew.
    """

    namespace: str
    job_id: UUID
    to: str
    expected_version: int
    arrival: AuditEntry | None = None
    """The entry of the namespace that receives it; that of the one it leaves is `audit` of `JobStore.move`. Each is
    written with the change of its namespace."""


def job_busy(job_id: UUID) -> Conflict:
    """The refusal to move a job that has something under way."""
    return Conflict(
        f"the job {job_id} has a run that has not ended, or whose end has yet to start others: pause the job and wait "
        "for the run, or cancel the run; then move the job",
        code="job_busy",
    )


def key_taken_there(namespace: str, key: str | None) -> Conflict:
    """The refusal to move a job to where another one has its key."""
    return Conflict(
        f"another job of the namespace {namespace} has the key {key!r}: change the key of one of them, then move the "
        "job",
        code="key_taken",
    )
