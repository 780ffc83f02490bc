"""Makers of valid values, so that a test names only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import count
from typing import Any
from uuid import UUID

from tickwise.domain.decision import NEVER, Hold, SkipReason, TimerState
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import DEFAULT_NAMESPACE, Claimed, Lane, Outcome, Trigger, run_id, time_id
from tickwise.domain.stops import Stop, StopScope
from tickwise.ports.store import (
    Fire,
    JobAction,
    JobChange,
    JobMove,
    JobRow,
    NewExecutor,
    NewJob,
    NewOperation,
    NewRun,
    NewSkip,
    OccurrenceMove,
    QueueHold,
    Receipt,
    Replan,
    RuleKind,
    RuleRow,
    StoredTask,
)

EMPTY_DIGEST = b"\0" * 32
_NUMBERS = count(1_000_001)
NOTHING_MORE = Replan(recurring=True, timer=None)
EVERYTHING_STOPPED = StopScope()


class Factory:
    """Jobs, runs and the rest around one instant, `now`: the store's clock when the test began. Repeatable ids."""

    def __init__(self, now: float, *, namespace: str = DEFAULT_NAMESPACE, seed: str = "") -> None:
        self.now = now
        self.namespace = namespace
        self._seed = seed
        self._numbers = count(1)

    def random_bytes(self) -> bytes:
        """Ten bytes, other ones at each call."""
        return blake2b(f"{self._seed}/{self.namespace}/{next(self._numbers)}".encode(), digest_size=10).digest()

    def identifier(self, ahead_seconds: float = 0.0) -> UUID:
        """A time id."""
        return time_id(round((self.now + ahead_seconds) * 1000), self.random_bytes())

    def job(self, due: float | None = None, **fields: Any) -> NewJob:
        """A one-time job, due at once unless `due` says otherwise."""
        job_id = fields.get("job_id") or self.identifier()
        given: dict[str, Any] = {
            "job_id": job_id,
            "namespace": self.namespace,
            "name": "nightly clean-up",
            "schedule_type": "IMMEDIATE" if due is None else "FUTURE",
            "task_kind": "shell",
            "definition": '{"schedule_type":"IMMEDIATE","task":{"kind":"shell","command":"true"}}',
            "lane": Lane(),
            "created_by": "ada",
            "recurring": False,
            "run_id": run_id(job_id, self.now if due is None else due),
            "due": due,
        }
        return NewJob(**{**given, **fields})

    def recurring(self, due: float, **fields: Any) -> NewJob:
        """A job with a schedule, whose first fire is at `due`."""
        return self.job(due, **{"schedule_type": "CRON", "recurring": True, "run_id": None, **fields})

    def run(self, job_id: UUID, due: float | None = None, **fields: Any) -> NewRun:
        """A run that a person asks for."""
        at = self.now if due is None else due
        trigger = fields.pop("trigger", Trigger.RUN_NOW)
        request = b"" if trigger is Trigger.SCHEDULE else self.random_bytes()
        return NewRun(**{"run_id": run_id(job_id, at, trigger, request), "due": at, "trigger": trigger, **fields})

    def scheduled(self, job_id: UUID, due: float | None = None, **fields: Any) -> NewRun:
        """A run that a schedule names."""
        nominal = fields.get("nominal")
        at = self.now if due is None else due
        named = at if nominal is None else nominal
        return NewRun(**{"run_id": run_id(job_id, named), "due": at, "trigger": Trigger.SCHEDULE, **fields})

    def skip(self, job_id: UUID, nominal: float | None = None, **fields: Any) -> NewSkip:
        """One occurrence of a schedule that does not run."""
        at = self.now if nominal is None else nominal
        given: dict[str, Any] = {
            "run_id": run_id(job_id, at),
            "nominal": at,
            "until": at,
            "occurrences": 1,
            "reason": SkipReason.MISFIRE,
            "error": "nobody was there to fire it",
        }
        return NewSkip(**{**given, **fields})

    def fire(self, job_id: UUID, due: float, timer: float | TimerState | None, **fields: Any) -> Fire:
        """A decision for a timer: one run, and where the timer goes."""
        goes = TimerState(timer) if isinstance(timer, float | int) else timer
        runs = [self.scheduled(job_id, due)]
        return Fire(**{"job_id": job_id, "due": due, "timer": goes, "runs": runs, **fields})

    def plan(self, timer: float | TimerState | None = None, **fields: Any) -> Replan:
        """The plan of a recurring job: fire next at this time."""
        goes = TimerState(timer) if isinstance(timer, float | int) else timer
        return Replan(**{"recurring": True, "timer": goes, **fields})

    def change(self, row: JobRow, *, replan: Replan | None = None, **fields: Any) -> JobChange:
        """A change of a stored job in what `fields` names."""
        kept = (
            "namespace",
            "job_id",
            "name",
            "key",
            "schedule_type",
            "task_kind",
            "definition",
            "lane",
            "labels",
            "owner",
        )
        same = {name: getattr(row, name) for name in kept}
        return JobChange(**{**same, "expected_version": row.version, "replan": replan, **fields})

    def move(self, job_id: UUID, action: JobAction, replan: Replan = NOTHING_MORE, **fields: Any) -> JobMove:
        """A pause, resume or cancel."""
        return JobMove(**{"namespace": self.namespace, "job_id": job_id, "action": action, "replan": replan, **fields})

    def occurrence(self, job_id: UUID, expected: TimerState, timer: TimerState | None, **fields: Any) -> OccurrenceMove:
        """The next occurrence of a job is moved or skipped: the timer goes from `expected` to `timer`."""
        given = {"namespace": self.namespace, "job_id": job_id, "expected": expected, "timer": timer}
        return OccurrenceMove(**{**given, **fields})

    def receipt(self, **fields: Any) -> Receipt:
        """An answer under an Idempotency-Key of its own."""
        given: dict[str, Any] = {
            "principal": "ada",
            "route": "POST /jobs",
            "key": f"{self._seed}-{next(self._numbers)}",
            "body_digest": EMPTY_DIGEST,
            "status": 201,
            "body": b'{"job_id": "x"}',
        }
        return Receipt(**{**given, **fields})

    def rule(self, name: str = "holidays", kind: RuleKind = RuleKind.CALENDAR, **fields: Any) -> RuleRow:
        """A calendar or window; version and instants are the store's to give."""
        given: dict[str, Any] = {"namespace": self.namespace, "body": '{"entries":[]}', "created_by": "ada"}
        return RuleRow(**{"kind": kind, "name": name, **given, **fields})

    def operation(self, **fields: Any) -> NewOperation:
        """Something to be done to everything that a filter matches."""
        given: dict[str, Any] = {
            "operation_id": self.identifier(),
            "namespace": self.namespace,
            "kind": "runs:cancel",
            "request": '{"filter":{"all":true}}',
            "created_by": "ada",
            "matched": 3,
        }
        return NewOperation(**{**given, **fields})

    def hold(self, queue: str = "default", **fields: Any) -> QueueHold:
        """A queue stands still, from now on and until somebody resumes it."""
        given: dict[str, Any] = {"namespace": self.namespace, "begin": None, "until": None}
        return QueueHold(**{**given, "queue": queue, "reason": "the database moves", "by": "ada", **fields})

    def stop(self, scope: StopScope = EVERYTHING_STOPPED, **fields: Any) -> Stop:
        """A stop of an hour from now on."""
        given: dict[str, Any] = {"namespace": self.namespace, "begin": self.now, "until": self.now + 3600.0}
        named = {"stop_id": self.identifier(), "scope": scope, "reason": "the database moves", "by": "ada"}
        return Stop(**{**given, **named, **fields})

    def task(self, **fields: Any) -> StoredTask:
        """A stored task; version and creation are the store's to give."""
        given: dict[str, Any] = {
            "namespace": self.namespace,
            "task_id": "clean-up",
            "version": 0,
            "name": "Clean up",
            "task": '{"kind":"shell","command":"true"}',
            "digest": "0" * 64,
            "created_by": "ada",
            "created_at": 0.0,
        }
        return StoredTask(**{**given, **fields})


def executor(name: str = "one", **fields: Any) -> NewExecutor:
    """An executor of the default queue with a lease of ten seconds, and a number above those made before here."""
    given: dict[str, Any] = {
        "number": next(_NUMBERS),
        "name": name,
        "queues": ("default",),
        "labels": (),
        "functions": (),
        "slots": 16,
        "lease_seconds": 10.0,
    }
    return NewExecutor(**{**given, **fields})


def held(since: float, due: float = NEVER, hold: Hold = Hold.PAUSED, **fields: Any) -> TimerState:
    """A timer that is held back."""
    return TimerState(**{"due": due, "since": since, "hold": hold, **fields})


def outcome(claimed: Claimed, state: RunState = RunState.SUCCESS, **fields: Any) -> Outcome:
    """The outcome of a claimed attempt: half a second of work, begun when it was claimed or due."""
    started = max(claimed.now, claimed.due)
    given: dict[str, Any] = {
        "run_id": claimed.run_id,
        "token": claimed.token,
        "state": CODES[state],
        "started": started,
        "ended": started + 0.5,
    }
    return Outcome(**{**given, **fields})


def outcomes(claims: Sequence[Claimed], state: RunState = RunState.SUCCESS) -> list[Outcome]:
    """An outcome of one state for each claim."""
    return [outcome(claimed, state) for claimed in claims]
