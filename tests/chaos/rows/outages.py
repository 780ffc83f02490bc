"""R5, R6 and R15: the database is killed, cut off, out of reach one way or both, frozen, full, read-only, full up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import asyncpg

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function
from tests.chaos.scene import CLOCK, DEFAULT, Scene
from tests.support.waiting import eventually

CLIENTS: Final = 8
BETWEEN_SECONDS: Final = 2.0
AWAY_SECONDS: Final = 1.0

Harm = Callable[[Scene], Awaitable[None]]


async def failing_store(scene: Scene, size: Size) -> Knowledge:
    """R6: one fault of the database after the other, under clients who give nothing up."""
    await scene.cast()
    over = asyncio.Event()
    submitted: list[UUID] = []
    async with asyncio.TaskGroup() as all_at_once:
        for number in range(CLIENTS):
            all_at_once.create_task(_client(scene, number, over, submitted))
        for number in range(size.rounds):
            for name, harm in HARMS.items():
                before = len(submitted)
                await eventually(
                    lambda before=before: len(submitted) >= before + size.jobs,  # type: ignore[misc]  # of this turn
                    within_seconds=100,
                    what=f"{size.jobs} more jobs are acknowledged before {name} {number}",
                )
                scene.harmed(name, "the database")
                await harm(scene)
                scene.last_fault = time.monotonic()
        over.set()
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    scene.figures["acknowledged"] = len(submitted)
    for player in scene.players:
        if player.role.process.poll() is not None:
            scene.complain(f"{player.role.log.name} ended with {player.role.process.returncode}")
        if player.role.events("loop_failed"):
            scene.complain(f"{player.role.log.name} took an absent database for a defect")
    await scene.slots_are_free()
    return Knowledge()


async def _client(scene: Scene, number: int, over: asyncio.Event, submitted: list[UUID]) -> None:
    place = 0
    while not over.is_set():
        body = function(scene, "lasting", seconds=0.3) if place % 10 == 9 else function(scene, "brief")
        submitted.append(await scene.clients.submit(f"client {number} {place}", body))
        place += 1


# ------------------------------------------------------------------ what happens to the database


async def _kill(scene: Scene) -> None:
    await scene.server.kill()
    await scene.server.start()


async def _stop_immediately(scene: Scene) -> None:
    await scene.server.stop_immediately()
    await scene.server.start()


async def _restart(scene: Scene) -> None:
    await scene.server.stop_fast()
    await CLOCK.sleep(AWAY_SECONDS)
    await scene.server.start()


async def _kill_backend(scene: Scene) -> None:
    await scene.server.kill_backend()


async def _terminate_all(scene: Scene) -> None:
    await scene.server.terminate_all()


async def _freeze(scene: Scene) -> None:
    scene.server.freeze()
    try:
        await CLOCK.sleep(AWAY_SECONDS)
    finally:
        scene.server.thaw()


async def _read_only(scene: Scene) -> None:
    """As a standby is that has taken the address over by mistake."""
    async with scene.session() as connection:
        await connection.execute(scene.sql["read_only"])
    await scene.server.terminate_all()
    await CLOCK.sleep(AWAY_SECONDS)
    async with scene.session() as connection:
        await connection.execute(scene.sql["read_write"])
    await scene.server.terminate_all()


async def _no_connections(scene: Scene) -> None:
    """Others take every connection that there is, while those of the product are cut."""
    greedy: list[asyncpg.Connection] = []
    try:
        await scene.server.terminate_all()
        with contextlib.suppress(asyncpg.TooManyConnectionsError):
            while True:
                greedy.append(await scene.server.connect())
        await CLOCK.sleep(AWAY_SECONDS)
    finally:
        for connection in greedy:
            connection.terminate()


HARMS: Final[dict[str, Harm]] = {
    "store stopped immediately": _stop_immediately,
    "backend killed": _kill_backend,
    "sessions terminated": _terminate_all,
    "store killed": _kill,
    "store restarted": _restart,
    "store frozen": _freeze,
    "store read-only": _read_only,
    "no connections left": _no_connections,
}

ROWS: Final = (
    Row(
        name="R6",
        fault="the database killed, stopped, restarted, frozen, read-only, out of connections; its sessions cut",
        invariant="what was acknowledged is there, what was in doubt is settled by its key, nothing runs twice",
        play=failing_store,
        short=Size(jobs=30, rounds=1),
        long=Size(jobs=800, rounds=8),
        pace=DEFAULT,
        own_recovery=True,
    ),
)
