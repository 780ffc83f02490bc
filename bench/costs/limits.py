"""The limits of single stages: the same writes in raw SQL on bare tables, in batches of the same size.

One session with the settings of the product's hot ones, one statement a batch, nothing of a product around it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg
from asyncpg import Connection

from bench import raw
from bench.costs.meter import Meter
from bench.costs.spending import Cost, spent
from bench.harness import SQL, Rig
from tickwise.adapters.store.postgres.connection.link import HOT_SETTINGS

RUNS = 20_000
HOUR_SECONDS = 3600.0
PERIOD_SECONDS = 10.0

Measure = Callable[[Meter, Connection], Awaitable[Cost]]


@contextlib.asynccontextmanager
async def session(rig: Rig) -> AsyncIterator[Connection]:
    """As the product's hot ones."""
    connection = await asyncpg.connect(rig.dsn, server_settings={**HOT_SETTINGS, "application_name": "raw"})
    try:
        yield connection
    finally:
        await connection.close()


async def limit_round(rig: Rig, meter: Meter, measure: Measure) -> Cost:
    """The limit's share of a round."""
    async with session(rig) as connection:
        await connection.execute(SQL["raw_schema"])
        await connection.execute(SQL["costs_raw"])
        return await measure(meter, connection)


async def wide_round(rig: Rig, meter: Meter, stage: str) -> Cost:
    """The same writes in the product's own tables."""
    await rig.reset()
    async with session(rig) as connection:
        cost = await WIDE[stage](meter, connection)
    await rig.reset()
    return cost


async def _fill(connection: Connection, count: int) -> None:
    for _ in range(0, count, 500):
        await connection.execute(SQL["raw_submit"], raw.ids(500), raw.ids(500), [raw.SPEC] * 500)


async def _future(connection: Connection, batches: list[list[Any]]) -> None:
    for batch in batches:
        await connection.execute(SQL["costs_raw_future"], *batch)


def _timers(count: int, *, ahead_seconds: float, recurring: bool = False) -> list[list[Any]]:
    due = time.time() + ahead_seconds
    return [
        [
            raw.ids(500),
            [None] * 500 if recurring else raw.ids(500),
            [raw.SPEC] * 500,
            [due + (at + number) / 1e6 for number in range(500)],
        ]
        for at in range(0, count, 500)
    ]


async def _claim(connection: Connection, count: int) -> list[UUID]:
    taken: list[UUID] = []
    while len(taken) < count:
        taken += [row[0] for row in await connection.fetch(SQL["raw_claim"], 500, raw.FAR_PAST)]
    return taken


async def _each(connection: Connection, statement: str, runs: list[UUID], batch: int) -> None:
    for at in range(0, len(runs), batch):
        await connection.execute(SQL[statement], runs[at : at + batch])


async def submit(meter: Meter, connection: Connection) -> Cost:
    """A definition and a run each."""
    await _fill(connection, 500)
    batches = [(raw.ids(500), raw.ids(500), [raw.SPEC] * 500) for _ in range(0, RUNS, 500)]

    async def work() -> None:
        for batch in batches:
            await connection.execute(SQL["raw_submit"], *batch)

    return await spent(meter, RUNS, work())


async def submit_future(meter: Meter, connection: Connection) -> Cost:
    """A definition and a timer each."""
    await _future(connection, _timers(500, ahead_seconds=HOUR_SECONDS))
    return await spent(meter, RUNS, _future(connection, _timers(RUNS, ahead_seconds=HOUR_SECONDS)))


async def materialise(meter: Meter, connection: Connection) -> Cost:
    """Timers go, runs come."""
    await _future(connection, _timers(RUNS + 1000, ahead_seconds=-HOUR_SECONDS))
    await connection.execute(SQL["costs_raw_materialise"], 1000)

    async def work() -> None:
        for _ in range(0, RUNS, 1000):
            await connection.execute(SQL["costs_raw_materialise"], 1000)

    return await spent(meter, RUNS, work())


async def fire(meter: Meter, connection: Connection) -> Cost:
    """Timers move on, runs come."""
    await _future(connection, _timers(RUNS + 1000, ahead_seconds=-HOUR_SECONDS, recurring=True))
    await connection.execute(SQL["costs_raw_fire"], 1000, 2 * HOUR_SECONDS)

    async def work() -> None:
        for _ in range(0, RUNS, 1000):
            await connection.execute(SQL["costs_raw_fire"], 1000, 2 * HOUR_SECONDS)

    return await spent(meter, RUNS, work())


async def claim(meter: Meter, connection: Connection) -> Cost:
    """Free runs are taken."""
    await _fill(connection, RUNS + 500)
    await _claim(connection, 500)
    return await spent(meter, RUNS, _claim(connection, RUNS))


async def _held(connection: Connection, count: int) -> list[UUID]:
    await _fill(connection, count)
    return await _claim(connection, count)


async def start(meter: Meter, connection: Connection) -> Cost:
    """A column of held runs is written."""
    runs = await _held(connection, RUNS + 500)
    await _each(connection, "costs_raw_start", runs[:500], 500)
    return await spent(meter, RUNS, _each(connection, "costs_raw_start", runs[500:], 500))


async def finish(meter: Meter, connection: Connection) -> Cost:
    """Runs go, history comes."""
    runs = await _held(connection, RUNS + 1000)
    await _each(connection, "raw_finish", runs[:1000], 1000)
    return await spent(meter, RUNS, _each(connection, "raw_finish", runs[1000:], 1000))


async def forget(meter: Meter, connection: Connection) -> Cost:
    """Runs go."""
    runs = await _held(connection, RUNS + 1000)
    await _each(connection, "costs_raw_forget", runs[:1000], 1000)
    return await spent(meter, RUNS, _each(connection, "costs_raw_forget", runs[1000:], 1000))


async def erase(meter: Meter, connection: Connection) -> Cost:
    """History goes, row by row: what dropping a partition saves."""
    runs = await _held(connection, RUNS + 1000)
    await _each(connection, "raw_finish", runs, 1000)
    await _each(connection, "costs_raw_erase", runs[:1000], 1000)
    return await spent(meter, RUNS, _each(connection, "costs_raw_erase", runs[1000:], 1000))


# ------------------------------------------------------------------ the product's tables, bare statements


async def wide_submit(meter: Meter, connection: Connection) -> Cost:
    """A definition and a run each."""
    batches = [(raw.ids(500), raw.ids(500), [raw.SPEC] * 500) for _ in range(0, RUNS + 500, 500)]

    async def work(part: Sequence[Sequence[Any]]) -> None:
        for batch in part:
            await connection.execute(SQL["costs_wide_submit"], *batch)

    await work(batches[:1])
    return await spent(meter, RUNS, work(batches[1:]))


async def _wide_claim(connection: Connection, count: int) -> list[UUID]:
    taken: list[UUID] = []
    while len(taken) < count:
        taken += [row[0] for row in await connection.fetch(SQL["costs_wide_claim"], 500, raw.FAR_PAST)]
    return taken


async def wide_claim(meter: Meter, connection: Connection) -> Cost:
    """Free runs are taken."""
    for _ in range(0, RUNS + 500, 500):
        await connection.execute(SQL["costs_wide_submit"], raw.ids(500), raw.ids(500), [raw.SPEC] * 500)
    await _wide_claim(connection, 500)
    return await spent(meter, RUNS, _wide_claim(connection, RUNS))


async def wide_finish(meter: Meter, connection: Connection) -> Cost:
    """Runs go, history comes."""
    for _ in range(0, RUNS + 1000, 500):
        await connection.execute(SQL["costs_wide_submit"], raw.ids(500), raw.ids(500), [raw.SPEC] * 500)
    runs = await _wide_claim(connection, RUNS + 1000)
    await _each(connection, "costs_wide_finish", runs[:1000], 1000)
    return await spent(meter, RUNS, _each(connection, "costs_wide_finish", runs[1000:], 1000))


WIDE: Mapping[str, Measure] = {"submit": wide_submit, "claim": wide_claim, "finish": wide_finish}
"""By stage."""
