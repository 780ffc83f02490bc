"""The one node of a cluster starts again at another address, as a container does: its name leads there."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.services.cassandra import Cassandra
from tests.support.cassandras import USUAL_SECONDS, keyspace, linked, next_shard
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.domain.errors import Unavailable
from tickwise.testing.contracts.effect_log import own

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(300)]
NAME: Final = "cassandra.test"


@pytest_asyncio.fixture
async def node(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cassandra]:
    """A node whose name is `NAME`, at its address of the moment."""
    usual = socket.getaddrinfo
    async with Cassandra() as running:

        def resolved(host: Any, *given: Any, **named: Any) -> Any:
            return usual(running.host if host == NAME else host, *given, **named)

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        yield running


async def test_a_link_finds_its_node_at_another_address(node: Cassandra) -> None:
    """Without being opened anew: what was appended is there, and appends go on. While it looks, it can be closed."""
    async with keyspace(node.url) as url:
        name = read_address(url).keyspace
        async with linked(f"cassandra://{NAME}:{node.port}/{name}", answer_seconds=USUAL_SECONDS) as link:
            log = CassandraLog(link, next_shard(), lease_seconds=600.0)
            await own(log, "owner")
            assert 1 == await log.append(b"at the first address")
            await node.stop()
            node.host = "127.0.0.2"
            await node.start()
            await eventually(lambda: _answers(log), within_seconds=120, what="the link has found its node")
            assert [f"127.0.0.2:{node.port}"] == [str(host.endpoint) for host in link.hosts()]
            assert 2 == await log.append(b"at the second one")
            assert [1, 2] == [entry.position async for entry in log.entries(0)]
            node.kill()
            await eventually(lambda: _looks_again(link), within_seconds=90, what="it looks for its node")
    with pytest.raises(Unavailable, match="closed"):
        await link.ask("shard_look", 0)


async def _answers(log: CassandraLog) -> bool:
    """Try to renew the lease, as an owner does all the time."""
    try:
        async with asyncio.timeout(5.0):
            await log.renew()
    except (Unavailable, TimeoutError):
        return False
    return True


async def _looks_again(link: CassandraLink) -> bool:
    with contextlib.suppress(Unavailable):
        await link.ask("shard_look", 0)
    return link.looks_again
