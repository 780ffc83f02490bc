"""The inputs of the history checker: four records of one period, each written apart from the others.

    Operation   what clients asked for and what they were told        by the load generator
    Change      each move of each run, in the move's own transaction  by a trigger, or by a wrapper around the store
    Execution   what the tasks themselves wrote, outside the system   by the tasks: an O_APPEND file, a list in memory
    Run         what the system says at the end                       by one read of history and active runs

and what nobody inside can know: `Target` (which occurrences there must be), `Fault` (what was done to the system, and
how much it held in flight), `Edge` (what follows what), `LeaseEnd` (until when an executor may begin anything).

Invariant: every instant of one history is on one clock, in Unix seconds. On one machine that is its own clock, read
where no test shifts it; a clock that a fault moves (a shim, a virtual node clock) must not reach witness or journal.

How each is filled:

- `Operation`: one per request, repeats of the same request each on their own, with the same `key`. OK: a positive
  answer came. FAIL: an answer came that says that nothing was done (refused, `StoreUnavailable`). INFO: everything
  else: no answer, a broken link, 503 in doubt. An operation that is still under way at the end is INFO.
- `RunChange`: `version` counts the changes of one run from 1 without a gap, under the run's row lock. The change that
  makes a run has `before` None; `after` None takes it away without a record (an asked-back run of a replaced plan).
  `token` is the one that the writer names: of a claim the new one; of what an executor reports the one in its report
  (not the one in the row: that is how a stale write shows); of what the store does by itself the row's, or 0.
  On PostgreSQL: an AFTER INSERT OR UPDATE OF state trigger on `runs` and an AFTER INSERT trigger on `history` (whose
  `before` and `token` are these); a deletion of a run that leaves no row of history is `after` None. A move to the same
  state (a run that is given another due time) is no change.
- `Execution`: one line when a task begins and one when it ends, joined by (run, token); `end` None: no second line.
- `Run`: from `history` and `runs`; the columns have these names. `key`: the Idempotency-Key of the request that made
  it, known from outside (the generator writes it into the job's name or payload), or None.
- `Fault`: `in_flight`: how many attempts the victim had begun and not yet reported at that instant, at most (a role
  that begins nothing: 0; the store: all of them, unless nothing should be run again because of it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import CRASHES_MAX


class RequestKind(StrEnum):
    """The kind of a client's request."""

    SUBMIT = "submit"
    RUN_NOW = "run-now"
    RETRY = "retry"
    """A person's retry of an ended run, or the redrive of a dead letter: another run."""
    CANCEL = "cancel"


class ClientAnswer(StrEnum):
    """The conclusion that a client may draw from an answer."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"
    """It was done, or not."""


class Operation(NamedTuple):
    """One request. NamedTuples here, because a history has millions of these."""

    asked: RequestKind
    answer: ClientAnswer
    begun: float
    ended: float | None = None
    """The time of the answer; None: none came."""
    key: str | None = None
    """The Idempotency-Key: requests with the same one, of the same kind, are one."""
    job_id: UUID | None = None
    """Of a submit: the job that was answered or that the client named; of the others whose job it is, if known."""
    run_id: UUID | None = None
    """Of RUN_NOW and RETRY: the run that was answered. Of CANCEL: the run that was to end. Of a submit: the run that
    must come of it, if that is known."""
    once: bool = True
    """Of a submit: exactly one run comes of it. False for a recurring job: `Target` says what comes of that."""
    state: RunState | None = None
    """Of a CANCEL: the run's state in the answer. A run that was answered to be CANCELLED stays so."""


class RunChange(NamedTuple):
    """One move of one run, as it was committed."""

    run_id: UUID
    version: int
    before: RunState | None
    after: RunState | None
    token: int = 0
    executor: int = 0
    """Of a claim, who claims; else who reports, or 0: the store by itself."""
    at: float = 0.0
    """The store's clock."""


class Execution(NamedTuple):
    """One time that a task really ran, as it says itself."""

    run_id: UUID
    token: int
    begin: float
    end: float | None = None
    job_id: UUID | None = None


class Run(NamedTuple):
    """The system's record of a run when all is over."""

    run_id: UUID
    job_id: UUID
    state: RunState
    trigger: int = Trigger.SCHEDULE
    due: float = 0.0
    nominal: float | None = None
    """None: `due`."""
    until: float | None = None
    """Of a skip that stands for several occurrences: the nominal time of the last."""
    started: float | None = None
    ended: float | None = None
    token: int = 0
    """Of the attempt whose outcome was accepted; 0: none was, or it is not known."""
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    reason: str | None = None
    origin: UUID | None = None
    key: str | None = None
    attempts_most: int | None = None
    """The number of failures that its job allows in all (`max_retries` + 1); None: not checked."""
    limit_key: str | None = None
    """The key of the concurrency limit that it is under (see `History.limits`)."""
    witnessed: bool = True
    """Its task writes `Execution`s, begin and end. False for tasks that cannot (HTTP to a stranger, a bad program)."""


class Target(NamedTuple):
    """An occurrence that must have had its run: one that began within [earliest, latest]."""

    job_id: UUID
    earliest: float
    latest: float
    skippable: bool = False
    """A record that it was skipped (overlap, misfire, a pause) will do as well."""


class Fault(NamedTuple):
    """A fault that was injected into the system."""

    kind: str
    """`kill`, `pause`, `partition`, `store`, …: for people."""
    at: float
    victim: str
    in_flight: int = 0
    executor: int | None = None
    """The victim's number, if it is an executor and that is known."""


class LeaseEnd(NamedTuple):
    """The last end of its lease that an executor can have known of: it begins nothing after."""

    executor: int
    at: float


class Edge(NamedTuple):
    """The successor of a run of a job that ended so: exactly one run of `successor`, whose origin it is."""

    job_id: UUID
    after: RunState
    """SUCCESS (`then`) or FAILED (`on_failure`)."""
    successor: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything known of one period. An input that is None was not watched, and its checks are left out."""

    runs: Sequence[Run]
    journal: Sequence[RunChange] | None = None
    """In any order; of each run by `version`."""
    operations: Sequence[Operation] = ()
    executions: Sequence[Execution] | None = None
    """All of them: a run with `witnessed` that succeeded without one is an error."""
    targets: Sequence[Target] | None = None
    """All of a job's occurrences, or none: a scheduled run of a job with targets that meets none is an error."""
    faults: Sequence[Fault] | None = None
    """None: how often things run again is counted, not judged. Empty: nothing may run again."""
    lease_ends: Sequence[LeaseEnd] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    """The most runs with this `limit_key` that may be running at the same time."""
    edges: Sequence[Edge] = ()
    stale_refused: int = 0
    """Results of old attempts that the store refused, as the wrapper or the logs say: shown among the counts."""
    calm: bool = True
    """All had time to end: what still lives is an error. False for a live system."""
    late_starts: bool = False
    """Judge also by the journal: nothing begins after its attempt was taken away. Only where nothing can stand still
    between an executor's last look at its lease and its task's first line (a virtual clock; no SIGSTOP)."""
    clock_slack: float = 0.0
    """Seconds by which instants of store, witness and client may differ."""
    crashes_most: int = CRASHES_MAX
