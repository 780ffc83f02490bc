"""Answers to callers who may write and not read: that it is done, and nothing that others wrote.

    a write ──► may read it ──► the whole thing, as a GET answers it
            └─► may not ──────► its id, status and version, and what is to be said of this write

Programs that submit or operate have keys with `jobs:write`, `jobs:operate` or `runs:write` alone. Definitions, payloads
and errors may hold what they must not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from tickwise.api.conditions import Conditions
from tickwise.domain.callers import Asker
from tickwise.domain.error_groups import ErrorStatus
from tickwise.domain.errors import Forbidden
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.selectors import is_inside
from tickwise.ports.store import JobRow, LetterRow, LetterStatus, OperationRow


class JobWrittenView(msgspec.Struct, kw_only=True):
    """A job after a write, for a caller without `jobs:read`."""

    job_id: UUID
    status: JobStatus
    version: int
    warnings: Sequence[str]
    """The warnings about this write."""


class LetterSettledView(msgspec.Struct, kw_only=True):
    """A dead letter after a write, for a caller without `runs:read`."""

    run_id: UUID
    status: LetterStatus


class ErrorDecidedView(msgspec.Struct, kw_only=True):
    """A group of errors after a decision, for a caller without `runs:read`."""

    error_id: UUID
    status: ErrorStatus


def reads_jobs(who: Principal) -> bool:
    """Check whether the caller sees what is in each job that it may change."""
    return _reads(who, Permission.JOBS_READ, Permission.JOBS_WRITE, Permission.JOBS_OPERATE)


def reads_runs(who: Principal) -> bool:
    """Check whether the caller sees what is in each run and dead letter that it may change."""
    return _reads(who, Permission.RUNS_READ, Permission.RUNS_WRITE)


def _reads(who: Principal, read: Permission, *written: Permission) -> bool:
    """Check whether the caller may read all that one of the other permissions lets it write."""
    if who.may(read):
        return True
    if any(who.may(permission) for permission in written):
        return False
    return is_inside(who.selector(written), who.selector((read,)))


def check_tags(who: Principal, conditions: Conditions | None) -> None:
    """Raises `Forbidden` for a precondition by tags of a job that the caller may not read. A tag is a digest of the
    whole job, so the answer would tell whether a guess of all that others wrote is right."""
    if conditions is not None and conditions.lists_tags and not reads_jobs(who):
        raise Forbidden(
            "a precondition by an ETag needs the permission jobs:read; without it, hold to the version that you were "
            "told, by if_version, or send *"
        )


def job_written(row: JobRow, warnings: Sequence[str]) -> JobWrittenView:
    """A job whose contents the caller may not see."""
    return JobWrittenView(job_id=row.job_id, status=row.status, version=row.version, warnings=warnings)


def letter_settled(row: LetterRow) -> LetterSettledView:
    """A dead letter whose contents the caller may not see."""
    return LetterSettledView(run_id=row.run.run_id, status=row.status)


def sees_request(who: Principal, row: OperationRow) -> bool:
    """Check whether the caller sees what an operation was asked to do, payloads among it: who asked for it does."""
    is_own = row.created_by == who.name if row.asker is None else _is_same(row.asker, who)
    return is_own or (reads_jobs(who) if row.kind.startswith("job") else reads_runs(who))


def _is_same(asker: Asker, who: Principal) -> bool:
    """Check whether both are one person, or one key. A token of a key is the key."""
    if asker.user_id is not None or who.user_id is not None:
        return asker.user_id == who.user_id
    return asker.key_id == who.key_id
