"""Movers in processes of their own, each killed at a step: `python -m tests.support.killed_mover`.

Reads a line of JSON for each, forks a mover (a new interpreter costs a second of a core), and answers with the number
of the signal that ended it. A mover kills itself, so that it dies in the very moment in which the step is done.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

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


def child(said: dict[str, Any]) -> None:
    """One mover."""
    ends = (MoveEnd(**said["source"]), MoveEnd(**said["goal"]))
    asyncio.run(main(MoveStep(said["step"]), said["namespace"], *ends, said["map_url"]))


if __name__ == "__main__":
    for line in sys.stdin:
        if not (pid := os.fork()):
            child(json.loads(line))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}\n")
        sys.stdout.flush()
