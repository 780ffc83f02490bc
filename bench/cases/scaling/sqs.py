"""K4: T2 with SQS between the roles (ElasticMQ, in memory, on the same machine), outcomes told directly and through it.

    client ──► store ──► hint ──► SQS ──► executor ──► store             results=direct
                                             └──► SQS ──► recorder ──► store    results=broker

A hint names up to a hundred runs, so the queues carry few messages. Beside it T2 of the same round.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from itertools import count

from bench.cases.scaling.kafka import measured, plain
from bench.harness import Case, Check, Rig, Round
from bench.stream import Through
from bench.work import store
from tests.services.elasticmq import CREDENTIALS, ElasticMq
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.broker.sqs import SqsBroker
from tickwise.roles.shared.hint_publisher import HintPublisher

_prefixes = count(1)


@contextlib.contextmanager
def credentials() -> Iterator[None]:
    """The client of this process and the roles sign with them; ElasticMQ does not look."""
    before = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.asynccontextmanager
async def through(rig: Rig, server: ElasticMq, *, results: str) -> AsyncIterator[Through]:
    """Queues of their own, for roles at their defaults."""
    url = f"sqs://eu-central-1/bench{next(_prefixes)}?endpoint={server.url}"
    broker = SqsBroker(url, rig.clock, open_blobs(f"file://{rig.folder}/blobs"))
    async with store(rig) as opened:
        await broker.open(opened.upkeep.cluster_id)
    try:
        yield Through(
            HintPublisher(broker),
            {"broker_url": url, "results": results, "recorder_serve": "results"},
            recorder=results == "broker",
            pids={"sqs": server.pid},
        )
    finally:
        await broker.close()


async def carried(rig: Rig) -> Round:
    """Both ways of the outcomes, each on an empty store."""
    found: dict[str, Round] = {}
    with credentials():
        async with ElasticMq() as server:
            for results in ("direct", "broker"):
                async with through(rig, server, results=results) as way:
                    found[results] = await measured(rig, way)
    more = {f"{results}_{name}": value for results, one in found.items() for name, value in one.more.items()}
    more |= {f"results_{results}": round(one.value) for results, one in found.items()}
    return Round(found["direct"].value, more)


CASE = Case(
    "K4",
    "jobs/s",
    10_000,
    True,
    carried,
    plain,
    "T2, without a broker",
    checks=(Check("jobs/s with outcomes through SQS", "results_broker", 3_000, higher=True),),
)
