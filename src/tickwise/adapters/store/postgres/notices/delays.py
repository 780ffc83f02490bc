"""The delays that no event tells: looks of bounded size along the indexes that claims and schedulers use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store.notices import (
    FROM_THE_FIRST,
    EndingKey,
    LostExecutor,
    OverdueTimer,
    OverdueTimers,
    SlowRun,
    TimerPlace,
)

_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


class Delays(Part):
    """`DelayStore` of the port."""

    async def slow_runs(self, namespace: str, seconds: float, limit: int) -> Sequence[SlowRun]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("delays_runs"), namespace, seconds, limit)
        return [
            SlowRun(
                row["run_id"], row["job_id"], row["name"], {} if row["labels"] is None else _labels(row["labels"]),
                row["due_at"], row["started_at"],
            )
            for row in rows
        ]  # fmt: skip

    async def durations(self, job_ids: Collection[UUID], most: int) -> Mapping[UUID, Sequence[float]]:
        """See the port."""
        found: dict[UUID, list[float]] = {}
        async with self._links.pooled(writes=False) as connection:
            for row in await connection.fetch(statement("delays_durations"), list(job_ids), most):
                found.setdefault(row["job_id"], []).append(row["seconds"])
        return found

    async def overdue_timers(
        self, namespaces: Collection[str], seconds: float, limit: int, *, after: TimerPlace = FROM_THE_FIRST
    ) -> OverdueTimers:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("delays_timers"), list(namespaces), seconds, limit, *after)
        timers = [
            OverdueTimer(row["namespace"], row["job_id"], row["name"], row["due_at"]) for row in rows if row["is_asked"]
        ]
        beyond = [(row["due_at"], row["job_id"]) for row in rows if row["ends_page"]]
        return OverdueTimers(timers, beyond[0] if beyond else None)

    async def keys_ending(
        self, seconds: float, *, after: tuple[float, UUID] | None = None, limit: int
    ) -> Sequence[EndingKey]:
        """See the port."""
        place = (None, None) if after is None else after
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("keys_ending"), seconds, *place, limit)
        return [
            EndingKey(
                row["key_id"],
                row["name"],
                frozenset({row["namespace"], *(row["namespaces"] or ())}),
                row["ends_at"],
                row["is_revoked"],
            )
            for row in rows
        ]

    async def lost_executors(self, seconds: float, limit: int) -> Sequence[LostExecutor]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return [LostExecutor(*row) for row in await connection.fetch(statement("delays_executors"), seconds, limit)]
