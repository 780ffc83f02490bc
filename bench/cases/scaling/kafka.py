"""K1: T2 with a broker between the roles, Kafka and all on the same machine.

    client ──► store ──► hint ──► Kafka ──► executor ──► store             results=direct
                                               └──► Kafka ──► recorder ──► store    results=broker

Three streams in each round, one after the other on an empty store: as much as comes back with outcomes told directly,
the same with outcomes through Kafka, and a paced one, of which the time from due to start is read: in the others that
time is the client's backlog of 20,000, whoever carries it. Then requests that are answered once Kafka has them, by two
API processes (each must be applied), and single immediate jobs: woken by Redis, and by hints through Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib

from bench.cases.immediate import immediate
from bench.cases.scaling import carrying
from bench.cases.scaling.carrying import WAYS, by_way, measured, new_prefix, plain
from bench.cases.submit import post, stored
from bench.harness import Case, Check, Failed, Rig, Round
from bench.ports import free_port, until_open
from bench.stream import Through
from tests.services.kafka import Kafka
from tests.services.redis import Redis
from tickwise.adapters.broker.kafka import KafkaBroker

PACE = 15_000
"""Jobs a second of the paced stream: the rate that is asked for."""
MAX_APPLIED_SECONDS = 60.0
"""Within so long after the last request all of them are in the store."""


def through(rig: Rig, kafka: Kafka, *, results: str) -> contextlib.AbstractAsyncContextManager[Through]:
    """Topics of their own."""
    url = f"{kafka.url}?prefix={new_prefix()}"
    return carrying.through(rig, KafkaBroker(url, rig.clock), url, results=results, pids={"kafka": kafka.pid})


async def buffered(rig: Rig, kafka: Kafka) -> Round:
    """Requests a second that are accepted, one future job each; all of them must be in the store afterwards."""
    await rig.reset()
    settings = {"broker_url": f"{kafka.url}?prefix={new_prefix()}", "ingest": "buffered"}
    ports = [free_port(), free_port()]
    async with contextlib.AsyncExitStack() as stack:
        for port in ports:
            await stack.enter_async_context(rig.role("api", "--port", str(port), **settings))
        await stack.enter_async_context(rig.role("recorder", "--serve", "requests", **settings))
        await asyncio.gather(*(until_open(port) for port in ports))
        warm = await post(ports, "/api/v1/jobs", connections=16, seconds=2)
        load = await post(ports, "/api/v1/jobs", connections=256, seconds=20 if rig.full else 8)
        begun = rig.clock.monotonic()
        while await stored(rig) < warm.requests + load.requests:
            if rig.clock.monotonic() - begun > MAX_APPLIED_SECONDS:
                raise Failed(f"{warm.requests + load.requests} were accepted, {await stored(rig)} are stored")
            await rig.clock.sleep(0.25)
    behind = rig.clock.monotonic() - begun
    return Round(load.rate, {"p50_ms": load.p50_ms, "p99_ms": load.p99_ms, "applied_after_seconds": round(behind, 1)})


async def woken(rig: Rig, kafka: Kafka) -> dict[str, float]:
    """The time from request to start of single immediate jobs, by what wakes their executor."""
    async with Redis() as redis:
        by_redis = await immediate(rig, signals_url=redis.url)
        by_hints = await immediate(rig, signals_url=redis.url, broker_url=f"{kafka.url}?prefix={new_prefix()}")
    return {
        "immediate_redis_p99_ms": round(by_redis.value, 2),
        "immediate_redis_p50_ms": by_redis.more["p50_ms"],
        "immediate_hints_p99_ms": round(by_hints.value, 2),
        "immediate_hints_p50_ms": by_hints.more["p50_ms"],
    }


async def carried(rig: Rig) -> Round:
    """All of it."""
    async with Kafka() as kafka:
        found: dict[str, Round] = {}
        for results in WAYS:
            async with through(rig, kafka, results=results) as way:
                found[results] = await measured(rig, way)
        async with through(rig, kafka, results="direct") as way:
            paced = await measured(rig, way, rate=PACE)
        accepted = await buffered(rig, kafka)
        soon = await woken(rig, kafka)
    more = by_way(found)
    more |= {f"paced_{name}": value for name, value in paced.more.items()}
    more |= {"paced": round(paced.value), "buffered": round(accepted.value), **soon}
    more |= {f"buffered_{name}": value for name, value in accepted.more.items()}
    return Round(found["direct"].value, more)


CASE = Case(
    "K1",
    "jobs/s",
    15_000,
    True,
    carried,
    plain,
    "T2, without a broker",
    checks=(
        Check("p99 in ms from due to start at 15k/s", "paced_p99_ms", 250.0),
        Check("requests/s accepted once Kafka has them", "buffered", 10_000, higher=True),
        Check("p99 in ms of an immediate job woken by Redis", "immediate_redis_p99_ms", 15.0),
    ),
)
