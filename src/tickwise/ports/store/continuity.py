"""Epochs and held runs: whether the store still has what it acknowledged. The package states the rules of every method.

A database behind asynchronous replication, and one restored from a backup, forgets its last commits. Each such event
begins an epoch: the store notices it by itself when a role connects. Values that are handed out once (fencing tokens,
numbers of executors and lanes, versions of rules) then continue above every value that was handed out before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from tickwise.domain.fencing import HeldDigest
from tickwise.domain.model import Claimed


class EpochCause(StrEnum):
    """The cause of an epoch's begin."""

    FIRST = "first"
    """The store was made."""
    PROMOTED = "promoted"
    """Another timeline of the same server: a standby took over, or a recovery to a point in time."""
    RESTORED = "restored"
    """Another server, database or table than before: a dump was restored."""
    WENT_BACK = "went_back"
    """A role had seen a fencing token that the store does not know: a disk was set back."""
    TOLD = "told"
    """An operator said so: `tickwise db restored`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A time in which the store lost nothing that it had acknowledged."""

    epoch: int
    began_at: float
    cause: EpochCause
    timeline: int | None
    """Of the server, if it tells."""
    lost_tokens: bool
    """A fencing token was seen that the store did not know any more: acknowledged claims were lost."""
    differed: int
    """Runs of which executors knew better than the store, since it began."""

    @property
    def lost_writes(self) -> bool:
        """True if it is certain that acknowledged writes were lost when the epoch began."""
        return self.cause is not EpochCause.FIRST and (self.lost_tokens or self.differed > 0)


class EpochStore(Protocol):
    """Epochs of the store: a new one begins when it may have lost writes."""

    async def begin(self) -> int:
        """Begin a new epoch, for an operator says that the store was set back. Tokens of claims are greater from then
        on than every token before."""
        ...

    async def all(self) -> Sequence[Epoch]:
        """The last 100 epochs, newest first."""
        ...


class HeldRunStore(Protocol):
    """The runs that an executor holds, as the store has them on record."""

    async def digest(self, executor: int, token: int) -> HeldDigest:
        """The digest (`digest_of`) of what this executor holds under tokens up to this one; cheap however much else
        there is. Runs that it did not claim through this object may be left out."""
        ...

    async def tokens(self, executor: int, token: int) -> Mapping[UUID, int]:
        """All of it: tokens by run, of all claims, also of other processes. Reads everything that is held."""
        ...

    async def take_again(self, executor: int, runs: Sequence[UUID]) -> Sequence[Claimed]:
        """The claims of those of these runs that this executor holds, as first answered; not all of them where their
        definitions are large. Changes nothing."""
        ...

    async def differed(self, runs: int) -> None:
        """Add to the `differed` of the current epoch."""
        ...
