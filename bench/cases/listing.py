"""Q1: the newest page of jobs and of runs, with a million finished runs and a million jobs ahead stored.

Two API processes. Latency is of one client that asks one of them again and again; the rate is of eight at once, four at
each. One job by its id is asked for beside them: what is above it is the page's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
from time import perf_counter
from typing import Any, Final

from bench.cases.stored import beside
from bench.data import SIZES
from bench.harness import KEY, SQL, Case, Check, Failed, Rig, Round
from bench.ports import free_port, until_open

LIMIT: Final = 50
PAGES: Final = {"jobs": f"/api/v1/jobs?limit={LIMIT}", "runs": f"/api/v1/runs?limit={LIMIT}"}
CLIENTS: Final = 8
PROCESSES: Final = 2
WARM: Final = 50
"""The server's sessions plan a page once, each."""


class Asking:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def get(self, path: str) -> bytes:
        """The body of the answer. Raises Failed unless it is 200."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        at = head.index(b"content-length:") + 15
        body = await self._reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
        if not head.startswith(b"http/1.1 200"):
            raise Failed(f"GET {path}: {body[:300].decode(errors='replace')}")
        return body

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


async def times(port: int, path: str, count: int) -> list[float]:
    """How long each of so many took, in ms, over one connection: an idle one would be closed."""
    asking = Asking(*await asyncio.open_connection("127.0.0.1", port))
    found = []
    for _ in range(count):
        begun = perf_counter()
        await asking.get(path)
        found.append((perf_counter() - begun) * 1000)
    asking.close()
    return found


async def first(port: int, path: str) -> list[dict[str, Any]]:
    """A page. Raises Failed unless it is full."""
    asking = Asking(*await asyncio.open_connection("127.0.0.1", port))
    found: list[dict[str, Any]] = json.loads(await asking.get(path))
    asking.close()
    if len(found) != LIMIT:
        raise Failed(f"{path} has {len(found)} of {LIMIT}")
    return found


async def listing(rig: Rig) -> Round:
    """The slower of the two pages, at its median."""
    count = 2_000 if rig.full else 400
    more: dict[str, float] = {}
    (size,) = SIZES["Q1"]
    async with beside(rig, size) as stored:
        ports = [free_port() for _ in range(PROCESSES)]
        async with contextlib.AsyncExitStack() as stack:
            for each in ports:
                await stack.enter_async_context(stored.role("api", "--port", str(each)))
            for each in ports:
                await until_open(each)
            port = ports[0]
            job = (await first(port, PAGES["jobs"]))[0]["job_id"]
            for name, path in (PAGES | {"one_job": f"/api/v1/jobs/{job}"}).items():
                await asyncio.gather(*(times(ports[each % PROCESSES], path, WARM) for each in range(CLIENTS)))
                alone = await times(port, path, count)
                more[f"{name}_ms"] = round(statistics.median(alone), 2)
                more[f"{name}_p99_ms"] = round(statistics.quantiles(alone, n=100)[98], 2)
                begun = perf_counter()
                await asyncio.gather(*(times(ports[each % PROCESSES], path, count // 2) for each in range(CLIENTS)))
                more[f"{name}_a_second"] = round(CLIENTS * (count // 2) / (perf_counter() - begun))
    return Round(max(more["jobs_ms"], more["runs_ms"]), more)


async def page(rig: Rig) -> Round:
    """The rows alone, in ms."""
    (size,) = SIZES["Q1"]
    async with beside(rig, size) as stored:
        connection = await stored.connect()
        took = []
        for _ in range(WARM + 400):
            begun = perf_counter()
            await connection.fetch(SQL["raw_page"], LIMIT)
            took.append((perf_counter() - begun) * 1000)
        await connection.close()
    return Round(statistics.median(took[WARM:]))


CASE = Case(
    "Q1",
    "ms",
    5.0,
    False,
    listing,
    page,
    "raw SQL: the newest 50 rows of history",
    checks=(
        Check("pages of jobs a second", "jobs_a_second", 800, True),
        Check("pages of runs", "runs_a_second", 800, True),
    ),
)
