"""The limits: the same writes, or the same wait, with nothing of a product around them."""

from __future__ import annotations

import asyncio
import heapq
import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from bench.harness import SQL, Rig, Round

SPEC = '{"schedule_type":"IMMEDIATE","task":{"kind":"function","name":"bench.noop"},"payload":{"a":1}}'
FAR_PAST = datetime(2000, 1, 1, tzinfo=UTC)


def ids(count: int) -> list[UUID]:
    """Time-ordered ids."""
    head = int(time.time() * 1000).to_bytes(6, "big")
    noise = os.urandom(10 * count)
    return [UUID(bytes=head + noise[at : at + 10]) for at in range(0, 10 * count, 10)]


async def submit(connection: asyncpg.Connection[Any], count: int, batch: int = 500) -> None:
    """Queue `count` runs."""
    for _ in range(0, count, batch):
        await connection.execute(SQL["raw_submit"], ids(batch), ids(batch), [SPEC] * batch)


async def work(claim: asyncpg.Connection[Any], finish: asyncpg.Connection[Any], count: int, batch: int = 500) -> None:
    """Claim and finish until `count` are done, each on its own connection, one batch ahead."""
    done, mark = 0, FAR_PAST
    rows = await claim.fetch(SQL["raw_claim"], batch, mark)
    while done < count:
        ending = finish.execute(SQL["raw_finish"], [row[0] for row in rows]) if rows else asyncio.sleep(0.001)
        following, _ = await asyncio.gather(claim.fetch(SQL["raw_claim"], batch, mark), ending)
        done += len(rows)
        rows = following


async def session(rig: Rig) -> asyncpg.Connection[Any]:
    """As the hot connections are set: plans that do not depend on statistics."""
    settings = {"plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off", "enable_sort": "off"}
    settings |= {"enable_nestloop": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off"}
    return await asyncpg.connect(rig.dsn, server_settings=settings)


async def drain(rig: Rig, count: int = 100_000) -> Round:
    """Queued rows claimed and ended."""
    one, two = await session(rig), await session(rig)
    await one.execute(SQL["raw_schema"])
    await submit(one, count)
    begun = time.perf_counter()
    await work(one, two, count)
    value = count / (time.perf_counter() - begun)
    await asyncio.gather(one.close(), two.close())
    return Round(value)


async def sustained(rig: Rig, count: int = 200_000) -> Round:
    """Queued, claimed and ended at once."""
    three = [await session(rig) for _ in range(3)]
    await three[0].execute(SQL["raw_schema"])
    begun = time.perf_counter()
    await asyncio.gather(submit(three[0], count), work(three[1], three[2], count))
    value = count / (time.perf_counter() - begun)
    await asyncio.gather(*(connection.close() for connection in three))
    return Round(value)


class Flow:
    """Queueing, claiming and ending until told to stop, the backlog bounded at 20k. Counts what was ended."""

    def __init__(self) -> None:
        self.done = 0
        self._queued = 0
        self._open = True

    def stop(self) -> None:
        """End both after what they are at."""
        self._open = False

    async def submit(self, connection: asyncpg.Connection[Any]) -> None:
        """Queue."""
        while self._open:
            if self._queued - self.done > 20_000:
                await asyncio.sleep(0.005)
                continue
            await submit(connection, 500)
            self._queued += 500

    async def work(self, claim: asyncpg.Connection[Any], finish: asyncpg.Connection[Any]) -> None:
        """Claim and finish as `work` does, from a cursor a second behind the last claim."""
        mark = FAR_PAST
        rows: list[asyncpg.Record] = []
        while self._open or rows:
            ending = finish.execute(SQL["raw_finish"], [row[0] for row in rows]) if rows else asyncio.sleep(0.001)
            following, _ = await asyncio.gather(claim.fetch(SQL["raw_claim"], 500, mark), ending)
            self.done += len(rows)
            rows = following
            if rows:
                mark = max(mark, max(row[2] for row in rows) - timedelta(seconds=1))


async def pinned(rig: Rig) -> Round:
    """What a snapshot that is held for a while leaves: the rate under it, of the rate before it."""
    clean, held = (20.0, 70.0) if rig.full else (10.0, 30.0)
    sessions = [await session(rig) for _ in range(4)]
    await sessions[0].execute(SQL["raw_schema"])
    flow = Flow()
    async with asyncio.TaskGroup() as group:
        group.create_task(flow.submit(sessions[0]))
        group.create_task(flow.work(sessions[1], sessions[2]))
        await asyncio.sleep(2.0)
        before = await _rate(flow, clean)
        async with sessions[3].transaction(isolation="repeatable_read"):
            await sessions[3].fetchval(SQL["snapshot"])
            under = await _rate(flow, held)
        flow.stop()
    await asyncio.gather(*(connection.close() for connection in sessions))
    return Round(under / before, {"clean": round(before), "held": round(under)})


async def _rate(flow: Flow, seconds: float) -> float:
    done, begun = flow.done, time.perf_counter()
    await asyncio.sleep(seconds)
    return (flow.done - done) / (time.perf_counter() - begun)


async def burst(rig: Rig) -> Round:
    """60k queued rows claimed."""
    count = 60_000
    connection = await session(rig)
    await connection.execute(SQL["raw_schema"])
    await submit(connection, count)
    begun, got = time.perf_counter(), 0
    while got < count:
        got += len(await connection.fetch(SQL["raw_claim"], 500, FAR_PAST))
    value = time.perf_counter() - begun
    await connection.close()
    return Round(value)


async def commits(rig: Rig) -> Round:
    """One durable row of one run, 200 times a second: p99 of the commit, in ms."""
    connection = await session(rig)
    await connection.execute(SQL["raw_schema"])
    taken = []
    for _ in range(600):
        begun = time.perf_counter()
        await connection.execute(SQL["raw_submit"], ids(1), ids(1), [SPEC])
        taken.append(time.perf_counter() - begun)
        await asyncio.sleep(max(0.0, 0.005 - taken[-1]))
    await connection.close()
    return Round(sorted(taken)[int(len(taken) * 0.99)] * 1000)


async def timers(_: Rig, seconds: float = 3.0) -> Round:
    """10k due times a second in a heap and nothing else: p99 of their lateness, in ms."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    heap = [begun + number / 10_000 for number in range(int(10_000 * seconds))]
    late = []
    while heap:
        now = loop.time()
        while heap and heap[0] <= now:
            late.append(now - heapq.heappop(heap))
        if heap:
            await asyncio.sleep(max(heap[0] - now, 0.001))
    return Round(sorted(late)[int(len(late) * 0.99)] * 1000)
