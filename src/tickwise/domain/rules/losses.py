"""Decides on a run whose executor is gone: lost with its lease, or left in order.

    asked to stop ────────────────────────────────────────► CANCEL
    begun ──┬── on_unknown FAIL, HOLD ────────────────────► FAIL, HOLD
            └── lost, one crash too many ─────────────────► QUARANTINE
    not begun, asked back ────────────────────────────────► REVOKE
    else ─────────────────────────────────────────────────► REQUEUE

Only a recorded start counts a crash, and only if the executor was lost: an executor that leaves in order is no danger
to others.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tickwise.domain.lifecycle import CancelKind
from tickwise.domain.retry import EXECUTOR_LOST, UNKNOWN_OUTCOME, OnUnknown
from tickwise.domain.rules.sentences import (
    EXECUTOR_LEFT,
    FAILED_SENTENCE,
    HELD_SENTENCE,
    LEASE_LOST,
    POISON,
    poison_sentence,
)


class LostAttempt(NamedTuple):
    """A run whose executor is gone."""

    begun: bool
    """The start of this attempt is on record."""
    in_order: bool
    """Its executor left; otherwise the executor was lost with its lease."""
    on_unknown: OnUnknown
    """As the recorded start says."""
    crashes: int
    """Before this one."""
    crashes_max: int
    asked: CancelKind | None
    """The request to its holder."""


class LossFate(Enum):
    """The verdict on the run."""

    REQUEUE = "another executor can claim it"
    CANCEL = "it ends CANCELLED, for it was asked to stop"
    REVOKE = "it ends SKIPPED or is forgotten, for it was asked back and had not begun"
    FAIL = "it ends FAILED, for its job says so of an unknown outcome"
    HOLD = "it ends FAILED, and a person decides its outcome"
    QUARANTINE = "it ends FAILED, for it was lost with its executor too often"


class LossVerdict(NamedTuple):
    """The verdict and its record."""

    fate: LossFate
    crashes: int
    """With this one."""
    counted: bool
    """True if the attempt keeps its number; an attempt that an executor returns before its start gives its
    number back."""
    lost_reason: str | None = None
    """The reason of the attempt's end, if it is on record and did not end the run."""
    reason: str | None = None
    """The reason that the run FAILED, …"""
    error: str | None = None
    """… and the sentence for people."""


def lost(attempt: LostAttempt) -> LossVerdict:
    """Decide on a run whose executor is gone."""
    crash = attempt.begun and not attempt.in_order
    fate, crashes = _fate(attempt, crash), attempt.crashes + crash
    counted = attempt.begun or not attempt.in_order
    verdict = LossVerdict(fate, crashes, counted)
    match fate:
        case LossFate.FAIL:
            return verdict._replace(reason=EXECUTOR_LOST, error=FAILED_SENTENCE)
        case LossFate.HOLD:
            return verdict._replace(reason=UNKNOWN_OUTCOME, error=HELD_SENTENCE)
        case LossFate.QUARANTINE:
            return verdict._replace(reason=POISON, error=poison_sentence(crashes))
    if attempt.begun:
        return verdict._replace(lost_reason=EXECUTOR_LEFT if attempt.in_order else LEASE_LOST)
    return verdict


def _fate(attempt: LostAttempt, crash: bool) -> LossFate:
    if attempt.asked is CancelKind.CANCEL:
        return LossFate.CANCEL
    if attempt.begun and attempt.on_unknown is not OnUnknown.RERUN:
        return LossFate.FAIL if attempt.on_unknown is OnUnknown.FAIL else LossFate.HOLD
    if crash and attempt.crashes + 1 >= attempt.crashes_max:
        return LossFate.QUARANTINE
    if attempt.asked is CancelKind.REVOKE and not attempt.begun:
        return LossFate.REVOKE
    return LossFate.REQUEUE
