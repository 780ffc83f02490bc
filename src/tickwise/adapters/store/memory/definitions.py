"""Jobs and stored tasks: definitions, and their effects on timers and runs."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.ended.job_table import RestingJob
from tickwise.adapters.store.memory.operations import record_ended
from tickwise.adapters.store.memory.quotas import close_room, open_room
from tickwise.adapters.store.memory.records import JobRecord, RunRecord
from tickwise.adapters.store.memory.rows import LOOK_BUDGET, ROW_COST, paused
from tickwise.adapters.store.memory.state import Duty, after_pause
from tickwise.domain import selectors
from tickwise.domain.audit import AuditEntry
from tickwise.domain.decision import NEVER, PAUSED_SENTENCE, Overlap, SkipReason, TimerState
from tickwise.domain.errors import Conflict, VersionConflict
from tickwise.domain.lifecycle import CancelKind, JobStatus
from tickwise.domain.model import Trigger, place_of
from tickwise.domain.rules.requests import StopRequest, kept
from tickwise.ports.store import (
    CHANGED_FIELDS,
    Added,
    JobAction,
    JobChange,
    JobMove,
    JobQuery,
    JobRow,
    JobTransfer,
    NewJob,
    OccurrenceMove,
    Page,
    Receipt,
    Replan,
    Replay,
    StoredTask,
    check_newest,
    check_one_namespace,
    job_busy,
    key_taken_there,
    no_lane,
    page_within,
)
from tickwise.ports.store.placement import change_lasts, is_lasting, plan_lasts
from tickwise.ports.store.quotas import Cost, QuotaRoom, StoredJob, cost_of, cost_of_change, cost_of_transfer

STORED = frozenset({Added.CREATED, Added.REPEATED})


class Jobs(Duty):
    """`JobStore` of the port."""

    # ------------------------------------------------------------------------------------------- submits

    async def add(
        self, jobs: Sequence[NewJob], receipt: Receipt | None = None, *, whole: bool = False
    ) -> Sequence[Added] | Replay:
        check_one_namespace(jobs, receipt, whole=whole)
        if (replay := self._state.replay(receipt)) is not None:
            return replay
        rooms = {name: room for name in {job.namespace for job in jobs} if (room := open_room(self._state, name))}
        answers = list(self._judge(jobs, rooms))
        if not whole or STORED.issuperset(answers):
            self._store(jobs, answers, receipt)
            for namespace, room in rooms.items():
                close_room(self._state, namespace, room)
        return answers

    def _judge(self, jobs: Sequence[NewJob], rooms: Mapping[str, QuotaRoom]) -> Iterator[Added]:
        """The result for each, with those before it in the batch considered. `rooms`: of namespaces with quotas."""
        batch: dict[UUID, NewJob] = {}
        keys: set[tuple[str, str]] = set()
        refused = self._state.admit(
            (job.namespace, job.lane) for job in jobs if not self._state.is_closed(job.namespace)
        )
        for job in jobs:
            if (job.namespace, job.lane) in refused:
                yield Added.NO_LANE
                continue
            stored = self._state.jobs.get(job.job_id) or batch.get(job.job_id)
            key = None if job.key is None else (job.namespace, job.key)
            if stored is not None:
                same = stored.namespace == job.namespace and (not job.named or stored.digest == job.digest)
                yield Added.REPEATED if same else Added.ID_TAKEN
            elif self._state.is_closed(job.namespace):
                yield Added.CLOSING
            elif key is not None and (key in keys or self._state.jobs.by_key(*key) is not None):
                yield Added.KEY_TAKEN
            elif job.namespace in rooms and (lacking := rooms[job.namespace].take(cost_of(job))) is not None:
                yield lacking
            else:
                batch[job.job_id] = job
                if key is not None:
                    keys.add(key)
                yield Added.CREATED

    def _store(self, jobs: Sequence[NewJob], answers: Sequence[Added], receipt: Receipt | None) -> None:
        new = [job for job, answer in zip(jobs, answers, strict=True) if answer is Added.CREATED]
        for job in new:
            self._create(job)
        self._state.audit.write_jobs(new)
        if STORED.issuperset(answers):
            self._state.keep(receipt)

    def _create(self, new: NewJob) -> None:
        now = self._state.now()
        job = JobRecord(
            job_id=new.job_id,
            namespace=new.namespace,
            name=new.name,
            key=new.key,
            digest=new.digest,
            listed=place_of(new.job_id, now) if new.named else new.job_id,
            schedule_type=new.schedule_type,
            task_kind=new.task_kind,
            lane=new.lane,
            definition=new.definition,
            labels=dict(new.labels or {}),
            owner=new.created_by if new.owner is None else new.owner,
            created_by=new.created_by,
            created_at=now,
            updated_at=now,
            task_changed_at=now,
            recurring=new.recurring,
            lasting=is_lasting(new),
            calendars=frozenset(new.calendars),
            secrets=frozenset(new.secrets),
        )
        self._state.jobs[job.job_id] = job
        self._state.secret_uses.add(job)
        if job.key is not None:
            self._state.jobs.keyed[job.namespace, job.key] = job
        for run in new.missed:
            self._state.make(job, run)
        if not new.never:
            pending = TimerState(now if new.due is None else new.due)
            self._state.plan(job, pending, run_id=new.run_id, zone_data=new.zone_data)
        elif not new.missed:
            self._state.jobs.rest(job)

    # ------------------------------------------------------------------------------------------- looking up

    async def get(self, namespace: str, job: UUID | str) -> JobRow | None:
        jobs = self._state.jobs
        found = jobs.by_key(namespace, job) if isinstance(job, str) else jobs.get(job)
        return self._state.job_row(found) if found is not None and found.namespace == namespace else None

    # ------------------------------------------------------------------------------------------- changes

    async def change(self, change: JobChange, *, audit: AuditEntry | None = None) -> JobRow:
        if self._state.admit([(change.namespace, change.lane)]):
            raise no_lane(change.namespace)
        job = self._state.job(change.namespace, change.job_id)
        if job.standing is JobAction.CANCEL:
            raise Conflict(f"the job {job.job_id} is cancelled", code="job_cancelled")
        if job.version != change.expected_version:
            if job.version == change.expected_version + 1 and change.is_made(changed_fields(job)):
                return self._recorded(job, change)
            raise VersionConflict(f"the job is at version {job.version}, the change is for {change.expected_version}")
        if change.expected_paused not in (None, self._state.is_paused(job)):
            raise VersionConflict("the job was paused or resumed meanwhile; read it again, then decide")
        self._take_room(job, change)
        self._take_key(job, change.key)
        self._state.touch(job)
        job.lasting = job.lasting or change_lasts(change)
        job.name, job.schedule_type, job.task_kind = change.name, change.schedule_type, change.task_kind
        job.definition, job.lane = change.definition, change.lane
        job.labels, job.owner = dict(change.labels), change.owner
        job.calendars = frozenset(change.calendars)
        self._state.secret_uses.drop(job)
        job.secrets = frozenset(change.secrets)
        self._state.secret_uses.add(job)
        if change.task_changed:
            job.task_changed_at = job.updated_at
        if change.rate_changed:
            self._release_rate_slots(job)
        for run in job.runs.values():
            if run.overlap is Overlap.ALLOW and run.trigger == Trigger.SCHEDULE:
                run.settled = True  # the old schedule has decided about this fire; the new one does not change that
            run.lane = change.lane  # of a held one for its next attempt
            if not run.held:
                if run.waits_for_slot:
                    self._state.stop_waiting(run)
                else:
                    self._state.place(run)
        if change.replan is not None:
            self._replan(job, change.replan, postponed_after_seconds=change.postponed_after_seconds)
        self._state.audit.write(audit)
        return self._recorded(job, change)

    def _recorded(self, job: JobRecord, change: JobChange) -> JobRow:
        if change.operation is not None:
            record_ended(self._state, change.operation)
        return self._state.job_row(job)

    def _release_rate_slots(self, job: JobRecord) -> None:
        """Its free runs give up their slots under the rate that it had."""
        for run in job.runs.values():
            if run.slot is not None and not run.held:
                run.slot = run.rate_key = None
                run.ready = max(run.due, self._state.now())

    def _take_room(self, job: JobRecord, change: JobChange) -> None:
        if (room := open_room(self._state, job.namespace)) is not None:
            stored = StoredJob(job.lasting, job.timer is not None, bool(job.runs), len(job.definition.encode()))
            if (cost := cost_of_change(change, job.schedule_type, stored)) != Cost():
                room.demand(cost)
                close_room(self._state, job.namespace, room)

    def _take_key(self, job: JobRecord, key: str | None) -> None:
        keys = self._state.jobs.keyed
        taken = None if key is None else self._state.jobs.by_key(job.namespace, key)
        if taken is not None and taken is not job:
            raise Conflict(f"another job has the key {key!r}", pointer="/key", code="key_taken")
        if job.key is not None:
            del keys[job.namespace, job.key]
        job.key = key
        if key is not None:
            keys[job.namespace, key] = job

    async def move(self, move: JobMove | OccurrenceMove | JobTransfer, *, audit: AuditEntry | None = None) -> JobRow:
        if isinstance(move, JobTransfer):
            return self._transfer(move, audit)
        job = self._state.job(move.namespace, move.job_id)
        version = job.version
        if isinstance(move, OccurrenceMove):
            self._move_occurrence(job, move)
        else:
            self._move_job(job, move)
        if job.version != version:
            self._state.audit.write(audit)
        return self._state.job_row(job)

    def _move_occurrence(self, job: JobRecord, move: OccurrenceMove) -> None:
        state = self._state
        if job.standing is JobAction.CANCEL:
            raise Conflict(f"the job {job.job_id} is cancelled", code="job_cancelled")
        stands = None if job.timer is None else job.timer.pending
        if stands != move.expected:
            if self._is_repeat(move, is_there=stands == move.timer):
                return
            raise VersionConflict("the schedule has moved on; read the job again, then decide")
        state.move_timer(job, move.timer, zone_data=move.zone_data)
        if move.run is not None:
            state.make(job, move.run)
        for skip in move.passed:
            state.skip(job, skip)
        if move.skip is not None:
            state.skip(job, move.skip)
        state.touch(job)

    def _transfer(self, transfer: JobTransfer, audit: AuditEntry | None) -> JobRow:
        state, to = self._state, transfer.to
        there = state.jobs.get(transfer.job_id)
        if there is not None and (there.namespace, there.version) == (to, transfer.expected_version + 1):
            return state.job_row(there)
        job = state.job(transfer.namespace, transfer.job_id)
        state.check_open(to)
        if job.standing is JobAction.CANCEL:
            raise Conflict(f"the job {job.job_id} is cancelled", code="job_cancelled")
        if job.version != transfer.expected_version:
            raise VersionConflict(f"the job is at version {job.version}, the move is for {transfer.expected_version}")
        if job.runs or any(each.completion.run.job_id == job.job_id for each in state.completions.values()):
            raise job_busy(job.job_id)
        if job.key is not None and state.jobs.by_key(to, job.key) is not None:
            raise key_taken_there(to, job.key)
        if state.admit([(to, job.lane)]):
            raise no_lane(to)
        if (room := open_room(state, to)) is not None:
            room.demand(cost_of_transfer(job.definition))
            close_room(state, to, room)
        if job.key is not None:
            state.jobs.keyed[to, job.key] = state.jobs.keyed.pop((job.namespace, job.key))
        state.secret_uses.drop(job)
        job.namespace = to
        state.secret_uses.add(job)
        state.touch(job)
        state.ask_anew(job)
        state.audit.write(audit, transfer.arrival)
        return state.job_row(job)

    def _is_repeat(self, move: OccurrenceMove, *, is_there: bool) -> bool:
        """Check whether all effects of a move are in the store."""
        made = [each.run_id for each in (move.run, move.skip, *move.passed) if each is not None]
        return is_there and all(run_id in self._state.runs or run_id in self._state.ended for run_id in made)

    def _move_job(self, job: JobRecord, move: JobMove) -> None:
        if job.standing is JobAction.CANCEL and move.action is not JobAction.CANCEL:
            raise Conflict(f"the job {job.job_id} is cancelled", code="job_cancelled")
        if move.expected_version not in (None, job.version):
            if job.version - 1 != move.expected_version or not is_made(job, move):
                raise VersionConflict(f"the job is at version {job.version}, the plan is for {move.expected_version}")
        elif move.action is JobAction.CANCEL:
            self._cancel(job, move)
        elif move.action is JobAction.PAUSE:
            self._pause(job, move)
        elif self._state.is_paused(job):
            self._resume(job, move)

    def _pause(self, job: JobRecord, move: JobMove) -> None:
        self._state.pause(job, reason=move.reason, until=move.until, by=move.by)
        self._state.hold_timer(job, NEVER if move.until is None else move.until)
        now = self._state.now()
        for run in self._unstarted(job):
            postponed = is_postponed(run, move.postponed_after_seconds)
            if run.due <= now and not (postponed and not run.blocked and run.ready > now):
                continue
            if run.held:
                run.ask(self._pause_request(run, move.postponed_after_seconds))
            elif not postponed:
                self._state.end_skipped(run, SkipReason.PAUSED, PAUSED_SENTENCE)
            elif not run.blocked:
                self._hold_back(run)

    def _pause_request(self, run: RunRecord, postponed_after_seconds: float) -> StopRequest:
        """The request of a pause: a postponed run waits for the end of the pause, any other is skipped."""
        kind = CancelKind.RETURN if is_postponed(run, postponed_after_seconds) else CancelKind.REVOKE
        return StopRequest(kind, self._state.now(), PAUSED_SENTENCE, SkipReason.PAUSED)

    def _hold_back(self, run: RunRecord) -> None:
        """A free postponed run waits for the end of a pause from now on."""
        run.slot = run.rate_key = None
        run.ready = after_pause(run)
        self._state.place(run)

    def _resume(self, job: JobRecord, move: JobMove) -> None:
        plan = move.replan
        job.standing = job.paused_at = job.pause_reason = job.pause_until = job.paused_by = None
        self._state.touch(job)
        job.lasting = job.lasting or plan_lasts(job.job_id, plan)
        if plan.timer is not None and job.timer is not None:
            counted = plan.timer._replace(fired=job.timer.pending.fired, minute=None, in_minute=0)
            plan = replace(plan, timer=counted)
        after = move.postponed_after_seconds
        self._replan(job, plan, postponed=[run for run in self._unstarted(job) if is_postponed(run, after)])
        now = self._state.now()
        for run in self._unstarted(job):
            if is_postponed(run, after) and not run.held and not run.blocked and run.slot is None:
                run.ready = min(run.ready, max(now, run.due))
                self._state.place(run)

    def _cancel(self, job: JobRecord, move: JobMove) -> None:
        if job.standing is JobAction.CANCEL:
            return
        job.standing, job.paused_at = JobAction.CANCEL, None
        self._state.touch(job)
        if job.key is not None:
            del self._state.jobs.keyed[job.namespace, job.key]
            job.key = None
        self._state.drop_timer(job)
        request = StopRequest(CancelKind.CANCEL, job.updated_at, move.reason)
        for run in list(job.runs.values()):
            if run.held:
                run.ask(request)
            else:
                self._state.cancel(run, request)

    def _replan(
        self,
        job: JobRecord,
        plan: Replan,
        *,
        postponed: Collection[RunRecord] = (),
        postponed_after_seconds: float = math.inf,
    ) -> None:
        """The new plan in place of the old one, as `Replan` says; `postponed` runs stay."""
        state, now = self._state, self._state.now()
        paused = state.is_paused(job)
        job.recurring = plan.recurring
        state.drop_timer(job)
        keep_dues = {microseconds(due) for due in plan.keep_dues}
        for run in self._unstarted(job):
            if run.nominal <= now:
                continue
            stays = microseconds(run.nominal) in keep_dues or any(run is each for each in postponed)
            if not run.held:
                run.settled = False  # The new plan may put others before it.
                if not stays:
                    state.forget(run)
            elif stays:
                run.request = kept(
                    run.request, pause=self._pause_request(run, postponed_after_seconds) if paused else None
                )
            else:
                run.ask(StopRequest(CancelKind.REVOKE, now))
        for missed in plan.missed:
            state.make(job, missed)
        for skip in plan.skips:
            state.skip(job, skip)
        if plan.timer is not None:
            state.plan(job, plan.timer, run_id=plan.run_id, zone_data=plan.zone_data)

    def _unstarted(self, job: JobRecord) -> list[RunRecord]:
        """Its runs of the schedule that have not begun."""
        return [run for run in job.runs.values() if run.trigger == Trigger.SCHEDULE and not run.begun]


class JobSearches(Duty):
    """The searches for jobs."""

    async def jobs(self, query: JobQuery) -> Page[JobRow]:
        found: list[JobRow] = []
        budget, last = LOOK_BUDGET, None
        for job in self._may_match(query):
            if len(found) >= query.limit:
                break
            if budget <= 0 and query.may_pause and last is not None:
                return paused(page_within(found, query.bytes_most), last)
            last = job.listed
            budget -= ROW_COST if isinstance(job, RestingJob) else 1
            if not may_match(job, query):
                continue
            budget -= ROW_COST
            row = self._state.job_row(job)
            if (not query.statuses or row.status in query.statuses) and in_window(
                row.next_run_at, query.next_run_after, query.next_run_before
            ):
                found.append(row)
        return page_within(found, query.bytes_most)

    def _may_match(self, query: JobQuery) -> Iterator[JobRecord]:
        """The jobs that may match, those first that come first in a list."""
        jobs = self._state.jobs
        if query.key is not None:
            found = [jobs.by_key(query.namespace, query.key)]
        elif query.ids:
            found = [jobs.get(job_id) for job_id in set(query.ids)]
        else:
            return jobs.listed(query.namespace, query.before, resting=may_find_resting(query))
        mine = [
            job
            for job in found
            if job is not None
            and job.namespace == query.namespace
            and (query.before is None or job.listed < query.before)
        ]
        return iter(sorted(mine, key=lambda job: job.listed, reverse=True))


class Tasks(Duty):
    """`TaskStore` of the port."""

    # ------------------------------------------------------------------------------------------- tasks, receipts

    async def put(
        self,
        task: StoredTask,
        expected_version: int | None = None,
        *,
        again: bool = False,
        audit: AuditEntry | None = None,
    ) -> StoredTask:
        versions = self._state.tasks.get((task.namespace, task.task_id), [])
        self._state.check_open(task.namespace)
        check_newest(versions[-1] if versions else None, task, expected_version, again=again)
        is_new = not versions or versions[-1].digest != task.digest
        if is_new and (room := open_room(self._state, task.namespace)) is not None:
            room.demand(Cost(bytes=len(task.task.encode())))
        versions = self._state.tasks.setdefault((task.namespace, task.task_id), versions)
        if is_new:
            versions.append(replace(task, version=len(versions) + 1, created_at=self._state.now()))
            self._state.audit.write(audit)
        return versions[-1]

    async def get(self, namespace: str, task_id: str, version: int | None = None) -> StoredTask | None:
        versions = self._state.tasks.get((namespace, task_id), [])
        if version is None:
            return versions[-1] if versions else None
        return next((task for task in versions if task.version == version), None)

    async def versions(
        self, namespace: str, task_id: str, *, before: int | None, limit: int, bytes_most: int | None = None
    ) -> Page[StoredTask]:
        versions = self._state.tasks.get((namespace, task_id), [])
        found = [task for task in reversed(versions) if before is None or task.version < before]
        return page_within(found[:limit], bytes_most)

    async def page(
        self, namespace: str, after: str | None, limit: int, *, bytes_most: int | None = None
    ) -> Page[StoredTask]:
        newest = [versions[-1] for (owner, _), versions in self._state.tasks.items() if owner == namespace]
        newest.sort(key=lambda task: task.task_id)
        return page_within([task for task in newest if after is None or task.task_id > after][:limit], bytes_most)

    async def scripts(self) -> Sequence[tuple[str, str]]:
        found = set()
        for (namespace, _), versions in self._state.tasks.items():
            for version in versions:
                task = json.loads(version.task)
                if task["kind"] == "python" and "file" in task:
                    found.add((namespace, task["file"].removeprefix("sha256:")))
        return sorted(found)


class Receipts(Duty):
    """`ReceiptStore` of the port."""

    async def find(self, principal: str, route: str, key: str) -> Replay | None:
        return self._state.replay_of((principal, route, key))

    async def keep(self, receipt: Receipt) -> Replay | None:
        if (replay := self._state.replay(receipt)) is not None:
            return replay
        self._state.keep(receipt)
        return None


def is_postponed(run: RunRecord, after_seconds: float) -> bool:
    """Check whether a person gave a run of the schedule another time."""
    return run.due - run.nominal > after_seconds


def microseconds(instant: float) -> int:
    """An instant as it is compared with others."""
    return round(instant * 1_000_000)


def changed_fields(job: JobRecord) -> dict[str, object]:
    """The fields that a change sets."""
    return {name: getattr(job, name) for name in CHANGED_FIELDS}


def is_made(job: JobRecord, move: JobMove) -> bool:
    """Check whether a move is a repeat."""
    return move.is_made(job.standing, (job.pause_reason, job.pause_until, job.paused_by))


def may_find_resting(query: JobQuery) -> bool:
    """Check whether a job at rest can match: it has no calendar and no next run, and goes on no more."""
    goes_on = query.statuses and {JobStatus.SCHEDULED, JobStatus.PAUSED}.issuperset(query.statuses)
    bounds = query.calendar, query.next_run_after, query.next_run_before
    return not goes_on and all(each is None for each in bounds)


def may_match(job: JobRecord, query: JobQuery) -> bool:
    """Check the conditions of the search that stand in the job itself: all but its status and its next run, which
    follow from other rows and cost far more."""
    return (
        query.calendar in (None, *job.calendars)
        and all(
            wanted is None or wanted == found
            for wanted, found in (
                (query.key, job.key),
                (query.schedule_type, job.schedule_type),
                (query.task_kind, job.task_kind),
                (query.owner, job.owner),
            )
        )
        and (not query.ids or job.job_id in query.ids)
        and (query.name is None or query.name.casefold() in job.name.casefold())
        and query.labels.items() <= job.labels.items()
        and selectors.matches(job.labels, query.within)
    )


def in_window(instant: float | None, after: float | None, before: float | None) -> bool:
    """Check whether an instant is at or after the one and before the other; None is in no window with a bound."""
    if instant is None:
        return after is None and before is None
    return (after is None or instant >= after) and (before is None or instant < before)
