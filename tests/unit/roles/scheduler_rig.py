"""Schedulers on one memory store and a virtual clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.unit.roles.rig import Flaky, Silent, drive
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.lifecycle import RunState
from tickwise.observability.tracing import Tracer
from tickwise.ports.store import Fire, NewJob, Retention, RunQuery, RunRow
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.testing.factories import Factory

RETENTION = Retention(runs_seconds=86_400, failed_seconds=86_400)


class Rig:
    """What schedulers stand on."""

    def __init__(self) -> None:
        self.clock = VirtualClock(start=1_800_000_000.0)
        self.store = MemoryStore(self.clock, near_seconds=2.0)
        self.flaky = Flaky(self.store)
        self.signals = LocalSignals()
        self.make = Factory(self.clock.now())
        self.blobs = open_blobs("memory://")

    def scheduler(
        self, *, hint_publisher: HintPublisher | None = None, tracer: Tracer | None = None, **settings: Any
    ) -> Scheduler:
        """One more."""
        return Scheduler(
            store=self.flaky,
            blobs=self.blobs,
            signals=self.signals,
            clock=self.clock,
            settings=SchedulerSettings(retention=RETENTION, **settings),
            telemetry=Silent(),
            hint_publisher=hint_publisher,
            tracer=tracer,
        )

    async def cron(self, expression: str, due: float, *, namespace: str = "default", **said: Any) -> NewJob:
        """Store a cron job whose first fire is at `due`. `said` goes into its definition."""
        definition = {"schedule_type": "CRON", "cron_expression": expression, "task": {"kind": "scripted"}, **said}
        calendars = tuple(use["name"] for use in said.get("calendars", ()))
        job = self.make.recurring(due, definition=json.dumps(definition), namespace=namespace, calendars=calendars)
        await self.store.jobs.add([job])
        return job

    async def rows(self, *states: RunState, namespace: str = "default") -> list[RunRow]:
        """The runs of these states, the earliest first; without states all."""
        rows = await self.store.searches.runs(RunQuery(namespace=namespace, states=states, limit=1000))
        return sorted(rows, key=lambda row: row.nominal_at)

    async def dues(self) -> list[float]:
        """The due times of all runs, the earliest first."""
        return sorted(row.due_at for row in await self.rows())

    async def decided(self, scheduler: Scheduler) -> Sequence[Fire]:
        """One tick, and what it told the store."""
        told: list[Fire] = []
        real = self.store.timers.commit

        async def commit(batch_id: int, fires: Sequence[Fire]) -> int:
            told.extend(fires)
            return await real(batch_id, fires)

        self.store.timers.commit = commit  # type: ignore[method-assign]  # to listen
        try:
            await drive(self.clock, scheduler.tick())
        finally:
            self.store.timers.commit = real  # type: ignore[method-assign]  # as it was
        return told
