"""A peer's program, the lines that it speaks, and the cases that all peers share.

A program is a few dozen lines in the peer's language around its public interface. It is called with one of

    setup                          make the schema or the queue; then end
    enqueue FROM COUNT             queue jobs with the ids FROM, FROM+1, … by the bulk interface; then end
    enqueue FROM COUNT FIRST STEP  the same, for the future: the first is due at FIRST, the others STEP apart (both in
                                   milliseconds, FIRST since 1970; each job carries when it is due, too)
    produce                        say `ready`; for each line of input, a number, queue so many jobs (the ids go on
                                   from 0) and say `enqueued TOTAL`; end when the input does
    work                           say `ready` when workers run; say `handled TOTAL` now and then, as jobs are handled;
                                   when the input ends, stop as the peer's documentation wants it, write the record
                                   to the file PEER_RECORD, and end

and reads PEER_DATABASE_URL or PEER_REDIS_URL and PEER_SETTINGS (`default` or `best`). A handler does nothing but
put the job's id into a buffer of its worker, with its lateness if it has a due time. The record is those buffers:

    {"first": when the first handler began, seconds since 1970, "ids": [0, 1, …], "late_ms": [0.4, …]}

One process that has handled a job twice has its id twice. A run that lost a job is void; one that ran a job twice is
not (every peer says "at least once"), but its number is in the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter, time
from typing import Any, Protocol
from urllib.parse import urlsplit

import asyncpg

from bench.harness import Failed, Round
from bench.peers.rig import SQL, PeerProcess, PeerRig, Server

BATCH = 500
BACKLOG = 20_000
SLOWEST_PER_SECOND = 150
SUSTAINED_SECONDS, SUSTAINED_SECONDS_FULL = 20.0, 60.0
LATE_PER_SECOND, LATE_SECONDS, LATE_AHEAD_SECONDS = 500, 6, 5


@dataclass(frozen=True)
class Program:
    """How the program is called, and how one sees from outside how many jobs have not durably ended yet.

    `left` is an SQL query of one number for a peer in PostgreSQL; for one in Redis it is commands whose numbers are
    added up. `jobs` is how many T1 takes, fewer than 100 000 where a peer would take minutes for them; `jobs_full`, how
    many with FULL=1. `reports` is False for a program that cannot say `handled`, whose `left` is asked instead.
    """

    command: Sequence[str]
    folder: Path
    left: str | tuple[tuple[str, ...], ...]
    settings: str
    jobs: int = 100_000
    jobs_full: int = 100_000
    workers: int = 1
    reports: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def redis(self) -> bool:
        return not isinstance(self.left, str)

    def cases(self, *names: str) -> dict[str, Any]:
        """The named ones of the shared cases, as a Peer wants them."""
        every = {"T1": drain, "T2": sustained, "L2": lateness}
        return {name: partial(every[name], self) for name in names}


class Left(Protocol):
    """Asks how many jobs have not durably ended."""

    async def __call__(self) -> int: ...


class _Run:
    """One program on one fresh server: its processes, its count of what is left, and its records."""

    def __init__(self, program: Program, rig: PeerRig, server: Server, left: Left) -> None:
        self.left = left
        self.server = server
        self.clock = rig.clock
        self.workers: list[PeerProcess] = []
        # Lines cost nothing to look at; a question costs the server.
        self.pause = 0.005 if program.reports else 0.05
        self._program = program
        self._rig = rig
        self._cpu: float | None = None
        self._log: float | None = None

    def records(self) -> list[dict[str, Any]]:
        """What each worker wrote when it ended."""
        return [json.loads(self._record(number).read_text()) for number in range(self._program.workers)]

    def _record(self, number: int) -> Path:
        return self._rig.folder / f"record-{number}.json"

    def process(self, *arguments: str, number: int = 0) -> contextlib.AbstractAsyncContextManager[PeerProcess]:
        """The program, called with these."""
        variable = "PEER_REDIS_URL" if self._program.redis else "PEER_DATABASE_URL"
        return self._rig.process(
            [*self._program.command, *arguments],
            environment={
                variable: self.server.url,
                "PEER_SETTINGS": self._program.settings,
                "PEER_RECORD": str(self._record(number)),
                **self._program.environment,
            },
            cwd=self._program.folder,
        )

    async def once(self, *arguments: str) -> float:
        """The program run to its end; the seconds that it took."""
        begun = perf_counter()
        async with self.process(*arguments) as process:
            await process.until_end()
        return perf_counter() - begun

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Workers run, and end in order when the block does."""
        async with contextlib.AsyncExitStack() as stack:
            self.workers = [
                await stack.enter_async_context(self.process("work", number=number))
                for number in range(self._program.workers)
            ]
            await asyncio.gather(*(worker.until_ready() for worker in self.workers))
            yield
            await asyncio.gather(*(worker.close() for worker in self.workers))

    async def handled(self, enqueued: int) -> int:
        """How many jobs were handled, of so many that were queued."""
        for worker in self.workers:
            worker.check()
        if self._program.reports:
            return sum(worker.handled for worker in self.workers)
        return enqueued - await self.left()

    async def until_done(self, count: int) -> float:
        """Wait until nothing is left; when that was seen first, in seconds since 1970."""
        async with asyncio.timeout(60 + count / SLOWEST_PER_SECOND):
            while await self.handled(count) < count:
                await self.clock.sleep(self.pause)
            while await self.left() > 0:
                await self.clock.sleep(self.pause)
        return time()

    async def begin(self) -> None:
        """From here on costs are counted."""
        self._cpu = self.server.cpu_seconds()
        self._log = await self._log_position()

    async def costs(self, count: int) -> dict[str, float]:
        """What `count` jobs cost since `begin`; call it while the workers are still there."""
        cpu = self.server.cpu_seconds()
        costs = {
            "worker_cpu_ms_a_job": round(1000 * sum(worker.cpu_seconds for worker in self.workers) / count, 4),
            "worker_peak_mb": round(sum(worker.peak_bytes for worker in self.workers) / 1e6, 1),
        }
        if cpu is not None and self._cpu is not None:
            costs["server_cpu_ms_a_job"] = round(1000 * (cpu - self._cpu) / count, 4)
        log = await self._log_position()
        if log is not None and self._log is not None:
            costs["log_bytes_a_job"] = round((log - self._log) / count, 1)
        return costs

    async def _log_position(self) -> float | None:
        if self._program.redis:
            return None
        connection = await asyncpg.connect(self.server.url)
        try:
            return float(await connection.fetchval(SQL["log_position"]))
        finally:
            await connection.close()

    def outcome(self, expected: int) -> dict[str, Any]:
        """Of the workers' records: see `judge`."""
        return judge(self.records(), expected)


def judge(records: Sequence[Mapping[str, Any]], expected: int) -> dict[str, Any]:
    """What was handled against what was queued: the ids from 0 to `expected`. Raises Failed if one is lost."""
    times = Counter(number for record in records for number in record["ids"])
    lost = sum(1 for number in range(expected) if number not in times)
    unknown = sum(1 for number in times if not 0 <= number < expected)
    if lost or unknown:
        raise Failed(f"a void measurement: {lost} of {expected} jobs lost, {unknown} that nobody queued")
    return {"runs": expected, "lost": 0, "duplicates": times.total() - expected}


@contextlib.asynccontextmanager
async def _run(program: Program, rig: PeerRig) -> AsyncIterator[_Run]:
    server = await (rig.redis() if program.redis else rig.postgres())
    async with _left(program, server) as left:
        run = _Run(program, rig, server, left)
        await run.once("setup")
        yield run


@contextlib.asynccontextmanager
async def _left(program: Program, server: Server) -> AsyncIterator[Left]:
    if isinstance(program.left, str):
        query, connection = program.left, await asyncpg.connect(server.url)

        async def rows() -> int:
            return int(await connection.fetchval(query))

        try:
            yield rows
        finally:
            await connection.close()
        return
    commands = program.left
    reader, writer = await asyncio.open_connection(urlsplit(server.url).hostname, urlsplit(server.url).port)

    async def keys() -> int:
        writer.write("".join(f"{' '.join(command)}\r\n" for command in commands).encode())
        answers = [(await reader.readline()).decode().strip() for _ in commands]
        if not all(answer.startswith(":") for answer in answers):
            raise Failed(f"Redis does not answer {commands} with numbers: {answers}")
        return sum(int(answer[1:]) for answer in answers)

    try:
        yield keys
    finally:
        writer.close()


async def drain(program: Program, rig: PeerRig) -> Round:
    """T1: no-op jobs queued beforehand; the clock runs from the first start to the last durable end, in jobs/s."""
    count = program.jobs_full if rig.full else program.jobs
    async with _run(program, rig) as run:
        seconds = await run.once("enqueue", "0", str(count))
        await run.begin()
        async with run.working():
            ended = await run.until_done(count)
            costs = await run.costs(count)
        first = min(record["first"] for record in run.records() if record["ids"])
        return Round(
            count / (ended - first),
            {**run.outcome(count), **costs, "enqueued_per_second": round(count / seconds), "workers": program.workers},
        )


async def sustained(program: Program, rig: PeerRig) -> Round:
    """T2: batches of 500 queued while they run, the backlog bounded at 20k; durable ends a second."""
    seconds = SUSTAINED_SECONDS_FULL if rig.full else SUSTAINED_SECONDS
    async with _run(program, rig) as run, run.working(), run.process("produce") as producer:
        await producer.until_ready()
        # The start of either side is not what is measured: one batch goes ahead.
        producer.say(str(BATCH))
        await _until_enqueued(producer, BATCH)
        await run.until_done(BATCH)
        await run.begin()
        asked, begun, windows = BATCH, perf_counter(), [0]
        while (at := perf_counter() - begun) < seconds:
            handled = await run.handled(producer.enqueued)
            windows += [handled - BATCH] * (int(at / 5) + 1 - len(windows))
            # Two at a time: it need not wait for us, and has little under way when time is up.
            while asked - producer.enqueued < 2 * BATCH and producer.enqueued - handled < BACKLOG:
                producer.say(str(BATCH))
                asked += BATCH
                handled += BATCH
            producer.check()
            await rig.clock.sleep(run.pause)
        await _until_enqueued(producer, asked)
        left = await run.left()
        at = perf_counter() - begun
        done = asked - BATCH - left
        costs = await run.costs(done)
        await run.until_done(asked)
        await producer.close()
    even = [round((after - before) / 5) for before, after in itertools.pairwise(windows)]
    more = {"seconds": round(at, 1), "backlog_at_end": left, "windows_of_5_s": even, "workers": program.workers}
    return Round(done / at, {**run.outcome(asked), **costs, **more})


async def _until_enqueued(producer: PeerProcess, count: int) -> None:
    async with asyncio.timeout(60):
        while producer.enqueued < count:
            producer.check()
            await asyncio.sleep(0.002)


async def lateness(program: Program, rig: PeerRig) -> Round:
    """L2 in small: 500 jobs a second for 6 s, queued 5 s ahead; the 99th percentile of start minus due, in ms."""
    count, warm = LATE_PER_SECOND * LATE_SECONDS, 100
    async with _run(program, rig) as run:
        async with run.working():
            await run.once("enqueue", "0", str(warm))
            await run.until_done(warm)
            await run.begin()
            first = int((time() + LATE_AHEAD_SECONDS) * 1000)
            await run.once("enqueue", str(warm), str(count), str(first), str(1000 // LATE_PER_SECOND))
            if time() * 1000 > first:
                raise Failed(f"queueing {count} future jobs took longer than {LATE_AHEAD_SECONDS} s")
            await run.until_done(warm + count)
            costs = await run.costs(count)
        late = sorted(value for record in run.records() for value in record["late_ms"])
        if len(late) < count:
            raise Failed(f"{len(late)} of {count} future jobs say how late they were")
        more = {
            "p50_ms": round(late[len(late) // 2], 2),
            "p99_ms": round(late[int(len(late) * 0.99)], 2),
            "max_ms": round(late[-1], 2),
            "earliest_ms": round(late[0], 2),
            "early": sum(1 for value in late if value < 0),
        }
        return Round(late[int(len(late) * 0.99)], {**run.outcome(warm + count), **more, **costs})
