"""The tasks of the benchmarks: nothing, and a small answer."""

import asyncio
from typing import Any

from tickwise_sdk import task


@task("bench.noop")
async def noop() -> None:
    """Do nothing, as quickly as it goes."""


@task("bench.twice")
def twice(payload: dict[str, Any]) -> dict[str, int]:
    """An answer that can be checked."""
    return {"twice": 2 * payload["number"]}


@task("bench.lasting")
async def lasting(payload: dict[str, Any]) -> None:
    """Something that takes as long as it is told."""
    await asyncio.sleep(payload["seconds"])
