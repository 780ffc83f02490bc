"""Decides on a run that is about to start under a concurrency limit, the quota of runs at once of its namespace or a
rate: `domain.rules.limits` and `rates`, carried out."""

from __future__ import annotations

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.adapters.store.memory.slots import Name
from tickwise.adapters.store.memory.state import State
from tickwise.domain.lifecycle import RunEvent
from tickwise.domain.rules.limits import QUOTA_KEY, has_slot
from tickwise.ports.store import Gate

OPEN = Gate()


def admit(state: State, run: RunRecord, gate: Gate | None, quota: int | None) -> bool:
    """Let a held run that has not begun through its gate. Returns whether it may start; if not, it is no
    longer held. `quota`: the runs of its namespace that may go on at once; None: any number."""
    left = state.slots.drop(run)
    admitted = _pass(state, run, gate or OPEN, quota)
    if left is not None:
        state.wake(left)
    return admitted


def _pass(state: State, run: RunRecord, gate: Gate, quota: int | None) -> bool:
    namespace, slots = run.job.namespace, state.slots
    if run.rate_key != gate.rate_key:
        run.slot = run.rate_key = None
    if gate.limit_key is not None and not has_slot(gate.limit, slots.running(Name(namespace, gate.limit_key))):
        _wait(state, run, gate.limit_key, gate.limit)
        return False
    if quota is not None and not has_slot(quota, slots.running_in(namespace)):
        _wait(state, run, QUOTA_KEY, quota)
        return False
    if gate.rate_key is not None and not state.slots.keep_pace(run, gate, state.now()):
        state.release(run, RunEvent.RELEASED)
        return False
    run.waited_since = None
    key = gate.limit_key or (None if quota is None else QUOTA_KEY)
    if key is not None:
        slots.take(run, key)
    return True


def _wait(state: State, run: RunRecord, key: str, limit: int) -> None:
    """The run is no longer held and waits for a slot of this key, unless it was asked to stop."""
    since = run.ready_since
    run.blocked = True
    if state.release(run, RunEvent.RELEASED):
        run.waited_since = since
        state.slots.wait(run, key, limit)
