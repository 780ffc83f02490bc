"""Requests to the holder of a run: which of two stands when they meet.

    cancelled ─► by a person or a job's cancel, or replaced by a later run    CANCEL             the first stays
    skipped ───► by a person                                                  REVOKE, REQUESTED  the first stays
    planned ───► a pause or a new plan of the job                             REVOKE, RETURN     the latest stands
    on hold ───► its queue is on hold                                         RETURN             while the hold lasts

A request takes the place of a lower one, and never of a higher one. So a repeat changes nothing, and a run that was
asked to stop stops for the reason, and since the time, of the first request. Pause and plan are states of the job: the
latest is the one that is true. A plan that has a run withdraws the request of an earlier plan; if the job is paused,
the request of the pause takes its place. A hold is a state of the queue: its request stands behind all others, and the
holder is told of it as soon as none of these stands.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import CancelKind


class StopRequest(NamedTuple):
    """The request to a run's holder, and the record if the store has to end the run itself."""

    kind: CancelKind
    asked_at: float
    error: str | None = None
    skipped: SkipReason | None = None
    """REVOKE: the reason of the record that the run leaves; None: it leaves nothing. RETURN: PAUSED, for a pause of the
    job."""
    heard_at: float | None = None


class RequestRank(IntEnum):
    """The source of a request. A higher one takes the place of a lower one."""

    PLANNED = 1
    SKIPPED = 2
    CANCELLED = 3


def rank(request: StopRequest) -> RequestRank:
    """The source of this request."""
    if request.kind is CancelKind.CANCEL:
        return RequestRank.CANCELLED
    if request.skipped is SkipReason.REQUESTED:
        return RequestRank.SKIPPED
    return RequestRank.PLANNED


def merged(standing: StopRequest | None, new: StopRequest) -> StopRequest:
    """The request that stands after a new one for the same attempt."""
    if standing is None:
        return new
    latest = rank(new) is rank(standing) is RequestRank.PLANNED
    return new if latest or rank(new) > rank(standing) else standing


def kept(standing: StopRequest | None, *, pause: StopRequest | None) -> StopRequest | None:
    """The request that stands after a new plan of the job has the run too. What a plan or a pause asked is withdrawn,
    unless the job is paused: then the run is asked for its `pause`."""
    if standing is None or rank(standing) is not RequestRank.PLANNED:
        return standing
    return standing if pause is not None and standing.skipped is SkipReason.PAUSED else pause


def told_to_holder(standing: StopRequest | None, *, begun: bool, on_hold: bool) -> CancelKind | None:
    """The request that the holder of a run is told; None: there is none. A run that has begun is not given back.

    `begun`: the start of its attempt is on record. `on_hold`: its queue is on hold.
    """
    asked = standing.kind if standing is not None else CancelKind.RETURN if on_hold else None
    return None if begun and asked is CancelKind.RETURN else asked
