"""The base of every part of the store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from uuid import UUID

from tickwise.adapters.store.postgres.connection.batches import Batches
from tickwise.adapters.store.postgres.connection.link import POOL_CONNECTIONS, Links
from tickwise.adapters.store.postgres.queue.claim_cursor import FAR_PAST, ClaimCursor
from tickwise.adapters.store.postgres.queue.lanes import Lanes
from tickwise.adapters.store.postgres.queue.releases import Stuck
from tickwise.adapters.store.postgres.queue.wakeups import Woken
from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover, Ready


class Part:
    """One duty of `PostgresStore`; the parts share its connections and what it remembers."""

    def __init__(
        self,
        dsn: str,
        *,
        clock: Clock,
        near_seconds: float = 2.0,
        reads_only: bool = False,
        pool_connections: int = POOL_CONNECTIONS,
    ) -> None:
        """`clock` only paces and measures; what is due and what has expired is judged by the database's clock.

        `near_seconds`: a due time within it becomes a run at once, so that no scheduler has to be in time for it.

        `pool_connections`: at most so many for what has no connection of its own; those of duties come beside them.

        `reads_only`: for searches on a standby, or with a role that may only read. A write raises `Bug`.
        """
        self._links = Links(dsn, changed=self._store_changed, reads_only=reads_only, pool_connections=pool_connections)
        self._clock = clock
        self._near_seconds = near_seconds
        self._lanes = Lanes(self._links, clock)
        self._claimers: dict[tuple[int, tuple[str, ...], tuple[str, ...]], ClaimCursor] = {}
        self._reached: dict[int, dict[int, float]] = {}
        """By executor and lane, the last instant of readiness that was claimed."""
        self._timers_mark = FAR_PAST
        self._timers_swept = FAR_PAST
        self._fires_quiet = False
        self._batches = Batches(self._links)
        self._stuck = Stuck()
        self._heard: tuple[float, float] | None = None
        self._handover: Callable[[Handover], None] | None = None

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """See the port."""
        self._handover = tell

    async def _tell_handover(self, woken: Sequence[Woken], stopping: Sequence[UUID] = ()) -> None:
        """Tell what was committed. Never while a connection is in hand: a lane that is met for the first time is asked
        for."""
        if self._handover is None or not (woken or stopping):
            return
        claimable: Sequence[Ready] = ()
        with contextlib.suppress(Unavailable):
            places = await self._lanes.places({each.lane for each in woken})
            claimable = [Ready(each.run_id, each.ready, places[each.lane].lane) for each in woken]
        self._handover(Handover(claimable, stopping))

    def _hear(self, store_now: float) -> None:
        """Take note of the store's clock as it was read in an answer that has just come."""
        self._heard = (store_now, self._clock.monotonic())

    def _no_later_than_now(self) -> float:
        """An instant that the store's clock has certainly passed; close to it, once it was heard."""
        if self._heard is None:
            return FAR_PAST
        store_now, monotonic = self._heard
        return store_now + self._clock.monotonic() - monotonic

    def _forget(self) -> None:
        """Forget where the queues were read to, because their clock was moved."""
        self._claimers.clear()
        self._timers_mark = self._timers_swept = FAR_PAST
        self._heard = None

    def _store_changed(self) -> None:
        """Forget what another epoch of the store may contradict: its clock, its lanes, what could not be freed. How far
        executors have claimed in lanes that are still there is as it was."""
        self._forget()
        self._lanes.forget()
        self._stuck = Stuck()
