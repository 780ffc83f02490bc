"""Shards are shared evenly by keepers that only look: every seed of comings and goings ends even, and no shard moves in
vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from tickwise.adapters.store.keeper.balance import KeeperBeat, heirs, shares
from tickwise.adapters.store.keeper.balancer import (
    FREE_SECONDS,
    GONE_SECONDS,
    LOOK_SECONDS,
    STEADY_SECONDS,
    AliveKeepers,
    ShardBalancer,
)
from tickwise.domain.errors import StoreUnavailable
from tickwise.testing.clock import VirtualClock


def test_a_balanced_keyspace_stays_as_it_is() -> None:
    """In any order of the keepers: shares that differ by one are even."""
    for owners in ({1: "A", 2: "B", 3: "B"}, {1: "B", 2: "A", 3: "A"}, {1: "C", 2: "C", 3: "B", 4: "A"}):
        assert owners == shares(owners, {*owners.values()})


def test_only_what_is_too_much_moves() -> None:
    """From the keeper that has two more than another one, and to the one that has least."""
    assert {1: "A", 2: "A", 3: "C", 4: "B"} == shares({1: "A", 2: "A", 3: "A", 4: "B"}, ["A", "B", "C"])
    assert {1: "A", 2: "A", 3: "B", 4: "B"} == shares({1: "A", 2: "A", 3: "A", 4: "A"}, ["A", "B"])
    assert {1: "A", 2: "B"} == shares({1: "A", 2: "B"}, ["A", "B", "C", "D"])


def test_the_shards_of_one_that_is_gone_spread() -> None:
    """Over all that are left, who keep theirs."""
    owners = {1: "A", 2: "A", 3: "B", 4: "B", 5: "C", 6: "C"}
    assert {1: "B", 2: "C", 3: "B", 4: "B", 5: "C", 6: "C"} == shares(owners, ["B", "C"])
    assert {} == shares(owners, [])


def test_each_shard_has_one_heir() -> None:
    """The one that gets it if its owner dies, or the one that it is handed to; the only keeper has none."""
    assert {1: "B", 2: "C", 3: "C", 4: "B"} == heirs({1: "A", 2: "A", 3: "B", 4: "C"}, ["A", "B", "C"])
    assert {1: "B", 2: "B", 3: "B", 4: "B"} == heirs({1: "A", 2: "A", 3: "A", 4: "A"}, ["A", "B"])
    assert {} == heirs({1: "A", 2: "A"}, ["A"])


class Registry:
    """What all keepers see."""

    def __init__(self, shards: int, clock: VirtualClock) -> None:
        self.clock = clock
        self.beats: dict[str, tuple[int, float]] = {}
        self.owned = dict.fromkeys(range(1, shards + 1), "")
        self.is_away = False

    async def beat(self, keeper: str, number: int) -> None:
        self.check()
        self.beats[keeper] = number, self.clock.monotonic()

    async def leave(self, keeper: str) -> None:
        self.beats.pop(keeper, None)

    async def keepers(self) -> Mapping[str, KeeperBeat]:
        self.check()
        now = self.clock.monotonic()
        return {keeper: KeeperBeat(number, now - at) for keeper, (number, at) in self.beats.items()}

    async def owners(self) -> Mapping[int, str]:
        self.check()
        return dict(self.owned)

    def check(self) -> None:
        if self.is_away:
            raise StoreUnavailable("away")


class Owner:
    """One shard in a keeper's process, as the balancer sees it."""

    def __init__(self, shard: int, keeper: str, world: World) -> None:
        self.shard, self.keeper, self.world = shard, keeper, world
        self.waits, self.others_live, self.hands_over = False, False, False

    @property
    def store(self) -> object | None:
        return self if self.world.registry.owned[self.shard] == self.keeper else None

    def want(self, *, wanted: bool) -> None:
        self.waits = wanted and self.store is None

    def hand_over(self) -> bool:
        if self.store is None:
            return False
        self.world.handed_over += 1
        self.world.registry.owned[self.shard] = ""
        return True


class World:
    """Keepers on one clock. A shard that nobody alive has is taken by one of those that wait for it."""

    def __init__(self, shards: int, seed: int = 0) -> None:
        self.clock = VirtualClock()
        self.registry = Registry(shards, self.clock)
        self.random = Random(seed)
        self.keepers: dict[str, ShardBalancer] = {}
        self.owners: dict[str, list[Owner]] = {}
        self.handed_over = 0
        self.broken: set[str] = set()
        """Those that can open no shard."""

    def start(self, name: str) -> None:
        owners: list[Any] = [Owner(shard, name, self) for shard in self.registry.owned]
        self.owners[name] = owners
        self.keepers[name] = ShardBalancer(owners, self.registry, self.clock, name)

    def kill(self, name: str) -> None:
        """Its rows stay."""
        del self.keepers[name]

    async def pass_seconds(self, seconds: float) -> None:
        for _ in range(round(seconds / LOOK_SECONDS)):
            for name in self.random.sample(sorted(self.keepers), len(self.keepers)):
                try:
                    await self.keepers[name].look()
                except StoreUnavailable:
                    continue
            for shard, owner in self.registry.owned.items():
                if owner not in self.keepers:
                    waiting = [name for name in self.keepers if self.owners[name][shard - 1].waits]
                    ready = [name for name in waiting if name not in self.broken]
                    self.registry.owned[shard] = self.random.choice(ready) if ready else ""
            await self.clock.advance(LOOK_SECONDS)

    def counts(self) -> list[int]:
        found = Counter(self.registry.owned.values())
        assert not found.keys() - self.keepers.keys(), "each shard is somebody's"
        return sorted(found[name] for name in self.keepers)


@pytest.mark.parametrize("seed", range(20))
async def test_comings_and_goings_end_even(seed: int) -> None:
    """Some minutes after the last of them, and from then on nothing moves."""
    random = Random(seed)
    world = World(random.randint(1, 16), seed)
    world.start("k0")
    for number in range(1, 12):
        if len(world.keepers) > 1 and random.random() < 0.45:
            world.kill(random.choice(sorted(world.keepers)))
        else:
            world.start(f"k{number}")
        await world.pass_seconds(random.choice([1, 3, 8, 40]))
    await world.pass_seconds(GONE_SECONDS + FREE_SECONDS + 2 * STEADY_SECONDS + 3 * len(world.registry.owned))
    counts = world.counts()
    assert max(counts) - min(counts) <= 1, counts
    before, moves = dict(world.registry.owned), world.handed_over
    await world.pass_seconds(60)
    assert (before, moves) == (world.registry.owned, world.handed_over)


async def test_no_more_moves_than_are_needed() -> None:
    """A third keeper gets its share, each shard once; one that is killed moves nothing of the others."""
    world = World(6)
    world.start("A")
    await world.pass_seconds(3)
    world.start("B")
    await world.pass_seconds(30)
    assert ([3, 3], 3) == (world.counts(), world.handed_over)
    world.start("C")
    await world.pass_seconds(30)
    assert ([2, 2, 2], 5) == (world.counts(), world.handed_over)
    world.kill("A")
    await world.pass_seconds(30)
    assert ([3, 3], 5) == (world.counts(), world.handed_over)


async def test_a_keeper_that_does_not_stay_gets_nothing() -> None:
    """It lives for less than a share has to be due, again and again."""
    world = World(4)
    world.start("A")
    await world.pass_seconds(3)
    for number in range(5):
        world.start(f"short {number}")
        await world.pass_seconds(STEADY_SECONDS - 2 * LOOK_SECONDS)
        world.kill(f"short {number}")
        world.registry.beats.pop(f"short {number}")
        await world.pass_seconds(2)
    assert ([4], 0) == (world.counts(), world.handed_over)


async def test_heirs_take_over_at_once() -> None:
    """They wait before anybody has died, so the shards of one that is killed have an owner at the next look."""
    world = World(4)
    for name in ("A", "B", "C"):
        world.start(name)
    await world.pass_seconds(40)
    world.kill("A")
    await world.pass_seconds(1)
    assert [2, 2] == world.counts()


async def test_a_keeper_that_takes_nothing_is_given_nothing_more() -> None:
    """The shard that it was given comes back after a while, and stays: an outage is not repeated each minute."""
    world = World(4)
    world.start("A")
    await world.pass_seconds(3)
    world.broken.add("B")
    world.start("B")
    await world.pass_seconds(STEADY_SECONDS + FREE_SECONDS + 5)
    assert ([0, 4], 1) == (world.counts(), world.handed_over)
    await world.pass_seconds(300)
    assert ([0, 4], 1) == (world.counts(), world.handed_over)


async def test_nothing_moves_while_the_registry_is_away() -> None:
    """Nobody is taken for dead because nothing can be read."""
    world = World(4)
    world.start("A")
    world.start("B")
    await world.pass_seconds(30)
    before = dict(world.registry.owned)
    world.registry.is_away = True
    await world.pass_seconds(60)
    world.registry.is_away = False
    await world.pass_seconds(3)
    assert before == world.registry.owned


async def test_who_starts_after_a_death_is_the_heir_at_once() -> None:
    """The row of one that was killed is still there, and its name comes first: the new keeper waits for the shard from
    its first look on, and not only after it has seen for `GONE_SECONDS` that the row does not change."""
    world = World(1)
    for name in ("A", "B"):
        world.start(name)
    await world.pass_seconds(3)
    world.kill("A")
    await world.pass_seconds(GONE_SECONDS + 1)
    world.start("C")
    await world.keepers["C"].look()
    assert {1: "B"} == world.registry.owned
    assert world.owners["C"][0].waits


def test_a_wrong_clock_of_a_node_hides_no_keeper_that_beats() -> None:
    """By it the first look takes the keeper for gone; its next beat shows that it lives."""
    alive = AliveKeepers("me", VirtualClock())
    assert ["me"] == alive.seen({"other": KeeperBeat(7, 3_600.0)})
    assert ["me", "other"] == alive.seen({"other": KeeperBeat(8, 3_600.0)})
