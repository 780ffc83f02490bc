"""`Projection`: what follows the log of a shard behind its commits.

    append ──► put ──► answers ──► room, which waits while the projection is far behind
    checkpoint ──► reached(newest entry in it) ──► it counts, and what is before it may go

Invariant: a checkpoint counts only once all entries that its rows may show are projected. So checkpoint and log always
give the state as of the last projected entry, and no segment goes that is not projected.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tickwise.adapters.store.keeper.log import EffectLog


class Progress(NamedTuple):
    """The progress of a projection."""

    position: int
    """All entries up to this one are projected."""
    waiting_bytes: int
    """Of the entries behind it."""
    waiting_rows: int
    """Rows that are made of them and not written yet."""


class Projection(Protocol):
    """Follows the log of one shard. Nothing that it meets may harm the shard: it raises nothing."""

    async def follow(self, log: EffectLog, *, checkpoint: int, last: int) -> None:
        """Begin a tenure: the newest whole checkpoint and the last entry are at these positions (0: none)."""
        ...

    def put(self, position: int, body: bytes) -> None:
        """Take an entry that the log has. Positions that are left out are read from the log."""
        ...

    async def room(self) -> None:
        """Return once the projection is not too far behind."""
        ...

    async def reached(self, position: int) -> None:
        """Return once all entries up to this one are projected for good, or all of it will be made anew."""
        ...

    def progress(self) -> Progress:
        """The progress just now, for metrics."""
        ...

    def kept(self, checkpoint: int) -> None:
        """A checkpoint counts from now on."""
        ...

    async def close(self) -> None:
        """Project what is there within a few seconds, and end. Another tenure may follow."""
        ...
