"""A server in memory, for tests: it takes jobs of tasks, and runs them when the test says so.

    submit ──► jobs ──run_due──► attempts of all that is due by the clock, the earliest first ──► runs

It knows the parts of the API that tasks and schedules use: keys, labels, times, `every`, `cron`, `max_retries`,
cancels. A retry is due at once, or when `RetryLater` says. Overlap, limits and calendars are the server's own business:
try those on a server. Cron lines are read by the server's package; tests of those need `tickwise` installed beside this
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from tickwise_sdk.errors import ProblemError, RetryLater
from tickwise_sdk.schedules import seconds_of
from tickwise_sdk.submitting import FINAL, NO_CLIENTS, clients_in_use, replace_clients
from tickwise_sdk.testing.clock import VirtualClock
from tickwise_sdk.testing.inline import TaskRun, context_for, run_into

if TYPE_CHECKING:
    from typing_extensions import Self

    from tickwise_sdk import types

USUAL_RETRIES: Final = 3
"""The `max_retries` of a job that says none."""
MAX_ATTEMPTS_OF_ONE_CALL: Final = 100_000
"""A schedule that never lets a `run_due` end is a mistake of the test."""


@dataclass
class MemoryRun:
    """A run in memory."""

    job_id: str
    task: str
    payload: Any
    nominal_time: datetime
    due_time: datetime
    run_id: str = field(default_factory=lambda: str(uuid4()))
    status: str = "QUEUED"
    attempt: int = 0
    result: Any = None
    output: str = ""
    """That of the newest attempt."""
    progress: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    error: BaseException | None = None
    """The error of the newest attempt that failed."""

    def view(self) -> types.RunView:
        """The parts of the answer of a server that programs look at."""
        view = {
            "run_id": self.run_id,
            "job_id": self.job_id,
            "status": self.status,
            "attempt_number": self.attempt,
            "nominal_time": self.nominal_time.isoformat(),
            "due_time": self.due_time.isoformat(),
            "result": self.result,
            "error_message": None if self.error is None else f"{type(self.error).__name__}: {self.error}",
            "reason": None if self.error is None else "error",
        }
        return cast("types.RunView", view)


@dataclass
class _Job:
    """A job in memory."""

    body: dict[str, Any]
    job_id: str
    status: str
    next_at: datetime | None
    runs: list[MemoryRun] = field(default_factory=list[MemoryRun])

    @property
    def task(self) -> str:
        return str(self.body["task"]["name"])

    @property
    def max_retries(self) -> int:
        """The number of its own, else that of the server."""
        said = self.body.get("max_retries")
        return USUAL_RETRIES if said is None else int(said)


class MemoryServer:
    """Jobs and runs in memory. In a `with` block it is the client of every `submit` that names none."""

    def __init__(self, now: datetime | None = None) -> None:
        """`now`: the time at which the test begins; 2026-01-01 00:00 UTC if none is given."""
        self.clock = VirtualClock() if now is None else VirtualClock(now)
        self.runs: list[MemoryRun] = []
        """Every run, in the order in which they ended or were last tried."""
        self._jobs: dict[str, _Job] = {}
        self._before = NO_CLIENTS

    def __enter__(self) -> Self:
        self._before = clients_in_use()
        replace_clients(self, AsyncMemoryServer(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        replace_clients(*self._before)

    # ---------------------------------------------------------------------------------- running

    def run_due(self) -> list[MemoryRun]:
        """Run all that is due by the clock, the earliest first, with its retries, and what tasks submit meanwhile.
        Gives the runs that ended. Errors of tasks are on their runs."""
        ended: list[MemoryRun] = []
        for _ in range(MAX_ATTEMPTS_OF_ONE_CALL):
            job = self._next_due()
            if job is None:
                return ended
            run = self._attempt(job)
            if run.status in FINAL:
                ended.append(run)
        raise RuntimeError(
            f"{MAX_ATTEMPTS_OF_ONE_CALL} attempts are due by {self.clock.now().isoformat()}: is it a long way?"
        )

    def advance(self, amount: timedelta | None = None, **parts: float) -> list[MemoryRun]:
        """Move the clock on, by an amount or by `hours=3`, from due time to due time, and run what is due at each."""
        until = self.clock.now() + (amount or timedelta()) + timedelta(**parts)
        ended = self.run_due()
        while (moment := min((job.next_at for job in self._jobs.values() if job.next_at), default=None)) is not None:
            if moment > until:
                break
            self.clock.move_to(max(moment, self.clock.now()))
            ended += self.run_due()
        self.clock.move_to(until)
        return ended

    def _next_due(self) -> _Job | None:
        due = [job for job in self._jobs.values() if job.next_at is not None and job.next_at <= self.clock.now()]
        return min(due, key=lambda job: cast("datetime", job.next_at), default=None)

    def _attempt(self, job: _Job) -> MemoryRun:
        due = cast("datetime", job.next_at)
        run = job.runs[-1] if job.runs and job.runs[-1].status == "RETRYING" else None
        if run is None:
            run = MemoryRun(job.job_id, job.task, job.body.get("payload"), due, due)
            job.runs.append(run)
        else:
            self.runs.remove(run)
        self.runs.append(run)
        run.attempt += 1
        run.status = "RUNNING"
        job.next_at = None
        done = TaskRun()
        try:
            run_into(done, run.task, run.payload, context_for(at=run.nominal_time, attempt=run.attempt))
        except Exception as error:  # noqa: BLE001 - a task may raise anything
            run.error = error
            self._failed(job, run, error)
        else:
            run.status, run.result = "SUCCESS", done.result
        run.output, run.progress = done.output, done.progress
        if run.status in FINAL and job.status == "SCHEDULED":
            job.next_at = self._following(job, run.nominal_time)
            if job.next_at is None:
                job.status = "COMPLETED" if run.status == "SUCCESS" else "FAILED"
        return run

    def _failed(self, job: _Job, run: MemoryRun, error: Exception) -> None:
        permanent = getattr(error, "__tickwise_permanent__", False) is True
        if permanent or run.attempt > job.max_retries or job.status == "CANCELLED":
            run.status = "FAILED"
            return
        pause = error.retry_after_seconds if isinstance(error, RetryLater) else 0.0
        run.status, job.next_at = "RETRYING", self.clock.now() + timedelta(seconds=pause)

    def _following(self, job: _Job, after: datetime) -> datetime | None:
        """The next occurrence after one."""
        body = job.body
        seconds = body.get("interval_seconds") or (seconds_of(body["every"]) if body.get("every") else None)
        if seconds:
            return after + timedelta(seconds=float(seconds))
        line = body.get("cron") or body.get("cron_expression")
        return _cron(str(line), str(body.get("timezone") or "UTC"), after) if line else None

    # ---------------------------------------------------------------------------------- the API

    def create_job(self, body: types.JobBody) -> types.JobCreated:
        """Store a job. Raises `ProblemError` for a key that another one has."""
        job = self._made(dict(body))
        return {"job_id": job.job_id}

    def create_jobs(self, body: list[types.JobBody], *, atomic: bool | None = None) -> types.BatchView:
        """Store jobs; of an `atomic` batch all, or none."""
        del atomic  # a job is refused for its key alone, and that of a batch of calls has none
        results = [{"status": 201, "job_id": self._made(dict(each)).job_id} for each in body]
        return cast("types.BatchView", {"created": len(results), "refused": 0, "results": results})

    def get_job_by_key(self, key: str) -> types.JobView:
        """The job that has the key. Raises `ProblemError` (404)."""
        return _job_view(self._by_key(key))

    def get_job_status(self, job_id: str) -> types.StatusView:
        """The latest run of a job, after what is due has run."""
        self.run_due()
        runs = self._jobs[job_id].runs
        return cast("types.StatusView", {"job_id": job_id, "latest_run": runs[-1].view() if runs else None})

    def list_jobs(
        self, *, label: Sequence[str] | None = None, status: Any = None, limit: int | None = None
    ) -> Iterator[types.JobView]:
        """Jobs with all of the labels and one of the states."""
        del limit
        wanted = dict(each.split("=", 1) for each in label or ())
        for job in list(self._jobs.values()):
            labels: dict[str, str] = job.body.get("labels") or {}
            if all(labels.get(name) == value for name, value in wanted.items()) and (
                not status or job.status in status
            ):
                yield _job_view(job)

    def upsert_job(self, key: str, body: types.JobChangeBody) -> types.JobView:
        """Store the job that has the key, or change it."""
        try:
            job = self._by_key(key)
        except ProblemError:
            return _job_view(self._made({**body, "key": key}))
        job.body.update(body)
        job.status, job.next_at = "SCHEDULED", self._first(job.body)
        return _job_view(job)

    def cancel_job(self, job_id: str) -> Any:
        """Cancel a job."""
        job = self._jobs[job_id]
        job.status, job.next_at = "CANCELLED", None
        return _job_view(job)

    def _made(self, body: dict[str, Any]) -> _Job:
        key = body.get("key")
        if key is not None and any(job.body.get("key") == key for job in self._jobs.values()):
            raise ProblemError(
                409, {"code": "key_taken", "detail": f"the key {key!r} belongs to another job", "pointer": "/key"}
            )
        job = _Job(body, str(uuid4()), "SCHEDULED", self._first(body))
        self._jobs[job.job_id] = job
        return job

    def _first(self, body: Mapping[str, Any]) -> datetime | None:
        """The first time at which a job is due."""
        at = body.get("schedule_time") or body.get("at")
        if at is not None:
            return datetime.fromisoformat(str(at).replace("Z", "+00:00"))
        if body.get("schedule_type") == "IMMEDIATE":
            return self.clock.now()
        return self._following(_Job(dict(body), "", "", None), self.clock.now())

    def _by_key(self, key: str) -> _Job:
        for job in self._jobs.values():
            if job.body.get("key") == key:
                return job
        raise ProblemError(404, {"code": "not_found", "detail": f"there is no job with the key {key!r}"})


class AsyncMemoryServer:
    """A `MemoryServer` for `submit_async`."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    async def create_job(self, body: types.JobBody) -> types.JobCreated:
        """As `MemoryServer.create_job`."""
        return self._server.create_job(body)

    async def get_job_by_key(self, key: str) -> types.JobView:
        """As `MemoryServer.get_job_by_key`."""
        return self._server.get_job_by_key(key)

    async def get_job_status(self, job_id: str) -> types.StatusView:
        """As `MemoryServer.get_job_status`."""
        return self._server.get_job_status(job_id)


def _job_view(job: _Job) -> types.JobView:
    """The parts of the answer of a server that programs look at."""
    body = {name: value for name, value in job.body.items() if name not in ("cron", "every")}
    found: dict[str, Any] = {
        "labels": {},
        "payload": None,
        **body,
        "job_id": job.job_id,
        "key": job.body.get("key"),
        "status": job.status,
        "cron_expression": job.body.get("cron") or job.body.get("cron_expression"),
        "interval_seconds": seconds_of(job.body["every"])
        if job.body.get("every")
        else job.body.get("interval_seconds"),
        "next_run_at": None if job.next_at is None else job.next_at.isoformat(),
    }
    return cast("types.JobView", found)


def _cron(line: str, zone: str, after: datetime) -> datetime | None:
    """The next time of a cron line, as the server reads it."""
    try:
        schedule = import_module("tickwise.domain.schedule")
    except ImportError:
        raise LookupError(
            f"the cron line {line!r} is read by the server's package: install `tickwise` beside the SDK for this test, "
            "or declare the schedule with `every`"
        ) from None
    said = schedule.Schedule(schedule.ScheduleType.CRON, cron_expression=line, timezone=zone)
    found = schedule.next_fire(said, after.timestamp())
    return None if found is None else datetime.fromtimestamp(found, after.tzinfo)
