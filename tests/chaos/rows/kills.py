"""R1 and R2: nothing happens, and whoever it is dies."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.scene import CLOCK, Scene

KILL_EVERY_SECONDS: Final = 2.0


def brief(scene: Scene, name: str = "chaos.brief", **payload: Any) -> dict[str, Any]:
    """A job that runs a function of `tests.chaos.tasks` at once."""
    task = {"kind": "function", "name": name}
    return {"schedule_type": "IMMEDIATE", "task": task, "payload": scene.witness.payload(**payload)}


async def nothing(scene: Scene, size: Size) -> Knowledge:
    """R1."""
    await scene.cast()
    begun = CLOCK.monotonic()
    await scene.clients.submit_many("job", [brief(scene)] * size.jobs)
    await scene.ended(size.jobs)
    scene.figures["runs_per_second"] = round(size.jobs / (CLOCK.monotonic() - begun))
    await scene.calm()
    await scene.slots_are_free()
    return Knowledge()


async def killing(scene: Scene, size: Size) -> Knowledge:
    """R2: kill -9 a random role every two seconds, start it again a moment later, while jobs come in."""
    await scene.cast()
    over = asyncio.Event()

    async def harm() -> None:
        restarts: list[asyncio.Task[None]] = []
        until = CLOCK.monotonic() + size.seconds
        while CLOCK.monotonic() < until or not over.is_set():
            living = [player for player in scene.players if player.role.process.poll() is None]
            victim = scene.dice.choice(living or scene.players)
            if victim.role.process.poll() is None:
                scene.kill(victim)
                restarts.append(asyncio.create_task(_later(scene, victim)))
            await CLOCK.sleep(KILL_EVERY_SECONDS)
        await asyncio.gather(*restarts)

    async def load() -> None:
        pause = size.seconds / max(1, size.rounds)
        for number in range(size.rounds):
            await scene.clients.submit_many(f"round {number}", [brief(scene)] * (size.jobs // size.rounds))
            await CLOCK.sleep(pause * scene.dice.random())
        over.set()

    await asyncio.gather(harm(), load())
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    await scene.slots_are_free()
    return Knowledge()


async def _later(scene: Scene, victim: Any) -> None:
    await CLOCK.sleep(scene.dice.random() * 3)
    await scene.restart(victim)


ROWS: Final = (
    Row(
        name="R1",
        fault="none",
        invariant="each job is executed exactly once",
        play=nothing,
        short=Size(jobs=2_000),
        long=Size(jobs=100_000),
    ),
    Row(
        name="R2",
        fault="kill -9 of a random role every 2 s, started again within 3 s",
        invariant="no job lost, each ended once; what runs again was held by a victim",
        play=killing,
        short=Size(jobs=3_000, seconds=8, rounds=12),
        long=Size(jobs=100_000, seconds=60, rounds=100),
    ),
)
