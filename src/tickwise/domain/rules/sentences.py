"""The reasons and sentences that a store itself puts on record.

A reason is for programs, and is never renamed. A sentence is for people. Every store writes the same ones: the memory
store takes them from here; `starts_settle.sql` and the database function `free` of PostgreSQL repeat their words.
"""

from __future__ import annotations

from typing import Final

CANCELLED: Final = "cancelled"
"""The reason of a run that the store ended by request."""
REVOKED: Final = "revoked"
"""The reason with which an executor gives back an unstarted run that it was asked to give back."""
LEASE_LOST: Final = "lease_lost"
"""The reason of an attempt whose executor crashed or stopped sending heartbeats."""
EXECUTOR_LEFT: Final = "executor_left"
"""The reason of an attempt whose executor left in order while the attempt went on."""
POISON: Final = "poison"
"""The reason of a run that was lost with its executor too often."""

SEQUENCE_PAUSED_SENTENCE: Final = "the job was paused when a sequence came to it"
"""The reason that a run of a sequence was skipped."""
REPLACED_SENTENCE: Final = "a later run of the job took its place"
FAILED_SENTENCE: Final = "its executor was lost while it ran, and its job says that it then failed"
HELD_SENTENCE: Final = (
    "its executor was lost while it ran: what it has done is unknown, and its job leaves it to a person"
)

MAX_COUNTED: Final = 100
"""A sentence gives no larger number of earlier runs."""


def overlap_sentence(earlier: int) -> str:
    """The reason that a run was skipped: so many earlier runs (at least one) were unfinished."""
    if earlier >= MAX_COUNTED:
        runs = f"{MAX_COUNTED} earlier runs or more"
    else:
        runs = "an earlier run" if earlier == 1 else f"{earlier} earlier runs"
    return f"{runs} of the job had not ended"


def poison_sentence(crashes: int) -> str:
    """The reason that a run was quarantined: so many crashes."""
    return f"its executor was lost while it ran, {crashes} times"


def cancelled_sentence(principal: str) -> str:
    """The reason that a run was cancelled: a person requested it."""
    return f"cancelled by {principal}"
