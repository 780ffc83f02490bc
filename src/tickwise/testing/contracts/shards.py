"""The map of shards: which database holds which namespace."""

from __future__ import annotations

import asyncio

import pytest

from tickwise.domain.errors import Conflict, NotFound
from tickwise.ports.shards import NamespacePlace, Shard, ShardMap, ShardState

FIRST, SECOND, THIRD = (f"0199c0de-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))
"""Identities of databases."""


class ShardMapContract:
    """The promises of all maps. The adapter's class provides the fixture `shard_map`: an empty one."""

    async def filled(self, shard_map: ShardMap) -> None:
        """Two shards, and the namespace `team` in the first."""
        await shard_map.add(FIRST)
        await shard_map.add(SECOND)
        await shard_map.place("team", 1)

    async def test_shards_are_numbered_in_the_order_of_their_adding(self, shard_map: ShardMap) -> None:
        """From 1; a database that is added again keeps its number."""
        assert await shard_map.add(FIRST) == Shard(1, FIRST)
        assert await shard_map.add(SECOND) == Shard(2, SECOND)
        assert await shard_map.add(FIRST) == Shard(1, FIRST)
        assert dict((await shard_map.read()).shards) == {1: Shard(1, FIRST), 2: Shard(2, SECOND)}

    async def test_a_number_never_comes_back(self, shard_map: ShardMap) -> None:
        """Something may still name the shard that had it."""
        await self.filled(shard_map)
        await shard_map.remove(2)
        assert await shard_map.add(THIRD) == Shard(3, THIRD)
        assert await shard_map.add(SECOND) == Shard(4, SECOND)

    async def test_a_namespace_gets_one_place(self, shard_map: ShardMap) -> None:
        """The second process that places it is told where it is."""
        await self.filled(shard_map)
        assert await shard_map.place("team", 2) == NamespacePlace(1)
        assert dict((await shard_map.read()).places) == {"team": NamespacePlace(1)}

    async def test_processes_that_place_it_at_the_same_time_agree(self, shard_map: ShardMap) -> None:
        """The first one decides for all of them."""
        await self.filled(shard_map)
        places = await asyncio.gather(*(shard_map.place("new", 1 + number % 2) for number in range(8)))
        assert len(set(places)) == 1
        assert (await shard_map.read()).places["new"] == places[0]

    async def test_a_namespace_is_placed_in_a_shard_that_is_there(self, shard_map: ShardMap) -> None:
        """Another number is refused, and nothing is noted."""
        await self.filled(shard_map)
        with pytest.raises(NotFound):
            await shard_map.place("new", 7)
        assert "new" not in (await shard_map.read()).places

    async def test_a_namespace_moves(self, shard_map: ShardMap) -> None:
        """On its way it is where it was, and then at its goal."""
        await self.filled(shard_map)
        assert await shard_map.begin_move("team", 2) == NamespacePlace(1, 2)
        assert (await shard_map.read()).places["team"] == NamespacePlace(1, 2)
        assert await shard_map.end_move("team", arrived=True) == NamespacePlace(2)
        assert (await shard_map.read()).places["team"] == NamespacePlace(2)

    async def test_a_move_that_is_given_up_leaves_it_where_it_was(self, shard_map: ShardMap) -> None:
        """It may go elsewhere then."""
        await self.filled(shard_map)
        await shard_map.begin_move("team", 2)
        assert await shard_map.end_move("team", arrived=False) == NamespacePlace(1)
        assert (await shard_map.read()).places["team"] == NamespacePlace(1)

    async def test_steps_of_a_move_may_be_repeated(self, shard_map: ShardMap) -> None:
        """A mover that was killed begins and ends the same move again: twice is once."""
        await self.filled(shard_map)
        await shard_map.begin_move("team", 2)
        assert await shard_map.begin_move("team", 2) == NamespacePlace(1, 2)
        await shard_map.end_move("team", arrived=True)
        version = (await shard_map.read()).version
        assert await shard_map.end_move("team", arrived=True) == NamespacePlace(2)
        assert await shard_map.end_move("team", arrived=False) == NamespacePlace(2)
        assert (await shard_map.read()).version == version

    async def test_a_namespace_has_one_goal_at_a_time(self, shard_map: ShardMap) -> None:
        """A second move waits for the end of the first."""
        await self.filled(shard_map)
        await shard_map.add(THIRD)
        await shard_map.begin_move("team", 2)
        with pytest.raises(Conflict):
            await shard_map.begin_move("team", 3)
        assert (await shard_map.read()).places["team"] == NamespacePlace(1, 2)

    async def test_a_move_to_where_it_is_changes_nothing(self, shard_map: ShardMap) -> None:
        """It is there already."""
        await self.filled(shard_map)
        version = (await shard_map.read()).version
        assert await shard_map.begin_move("team", 1) == NamespacePlace(1)
        assert (await shard_map.read()).version == version

    async def test_unknown_names_are_refused(self, shard_map: ShardMap) -> None:
        """A namespace without a place, and a shard that is not there."""
        await self.filled(shard_map)
        for refused in (
            shard_map.begin_move("nobody", 2),
            shard_map.begin_move("team", 7),
            shard_map.end_move("nobody", arrived=True),
            shard_map.set_state(7, ShardState.DRAINING),
        ):
            with pytest.raises(NotFound):
                await refused

    async def test_a_shard_is_drained_and_opened(self, shard_map: ShardMap) -> None:
        """Its namespaces stay until they are moved."""
        await self.filled(shard_map)
        await shard_map.set_state(1, ShardState.DRAINING)
        found = await shard_map.read()
        assert (found.shards[1].state, found.places["team"]) == (ShardState.DRAINING, NamespacePlace(1))
        await shard_map.set_state(1, ShardState.OPEN)
        assert (await shard_map.read()).shards[1].state is ShardState.OPEN

    async def test_a_shard_in_use_is_not_removed(self, shard_map: ShardMap) -> None:
        """Neither while a namespace is there, nor while one is on its way to it."""
        await self.filled(shard_map)
        await shard_map.begin_move("team", 2)
        for number in (1, 2):
            with pytest.raises(Conflict):
                await shard_map.remove(number)
        await shard_map.end_move("team", arrived=True)
        await shard_map.remove(1)
        assert set((await shard_map.read()).shards) == {2}

    async def test_each_change_has_a_greater_version(self, shard_map: ShardMap) -> None:
        """A reader tells by it which of two states is the newer one."""
        versions = [(await shard_map.read()).version]
        for change in (
            lambda: shard_map.add(FIRST),
            lambda: shard_map.add(SECOND),
            lambda: shard_map.place("team", 1),
            lambda: shard_map.set_state(2, ShardState.DRAINING),
            lambda: shard_map.begin_move("team", 2),
            lambda: shard_map.end_move("team", arrived=True),
            lambda: shard_map.remove(1),
        ):
            await change()
            versions.append((await shard_map.read()).version)
        assert sorted(set(versions)) == versions
