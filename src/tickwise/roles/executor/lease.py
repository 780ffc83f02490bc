"""An executor's right to what it holds: its number, and until when.

        ask ──► store ──► renewed          TERM to all tasks        KILL         the store's lease ends
         │                                  │                        │            │  others may take over
         └───────────── lease ──────────────┴─ margin ───────────────┴────────────┘

It is counted from before we asked, so that the store's own lease ends no earlier. Invariant: a caller that asks
`stands` right before a start starts no run that another executor may hold by then; also after the machine slept or this
process was stopped, which a monotonic clock may not have counted.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from tickwise.ports.clock import Clock

MARGIN_SECONDS: Final = 1.0
"""The time before the end of its lease at which an executor that could not renew it begins to stop its tasks."""
MARGIN_SHARE: Final = 0.2
"""Of a short lease it is this share."""
GRACE_SHARE: Final = 0.8
"""Of the margin, the time from TERM to KILL: what is killed must be dead by the end."""


class AskedAt(NamedTuple):
    """A moment at which the store was asked."""

    monotonic: float
    ahead: float
    """The difference of the wall clock and the monotonic one."""


class LeaseWatchers(Protocol):
    """The processes that kill this executor's tasks while it stands still itself (docs/decisions/0016)."""

    def hold_until(self, moment: float) -> None:
        """Let tasks run until `moment` on the monotonic clock, and no longer unless this is called again."""
        ...


class Lease:
    """The lease of one executor."""

    def __init__(
        self,
        clock: Clock,
        seconds: float,
        *,
        doubted: asyncio.Event,
        watchers: LeaseWatchers | None = None,
    ) -> None:
        """`doubted` is set when only the store can tell whether the lease stands. `watchers` learn, with each renewal,
        when tasks are to be killed if no other renewal follows."""
        self.number = 0
        """Given by the store at registration. 0: not yet registered."""
        self.margin_seconds = min(MARGIN_SECONDS, seconds * MARGIN_SHARE)
        self._clock = clock
        self._seconds = seconds
        self._doubted = doubted
        self._watchers = watchers
        self._until = float("-inf")
        self._ahead = 0.0

    def mark(self) -> AskedAt:
        """To be taken right before the store is asked."""
        monotonic = self._clock.monotonic()
        return AskedAt(monotonic, self._clock.now() - monotonic)

    def renewed(self, mark: AskedAt) -> None:
        """The store has said yes to what was asked then."""
        self._until = mark.monotonic + self._seconds
        self._ahead = mark.ahead
        if self._watchers is not None:
            self._watchers.hold_until(self._until - self.margin_seconds * (1.0 - GRACE_SHARE))

    def ended(self) -> None:
        """Note that the store expired this executor."""
        self._until = float("-inf")

    def stands(self) -> bool:
        """Check whether a task may begin now.

        If the wall clock ran ahead of the monotonic one since we asked, somebody set it, or the machine slept; then our
        lease may be over although its time has not passed here.
        """
        if self.left_seconds() <= 0.0:
            return False
        if self.mark().ahead - self._ahead > self.margin_seconds:
            self._doubted.set()
            return False
        return True

    def left_seconds(self) -> float:
        """Until its tasks must be stopped; negative after that."""
        return self._until - self.margin_seconds - self._clock.monotonic()

    def grace_seconds(self) -> float:
        """Between TERM and KILL for a task that is stopped now, because the lease ends."""
        return max(0.0, self.left_seconds() + self.margin_seconds * GRACE_SHARE)
