"""R8: Redis is emptied again and again, away, read-only, slow. Its keys may vanish at any time: latency only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function, shell
from tests.chaos.scene import CLOCK, PATIENT, Scene
from tests.services.redis import Redis
from tests.support.waiting import eventually

KEPT_SHARE: Final = 0.7
"""Of the runs a second without faults."""
CANCEL_SECONDS: Final = 60.0
"""The longest that anybody waits for a cancel; how long it took is a figure."""
SLOW_MILLISECONDS: Final = 300
NOTHING: Final = "no fault"

Fault = Callable[[Redis, float], AbstractAsyncContextManager[None]]


async def harming(scene: Scene, size: Size) -> Knowledge:
    """Rounds of jobs under one fault after the other, and without any before, between and after."""
    redis = await scene.beside(Redis())
    scene.tell(TICKWISE_SIGNALS_URL=redis.url)
    await scene.cast(schedulers=2, executors=2)
    rates: dict[str, list[float]] = {}
    for number in range(size.rounds):
        for place, (name, fault) in enumerate([(NOTHING, _none), *FAULTS.items(), (NOTHING, _none)]):
            if name != NOTHING:
                scene.harmed(name, "Redis")
            async with fault(redis, size.seconds):
                rates.setdefault(name, []).append(await _rate(scene, f"{name} {number} {place}", size.jobs))
                await _cancel(scene, name, f"cancel {name} {number} {place}")
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    _judge(scene, {name: max(found) for name, found in rates.items()}, timed=size.timed)
    return Knowledge()


def _judge(scene: Scene, rates: Mapping[str, float], *, timed: bool) -> None:
    """The best of each kind: what else the machine does comes and goes."""
    for name, rate in rates.items():
        scene.figures[f"runs_per_second_{name.replace(' ', '_')}"] = round(rate)
        if timed and rate < KEPT_SHARE * rates[NOTHING]:
            scene.complain(f"{name}: {rate:.0f} runs a second, of {rates['no fault']:.0f} without")
    for player in scene.players:
        if player.role.process.poll() is not None:
            scene.complain(f"{player.role.log.name} ended with {player.role.process.returncode}")
        if player.role.events("loop_failed"):
            scene.complain(f"{player.role.log.name} took Redis's trouble for a defect")


async def _rate(scene: Scene, name: str, jobs: int) -> float:
    """How many runs a second, from the first request to the last end."""
    before = int(await scene.ask("ended"))
    begun = CLOCK.monotonic()
    await scene.clients.submit_many(name, [function(scene, "brief")] * jobs)
    await scene.ended(before + jobs, within_seconds=300)
    return jobs / (CLOCK.monotonic() - begun)


async def _cancel(scene: Scene, name: str, key: str) -> None:
    """A running job is cancelled: that wakes an executor through Redis, or it hears of it otherwise."""
    job = await scene.clients.submit(key, shell(scene, "exec sleep 600"))
    run_id = await eventually(partial(_running, scene, job), within_seconds=60, what=f"{name}: it runs")
    asked = CLOCK.monotonic()
    await scene.clients.cancel(run_id)
    await eventually(partial(_ended, scene, job), within_seconds=CANCEL_SECONDS, what=f"{name}: it is cancelled")
    figure = f"cancel_seconds_most_{name.replace(' ', '_')}"
    scene.figures[figure] = max(scene.figures.get(figure, 0.0), round(CLOCK.monotonic() - asked, 2))


async def _running(scene: Scene, job: UUID) -> UUID | None:
    async with scene.session() as connection:
        rows = await connection.fetch(scene.sql["running"], [job])
    return rows[0]["run_id"] if rows else None


async def _ended(scene: Scene, job: UUID) -> bool:
    return bool(await scene.ask("ended_of", job))


# ------------------------------------------------------------------ what is done to it


async def _answer(redis: Redis, *command: str) -> bytes:
    """To a command that may be repeated, as soon as there is one: the machine may hold Redis up for longer than one
    question waits."""

    async def look() -> bytes | None:
        try:
            return await asyncio.to_thread(redis.says, *command)
        except OSError:
            return None

    return await eventually(look, within_seconds=60, what=f"Redis answers {command[0]}")


@asynccontextmanager
async def _none(_redis: Redis, _every: float) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def _emptied(redis: Redis, every: float) -> AsyncIterator[None]:
    """All keys vanish every so many seconds."""

    async def empty() -> None:
        while True:
            assert await _answer(redis, "FLUSHALL") == b"+OK\r\n"
            await CLOCK.sleep(every)

    flushing = asyncio.create_task(empty())
    try:
        yield
    finally:
        flushing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await flushing


@asynccontextmanager
async def _down(redis: Redis, _every: float) -> AsyncIterator[None]:
    """It is killed, and there again afterwards, empty."""
    redis.kill()
    try:
        yield
    finally:
        await redis.start()


@asynccontextmanager
async def _read_only(redis: Redis, _every: float) -> AsyncIterator[None]:
    """As a replica whose primary is away: it answers what it knows and takes nothing."""
    assert (await _answer(redis, "REPLICAOF", "127.0.0.1", "1")).startswith(b"+OK")
    try:
        assert (await _answer(redis, "SET", "a", "b")).startswith(b"-READONLY")
        yield
    finally:
        await _answer(redis, "REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def _slow(redis: Redis, _every: float) -> AsyncIterator[None]:
    """Everybody waits for each answer, as long as it is so."""

    async def slow() -> None:
        while True:
            # All clients are put off for so long; this one is a client too, and is answered at once.
            await _answer(redis, "CLIENT", "PAUSE", str(SLOW_MILLISECONDS), "ALL")
            await CLOCK.sleep(SLOW_MILLISECONDS / 1_000 + 0.01)

    slowing = asyncio.create_task(slow())
    try:
        yield
    finally:
        slowing.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await slowing


@asynccontextmanager
async def _standing(redis: Redis, _every: float) -> AsyncIterator[None]:
    """It neither answers nor hangs up."""
    redis.freeze()
    try:
        yield
    finally:
        redis.thaw()


FAULTS: Final[Mapping[str, Fault]] = {
    "emptied": _emptied,
    "down": _down,
    "read-only": _read_only,
    "slow": _slow,
    "standing still": _standing,
}

ROWS: Final = (
    Row(
        name="R8",
        fault="Redis emptied every 5 s, down, read-only, slow, standing still",
        invariant="nothing is lost or runs twice; at least 70 % of the runs a second without faults",
        play=harming,
        short=Size(jobs=150, seconds=0.2, rounds=1),
        long=Size(jobs=5_000, seconds=5, rounds=3, timed=True),
        pace=replace(PATIENT, poll=0.5),
        own_recovery=True,
    ),
)
