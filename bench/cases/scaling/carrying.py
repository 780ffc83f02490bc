"""Streams of T2 with a broker between the roles, for the cases of each broker; and the same stream without one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from itertools import count
from typing import Final

from bench.harness import SQL, Rig, Round
from bench.stream import Through, flowing
from bench.work import store
from tickwise.ports.broker import Broker
from tickwise.roles.shared.hint_publisher import HintPublisher

WARM_SECONDS: Final = 2.0
PACED_WARM_SECONDS: Final = 5.0
"""A paced stream begins with what a client would have handed in within a second: that has to be worked off first."""
WAYS: Final = ("direct", "broker")
"""The ways of the outcomes: the values of the setting `results`."""
_numbers = count(1)


def new_prefix() -> str:
    """The prefix of channels that no stream before has used."""
    return f"bench{next(_numbers)}"


@contextlib.asynccontextmanager
async def through(
    rig: Rig, broker: Broker, url: str, *, results: str, pids: Mapping[str, int]
) -> AsyncIterator[Through]:
    """The channels at this address, made by this broker, for roles at their defaults. `pids`: of its servers."""
    async with store(rig) as opened:
        await broker.open(opened.upkeep.cluster_id)
    try:
        yield Through(
            HintPublisher(broker),
            {"broker_url": url, "results": results, "recorder_serve": "results"},
            recorder=results == "broker",
            pids=pids,
        )
    finally:
        await broker.close()


async def measured(rig: Rig, way: Through | None, *, rate: float | None = None) -> Round:
    """One stream; the value is what ended durably a second. Raises `Failed` if a run was lost, or ended twice."""
    warm = WARM_SECONDS if rate is None else PACED_WARM_SECONDS
    async with flowing(rig, rate=rate, through=way, warm_seconds=warm) as stream:
        used = await stream.usage()
        before, begin = await stream.ended()
        await rig.clock.sleep(30.0 if rig.full else 10.0)
        after, end = await stream.ended()
        spent = await stream.usage()
        await stream.finish()
        late = await stream.connection.fetchval(SQL["lateness_between"], begin, end)
    late = {"p50_ms": round(late[0], 1), "p99_ms": round(late[1], 1)}
    return Round((after - before) / (end - begin), {**late, **spent.cost(used, after - before)})


def by_way(found: Mapping[str, Round]) -> dict[str, object]:
    """What is kept of the streams of both ways."""
    more = {f"{results}_{name}": value for results, one in found.items() for name, value in one.more.items()}
    return more | {f"results_{results}": round(one.value) for results, one in found.items()}


async def plain(rig: Rig) -> Round:
    """T2 of the same moment."""
    return await measured(rig, None)
