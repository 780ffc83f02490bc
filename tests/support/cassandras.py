"""Keyspaces of a Cassandra of tests, and logs in them."""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import AsyncIterator, Iterator

from tests.services.shared import GIVEN
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import CassandraAddress, read_address
from tickwise.adapters.store.cassandra.link import CassandraLink, opened_link
from tickwise.adapters.store.cassandra.schema import upgrade

CLOCK = SystemClock()
PATIENT_SECONDS = 20.0
"""For an answer, where nothing is done to the node: a machine that is busy may hold it up for longer than the product
waits."""
USUAL_SECONDS = 2.0
"""As shipped, for tests that do harm to a node."""
_shards: Iterator[int] = itertools.count()


def next_shard() -> int:
    """A shard that no other test of this process uses."""
    return next(_shards)


@contextlib.asynccontextmanager
async def keyspace(server_url: str, shards: int = 1) -> AsyncIterator[str]:
    """The address of a fresh keyspace with its tables. It is dropped from a server that outlives the tests."""
    address = read_address(f"{server_url}/t{uuid.uuid4().hex[:12]}")
    url = f"{server_url}/{address.keyspace}"
    await upgrade(address, CLOCK, shards=shards)
    yield url
    if os.environ.get(GIVEN["cassandra"]):
        async with linked(address) as link:
            await link.run(f"DROP KEYSPACE {address.keyspace}")


@contextlib.asynccontextmanager
async def linked(
    address: CassandraAddress | str, *, answer_seconds: float = PATIENT_SECONDS
) -> AsyncIterator[CassandraLink]:
    """An open link."""
    where = read_address(address) if isinstance(address, str) else address
    link = await opened_link(where, CLOCK, answer_seconds=answer_seconds)
    try:
        yield link
    finally:
        await link.close()
