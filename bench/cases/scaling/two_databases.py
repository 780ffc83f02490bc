"""K3: T2 of two namespaces in two databases behind one router, and T2 on one database in the same round (`both`).

    client ──► router ──► first database  ──┐
                    └───► second database ──┴──► one scheduler, one executor

Both have servers of their own on this machine, so they have one disk and the same cores as one, and both streams
together have at most as much under way as T2. What a second machine would bring follows from the parts: processor time
a run of the databases is divided between servers, that of the client (the router, as an API has it), the scheduler and
the executor is not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, Final, NamedTuple

from bench import raw
from bench.cases.sustained import sustained
from bench.figures import slowest_share
from bench.harness import Case, Check, Failed, Rig, Round, install
from bench.stream import BATCH, Stream
from bench.usage import Reading
from bench.work import jobs
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.store.sharded import ShardedStore
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.wiring.storage.databases import store_of, upgrade_all

SERVERS: Final = ("first", "second")
NAMES_TRIED: Final = 100
NAMED: Final = "bench-named"
"""A namespace as those of several databases are: not the default one."""
WARM_SECONDS: Final = 2.0
_rounds = count(1)


class Two(NamedTuple):
    """Two databases of one installation, and a router over them."""

    parts: list[Rig]
    router: ShardedStore
    url: str
    """Of both."""


@contextlib.asynccontextmanager
async def two_databases(rig: Rig) -> AsyncIterator[Two]:
    """On new servers, which end afterwards. The rig's own belongs to no installation of several."""
    async with contextlib.AsyncExitStack() as stack:
        parts = []
        for name in SERVERS:
            server = EmbeddedPostgres(rig.folder / f"{name}-{next(_rounds)}", clock=rig.clock)
            stack.push_async_callback(server.stop)
            parts.append(Rig(await server.start(), rig.folder, full=rig.full))
        for part in parts:
            await install(part.dsn)
        url = " ".join(part.dsn for part in parts)
        await upgrade_all(url)
        router = store_of(url, rig.clock)
        await router.open()
        stack.push_async_callback(router.close)
        assert isinstance(router, ShardedStore)
        yield Two(parts, router, url)


async def namespaces(router: ShardedStore) -> list[str]:
    """A namespace of each database, that of the first one first. Raises `Failed` if names do not spread."""
    found: dict[int, str] = {}
    for number in range(NAMES_TRIED):
        name = f"bench-{number}"
        await router.namespaces.add(NewNamespace(name=name, display_name=name, created_by="bench"))
        found.setdefault(router.fleet.places.of(name), name)
        if len(found) == len(SERVERS):
            return [found[shard] for shard in sorted(found)]
    raise Failed(f"of {NAMES_TRIED} namespaces all are in one database")


@contextlib.asynccontextmanager
async def flowing_into(rig: Rig, two: Two) -> AsyncIterator[list[Stream]]:
    """A stream of work for each database, by one scheduler and one executor, that has flowed for a while."""
    async with contextlib.AsyncExitStack() as stack:
        pids = {}
        for role in ("scheduler", "executor"):
            process = await stack.enter_async_context(rig.role(role, database_url=two.url))
            pids[role] = process.pid
        streams = []
        for part, namespace in zip(two.parts, await namespaces(two.router), strict=True):
            await part.until_executors(1)
            connection = await part.connect()
            stack.push_async_callback(connection.close)
            stream = Stream(part, connection, pids, namespace=namespace, beside=len(SERVERS))
            await two.router.jobs.add(jobs(part, BATCH, namespace=namespace))
            await part.until_ended(BATCH, 30)
            stream.sent = BATCH
            streams.append(stream)
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(stream.feed(two.router))
            try:
                await asyncio.sleep(WARM_SECONDS)
                yield streams
            finally:
                for stream in streams:
                    stream.flowing = False


async def _used(streams: list[Stream]) -> Reading:
    """By both servers, and by what serves both."""
    first, second = [await stream.usage() for stream in streams]
    servers = {"first_database": first.cpu["database"], "second_database": second.cpu["database"]}
    processes = {name: seconds for name, seconds in first.cpu.items() if name != "database"}
    return Reading(processes | servers, first.wal + second.wal)


async def over_two(rig: Rig) -> Round:
    """What ended durably a second in both together."""
    async with two_databases(rig) as two, flowing_into(rig, two) as streams:
        used = await _used(streams)
        before = [await stream.ended() for stream in streams]
        await rig.clock.sleep(60.0 if rig.full else 20.0)
        after = [await stream.ended() for stream in streams]
        sent = sum(stream.sent for stream in streams)
        spent = await _used(streams)
        for stream in streams:
            await stream.finish()
        windows = [
            await stream.rates(begin, end) for stream, (_, begin), (_, end) in zip(streams, before, after, strict=True)
        ]
    ended = [end[0] - begin[0] for begin, end in zip(before, after, strict=True)]
    seconds = after[0][1] - before[0][1]
    return Round(
        sum(ended) / seconds,
        {
            "runs_by_database": ended,
            "under_way_at_end": sent - sum(total for total, _ in after),
            "slowest_window": round(slowest_share([sum(rates) for rates in zip(*windows, strict=False)]), 3),
            **spent.cost(used, sum(ended)),
        },
    )


def _cost(found: dict[str, Any]) -> float:
    return float(sum(found["cpu_us_a_run"].values()))


async def both(rig: Rig) -> Round:
    """One database, then two.

    On one, T2 as it is, whose jobs are of the default namespace, and T2 of another one. Jobs and history of all but the
    default namespace have an index each that theirs have not, so a run of them costs more on one database, too: what is
    left beside that is the cost of the second database.
    """
    await rig.reset()
    one = await sustained(rig)
    named = await sustained(rig, NAMED)
    two = await over_two(rig)
    least, most = sorted(two.more["runs_by_database"])
    return Round(
        two.value,
        {
            "of_one": round(two.value / one.value, 3),
            "cpu_of_one": round(_cost(two.more) / _cost(one.more), 3),
            "evenness": round(least / most, 3),
            "of_one_named": round(two.value / named.value, 3),
            "cpu_of_one_named": round(_cost(two.more) / _cost(named.more), 3),
            "on_one": round(one.value),
            "on_one_named": round(named.value),
            **two.more,
            **{
                f"{label}_{name}": measured.more[name]
                for label, measured in (("on_one", one), ("on_one_named", named))
                for name in ("cpu_us_a_run", "wal_bytes_a_run")
            },
        },
    )


CASE = Case(
    "K3",
    "jobs/s",
    20_000,
    True,
    both,
    raw.sustained,
    "raw SQL on one database: submit, claim and finish with history",
    checks=(
        Check("of T2 on one database", "of_one", 0.9, higher=True),
        Check("CPU a run, of that on one", "cpu_of_one", 1.1),
        Check("of one database, the namespace not the default", "of_one_named", 0.9, higher=True),
        Check("CPU a run, of that", "cpu_of_one_named", 1.1),
    ),
)
