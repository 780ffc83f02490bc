"""The nodes that count when a keyspace is made: those that have joined; those that are on their way are waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tickwise.adapters.store.cassandra import members
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.members import JOIN_SECONDS, NodeCount, SeenNodes, node_count, seen_nodes
from tickwise.domain.errors import Misconfigured

NOWHERE = ("127.0.0.1", 1)
ONE = ("dc1", "NORMAL,-9223372036854775807", "NORMAL,-9223372036854775807")
Rows = Sequence[tuple[str | None, str | None, str | None]]


class SleptClock:
    """One whose time passes in pauses alone: connections may take as long as a busy machine needs."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        """At once."""
        self._seconds += seconds


class GossipLink:
    """A link to a node that hears of the others bit by bit."""

    datacenter = "dc1"

    def __init__(self, *looks: Rows, hosts: Sequence[tuple[str, int]] = (), known: int = 1) -> None:
        self.clock = SleptClock()
        self.address = SimpleNamespace(hosts=hosts)
        self.looks = 0
        self._looks, self._known = looks, known
        self.said: list[str] = []

    def hosts(self) -> list[Any]:
        """As the driver knows them."""
        return [None] * self._known

    async def run(self, _text: str) -> Rows:
        """The next look; the last one again and again."""
        self.looks += 1
        if not self._looks:
            raise Misconfigured("no permission on system_views")
        return self._looks[min(self.looks, len(self._looks)) - 1]

    async def counted(self) -> NodeCount:
        """The number of nodes, once it is told."""
        return await node_count(cast(CassandraLink, self), self.said.append)


@pytest.mark.parametrize(
    ("rows", "seen"),
    [
        ([ONE, ONE, ONE], SeenNodes(3, 0)),
        ([ONE, ("dc1", "BOOT,7", None), ("dc1", None, None), (None, None, None)], SeenNodes(1, 3)),
        ([ONE, ("dc1", "shutdown,true", None), ("dc1", "LEFT,7,9", None), ("dc1", "LEAVING,7", None)], SeenNodes(2, 0)),
        ([("dc1", "NORMAL,7", None), ("dc1", None, "NORMAL,7"), ("dc1", None, "BOOT,7")], SeenNodes(2, 1)),
        ([ONE, ("dc2", "NORMAL,7", None), ("dc2", "BOOT,7", None)], SeenNodes(1, 0)),
    ],
)
def test_nodes_are_told_apart_by_their_state(rows: Rows, seen: SeenNodes) -> None:
    """One that was stopped comes back, one that left does not, and those of another data centre have no part."""
    assert seen == seen_nodes(rows, "dc1")


async def test_nodes_that_join_are_waited_for() -> None:
    """Until all of them have."""
    link = GossipLink([ONE], [ONE, ("dc1", None, None)], [ONE, ("dc1", "BOOT,7", None)], [ONE, ONE])
    link.looks = 1
    assert (NodeCount(2, 0), 4) == (await link.counted(), link.looks)


async def test_one_that_never_joins_is_not_waited_for_without_end() -> None:
    """What has joined counts."""
    link = GossipLink([ONE, ONE, ("dc1", "BOOT,7", None)])
    assert NodeCount(2, 0) == await link.counted()
    assert link.looks > JOIN_SECONDS


async def test_hosts_of_the_address_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first node of several that start together has heard of none: each machine counts once, and what is waited for
    is said."""
    monkeypatch.setattr(members, "REACH_SECONDS", 60.0)
    async with serving(2) as (first, second):
        link = GossipLink([ONE], [ONE], [ONE, ONE], hosts=[first, second, ("localhost", first[1])])
        assert (NodeCount(2, 0), 3) == (await link.counted(), link.looks)
    assert [
        f"waiting up to {JOIN_SECONDS:.0f} s for nodes that join: 1 joined so far, 0 on their way, and of the hosts "
        "that the address names 2 answer and 0 do not"
    ] == link.said


async def test_a_host_that_does_not_answer_may_be_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for as long as one that joins, where there would be more copies with it; then it is missing."""
    monkeypatch.setattr(members, "REACH_SECONDS", 60.0)
    async with serving(2) as hosts:
        link = GossipLink([ONE, ONE], hosts=[*hosts, NOWHERE])
        assert NodeCount(2, 1) == await link.counted()
        assert link.looks > JOIN_SECONDS
        link = GossipLink([ONE, ONE, ONE], hosts=[*hosts, NOWHERE, ("127.0.0.1", 2)])
        assert (NodeCount(3, 0), 1) == (await link.counted(), link.looks), "more than three have as many copies"


@contextlib.asynccontextmanager
async def serving(count: int) -> AsyncIterator[list[tuple[str, int]]]:
    """The addresses of so many servers."""
    async with contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                await asyncio.start_server(lambda _r, w: w.close(), f"127.0.0.{number + 1}", 0)
            )
            for number in range(count)
        ]
        yield [each.sockets[0].getsockname() for each in servers]


async def test_a_user_who_may_not_look_goes_by_what_the_driver_knows() -> None:
    """`system_views` needs a permission of its own."""
    assert NodeCount(3, 0) == await GossipLink(known=3).counted()
