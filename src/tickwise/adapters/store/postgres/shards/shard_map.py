"""`PostgresShardMap`: the map of shards in the tables of the first database.

Invariant: each change locks the version of the map first, so two processes never change it at the same time, and a
reader that sees a change sees its version.
"""

from __future__ import annotations

from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Conflict, Misconfigured, NotFound
from tickwise.ports.shards import NamespacePlace, Placement, Shard, ShardState

FIRST: Final = 1
"""The shard that keeps the map."""


class PostgresShardMap(Part):
    """`ports.shards.ShardMap`. Use it on the first database of the installation alone."""

    async def read(self) -> Placement:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            version, shards, places = await connection.fetchrow(statement("shard_map_read"))
        return Placement(
            version,
            {number: Shard(number, cluster, ShardState(state)) for number, cluster, state in shards},
            {namespace: NamespacePlace(shard, goal) for namespace, shard, goal in places},
        )

    async def add(self, cluster_id: str) -> Shard:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("shard_map_lock"))
            row = await connection.fetchrow(statement("shard_of_cluster"), cluster_id)
            if row is None:
                row = await connection.fetchrow(statement("shard_add"), cluster_id)
        return Shard(row["number"], cluster_id, ShardState(row["state"]))

    async def set_state(self, number: int, state: ShardState) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("shard_map_lock"))
            if not await connection.fetchval(statement("shard_set_state"), number, state):
                raise _no_shard(number)

    async def remove(self, number: int) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("shard_map_lock"))
            used = await connection.fetchrow(statement("shard_uses"), number)
            if used is not None:
                raise Conflict(
                    f"shard {number} has the namespace {used['namespace']!r}, one of {used['uses']} that are there or "
                    "on their way: move them to other shards first"
                )
            await connection.execute(statement("shard_remove"), number)

    async def place(self, namespace: str, shard: int) -> NamespacePlace:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("shard_map_lock"))
            found = await _place(connection, namespace)
            if found is not None:
                return found
            await _check_shard(connection, shard)
            await connection.execute(statement("shard_place"), namespace, shard)
        return NamespacePlace(shard)

    async def begin_move(self, namespace: str, goal: int) -> NamespacePlace:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("shard_map_lock"))
            found = await _needed(connection, namespace)
            await _check_shard(connection, goal)
            if found.moving_to not in (None, goal):
                raise Conflict(
                    f"the namespace {namespace!r} is on its way from shard {found.shard} to shard {found.moving_to}: "
                    f"end that move first, with `tickwise shards move {namespace} --to {found.moving_to}`"
                )
            if found.shard == goal:
                return found
            await connection.execute(statement("shard_move_begin"), namespace, goal)
        return NamespacePlace(found.shard, goal)

    async def end_move(self, namespace: str, *, arrived: bool) -> NamespacePlace:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("shard_map_lock"))
            found = await _needed(connection, namespace)
            if found.moving_to is None:
                return found
            await connection.execute(statement("shard_move_end"), namespace, arrived)
        return NamespacePlace(found.moving_to if arrived else found.shard)


class ShardMembership(Part):
    """The installation that a database belongs to, noted in the database itself."""

    async def join(self, first_cluster: str, number: int) -> None:
        """Note that this database is shard `number` of the installation whose first database is `first_cluster`.

        Raises `Misconfigured` if it belongs to another installation, or holds jobs of its own.
        """
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            row = await connection.fetchrow(statement("shard_membership"))
            if row["first_cluster"] == first_cluster:
                return
            if row["first_cluster"] is not None or row["shards"] > 1:
                other = row["first_cluster"] or row["cluster_id"]
                raise Misconfigured(
                    f"this database belongs to another installation, {other}: name a database of its own for each one"
                )
            if number != FIRST and row["has_content"]:
                raise Misconfigured(
                    "this database already holds jobs, keys or people of a Tickwise of its own: add an empty one"
                )
            await connection.execute(statement("shard_join"), first_cluster, number)

    async def leave(self) -> None:
        """Forget the installation."""
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(statement("shard_leave"))

    async def first_cluster(self) -> str | None:
        """The identity of the first database of its installation; None: it stands alone."""
        async with self._links.pooled(writes=False) as connection:
            found: str | None = await connection.fetchval(statement("shard_first_cluster"))
        return found


async def _place(connection: asyncpg.Connection, namespace: str) -> NamespacePlace | None:
    row = await connection.fetchrow(statement("shard_place_of"), namespace)
    return None if row is None else NamespacePlace(row["shard"], row["moving_to"])


async def _needed(connection: asyncpg.Connection, namespace: str) -> NamespacePlace:
    found = await _place(connection, namespace)
    if found is None:
        raise NotFound(f"the namespace {namespace!r} has no place in the map of shards")
    return found


async def _check_shard(connection: asyncpg.Connection, number: int) -> None:
    if not await connection.fetchval(statement("shard_is_there"), number):
        raise _no_shard(number)


def _no_shard(number: int) -> NotFound:
    return NotFound(f"there is no shard {number}: `tickwise shards list` shows those that are there")
