"""One line in the log for the start of an attempt, one for its end; of very many, the failures and how many there were.

    launched ──► run_started     job, run, attempt, executor, how late
    ended    ──► run_ended       … outcome, how long it took
             ──► run_failed      … and of what
    flush    ──► runs_unlogged   how many lines the bound left out

Invariant: at a high rate an attempt costs no line. Lines are bounded, failures by a bound of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from tickwise.domain.lifecycle import STATES, RunState
from tickwise.domain.model import Outcome
from tickwise.observability.log_budget import LogBudget
from tickwise.ports.clock import Clock
from tickwise.roles.executor.held_runs import HeldRun
from tickwise.roles.executor.lease import Lease

ERROR_LENGTH: Final = 200
"""Characters of an error in a line; the whole is on record."""
FAILURES: Final = frozenset({RunState.FAILED, RunState.RETRYING})

logger = structlog.get_logger("tickwise.runs")


class RunLog:
    """Of one executor."""

    def __init__(self, clock: Clock, lease: Lease, per_second: int) -> None:
        """`per_second` bounds the lines of starts, of ends and of failures, each."""
        self._lease = lease
        self._starts = LogBudget(per_second, clock.monotonic)
        self._ends = LogBudget(per_second, clock.monotonic)
        self._failures = LogBudget(max(per_second, 1), clock.monotonic)

    @property
    def starts_room(self) -> int:
        """The number of start lines that may be written now."""
        return self._starts.room()

    @property
    def ends_room(self) -> int:
        """The number of end lines that may be written now."""
        return self._ends.room()

    def launched(self, batch: Sequence[HeldRun], count: int, now: float) -> None:
        """A runner gets so many attempts; `batch`: the first of them, as many as there may be lines of."""
        for held in batch[: self._starts.take(count, len(batch))]:
            claimed = held.claimed
            logger.info(
                "run_started",
                namespace=claimed.namespace,
                job_id=str(claimed.job_id),
                run_id=str(claimed.run_id),
                attempt=claimed.attempt,
                executor=self._lease.number,
                late_seconds=round(max(0.0, now - claimed.due), 3),
                trace_id=held.trace_id,
            )

    def succeeded(self, batch: Sequence[tuple[HeldRun, float]], count: int) -> None:
        """Log that `count` runs succeeded; `batch`: the first of them, as many as there may be lines of, each with its
        seconds."""
        for held, seconds in batch[: self._ends.take(count, len(batch))]:
            self._ended(held, RunState.SUCCESS, seconds, None)

    def ended(self, held: HeldRun, outcome: Outcome) -> None:
        """This one is over, or failed and is tried again."""
        claimed = held.claimed
        state = STATES[outcome.state]
        seconds = outcome.ended - (outcome.started or outcome.ended)
        if state is RunState.SUCCESS:
            self.succeeded([(held, seconds)], 1)
        elif state is RunState.CANCELLED and self._ends.take():
            self._ended(held, state, seconds, outcome.reason)
        elif state in FAILURES and self._failures.take():
            logger.warning(
                "run_failed",
                namespace=claimed.namespace,
                job_id=str(claimed.job_id),
                run_id=str(claimed.run_id),
                attempt=claimed.attempt,
                executor=self._lease.number,
                outcome=state.value,
                seconds=round(seconds, 3),
                reason=outcome.reason,
                error=(outcome.error or "")[:ERROR_LENGTH],
                trace_id=held.trace_id,
            )

    def _ended(self, held: HeldRun, state: RunState, seconds: float, reason: str | None) -> None:
        claimed = held.claimed
        logger.info(
            "run_ended",
            namespace=claimed.namespace,
            job_id=str(claimed.job_id),
            run_id=str(claimed.run_id),
            attempt=claimed.attempt,
            executor=self._lease.number,
            outcome=state.value,
            reason=reason,
            seconds=round(seconds, 3),
            trace_id=held.trace_id,
        )

    def flush(self) -> None:
        """Say how many lines were left out, if any were."""
        starts, ends, failures = (budget.left_out() for budget in (self._starts, self._ends, self._failures))
        if starts or ends or failures:
            logger.info("runs_unlogged", executor=self._lease.number, started=starts, succeeded=ends, failed=failures)
