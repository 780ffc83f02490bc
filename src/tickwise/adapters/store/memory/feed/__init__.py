"""The feed of changes of a memory store: every change is a transaction of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.feed import FeedPlace
from tickwise.ports.feed import FeedPage


class Feed(Duty):
    """`FeedStore` of the port."""

    async def watch(self) -> FeedPlace:
        return self._state.feed.watch(self._state.now(), self._state.epoch.epoch)

    async def since(self, place: FeedPlace, *, limit: int = 500, namespaces: Collection[str] | None = None) -> FeedPage:
        log, epoch = self._state.feed, self._state.epoch.epoch
        seen = FeedPlace(epoch, log.next)
        floor = None if log.floor is None else FeedPlace(epoch, log.floor)
        if floor is None or place.next > log.next or not place.covers(floor):
            return FeedPage((), seen, seen, floor=floor, lost=True)
        wanted = [
            change
            for change in log.kept
            if not place.has(change.transaction) and (namespaces is None or change.namespace in namespaces)
        ]
        if len(wanted) <= limit:
            return FeedPage(wanted, seen, seen, floor=floor)
        page = wanted[:limit]
        return FeedPage(page, place.through(page[-1].transaction, seen), seen, floor=floor, more=True)

    async def labels(self, jobs: Collection[UUID]) -> Mapping[UUID, Mapping[str, str]]:
        found = {job_id: self._state.jobs.get(job_id) for job_id in jobs}
        return {job_id: dict(job.labels) for job_id, job in found.items() if job is not None and job.labels}
