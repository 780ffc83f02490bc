"""Is a late report of an attempt a repeat of the outcome that is on record?

An executor that does not know whether its report arrived sends it again, and a repeat is accepted. Any other report is
refused: the record stays. The store itself writes the end of an attempt whose executor was lost or left: FAILED, or
QUEUED if the run goes on. So a reason tells two of these apart.
"""

from __future__ import annotations

from typing import Final

from tickwise.domain.lifecycle import RunState

WRITTEN_BY_STORE: Final = frozenset({RunState.FAILED, RunState.QUEUED})
"""The states that a store gives to an attempt whose holder has not reported."""


def is_repeat(state: RunState, reason: str | None, recorded: RunState, recorded_reason: str | None) -> bool:
    """Check whether an outcome is the recorded one. The executor and the token of the attempt are equal."""
    return state is recorded and (state not in WRITTEN_BY_STORE or reason == recorded_reason)
