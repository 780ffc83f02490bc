"""Builds the environments of jobs that this executor may be given, before their first run is due.

    a ring, or every minute ──► environments.wanted ──► each that is not known to be there ──► runner.warm ──► report

One build at a time, at low priority, beside the slots. Invariant: a look costs one statement, and what is known of
environments is bounded; one that is there is asked for again after hours, one that failed after minutes at first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from tickwise.ports.clock import Clock
from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure
from tickwise.ports.runner import WarmingRunner
from tickwise.ports.store.environments import EnvironmentStore, WantedEnvironment, WantedQuery
from tickwise.roles.executor.held_runs import HeldRuns
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.shared.service import IDLE_SECONDS

LOOK_SECONDS: Final = 60.0
KNOWN_SECONDS: Final = 6 * 3_600.0
"""An environment that was there is asked for again after so long: it may have been removed for want of room."""
FAILED_FIRST_SECONDS: Final = 30.0
"""The pause after a first failure; it doubles with each further one."""
FAILED_MAX_SECONDS: Final = 3_600.0
MAX_KNOWN: Final = 10_000


class _WarmingRecord(NamedTuple):
    """The last answer about an environment."""

    ask_at: float
    """Not before this time of the monotonic clock."""
    failures: int


class EnvironmentWarming:
    """The builds ahead of one executor."""

    def __init__(
        self,
        environments: EnvironmentStore,
        *,
        runners: Sequence[WarmingRunner],
        clock: Clock,
        settings: ExecutorSettings,
        held_runs: HeldRuns,
        wake: asyncio.Event,
    ) -> None:
        """`wake` is set when another job declares an environment."""
        self._environments = environments
        self._runners = runners
        self._clock = clock
        self._settings = settings
        self._held_runs = held_runs
        self.wake = wake
        self._known: dict[EnvironmentDemand, _WarmingRecord] = {}

    async def step(self) -> float:
        """Build what is wanted and not there. Returns the seconds until the next look."""
        if self._held_runs.closed:
            return IDLE_SECONDS
        settings = self._settings
        query = WantedQuery(
            queues=settings.queues,
            labels=settings.labels,
            namespaces=settings.namespaces or None,
            limit=settings.environments_ahead,
        )
        for wanted in await self._environments.wanted(query):
            known = self._known.get(wanted.demand)
            if known is not None and self._clock.monotonic() < known.ask_at:
                continue
            await self._warm(wanted)
            if self._held_runs.closed or self.wake.is_set():
                return 0.0  # another one may be due before the rest of these
        return LOOK_SECONDS

    async def _warm(self, wanted: WantedEnvironment) -> None:
        demand = wanted.demand
        failure: EnvironmentFailure | None = None
        for runner in self._runners:
            failure = await runner.warm(demand) or failure
        before = self._known.get(demand)
        failures = 0 if failure is None else 1 if before is None else before.failures + 1
        pause = KNOWN_SECONDS
        if failure is not None:
            pause = min(FAILED_FIRST_SECONDS * 2.0 ** min(failures - 1, 20), FAILED_MAX_SECONDS)
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[demand] = _WarmingRecord(self._clock.monotonic() + pause, failures)
        if failure is not None or wanted.failed:
            await self._environments.report(demand, failure, self._settings.name)
