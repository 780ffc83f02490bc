"""A stream of immediate jobs on Cassandra, through `tickwise keeper`, and takeovers of its shard; the parts of case K2.

    python -m bench.stores.keepers [--seconds N] [--live N] [--nodes 1|3]

    this client ──► keeper ──► node(s)          a scheduler and an executor beside them, functions that do nothing

Starts node(s) of its own from Maven's jars, a Redis, and the product's processes; all share this machine's cores, so
trust the ratios. Prints runs a second from submit to end, and the processor time a run of each process; then how soon a
job starts on a system without load; then how long a shard with so many live runs answers nobody after its owner was
killed, frozen, and told to end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from bench.cases.immediate import paced
from bench.figures import percentile
from bench.harness import Rig
from bench.ports import free_port, until_open
from bench.usage import cpu_seconds, resident_megabytes
from bench.work import jobs
from tests.services.cassandra import JVM, cluster
from tests.services.redis import Redis
from tests.support.cassandras import keyspace
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.client import CassandraStore, KeyspaceSession
from tickwise.adapters.store.keeper.shards import ALONE
from tickwise.domain.errors import TickwiseError
from tickwise.ports.store import RunQuery, Store
from tickwise.wiring.cassandra.keyspace import cassandra_store
from tickwise.wiring.startup_wait import StartupWait

CLOCK: Final = SystemClock()
BATCH: Final = 500
CLIENTS: Final = 4
BACKLOG: Final = 10_000
"""Runs under way at most."""
WARM_SECONDS: Final = 60.0
"""The node compiles its code meanwhile: a quarter of its processor time after 15 s, a thirtieth after 60."""
STARTS_A_SECOND: Final = 50
STARTS_SECONDS: Final = 4.0
PAUSE_SECONDS: Final = 0.2
BEAT_SECONDS: Final = 1.0
"""After so long other keepers see one that has started."""


async def unfinished(store: Store) -> int:
    """Runs that wait or are held."""
    found = await store.upkeep.stats()
    return found.queued + found.held + found.retrying


async def drained(store: Store) -> None:
    """Wait until all has ended."""
    while await unfinished(store):
        await CLOCK.sleep(PAUSE_SECONDS)


class Streamed(NamedTuple):
    """A stream of immediate jobs."""

    rate: float
    """Runs a second from submit to end."""
    cost: dict[str, float]
    """Microseconds of the processor for each run, by process."""
    sent: int
    """Jobs, those before and after the measured time included."""


async def stream(
    rig: Rig, store: Store, pids: dict[str, list[int]], seconds: float, warm_seconds: float = WARM_SECONDS
) -> Streamed:
    """So many seconds of it, after it has flowed for a while. All has ended afterwards."""
    sent, left, flows = 0, 0, True

    async def look() -> None:
        nonlocal left
        while flows:
            left = await unfinished(store)
            await CLOCK.sleep(PAUSE_SECONDS)

    async def feed() -> None:
        nonlocal sent, left
        while flows:
            await store.jobs.add(jobs(rig, BATCH))
            sent += BATCH
            left += BATCH
            while flows and left > BACKLOG:
                await CLOCK.sleep(PAUSE_SECONDS)

    feeding = [asyncio.create_task(each) for each in (look(), *(feed() for _ in range(CLIENTS)))]
    await CLOCK.sleep(warm_seconds)

    async def reading() -> tuple[int, float, dict[str, float]]:
        ended = sent - await unfinished(store)
        used = {name: sum(map(cpu_seconds, each)) for name, each in pids.items()}
        return ended, time.perf_counter(), used | {"client": time.process_time()}

    before = await reading()
    await CLOCK.sleep(seconds)
    after = await reading()
    flows = False
    await asyncio.gather(*feeding)
    await drained(store)
    ended = after[0] - before[0]
    cost = {name: 1e6 * (after[2][name] - before[2][name]) / ended for name in after[2]}
    return Streamed(ended / (after[1] - before[1]), cost, sent)


async def starts(rig: Rig, store: Store) -> list[float]:
    """From before the request to the API to the start, in ms and ascending."""
    port = free_port()
    async with rig.role("api", "--port", str(port)):
        await until_open(port)
        sent = await paced(port, rate=STARTS_A_SECOND, seconds=STARTS_SECONDS)
        await drained(store)
    found = await store.searches.runs(RunQuery(namespace="default", limit=len(sent)))
    return sorted(
        1e3 * (row.started_at - sent[str(row.job_id)])
        for row in found
        if row.started_at is not None and str(row.job_id) in sent
    )


class Takeover(NamedTuple):
    """The change from one owner to the next, as a client saw it."""

    seconds: float
    """From the signal to the first answer of the next owner."""
    pause: float
    """The longest time between two answers meanwhile."""


class Keepers:
    """Two keepers, of which one owns the shard."""

    def __init__(self, rig: Rig, stack: AsyncExitStack) -> None:
        self._rig, self._stack = rig, stack
        self.processes: list[subprocess.Popen[bytes]] = []

    async def first(self) -> None:
        """Start the owner."""
        self.processes.append(await self._stack.enter_async_context(self._rig.role("keeper")))

    async def one_more(self, *, is_ready: bool = True) -> float:
        """Start a further one; after how many seconds it has read the log, or only listens."""
        event, begun = "shard_read_ahead" if is_ready else "keeper_listens", time.perf_counter()
        before = self._said(event)
        self.processes.append(await self._stack.enter_async_context(self._rig.role("keeper")))
        while self._said(event) == before:
            await CLOCK.sleep(0.02)
        return time.perf_counter() - begun

    def _said(self, event: str) -> int:
        return (self._rig.folder / "keeper.log").read_text().count(f'"{event}"')

    async def answered_after(self, store: CassandraStore, number: signal.Signals) -> Takeover:
        """Send a signal to the owner, the first one; how long after it another one answered."""
        owner, before = self.processes.pop(0), store.served_at
        owner.send_signal(number)
        begun = answered = time.perf_counter()
        longest = 0.0
        while store.served_at in ("", before):
            with contextlib.suppress(TickwiseError):
                await store.upkeep.stats()
                now = time.perf_counter()
                longest, answered = max(longest, now - answered), now
            await CLOCK.sleep(0.01)
        seconds = time.perf_counter() - begun
        with contextlib.suppress(subprocess.TimeoutExpired):
            if number == signal.SIGTERM:
                await asyncio.to_thread(owner.wait, 30)
        owner.kill()
        return Takeover(seconds, longest)


async def takeovers(rig: Rig, store: CassandraStore, keepers: Keepers, live: int) -> AsyncIterator[str]:
    """With so many runs that wait for an hour from now."""
    due = CLOCK.now() + 3_600.0
    for begin in range(0, live, BATCH):
        await store.jobs.add(jobs(rig, min(BATCH, live - begin), due=[due] * BATCH))
    for what, number in (
        ("killed", signal.SIGKILL), ("frozen", signal.SIGSTOP), ("told to end", signal.SIGTERM),
    ):  # fmt: skip
        ready = await keepers.one_more()
        taken = await keepers.answered_after(store, number)
        yield (
            f"owner {what}, {live:,} live runs: {taken.seconds:.2f} s to the next answer of another keeper, which had "
            f"read the log {ready:.1f} s after its start; the longest pause {taken.pause:.2f} s"
        )
    await keepers.one_more(is_ready=False)
    await CLOCK.sleep(BEAT_SECONDS)
    taken = await keepers.answered_after(store, signal.SIGTERM)
    yield (
        f"owner told to end when the next one has just started: {taken.seconds:.2f} s to its first answer; the longest "
        f"pause {taken.pause:.2f} s"
    )


class Installation(NamedTuple):
    """Nodes, a keeper, a scheduler and an executor."""

    rig: SignalledRig
    keepers: Keepers
    store: Store
    """As roles have it."""
    pids: dict[str, list[int]]
    url: str


@contextlib.asynccontextmanager
async def installation(nodes: int, **settings: object) -> AsyncIterator[Installation]:
    """On nodes that compile their code as in use, for a while. `settings`: of all roles."""
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(cluster(nodes, jvm=JVM))
        redis = await stack.enter_async_context(Redis())
        hosts = ",".join(node.address for node in running)
        url = await stack.enter_async_context(keyspace(f"cassandra://{hosts}"))
        folder = Path(os.environ.get("KEPT") or stack.enter_context(tempfile.TemporaryDirectory()))
        rig = SignalledRig(url, folder, full=False)
        rig.settings = {"signals_url": redis.url, **settings}
        keepers = Keepers(rig, stack)
        await keepers.first()
        opened = cassandra_store(url, CLOCK)
        await StartupWait(asyncio.Event()).until("store", opened.open)
        stack.push_async_callback(opened.close)
        roles = [await stack.enter_async_context(rig.role(name)) for name in ("scheduler", "executor")]
        pids = {"keeper": [keepers.processes[0].pid], "node": [node.pid for node in running]}
        pids |= {name: [role.pid] for name, role in zip(("scheduler", "executor"), roles, strict=True)}
        while not (await opened.upkeep.stats()).executors:
            await CLOCK.sleep(PAUSE_SECONDS)
        yield Installation(rig, keepers, opened, pids, url)


async def streamed_and_started(here: Installation, seconds: float) -> None:
    """Print the figures of the stream and of starts without load."""
    done = await stream(here.rig, here.store, here.pids, seconds)
    print(
        f"{done.rate:,.0f} runs/s from submit to end; CPU a run: "
        f"{', '.join(f'{name} {each:.0f} us' for name, each in done.cost.items())}; keeper "
        f"{resident_megabytes(here.pids['keeper'][0]):.0f} MB after {done.sent:,} runs",
        flush=True,
    )
    taken = await starts(here.rig, here.store)
    print(
        f"request to start, {len(taken)} jobs: p50 {percentile(taken, 0.5):.1f} ms, "
        f"p99 {percentile(taken, 0.99):.1f} ms",
        flush=True,
    )


async def measure(nodes: int, seconds: float, live: int) -> None:
    """All of it."""
    async with installation(nodes) as here:
        print(f"{nodes} node{'s'[: nodes - 1]}, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        if seconds:
            await streamed_and_started(here, seconds)
        session = KeyspaceSession(read_address(here.url), CLOCK)
        store = CassandraStore(session, shard=ALONE, patience_seconds=60.0)
        await StartupWait(asyncio.Event()).until("store", store.open)
        try:
            async for line in takeovers(here.rig, store, here.keepers, live):
                print(line, flush=True)
        finally:
            await store.close()
            await session.close()


class SignalledRig(Rig):
    """Roles that call each other through a Redis. `settings`: of all roles."""

    settings: Mapping[str, object] = MappingProxyType({})

    def environment(self, **settings: object) -> dict[str, str]:
        """See `Rig`."""
        return super().environment(**{"log_level": "info", **self.settings, **settings})


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.stores.keepers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the stream; 0: takeovers alone")
    parser.add_argument("--live", type=int, default=100_000, help="runs that wait at a takeover")
    parser.add_argument("--nodes", type=int, default=1, choices=[1, 3])
    asked = parser.parse_args()
    asyncio.run(measure(asked.nodes, asked.seconds, asked.live))


if __name__ == "__main__":
    main()
