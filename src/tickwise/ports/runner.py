"""Run attempts of one or more task kinds on this machine, watch them, stop them.

    executor ──launch(batch)──► runner ──began(run)──► (recorded in batches)
             ──stop(run, why)──►        ──ended(run, ending)──► attempts.finish

Invariant: for every attempt that was launched, `ended` is called exactly once, for any end of its task.

The suites that adapters pass, also those of plugins: `tickwise.testing.contracts.runner` and the `runner_*` modules
beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable
from uuid import UUID

from tickwise.domain.observing.usage import ResourceUsage
from tickwise.domain.rules.confinement import PLAIN, Confinement
from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure


class TaskLimits(NamedTuple):
    """The resources that one attempt may use, with all processes that it starts. None: no limit.

    Each limit that is passed ends the attempt as FAILED with a reason of its own.
    """

    output_bytes: int
    """Of its output kept. Reason `output_limit`."""
    cpu_seconds: float | None = None
    """Processor time of the whole tree, user and system. Reason `cpu_limit`."""
    memory_bytes: int | None = None
    """Memory of the whole tree at once. Reason `memory_limit`."""
    processes: int | None = None
    """Processes and threads of the whole tree at once. Reason `process_limit`."""
    disk_bytes: int | None = None
    """Of a disk, that its work folder and its temporary files take at once. Reason `disk_limit`."""
    files: int | None = None
    """Files and folders there at once. Reason `file_limit`."""

    @property
    def is_free(self) -> bool:
        """Only its output is limited, so no other resource need be watched."""
        return self[1:] == _FREE


_FREE: Final = (None,) * (len(TaskLimits._fields) - 1)
NO_SECRETS: Final[Mapping[str, bytes]] = MappingProxyType({})


class Assignment(NamedTuple):
    """One attempt to run now. Made by the executor from a claim. Its instants are on the store's clock.

    Its `task` is shared by all runs with the same definition: a runner reads it, and changes nothing in it.
    """

    run_id: UUID
    token: int
    job_id: UUID
    namespace: str
    attempt: int
    due: float
    nominal: float
    task: Mapping[str, Any]
    """The normalised task, `kind` included."""
    payload: bytes
    """JSON text of the payload, as it was submitted."""
    timeout_seconds: float | None
    """An attempt that runs for so long is ended as FAILED with the reason `timeout`. None: it may run for ever."""
    limits: TaskLimits
    names_errors: bool = False
    """Its job has rules for exceptions by name: a script tells which one ended it, which costs 1 ms of its start."""
    traceparent: str | None = None
    """The trace that the task goes on in, in the form of W3C Trace Context: valid, or None. A runner hands it to the
    task."""
    tracestate: str | None = None
    confinement: Confinement = PLAIN
    """The confinement of its task."""
    secrets: Mapping[str, bytes] = NO_SECRETS
    """The values of its references (`domain.secrets.references`), by the text of each as the task has it,
    `secret:NAME`. A runner hands them to the task alone, and never puts one into arguments, logs, errors, results or
    the kept output."""
    identity_token: str | None = None
    """The signed token that tells clouds which run the task is; None: its job asks for none."""

    @property
    def idempotency_key(self) -> str:
        """One key for all attempts of a run: a task hands it to other systems, which then do a thing once."""
        return str(self.run_id)


class Verdict(StrEnum):
    """The end of an attempt, as the runner saw it."""

    OK = "ok"
    FAILED = "failed"
    """May be tried again."""
    INVALID = "invalid"
    """Cannot succeed as it is: no retry."""
    CANCELLED = "cancelled"
    """It was stopped by request."""
    RELEASED = "released"
    """It never began, through no fault of the task: give it back."""
    UNOFFERED = "unoffered"
    """It never began, and cannot here, for now: give it back for a while, so that another executor may take it."""
    UNKNOWN = "unknown"
    """It began and nothing of it lives any more, but its outcome is lost through no fault of the task: the job's
    `on_unknown` decides. `error` says how it was lost."""


class Ending(NamedTuple):
    """The end of one attempt. Instants are on the store's clock (`Now` below)."""

    verdict: Verdict
    started: float
    ended: float
    reason: str | None = None
    """For programs: `error`, `exit_code`, `timeout`, `output_limit`, `http_status`, `unknown_function`, `crashed`, …"""
    error: str | None = None
    result: str | None = None
    """JSON text, at most the result limit."""
    retry_after_seconds: float | None = None
    """The delay that the task itself asked for (an HTTP `Retry-After`); of an UNOFFERED one, for how long it cannot be
    here."""
    symptoms: tuple[str, ...] = ()
    """The exact causes of the failure, the most special first, for rules of retrying: an exit code as text ("2"), an
    HTTP status ("503"), or the names of an exception's classes, its own first, each qualified and short
    ("decimal.InvalidOperation", "InvalidOperation", "decimal.DecimalException", …); with the reason `circuit_open`, the
    host."""
    usage: ResourceUsage | None = None
    """The resources that it used, as far as the kernel counted them for this attempt alone."""


class TaskKind(Protocol):
    """A strategy for one kind of task: what it may say, checked when a job is submitted.

    Plugins register theirs under the entry point group `tickwise.task_kinds`.
    """

    @property
    def name(self) -> str:
        """The `kind` that names it."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the whole task, for the API's description: an object that names each field, requires `kind`, a
        constant, and allows no other fields."""
        ...

    @property
    def limits(self) -> Collection[str]:
        """The fields of `TaskLimits` that its runner can hold a task to; a job that sets another one is refused."""
        ...

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """The task with its defaults made explicit and unknown fields refused. The argument stays as it is. A checked
        task is JSON, and a further check changes nothing in it.

        Raises `Invalid` with a pointer relative to the task (`/url`), and nothing else for any JSON object. It is
        called on the event loop, with a text that anybody may have sent: its work grows with the length of that text
        and no faster.
        """
        ...


@runtime_checkable
class RenewingRunner(Protocol):
    """A runner whose tasks may live longer than their identity tokens. Optional."""

    def renew_identity_token(self, run_id: UUID, token: str) -> None:
        """Let the task of this run find another token where it found the first one. Called while the run is launched;
        one that has ended meanwhile is no error. Does not block."""
        ...


@runtime_checkable
class KindWithReasons(Protocol):
    """A task kind that names all reasons of its own. Optional: of a kind without them, any reason is possible."""

    @property
    def reasons(self) -> Collection[str]:
        """The reasons with which a task of this kind can fail, beside those of `domain.retry.FAILURES`. A job with a
        rule for another reason is refused."""
        ...


@runtime_checkable
class KindWithEnvironments(Protocol):
    """A task kind whose tasks may declare an environment. Optional."""

    def environment_of(self, namespace: str, task: Mapping[str, Any], script: str | None) -> EnvironmentDemand | None:
        """The environment that a checked task declares, from wheels; None: it declares none. `script`: the text of the
        stored script that it names; None: it names none. Raises `Invalid` for a declaration that cannot be read. Its
        work grows with the length of the texts and no faster."""
        ...


class ScriptFinding(NamedTuple):
    """The result of checking the syntax of a script."""

    error: str | None = None
    """The error of the compiler, with the line; None: it compiles, or that is not known."""
    unchecked: str | None = None
    """The reason that the check was not possible."""


class ScriptCheck(Protocol):
    """Looks at the syntax of Python scripts, apart from the process that asks, and within limits."""

    async def look(self, sources: Sequence[str]) -> Sequence[ScriptFinding]:
        """One finding for each source, in their order. Returns within seconds. No text of a source makes it raise."""
        ...

    async def close(self) -> None:
        """Free everything. A later look begins anew. May be called again."""
        ...


class Reports(Protocol):
    """The reports of a runner to its executor. Called on the event loop; must not block."""

    def began(self, run_id: UUID, started: float) -> None:
        """The task has been going on for a while; its start is worth recording. At most once per attempt, never after
        `ended`; optional."""
        ...

    def ended(self, run_id: UUID, ending: Ending) -> None:
        """The attempt is over and nothing of it lives any more. Exactly once per attempt."""
        ...

    def ended_many(self, endings: Sequence[tuple[UUID, Ending]]) -> None:
        """Report many ends at once, in their order: one call for all that came in one report."""
        ...


@runtime_checkable
class PreparingRunner(Protocol):
    """A runner that can do part of the work before an attempt is due. Optional for a runner."""

    def prepare(self, assignment: Assignment) -> None:
        """The executor holds this attempt and will launch it at its due time, unless it is revoked before. Returns at
        once. What is prepared serves later attempts too, and nothing of the task begins."""
        ...


@runtime_checkable
class WarmingRunner(Protocol):
    """A runner that builds the environments that its tasks declare. Optional for a runner."""

    async def warm(self, demand: EnvironmentDemand) -> EnvironmentFailure | None:
        """Build it if it is not there, at low priority and without a slot; the reason that it is not there, or None.
        Raises nothing. One call at a time."""
        ...


class Runner(Protocol):
    """Runs attempts of the kinds that it names.

    The output of a task is stored as the attempt's log (`ports/blobs.py`, `log_prefix`), up to the attempt's limit,
    before `ended` is called. An attempt whose output could not be stored ends as FAILED with the reason `output_lost`,
    unless it failed by itself. A task without output leaves no log.
    """

    @property
    def kinds(self) -> Sequence[TaskKind]:
        """The kinds that it runs."""
        ...

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Make ready. `now` is the store's clock as the executor knows it: never ahead of it."""
        ...

    def launch(self, assignments: Sequence[Assignment]) -> None:
        """Begin them all, in this order, as soon as there is a place for each. Returns at once.

        After `close`, each ends as RELEASED."""
        ...

    def stop(self, run_id: UUID, *, grace_seconds: float) -> None:
        """Ask one to stop: TERM, after the grace KILL, of its whole process tree. Unknown ids are ignored.

        It ends with verdict CANCELLED, or RELEASED if it had not begun (or with what it reached before). After several
        calls for one run, the grace that ends first counts.
        """
        ...

    def offers(self) -> Sequence[str]:
        """The names of functions that can run here, for the executor's record. Empty if it runs no functions."""
        ...

    def labels(self) -> Sequence[str]:
        """The labels that a run may require to go on here: `task:KIND` for each kind, in the order of `kinds`; then, if
        there are functions, `function:*` and `function:NAME` for each one, in the order of `offers`; then what it can
        surround a task with (`domain.rules.confinement`): `isolation:sandbox`, `resource:NAME`, `run_as:NAME`.

        Empty: nothing can run here for now, and nothing is claimed for it. It is asked for before every claim.
        """
        ...

    def release_waiting(self) -> None:
        """End as RELEASED all attempts that were launched and have not begun: the executor drains, or its lease is
        over."""
        ...

    async def close(self) -> None:
        """Kill every task, end every attempt (CANCELLED if it had begun, else RELEASED), and free everything.

        May be called again."""
        ...
