"""Two databases of one installation, and the move of a namespace between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from tests.support import databases
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.shards.mover import MoveEnd, MovePause, MoveProgress, NamespaceMover, Tell
from tickwise.adapters.store.postgres.shards.tables import MOVED
from tickwise.ports.store import Store


async def _rows(connection: asyncpg.Connection, table: str, condition: str) -> list[dict[str, Any]]:
    found = await connection.fetch(f"SELECT * FROM tickwise.{table} c WHERE {condition}")
    return sorted(({name: value for name, value in row.items() if name != "lane"} for row in found), key=repr)


async def quietly(_: MoveProgress) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class TwoDatabases:
    """Shard 1, which has the map, and shard 2."""

    urls: tuple[str, str]
    stores: tuple[PostgresStore, PostgresStore]

    @property
    def first(self) -> PostgresStore:
        """The store that keeps the map."""
        return self.stores[0]

    def store(self, number: int) -> Store:
        """The store of a shard."""
        return self.stores[number - 1]

    def end(self, number: int) -> MoveEnd:
        """One side of a move."""
        store = self.stores[number - 1]
        return MoveEnd(number=number, cluster_id=store.upkeep.cluster_id, dsn=self.urls[number - 1])

    def mover(self, namespace: str, source: int, goal: int, tell: Tell | None = None) -> NamespaceMover:
        """A move that has not begun in this process."""
        return NamespaceMover(
            namespace, source=self.end(source), goal=self.end(goal), shard_map=self.first.shard_map,
            clock=SystemClock(), tell=tell or quietly,
        )  # fmt: skip

    async def name_shards(self) -> None:
        """Number them in the map, and let them know their installation."""
        first = self.first.upkeep.cluster_id
        for store in self.stores:
            shard = await self.first.shard_map.add(store.upkeep.cluster_id)
            await store.shard_membership.join(first, shard.number)

    async def move(self, namespace: str, source: int, goal: int) -> MovePause:
        """Move a namespace."""
        return await self.mover(namespace, source, goal).run()

    async def rows(self, number: int, table: str) -> list[dict[str, Any]]:
        """The rows of a table, without numbers that belong to their database."""
        connection = await asyncpg.connect(self.urls[number - 1])
        try:
            return await _rows(connection, table, "true")
        finally:
            await connection.close()

    async def content(self, number: int, namespace: str) -> dict[str, list[dict[str, Any]]]:
        """All rows of a namespace in a database, by table; tables without any are left out."""
        connection = await asyncpg.connect(self.urls[number - 1])
        try:
            found = {
                table.name: await _rows(
                    connection,
                    table.name,
                    await connection.fetchval("SELECT tickwise.shard_scope($1, $2)", table.ownership, namespace),
                )
                for table in MOVED
            }
        finally:
            await connection.close()
        return {name: rows for name, rows in found.items() if rows}

    async def execute(self, number: int, text: str, *arguments: Any) -> str:
        """Do something by hand in a database."""
        connection = await asyncpg.connect(self.urls[number - 1])
        try:
            return str(await connection.execute(text, *arguments))
        finally:
            await connection.close()


@asynccontextmanager
async def _opened(*urls: str) -> AsyncIterator[TwoDatabases]:
    one, two = (PostgresStore(url, clock=SystemClock()) for url in urls)
    try:
        for store in (one, two):
            await store.open()
        yield TwoDatabases((urls[0], urls[1]), (one, two))
    finally:
        for store in (one, two):
            await store.close()


@asynccontextmanager
async def upgraded(postgres_url: str) -> AsyncIterator[str]:
    """The name of a database with the schema, to make others of."""
    async with databases.database(postgres_url) as url:
        await upgrade(url)
        yield urlsplit(url).path.lstrip("/")


@asynccontextmanager
async def two_databases(postgres_url: str, template: str, *, named: bool = True) -> AsyncIterator[TwoDatabases]:
    """Both, empty, with a map that knows them if `named`; copies of the template, for a schema takes longer to make."""
    async with databases.database(postgres_url, template) as one, databases.database(postgres_url, template) as two:
        for url in (one, two):
            connection = await asyncpg.connect(url)
            async with databases.closed_at_end(connection):
                await connection.execute("UPDATE tickwise.cluster SET cluster_id = gen_random_uuid()")
        async with _opened(one, two) as both:
            if named:
                await both.name_shards()
            yield both
