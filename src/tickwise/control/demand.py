"""Runs that people ask for, beside what the schedule names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.wakeups import wake_for_runs
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Conflict
from tickwise.domain.model import Principal, Trigger
from tickwise.ports.store import NewRun, Receipt, Replay

NAMED_MAX: Final = 20
"""Runs of a request that its entry in the audit log names; the ids of the others follow from origin and job."""


async def make_runs(
    context: ControlContext, who: Principal, job_id: UUID, runs: Sequence[NewRun], receipt: Receipt | None = None
) -> Replay | None:
    """Make runs that a person asked for; the earlier answer, if there is one under this receipt's key. Raises
    `NotFound`; `Conflict` if the job is cancelled."""
    audit = entry(who, AuditAction.RUN_REQUESTED, "job", job_id, detail=_facts(runs))
    made = await context.surely(
        lambda: context.store.runs.add(who.namespace, job_id, runs, receipt=receipt, audit=audit)
    )
    if isinstance(made, Replay):
        return made
    if not made:
        raise Conflict("the job is cancelled, for good; create a new one", code="job_cancelled")
    await wake_for_runs(context, who.namespace, job_id, runs)
    return None


def _facts(runs: Sequence[NewRun]) -> Mapping[str, Any]:
    """The facts about requested runs for the audit log: their trigger, number and first ids."""
    run = runs[0]
    facts = {
        "trigger": Trigger(run.trigger).name.lower(),
        "count": len(runs),
        "runs": [str(each.run_id) for each in runs[:NAMED_MAX]],
    }
    return facts if run.origin is None else {**facts, "origin": str(run.origin)}
