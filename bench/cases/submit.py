"""T3: future jobs through the API, one a request."""

from __future__ import annotations

import asyncio
import contextlib
import json

from bench.harness import KEY, SQL, Case, Check, Failed, Rig, Round
from bench.load import Load, Posted, wrk, wrk_command
from bench.ports import free_port, until_open


def _future_job(number: int) -> bytes:
    body = {
        "name": f"bench {number}",
        "schedule_type": "FUTURE",
        "schedule_time": "2031-01-01T00:00:00Z",
        "task": {"kind": "function", "name": "bench.noop"},
        "payload": {"number": number, "text": "what people send is about this long"},
    }
    return json.dumps(body, separators=(",", ":")).encode()


async def submit(rig: Rig) -> Round:
    """One future job a request, authenticated, answered after commit, two API processes."""
    await rig.reset()
    ports = [free_port(), free_port()]
    async with rig.role("api", "--port", str(ports[0])), rig.role("api", "--port", str(ports[1])):
        await asyncio.gather(*(until_open(port) for port in ports))
        await post(ports, "/api/v1/jobs", connections=16, seconds=1)
        before = await stored(rig)
        load = await post(ports, "/api/v1/jobs", connections=96, seconds=20 if rig.full else 8)
    added = await stored(rig) - before
    if added < load.requests:
        raise Failed(f"{load.requests} acknowledged, {added} stored")
    return Round(
        load.rate, {"p50_ms": load.p50_ms, "p99_ms": load.p99_ms, "requests": load.requests, "client": load.client}
    )


async def stored(rig: Rig) -> int:
    connection = await rig.connect()
    count: int = await connection.fetchval(SQL["stored"])
    await connection.close()
    return count


async def post(ports: list[int], path: str, *, connections: int, seconds: int) -> Posted:
    """From wrk if it is installed (its requests cost a tenth of ours), else from our own client."""
    if wrk_command()[0]:
        posted = await wrk(ports, path, key=KEY, connections=connections, seconds=seconds)
    else:
        load = Load(path=path, key=KEY, body=_future_job, expect=201)
        rate = await load.run(ports, connections=connections, seconds=float(seconds))
        bad = sum(load.unexpected.values())
        p50, p99 = load.percentile_ms(0.5), load.percentile_ms(0.99)
        posted = Posted(rate, len(load.latencies), p50, p99, bad, load.broken, "ours")
    if posted.bad or posted.broken:
        raise Failed(f"{posted.bad} unexpected answers, {posted.broken} broken connections")
    return posted


async def hello(rig: Rig) -> Round:
    """The limit of T3: a route that does nothing, two processes, the same client."""
    ports = [free_port(), free_port()]
    async with contextlib.AsyncExitStack() as stack:
        for port in ports:
            await stack.enter_async_context(
                rig.program("-m", "uvicorn", "bench.hello:app", "--port", str(port), "--log-level", "warning")
            )
        await asyncio.gather(*(until_open(port) for port in ports))
        load = await post(ports, "/", connections=96, seconds=4)
    return Round(load.rate, {"p99_ms": load.p99_ms})


CASE = Case(
    "T3",
    "requests/s",
    12_000,
    True,
    submit,
    hello,
    "a route that does nothing",
    checks=(Check("p99 in ms", "p99_ms", 20.0),),
)
