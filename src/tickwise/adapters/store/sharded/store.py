"""`ShardedStore`: the port over any number of stores, each with some of the namespaces.

    namespace ──► its shard          nothing named ──► each shard, combined          people, keys ──► the first

No part of it knows what the stores are. With one database there is none of this: the store itself is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwise.adapters.store.sharded import combining as combine
from tickwise.adapters.store.sharded.definitions import (
    Audit,
    Checks,
    Jobs,
    Notices,
    Operations,
    Receipts,
    Rules,
    StatusPages,
)
from tickwise.adapters.store.sharded.dispatch import Attempts, Batches, Quotas, Runs, Timers
from tickwise.adapters.store.sharded.feed import Feed
from tickwise.adapters.store.sharded.fleet import Fleet
from tickwise.adapters.store.sharded.membership import Epochs, Executors, Held, Memberships
from tickwise.adapters.store.sharded.namespaces import Namespaces, Removals
from tickwise.adapters.store.sharded.placing import KnownPlaces
from tickwise.adapters.store.sharded.routes import PEOPLE, ROUTES, ByNamespace, RoutedPart, ToEach, ToFirst
from tickwise.adapters.store.sharded.searches import Searches
from tickwise.ports.clock import Clock
from tickwise.ports.shards import ShardMap
from tickwise.ports.store import Handover, Store, UpkeepStore

_MAINTAINED: Final = {"maintain": ToEach(combine.maintained, patient=True), "stats": ToEach(combine.stats)}


class Upkeep(RoutedPart):
    """`UpkeepStore` of the port. The name of the installation is that of its first database."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "upkeep", UpkeepStore, _MAINTAINED, ByNamespace())

    @property
    def cluster_id(self) -> str:
        """See the port."""
        return self._fleet.first.upkeep.cluster_id


class ShardedStore:
    """The port `Store`."""

    def __init__(
        self,
        stores: Sequence[Store],
        shard_map: ShardMap,
        *,
        clock: Clock,
        reads_only: bool = False,
        can_move: bool = True,
    ) -> None:
        """`stores`: the first one holds people, keys and the map; the others in any order. `reads_only`: they are
        replicas, of which only searches are asked. `can_move`: whether an operator can move a namespace."""
        places = KnownPlaces(shard_map, clock)
        self.fleet = fleet = Fleet(stores, places, clock, reads_only=reads_only, can_move=can_move)
        self._stores = stores
        self._memberships = Memberships(fleet)
        batches = Batches()
        for name, kind in PEOPLE.items():
            setattr(self, name, RoutedPart(fleet, name, kind, {}, ToFirst()))
        for name, (kind, routes) in ROUTES.items():
            setattr(self, name, RoutedPart(fleet, name, kind, routes, ByNamespace()))
        self.jobs = Jobs(fleet)
        self.receipts = Receipts(fleet)
        self.rules = Rules(fleet)
        self.status_pages = StatusPages(fleet)
        self.checks = Checks(fleet)
        self.operations = Operations(fleet)
        self.notices = Notices(fleet)
        self.audit = Audit(fleet)
        self.timers = Timers(fleet, batches, self.rules)
        self.quotas = Quotas(fleet, batches)
        self.runs = Runs(fleet)
        self.attempts = Attempts(fleet, self._memberships)
        self.executors = Executors(fleet, self._memberships)
        self.held = Held(fleet, self._memberships)
        self.epochs = Epochs(fleet)
        self.namespaces = Namespaces(fleet)
        self.removals = Removals(fleet)
        self.upkeep = Upkeep(fleet)
        self.searches = Searches(fleet)
        self.feed = Feed(fleet)

    def __getattr__(self, name: str) -> Any:  # the parts of the tables
        raise AttributeError(name)

    async def open(self) -> None:
        """See the port."""
        try:
            await self.fleet.open()
        except BaseException:
            await self.fleet.close()
            raise

    async def close(self) -> None:
        """See the port."""
        await self.timers.close()
        await self.attempts.close()
        await self.fleet.close()

    async def now(self) -> float:
        """See the port: the clock of the first database, or of another while that is away."""
        return await self.fleet.from_any(lambda store: store.now())

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """See the port."""
        for store in self._stores:
            store.on_handover(tell)
