"""The changes that a memory store keeps for readers that follow."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.domain.feed import FeedPlace
from tickwise.domain.lifecycle import RunState
from tickwise.ports.feed import FEED_SECONDS, WATCH_SECONDS, PackedIds, RunChanges

MAX_KEPT: Final = 1_000_000


class FeedLog:
    """Changes while somebody watches."""

    def __init__(self) -> None:
        self.kept: deque[RunChanges] = deque()
        self.next = 1
        """The number of the next change."""
        self.floor: int | None = None
        """Changes before this one may be missing; None: nobody has watched."""
        self._until = -math.inf

    def note(self, run: RunRecord, state: RunState, now: float) -> None:
        """A run came into a state."""
        if now >= self._until:
            return
        ids = PackedIds(run.run_id.bytes), PackedIds(run.job.job_id.bytes)
        self.kept.append(RunChanges(self.next, self.next, now, state, run.job.namespace, *ids, (run.attempt,)))
        self.next += 1
        if len(self.kept) > MAX_KEPT:
            self._drop()

    def watch(self, now: float, epoch: int) -> FeedPlace:
        """Note changes from now on."""
        if now >= self._until:
            self.kept.clear()
            # A number for all that was not noted meanwhile: no place of before has it.
            self.next += 1
            self.floor = self.next
        self._until = max(self._until, now + WATCH_SECONDS)
        while self.kept and self.kept[0].at <= now - FEED_SECONDS:
            self._drop()
        return FeedPlace(epoch, self.next)

    def _drop(self) -> None:
        self.floor = self.kept.popleft().transaction + 1
