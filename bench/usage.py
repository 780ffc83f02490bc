"""What processes use: seconds of CPU, memory, and the bytes that the server writes ahead.

Two readings make a cost. Processes that end in between are counted, because whoever waits for them inherits their time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from time import process_time
from typing import Any

import asyncpg
import psutil

from bench.harness import SQL


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it started, as far as they live."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(pid: int) -> float:
    """Of a process, of all that it started, and of those of them that have ended and were waited for."""
    total = 0.0
    for process in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def resident_megabytes(pid: int) -> float:
    """Resident memory of one process, without those that it started."""
    try:
        return float(psutil.Process(pid).memory_info().rss) / 1e6
    except psutil.NoSuchProcess:
        return 0.0


def own_megabytes(pid: int) -> float:
    """Memory of a process and all that it started, without what they share: for a server, without its buffers."""
    total = 0
    for process in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            used = process.memory_info()
            total += used.rss - used.shared
    return total / 1e6


async def server_pid(connection: asyncpg.Connection[Any]) -> int | None:
    """The server's first process, the parent of the one that serves us; None if it runs on another machine."""
    pid: int = await connection.fetchval(SQL["backend"])
    with contextlib.suppress(psutil.NoSuchProcess):
        backend = psutil.Process(pid)
        if "postgres" in backend.name():
            return backend.ppid()
    return None


@dataclass(frozen=True)
class Reading:
    """What has been used up to a moment."""

    cpu: Mapping[str, float]
    """Seconds, by name."""
    wal: int
    """The server's position, in bytes."""

    def cost(self, before: Reading, runs: int) -> dict[str, Any]:
        """For each run: microseconds of CPU by name, bytes of WAL."""
        used = {name: (seconds - before.cpu[name]) / runs * 1e6 for name, seconds in self.cpu.items()}
        return {
            "cpu_us_a_run": {name: round(microseconds, 1) for name, microseconds in used.items()},
            "wal_bytes_a_run": round((self.wal - before.wal) / runs),
        }


async def read(connection: asyncpg.Connection[Any], **processes: int) -> Reading:
    """The server, processes of the product by name, and this process, which hands in the work.

    A server on another machine has no CPU here.
    """
    server = await server_pid(connection)
    cpu = {name: cpu_seconds(pid) for name, pid in processes.items()} | {"client": process_time()}
    if server is not None:
        cpu["database"] = cpu_seconds(server)
    return Reading(cpu, await connection.fetchval(SQL["log_position"]))
