"""Runs that people ask for, beside what the schedule names."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.control.wakeups import wake_for_runs
from tickwise.domain.errors import Conflict
from tickwise.ports.store import NewRun, Receipt, Replay


async def make_runs(
    context: ControlContext, namespace: str, job_id: UUID, runs: Sequence[NewRun], receipt: Receipt | None = None
) -> Replay | None:
    """Make runs that a person asked for; the earlier answer, if there is one under this receipt's key. Raises
    `NotFound`; `Conflict` if the job is cancelled."""
    made = await context.surely(lambda: context.store.runs.add(namespace, job_id, runs, receipt=receipt))
    if isinstance(made, Replay):
        return made
    if not made:
        raise Conflict("the job is cancelled, for good; create a new one", code="job_cancelled")
    await wake_for_runs(context, namespace, job_id, runs)
    return None
