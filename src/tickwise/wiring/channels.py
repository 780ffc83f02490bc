"""The channels of a broker, made ahead by an operator with the right to: then no role needs that right."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.ports.store import Store
from tickwise.wiring.cassandra.keyspace import cassandra_store
from tickwise.wiring.link import given_broker, is_sqs, make_broker
from tickwise.wiring.runtime import given_database
from tickwise.wiring.storage.databases import addresses


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
    store = _store(given_database(settings), clock)
    try:
        await store.open()
        cluster = store.upkeep.cluster_id
        await broker.open(cluster)
        rights = await asyncio.to_thread(_allow, url, users) if users else 0
    finally:
        await broker.close()
        await store.close()
    return Prepared(cluster, rights)


def _store(database_url: str, clock: Clock) -> Store:
    """The store that has the name of the installation: of several databases the first one."""
    if is_cassandra(database_url):
        return cassandra_store(database_url, clock)
    from tickwise.adapters.store.postgres import PostgresStore

    return PostgresStore(addresses(database_url)[0], clock=clock)


def _allow(url: str, users: Mapping[str, str]) -> int:
    from tickwise.adapters.broker.kafka.rights import allow

    return allow(url, users)
