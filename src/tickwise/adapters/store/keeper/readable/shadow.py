"""`Shadow`: the little of a state that names its rows, and the rows that its changes are.

    job      its namespace, its timer's time, the hours in which it has runs
    run      its job; of an active one the attempt that is under way
    bucket   how many runs (entries of the audit log) an hour has: with the last one its partition goes as a whole

A row of an ended run that is past its retention stays until the last one of its partition is: so a partition ends with
one tombstone, and no read meets many. A run that leaves without a record (a fire that was taken back) is deleted.

Invariant: the shadow follows from the state, not from the way to it. Two projectors that read the same entries name the
same rows, also if they began at different checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any, Final
from uuid import UUID

from tickwise.adapters.store.keeper.readable.columns import (
    NOTHING_OF_LIVE_RUNS,
    Columns,
    attempt_columns,
    audit_columns,
    ended_columns,
    job_columns,
    millis,
    new_job_columns,
    new_run_columns,
    run_columns,
    without_nothing,
)
from tickwise.adapters.store.keeper.readable.pending import PendingRows
from tickwise.adapters.store.keeper.readable.tables import (
    ATTEMPTS,
    AUDIT,
    AUDIT_HOURS,
    DUE,
    JOBS,
    RUN_HOURS,
    RUNS,
    due_part,
    hour_of,
    hour_of_run,
    job_part,
    run_part,
)
from tickwise.adapters.store.keeper.readable.window import (
    AUDIT_PATH,
    ENDED_PATH,
    JOBS_PATH,
    RUNS_PATH,
    Change,
    Changes,
)
from tickwise.adapters.store.keeper.tables import TimerImage
from tickwise.adapters.store.keeper.tracking import FIELDS, FRESH, GONE, WHOLE
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.domain.lifecycle import HELD, RunState
from tickwise.ports.audit import AuditRow
from tickwise.ports.store import AttemptRow

_ATTEMPT_FIELDS: Final = frozenset({"state", "attempt", "token", "executor", "dispatched", "started", "attempts"})
_ATTEMPT_NEEDS: Final = {"state": RunState.QUEUED, "attempt": 0, "token": 0, "executor": None, "attempts": ()}


_NO_HOURS: Final[dict[int, int]] = {}
"""Of all jobs that had no run yet: most of them, where timers are many. Nothing is put in."""


class KnownJob:
    """The part of a job that names its rows."""

    __slots__ = ("due", "hours", "job_id", "namespace")

    def __init__(self, job_id: UUID, namespace: str) -> None:
        self.job_id = job_id
        self.namespace = intern(namespace)
        self.due: int | None = None
        self.hours: dict[int, int] = _NO_HOURS
        """The number of its runs in the state, by hour."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Of its row."""
        return self.namespace, job_part(self.job_id), self.job_id

    def bucket(self, hour: int) -> tuple[Any, ...]:
        """The partition of its runs of that hour."""
        return self.namespace, hour, run_part(self.job_id)


class KnownRun:
    """The part of an active run that names its rows."""

    __slots__ = ("attempt", "dispatched", "executor", "job", "recorded", "started", "state", "token")

    def __init__(self, job: KnownJob) -> None:
        self.job = job
        self.state: RunState = RunState.QUEUED
        self.attempt = self.token = 0
        self.executor: int | None = None
        self.dispatched: float | None = None
        self.started: float | None = None
        self.recorded: tuple[int, ...] = ()
        """The tokens of the attempts that are on record."""

    @property
    def claimed(self) -> int | None:
        """The token of the attempt that is under way."""
        return self.token if self.state in HELD else None


class Shadow:
    """The shadow of the state of one shard. Changes go to `pending`, unless that is None."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.pending: PendingRows | None = None
        self.jobs: dict[UUID, KnownJob] = {}
        self.former: dict[tuple[UUID, str], KnownJob] = {}
        """Jobs as they were in a namespace that they left, or before they went, while that has runs of them."""
        self.runs: dict[UUID, KnownRun] = {}
        self.ended: dict[UUID, KnownJob] = {}
        self.audit: dict[int, tuple[str, int]] = {}
        """The namespace and the hour of each entry."""
        self.buckets: Counter[tuple[Any, ...]] = Counter()
        self.audit_hours: Counter[tuple[str, int]] = Counter()
        self._touched: set[tuple[Any, ...]] = set()
        """The buckets that lost a run in this entry."""

    # ------------------------------------------------------------------------------------------- what comes in

    def take_rows(self, path: str, rows: Mapping[Any, Any], position: int) -> None:
        """Rows of a table of a checkpoint."""
        self.take({path: {key: (WHOLE, value) for key, value in rows.items()}}, position)

    def take(self, tables: Changes, position: int) -> None:
        """Take the outcome for each key. What comes is taken before what goes: so a run that ends stays in its bucket,
        and its job is known."""
        none: Mapping[Any, Change] = {}
        jobs, runs = tables.get(JOBS_PATH, none), tables.get(RUNS_PATH, none)
        ended, audit = tables.get(ENDED_PATH, none), tables.get(AUDIT_PATH, none)
        for job_id, change in jobs.items():
            if change[0] != GONE:
                self._put_job(job_id, change, position)
        for run_id, (how, value) in ended.items():
            if how != GONE:
                self._put_ended(run_id, value, position)
        for run_id, change in runs.items():
            if change[0] != GONE:
                self._put_run(run_id, change, position)
        for run_id, (how, _) in ended.items():
            if how == GONE:
                self._retire(run_id, position)
        for run_id, (how, _) in runs.items():
            if how == GONE:
                self._forget(run_id, position)
        for number, (how, row) in audit.items():
            if how == GONE:
                self._retire_entry(number, position)
            else:
                self._put_entry(row, position)
        for job_id, (how, _) in jobs.items():
            if how == GONE:
                self._drop_job(job_id, position)
        self._drop_buckets(position)

    # ------------------------------------------------------------------------------------------- jobs

    def _put_job(self, job_id: UUID, change: Change, position: int) -> None:
        how, fields = change
        job = self.jobs.get(job_id)
        if job is None:
            if "namespace" not in fields:
                return  # a checkpoint that is newer than this entry has it no more
            job = self.jobs[job_id] = self._job_of(job_id, fields["namespace"])
        elif fields.get("namespace", job.namespace) != job.namespace:
            self._drop_job(job_id, position)
            job = self.jobs[job_id] = self._job_of(job_id, fields["namespace"])
            self.former.pop((job_id, job.namespace), None)
        whole = how != FIELDS
        if self.pending is not None:
            columns = new_job_columns(fields) if how == FRESH else job_columns(fields, whole=whole)
            if columns:
                self.pending.put(JOBS, job.key, position, columns, is_fresh=how == FRESH)
        if whole or "timer" in fields:
            self._put_timer(job, fields.get("timer"), position)

    def _job_of(self, job_id: UUID, namespace: str) -> KnownJob:
        """The job in this namespace, where it may have been before."""
        job = self.jobs.get(job_id)
        if job is not None and job.namespace == namespace:
            return job
        return self.former.get((job_id, namespace)) or KnownJob(job_id, namespace)

    def _put_timer(self, job: KnownJob, timer: TimerImage | None, position: int) -> None:
        due = None if timer is None else millis(timer.pending.due)
        before, job.due = job.due, due
        if self.pending is None:
            return
        if before is not None and before != due:
            self.pending.delete(DUE, self._due_key(job, before), position)
        if due is not None and timer is not None:
            hold = timer.pending.hold
            columns: Columns = {"hold": None if hold is None else str(hold)}
            fresh = before != due
            if fresh:
                columns = without_nothing(columns)
            self.pending.put(DUE, self._due_key(job, due), position, columns, is_fresh=fresh)

    def _due_key(self, job: KnownJob, due: int) -> tuple[Any, ...]:
        return self.shard, hour_of(due), due_part(job.job_id), due, job.namespace, job.job_id

    def _drop_job(self, job_id: UUID, position: int) -> None:
        job = self.jobs.pop(job_id, None)
        if job is None:
            return
        if self.pending is not None:
            self.pending.delete(JOBS, job.key, position)
            if job.due is not None:
                self.pending.delete(DUE, self._due_key(job, job.due), position)
            for hour in job.hours:  # one of them was known by the job's row alone
                self.pending.put(RUN_HOURS, (job.namespace, job.job_id, hour), position, {})
        job.due = None
        if job.hours:
            self.former[job_id, job.namespace] = job

    # ------------------------------------------------------------------------------------------- runs

    def _put_run(self, run_id: UUID, change: Change, position: int) -> None:
        how, fields = change
        run = self.runs.get(run_id)
        if run is None:
            job = self.jobs.get(fields["job"]) if "job" in fields else None
            if job is None:
                return  # as of a job
            run = self.runs[run_id] = KnownRun(job)
            self._enter(run.job, run_id, position)
        whole = how != FIELDS
        if self.pending is not None:
            columns = new_run_columns(fields) if how == FRESH else run_columns(fields, whole=whole)
            if columns:
                self.pending.put(RUNS, self._run_key(run.job, run_id), position, columns, is_fresh=how == FRESH)
        if whole:
            fields = {**_ATTEMPT_NEEDS, "dispatched": None, "started": None, **fields}
        if not _ATTEMPT_FIELDS.isdisjoint(fields):
            self._put_attempt(run_id, run, fields, position)

    def _put_attempt(self, run_id: UUID, run: KnownRun, fields: Mapping[str, Any], position: int) -> None:
        """The attempt that is under way: with the token, this is the claim."""
        before = run.claimed
        for name in ("state", "attempt", "token", "executor", "dispatched", "started"):
            if name in fields:
                setattr(run, name, fields[name])
        attempts: Sequence[AttemptRow] = fields.get("attempts", ())
        self._put_recorded(run_id, run.job, run.recorded, attempts, position)
        if "attempts" in fields:
            run.recorded = tuple(each.token for each in attempts)
        now = run.claimed
        if now in run.recorded:
            # The checkpoint was newer than this entry: the end of the attempt comes once more.
            run.recorded = tuple(each for each in run.recorded if each != now)
        if now is not None and run.executor is not None and self.pending is not None:
            columns: Columns = {
                "attempt": run.attempt,
                "executor": run.executor,
                "state": str(run.state),
                "dispatched_at": millis(run.dispatched),
                "started_at": millis(run.started),
            }
            fresh = now != before
            if fresh:
                columns = without_nothing(columns)
            self.pending.put(ATTEMPTS, self._attempt_key(run.job, run_id, now), position, columns, is_fresh=fresh)
        if before is not None and before != now:
            self._end_claim(run_id, run.job, before, run.recorded, position)

    def _put_recorded(
        self, run_id: UUID, job: KnownJob, before: Sequence[int], attempts: Sequence[AttemptRow], position: int
    ) -> None:
        if self.pending is None:
            return
        for each in attempts:
            if each.token not in before:
                key = self._attempt_key(job, run_id, each.token)
                self.pending.put(ATTEMPTS, key, position, attempt_columns(each))

    def _end_claim(self, run_id: UUID, job: KnownJob, token: int, recorded: Sequence[int], position: int) -> None:
        """A claim that was given back before it began, and is not on record."""
        if token not in recorded and self.pending is not None:
            self.pending.delete(ATTEMPTS, self._attempt_key(job, run_id, token), position)

    def _put_ended(self, run_id: UUID, ended: EndedRun, position: int) -> None:
        row, run = ended.row, self.runs.get(run_id)
        job = self._job_of(row.job_id, row.namespace)
        if job is not self.jobs.get(row.job_id):
            self.former[row.job_id, row.namespace] = job
        if run_id not in self.ended:
            self.ended[run_id] = job
            self._enter(job, run_id, position)
        if self.pending is None:
            return
        columns = ended_columns(ended)
        if run is None:
            bucket = job.bucket(hour_of_run(run_id))
            self.pending.add(RUNS, bucket, (row.job_id, run_id), position, columns)
            for each in ended.attempts:
                key = row.job_id, run_id, each.token
                self.pending.add(ATTEMPTS, bucket, key, position, attempt_columns(each))
            return
        written = self.pending.put(RUNS, self._run_key(job, run_id), position, {**NOTHING_OF_LIVE_RUNS, **columns})
        if written.is_new and written.columns is not None:
            written.columns = without_nothing(written.columns)
        self._put_recorded(run_id, job, run.recorded, ended.attempts, position)
        if run.claimed is not None:
            self._end_claim(run_id, job, run.claimed, [each.token for each in ended.attempts], position)

    def _retire(self, run_id: UUID, position: int) -> None:
        """A run that is past its retention: its row goes with its bucket."""
        job = self.ended.pop(run_id, None)
        if job is not None:
            self._leave(job, run_id, position)

    def _forget(self, run_id: UUID, position: int) -> None:
        """An active run goes: it has ended, or it was taken back."""
        run = self.runs.pop(run_id, None)
        if run is None:
            return
        if run_id not in self.ended and self.pending is not None:
            self.pending.delete(RUNS, self._run_key(run.job, run_id), position)
            tokens = run.recorded if run.claimed is None else (*run.recorded, run.claimed)
            for token in tokens:
                self.pending.delete(ATTEMPTS, self._attempt_key(run.job, run_id, token), position)
        self._leave(run.job, run_id, position)

    def _run_key(self, job: KnownJob, run_id: UUID) -> tuple[Any, ...]:
        return *job.bucket(hour_of_run(run_id)), job.job_id, run_id

    def _attempt_key(self, job: KnownJob, run_id: UUID, token: int) -> tuple[Any, ...]:
        return *self._run_key(job, run_id), token

    # ------------------------------------------------------------------------------------------- hours and buckets

    def _enter(self, job: KnownJob, run_id: UUID, position: int) -> None:
        hour = hour_of_run(run_id)
        known = job.hours.get(hour, 0)
        if not known and self.pending is not None:
            if not job.hours and self.jobs.get(job.job_id) is job:
                self.pending.put(JOBS, job.key, position, {"first_hour": hour})
            else:
                self.pending.put(RUN_HOURS, (job.namespace, job.job_id, hour), position, {}, is_fresh=True)
        if job.hours is _NO_HOURS:
            job.hours = {}
        job.hours[hour] = known + 1
        self.buckets[job.bucket(hour)] += 1

    def _leave(self, job: KnownJob, run_id: UUID, position: int) -> None:
        hour = hour_of_run(run_id)
        left = job.hours.get(hour, 1) - 1
        if left:
            job.hours[hour] = left
        else:
            job.hours.pop(hour, None)
            if self.pending is not None:
                self.pending.delete(RUN_HOURS, (job.namespace, job.job_id, hour), position)
                if not job.hours and self.jobs.get(job.job_id) is job:
                    self.pending.put(JOBS, job.key, position, {"first_hour": None})
            if not job.hours:
                self.former.pop((job.job_id, job.namespace), None)
        bucket = job.bucket(hour)
        self.buckets[bucket] -= 1
        if not self.buckets[bucket]:
            self._touched.add(bucket)

    def _drop_buckets(self, position: int) -> None:
        for bucket in self._touched:
            if not self.buckets[bucket]:
                del self.buckets[bucket]
                if self.pending is not None:
                    self.pending.drop(RUNS.group, bucket, position)
        self._touched.clear()

    # ------------------------------------------------------------------------------------------- audit

    def _put_entry(self, row: AuditRow, position: int) -> None:
        place = row.namespace, hour_of(millis(row.at) or 0)
        if row.entry not in self.audit:
            self.audit[row.entry] = place
            self.audit_hours[place] += 1
            if self.audit_hours[place] == 1 and self.pending is not None:
                self.pending.put(AUDIT_HOURS, place, position, {}, is_fresh=True)
        if self.pending is not None:
            columns = without_nothing(audit_columns(row))
            self.pending.put(AUDIT, (*place, row.entry), position, columns, is_fresh=True)

    def _retire_entry(self, number: int, position: int) -> None:
        place = self.audit.pop(number, None)
        if place is None:
            return
        self.audit_hours[place] -= 1
        if not self.audit_hours[place]:
            del self.audit_hours[place]
            if self.pending is not None:
                self.pending.drop(AUDIT.group, place, position)
                self.pending.delete(AUDIT_HOURS, place, position)
