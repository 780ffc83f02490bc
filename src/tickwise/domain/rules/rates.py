"""The slot of a start under a rate.

Slots of one rate are a gap apart. The next slot follows the last start and the last slot that an active run has;
the slot of a run that ended before it started is free again. Nothing is saved up in quiet times.
"""

from __future__ import annotations

from typing import NamedTuple


class RateState(NamedTuple):
    """The progress of a rate."""

    given: float | None = None
    """The last slot that an active run has; None: there is none."""
    started: float | None = None
    """The last start; None: there was none."""


class RateStep(NamedTuple):
    """The slot of a start."""

    slot: float
    """The earliest start: now, or later."""
    state: RateState
    """The progress of the rate after the start."""


def step(state: RateState, *, gap: float, slot: float | None, now: float) -> RateStep:
    """Ask for a start, with the slot that the run was given before (None: it has none under this rate).

    A slot that is late by more than a gap is void if another start came less than a gap ago: runs that waited while no
    executor was there do not start all at once. Otherwise a late slot holds, or no run would ever start under a rate
    whose gap is shorter than a claim takes.
    """
    if slot is None or _is_void(state, gap, slot, now):
        slot = max([now, *(earlier + gap for earlier in state if earlier is not None)])
    if slot > now:
        return RateStep(slot, state._replace(given=slot if state.given is None else max(slot, state.given)))
    return RateStep(now, state._replace(started=now))


def _is_void(state: RateState, gap: float, slot: float, now: float) -> bool:
    return now - slot > gap and state.started is not None and now < state.started + gap
