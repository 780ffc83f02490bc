"""Tasks of a program that uses the SDK, for workers and clients of tests."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tickwise_sdk import Context, task


@dataclass
class Order:
    """A payload that is one object."""

    number: int
    day: date


@task("sdk.count")
def count(context: Context, day: date, region: str = "eu") -> dict[str, str]:
    """Says what it was called with."""
    context.progress(0.5, "half")
    context.logger.info("counting %s", region)
    return {"day": day.isoformat(), "region": region, "run_id": str(context.run_id)}


@task("sdk.place", job={"labels": {"team": "orders"}})
async def place(order: Order) -> Order:
    """One object in, one out."""
    return Order(order.number + 1, order.day)


@task("sdk.until_stopped")
def until_stopped(context: Context, folder: str) -> None:
    """Says in a file that it runs, and in another one whether it knows that it was cancelled."""
    (Path(folder) / "runs").touch()
    try:
        while True:
            time.sleep(0.01)  # noqa: TID251 - it is interrupted
    finally:
        (Path(folder) / "cancelled").write_text(str(context.cancelled), encoding="utf-8")


@task("sdk.stages")
def stages(context: Context, folder: str) -> None:
    """Says how far it is, from a thread as well, as often as files let it go on."""
    for share in (0.25, 0.5):
        thread = threading.Thread(target=context.progress, args=(share, "rows"))
        thread.start()
        thread.join()
        while not (Path(folder) / str(share)).exists():
            time.sleep(0.01)  # noqa: TID251 - between two looks at a file that the test writes


@task("sdk.tidy")
def tidy(folder: str = "all") -> None:
    """Has schedules in tests."""
