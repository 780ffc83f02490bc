"""The rules of concurrency: whether a key has a free slot, and the waiting runs that get the next slots.

A slot is taken by each RUNNING run of the key and, for a moment, by each woken run: one that waited and may be claimed.
Nothing is counted up and down.

The quota of runs at once of a namespace is a limit, too, with a key of its own. A run of such a namespace runs under
the key of its job's limit, or else under that of the quota; the quota counts both.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

QUOTA_KEY: Final = "quota"
"""The key of the quota of runs at once of a namespace. No key of a job's limit equals it (`control.jobs.policies`)."""
ALL_AT_ONCE: Final = 1_000
"""Runs that wait for a quota that is no more go on, so many at a time."""
CLAIM_SECONDS: Final = 1.0
"""A woken run reserves a slot for so long unclaimed: there may be no executor that can take it."""
START_SECONDS: Final = 5.0
"""A woken run reserves a slot for so long claimed but not started."""


class Reservation(Enum):
    """The reservation of a slot by a woken run."""

    TAKES = "it reserves a slot"
    LATE = "no executor claimed it in time: others may go on, at each sweep as many more as there are such runs"
    NONE = "it reserves no slot, and no other run may go on"


def has_slot(limit: int, running: int) -> bool:
    """Check whether a run may start by its own limit, with so many RUNNING under its key."""
    return running < limit


def reservation(*, ready: float, claimed: float | None, on_hold: bool, now: float) -> Reservation:
    """Decide whether a woken run reserves a slot. It is claimable since `ready` and held since `claimed` (None: by no
    executor).

    In a queue on hold no run can start, so that a reserved slot would stay empty.
    """
    if on_hold:
        return Reservation.NONE
    if claimed is not None:
        return Reservation.TAKES if claimed + START_SECONDS > now else Reservation.NONE
    if ready + CLAIM_SECONDS < now:
        return Reservation.LATE
    return Reservation.TAKES if ready <= now else Reservation.NONE


def wakes(limit: int, taken: int, woken: int, late: int) -> bool:
    """Check whether one more waiting run goes on by its own limit, after so many in this round. `late` is 0 except in a
    sweep.

    Asked of each waiting run in turn, the longest ready first.
    """
    return has_slot(limit, taken) and woken < max(limit - taken, late)
