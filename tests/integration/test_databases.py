"""The databases that the other tests stand on."""

from __future__ import annotations

import asyncpg

from tests.support import databases


async def test_a_module_gets_an_empty_database_of_its_own(database_url: str) -> None:
    """Its role owns it, and what one module leaves there is not in the way of the next."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("CREATE TABLE left_behind (value int)")
    await connection.close()
    async with databases.database(database_url) as other:
        connection = await asyncpg.connect(other)
        assert await connection.fetchval("SELECT to_regclass('left_behind')") is None
        assert await connection.fetchval(
            "SELECT pg_has_role(datdba, 'usage') FROM pg_database WHERE datname = current_database()"
        )
        await connection.close()


async def test_the_embedded_role_is_no_superuser(database_url: str) -> None:
    """What works in the tests works with the rights that the product has."""
    connection = await asyncpg.connect(database_url)
    assert not await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = 'tickwise'")
    await connection.close()
