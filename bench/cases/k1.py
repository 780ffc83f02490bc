"""K1: T2 with a broker between the roles, Kafka and all on the same machine.

    client ──► store ──► hint ──► Kafka ──► executor ──► store             results=direct
                                               └──► Kafka ──► recorder ──► store    results=broker

Three streams in each round, one after the other on an empty store: as much as comes back with outcomes told directly,
the same with outcomes through Kafka, and a paced one, of which the time from due to start is read: in the others that
time is the client's backlog of 20,000, whoever carries it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from itertools import count

from bench.harness import SQL, Case, Check, Rig, Round
from bench.stream import Through, flowing
from bench.work import store
from tests.services.kafka import Kafka
from tickwise.adapters.broker.kafka import KafkaBroker
from tickwise.roles.announcing import Announcer

PACE = 15_000
"""Jobs a second of the paced stream: the rate that is asked for."""
PACED_WARM_SECONDS = 5.0
"""It begins with what a client would have handed in within a second, and that has to be worked off first."""
_prefixes = count(1)


def seconds_of(rig: Rig) -> float:
    """How long each stream is measured."""
    return 30.0 if rig.full else 10.0


@contextlib.asynccontextmanager
async def through(rig: Rig, kafka: Kafka, *, results: str) -> AsyncIterator[Through]:
    """Channels of their own, for roles at their defaults."""
    url = f"{kafka.url}?prefix=bench{next(_prefixes)}"
    broker = KafkaBroker(url, rig.clock)
    async with store(rig) as opened:
        await broker.open(await opened.cluster_id())
    try:
        yield Through(
            Announcer(broker),
            {"broker_url": url, "results": results, "recorder_serve": "results"},
            recorder=results == "broker",
            pids={"kafka": kafka.pid},
        )
    finally:
        await broker.close()


async def measured(rig: Rig, way: Through | None, *, rate: float | None = None) -> Round:
    """One stream; the value is what ended durably a second. Raises `Failed` if a run was lost, or ended twice."""
    async with flowing(rig, rate=rate, through=way, warm_seconds=2.0 if rate is None else PACED_WARM_SECONDS) as stream:
        used = await stream.usage()
        before, begin = await stream.ended()
        await rig.clock.sleep(seconds_of(rig))
        after, end = await stream.ended()
        spent = await stream.usage()
        await stream.finish()
        late = await stream.connection.fetchval(SQL["lateness_between"], begin, end)
    late = {"p50_ms": round(late[0], 1), "p99_ms": round(late[1], 1)}
    return Round((after - before) / (end - begin), {**late, **spent.cost(used, after - before)})


async def carried(rig: Rig) -> Round:
    """All three."""
    async with Kafka() as kafka:
        found: dict[str, Round] = {}
        for results in ("direct", "broker"):
            async with through(rig, kafka, results=results) as way:
                found[results] = await measured(rig, way)
        async with through(rig, kafka, results="direct") as way:
            paced = await measured(rig, way, rate=PACE)
    more = {f"{results}_{name}": value for results, one in found.items() for name, value in one.more.items()}
    more |= {f"paced_{name}": value for name, value in paced.more.items()}
    more |= {"results_direct": round(found["direct"].value), "results_broker": round(found["broker"].value)}
    more |= {"paced": round(paced.value)}
    return Round(found["direct"].value, more)


async def plain(rig: Rig) -> Round:
    """T2 of the same moment."""
    return await measured(rig, None)


CASE = Case(
    "K1",
    "jobs/s",
    15_000,
    True,
    carried,
    plain,
    "T2, without a broker",
    checks=(Check("p99 in ms from due to start at 15k/s", "paced_p99_ms", 250.0),),
)
