"""Jobs that are there: look up, change, cancel, pause, resume, run now."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from tickwise.domain import schedule as schedules
from tickwise.domain.errors import Busy, Conflict, Invalid, NotFound, VersionConflict
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal, Trigger, run_id
from tickwise.domain.schedule import Schedule
from tickwise.ports.signals import Topic
from tickwise.ports.store import (
    JobAction,
    JobChange,
    JobMove,
    JobQuery,
    JobRow,
    NewRun,
    Replan,
    Replay,
    RunQuery,
    RunRow,
)
from tickwise.roles.control.bodies import (
    SCHEDULE_FIELDS,
    BackfillMode,
    JobBody,
    PauseBody,
    ResumeBody,
    RunNowBody,
)
from tickwise.roles.control.composing import (
    ResolvedTask,
    check_texts,
    lane,
    not_offered,
    payload_of,
    policies,
    resolve_task,
    scheduled,
    unserved,
)
from tickwise.roles.control.core import ReceiptFor, clean_text
from tickwise.roles.control.planning import instant, replan, saved_schedule, schedule_of, silence, upcoming, words
from tickwise.roles.control.submits import Submits, Submitted
from tickwise.roles.control.tasks import CheckedTask
from tickwise.roles.definition import Definition, decode_definition, encode_definition

COMPARED_FIRES: Final = 20
MISSED_MAX: Final = 1_000
"""The most runs that one resume makes up for."""
RACES_MAX: Final = 5
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
    """… and those of `after` that the old one did not."""
    warnings: Sequence[str] = ()
    """What the change brings along and may not be meant."""


class Jobs(Submits):
    """Everything about jobs that exist."""

    async def job_get(self, who: Principal, job_id: UUID) -> JobRow:
        """One job. Raises `NotFound`."""
        return await self._job(who, job_id)

    async def job_by_key(self, who: Principal, key: str) -> JobRow:
        """One job, by its key. Raises `NotFound`."""
        row = None if "\0" in key else await self._store.job_by_key(who.namespace, key)
        if row is None:
            raise NotFound(f"there is no job with the key {key[:200]!r} in the namespace {who.namespace}")
        return row

    async def jobs_list(self, query: JobQuery) -> Sequence[JobRow]:
        """Newest first. The caller puts the principal's namespace into the query."""
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
        """Its latest run, if it has one. Raises `NotFound`."""
        await self._job(who, job_id)
        runs = await self._store.runs_list(RunQuery(namespace=who.namespace, job_id=job_id, limit=1))
        return runs[0] if runs else None

    # ------------------------------------------------------------------------------------------ change

    async def change(
        self,
        who: Principal,
        job_id: UUID,
        body: JobBody,
        *,
        if_version: int | None = None,
        dry_run: bool = False,
    ) -> Change:
        """Change the fields that were sent. A new schedule replaces the old one, its time zone included, and counts
        from now (SPEC A4).

        Raises `NotFound`, `Conflict`, `Invalid`, and `VersionConflict` if `if_version` is not the newest.
        """
        for _ in range(RACES_MAX):
            row = await self._job(who, job_id)
            if if_version is not None and row.version != if_version:
                raise VersionConflict(
                    f"the job has version {row.version} by now, not {if_version}; read it again, then decide"
                )
            try:
                return await self._change(who, row, body, dry_run=dry_run)
            except VersionConflict:
                # Without a version of the caller's, fields of two changes that meet are both applied.
                if if_version is not None:
                    raise
        raise Busy(CHANGED_TOO_OFTEN)

    async def upsert(
        self, who: Principal, key: str, body: JobBody, *, if_version: int | None = None
    ) -> Submitted | Change:
        """Change the job with this key, or create it. The key in the body, if any, must be the same."""
        clean_text(key, "/key")
        if body.key is not UNSET and body.key != key:
            raise Invalid("the key in the body is not the one in the path; leave it out", pointer="/key")
        body = msgspec.structs.replace(body, key=key)
        for _ in range(RACES_MAX):
            row = await self._store.job_by_key(who.namespace, key)
            if row is not None:
                return await self.change(who, row.job_id, body, if_version=if_version)
            if if_version is not None:
                raise VersionConflict("there is no job with this key yet, so it has no version; leave If-Match out")
            try:
                created = await self.submit(who, body)
            except Conflict as refusal:
                if refusal.code != "key_taken":
                    raise
            else:
                if isinstance(created, Submitted):
                    return created
        raise Busy("others keep taking and leaving this key; send the same again")

    async def _change(self, who: Principal, row: JobRow, body: JobBody, *, dry_run: bool) -> Change:
        if row.status is JobStatus.CANCELLED:
            raise Conflict("the job is cancelled, for good; create a new one", code="job_cancelled")
        if body.job_id and body.job_id != row.job_id:
            raise Invalid("a job keeps its job_id; leave it out", pointer="/job_id")
        check_texts(body)
        scene = await self._scene(who, (body,))
        old = decode_definition(row.definition)
        resolved = resolve_task(body, scene, self._check_task)
        task = resolved.task if resolved else _task(row, old)
        schedule = _new_schedule(body, old, scene.now)
        current = schedule or saved_schedule(old)
        definition = msgspec.structs.replace(old, **_changes(body, old, resolved, schedule))
        changed = JobChange(
            namespace=row.namespace,
            job_id=row.job_id,
            expected_version=row.version,
            name=clean_text(body.name or row.name, "/name"),
            key=row.key if body.key is UNSET else body.key,
            schedule_type=current.type.value,
            task_kind=task.kind,
            definition=encode_definition(definition),
            lane=lane(body, task, scene.offered, row.lane),
            labels=row.labels if body.labels is UNSET else body.labels or {},
            owner=row.owner if body.owner is UNSET else body.owner or who.name,
            replan=_replan_of(row, schedule, scene.now),
        )
        before = _fires(row, saved_schedule(old), scene.now)
        after = _fires_after(row, current, scene.now, replaced=schedule is not None)
        if not dry_run:
            row = await self._surely(lambda: self._store.job_change(changed))
            self._ring_all()
        return Change(
            row=row,
            before=before,
            after=after,
            removed=_unnamed(before, after, current),
            added=_unnamed(after, before, saved_schedule(old)),
            warnings=_zone_warning(body, old, schedule),
        )

    # ------------------------------------------------------------------------------------------ standing

    async def cancel(self, who: Principal, job_id: UUID, *, if_version: int | None = None) -> JobRow:
        """No further fire; free runs end, held ones are asked to stop; its key is free. Twice is once.

        Raises `NotFound`; `VersionConflict` if it is not at `if_version` any more."""
        return await self._moved(who, job_id, lambda row, _now: _cancel(row, if_version))

    async def pause(self, who: Principal, job_id: UUID, body: PauseBody) -> JobRow:
        """No fire by schedule until it is resumed, or until the given time. Raises `Conflict` for a one-time job."""
        if body.reason is not None:
            clean_text(body.reason, "/reason")
        return await self._moved(who, job_id, lambda row, now: _pause(row, body, now))

    async def resume(self, who: Principal, job_id: UUID, body: ResumeBody) -> JobRow:
        """Fire by schedule again, from now on; `missed` says what becomes of what fell into the pause."""
        return await self._moved(who, job_id, lambda row, now: _resume(row, body.missed, now))

    async def run_now(
        self, who: Principal, job_id: UUID, body: RunNowBody, receipt_for: ReceiptFor[UUID] | None = None
    ) -> UUID | Replay:
        """One run beside the schedule, whatever the job's standing; its id. Raises `Conflict` for a CANCELLED job."""
        row = await self._job(who, job_id)
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
        )
        return await self._demand(row.namespace, job_id, run, receipt_for)

    async def _demand(
        self, namespace: str, job_id: UUID, run: NewRun, receipt_for: ReceiptFor[UUID] | None
    ) -> UUID | Replay:
        receipt = receipt_for(run.run_id) if receipt_for is not None else None
        made = await self._surely(lambda: self._store.runs_add(namespace, job_id, run, receipt=receipt))
        if isinstance(made, Replay):
            return made
        if not made:
            raise Conflict("the job is cancelled, for good; create a new one", code="job_cancelled")
        self._signals.send(Topic.RUNS)
        return run.run_id

    async def _moved(self, who: Principal, job_id: UUID, plan: Callable[[JobRow, float], JobMove | None]) -> JobRow:
        """Carry out what `plan` makes of the job as it is; made anew if somebody changed the job meanwhile."""
        for _ in range(RACES_MAX):
            row = await self._job(who, job_id)
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
        for topic in Topic:
            self._signals.send(topic)


def _unnamed(fires: Sequence[float], others: Sequence[float], other: schedules.Schedule) -> list[float]:
    """Those of `fires` that the other schedule, whose next fires are `others`, does not name.

    Both lists end somewhere, so the schedule is asked, not the list; one that fires no more names none.
    """
    if not others:
        return list(fires)
    return [at for at in fires if not schedules.fires_between(other, at - 1e-6, at, 1)]


def _cancel(row: JobRow, if_version: int | None) -> JobMove:
    if if_version is not None and row.version != if_version:
        raise VersionConflict(
            f"the job is at version {row.version} by now, not {if_version}; read it again, then decide"
        )
    # Its plan is to do nothing, whatever the definition says: only the caller may care for a version of it.
    return JobMove(
        namespace=row.namespace,
        job_id=row.job_id,
        action=JobAction.CANCEL,
        replan=silence(recurring=False),
        expected_version=if_version,
    )


def _pause(row: JobRow, body: PauseBody, now: float) -> JobMove:
    schedule = _recurring(row, "paused")
    until = None if body.until is None else instant(body.until)
    if until is not None and until <= now:
        raise Invalid("until is in the past; give a time to come, or leave it out", pointer="/until")
    due = None if until is None else schedules.next_fire(schedule, until - 1e-6)
    return JobMove(
        namespace=row.namespace,
        job_id=row.job_id,
        action=JobAction.PAUSE,
        replan=silence(recurring=True, next_due=due),
        expected_version=row.version,
        reason=body.reason,
        until=until,
    )


def _resume(row: JobRow, mode: BackfillMode, now: float) -> JobMove | None:
    """None: it is not paused, so there is nothing to do."""
    schedule = _recurring(row, "resumed")
    if row.status is not JobStatus.PAUSED:
        return None
    since = now if row.paused_at is None else row.paused_at
    missed = tuple(
        NewRun(run_id=run_id(row.job_id, nominal, Trigger.MISSED), due=now, trigger=Trigger.MISSED)
        for nominal in _missed(schedule, since, now, mode)
    )
    return JobMove(
        namespace=row.namespace,
        job_id=row.job_id,
        action=JobAction.RESUME,
        replan=replan(schedule, row.job_id, now, missed),
        expected_version=row.version,
    )


def _recurring(row: JobRow, done: str) -> Schedule:
    """Its schedule, if it has one that goes on. Raises `Conflict`."""
    if row.status is JobStatus.CANCELLED:
        raise Conflict(f"the job is cancelled, so it cannot be {done}", code="job_cancelled")
    schedule = saved_schedule(decode_definition(row.definition))
    if not schedule.recurs:
        raise Conflict(
            f"the job runs once ({row.schedule_type}), only recurring jobs are {done}; change its schedule_time, "
            "or cancel it",
            code="job_not_recurring",
        )
    return schedule


def with_payload(definition: str, payload: msgspec.Raw) -> str:
    """The definition of a run that has its own payload."""
    return encode_definition(msgspec.structs.replace(decode_definition(definition), payload=payload))


def _function(row: JobRow, definition: Definition) -> str | None:
    """The name of the function that it runs, if it runs one."""
    name = msgspec.json.decode(definition.task).get("name") if row.task_kind == "function" else None
    return name if isinstance(name, str) else None


def _task(row: JobRow, definition: Definition) -> CheckedTask:
    return CheckedTask(row.task_kind, definition.task, _function(row, definition))


def _new_schedule(body: JobBody, old: Definition, now: float) -> Schedule | None:
    """The schedule that the body asks for; None if it says nothing of time."""
    if any(getattr(body, name) is not UNSET for name in SCHEDULE_FIELDS):
        return schedule_of(words(body), now)
    if body.timezone is UNSET:
        return None
    # The zone alone: the same times on another clock.
    schedule = saved_schedule(old)
    moved = dataclasses.replace(schedule, timezone=body.timezone or "UTC")
    schedules.check(moved)
    return moved if schedule.recurs else None


def _zone_warning(body: JobBody, old: Definition, schedule: Schedule | None) -> tuple[str, ...]:
    """A schedule is replaced as a whole, its zone included: who did not think of that reads it here."""
    if schedule is None or schedule.cron_expression is None or body.timezone or old.timezone == schedule.timezone:
        return ()
    return (
        f"the new schedule goes by {schedule.timezone}, the old one went by {old.timezone}: a new schedule replaces "
        f"the old one as a whole; send timezone with it to keep {old.timezone}",
    )


def _changes(
    body: JobBody, old: Definition, resolved: ResolvedTask | None, schedule: Schedule | None
) -> dict[str, Any]:
    found = policies(body)
    if resolved is not None:
        found.update(task=resolved.task.text, task_id=resolved.task_id, task_version=resolved.version)
    if schedule is not None:
        found.update(scheduled(schedule))
    elif body.timezone is not UNSET:
        found["timezone"] = body.timezone or "UTC"
    if schedule is not None or resolved is not None:
        of_schedule = schedules.warnings(schedule or saved_schedule(old))
        of_task = () if resolved is not None else _warnings_of_task(old)
        found["warnings"] = (*of_schedule, *of_task)
    return found


def _warnings_of_task(old: Definition) -> tuple[str, ...]:
    gone = set(schedules.warnings(saved_schedule(old)))
    return tuple(warning for warning in old.warnings if warning not in gone)


def _replan_of(row: JobRow, schedule: Schedule | None, now: float) -> Replan | None:
    if schedule is None:
        return None
    if row.status is not JobStatus.PAUSED:
        return replan(schedule, row.job_id, now)
    if not schedule.recurs:
        raise Conflict("the job is paused; resume it before you make it run once", code="job_paused")
    due = None if row.pause_until is None else schedules.next_fire(schedule, max(now, row.pause_until - 1e-6))
    return silence(recurring=True, next_due=due)


def _fires(row: JobRow, schedule: Schedule, now: float) -> list[float]:
    """The next fires of a job as it stands."""
    if row.status in (JobStatus.CANCELLED, JobStatus.PAUSED) or (not schedule.recurs and row.next_run_at is None):
        return []
    return [row.next_run_at or now] if not schedule.recurs else upcoming(schedule, now, COMPARED_FIRES)


def _fires_after(row: JobRow, schedule: Schedule, now: float, *, replaced: bool) -> list[float]:
    if not replaced or row.status is JobStatus.PAUSED:
        return _fires(row, schedule, now)
    if schedule.at is not None:
        return [schedule.at]
    return upcoming(schedule, now, COMPARED_FIRES)


def _missed(schedule: Schedule, since: float, now: float, mode: BackfillMode) -> Sequence[float]:
    """The nominal times of a pause that are made up for."""
    if mode is BackfillMode.SKIP:
        return ()
    if mode is BackfillMode.RUN_ALL:
        fires = schedules.fires_between(schedule, since, now, MISSED_MAX + 1)
        if len(fires) > MISSED_MAX:
            raise Conflict(
                f"more than {MISSED_MAX} occurrences were missed; resume with run_latest or skip", pointer="/missed"
            )
        return fires
    first = schedules.next_fire(schedule, since)
    if first is None or first > now:
        return ()
    # A decision for a timer that stood since then ends with the latest occurrence, however long the pause was.
    return schedules.decide(schedule, first, now, now, limit=10_000).fires[-1:]
