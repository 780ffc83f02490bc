"""`EffectLog`: the port to the log of one shard, which is its truth.

    acquire ──► Tenure(epoch, checkpoint, last) ──► checkpoint + entries ──► append, append, … ──► release
                                                                        └──► keep blocks, then a checkpoint that names
                                                                             them; drop what is before it

Invariant: one owner appends at a time. The owner that acquired last wins; an append of an earlier owner is refused by
the log itself, and no clock decides it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tickwise.domain.errors import Unavailable


class OwnershipLost(Unavailable):
    """Another owner has acquired the log, or the lease has ended: nothing that was not answered has happened for
    certain, and this process must stop to answer for the shard."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """An ownership of a log."""

    epoch: int
    """Above that of each earlier tenure."""
    checkpoint: int
    """The position of the newest whole checkpoint; 0: there is none."""
    last: int
    """The position of the last entry; 0: there is none."""


class LogEntry(NamedTuple):
    """The effects of one commit."""

    position: int
    """From 1, without gaps."""
    body: bytes


class BlockName(NamedTuple):
    """The name of a block: a part of the state that is written once, and that checkpoints name. No two owners, and no
    two tries of one, ever write the same."""

    epoch: int
    """Of the owner that wrote it."""
    number: int
    """Its own count within the epoch, from 1."""


class EffectLog(Protocol):
    """The log of one shard. Each method may raise `OwnershipLost`, or `StoreUnavailable` when it cannot be reached."""

    entry_max_bytes: int
    """The largest body that `append` takes."""

    async def acquire(self, owner: str, endpoint: str) -> Tenure:
        """Own the log from now on. `owner` names this process, `endpoint` says where clients find it ("": nowhere).

        An owner that acquires it again after a doubt gets `OwnershipLost` if another one has acquired it since: it must
        not wait for that one as if it had the shard."""
        ...

    async def peek(self) -> Tenure | None:
        """Look at what `acquire` would find just now, without owning it; the epoch is that of the present owner. None:
        such a log cannot be read by two processes."""
        ...

    async def append(self, body: bytes) -> int:
        """Store the effects of one commit and return their position, once they cannot be lost.

        An answer that does not come is resolved before this returns or raises: after `StoreUnavailable` the entry may
        exist or not, and the owner must acquire the log again before it decides anything else. Calls come one at a
        time."""
        ...

    def entries(self, after: int) -> AsyncIterator[LogEntry]:
        """The entries behind that position, in order."""
        ...

    async def keep_checkpoint(self, position: int, parts: AsyncIterable[bytes]) -> None:
        """Store the whole state as of `position`. It counts once all parts are there; an earlier one counts until
        then."""
        ...

    def checkpoint(self, position: int) -> AsyncIterator[bytes]:
        """The parts of the checkpoint of that position, as they were kept."""
        ...

    async def keep_block(self, number: int, body: bytes) -> BlockName:
        """Store a block, and return its name once it cannot be lost. It says nothing by itself: it counts with the
        first checkpoint that names it. `number`: none that this owner has given before."""
        ...

    async def block(self, name: BlockName) -> bytes:
        """The body of a block. Raises `Misconfigured` if it is not there."""
        ...

    async def blocks(self) -> Collection[BlockName]:
        """All blocks that are stored, and may be some that are only begun."""
        ...

    async def drop_blocks(self, names: Collection[BlockName]) -> None:
        """Delete blocks that no checkpoint names, of this epoch or an earlier one; some may be gone already."""
        ...

    async def drop(self, before: int) -> None:
        """Forget entries before that position, as far as is convenient; those that a checkpoint needs must stay."""
        ...

    async def renew(self) -> float:
        """Extend the lease and return for how many seconds from the call's begin reads may be answered. A log without
        leases returns infinity."""
        ...

    async def release(self) -> None:
        """Give the log back, so that the next owner need not wait for the lease to end."""
        ...
