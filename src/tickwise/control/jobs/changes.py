"""Changes of existing jobs: the fields that were sent, and their effect on the next fires."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.control.access import check_labels
from tickwise.control.bodies import JobBody
from tickwise.control.context import ControlContext
from tickwise.control.environments.declarations import EnvironmentDeclarations
from tickwise.control.jobs.composer import JobComposer
from tickwise.control.jobs.confining import Confined, check_run_as, reconfine
from tickwise.control.jobs.identity import JobFacts, with_identity
from tickwise.control.jobs.lanes import lane
from tickwise.control.jobs.links import RACES_MAX, SequenceLinks
from tickwise.control.jobs.moves import CHANGED_TOO_OFTEN, check_version
from tickwise.control.jobs.named_secrets import own_names, warnings_of
from tickwise.control.jobs.planning import LASTING, Replanned, plan_fields, plan_of, replanned, upcoming
from tickwise.control.jobs.policies import Keyed, check_kept, doubtful, policies, with_keys
from tickwise.control.jobs.replans import Ahead, greatest_spread, replan_changed
from tickwise.control.jobs.resolving import (
    OWN_FUNCTION,
    ResolvedTask,
    check_calendars,
    check_texts,
    checked_channels,
    resolve_task,
)
from tickwise.control.jobs.scene import Scene
from tickwise.control.jobs.submission import Submissions, Submitted, key_taken
from tickwise.control.jobs.successors import listed, successors
from tickwise.control.tasks import CheckedTask, Findings, with_secrets
from tickwise.control.texts import clean_name, clean_text
from tickwise.control.wakeups import wake_all
from tickwise.documents.definition import Definition, decode_definition, encode_definition, trace_fields, work_of
from tickwise.domain.errors import Busy, Conflict, Invalid, VersionConflict
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Principal, Trigger, time_id
from tickwise.domain.schedule import Schedule, ScheduleType, fires_between
from tickwise.domain.selectors import matches
from tickwise.ports.store import NO_TEXT, EndedOperation, JobChange, JobRow, RunQuery

COMPARED_FIRES: Final = 20
MAX_AHEAD: Final = 1_000
"""The most occurrences made or skipped ahead of their time that a change of the schedule looks at."""
MAX_RANGES: Final = 20
"""The most records of past skips that are searched for one that lasts until after now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The result of a change, done or tried."""

    row: JobRow
    before: Sequence[float]
    """The next fires as they were, …"""
    after: Sequence[float]
    """… and as they are under the new definition."""
    removed: Sequence[float] = ()
    """The fires of `before` that the new schedule does not have."""
    added: Sequence[float] = ()
    """The fires of `after` that the old schedule did not have."""
    kept: Sequence[float] = ()
    """The fires that both schedules have. Each time of `before` and `after` is in exactly one of the three."""
    warnings: Sequence[str] = ()
    """Effects of the change that may not be meant."""


class FoundJob(NamedTuple):
    """The job found under a key, for a write that must not meet another version."""

    row: JobRow | None
    """None: there was no job."""


class AcceptedChange(NamedTuple):
    """A change that was accepted to be made later."""

    at: float
    """The time of acceptance, by the store's clock as far as it was known."""
    operation: EndedOperation
    """The records that are written with it."""


class JobChanges:
    """Changes jobs."""

    def __init__(self, context: ControlContext, composer: JobComposer, submissions: Submissions) -> None:
        """`submissions` creates a job for a key that no job has."""
        self._context = context
        self._composer = composer
        self._submissions = submissions
        self._links = SequenceLinks(context)
        self._sequencing = asyncio.Lock()
        """Held from the look at successors until the change that names them is stored: two changes would not see each
        other."""

    @property
    def declarations(self) -> EnvironmentDeclarations:
        """The environments that jobs declare."""
        return self._submissions.declarations

    async def change(
        self,
        who: Principal,
        job_id: UUID,
        body: JobBody,
        *,
        if_version: int | None = None,
        dry_run: bool = False,
        accepted: AcceptedChange | None = None,
    ) -> ChangeResult:
        """Change the fields that were sent. A new schedule replaces the old one, its time zone included, and counts
        from now, or from when it was `accepted`: a time that has passed since is not refused.

        Raises `NotFound`, `Conflict`, `Invalid`, and `VersionConflict` if `if_version` is not the newest.
        """
        scripts = await self._composer.scripts_of((body,))
        for _ in range(RACES_MAX):
            row = await self._context.job(who, job_id)
            check_version(row, if_version)
            try:
                async with self._sequencing if listed(body.then) or listed(body.on_failure) else nullcontext():
                    return await self._change(who, row, body, scripts, dry_run=dry_run, accepted=accepted)
            except VersionConflict:
                # Without a version of the caller's, fields of two changes that meet are both applied.
                if if_version is not None:
                    raise
        raise Busy(CHANGED_TOO_OFTEN)

    async def upsert(
        self, who: Principal, key: str, body: JobBody, found: FoundJob | None = None
    ) -> Submitted | ChangeResult:
        """Change the job with this key, or create it. With `found`, raises `VersionConflict` if what has the key is
        another job, or at another version."""
        clean_text(key, "/key")
        if body.key is not UNSET and body.key != key:
            raise Invalid("the key in the body is not the one in the path; leave it out", pointer="/key")
        body = msgspec.structs.replace(body, key=key)
        for _ in range(RACES_MAX):
            row = await self._context.store.jobs.get(who.namespace, key) if found is None else found.row
            if row is not None and not matches(row.labels, who.within):
                raise key_taken(key)
            if row is not None:
                version = None if found is None else row.version
                return await self.change(who, row.job_id, body, if_version=version)
            try:
                created = await self._submissions.submit(who, body)
            except Conflict as refusal:
                if refusal.code != "key_taken":
                    raise
                if found is not None:
                    raise VersionConflict(f"a job with the key {key[:200]!r} was created meanwhile") from None
            else:
                if isinstance(created, Submitted):
                    return created
        raise Busy("too many concurrent changes to this key; send the same again")

    async def _change(
        self,
        who: Principal,
        row: JobRow,
        body: JobBody,
        scripts: Findings,
        *,
        dry_run: bool,
        accepted: AcceptedChange | None,
    ) -> ChangeResult:
        if row.status is JobStatus.CANCELLED:
            raise Conflict("the job is cancelled, for good; create a new one", code="job_cancelled")
        if body.job_id and body.job_id != row.job_id:
            raise Invalid("a job keeps its job_id; leave it out", pointer="/job_id")
        check_texts(body)
        old = decode_definition(row.definition)
        if isinstance(body.task, msgspec.Raw):
            body = msgspec.structs.replace(body, task=with_secrets(body.task, bytes(old.task)))
        scene = (await self._composer.scene(who, (body,)))._replace(scripts=scripts)
        scene = scene if accepted is None else scene._replace(now=min(accepted.at, scene.now))
        resolved = resolve_task(body, scene, self._composer.check)
        task = resolved.task if resolved else _task(row, old)
        before = plan_of(old)
        changed = replanned(body, before, row.job_id, scene.now)
        plan = before if changed is None else changed.timing.plan
        if body.calendars:
            check_calendars(plan.calendars, scene.calendars)
        name = clean_name(body.name, "/name") if body.name else row.name
        labels = row.labels if body.labels is UNSET else body.labels or {}
        check_labels(who, labels)
        confined = self._confined(row, body, task.kind, old, scene)
        where = lane(body, task, scene.serving.functions, row.lane, confined.labels)
        fields = _changes(body, old, resolved, changed) | confined.fields
        fields |= successors(body, row.job_id, name, scene.successors)
        if not isinstance(body.notify, UnsetType):
            fields["notify"] = checked_channels(body.notify or (), scene.channels)
        sent = [field for field in ("concurrency", "rate", "labels") if getattr(body, field) is not UNSET]
        keyed = Keyed(row.job_id, where.queue, labels)
        if plan.schedule_type in LASTING:
            fields |= trace_fields(None)  # each of its runs is in a trace of its own
        definition = with_keys(msgspec.structs.replace(old, **fields), keyed, sent)
        definition = self._identified(row, body, definition, task.kind)
        doubts = self._doubts(body, definition, task, scene, is_new=resolved is not None)
        change = JobChange(
            namespace=row.namespace,
            job_id=row.job_id,
            expected_version=row.version,
            name=name,
            key=row.key if body.key is UNSET else body.key,
            schedule_type=plan.schedule_type.value,
            task_kind=task.kind,
            definition=encode_definition(definition),
            lane=where,
            labels=labels,
            owner=row.owner if body.owner is UNSET else body.owner or who.name,
            replan=replan_changed(row, before, changed, scene.now, await self._ahead(row, changed, scene.now)),
            calendars=tuple(use.name for use in plan.calendars),
            secrets=sorted(own_names(bytes(definition.task))),
            expected_paused=None if changed is None else row.status is JobStatus.PAUSED,
            postponed_after_seconds=greatest_spread(plan),
            rate_changed=(definition.rate, definition.rate_key) != (old.rate, old.rate_key),
            task_changed=work_of(definition) != work_of(old),
            operation=None if accepted is None else accepted.operation,
        )
        difference = _difference(row, before.schedule(row.job_id), changed, scene.now)
        if not dry_run:
            row = await self._links.change(who, row, change)
            self._changed(change)
        warnings = (*_zone_warning(body, old, changed), *(changed.timing.warnings if changed and dry_run else ()))
        return ChangeResult(row=row, warnings=(*warnings, *doubts), **difference)

    def _doubts(
        self, body: JobBody, definition: Definition, task: CheckedTask, scene: Scene, *, is_new: bool
    ) -> tuple[str, ...]:
        """The warnings about its retries, where its limits and retries can be of this kind of task, and about its
        secrets. `is_new`: the task is another one now. Raises `Invalid`."""
        rules = self._composer.check.rules_of(task.kind)
        if body.limits or is_new:
            check_kept(definition.limits, task.kind, rules.limits, sent=bool(body.limits))
        doubts = doubtful(definition.retry, task, rules.reasons) if body.retry else ()
        return (*doubts, *warnings_of(bytes(task.text), scene.missing_secrets))

    def _confined(self, row: JobRow, body: JobBody, kind: str, old: Definition, scene: Scene) -> Confined:
        """The confinement that the job has then. Raises `Invalid`."""
        confined = reconfine(body, kind, old, scene.floor)
        return check_run_as(confined, row.namespace, self._composer.check.run_as_users)

    def _identified(self, row: JobRow, body: JobBody, definition: Definition, kind: str) -> Definition:
        """The definition with what its identity tokens say. Raises `Invalid`."""
        key = row.key if body.key is UNSET else body.key or None
        facts = JobFacts(row.namespace, row.job_id, key, kind)
        return with_identity(definition, facts, self._composer.check.issuer)

    def _changed(self, change: JobChange) -> None:
        """Announce a stored change."""
        wake_all(self._context)
        self.declarations.note_change(change)

    async def _ahead(self, row: JobRow, changed: Replanned | None, now: float) -> Ahead:
        """Times to come that are runs already, or were skipped by request or by a pause."""
        if changed is None or not changed.times_changed:
            return Ahead()
        # By id, which begins with the nominal time: a job that fires each second has millions on record.
        here = time_id(int(now * 1000), bytes(10))
        query = RunQuery(
            namespace=row.namespace,
            job_id=row.job_id,
            states=(RunState.SKIPPED, RunState.CANCELLED, RunState.QUEUED, RunState.DISPATCHED),
            triggers=(Trigger.SCHEDULE,),
            after=here,
            limit=MAX_AHEAD,
            texts=NO_TEXT,
        )
        runs = list(await self._context.store.searches.runs(query))
        made = frozenset(round(run.nominal_at, 6) for run in runs if run.state is not RunState.SKIPPED)
        # A record of several skips that began before may last until after now.
        before = replace(query, states=(RunState.SKIPPED,), after=None, before=here, limit=MAX_RANGES)
        runs += await self._context.store.searches.runs(before)
        spans = (
            (run.nominal_at, run.nominal_at if run.until is None else run.until)
            for run in runs
            if run.state is RunState.SKIPPED
        )
        return Ahead(frozenset((round(first, 6), round(last, 6)) for first, last in spans if last > now), made)


def function_of(row: JobRow, task: msgspec.Raw) -> str | None:
    """The name of the function that the task of a job names, if it names one."""
    name = _decode_named(task).name if row.task_kind == "function" else None
    return name if isinstance(name, str) else None


class _Named(msgspec.Struct):
    """The part of a task that names its function."""

    name: Any = None


_decode_named: Final = msgspec.json.Decoder(_Named).decode


def _task(row: JobRow, definition: Definition) -> CheckedTask:
    return CheckedTask(row.task_kind, definition.task, function_of(row, definition.task))


def _zone_warning(body: JobBody, old: Definition, changed: Replanned | None) -> tuple[str, ...]:
    """The warning that a new schedule without a zone replaces the old zone too."""
    if changed is None or not changed.anew or changed.timing.plan.cron_expression is None or body.timezone:
        return ()
    zone = changed.timing.plan.timezone
    if old.timezone == zone:
        return ()
    return (
        f"the new schedule goes by {zone}, the old one went by {old.timezone}: a new schedule replaces "
        f"the old one as a whole; send timezone with it to keep {old.timezone}",
    )


def _changes(
    body: JobBody, old: Definition, resolved: ResolvedTask | None, changed: Replanned | None
) -> dict[str, Any]:
    found = policies(body)
    if resolved is not None:
        found.update(task=resolved.task.text, task_id=resolved.task_id, task_version=resolved.version)
    if changed is not None:
        found.update(plan_fields(changed.timing.plan))
    if changed is not None or resolved is not None:
        of_task = tuple(said for said in old.warnings if said.startswith(OWN_FUNCTION))
        of_schedule = tuple(said for said in old.warnings if said not in of_task)
        found["warnings"] = (
            *(of_schedule if changed is None else changed.timing.warnings),
            *(of_task if resolved is None else ()),
        )
    return found


# ------------------------------------------------------------------------------------------ the difference


def _difference(row: JobRow, old: Schedule, changed: Replanned | None, now: float) -> dict[str, Sequence[float]]:
    """The next fires before and after a change, and which of them go, come and stay."""
    before = _fires(row, old, now)
    if changed is None or not changed.times_changed or row.status is JobStatus.PAUSED:
        return {"before": before, "after": before, "kept": before}
    new = changed.timing.plan.schedule(row.job_id)
    fired = 0 if changed.anew or row.timer is None else row.timer.fired
    after = [new.at] if new.at is not None else _limited(new, upcoming(new, now, COMPARED_FIRES), fired)
    removed, added = _unnamed(before, after, new), _unnamed(after, before, old)
    return {
        "before": before,
        "after": after,
        "removed": removed,
        "added": added,
        "kept": sorted({*before, *after}.difference(removed, added)),
    }


def _fires(row: JobRow, schedule: Schedule, now: float) -> list[float]:
    """The next fires of a job with its present schedule."""
    if row.status in (JobStatus.CANCELLED, JobStatus.PAUSED):
        return []
    if schedule.type is ScheduleType.ON_DEMAND:
        return []
    if not schedule.recurs:
        return [] if row.next_run_at is None else [row.next_run_at]
    if row.timer is None:
        return []
    return _limited(schedule, upcoming(schedule, now, COMPARED_FIRES), row.timer.fired)


def _limited(schedule: Schedule, fires: list[float], fired: int) -> list[float]:
    """The fires that are left before the schedule has made all its runs."""
    return fires if schedule.max_runs is None else fires[: max(0, schedule.max_runs - fired)]


def _unnamed(fires: Sequence[float], others: Sequence[float], other: Schedule) -> list[float]:
    """The fires that the other schedule, whose next fires are `others`, does not have.

    A list that was cut off says nothing of later times: then the schedule is asked.
    """
    if len(others) < COMPARED_FIRES:
        return [at for at in fires if at not in others]
    return [at for at in fires if at not in others and not fires_between(other, at - 1e-6, at, 1)]
