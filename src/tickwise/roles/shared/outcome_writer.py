"""Tells the store how attempts ended, and the metrics and schedulers what the store took of it.

    outcomes ──► attempts.finish ──► accepted: counted, sequences are woken
                      │        └──► refused as stale: counted
                      └── Bug: by halves, until the one that cannot be stored is alone, and ends as `invalid`

Invariant: one outcome that cannot be stored takes no other with it. Telling twice is telling once.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import structlog

from tickwise.domain.errors import Bug, TooLarge
from tickwise.domain.lifecycle import CODES, FINAL, RunState
from tickwise.domain.model import BELOW_MILLIS, Outcome
from tickwise.domain.observing.usage import NO_USAGE, UsageByRun
from tickwise.domain.retry import BEGUN_UNTOLD
from tickwise.domain.trace_context import NO_TRACES, TracesByRun
from tickwise.observability.tracing import Tracer
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import AttemptStore, Began
from tickwise.roles.shared.record_spans import recording
from tickwise.roles.shared.service import Telemetry

_SUCCESS: Final = CODES[RunState.SUCCESS]
_FAILED: Final = CODES[RunState.FAILED]
_RETRYING: Final = CODES[RunState.RETRYING]
ENDED: Final = frozenset(CODES[state] for state in FINAL)

logger = structlog.get_logger("tickwise.executor")


class OutcomeWriter:
    """Writes the outcomes of one process to the store."""

    def __init__(
        self, attempts: AttemptStore, telemetry: Telemetry, signals: Signals, tracer: Tracer | None = None
    ) -> None:
        """`signals` wake the schedulers after a batch with an end that other jobs follow. `tracer` records the writes
        of attempts that are recorded."""
        self._attempts = attempts
        self._telemetry = telemetry
        self._signals = signals
        self._tracer = tracer

    async def write(
        self,
        executor: int,
        outcomes: Sequence[Outcome],
        usage: UsageByRun = NO_USAGE,
        traces: TracesByRun = NO_TRACES,
    ) -> Sequence[UUID]:
        """Write outcomes to the store; the ids of the refused runs. An outcome that cannot be stored does not stop the
        others of its batch. `traces`: the spans of those attempts that are recorded."""
        if not traces or self._tracer is None:
            return await self._write(executor, outcomes, usage)
        with recording(self._tracer, traces, len(outcomes)):
            return await self._write(executor, outcomes, usage)

    async def _write(self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun) -> Sequence[UUID]:
        if not outcomes:
            return []
        begun = [Began(each.run_id, each.token, each.started) for each in outcomes if each.reason in BEGUN_UNTOLD]
        if begun:
            # The store may not know that these attempts began: they were stopped while it was away, or it was set back
            # since. Without the start on record the next attempt would have the same number.
            await self._attempts.start(executor, begun)
        try:
            return await self._attempts.finish(executor, outcomes, usage)
        except (Bug, TooLarge) as bug:
            logger.error("outcome_impossible", run_id=str(outcomes[0].run_id), count=len(outcomes), detail=bug.detail)
            if len(outcomes) == 1:
                return await self._write_plainly(executor, outcomes[0], bug)
        half = len(outcomes) // 2
        return [
            *await self._write(executor, outcomes[:half], usage),
            *await self._write(executor, outcomes[half:], usage),
        ]

    async def _write_plainly(self, executor: int, outcome: Outcome, bug: Bug | TooLarge) -> Sequence[UUID]:
        """End the run of an outcome that cannot be stored as FAILED with the error, for the executor must not hold the
        run for ever. The completion step reads whether the job starts others after a failure."""
        ended = max(outcome.started, outcome.ended)
        plain = Outcome(
            outcome.run_id, outcome.token, _FAILED, outcome.started, ended, "invalid", bug.detail, follow=True
        )  # fmt: skip
        try:
            return await self._attempts.finish(executor, [plain])
        except Bug:
            return [outcome.run_id]

    def count(self, outcomes: Sequence[Outcome], refused: Sequence[UUID]) -> None:
        """Count the results of a batch, and log the refused runs."""
        if refused:
            logger.warning("outcomes_refused", runs=[str(run) for run in refused][:20], count=len(refused))
            self._telemetry.refused(len(refused))
            stale = set(refused)
            outcomes = [outcome for outcome in outcomes if outcome.run_id not in stale]
        states = [outcome.state for outcome in outcomes]
        # An attempt that never began has no start, and took no time.
        seconds = [outcome.ended - (outcome.started or outcome.ended) for outcome in outcomes]
        # An id begins with the milliseconds of its nominal time, so nothing more need be carried here.
        all_well = states.count(_SUCCESS) == len(states)
        over = outcomes if all_well else [outcome for outcome in outcomes if outcome.state in ENDED]
        latencies = [outcome.ended - (outcome.run_id.int >> BELOW_MILLIS) * 0.001 for outcome in over]
        self._telemetry.finished(states, seconds, latencies)
        if not all_well:
            self._count_failures(outcomes)
        if any([outcome.follow for outcome in outcomes]):  # noqa: C419  # a list is made in half the time
            self._signals.send(Topic.COMPLETIONS)

    def _count_failures(self, outcomes: Sequence[Outcome]) -> None:
        retried, ended = (
            collections.Counter(outcome.reason or "error" for outcome in outcomes if outcome.state == state)
            for state in (_RETRYING, _FAILED)
        )
        if retried:
            self._telemetry.retried(retried)
        if ended:
            self._telemetry.failed(ended)
