"""W1: the time of every page with fifty million finished runs and a million jobs stored, while T2 flows at half speed.

One API process serves the pages; one browser that is signed in asks for them in turn, over one connection, compressed.
What is measured is the whole answer on loopback: the server's time, and some tenths of a millisecond of ours; beside it
the time that the process was on a processor, which says the same on a machine that is shared. Pages of the navigation
are asked for as it has them; beside them are lists with filters, further pages, jobs and runs.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from bench.cases.stored import Filled, flow
from bench.data import filled_for_pages
from bench.harness import KEY, SQL, Case, Check, Failed, Rig, Round
from bench.ports import free_port, until_open
from bench.stream import flowing
from tickwise.web.navigation import DOORS

OK: Final = 200
WARM: Final = 5
"""Sessions of the server plan a page once, each."""
CALIBRATION_SECONDS: Final = 8.0


class Answer(NamedTuple):
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as it was before it was compressed."""
        is_packed = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.body) if is_packed else self.body).decode(errors="replace")


class Visitor:
    """A browser's connection, as far as it counts here."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.cookie = ""

    async def ask(self, method: str, path: str, *headers: str) -> Answer:
        """One request."""
        said = "".join(f"{header}\r\n" for header in headers)
        cookie = f"Cookie: {self.cookie}\r\n" if self.cookie else ""
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\nContent-Length: 0\r\n"
            f"{said}{cookie}\r\n".encode()
        )
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        body = await self._reader.readexactly(int(found.get("content-length", "0")))
        return Answer(int(lines[0].split()[1]), found, body)

    async def sign_in(self) -> None:
        """By a link for the admin key, as `tickwise open` does. Raises Failed."""
        made = await self.ask("POST", "/api/v1/auth/links", f"Authorization: Bearer {KEY}")
        if made.status != 201:
            raise Failed(f"no link: {made.status} {made.body[:300].decode(errors='replace')}")
        opened = await self.ask("GET", json.loads(made.body)["link"])
        self.cookie = opened.headers.get("set-cookie", "").partition(";")[0]
        if not self.cookie:
            raise Failed(f"the link opened nothing: {opened.status}")

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def paths(ids: Mapping[str, Any]) -> dict[str, str]:
    """The pages by their names: those of the navigation, and those behind them."""
    return {
        **{door.title: door.path for door in DOORS},
        "jobs by a part of the name": "/jobs?name=" + quote("invoice 7"),
        "jobs with a label": "/jobs?label=team%3Dteam-8",
        "jobs that are paused": "/jobs?status=PAUSED",
        "jobs that are scheduled": "/jobs?status=SCHEDULED",
        "jobs of an owner": "/jobs?owner=team-17",
        "jobs by interval": "/jobs?schedule_type=INTERVAL",
        "jobs further on": f"/jobs?cursor={ids['old_job']}",
        "a busy job": f"/jobs/{ids['busy_job']}",
        "a job that runs seldom": f"/jobs/{ids['seldom_job']}",
        "runs that failed": "/runs?status=FAILED",
        "runs that ended well": "/runs?status=SUCCESS",
        "runs that are under way": "/runs?status=RUNNING",
        "runs of a busy job": f"/runs?job_id={ids['busy_job']}",
        "runs of a queue": "/runs?queue=default",
        "runs by a part of the job's name": "/runs?job_name=backup",
        "runs further on": f"/runs?cursor={ids['old_run']}",
        "a run that failed": f"/runs/{ids['failed_run']}",
        "a run of days ago": f"/runs/{ids['old_run']}",
        "dead letters by reason": "/dead-letters?reason=exit_code",
        "the time line of an hour": "/timeline?view=hour",
        "the time line of a week": "/timeline?view=week",
        "the time line of a busy job": f"/timeline?job_id={ids['busy_job']}",
        "the time line of a label": "/timeline?label=team%3Dteam-8",
        "a namespace": "/namespaces/default",
    }


UNINDEXED: Final = {"jobs by a name that none has": "/jobs?name=nothing-of-that-name"}
"""Few have it, or none: beside those that an index knows, the newest are looked at, so many at a time."""


def cpu_ms(pid: int) -> float:
    """The time that the main thread of a process was on a processor. It says what a page costs on a machine that is
    shared, too."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


async def looked_at(
    visitor: Visitor, pages: Mapping[str, str], times: int, pid: int, *, warm: int = WARM
) -> dict[str, dict[str, Any]]:
    """Each page's times in ms, and its size in kB. Pages take turns, so that none has the caches for itself. One that
    is refused counts with the time that it took: `refused` says how often, and `why` the last answer."""
    refused: Counter[str] = Counter()
    why: dict[str, str] = {}
    took: dict[str, list[float]] = {name: [] for name in pages}
    size: dict[str, float] = {}
    cpu = dict.fromkeys(pages, 0.0)
    for turn in range(warm + times):
        for name, path in pages.items():
            begun, used = perf_counter(), cpu_ms(pid)
            answer = await visitor.ask("GET", path)
            if turn >= warm:
                took[name].append((perf_counter() - begun) * 1000)
                cpu[name] += (cpu_ms(pid) - used) / times
            if answer.status != OK:
                refused[name] += 1
                why[name] = f"GET {path}: {answer.status} {answer.text[-400:]}"
            size[name] = round(len(answer.body) / 1000, 1)
    return {
        name: {
            "p50_ms": round(statistics.median(each), 1),
            "p95_ms": round(statistics.quantiles(each, n=20, method="inclusive")[18], 1),
            "most_ms": round(max(each), 1),
            "process_cpu_ms": round(cpu[name], 1),
            "kb": size[name],
            "refused": refused[name],
            **({"why": why[name]} if name in why else {}),
        }
        for name, each in took.items()
    }


async def pages(rig: Rig) -> Round:
    """The value is the 95th percentile of the slowest page. `QUIET=1` asks without T2 beside, `LOOKS=n` so often."""
    times = int(os.environ.get("LOOKS", 60 if rig.full else 30))
    quiet = bool(os.environ.get("QUIET"))
    async with filled_for_pages() as dsn:
        stored = Filled(dsn, rig.folder, full=rig.full)
        await stored.reset()
        connection = await stored.connect()
        counts = dict(await connection.fetchrow(SQL["stored_counts"], timeout=300))
        asked = paths(await connection.fetchrow(SQL["stored_ids"]))
        await connection.close()
        rate = 0.0 if quiet else (await flow(stored, CALIBRATION_SECONDS)).rate / 2
        await stored.reset()
        port = free_port()
        async with stored.role("api", "--port", str(port)) as api:
            await until_open(port)
            visitor = Visitor(*await asyncio.open_connection("127.0.0.1", port))
            await visitor.sign_in()
            if quiet:
                found = await looked_at(visitor, asked, times, api.pid)
            else:
                async with flowing(stored, rate=rate, warm_seconds=5.0) as stream:
                    found = await looked_at(visitor, asked, times, api.pid)
                    await stream.finish()
            # The stream took its time to end, and a server hangs up on a connection that says nothing.
            again = Visitor(*await asyncio.open_connection("127.0.0.1", port))
            again.cookie = visitor.cookie
            visitor.close()
            unindexed = await looked_at(again, UNINDEXED, 3, api.pid, warm=1)
            again.close()
        await stored.reset()
    slowest = max(found, key=lambda name: found[name]["p95_ms"])
    more = {
        "slowest": slowest,
        "p50_ms_most": max(each["p50_ms"] for each in found.values()),
        "kb_most": max(each["kb"] for each in found.values()),
        "refused": sum(each["refused"] for each in [*found.values(), *unindexed.values()]),
        "process_cpu_ms_most": max(each["process_cpu_ms"] for each in found.values()),
        "stored": counts,
        "load_average": round(os.getloadavg()[0], 1),
        "beside_it_jobs_a_second": round(rate),
        "pages": found,
        "without_an_index": unindexed,
    }
    return Round(found[slowest]["p95_ms"], more)


async def newest(rig: Rig) -> Round:
    """The newest rows alone, in ms."""
    async with filled_for_pages() as dsn:
        connection = await Rig(dsn, rig.folder, full=rig.full).connect()
        took = []
        for _ in range(100):
            begun = perf_counter()
            await connection.fetch(SQL["raw_page"], 50)
            took.append((perf_counter() - begun) * 1000)
        await connection.close()
    return Round(statistics.quantiles(took, n=20)[18])


CASE = Case(
    "W1",
    "ms",
    100.0,
    False,
    pages,
    newest,
    "raw SQL: the newest 50 rows of history",
    checks=(
        Check("size of the largest page, compressed, kB", "kb_most", 150.0),
        Check("answers that refuse a page", "refused", 0.0),
    ),
    rounds=1,
)
