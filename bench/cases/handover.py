"""H1: how soon the end of a run is followed by the start of the run that waited for it, across processes.

Two executors. What waits: for a slot of a limit of 1 (also where it goes from one executor to the other each time) and
of 4, for an earlier run of its job (queue_all, queue_one,
cancel_running), for a slot while 100,000 others wait for one of the same key, and in a `queue_all` backlog of 10,000.
A hand-over is the time from an end to the start that takes its place: of a limit of n, from end k to start k + n. A
hold is over when the request to resume is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec

from bench import raw
from bench.figures import percentile
from bench.harness import KEY, SQL, Case, Check, Failed, Rig, Round
from bench.ports import free_port, until_open
from bench.work import LANE, store
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.documents.definition import Concurrency, Definition, encode_definition
from tickwise.domain.decision import Overlap
from tickwise.domain.model import Lane, Trigger, run_id, time_id
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import NewJob, NewRun

TASK_SECONDS = 0.02
RUNS = 200
WARM = 20
"""Of each situation the first are not counted: statements are prepared, workers started."""
WAITERS = 100_000
BACKLOG = 10_000
LINES = 10
"""Jobs that fire each second, of which each run takes longer than that."""
SUCCESS, CANCELLED = 5, 7


@dataclass(frozen=True)
class Ran:
    """One run that began."""

    job_id: UUID
    executor: int
    state: int
    due: float
    started: float
    ended: float


def figures(name: str, seconds: Sequence[float], across: Sequence[bool] = ()) -> dict[str, float]:
    """Of one situation: median, p99, and the share that went from one executor to another."""
    if not seconds:
        raise Failed(f"no hand-over was seen: {name}")
    ordered = sorted(value * 1000 for value in seconds)
    found = {
        f"{name}_p50_ms": round(percentile(ordered, 0.5), 2),
        f"{name}_p99_ms": round(percentile(ordered, 0.99), 2),
        f"{name}_count": len(ordered),
    }
    if across:
        found[f"{name}_across"] = round(sum(across) / len(across), 2)
    return found


def handovers(name: str, ran: Sequence[Ran], limit: int, *, across: bool = False) -> dict[str, float]:
    """From the k-th end to start k + limit; `across`: only from one executor to the other. Raises `Failed` if more ran
    at once than the limit says."""
    starts, ends = sorted(ran, key=lambda one: one.started), sorted(ran, key=lambda one: one.ended)
    pairs = [*zip(ends, starts[limit:], strict=False)]
    if early := [start.started - end.ended for end, start in pairs if start.started < end.ended]:
        raise Failed(f"{name}: more than {limit} at once, {len(early)} times")
    kept = [(end, start) for end, start in pairs[WARM:] if not across or start.executor != end.executor]
    return figures(
        name,
        [start.started - end.ended for end, start in kept],
        [start.executor != end.executor for end, start in kept],
    )


def job(rig: Rig, *, seconds: float = TASK_SECONDS, lane: Lane = LANE, due: float | None = None, **said: Any) -> NewJob:
    """One job whose runs take so long: on demand, unless it says when."""
    now = rig.clock.now()
    payload = msgspec.Raw(b'{"seconds":%g}' % seconds)
    task = msgspec.Raw(b'{"kind":"function","name":"bench.lasting"}')
    definition = Definition(
        **{"schedule_type": ScheduleType.ON_DEMAND, "planned_at": now, "task": task, "payload": payload} | said
    )
    return NewJob(
        job_id=time_id(int(now * 1000), rig.clock.random_bytes(10)),
        namespace="default",
        name="bench",
        schedule_type=definition.schedule_type.value,
        task_kind="function",
        definition=encode_definition(definition),
        lane=lane,
        created_by="bench",
        recurring=True,
        run_id=None,
        due=due,
        never=due is None,
    )


def limited(rig: Rig, limit: int, **said: Any) -> NewJob:
    """A job of which so many may run at once."""
    rule = {"concurrency": Concurrency(limit=limit, key="key:bench"), "limit_key": "key:bench"}
    return job(rig, **rule | said)


async def demand(rig: Rig, opened: PostgresStore, of: NewJob, count: int, overlap: Overlap = Overlap.ALLOW) -> None:
    """Runs that people ask for."""
    now = rig.clock.now()
    for begin in range(0, count, 5_000):
        runs = [
            NewRun(
                run_id=run_id(of.job_id, now + number * 1e-6, Trigger.RUN_NOW, rig.clock.random_bytes(16)),
                due=now,
                trigger=Trigger.RUN_NOW,
                overlap=overlap,
            )
            for number in range(begin, min(begin + 5_000, count))
        ]
        await opened.runs.add("default", of.job_id, runs)


@contextlib.asynccontextmanager
async def at_work(rig: Rig, *queues: str) -> AsyncIterator[None]:
    """A scheduler, and two executors, each with a queue of its own if two are named."""
    one, two = queues or ("default", "default")
    async with rig.role("scheduler"), rig.role("executor", queues=one), rig.role("executor", queues=two):
        await rig.until_executors(2)
        yield


async def ran(rig: Rig, *, at_least: int = 0, seconds: float = 120.0) -> list[Ran]:
    """What ran so far, as soon as that is so many."""
    connection = await rig.connect()
    try:
        async with asyncio.timeout(seconds):
            while await connection.fetchval(SQL["ended_count"]) < at_least:
                await rig.clock.sleep(0.2)
        return [Ran(**row) for row in await connection.fetch(SQL["handovers"], None)]
    finally:
        await connection.close()


async def slots(rig: Rig, limit: int) -> dict[str, float]:
    """Runs of one key, all there from the beginning."""
    await rig.reset()
    async with store(rig) as opened:
        one = limited(rig, limit)
        await opened.jobs.add([one])
        async with at_work(rig):
            await demand(rig, opened, one, WARM)
            await ran(rig, at_least=WARM)
            begun = rig.clock.now()
            await demand(rig, opened, one, RUNS)
            found = await ran(rig, at_least=WARM + RUNS)
    last = max(each.ended for each in found)
    return handovers(f"limit_{limit}", found, limit) | {f"limit_{limit}_s": round(last - begun, 2)}


async def across(rig: Rig) -> dict[str, float]:
    """A slot that goes from one executor to the other: neither serves both queues of the key."""
    await rig.reset()
    async with store(rig) as opened:
        ones = [limited(rig, 1, lane=Lane(queue=queue, requires=LANE.requires)) for queue in ("left", "right")]
        await opened.jobs.add(ones)
        async with at_work(rig, "left", "right"):
            for _ in range(RUNS // 2):
                for one in ones:
                    await demand(rig, opened, one, 1)
            found = await ran(rig, at_least=RUNS)
    return handovers("across", found, 1, across=True)


async def crowd(rig: Rig) -> dict[str, float]:
    """Slots of a key for which 100,000 wait."""
    await rig.reset()
    async with store(rig) as opened:
        one = limited(rig, 1)
        await opened.jobs.add([one])
        await demand(rig, opened, one, WAITERS)
        await make_wait(rig, "waiters_limit", "key:bench")
        async with at_work(rig):
            found = await ran(rig, at_least=RUNS)
    return handovers("waiters_100k", found, 1)


async def backlog(rig: Rig) -> dict[str, float]:
    """Runs of one job, of which 10,000 wait for each other."""
    await rig.reset()
    async with store(rig) as opened:
        one = job(rig)
        await opened.jobs.add([one])
        await demand(rig, opened, one, BACKLOG, Overlap.QUEUE_ALL)
        await make_wait(rig, "waiters_overlap")
        async with at_work(rig):
            found = await ran(rig, at_least=RUNS)
    return handovers("backlog_10k", found, 1)


async def make_wait(rig: Rig, how: str, *arguments: object) -> None:
    """All runs that there are wait, as after a start that was refused."""
    connection = await rig.connect()
    await connection.execute(SQL[how], *arguments)
    await connection.execute(SQL["vacuum_runs"])
    await connection.close()


async def lines(rig: Rig, overlap: Overlap, seconds: float) -> list[Ran]:
    """Jobs that fire each second, and whose runs take longer."""
    await rig.reset()
    async with store(rig) as opened, at_work(rig):
        begin = math.ceil(rig.clock.now()) + 1.0
        jobs = []
        for number in range(LINES):
            due = begin + number / LINES
            said: dict[str, Any] = {"schedule_type": ScheduleType.INTERVAL, "interval_seconds": 1.0, "anchor": due}
            jobs.append(job(rig, seconds=seconds, due=due, overlap=overlap, **said))
        await opened.jobs.add(jobs)
        await rig.clock.sleep(begin + (30 if rig.full else 12) - rig.clock.now())
        return await ran(rig)


async def queued(rig: Rig, overlap: Overlap) -> dict[str, float]:
    """From the end of a run to the start of the next one of its job."""
    found = await lines(rig, overlap, 1.3)
    gaps: list[float] = []
    across: list[bool] = []
    for line in {each.job_id for each in found}:
        mine = [each for each in found if each.job_id == line]
        for before, after in itertools.pairwise(mine):
            if after.started < before.ended:
                raise Failed(f"{overlap}: two at once")
            if after.due < before.ended - 0.05:  # it waited
                gaps.append(after.started - before.ended)
                across.append(after.executor != before.executor)
    return figures(overlap.value, gaps, across)


async def replaced(rig: Rig) -> dict[str, float]:
    """From the end of a run that was stopped to the start in its place; and from when that was due, with the stop."""
    found = await lines(rig, Overlap.CANCEL_RUNNING, 60.0)
    gaps: list[float] = []
    whole: list[float] = []
    across: list[bool] = []
    for line in {each.job_id for each in found}:
        mine = [each for each in found if each.job_id == line]
        for before, after in itertools.pairwise(mine):
            if before.state != CANCELLED or after.started < before.ended:
                raise Failed("cancel_running: two at once")
            gaps.append(after.started - before.ended)
            whole.append(after.started - after.due)
            across.append(after.executor != before.executor)
    return figures("cancel_running", gaps, across) | figures("cancel_running_due", whole)


async def resumed(rig: Rig) -> dict[str, float]:
    """From the request that ends a hold to the first start of what waited in the queue."""
    await rig.reset()
    port = free_port()
    queue = Lane(queue="default", requires=LANE.requires)
    gaps: list[float] = []
    async with store(rig) as opened, at_work(rig), rig.role("api", "--port", str(port)):
        await until_open(port)
        one = limited(rig, 1, lane=queue)
        await opened.jobs.add([one])
        for _ in range(20):
            ended = len(await ran(rig))
            await _ask(port, "hold")
            await demand(rig, opened, one, 3)
            await rig.clock.sleep(0.5)
            at = rig.clock.now()
            await _ask(port, "resume")
            found = (await ran(rig, at_least=ended + 3))[ended:]
            if found[0].started < at:
                raise Failed("a run of a held queue began")
            gaps.append(found[0].started - at)
    return figures("resume", gaps)


async def _ask(port: int, what: str) -> None:
    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        head = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        connection.request("POST", f"/api/v1/queues/default/{what}", json.dumps({}), head)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status >= 300:
            raise Failed(f"{what}: {answer.status}")

    await asyncio.to_thread(send)


async def handover(rig: Rig) -> Round:
    """p99 in ms with a limit of 1; all the others beside it."""
    more: dict[str, Any] = await slots(rig, 1)
    more |= await slots(rig, 4)
    more |= await across(rig)
    more |= await crowd(rig)
    more |= await queued(rig, Overlap.QUEUE_ALL)
    more |= await queued(rig, Overlap.QUEUE_ONE)
    more |= await backlog(rig)
    more |= await replaced(rig)
    more |= await resumed(rig)
    return Round(more["limit_1_p99_ms"], more)


SITUATIONS = (
    "limit_1",
    "limit_4",
    "across",
    "queue_all",
    "queue_one",
    "cancel_running",
    "resume",
    "waiters_100k",
    "backlog_10k",
)
CASE = Case(
    "H1",
    "ms p99",
    40.0,
    False,
    handover,
    raw.commits,
    "raw SQL: one commit",
    checks=(
        *(Check(f"p50 in ms, {name}", f"{name}_p50_ms", 10.0) for name in SITUATIONS),
        *(Check(f"p99 in ms, {name}", f"{name}_p99_ms", 40.0) for name in SITUATIONS[1:]),
    ),
)
