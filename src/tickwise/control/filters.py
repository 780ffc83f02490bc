"""The subjects of bulk requests: filters over runs, jobs and dead letters, as queries of the store.

The words are those of the listings, so what a list shows is what an operation with the same filter finds.

Invariant: no filter is empty. A caller that means everything writes `{"all": true}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.bodies import TEXT_MAX, Labels, MissedMode, Note, Payload
from tickwise.control.texts import clean_text
from tickwise.control.times import instant
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import FINAL, JobStatus, RunState
from tickwise.domain.model import Trigger
from tickwise.domain.schedule import ScheduleType
from tickwise.domain.selectors import Selector
from tickwise.ports.store import JobQuery, LetterQuery, LetterStatus, RunQuery

T = TypeVar("T")

Time = Annotated[datetime, Meta(tz=True)]
Text = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Everything = Annotated[bool, Meta(description="Everything there is: in place of all other fields.")]

IDS_MAX: Final = 1_000
"""The most jobs or runs that a filter names one by one."""
Ids = Annotated[list[UUID], Meta(max_length=IDS_MAX)]

UNFINISHED: Final = tuple(state for state in RunState if state not in FINAL)
UNSETTLED: Final = (LetterStatus.OPEN, LetterStatus.HELD, LetterStatus.EXPIRED)


class TriggerName(StrEnum):
    """The origin of a run."""

    SCHEDULE = "schedule"
    RUN_NOW = "run_now"
    RETRY = "retry"
    MISSED = "missed"
    """It fell into a pause and was asked for at resume."""
    BACKFILL = "backfill"
    SEQUENCE = "sequence"
    """The end of a run of another job started it."""


class RunsFilter(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The runs; everything given must match."""

    all: Everything = False
    run_ids: Annotated[Ids, Meta(description="Any of these runs.")] = []
    job_id: UUID | UnsetType = UNSET
    status: Annotated[list[RunState], Meta(max_length=8)] = []
    trigger: Annotated[list[TriggerName], Meta(max_length=6)] = []
    origin: (
        Annotated[UUID, Meta(description="The run that was retried or that started it, or the backfill.")] | UnsetType
    ) = UNSET
    reason: Text | UnsetType = UNSET
    executor_id: (
        Annotated[str, Meta(pattern=r"^\d{1,18}$(?!\n)", description="The executor that has the run, or had it last.")]
        | UnsetType
    ) = UNSET
    job_name: Annotated[Text, Meta(description="A part of its job's name, in any case.")] | UnsetType = UNSET
    labels: Annotated[Labels, Meta(description="Of its job.")] = {}
    queue: Annotated[Text, Meta(description="Of its job.")] | UnsetType = UNSET
    due_after: Time | UnsetType = UNSET
    due_before: Time | UnsetType = UNSET


class JobsFilter(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The jobs; everything given must match."""

    all: Everything = False
    job_ids: Annotated[Ids, Meta(description="Any of these jobs.")] = []
    key: Text | UnsetType = UNSET
    name: Annotated[str, Meta(min_length=1, max_length=TEXT_MAX, description="A part of the name, in any case.")] | (
        UnsetType
    ) = UNSET
    labels: Labels = {}
    status: JobStatus | Annotated[list[JobStatus], Meta(max_length=5, description="Any of these.")] = []
    """An operation that was asked for when it was one status has it stored as one."""
    schedule_type: ScheduleType | UnsetType = UNSET
    task_kind: Text | UnsetType = UNSET
    owner: Text | UnsetType = UNSET
    next_run_after: Time | UnsetType = UNSET
    next_run_before: Time | UnsetType = UNSET


class LettersFilter(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The dead letters; everything given must match."""

    all: Everything = False
    status: Annotated[list[LetterStatus], Meta(max_length=6, description="If not sent: open.")] = []
    job_id: UUID | UnsetType = UNSET
    task_kind: Text | UnsetType = UNSET
    reason: Text | UnsetType = UNSET
    error_id: Annotated[UUID, Meta(description="Of the runs of this group of errors.")] | UnsetType = UNSET
    ended_after: Time | UnsetType = UNSET
    ended_before: Time | UnsetType = UNSET


Filter = RunsFilter | JobsFilter | LettersFilter

# ------------------------------------------------------------------------------------------ bodies of bulk requests

DryRun = Annotated[bool, Meta(description="Answer the items that would be concerned; change nothing.")]


class RunsCancelBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Runs to cancel: of those that have not ended."""

    filter: RunsFilter
    dry_run: DryRun = False


class RunsRetryBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Runs to retry: failed ones if the filter names no status. Those that failed settle their dead letters;
    one whose letter is settled already is not run again."""

    filter: RunsFilter
    dry_run: DryRun = False
    payload: Payload | UnsetType = UNSET
    params: Payload | UnsetType = UNSET


class JobsCancelBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Jobs to cancel, for good."""

    filter: JobsFilter
    dry_run: DryRun = False


class JobsPauseBody(JobsCancelBody, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Jobs to pause: scheduled ones if the filter names no status. Those that do not recur are refused, one by one."""

    reason: Annotated[str, Meta(max_length=1_000)] | None = None
    until: Time | None = None


class JobsResumeBody(JobsCancelBody, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Jobs to resume: paused ones if the filter names no status."""

    missed: MissedMode = MissedMode.SKIP


class LettersDiscardBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Dead letters to discard: open ones if the filter names no status."""

    filter: LettersFilter
    dry_run: DryRun = False
    note: Note | None = None


class LettersRedriveBody(LettersDiscardBody, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Dead letters to redrive: open ones if the filter names no status. With a payload, all of them get it."""

    payload: Payload | UnsetType = UNSET
    params: Payload | UnsetType = UNSET


# ------------------------------------------------------------------------------------------ as queries


def check(said: Filter, pointer: str = "/filter") -> None:
    """Refuse a filter that says nothing, or both everything and something; and texts that no store keeps."""
    fields = [name for name in said.__struct_fields__ if name != "all" and getattr(said, name) not in (UNSET, [], {})]
    if said.all and fields:
        raise Invalid(f"all and {fields[0]} contradict each other; send one of them", pointer=f"{pointer}/all")
    if not said.all and not fields:
        raise Invalid(
            'the filter is empty; say which are meant, or write {"all": true} for all of them', pointer=pointer
        )
    for name in fields:
        value = getattr(said, name)
        texts = [*value, *value.values()] if isinstance(value, dict) else [value] if isinstance(value, str) else []
        for text in texts:
            clean_text(text, f"{pointer}/{name}")


def check_states(said: Sequence[RunState], allowed: Sequence[RunState], what: str) -> None:
    """Refuse a state that nothing of this kind can be done about."""
    for place, state in enumerate(said):
        if state not in allowed:
            raise Invalid(
                f"a run that is {state.value} cannot be {what}; write one of "
                f"{', '.join(each.value for each in allowed)}",
                pointer=f"/filter/status/{place}",
            )


def check_unsettled(said: Sequence[LetterStatus]) -> None:
    """Refuse letters that are settled: nothing more can be done about them."""
    for place, status in enumerate(said):
        if status not in UNSETTLED:
            raise Invalid(
                f"a dead letter that is {status.value} is settled; write one of "
                f"{', '.join(each.value for each in UNSETTLED)}",
                pointer=f"/filter/status/{place}",
            )


def runs_query(
    namespace: str, said: RunsFilter, *, states: Sequence[RunState], limit: int, within: Selector | None
) -> RunQuery:
    """The store's query for a filter; `states` if the filter names none. Of jobs `within` alone."""
    return RunQuery(
        namespace=namespace,
        ids=said.run_ids,
        job_id=_given(said.job_id),
        states=said.status or states,
        triggers=[Trigger[name.name] for name in said.trigger],
        origin=_given(said.origin),
        reason=_given(said.reason),
        executor=None if said.executor_id is UNSET else int(said.executor_id),
        job_name=_given(said.job_name),
        labels=said.labels,
        queue=_given(said.queue),
        due_after=_instant(said.due_after),
        due_before=_instant(said.due_before),
        within=within,
        limit=limit,
    )


def jobs_queries(
    namespace: str, said: JobsFilter, *, statuses: Sequence[JobStatus], limit: int, within: Selector | None
) -> tuple[JobQuery, Sequence[JobStatus]]:
    """The store's query for a filter, and the statuses that count: those that the filter names, or else `statuses`. The
    query has several statuses only if the filter names them, because most jobs have one of the default ones."""
    query = JobQuery(
        namespace=namespace,
        ids=said.job_ids,
        key=_given(said.key),
        name=_given(said.name),
        labels=said.labels,
        schedule_type=_given(said.schedule_type),
        task_kind=_given(said.task_kind),
        owner=_given(said.owner),
        next_run_after=_instant(said.next_run_after),
        next_run_before=_instant(said.next_run_before),
        within=within,
        limit=limit,
    )
    named = [said.status] if isinstance(said.status, JobStatus) else said.status
    wanted = tuple(dict.fromkeys(named)) or statuses
    return (replace(query, statuses=wanted), wanted) if named or len(wanted) == 1 else (query, wanted)


def letters_query(
    namespace: str,
    said: LettersFilter,
    *,
    expire_seconds: float,
    statuses: Sequence[LetterStatus] = (),
    limit: int,
    within: Selector | None,
) -> LetterQuery:
    """The store's query for a filter; `statuses` if the filter names none."""
    return LetterQuery(
        namespace=namespace,
        expire_seconds=expire_seconds,
        statuses=said.status or statuses,
        job_id=_given(said.job_id),
        task_kind=_given(said.task_kind),
        reason=_given(said.reason),
        error_group=_given(said.error_id),
        ended_after=_instant(said.ended_after),
        ended_before=_instant(said.ended_before),
        within=within,
        limit=limit,
    )


def _given(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _instant(value: datetime | UnsetType) -> float | None:
    return None if isinstance(value, UnsetType) else instant(value)
