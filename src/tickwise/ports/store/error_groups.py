"""Failures grouped by cause (`domain.error_groups`).

    an attempt fails ──(one transaction)──► a failure that is not counted yet ──pending──► fingerprint
                                                  ▲                                            │
                                                  └── fold: counted in its group, and gone ────┘  (one transaction)

Attempts that are tried again count, and runs that failed for good; each attempt once. What was given back in order, or
stopped on request, is no failure. Invariant: a failure is either pending or counted, also after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.error_groups import FURTHER_ERRORS, ErrorDecision, ErrorState, ErrorStatus, further_errors_id
from tickwise.ports.paging import Page, utf8_bytes


class FailureId(NamedTuple):
    """The name of a failed attempt."""

    run_id: UUID
    token: int


class PendingFailure(NamedTuple):
    """A failed attempt that is not counted yet."""

    failure_id: FailureId
    namespace: str | None
    """None: nothing is known of its run any more. It is folded without a group."""
    job_id: UUID | None
    attempt: int
    is_last: bool
    """It ended its run, which is a dead letter."""
    ended_at: float
    reason: str | None
    error: str | None
    """Cut to `READ_CHARACTERS`."""


class FailedJob(NamedTuple):
    """The fields of a job that a fingerprint needs."""

    name: str
    task_kind: str
    definition: str | None
    """None: it is large."""


class PendingFailures(NamedTuple):
    """A page of failures, and the jobs of these, as far as they are known."""

    failures: Sequence[PendingFailure]
    jobs: Mapping[UUID, FailedJob]


class GroupedFailure(NamedTuple):
    """A failure with its cause."""

    failure: PendingFailure
    group_id: UUID | None
    """None: it is not counted."""
    kind: str
    message: str
    task_kind: str
    task: str
    """The name of the function, the method and host, or the job; that of the newest fold."""


def within_shares(
    failures: Iterable[GroupedFailure], known: AbstractSet[UUID], groups_of: Mapping[UUID, int], most: int
) -> list[GroupedFailure]:
    """The failures, in their order, with the groups in which they are counted: a new group is made while its job is in
    fewer than `most`; then the failure goes to the group of the job's further errors. `known`: the groups that are
    there; `groups_of`: how many groups each job is in, without an entry for none."""
    present, share = set(known), dict(groups_of)
    found = []
    for each in failures:
        job_id, namespace = each.failure.job_id, each.failure.namespace
        if each.group_id is not None and each.group_id not in present and job_id is not None and namespace is not None:
            if share.get(job_id, 0) >= most:
                found.append(
                    each._replace(
                        failure=each.failure._replace(reason=None),
                        group_id=further_errors_id(namespace, job_id),
                        kind="",
                        message=FURTHER_ERRORS,
                    )
                )
                continue
            share[job_id] = share.get(job_id, 0) + 1
            present.add(each.group_id)
        found.append(each)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroupRow:
    """A group."""

    group_id: UUID
    namespace: str
    status: ErrorStatus
    """As `ErrorState.status` has it, by the store's clock."""
    reason: str
    kind: str
    message: str
    task_kind: str
    task: str
    failures: int
    jobs: int
    """At most `MAX_JOBS`, and those of one fold more."""
    first_seen: float
    last_seen: float
    sample_run: UUID
    """The run of the newest failure."""
    sample_attempt: int
    sample_error: str | None
    decision: ErrorDecision | None = None
    """The latest decision; `status` says whether it still holds."""
    decided_at: float | None = None
    decided_by: str | None = None
    note: str | None = None
    ignored_until: float | None = None
    ignored_count: int | None = None
    """It is open again at so many failures."""

    @property
    def state(self) -> ErrorState:
        """The counts and the decision that give the status."""
        return ErrorState(
            self.failures, self.last_seen, self.decision, self.decided_at, self.ignored_until, self.ignored_count
        )

    @property
    def text_bytes(self) -> int:
        """See `PageRow`."""
        return utf8_bytes(self.message, self.sample_error, self.note)


class ErrorPlace(NamedTuple):
    """A place in a list of groups."""

    last_seen: float
    group_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroupQuery:
    """A search. The group that was seen last first; everything given must match."""

    namespace: str
    statuses: Sequence[ErrorStatus] = ()
    reason: str | None = None
    task_kind: str | None = None
    text: str | None = None
    """A part of the kind, the message or the task, in any case."""
    job_id: UUID | None = None
    seen_after: float | None = None
    first_seen_after: float | None = None
    beyond: ErrorPlace | None = None
    """The page begins behind this place. A group that fails meanwhile moves to the front of the list."""
    limit: int = 50
    bytes_most: int | None = None


class ErrorJob(NamedTuple):
    """A job of a group."""

    job_id: UUID
    failures: int
    last_seen: float


class ErrorHour(NamedTuple):
    """The failures of one group in one hour."""

    group_id: UUID
    hour: float
    """Its begin."""
    failures: int


class NewErrorDecision(NamedTuple):
    """A decision about a group, in place of the one before."""

    decision: ErrorDecision | None
    """None: open again."""
    by: str
    note: str | None = None
    until: float | None = None
    """With IGNORE: open again at this time."""
    more: int | None = None
    """With IGNORE: open again after so many more failures."""


class ErrorGroupStore(Protocol):
    """Failures, grouped by cause."""

    async def pending(self, limit: int) -> PendingFailures:
        """Up to `limit` failures that are not counted yet."""
        ...

    async def fold(self, failures: Sequence[GroupedFailure]) -> int:
        """Count pending failures in their groups, the part of each namespace in one transaction; how many were pending.
        One that is not pending any more changes nothing. A namespace that is being removed gets no group."""
        ...

    async def get(self, namespace: str, group_id: UUID) -> ErrorGroupRow | None:
        """One group."""
        ...

    async def search(self, query: ErrorGroupQuery) -> Page[ErrorGroupRow]:
        """Up to `limit` groups. All of a namespace are looked at: at most `MAX_GROUPS`."""
        ...

    async def decide(
        self, namespace: str, group_id: UUID, decision: NewErrorDecision, *, audit: AuditEntry | None = None
    ) -> ErrorGroupRow | None:
        """Keep a decision; the group with it. None: there is no such group. Raises `Conflict` if the namespace is being
        removed."""
        ...

    async def jobs(self, namespace: str, group_id: UUID, limit: int) -> Sequence[ErrorJob]:
        """The jobs of a group, those with most failures first."""
        ...

    async def hours(self, namespace: str, group_ids: Sequence[UUID], since: float) -> Sequence[ErrorHour]:
        """The hours from `since` on in which these groups had failures, of each group in order. Older ones than
        `HOURS_SECONDS` are forgotten."""
        ...

    async def of_runs(self, namespace: str, run_ids: Sequence[UUID]) -> Mapping[UUID, UUID]:
        """The groups of these runs, as far as they failed for good and are counted."""
        ...
