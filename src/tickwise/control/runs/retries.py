"""Running a run again that has ended: a new run like it, linked to it; the dead letter of a failed one is settled."""

from __future__ import annotations

from uuid import UUID

from tickwise.control.bodies import RunRetryBody
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.demand import make_runs
from tickwise.control.runs.settlements import Settlements
from tickwise.control.wakeups import wake_for_runs
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Principal
from tickwise.ports.store import LetterStatus, Replay, Settlement


async def retry_run(
    context: ControlContext,
    who: Principal,
    run: UUID,
    body: RunRetryBody,
    receipt_for: ReceiptFor[UUID] | None = None,
) -> UUID | Replay:
    """The id of the new run. Raises `NotFound`; `Conflict` while the run goes on, and if its letter was settled
    before: what follows the run would follow it twice."""
    settlements = Settlements(context)
    row = await context.run(who, run)
    if row.state not in FINAL:
        raise Conflict(f"the run has not ended yet, it is {row.state}; cancel it first", code="run_not_ended")
    new = await settlements.again(who, row, body)
    receipt = receipt_for(new.run_id) if receipt_for is not None else None
    if row.state is RunState.FAILED:
        settled = await settlements.settle(who, Settlement(run, LetterStatus.REDRIVEN, None, new), receipt)
        await wake_for_runs(context, row.namespace, row.job_id, (new,))
        return settled if isinstance(settled, Replay) else new.run_id
    replay = await make_runs(context, who, row.job_id, (new,), receipt)
    return new.run_id if replay is None else replay
