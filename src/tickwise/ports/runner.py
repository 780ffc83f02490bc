"""Run attempts of one or more task kinds on this machine, watch them, stop them.

    executor ──launch(batch)──► runner ──began(run)──► (recorded in batches)
             ──stop(run, why)──►        ──ended(run, ending)──► attempts_finish

Invariant: for every attempt that was launched, `ended` is called exactly once, whatever happens to its task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from uuid import UUID


class Assignment(NamedTuple):
    """One attempt to run now. Made by the executor from a claim; `base` tells a runner the store's clock."""

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
    output_limit_bytes: int

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of a run: what a task hands to other systems to be done once."""
        return str(self.run_id)


class Verdict(StrEnum):
    """How an attempt ended, as the runner saw it."""

    OK = "ok"
    FAILED = "failed"
    """May be tried again."""
    INVALID = "invalid"
    """Cannot succeed as it is: no retry."""
    CANCELLED = "cancelled"
    """It was stopped by request."""
    RELEASED = "released"
    """It never began and nobody is to blame: give it back."""
    UNOFFERED = "unoffered"
    """It never began, and cannot here, for now: give it back for a while, so that another executor may take it."""


class Ending(NamedTuple):
    """What became of one attempt. Instants are on the store's clock (`Now` below)."""

    verdict: Verdict
    started: float
    ended: float
    reason: str | None = None
    """For programs: `error`, `exit_code`, `timeout`, `output_limit`, `http_status`, `unknown_function`, `crashed`, …"""
    error: str | None = None
    result: str | None = None
    """JSON text, at most the result limit."""
    retry_after_seconds: float | None = None
    """What the task itself asked for (an HTTP `Retry-After`)."""


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
        """JSON Schema of the whole task object, `kind` included, for the API's description."""
        ...

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """The task with its defaults made explicit and unknown fields refused.

        Raises `Invalid` with a pointer relative to the task (`/url`), for a script that does not compile too.
        """
        ...


class Reports(Protocol):
    """What a runner tells its executor. Called on the event loop; must not block."""

    def began(self, run_id: UUID, started: float) -> None:
        """The task has been going on for a while; its start is worth recording. Never after `ended`; optional."""
        ...

    def ended(self, run_id: UUID, ending: Ending) -> None:
        """The attempt is over and nothing of it lives any more. Exactly once per attempt."""
        ...

    def ended_many(self, endings: Sequence[tuple[UUID, Ending]]) -> None:
        """The same for many at once, in the order in which they ended: one call for what came in one report."""
        ...


class Runner(Protocol):
    """Runs attempts of the kinds that it names."""

    @property
    def kinds(self) -> Sequence[TaskKind]:
        """The kinds that it runs."""
        ...

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Make ready. `now` is the store's clock as the executor knows it: never ahead of it."""
        ...

    def launch(self, assignments: Sequence[Assignment]) -> None:
        """Begin them all, in this order, as soon as there is a place for each. Returns at once."""
        ...

    def stop(self, run_id: UUID, *, grace_seconds: float) -> None:
        """Ask one to stop: TERM, after the grace KILL, of its whole process tree. Unknown ids are ignored.

        It ends with verdict CANCELLED, or RELEASED if it had not begun (or with what it reached before).
        """
        ...

    def offers(self) -> Sequence[str]:
        """The names of functions that can run here, for the executor's record. Empty if that is no question."""
        ...

    def labels(self) -> Sequence[str]:
        """What a run may require that can go on here: `task:KIND` for each kind, `function:NAME` for each function.

        Empty: nothing can run here for now, and nothing is claimed for it.
        """
        ...

    def release_waiting(self) -> None:
        """End as RELEASED whatever was launched and has not begun: the executor drains, or its lease is over."""
        ...

    async def close(self) -> None:
        """Kill what still lives, end every attempt, and free everything."""
        ...
