"""Is a late report of an attempt a repeat of the outcome that is on record?

An executor that does not know whether its report arrived sends it again, and a repeat is accepted. Any other report is
refused: the record stays. A store that ended a run itself (its executor was lost) may have written FAILED too, so the
reason tells two failures apart.
"""

from __future__ import annotations

from tickwise.domain.lifecycle import RunState


def is_repeat(state: RunState, reason: str | None, recorded: RunState, recorded_reason: str | None) -> bool:
    """Check whether an outcome is the recorded one. The executor and the token of the attempt are equal."""
    return state is recorded and (state is not RunState.FAILED or reason == recorded_reason)
