"""Rows of a memory store, made from its records, and how many of them one call looks at and answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.domain.errors import Bug
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.observing.usage import NOT_MEASURED, ResourceUsage
from tickwise.domain.rules.requests import StopRequest
from tickwise.ports.paging import Page, SearchPlace
from tickwise.ports.store import AttemptRow, CancelRow, RunRow

Row = TypeVar("Row")

ANSWER_CHARACTERS: Final = 8 << 20
"""Of definitions in one answer, but for its last row. A keeper sends an answer as one message of 64 MB at most, and a
character has up to 4 bytes."""


LOOK_BUDGET: Final = 50_000
"""Of one call of a search that may pause: some 100 ms, in which nobody else is answered. A job in memory costs 1."""
ROW_COST: Final = 10
"""A row with what follows from timers and runs, or one that is read from a file."""


def paused(page: Page[Row], last: UUID) -> Page[Row]:
    """The page of a search that has looked at as many rows as one call may, `last` the last of them."""
    if not page.cut:
        page.paused_at = SearchPlace(last)
    return page


def fitting(rows: Iterable[Row], definition: Callable[[Row], str]) -> list[Row]:
    """The first rows whose definitions fit into one answer; the first one of all does."""
    found: list[Row] = []
    characters = 0
    for row in rows:
        found.append(row)
        characters += len(definition(row))
        if characters >= ANSWER_CHARACTERS:
            break
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The record of an attempt or of the end of a run."""

    ended: float | None = None
    """None while it is under way."""
    started: float | None = None
    reason: str | None = None
    error: str | None = None
    result: str | None = None
    reported: bool = False
    """An executor said so."""
    follow: bool = False
    """Others may go on from here."""
    cancel: CancelRow | None = None
    """The request by which it ended CANCELLED."""
    usage: ResourceUsage = NOT_MEASURED


def is_coming(run: RunRecord, now: float) -> bool:
    """Check whether a run has yet to begin, as far as is known: a run that is held beyond its due time may have begun.
    A run that a pause without an end holds back does not come."""
    if run.ready == math.inf and not run.blocked:
        return False
    return run.state is RunState.QUEUED or (run.state is RunState.DISPATCHED and run.due > now)


def run_row(
    run: RunRecord, state: RunState, report: Report, *, occurrences: int = 1, until: float | None = None
) -> RunRow:
    """A run as it is told, in `state`: a final one if the report has an end."""
    return RunRow(
        run_id=run.run_id,
        job_id=run.job.job_id,
        namespace=run.job.namespace,
        state=state,
        trigger=run.trigger,
        due_at=run.due,
        queued_at=run.queued,
        dispatched_at=run.dispatched,
        started_at=report.started,
        ended_at=report.ended,
        ready_at=None if run.blocked or run.ready == math.inf or report.ended is not None else run.ready,
        attempt=run.attempt,
        failures=run.failures,
        crashes=run.crashes,
        executor=run.executor,
        reason=report.reason,
        error=report.error,
        result=report.result,
        origin=run.origin,
        definition=run.definition,
        nominal_at=run.nominal,
        blocked=run.blocked and report.ended is None,
        # A woken run has no slot yet.
        limit_key=run.limit_key if report.ended is None and (run.blocked or state is RunState.RUNNING) else None,
        paced=run.slot is not None and report.ended is None,
        cancel=cancel_row(run.request) if report.ended is None else report.cancel,
        occurrences=occurrences,
        until=until,
    )


def cancel_row(request: StopRequest | None) -> CancelRow | None:
    """The request to its holder to end it, as a row."""
    if request is None or request.kind is CancelKind.RETURN:
        return None
    return CancelRow(asked_at=request.asked_at, error=request.error, heard_at=request.heard_at)


def attempt_row(run: RunRecord, state: RunState, report: Report) -> AttemptRow:
    """The attempt that is under way, as it is put on record in `state`."""
    if run.executor is None:
        raise Bug(f"no executor holds the run {run.run_id}, so no attempt of it can end")
    return AttemptRow(
        attempt=run.attempt,
        token=run.token,
        executor=run.executor,
        state=state,
        dispatched_at=run.dispatched,
        started_at=report.started,
        ended_at=report.ended,
        reason=report.reason,
        error=report.error,
        **report.usage._asdict(),
    )
