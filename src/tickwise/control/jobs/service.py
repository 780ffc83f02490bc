"""Jobs that are there: look up, change, cancel, pause, resume, run now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from tickwise.control.bodies import JobBody, MissedMode, PauseBody, ResumeBody, RunNowBody
from tickwise.control.context import ReceiptFor
from tickwise.control.jobs.composing import (
    OWN_FUNCTION,
    ResolvedTask,
    check_calendars,
    check_texts,
    lane,
    resolve_task,
    successors,
)
from tickwise.control.jobs.links import RACES_MAX, Links
from tickwise.control.jobs.planning import Replanned, plan_fields, plan_of, replanned, upcoming
from tickwise.control.jobs.policies import Keyed, check_kept, doubtful, payload_of, policies, with_keys
from tickwise.control.jobs.replans import Ahead, pause, replan_changed, resume, silence
from tickwise.control.jobs.submission import Submitted
from tickwise.control.jobs.successors import listed
from tickwise.control.tasks import CheckedTask, Findings, with_secrets
from tickwise.control.texts import clean_text
from tickwise.domain.errors import Busy, Conflict, Invalid, NotFound, VersionConflict
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Principal, Trigger, name_from, run_id, time_id
from tickwise.domain.schedule import Schedule, ScheduleType, fires_between
from tickwise.ports.signals import Topic
from tickwise.ports.store import (
    EndedOperation,
    JobAction,
    JobChange,
    JobMove,
    JobQuery,
    JobRow,
    NewRun,
    Receipt,
    Replay,
    RunQuery,
    RunRow,
)
from tickwise.roles.definition import Definition, decode_definition, decode_plan, encode_definition, with_payload
from tickwise.roles.serving import not_offered, unserved

COMPARED_FIRES: Final = 20
_OF_PLANS: Final = (Topic.RUNS, Topic.TIMERS, Topic.CANCELS, Topic.FOLLOWS, Topic.OPERATIONS)
AHEAD_MOST: Final = 1_000
"""So many occurrences that were made or skipped ahead of their time are known when a schedule is changed."""
RANGES_MOST: Final = 20
"""And so many of the last records of skips are looked at for one that lasts until after now."""
BLOCKED: Final = "it waits until an earlier run of its job has ended (overlap)"
NO_SLOT: Final = "it waits until a slot of its concurrency limit is free"
NOBODY_ALIVE: Final = "no executor is alive; runs wait until one is"
CHANGED_TOO_OFTEN: Final = "others keep changing this job; send the same again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a change did, or would do."""

    row: JobRow
    before: Sequence[float]
    """The next fires as they were, …"""
    after: Sequence[float]
    """… and as they are under the new definition."""
    removed: Sequence[float] = ()
    """Those of `before` that the new schedule does not name, …"""
    added: Sequence[float] = ()
    """… those of `after` that the old one did not, …"""
    kept: Sequence[float] = ()
    """… and those of either that both name. So each time of `before` and `after` is in exactly one of the three."""
    warnings: Sequence[str] = ()
    """What the change brings along and may not be meant."""


class Found(NamedTuple):
    """What was looked at under a key, for a write that must not meet anything else."""

    row: JobRow | None
    """None: there was no job."""


class AcceptedChange(NamedTuple):
    """A change that was accepted to be made later."""

    at: float
    """When, by the store's clock as far as it was known."""
    operation: EndedOperation
    """What goes on record with it."""


class Jobs(Links):
    """Everything about jobs that exist."""

    async def job_get(self, who: Principal, job_id: UUID) -> JobRow:
        """One job. Raises `NotFound`."""
        return await self._job(who, job_id)

    async def job_by_key(self, who: Principal, key: str) -> JobRow:
        """One job, by its key. Raises `NotFound`."""
        row = await self.job_find(who, key)
        if row is None:
            raise NotFound(f"there is no job with the key {key[:200]!r} in the namespace {who.namespace}")
        return row

    async def job_find(self, who: Principal, key: str) -> JobRow | None:
        """The same, or None."""
        return None if "\0" in key else await self._store.job_by_key(who.namespace, key)

    async def jobs_search(self, query: JobQuery) -> Sequence[JobRow]:
        """Newest first, for people: a replica may be asked. The caller names the namespace of who asks in the query."""
        return await self._searches.jobs_list(query)

    async def jobs_find(self, query: JobQuery) -> Sequence[JobRow]:
        """The same for what something is decided by: the store is asked."""
        return await self._store.jobs_list(query)

    async def job_warnings(self, row: JobRow) -> tuple[str, ...]:
        """What its definition made us say, and what holds at the moment."""
        definition = decode_definition(row.definition)
        if row.status is JobStatus.CANCELLED:
            return definition.warnings
        passing = not_offered(_function(row, definition), await self._living.functions())
        if passing is None and row.status in (JobStatus.SCHEDULED, JobStatus.PAUSED):
            living = await self._living.executors()
            # That nobody at all is alive is no matter of this job's; its runs say it.
            passing = unserved(row.lane, _function(row, definition), living) if living else None
        return (*definition.warnings, passing) if passing else definition.warnings

    async def _waiting_for(self, row: RunRow) -> Sequence[str]:
        """What keeps a run waiting that nobody holds."""
        if row.blocked:
            return (BLOCKED if row.limit_key is None else f"{NO_SLOT} ({row.limit_key})",)
        job = await self._store.job_get(row.namespace, row.job_id)
        if job is None:
            return ()
        function = _function(job, decode_definition(row.definition or job.definition))
        passing = not_offered(function, await self._living.functions())
        if passing is None:
            living = await self._living.executors()
            passing = unserved(job.lane, function, living) if living else NOBODY_ALIVE
        return (passing,) if passing else ()

    async def status(self, who: Principal, job_id: UUID) -> RunRow | None:
        """Its latest run, if it has one; an occurrence to come that is on record as skipped is none. Raises
        `NotFound`."""
        await self._job(who, job_id)
        latest = RunQuery(namespace=who.namespace, job_id=job_id, limit=1)
        runs = list(await self._store.runs_list(latest))
        now = await self._time.now()
        if runs and runs[0].state is RunState.SKIPPED and runs[0].nominal_at > now:
            by_now = replace(latest, before=name_from(now + 0.001))
            coming = replace(latest, states=tuple(state for state in RunState if state is not RunState.SKIPPED))
            runs = [run for query in (by_now, coming) for run in await self._store.runs_list(query)]
        return max(runs, key=lambda run: run.run_id, default=None)

    # ------------------------------------------------------------------------------------------ change

    async def change(
        self,
        who: Principal,
        job_id: UUID,
        body: JobBody,
        *,
        if_version: int | None = None,
        dry_run: bool = False,
        accepted: AcceptedChange | None = None,
    ) -> Change:
        """Change the fields that were sent. A new schedule replaces the old one, its time zone included, and counts
        from now, or from when it was `accepted`: a time that has passed since is not refused.

        Raises `NotFound`, `Conflict`, `Invalid`, and `VersionConflict` if `if_version` is not the newest.
        """
        scripts = await self._scripts_of((body,))
        for _ in range(RACES_MAX):
            row = await self._job(who, job_id)
            check_version(row, if_version)
            try:
                async with self._sequencing if listed(body.then) or listed(body.on_failure) else nullcontext():
                    return await self._change(who, row, body, scripts, dry_run=dry_run, accepted=accepted)
            except VersionConflict:
                # Without a version of the caller's, fields of two changes that meet are both applied.
                if if_version is not None:
                    raise
        raise Busy(CHANGED_TOO_OFTEN)

    async def upsert(self, who: Principal, key: str, body: JobBody, found: Found | None = None) -> Submitted | Change:
        """Change the job with this key, or create it. With `found`, raises `VersionConflict` if what has the key is
        another job, or at another version."""
        clean_text(key, "/key")
        if body.key is not UNSET and body.key != key:
            raise Invalid("the key in the body is not the one in the path; leave it out", pointer="/key")
        body = msgspec.structs.replace(body, key=key)
        for _ in range(RACES_MAX):
            row = await self._store.job_by_key(who.namespace, key) if found is None else found.row
            if row is not None:
                version = None if found is None else row.version
                return await self.change(who, row.job_id, body, if_version=version)
            try:
                created = await self.submit(who, body)
            except Conflict as refusal:
                if refusal.code != "key_taken":
                    raise
                if found is not None:
                    raise VersionConflict(f"a job with the key {key[:200]!r} was created meanwhile") from None
            else:
                if isinstance(created, Submitted):
                    return created
        raise Busy("others keep taking and leaving this key; send the same again")

    async def _change(
        self,
        who: Principal,
        row: JobRow,
        body: JobBody,
        scripts: Findings,
        *,
        dry_run: bool,
        accepted: AcceptedChange | None,
    ) -> Change:
        if row.status is JobStatus.CANCELLED:
            raise Conflict("the job is cancelled, for good; create a new one", code="job_cancelled")
        if body.job_id and body.job_id != row.job_id:
            raise Invalid("a job keeps its job_id; leave it out", pointer="/job_id")
        check_texts(body)
        if isinstance(body.task, msgspec.Raw):
            stored = decode_definition(row.definition).task
            body = msgspec.structs.replace(body, task=with_secrets(body.task, bytes(stored)))
        scene = (await self._scene(who, (body,)))._replace(scripts=scripts)
        if accepted is not None:
            scene = scene._replace(now=min(accepted.at, scene.now))
        old = decode_definition(row.definition)
        resolved = resolve_task(body, scene, self._check_task)
        task = resolved.task if resolved else _task(row, old)
        before = plan_of(old)
        changed = replanned(body, before, row.job_id, scene.now)
        plan = before if changed is None else changed.timing.plan
        if body.calendars:
            check_calendars(plan.calendars, scene.calendars)
        name = clean_text(body.name or row.name, "/name")
        labels = row.labels if body.labels is UNSET else body.labels or {}
        where = lane(body, task, scene.offered, row.lane)
        fields = _changes(body, old, resolved, changed) | successors(body, row.job_id, name, scene)
        sent = [field for field in ("concurrency", "rate", "labels") if getattr(body, field) is not UNSET]
        keyed = Keyed(row.job_id, where.queue, labels)
        definition = with_keys(msgspec.structs.replace(old, **fields), keyed, sent)
        if body.limits or resolved is not None:
            check_kept(definition.limits, task.kind, self._check_task.limits(task.kind), sent=bool(body.limits))
        doubts = doubtful(definition.retry, task.kind, task.text) if body.retry else ()
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
            expected_paused=None if changed is None else row.status is JobStatus.PAUSED,
            repace=(definition.rate, definition.rate_key) != (old.rate, old.rate_key),
            operation=None if accepted is None else accepted.operation,
        )
        difference = _difference(row, before.schedule(row.job_id), changed, scene.now)
        if not dry_run:
            row = await self._change_stored(row, change)
            self._ring_all()
        warnings = (*_zone_warning(body, old, changed), *(changed.timing.warnings if changed and dry_run else ()))
        return Change(row=row, warnings=(*warnings, *doubts), **difference)

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
            limit=AHEAD_MOST,
        )
        runs = list(await self._store.runs_list(query))
        made = frozenset(round(run.nominal_at, 6) for run in runs if run.state is not RunState.SKIPPED)
        # One record of many that began before may last until after now.
        before = replace(query, states=(RunState.SKIPPED,), after=None, before=here, limit=RANGES_MOST)
        runs += await self._store.runs_list(before)
        spans = (
            (run.nominal_at, run.nominal_at if run.until is None else run.until)
            for run in runs
            if run.state is RunState.SKIPPED
        )
        return Ahead(frozenset((round(first, 6), round(last, 6)) for first, last in spans if last > now), made)

    # ------------------------------------------------------------------------------------------ standing

    async def cancel(self, who: Principal, job_id: UUID, *, if_version: int | None = None) -> JobRow:
        """No further fire; free runs end, held ones are asked to stop; its key is free. Twice is once.

        Raises `NotFound`; `VersionConflict` if it is not at `if_version` any more."""
        return await self._moved(who, job_id, lambda row, _now: _cancel(row, if_version), if_version)

    async def pause(self, who: Principal, job_id: UUID, body: PauseBody, *, if_version: int | None = None) -> JobRow:
        """No fire by schedule until it is resumed, or until the given time. Raises `Conflict` for a one-time job;
        `VersionConflict` as `cancel`."""
        if body.reason is not None:
            clean_text(body.reason, "/reason")
        return await self._moved(
            who, job_id, lambda row, now: pause(row, decode_definition(row.definition), body, who.name, now), if_version
        )

    async def resume(self, who: Principal, job_id: UUID, body: ResumeBody, *, if_version: int | None = None) -> JobRow:
        """Fire by schedule again, from now on; `missed` says what becomes of what fell into the pause.

        Raises `Conflict` for a one-time job, and if more was missed than one request runs; `VersionConflict` as
        `cancel`."""
        if body.limit is not None and body.missed is not MissedMode.RUN_ALL:
            raise Invalid("limit belongs to run_all; leave it out, or send missed: run_all", pointer="/limit")
        row = await self._job(who, job_id)
        plan = decode_definition(row.definition)
        # What was closed is not made up for. Rules may change at any time, so a moment between two looks is no harm.
        rules = None
        if body.missed is not MissedMode.SKIP and row.status is JobStatus.PAUSED:
            rules = await self._rules(row.namespace, plan.calendars, row.labels)
        return await self._moved(
            who,
            job_id,
            lambda row, now: resume(row, decode_definition(row.definition), body, rules, now),
            if_version,
        )

    async def run_now(
        self, who: Principal, job_id: UUID, body: RunNowBody, receipt_for: ReceiptFor[UUID] | None = None
    ) -> UUID | Replay:
        """One run besides those of the schedule, whatever the job's standing; its id. Raises `Conflict` for a CANCELLED
        job."""
        row = await self._job(who, job_id)
        overlap = decode_plan(row.definition).overlap_of_asked() if body.overlap is UNSET else body.overlap
        payload = payload_of(body.payload, body.params)
        definition = None
        if payload is not None:
            definition = with_payload(row.definition, payload)
        now = await self._time.now()
        run = NewRun(
            run_id=run_id(job_id, now, Trigger.RUN_NOW, self._clock.noise(16)),
            due=now,
            trigger=Trigger.RUN_NOW,
            definition=definition,
            overlap=overlap,
        )
        receipt = receipt_for(run.run_id) if receipt_for is not None else None
        replay = await self._demand(row.namespace, job_id, (run,), receipt)
        return run.run_id if replay is None else replay

    async def _demand(
        self, namespace: str, job_id: UUID, runs: Sequence[NewRun], receipt: Receipt | None
    ) -> Replay | None:
        """Make runs that a person asked for; the earlier answer, if there is one under this receipt's key."""
        made = await self._surely(lambda: self._store.runs_add(namespace, job_id, runs, receipt=receipt))
        if isinstance(made, Replay):
            return made
        if not made:
            raise Conflict("the job is cancelled, for good; create a new one", code="job_cancelled")
        self._signals.send(Topic.RUNS)
        await self._announce(namespace, job_id, runs)
        return None

    async def _moved(
        self,
        who: Principal,
        job_id: UUID,
        plan: Callable[[JobRow, float], JobMove | None],
        if_version: int | None,
    ) -> JobRow:
        """Carry out what `plan` makes of the job as it is; made anew if somebody changed the job meanwhile, unless
        only one version will do."""
        for _ in range(RACES_MAX):
            row = await self._job(who, job_id)
            check_version(row, if_version)
            move = plan(row, await self._time.now())
            if move is None:
                return row
            try:
                row = await self._surely(lambda: self._store.job_move(move))  # noqa: B023 - awaited within the turn
            except VersionConflict:
                continue
            self._ring_all()
            return row
        raise Busy(CHANGED_TOO_OFTEN)

    def _ring_all(self) -> None:
        """A changed plan concerns everybody: there may be runs to take, timers to look at, runs to stop."""
        for topic in _OF_PLANS:
            self._signals.send(topic)


def check_version(row: JobRow, wanted: int | None) -> None:
    """Raise `VersionConflict` if a job is not at the version that is wanted; None: any will do."""
    if wanted is not None and row.version != wanted:
        raise VersionConflict(f"the job is at version {row.version} by now, not {wanted}; read it again, then decide")


def _cancel(row: JobRow, if_version: int | None) -> JobMove:
    # Its plan is to do nothing, whatever the definition says: only the caller may care for a version of it.
    return JobMove(
        namespace=row.namespace,
        job_id=row.job_id,
        action=JobAction.CANCEL,
        replan=silence(),
        expected_version=if_version,
    )


def _function(row: JobRow, definition: Definition) -> str | None:
    """The name of the function that it runs, if it runs one."""
    name = msgspec.json.decode(definition.task).get("name") if row.task_kind == "function" else None
    return name if isinstance(name, str) else None


def _task(row: JobRow, definition: Definition) -> CheckedTask:
    return CheckedTask(row.task_kind, definition.task, _function(row, definition))


def _zone_warning(body: JobBody, old: Definition, changed: Replanned | None) -> tuple[str, ...]:
    """A schedule is replaced as a whole, its zone included: who did not think of that reads it here."""
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
    """The next fires of a job as it stands."""
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
    """Those that are left before the schedule has made all its runs."""
    return fires if schedule.max_runs is None else fires[: max(0, schedule.max_runs - fired)]


def _unnamed(fires: Sequence[float], others: Sequence[float], other: Schedule) -> list[float]:
    """Those of `fires` that the other schedule, whose next fires are `others`, does not name.

    A list that was cut off says nothing of later times: then the schedule is asked.
    """
    if len(others) < COMPARED_FIRES:
        return [at for at in fires if at not in others]
    return [at for at in fires if at not in others and not fires_between(other, at - 1e-6, at, 1)]
