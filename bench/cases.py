"""The cases of TARGETS.md that measure the hot path. Each runs the shipped roles as processes, at their defaults."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from bench import cron, decision, raw, simulation
from bench.harness import KEY, SQL, Case, Failed, Rig, Round
from bench.load import Load, Posted, wrk
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.domain.model import Lane, run_id, time_id
from tickwise.ports.store import NewJob

LANE = Lane(requires=("function:*", "task:function"))


def jobs(rig: Rig, count: int, *, due: list[float] | None = None) -> list[NewJob]:
    """One-time jobs of a function that does nothing, as control makes them."""
    clock = rig.clock
    now = clock.now()
    made = []
    for number in range(count):
        job_id = time_id(int(now * 1000), clock.noise(10))
        at = due[number] if due else None
        made.append(
            NewJob(
                job_id=job_id,
                namespace="default",
                name="bench",
                schedule_type="IMMEDIATE" if at is None else "FUTURE",
                task_kind="function",
                definition=raw.SPEC,
                lane=LANE,
                created_by="bench",
                recurring=False,
                run_id=run_id(job_id, now if at is None else at),
                due=at,
            )
        )
    return made


@contextlib.asynccontextmanager
async def store(rig: Rig) -> Any:
    """The store as roles use it."""
    opened = PostgresStore(rig.dsn, clock=rig.clock)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


async def drain(rig: Rig) -> Round:
    """T1: 100k queued no-op runs; the clock runs from the first start to the last durable end."""
    count = 100_000
    await rig.reset()
    async with store(rig) as opened:
        for _ in range(0, count, 1000):
            await opened.jobs_add(jobs(rig, 1000))
    async with rig.role("executor"):
        last = await rig.until_ended(count, 120)
    outcome = await rig.outcome(count)
    return Round(count / (last - outcome["first_start"]), {"runs": count})


async def sustained(rig: Rig) -> Round:
    """T2: batches of 500 submitted while they run, the backlog bounded at 20k."""
    seconds = 60.0 if rig.full else 15.0
    await rig.reset()
    sent = 0
    async with store(rig) as opened, rig.role("scheduler"), rig.role("executor"):
        await rig.until_executors(1)
        connection = await rig.connect()
        # The worker's start is not what is measured: one batch goes ahead.
        await opened.jobs_add(jobs(rig, 500))
        await rig.until_ended(500, 30)
        begun, ended = perf_counter(), []
        while perf_counter() - begun < seconds:
            await opened.jobs_add(jobs(rig, 500))
            sent += 500
            if sent % 5000 == 0:
                while await connection.fetchval(SQL["waiting"]) > 20_000:
                    await rig.clock.sleep(0.01)
                ended.append((perf_counter() - begun, (await connection.fetchrow(SQL["progress"]))["ended"] - 500))
        await connection.close()
        at, done = ended[-1]
        await rig.until_ended(sent + 500, 60)
    await rig.outcome(sent + 500)
    return Round(done / at, {"seconds": round(at, 1), "runs": sent})


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _until_open(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


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
    """T3: one future job a request, authenticated, answered after commit, two API processes."""
    await rig.reset()
    ports = [_free_port(), _free_port()]
    async with rig.role("api", "--port", str(ports[0])), rig.role("api", "--port", str(ports[1])):
        await asyncio.gather(*(_until_open(port) for port in ports))
        await _post(ports, "/api/v1/jobs", connections=16, seconds=1)
        before = await _stored(rig)
        load = await _post(ports, "/api/v1/jobs", connections=96, seconds=20 if rig.full else 8)
    stored = await _stored(rig) - before
    if stored < load.requests:
        raise Failed(f"{load.requests} acknowledged, {stored} stored")
    return Round(
        load.rate, {"p50_ms": load.p50_ms, "p99_ms": load.p99_ms, "requests": load.requests, "client": load.client}
    )


async def _stored(rig: Rig) -> int:
    connection = await rig.connect()
    count: int = await connection.fetchval(SQL["stored"])
    await connection.close()
    return count


async def _post(ports: list[int], path: str, *, connections: int, seconds: int) -> Posted:
    """From wrk if it is installed (its requests cost a tenth of ours), else from our own client."""
    if shutil.which("wrk"):
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
    ports = [_free_port(), _free_port()]
    async with contextlib.AsyncExitStack() as stack:
        for port in ports:
            await stack.enter_async_context(
                rig.program("-m", "uvicorn", "bench.hello:app", "--port", str(port), "--log-level", "warning")
            )
        await asyncio.gather(*(_until_open(port) for port in ports))
        load = await _post(ports, "/", connections=96, seconds=4)
    return Round(load.rate, {"p99_ms": load.p99_ms})


async def immediate(rig: Rig) -> Round:
    """L1: 200 immediate jobs a second through the API; from before the request to the start of the task."""
    seconds = 60 if rig.full else 10
    await rig.reset()
    port = _free_port()
    async with rig.role("api", "--port", str(port)), rig.role("scheduler"), rig.role("executor"):
        await asyncio.gather(_until_open(port), rig.until_executors(1))
        async with store(rig) as opened:
            await opened.jobs_add(jobs(rig, 10))
        await rig.until_ended(10, 30)
        sent = await _paced(port, rate=200, seconds=seconds)
        await rig.until_ended(10 + len(sent), 30)
    await rig.outcome(10 + len(sent))
    connection = await rig.connect()
    rows = await connection.fetch(SQL["starts"])
    await connection.close()
    started = {str(row["job_id"]): row["started"] for row in rows}
    taken = sorted((started[job] - at) * 1000 for job, at in sent.items())
    return Round(
        taken[int(len(taken) * 0.99)], {"p50_ms": taken[len(taken) // 2], "max_ms": taken[-1], "runs": len(taken)}
    )


async def _paced(port: int, *, rate: int, seconds: float) -> dict[str, float]:
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


async def _late(rig: Rig, rate: int, seconds: float) -> dict[str, Any]:
    """Future jobs at `rate` a second, from 5 s ahead."""
    count = int(rate * seconds)
    await rig.reset()
    async with store(rig) as opened, rig.role("scheduler"), rig.role("executor"):
        await rig.until_executors(1)
        await opened.jobs_add(jobs(rig, 10))
        await rig.until_ended(10, 30)
        first = rig.clock.now() + 5.0
        due = [first + number / rate for number in range(count)]
        for at in range(0, count, 1000):
            await opened.jobs_add(jobs(rig, len(due[at : at + 1000]), due=due[at : at + 1000]))
        await rig.until_ended(count + 10, seconds + 60)
    return await rig.outcome(count + 10)


async def lateness(rig: Rig) -> Round:
    """L2: lateness of future jobs at 500/s, 2k/s and 10k/s; the value is p99 at 10k/s."""
    seconds = 60.0 if rig.full else 8.0
    more: dict[str, Any] = {}
    for rate in (500, 2000, 5000, 10_000):
        outcome = await _late(rig, rate, seconds)
        for name in ("p50_ms", "p99_ms", "max_ms"):
            more[f"{name}_at_{rate}"] = round(outcome[name], 3)
    return Round(more["p99_ms_at_10000"], more)


async def burst(rig: Rig) -> Round:
    """L3: 60k jobs due at one instant; the value is seconds to the last start."""
    count = 60_000
    await rig.reset()
    async with store(rig) as opened, rig.role("scheduler"), rig.role("executor"):
        await rig.until_executors(1)
        await opened.jobs_add(jobs(rig, 10))
        await rig.until_ended(10, 30)
        instant = rig.clock.now() + 15.0
        for _ in range(0, count, 1000):
            await opened.jobs_add(jobs(rig, 1000, due=[instant] * 1000))
        if rig.clock.now() > instant - 3:
            raise Failed("the machine was too slow to submit 60k jobs in 12 s")
        durable = await rig.until_ended(count + 10, 60)
    outcome = await rig.outcome(count + 10)
    return Round(outcome["last_start"] - instant, {"durable_s": round(durable - instant, 3), "runs": count})


CASES = {
    case.name: case
    for case in (
        Case("T1", "jobs/s", 25_000, True, drain, raw.drain, "raw SQL: claim and finish with history"),
        Case("T2", "jobs/s", 15_000, True, sustained, raw.sustained, "raw SQL: submit, claim and finish with history"),
        Case("T3", "requests/s", 8_000, True, submit, hello, "a route that does nothing"),
        Case("L1", "ms p99", 20.0, False, immediate, raw.commits, "raw SQL: one commit"),
        Case("L2", "ms p99", 15.0, False, lateness, raw.timers, "a heap of due times on an event loop"),
        Case("L3", "s", 1.5, False, burst, raw.burst, "raw SQL: claim 60k rows"),
        Case("CRON", "us a next fire", 15.0, False, cron.product, cron.cronsim, "cronsim in the same zone"),
        Case(
            "DOWN",
            "ms a decision",
            10.0,
            False,
            decision.product,
            decision.an_hour,
            "the same after an hour, not ten years",
        ),
        Case(
            "SIM",
            "s",
            60.0,
            False,
            simulation.product,
            simulation.times_alone,
            "to name the fires alone, in one process",
        ),
    )
}
