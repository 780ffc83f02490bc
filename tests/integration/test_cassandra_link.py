"""One session of the driver: what stays behind of a request that was answered."""

from __future__ import annotations

import gc

from cassandra.cluster import ResponseFuture

from tests.support.cassandras import linked
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.readable.tables import read_generation

REQUESTS = 50


def requests_in_memory() -> int:
    """Requests of the driver, answered or not."""
    return sum(isinstance(each, ResponseFuture) for each in gc.get_objects())


async def test_an_answered_request_leaves_no_circle(cassandra_url: str) -> None:
    """Else its rows, thousands a second, would wait for a search for circles, which holds up every answer."""
    async with linked(cassandra_url, answer_seconds=5.0) as link:
        gc.collect()
        gc.disable()
        try:
            before = requests_in_memory()
            for _ in range(REQUESTS):
                await read_generation(link)
            # The driver's timers hold each one until its time is up.
            await eventually(lambda: requests_in_memory() - before < REQUESTS // 5)
        finally:
            gc.enable()
