"""Three nodes that are started at the same moment, as by an orchestrator, beside the `tickwise db upgrade` of a new
installation: the keyspace gets three copies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from tests.services.cassandra import Cassandra, cluster_nodes
from tests.support.cassandras import CLOCK
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.looks import ClusterFinding
from tickwise.adapters.store.cassandra.schema import VERSION, findings, upgrade
from tickwise.domain.errors import StoreUnavailable

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(600)]


@pytest.mark.parametrize("late_seconds", [0.0, 15.0])
async def test_nodes_that_start_together_make_three_copies(late_seconds: float) -> None:
    """Whichever of them answers first, and also if it answers before the others have said a word."""
    nodes = cluster_nodes(3)
    address = read_address(f"cassandra://{','.join(each.address for each in nodes)}/together")
    said: list[str] = []

    async def made() -> str | None:
        with contextlib.suppress(StoreUnavailable):  # none of them answers yet: a supervisor starts the command again
            return await upgrade(address, CLOCK, advise=said.append)
        return None

    async def start(node: Cassandra, seconds: float) -> None:
        await CLOCK.sleep(seconds)
        await node.start()

    async with contextlib.AsyncExitStack() as stack:
        for node in nodes:
            stack.push_async_callback(node.remove)
        starts = [asyncio.create_task(start(node, late_seconds * number)) for number, node in enumerate(nodes)]
        try:
            assert str(VERSION) == await eventually(made, within_seconds=400, what="the keyspace is made")
        finally:
            await asyncio.gather(*starts)

        async def looked_at() -> Sequence[ClusterFinding] | None:
            with contextlib.suppress(StoreUnavailable):  # three that have just started may be slow to answer
                return (await findings(address, CLOCK))[1]
            return None

        found = await eventually(looked_at, within_seconds=100, what="the cluster answers")
        assert [("ok", "3 of each row")] == [(each.level, each.detail) for each in found if each.name == "copies"], said
