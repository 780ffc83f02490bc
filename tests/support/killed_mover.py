"""A mover in a process of its own, which is killed at a step: `python -m tests.support.killed_mover STEP` with the rest
as JSON on its input. Killed by itself, so that it dies in the very moment in which the step is done."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.adapters.store.postgres.shards.mover import MoveEnd, MoveProgress, MoveStep, NamespaceMover


async def main(step: MoveStep, namespace: str, source: MoveEnd, goal: MoveEnd, map_url: str) -> None:
    """Move until the step, then die."""

    async def tell(progress: MoveProgress) -> None:
        if progress.step is step:
            os.kill(os.getpid(), signal.SIGKILL)

    store = PostgresStore(map_url, clock=SystemClock())
    await store.open()
    await NamespaceMover(
        namespace, source=source, goal=goal, shard_map=store.shard_map, clock=SystemClock(), tell=tell
    ).run()


if __name__ == "__main__":
    said = json.load(sys.stdin)
    asyncio.run(
        main(
            MoveStep(sys.argv[1]),
            said["namespace"],
            MoveEnd(**said["source"]),
            MoveEnd(**said["goal"]),
            said["map_url"],
        )
    )
