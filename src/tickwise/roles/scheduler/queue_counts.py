"""Counts the runs of the fullest queues, and the notices that wait, for the metrics: not at each scrape.

Every scheduler does, so all of them show the same. Invariant: the number of series does not grow with the number of
queues or namespaces; the metrics add up the rest as one.
"""

from __future__ import annotations

from typing import Final

from tickwise.domain.errors import Unavailable
from tickwise.ports.store import NoticeStore, UpkeepStore
from tickwise.roles.shared.service import Telemetry

COUNT_SECONDS: Final = 15.0
"""One look at the figures of the store, some ms however many runs there are: under 0.1 % of the time."""
QUEUES_MOST: Final = 50
"""Queues that are shown by name, the fullest first."""


class QueueCounts:
    """The counts by one scheduler."""

    def __init__(self, upkeep: UpkeepStore, notices: NoticeStore, telemetry: Telemetry) -> None:
        self._upkeep = upkeep
        self._notices = notices
        self._telemetry = telemetry

    async def step(self) -> float:
        """Count once. While the store is away nothing is shown."""
        try:
            stats = await self._upkeep.stats(QUEUES_MOST)
            backlog = await self._notices.backlog()
        except Unavailable:
            self._telemetry.queues_counted(None)
            self._telemetry.notices_counted(None)
            raise
        self._telemetry.queues_counted(stats)
        self._telemetry.notices_counted(backlog)
        return COUNT_SECONDS
