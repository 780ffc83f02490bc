"""The search for circles of objects in a keeper, which holds up every answer while it lasts.

    a call's objects ──► freed by their counts, nearly all
    2,000 more than went ──► the newest are searched, 0.5 ms: what is in no circle becomes older
    each 10 s ──► the older ones are frozen: the state of a shard is searched by nobody

With larger steps the newest have left the processor's cache by the time of the search, and 100,000 take some 80 ms. A
circle that is older than its first search stays in memory once it is frozen. Where circles are being made (a database
that is away fails each call with a traceback), the older ones are searched before.
"""

from __future__ import annotations

import gc
from typing import Final

from tickwise.ports.clock import Clock

THRESHOLDS: Final = (2_000, 1_000, 1_000)
"""Of the youngest objects, of searches among them before the older ones are searched, and of those before all are."""
FREEZE_SECONDS: Final = 10.0
FEW_FOUND: Final = 2_000
"""Objects in circles in that time. Some 50 a second come from the driver's connections."""


async def freeze_loop(clock: Clock) -> None:
    """Keep the state of shards out of all searches, until it is cancelled."""
    before = _found()
    while True:
        await clock.sleep(FREEZE_SECONDS)
        if _found() - before > FEW_FOUND:
            gc.collect(1)
        gc.freeze()
        before = _found()


def _found() -> int:
    """Objects in circles that were found among the youngest since the process began."""
    return int(gc.get_stats()[0]["collected"])
