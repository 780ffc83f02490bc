"""The task of the benchmarks: nothing."""

from tickwise.sdk import task


@task("bench.noop")
async def noop() -> None:
    """Do nothing, as quickly as it goes."""
