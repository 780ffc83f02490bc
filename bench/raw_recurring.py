"""The limit of R1: schedules on bare tables, fired, claimed ahead, held until due and ended, by one small program."""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from bench.harness import SQL, Rig, Round
from bench.raw import FAR_PAST, SPEC, ids, session

JOBS = 50_000
PERIOD_SECONDS = 10
AHEAD_SECONDS = 1.5
BATCH = 1000


class _Bare:
    """Three connections, a heap of what is held, and how late each began."""

    def __init__(self, fire: asyncpg.Connection, claim: asyncpg.Connection, finish: asyncpg.Connection) -> None:
        self._fire, self._claim, self._finish = fire, claim, finish
        self._held: list[tuple[float, UUID]] = []
        self._begun: deque[UUID] = deque()
        self.late: list[tuple[float, float]] = []
        """When it was due, and by how much it was late."""
        self.over = False

    async def fires(self) -> None:
        """Due schedules become runs; what is near is claimed."""
        while not self.over:
            made = BATCH
            until = time.time() + AHEAD_SECONDS
            while made == BATCH:
                made = int((await self._fire.execute(SQL["raw_fire"], BATCH, until)).split()[-1])
                # All that is left below this mark is held.
                mark = FAR_PAST if made == 0 else datetime.fromtimestamp(time.time() - 1.0, UTC)
                for row in await self._claim.fetch(
                    SQL["raw_claim_ahead"], BATCH, mark, timedelta(seconds=AHEAD_SECONDS)
                ):
                    heapq.heappush(self._held, (row[2].timestamp(), row[0]))
            await asyncio.sleep(0.1)

    async def starts(self) -> None:
        """What is due begins: it is measured and done."""
        while not self.over:
            now = time.time()
            while self._held and self._held[0][0] <= now:
                due, run = heapq.heappop(self._held)
                self.late.append((due, time.time() - due))
                self._begun.append(run)
            await asyncio.sleep(0.001)

    async def ends(self) -> None:
        """What is done ends, with its row of history."""
        while not (self.over and not self._begun):
            batch = [self._begun.popleft() for _ in range(min(BATCH, len(self._begun)))]
            if batch:
                await self._finish.execute(SQL["raw_finish"], batch)
            else:
                await asyncio.sleep(0.004)


async def _measured(rig: Rig, offsets: list[float]) -> Round:
    """p99 in ms over 20 s after one period of warming up."""
    three = [await session(rig) for _ in range(3)]
    await three[0].execute(SQL["raw_schema"])
    await three[0].execute(SQL["raw_schedules_make"])
    begin = math.ceil((time.time() + 3) / PERIOD_SECONDS) * float(PERIOD_SECONDS)
    await three[0].execute(SQL["raw_schedules"], ids(JOBS), [begin + offset for offset in offsets], SPEC)
    bare = _Bare(*three)
    async with asyncio.TaskGroup() as group:
        for duty in (bare.fires(), bare.starts(), bare.ends()):
            group.create_task(duty)
        await asyncio.sleep(begin + 3 * PERIOD_SECONDS - time.time())
        bare.over = True
    await asyncio.gather(*(connection.close() for connection in three))
    late = sorted(by for due, by in bare.late if due >= begin + PERIOD_SECONDS)
    return Round(late[int(len(late) * 0.99)] * 1000)


async def evenly(rig: Rig) -> Round:
    """Each 200 us one is due."""
    return await _measured(rig, [number * PERIOD_SECONDS / JOBS for number in range(JOBS)])


async def by_seconds(rig: Rig) -> Round:
    """5,000 are due at each second."""
    return await _measured(rig, [float(number % PERIOD_SECONDS) for number in range(JOBS)])
