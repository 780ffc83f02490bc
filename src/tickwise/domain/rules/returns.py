"""The rule of returns: the state of a run that its holder gives back, and the time from which it can be claimed.

given back, retried, or lost ── asked to stop? ──┬── CANCEL                      CANCELLED
                                                 ├── REVOKE, and not begun       SKIPPED, or forgotten
                                                 ├── RETURN for a pause          waits until the pause is over
                                                 └── else                        waits
"""

from __future__ import annotations

from enum import Enum

from tickwise.domain.lifecycle import CancelKind


class ReturnVerdict(Enum):
    """The verdict on a run that comes back."""

    WAIT = "it waits to be claimed"
    HOLD_BACK = "it waits until the pause of its job is over"
    CANCEL = "it ends CANCELLED"
    REVOKE = "it ends SKIPPED if the request names a reason, or else is forgotten"


def came_back(asked: CancelKind | None, *, begun: bool, paused: bool) -> ReturnVerdict:
    """Decide on a run that has lost its holder.

    `begun`: the attempt that ends here had begun. `paused`: it was asked back for a pause of its job, which holds.
    """
    if asked is CancelKind.CANCEL:
        return ReturnVerdict.CANCEL
    if asked is None or begun:
        return ReturnVerdict.WAIT
    if asked is CancelKind.REVOKE:
        return ReturnVerdict.REVOKE
    return ReturnVerdict.HOLD_BACK if paused else ReturnVerdict.WAIT


def claimable_at(*, now: float, due: float, retry_at: float | None = None, slot: float | None = None) -> float:
    """From when on a run can be claimed that came back: not in the past, and not before its slot under a rate.

    A retry waits for its backoff; any other attempt waits for the run's due time.
    """
    return max(now, due if retry_at is None else retry_at, now if slot is None else slot)
