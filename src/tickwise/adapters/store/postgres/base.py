"""The base of every part of the store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from uuid import UUID

from tickwise.adapters.store.postgres.connection.batches import Batches
from tickwise.adapters.store.postgres.connection.link import POOL_CONNECTIONS, Links
from tickwise.adapters.store.postgres.large_sets import LargeSets
from tickwise.adapters.store.postgres.queue.claim_cursor import FAR_PAST
from tickwise.adapters.store.postgres.queue.lanes import Lanes
from tickwise.adapters.store.postgres.queue.quota_cache import QuotaCache
from tickwise.adapters.store.postgres.queue.releases import Stuck
from tickwise.adapters.store.postgres.queue.wakeups import Woken
from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover, Ready


class Shared:
    """The common ground of the parts of one `PostgresStore`: connections, lanes, the view of the store's clock."""

    def __init__(
        self,
        dsn: str,
        *,
        clock: Clock,
        near_seconds: float = 2.0,
        reads_only: bool = False,
        pool_connections: int = POOL_CONNECTIONS,
    ) -> None:
        """See `PostgresStore`."""
        self.links = Links(dsn, changed=self._store_changed, reads_only=reads_only, pool_connections=pool_connections)
        self.clock = clock
        self.near_seconds = near_seconds
        self.cluster_id: str | None = None
        """None: not opened yet."""
        self.quotas = QuotaCache(self.links, clock)
        self.lanes = Lanes(self.links, clock, self.quotas)
        self.reached: dict[int, dict[int, float]] = {}
        """By executor and lane, the last instant of readiness that was claimed."""
        self.batches = Batches(self.links)
        self.stuck = Stuck()
        self.large_sets = LargeSets(clock)
        self.sample_shares: dict[tuple[UUID, UUID, float], tuple[float, float]] = {}
        """By days and percent, the share of the pages that a sample of history reads, and until when that is kept."""
        self.at_clock_move: list[Callable[[], None]] = []
        """Called when the store's clock was moved: how far the queues were read says nothing any more."""
        self.on_handover: Callable[[Handover], None] | None = None
        self._heard: tuple[float, float] | None = None

    async def report_handover(self, woken: Sequence[Woken], stopping: Sequence[UUID] = ()) -> None:
        """Tell what was committed. Never while a connection is in hand: a lane that is met for the first time is asked
        for."""
        if self.on_handover is None or not (woken or stopping):
            return
        claimable: Sequence[Ready] = ()
        with contextlib.suppress(Unavailable):
            places = await self.lanes.places({each.lane for each in woken})
            claimable = [places[each.lane].ready_run(each.run_id, each.ready) for each in woken]
        self.on_handover(Handover(claimable, stopping))

    def hear(self, store_now: float) -> None:
        """Take note of the store's clock as it was read in an answer that has just come."""
        self._heard = (store_now, self.clock.monotonic())

    def no_later_than_now(self) -> float:
        """An instant that the store's clock has certainly passed; close to it, once it was heard."""
        if self._heard is None:
            return FAR_PAST
        store_now, monotonic = self._heard
        return store_now + self.clock.monotonic() - monotonic

    def forget(self) -> None:
        """Forget where the queues were read to, because their clock was moved."""
        self._heard = None
        for call in self.at_clock_move:
            call()

    def _store_changed(self) -> None:
        """Forget what another epoch of the store may contradict: its clock, its lanes, what could not be freed. How far
        executors have claimed in lanes that are still there is as it was."""
        self.forget()
        self.lanes.forget()
        self.quotas.forget()
        self.stuck.clear()
        self.large_sets.forget()


class Part:
    """One part of `PostgresStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._links = shared.links
        self._clock = shared.clock
        self._lanes = shared.lanes
        self._quotas = shared.quotas
        self._large_sets = shared.large_sets
