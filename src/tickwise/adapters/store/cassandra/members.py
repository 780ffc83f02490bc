"""The number of nodes of a data centre when a keyspace is made: its copies follow from it, and stay.

    gossip of one node ──► joined, or still on their way
    the named hosts    ──► those that accept connections ──► all joined, and none on its way: that many
                                                         └── else look again, for `JOIN_SECONDS`

A node that has just started is in gossip before it is in `system.peers_v2`, which the driver reads. The first one of
several that start together knows of none: the address does, if it names them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from tickwise.adapters.store.cassandra.link import CassandraLink, statement
from tickwise.domain.errors import TickwiseError

JOIN_SECONDS: Final = 30.0
"""A node without data joins within 10 s of its first word. One that takes longer is no member when the keyspace is
made, and `db upgrade` and `doctor` say how to raise the copies later."""
LOOK_SECONDS: Final = 0.5
REACH_SECONDS: Final = 1.0
JOINED: Final = frozenset({"NORMAL", "MOVING", "shutdown"})
"""Also a member that was stopped in order: it comes back."""
GONE: Final = frozenset({"LEFT", "LEAVING", "removed", "removing"})


class SeenNodes(NamedTuple):
    """The nodes of one data centre, as one node has heard of them."""

    joined: int
    joining: int


def seen_nodes(rows: Iterable[tuple[str | None, str | None]], datacenter: str) -> SeenNodes:
    """Count the rows of gossip. A node that has not told its data centre or its state yet is on its way."""
    states = [(state or "").partition(",")[0] for place, state in rows if place in (None, datacenter)]
    joined = sum(state in JOINED for state in states)
    return SeenNodes(joined, sum(state not in JOINED | GONE for state in states))


async def node_count(link: CassandraLink) -> int:
    """The number of nodes of the data centre, once none that is known is still on its way, or after `JOIN_SECONDS`."""
    end = link.clock.monotonic() + JOIN_SECONDS
    while True:
        try:
            seen = seen_nodes(await link.run(statement("gossip_read")), link.datacenter)
        except TickwiseError:
            return len(link.hosts())  # this user may not read `system_views`: what the driver knows
        if (not seen.joining and seen.joined >= await _serving(link)) or link.clock.monotonic() > end:
            return max(seen.joined, 1)
        await link.clock.sleep(LOOK_SECONDS)


async def _serving(link: CassandraLink) -> int:
    """The number of machines that the address names and that accept connections."""
    found = await asyncio.gather(*(_machine(host, port) for host, port in link.address.hosts))
    return len({each for each in found if each is not None})


async def _machine(host: str, port: int) -> tuple[str, int] | None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(REACH_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
        name = writer.get_extra_info("peername")
        writer.close()
        return str(name[0]), int(name[1])
    return None
