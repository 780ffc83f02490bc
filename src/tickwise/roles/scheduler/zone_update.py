"""Computes timers anew that were computed with other zone data than this process has now."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from tickwise.documents.rulebook import Rulebook
from tickwise.domain import zones
from tickwise.domain.schedule import moved
from tickwise.ports.store import Fire, FireRequest, Store, Timer
from tickwise.roles.scheduler.fires import TakenTimers, read_plan

LOOK_SECONDS: Final = 600.0

logger = structlog.get_logger("tickwise.scheduler")


class ZoneUpdate:
    """Follows changes of zone data for one scheduler."""

    def __init__(
        self, *, store: Store, rulebook: Rulebook, batches: asyncio.Lock, horizon_seconds: float, batch: int
    ) -> None:
        """`batches` is held while a batch of timers is taken: a client has one batch at a time."""
        self._store = store
        self._rulebook = rulebook
        self._batches = batches
        self._horizon_seconds = horizon_seconds
        self._batch = batch

    async def step(self) -> float:
        """Compute the timers anew that were computed with zone data of another version."""
        before = zones.data_version()
        zones.forget()
        version = zones.data_version()
        if version != before:
            logger.warning("zone_data_changed", before=before, now=version)
            self._rulebook.forget()
        request = FireRequest(horizon_seconds=self._horizon_seconds, limit=self._batch, other_zone_data_than=version)
        filled, moved = True, 0
        while filled:
            async with self._batches, TakenTimers(self._store.timers, request) as taken:
                fires = [_rezoned(timer, version) for timer in taken.timers]
                moved += sum(fire.timer is not None and fire.timer.due != fire.due for fire in fires)
                if fires:
                    await self._store.timers.commit(taken.batch_id, fires)
                filled = len(fires) >= self._batch
        if moved:
            logger.warning("timers_rezoned", count=moved, zone_data=version)
        return LOOK_SECONDS


def _rezoned(timer: Timer, version: str) -> Fire:
    """The position of a timer by the present zone data."""
    pending = timer.pending
    try:
        pending = pending._replace(due=moved(read_plan(timer.definition, timer.job_id).schedule, pending.due))
    except Exception:
        logger.exception("timer_unmoved", job_id=str(timer.job_id), due=timer.pending.due)
    return Fire(timer.job_id, timer.pending.due, pending, (), zone_data=version)
