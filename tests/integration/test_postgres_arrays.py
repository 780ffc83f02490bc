"""Arrays that the store packs itself bring the server the same values as the driver's own would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.store.postgres.connection.arrays import TYPES, pack_columns
from tickwise.adapters.store.postgres.connection.link import Links

VALUES: dict[str, list[Any]] = {
    "bool": [True, False, True],
    "int2": [0, 1, -1, 32_767, -32_768],
    "int4": [0, 1, -1, 2**31 - 1, -(2**31)],
    "int8": [0, 1, -1, 2**63 - 1, -(2**63)],
    "float8": [0.0, 1.5, -1.5, 1_790_000_000.123456, 5e-324, 1.7e308, float("inf"), float("-inf")],
    "text": ["", "a", "default", "default", "Ünï\N{SNOWMAN}\U0001f600", "x" * 100_000, 'with "quotes", {braces} \\'],
    "uuid": [UUID(int=0), UUID(int=2**128 - 1), UUID("01234567-89ab-8def-8123-456789abcdef")],
    "bytea": [b"", b"\x00\xff", b"x" * 100_000],
}
REFUSED: dict[str, list[Any]] = {
    "bool": ["yes", b"1", 1.5, 2, 1, 0],
    "int2": [32_768, -32_769, 1.5, "1"],
    "int4": [2**31, 1.5, "1"],
    "int8": [2**63, 1.5, "1"],
    "float8": ["1.5", b"1"],
    "text": [1, b"bytes", "a lone \ud800 surrogate"],
    "uuid": [1, "01234567-89ab-8def-8123-456789abcdef", b"0123456789abcdef"],
    "bytea": [1, "text"],
}


@pytest_asyncio.fixture
async def plain(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The driver as it is."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def packing(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The driver with our codecs."""
    connection = await asyncpg.connect(database_url)
    await pack_columns(connection)
    yield connection
    await connection.close()


def shapes(values: list[Any]) -> list[list[Any]]:
    """Arrays of these values: whole, with gaps, of nothing but gaps, empty."""
    gaps = [each for value in values for each in (value, None)]
    return [values, values[:1], gaps, [None, *values], [None], [None] * 3, []]


@pytest.mark.parametrize("name", VALUES)
async def test_an_array_arrives_as_the_driver_itself_would_send_it(
    plain: asyncpg.Connection, packing: asyncpg.Connection, name: str
) -> None:
    """The server sees the same values, however many are NULL, and reading them back gives what was sent."""
    for values in shapes(VALUES[name]):
        for sent in (values, tuple(values)):
            # As text: what the server makes of it, whoever reads it.
            expected = await plain.fetchval(f"SELECT $1::{name}[]::text", sent)
            assert await packing.fetchval(f"SELECT $1::{name}[]::text", sent) == expected
            assert await packing.fetchval(f"SELECT $1::{name}[]", sent) == values


@pytest.mark.parametrize("name", REFUSED)
async def test_a_value_of_another_type_is_refused_before_anything_is_sent(
    packing: asyncpg.Connection, name: str
) -> None:
    """The driver's own error says so, among good values and NULLs as well, and the connection goes on."""
    good = VALUES[name][0]
    for bad in REFUSED[name]:
        for values in ([bad], [good, bad], [None, bad]):
            with pytest.raises(asyncpg.DataError) as caught:
                await packing.fetchval(f"SELECT $1::{name}[]::text", values)
            assert type(caught.value) is asyncpg.DataError  # not one of the server's
    assert await packing.fetchval("SELECT 1") == 1


async def test_an_array_of_arrays_is_no_column(packing: asyncpg.Connection) -> None:
    """Nothing of ours has one, so one that comes is said to be wrong, and not read as something else."""
    with pytest.raises(ValueError, match="has 2 dimensions"):
        await packing.fetchval("SELECT ARRAY[[1, 2], [3, 4]]")


async def test_every_connection_of_a_store_packs_its_arrays_so(database_url: str) -> None:
    """Those with a duty of their own, and those of the pool."""
    links = Links(database_url, changed=lambda: None)
    await links.open()
    try:
        async with links.line("some duty").use(writes=False) as hot, links.pooled(writes=False) as pooled:
            for connection in (hot, pooled):
                with pytest.raises(ValueError, match="has 2 dimensions"):
                    await connection.fetchval("SELECT ARRAY[[1, 2], [3, 4]]")
    finally:
        await links.close()


async def test_the_types_are_the_servers(plain: asyncpg.Connection) -> None:
    """Their numbers are written down here, so they are compared with the server's."""
    for kind in TYPES:
        row = await plain.fetchrow(
            "SELECT oid::int8, typarray::int8 FROM pg_catalog.pg_type WHERE oid = $1::text::regtype", kind.name
        )
        assert tuple(row) == (kind.oid, kind.array_oid)
