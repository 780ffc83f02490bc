"""What becomes of a run that is about to start under a concurrency limit or a rate."""

from __future__ import annotations

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.adapters.store.memory.slots import Name
from tickwise.adapters.store.memory.state import State
from tickwise.domain.lifecycle import RunEvent
from tickwise.ports.store import Gate

OPEN = Gate()


def admit(state: State, run: RunRecord, gate: Gate | None) -> bool:
    """Let a held run that has not begun through its gate. Returns whether it may start; else nobody holds it."""
    left = state.slots.drop(run)
    admitted = _pass(state, run, gate or OPEN)
    if left is not None:
        state.wake(left)
    return admitted


def _pass(state: State, run: RunRecord, gate: Gate) -> bool:
    namespace = run.job.namespace
    if gate.limit_key is not None and state.slots.running(Name(namespace, gate.limit_key)) >= gate.limit:
        run.blocked = True
        if state.let_go(run, RunEvent.RELEASED, run.ready):
            state.slots.wait(run, gate.limit_key, gate.limit)
        return False
    if gate.rate_key is None:
        run.slot = run.rate_key = None
    elif not state.slots.keep_pace(run, gate, state.now()):
        state.let_go(run, RunEvent.RELEASED, run.ready)
        return False
    if gate.limit_key is not None:
        state.slots.take(run, gate.limit_key)
    return True
