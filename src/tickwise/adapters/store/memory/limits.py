"""Decides on a run that is about to start under a concurrency limit or a rate: `domain.rules.limits` and `rates`,
carried out."""

from __future__ import annotations

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.adapters.store.memory.slots import Name
from tickwise.adapters.store.memory.state import State
from tickwise.domain.lifecycle import RunEvent
from tickwise.domain.rules.limits import has_slot
from tickwise.ports.store import Gate

OPEN = Gate()


def admit(state: State, run: RunRecord, gate: Gate | None) -> bool:
    """Let a held run that has not begun through its gate. Returns whether it may start; if not, it is no
    longer held."""
    left = state.slots.drop(run)
    admitted = _pass(state, run, gate or OPEN)
    if left is not None:
        state.wake(left)
    return admitted


def _pass(state: State, run: RunRecord, gate: Gate) -> bool:
    since, namespace = run.ready_since, run.job.namespace
    if run.rate_key != gate.rate_key:
        run.slot = run.rate_key = None
    if gate.limit_key is not None and not has_slot(gate.limit, state.slots.running(Name(namespace, gate.limit_key))):
        run.blocked = True
        if state.release(run, RunEvent.RELEASED):
            run.waited_since = since
            state.slots.wait(run, gate.limit_key, gate.limit)
        return False
    if gate.rate_key is not None and not state.slots.keep_pace(run, gate, state.now()):
        state.release(run, RunEvent.RELEASED)
        return False
    run.waited_since = None
    if gate.limit_key is not None:
        state.slots.take(run, gate.limit_key)
    return True
