"""The channels of a broker, made ahead by an operator with the right to: then no role needs that right."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, StoreUnavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import Store
from tickwise.wiring.cassandra.keyspace import cassandra_store
from tickwise.wiring.link import given_broker, is_sqs, make_broker
from tickwise.wiring.runtime import given_database
from tickwise.wiring.storage.databases import addresses

KEEPER_SECONDS: Final = 15.0
"""The wait for a keeper: one that has just started owns its shards a moment later, or after the lease of another."""
LOOK_SECONDS: Final = 0.25


class Prepared(NamedTuple):
    """The actions that were taken."""

    cluster: str
    """The name of the store that the channels serve."""
    rights: int
    """The number of rights of users."""


def prepare(settings: Settings, users: Mapping[str, str]) -> Prepared:
    """Make the channels for the store of the settings, and give each user (by role) the rights of its role. Twice is
    once. Raises `Misconfigured`, `StoreUnavailable`, `BrokerUnavailable`."""
    return asyncio.run(_prepare(settings, users))


async def _prepare(settings: Settings, users: Mapping[str, str]) -> Prepared:
    url, clock = given_broker(settings), SystemClock()
    if users and is_sqs(url):
        raise Misconfigured("rights on queues of SQS are policies of AWS, see docs/how-to/sqs.md; leave --allow out")
    broker = make_broker(url, clock)
    database_url = given_database(settings)
    store = _store(database_url, clock)
    try:
        await _open(store, clock, patience_seconds=KEEPER_SECONDS if is_cassandra(database_url) else 0.0)
        cluster = store.upkeep.cluster_id
        await broker.open(cluster)
        rights = await asyncio.to_thread(_allow, url, users) if users else 0
    finally:
        await broker.close()
        await store.close()
    return Prepared(cluster, rights)


async def _open(store: Store, clock: Clock, *, patience_seconds: float) -> None:
    end = clock.monotonic() + patience_seconds
    while True:
        try:
            return await store.open()
        except StoreUnavailable:
            if clock.monotonic() >= end:
                raise
        await clock.sleep(LOOK_SECONDS)


def _store(database_url: str, clock: Clock) -> Store:
    """The store that has the name of the installation: of several databases the first one."""
    if is_cassandra(database_url):
        return cassandra_store(database_url, clock)
    from tickwise.adapters.store.postgres import PostgresStore

    return PostgresStore(addresses(database_url)[0], clock=clock)


def _allow(url: str, users: Mapping[str, str]) -> int:
    from tickwise.adapters.broker.kafka.rights import allow

    return allow(url, users)
