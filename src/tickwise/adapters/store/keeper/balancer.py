"""`ShardBalancer`: the shards of a keyspace in one keeper's process, shared evenly with other keepers.

    each second:  beat ──► look: who is alive, who owns what ──► the shares of all (`balance`)
                    │
                    ├─ should have it, or is its heir ──► wait for the shard, read its log ahead
                    ├─ has one that another should have, for `STEADY_SECONDS` ──► hand it over, one at a time
                    └─ nobody has had it for `FREE_SECONDS` ──► everybody tries

A keeper counts as alive while its beats go on, by the clock of the one that looks. Invariant: all of this says who
tries; who owns a shard is decided by its epoch. If the registry cannot be read, all stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from typing import Final, Protocol

import structlog

from tickwise.adapters.store.keeper.balance import KeeperBeat, heirs, shares
from tickwise.adapters.store.keeper.owner import ShardOwner
from tickwise.domain.errors import Unavailable
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock

LOOK_SECONDS: Final = 1.0
GONE_SECONDS: Final = 4.0
"""Without a beat for so long a keeper is left out of the shares: less than a lease, so its heirs are at their places
when that ends."""
STEADY_SECONDS: Final = 5.0
"""A shard is handed over when the shares have said so for this long: a keeper that comes and goes moves nothing, and
the one that gets it reads its log meanwhile."""
FREE_SECONDS: Final = 10.0
"""A shard that nobody has for so long is not taken by the one that should."""
UNFIT_SECONDS: Final = 600.0
"""A keeper that did not take a shard that was handed to it gets no other one for so long."""

logger = structlog.get_logger("tickwise.keeper")


class KeeperRegistry(Protocol):
    """The keepers of a keyspace and the owners of its shards. Each method may raise `Unavailable`."""

    async def beat(self, keeper: str, number: int) -> None:
        """Publish that a keeper lives; `number` is another one each time."""
        ...

    async def leave(self, keeper: str) -> None:
        """Publish that a keeper ends."""
        ...

    async def keepers(self) -> Mapping[str, KeeperBeat]:
        """The keepers that have beaten lately."""
        ...

    async def owners(self) -> Mapping[int, str]:
        """The keeper that has each shard, by its endpoint; empty: nobody."""
        ...


class AliveKeepers:
    """The keepers whose beats go on, by the monotonic clock of this process."""

    def __init__(self, me: str, clock: Clock) -> None:
        self._me, self._clock = me, clock
        self._beats: dict[str, tuple[int, float]] = {}
        """The last number of each, and when it was seen first."""

    def seen(self, beats: Mapping[str, KeeperBeat]) -> list[str]:
        """Take a look; those that live, this one among them. A keeper that starts sees rows of some that were killed:
        the age of the last beat tells. If the clock of a node is wrong, the next beat tells."""
        now = self._clock.monotonic()
        for keeper, beat in beats.items():
            if (known := self._beats.get(keeper)) is None:
                self._beats[keeper] = beat.number, now - beat.age_seconds
            elif known[0] != beat.number:
                self._beats[keeper] = beat.number, now
        for keeper in self._beats.keys() - beats.keys():
            del self._beats[keeper]
        return sorted({self._me, *(each for each, (_, at) in self._beats.items() if now - at < GONE_SECONDS)})


class ShardBalancer:
    """Run it as a task; it ends when `stop` is set, or with the error of an owner that must not go on."""

    def __init__(self, owners: Collection[ShardOwner], registry: KeeperRegistry, clock: Clock, endpoint: str) -> None:
        """`owners`: one for each shard of the keyspace. `endpoint`: the name of this keeper, as it publishes it."""
        self.owners = {owner.shard: owner for owner in owners}
        self._registry, self._clock, self._me = registry, clock, endpoint
        self._alive = AliveKeepers(endpoint, clock)
        self._beats = 0
        self._since: dict[int, tuple[str, float]] = {}
        """Of a shard that is owned here and should be elsewhere: where, and since when."""
        self._free_since: dict[int, float] = {}
        self._handed: dict[int, str] = {}
        """The shards that were handed over and are nobody's yet, and to whom."""
        self._unfit_until: dict[str, float] = {}

    @property
    def state(self) -> str:
        """The work of this keeper just now, for people."""
        owned = [shard for shard, owner in self.owners.items() if owner.store is not None]
        if len(self.owners) == 1:
            return next(iter(self.owners.values())).state
        if not owned:
            return "it owns no shard, and waits for some"
        return f"it owns {len(owned)} of {len(self.owners)} shards: {', '.join(map(str, owned))}"

    def observe(self) -> None:
        """Bring the metrics of all shards up to now."""
        for owner in self.owners.values():
            owner.observe()

    async def check(self) -> None:
        """Raise `Unavailable` if it owns a shard and cannot answer for it. One that waits for shards is well."""
        for owner in self.owners.values():
            await owner.check()

    async def run(self, stop: asyncio.Event) -> None:
        """Own the shards that are this keeper's share, until `stop`."""
        ended = asyncio.Event()
        tasks = [asyncio.create_task(owner.run(ended)) for owner in self.owners.values()]
        looking = asyncio.create_task(self._look_on())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([*tasks, looking, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks([looking, stopping])
            with contextlib.suppress(Unavailable):  # else they see that the beats have ended
                await self._registry.leave(self._me)
            await self._look_for_others()
            ended.set()
            outcomes = await self._given_back(tasks)
        if not looking.cancelled() and (failure := looking.exception()) is not None:
            raise failure
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _given_back(self, tasks: Collection[asyncio.Task[None]]) -> list[BaseException | None]:
        """Wait until all shards are given back. Keepers that end at the same time are not waited for."""
        pending = {*tasks}
        while pending:
            _, pending = await asyncio.wait(pending, timeout=LOOK_SECONDS)
            if pending:
                await self._look_for_others()
        return await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_for_others(self) -> None:
        with contextlib.suppress(Unavailable):  # what was seen last counts
            self._note_others(self._alive.seen(await self._registry.keepers()))

    def _note_others(self, keepers: Collection[str]) -> None:
        for owner in self.owners.values():
            owner.others_live = any(keeper != self._me for keeper in keepers)

    async def _look_on(self) -> None:
        while True:
            try:
                await self.look()
            except Unavailable as failure:
                logger.warning("keepers_not_seen", detail=failure.detail)
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Beat, look at the others, and act on it."""
        self._beats += 1
        await self._registry.beat(self._me, self._beats)
        keepers = self._alive.seen(await self._registry.keepers())
        self._note_others(keepers)
        owners = await self._registry.owners()
        wanted, after = shares(owners, keepers), heirs(owners, keepers)
        free = self._free_too_long(owners, keepers)
        for shard, owner in self.owners.items():
            owner.want(wanted=self._me in (wanted[shard], after.get(shard)) or shard in free)
        self._note_arrivals(owners)
        self._give(owners, wanted, all_owned=all(owner in keepers for owner in owners.values()))

    def _free_too_long(self, owners: Mapping[int, str], keepers: Collection[str]) -> set[int]:
        now = self._clock.monotonic()
        free = {shard for shard, owner in owners.items() if owner not in keepers}
        self._free_since = {shard: self._free_since.get(shard, now) for shard in free}
        return {shard for shard, since in self._free_since.items() if now - since >= FREE_SECONDS}

    def _note_arrivals(self, owners: Mapping[int, str]) -> None:
        for shard, goal in [*self._handed.items()]:
            if owners[shard] == self._me and (self.owners[shard].store is None or self.owners[shard].hands_over):
                continue  # not given back yet
            if owners[shard] == self._me:
                self._unfit_until[goal] = self._clock.monotonic() + UNFIT_SECONDS
                logger.warning("shard_came_back", shard=shard, goal=goal.partition("/")[0])
            if owners[shard]:
                del self._handed[shard]

    def _give(self, owners: Mapping[int, str], wanted: Mapping[int, str], *, all_owned: bool) -> None:
        """Hand over one shard that another keeper should have, if that has been so for a while and no other shard is on
        its way."""
        now = self._clock.monotonic()
        mine = [shard for shard, owner in owners.items() if owner == self._me and wanted[shard] != self._me]
        since = {}
        for shard in mine:
            goal, at = self._since.get(shard, ("", now))
            since[shard] = (wanted[shard], at if goal == wanted[shard] else now)
        self._since = since
        if not all_owned or self._handed:
            return
        for shard, (goal, at) in since.items():
            if now - at < STEADY_SECONDS or self._unfit_until.get(goal, now) > now:
                continue
            if self.owners[shard].hand_over():
                self._handed[shard] = goal
                logger.info("shard_handed_over", shard=shard, goal=goal.partition("/")[0])
                return
