"""EVENTS: T2 while an API process has 1,000 streams of live events open, beside T2 with none.

One stream is about every run, and gets 1,000 events a second with markers for the rest; one is about failures; all
others are about one job each. Windows with and without streams take turns within one flow of work, and each window with
streams is held against the two around it. The API process is there all the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple
from uuid import UUID

from bench import raw
from bench.figures import percentile
from bench.harness import KEY, SQL, Case, Check, Failed, Rig, Round
from bench.ports import free_port, until_open
from bench.stream import Stream, flowing
from bench.work import jobs, store

STREAMS: Final = 1_000
PROBES: Final = 40
"""Streams about a job that is handed in while they are open: how long after its commit the event is there."""
KINDS: Final = ("", "?status=FAILED")


class Listener:
    """One open stream: what it was told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.events = self.markers = 0
        self.heard = asyncio.Event()
        self.task = asyncio.create_task(self._listen(reader))

    @classmethod
    async def open(cls, port: int, query: str) -> Listener:
        """Returns once the stream is open: what is committed from then on is told."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET /api/v1/events{query} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise Failed(f"GET /events{query}: {head[:200].decode()}")
        await reader.readuntil(b"\n\n")
        return cls(reader, writer)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        async for line in reader:
            if line.startswith(b"event: run"):
                self.events += 1
                self.heard.set()
            elif line.startswith(b"event: "):
                self.markers += 1

    async def close(self) -> None:
        """Hang up."""
        self.task.cancel()
        self._writer.close()


@contextlib.asynccontextmanager
async def listening(port: int, probes: list[UUID]) -> AsyncIterator[list[Listener]]:
    """All streams open."""
    queries = [*KINDS, *(f"?job_id={job}" for job in probes)]
    queries += [f"?job_id={job}" for job in raw.ids(STREAMS - len(queries))]
    opened: list[Listener] = []
    try:
        for at in range(0, STREAMS, 50):
            opened += await asyncio.gather(*(Listener.open(port, query) for query in queries[at : at + 50]))
        yield opened
    finally:
        for listener in opened:
            await listener.close()


class Window(NamedTuple):
    """A window of the flow."""

    rate: float
    """Runs a second that ended durably."""
    cpu: dict[str, float]
    """Microseconds of CPU for each of them, by process."""


async def window(stream: Stream, seconds: float) -> Window:
    """The window from now on."""
    used = await stream.usage()
    before, begin = await stream.ended()
    await stream.rig.clock.sleep(seconds)
    after, end = await stream.ended()
    spent = await stream.usage()
    return Window((after - before) / (end - begin), spent.cost(used, after - before)["cpu_us_a_run"])


async def delays(rig: Rig, listeners: dict[UUID, Listener], made: list[Any]) -> list[float]:
    """From the end of each commit to its event, in ms."""
    found = []
    async with store(rig) as opened:
        for job in made:
            listener = listeners[job.job_id]
            await opened.jobs.add([job])
            begun = perf_counter()
            async with asyncio.timeout(10):
                await listener.heard.wait()
            found.append((perf_counter() - begun) * 1000)
            await rig.clock.sleep(0.1)
    return found


def memory(pid: int) -> float:
    """MB of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def cost(windows: list[Window]) -> dict[str, float]:
    """The median of the CPU for a run, by process and of the product's together. The client reads the streams."""
    found = {name: statistics.median(each.cpu[name] for each in windows) for name in windows[0].cpu}
    product = [sum(used for name, used in each.cpu.items() if name != "client") for each in windows]
    return {**found, "product": round(statistics.median(product), 1)}


async def following(rig: Rig) -> Round:
    """The rate with streams, of the rate without."""
    seconds, turns = (15.0, 5) if rig.full else (8.0, 3)
    port = free_port()
    told = {"events": 0, "markers": 0}
    took: list[float] = []
    without: list[Window] = []
    with_streams: list[Window] = []
    async with flowing(rig) as stream, rig.role("api", "--port", str(port)) as api:
        await until_open(port)
        stream.processes["api"] = api.pid
        bare = memory(api.pid)
        most = bare
        without.append(await window(stream, seconds))
        for _ in range(turns):
            made = jobs(rig, PROBES)
            probes = [job.job_id for job in made]
            async with listening(port, probes) as listeners:
                by_job = dict(zip(probes, listeners[len(KINDS) :], strict=False))
                probing = asyncio.create_task(delays(rig, by_job, made))
                with_streams.append(await window(stream, seconds))
                took += await probing
                stream.sent += PROBES
                most = max(most, memory(api.pid))
                told["events"] += sum(each.events for each in listeners)
                told["markers"] += sum(each.markers for each in listeners)
            await stream.connection.execute(SQL["unwatch"])
            without.append(await window(stream, seconds))
        await stream.finish()
    around = [statistics.mean(each.rate for each in without[at : at + 2]) for at in range(turns)]
    ratios = [each.rate / rate for each, rate in zip(with_streams, around, strict=True)]
    return Round(
        statistics.median(ratios),
        {
            "ratios": [round(ratio, 3) for ratio in ratios],
            "without": [round(each.rate) for each in without],
            "cpu_us_a_run_without": cost(without),
            "cpu_us_a_run": cost(with_streams),
            "cpu_more_percent": round(100 * (cost(with_streams)["product"] / cost(without)["product"] - 1), 1),
            "delay_p50_ms": round(percentile(sorted(took), 0.5), 1),
            "delay_p99_ms": round(percentile(sorted(took), 0.99), 1),
            "streams": STREAMS,
            "megabytes_of_streams": round(most - bare, 1),
            **told,
        },
    )


CASE = Case(
    "EVENTS",
    "of T2",
    0.95,
    True,
    following,
    raw.sustained,
    "raw SQL: submit, claim and finish with history",
    checks=(
        Check("p99 from commit to reader in ms", "delay_p99_ms", 300.0),
        Check("CPU for each run, more in percent", "cpu_more_percent", 5.0),
    ),
)
