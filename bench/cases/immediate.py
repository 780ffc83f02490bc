"""L1: how soon after the request an immediate job starts, on a system that is not loaded."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

from bench import raw
from bench.figures import percentile
from bench.harness import KEY, SQL, Case, Check, Failed, Rig, Round
from bench.ports import free_port, until_open
from bench.work import jobs, store


async def immediate(rig: Rig, **settings: object) -> Round:
    """200 immediate jobs a second through the API; from before the request to the start of the task. `settings` are of
    all roles."""
    seconds = 60 if rig.full else 10
    await rig.reset()
    port = free_port()
    async with (
        rig.role("api", "--port", str(port), **settings),
        rig.role("scheduler", **settings),
        rig.role("executor", **settings),
    ):
        await asyncio.gather(until_open(port), rig.until_executors(1))
        async with store(rig) as opened:
            await opened.jobs.add(jobs(rig, 10))
        await rig.until_ended(10, 30)
        sent = await paced(port, rate=200, seconds=seconds)
        await rig.until_ended(10 + len(sent), 30)
    await rig.outcome(10 + len(sent))
    connection = await rig.connect()
    rows = await connection.fetch(SQL["starts"])
    await connection.close()
    started = {str(row["job_id"]): row["started"] for row in rows}
    taken = sorted((started[job] - at) * 1000 for job, at in sent.items())
    more = {"p50_ms": round(percentile(taken, 0.5), 3), "max_ms": round(taken[-1], 3), "runs": len(taken)}
    return Round(percentile(taken, 0.99), more)


async def paced(port: int, *, rate: int, seconds: float) -> dict[str, float]:
    """Immediate jobs at a fixed rate over a few connections; job id to the wall-clock time before its request."""
    sent: dict[str, float] = {}
    body = b'{"name":"bench","schedule_type":"IMMEDIATE","task":{"kind":"function","name":"bench.noop"}}'
    request = (
        f"POST /api/v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body
    loop = asyncio.get_running_loop()
    begun = loop.time()

    async def client(offset: int, clients: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(offset, int(rate * seconds), clients):
            await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
            at = datetime.now(UTC).timestamp()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 201"):
                raise Failed(head.decode())
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            sent[json.loads(await reader.readexactly(length))["job_id"]] = at
        writer.close()

    await asyncio.gather(*(client(number, 8) for number in range(8)))
    return sent


CASE = Case(
    "L1",
    "ms p99",
    15.0,
    False,
    immediate,
    raw.commits,
    "raw SQL: one commit",
    checks=(Check("p50 in ms", "p50_ms", 5.0),),
)
