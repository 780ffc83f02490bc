"""Appends to the log of a shard in Cassandra, and takeovers.

    python -m bench.stores.cassandra_log [--appends N] [--nodes 1|3]

Starts its own node or nodes from Maven's jars, on loopback addresses; client and nodes share this machine's cores, so
trust the ratios. Prints one line for each case: entries a second, and the latency of one append. Shards append side by
side, each one entry at a time, as a keeper does after each group commit.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from contextlib import AsyncExitStack

from tests.services.cassandra import cluster
from tests.support.cassandras import keyspace, linked, next_shard
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.testing.contracts.effect_log import own

SIZES = (200, 5_000, 50_000)
SHARDS = (1, 4)
TAKEOVER_ENTRIES = 2_000
"""Some 10 s of group commits: what lies behind the last checkpoint at a takeover."""
TAKEOVER_BYTES = 8_000
LEASE_SECONDS = 2.0


async def append_case(link: CassandraLink, shards: int, size: int, appends: int) -> str:
    """Append to so many shards at once."""
    logs = [CassandraLog(link, next_shard()) for _ in range(shards)]
    for log in logs:
        await own(log)
        await log.append(b"warm")
    body, taken = os.urandom(size), list[float]()

    async def owner(log: CassandraLog) -> None:
        for _ in range(appends // shards):
            begun = time.perf_counter()
            await log.append(body)
            taken.append(1e3 * (time.perf_counter() - begun))

    begun, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(owner(log) for log in logs))
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    for log in logs:
        await log.release()
    taken.sort()
    p50, p95, p99 = (taken[min(len(taken) - 1, int(len(taken) * share))] for share in (0.5, 0.95, 0.99))
    return (
        f"{shards} shard{'s'[: shards - 1]} {size:6d} B: {len(taken) / seconds:6.0f} entries/s, "
        f"p50 {p50:5.1f} ms, p95 {p95:5.1f} ms, p99 {p99:5.1f} ms, client {1e6 * cpu / len(taken):4.0f} µs of CPU each"
    )


async def takeover_case(link: CassandraLink) -> str:
    """Hand a log over, and take it from an owner that fell silent; read what lies behind its checkpoint."""
    shard = next_shard()
    first = CassandraLog(link, shard, lease_seconds=LEASE_SECONDS)
    await own(first)
    for _ in range(TAKEOVER_ENTRIES):
        await first.append(b"x" * TAKEOVER_BYTES)
    await first.release()
    begun = time.perf_counter()
    second = CassandraLog(link, shard, lease_seconds=LEASE_SECONDS)
    await own(second, "second")
    handed = time.perf_counter() - begun
    await second.renew()
    begun = time.perf_counter()
    third = CassandraLog(link, shard, lease_seconds=LEASE_SECONDS)
    await own(third, "third")
    silent = time.perf_counter() - begun
    begun = time.perf_counter()
    count = len([entry async for entry in third.entries(0)])
    read = time.perf_counter() - begun
    return (
        f"handed over in {1e3 * handed:.0f} ms; from a silent owner with a lease of "
        f"{LEASE_SECONDS:g} s in {silent:.2f} s; {count} entries of {TAKEOVER_BYTES} B read in {read:.2f} s"
    )


async def measure(nodes: int, appends: int) -> None:
    """All cases on so many nodes."""
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(cluster(nodes))
        hosts = ",".join(node.address for node in running)
        url = await stack.enter_async_context(keyspace(f"cassandra://{hosts}"))
        link = await stack.enter_async_context(linked(url))
        print(f"{nodes} node{'s'[: nodes - 1]}, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        await append_case(link, 1, 200, appends)  # the node compiles its code
        for size in SIZES:
            for shards in SHARDS:
                print(await append_case(link, shards, size, appends), flush=True)
        print(await takeover_case(link), flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.stores.cassandra_log", description=__doc__)
    parser.add_argument("--appends", type=int, default=2_000, help="of each case, over all shards")
    parser.add_argument("--nodes", type=int, default=1, choices=[1, 3])
    asked = parser.parse_args()
    asyncio.run(measure(asked.nodes, asked.appends))


if __name__ == "__main__":
    main()
