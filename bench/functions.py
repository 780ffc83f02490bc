"""The tasks of the benchmarks: nothing, and a small answer."""

from typing import Any

from tickwise.sdk import task


@task("bench.noop")
async def noop() -> None:
    """Do nothing, as quickly as it goes."""


@task("bench.twice")
def twice(payload: dict[str, Any]) -> dict[str, int]:
    """An answer that can be checked."""
    return {"twice": 2 * payload["number"]}
