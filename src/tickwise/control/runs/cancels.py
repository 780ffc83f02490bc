"""Cancelling one run: the part that one request and a bulk operation share."""

from __future__ import annotations

from uuid import UUID

from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Principal
from tickwise.ports.signals import Topic
from tickwise.ports.store import RunCancel


async def cancel_run(context: ControlContext, who: Principal, run: UUID) -> RunState:
    """End a run, or ask its executor to; the state that it is in now. It checks no permission, and heeds the labels of
    the job. Raises `NotFound`; `Conflict` if the run ended in another way before."""
    if who.within is not None:
        await context.run(who, run)
    audit = entry(who, AuditAction.RUN_CANCELLED, "run", run)
    move = RunCancel(who.namespace, run, who.name)
    state = await context.surely(lambda: context.store.runs.move(move, audit=audit))
    if state in FINAL and state is not RunState.CANCELLED:
        raise Conflict(f"the run has ended already: {state}", code="run_ended")
    context.signals.send(Topic.CANCELS, (run,))
    return state
