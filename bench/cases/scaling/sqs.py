"""K4: T2 with SQS between the roles (ElasticMQ, in memory, on the same machine), outcomes told directly and through it.

    client ──► store ──► hint ──► SQS ──► executor ──► store             results=direct
                                             └──► SQS ──► recorder ──► store    results=broker

A hint names up to a hundred runs, so the queues carry few messages. Beside it T2 of the same round.
"""

from __future__ import annotations

import contextlib
import os
from unittest import mock

from bench.cases.scaling import carrying
from bench.cases.scaling.carrying import WAYS, by_way, measured, new_prefix, plain
from bench.harness import Case, Check, Rig, Round
from bench.stream import Through
from tests.services.elasticmq import CREDENTIALS, ElasticMq
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.broker.sqs import SqsBroker


def through(rig: Rig, server: ElasticMq, *, results: str) -> contextlib.AbstractAsyncContextManager[Through]:
    """Queues of their own."""
    url = f"sqs://eu-central-1/{new_prefix()}?endpoint={server.url}"
    broker = SqsBroker(url, rig.clock, open_blobs(f"file://{rig.folder}/blobs"))
    return carrying.through(rig, broker, url, results=results, pids={"sqs": server.pid})


async def carried(rig: Rig) -> Round:
    """Both ways of the outcomes, each on an empty store."""
    found: dict[str, Round] = {}
    # The client of this process and the roles sign with them; ElasticMQ does not look.
    with mock.patch.dict(os.environ, CREDENTIALS):
        async with ElasticMq() as server:
            for results in WAYS:
                async with through(rig, server, results=results) as way:
                    found[results] = await measured(rig, way)
    return Round(found["direct"].value, by_way(found))


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
