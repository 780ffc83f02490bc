"""The number of nodes of a data centre when a keyspace is made: its copies follow from it, and stay.

    gossip of one node ──► joined, or still on their way
    the named hosts    ──► machines that accept connections, and those that do not ──► all joined: that many
                                                         └── else look again, for `JOIN_SECONDS`

A node that has just started is in gossip before it is in `system.peers_v2`, which the driver reads. The first one of
several that start together knows of none, and none of them accepts connections yet: the address names them. A host that
does not answer is therefore waited for, but only where its copy would be missed: with `COPIES` nodes none is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tickwise.adapters.store.cassandra.link import CassandraLink, statement
from tickwise.adapters.store.cassandra.looks import COPIES
from tickwise.domain.errors import TickwiseError

JOIN_SECONDS: Final = 120.0
"""A node without data joins within 10 s of its first word if it is a seed, and else after the 30 s of its ring delay;
its start before that takes 10 to 60 s. One that takes longer is no member when the keyspace is made, and `db upgrade`
and `doctor` say how to raise the copies later."""
LOOK_SECONDS: Final = 0.5
REACH_SECONDS: Final = 1.0
JOINED: Final = frozenset({"NORMAL", "MOVING", "shutdown"})
"""Also a member that was stopped in order: it comes back."""
GONE: Final = frozenset({"LEFT", "LEAVING", "removed", "removing"})


class SeenNodes(NamedTuple):
    """The nodes of one data centre, as one node has heard of them."""

    joined: int
    joining: int


def seen_nodes(rows: Iterable[tuple[str | None, str | None, str | None]], datacenter: str) -> SeenNodes:
    """Count the rows of gossip: the data centre, and the state in its present and its former form. A node that has not
    told its data centre or its state yet is on its way."""
    states = [(now or before or "").partition(",")[0] for place, now, before in rows if place in (None, datacenter)]
    joined = sum(state in JOINED for state in states)
    return SeenNodes(joined, sum(state not in JOINED | GONE for state in states))


class NodeCount(NamedTuple):
    """The nodes that a new keyspace can count on."""

    joined: int
    missing: int
    """Hosts that the address names, that did not answer, and whose copies are missed."""


class NamedMachines(NamedTuple):
    """The hosts that the address names."""

    serving: int
    """Machines that accept connections: two names of one count once."""
    silent: int


async def node_count(link: CassandraLink, advise: Callable[[str], None]) -> NodeCount:
    """The nodes of the data centre, once none that is known is still on its way, or after `JOIN_SECONDS`. `advise`
    hears that nodes are waited for."""
    end = link.clock.monotonic() + JOIN_SECONDS
    has_said = False
    while True:
        try:
            seen = seen_nodes(await link.run(statement("gossip_read")), link.datacenter)
        except TickwiseError:
            return NodeCount(len(link.hosts()), 0)  # this user may not read `system_views`: what the driver knows
        named = await _named_machines(link)
        missing = named.silent if seen.joined < COPIES else 0
        is_whole = not (seen.joining or missing) and seen.joined >= named.serving
        if is_whole or link.clock.monotonic() > end:
            return NodeCount(max(seen.joined, 1), missing)
        if not has_said:
            has_said = True
            advise(
                f"waiting up to {JOIN_SECONDS:.0f} s for nodes that join: {seen.joined} joined so far, {seen.joining} "
                f"on their way, and of the hosts that the address names {named.serving} answer and {named.silent} do "
                "not"
            )
        await link.clock.sleep(LOOK_SECONDS)


async def _named_machines(link: CassandraLink) -> NamedMachines:
    found = await asyncio.gather(*(_machine(host, port) for host, port in link.address.hosts))
    return NamedMachines(len({each for each in found if each is not None}), found.count(None))


async def _machine(host: str, port: int) -> tuple[str, int] | None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(REACH_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
        name = writer.get_extra_info("peername")
        writer.close()
        return str(name[0]), int(name[1])
    return None
