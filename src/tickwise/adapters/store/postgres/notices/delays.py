"""The delays that no event tells: looks of bounded size along the indexes that claims and schedulers use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.searches import LAST_ID, first_id
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.notices.changes import NoticeJob
from tickwise.domain.observing.anomalies import MeasuredEnd
from tickwise.ports.store.notices import (
    FROM_THE_FIRST,
    FROM_THE_FIRST_RUN,
    EndingKey,
    LostExecutor,
    NoticeJobPage,
    OverdueTimer,
    OverdueTimers,
    RunSample,
    SlowRun,
    SlowRuns,
    TimerPlace,
)

CLOCKS_SECONDS: Final = 60.0
"""No run is due before the time in its id, but by clocks: the ids of immediate runs are made by nodes. A run whose node
is further ahead is found so much later."""

_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


class Delays(Part):
    """`DelayStore` of the port."""

    async def slow_runs(
        self, namespaces: Collection[str], seconds: float, limit: int, *, after: UUID = FROM_THE_FIRST_RUN
    ) -> SlowRuns:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            before = first_id(await connection.fetchval(statement("now")) - seconds + CLOCKS_SECONDS)
            rows = await connection.fetch(statement("delays_runs"), list(namespaces), seconds, limit, after, before)
        runs = [
            SlowRun(
                row["namespace"], row["run_id"], row["job_id"], row["name"],
                {} if row["labels"] is None else _labels(row["labels"]), row["due_at"], row["started_at"],
            )
            for row in rows
            if row["is_slow"]
        ]  # fmt: skip
        return SlowRuns(runs, next((row["run_id"] for row in rows if row["ends_page"]), None))

    async def durations(self, job_ids: Collection[UUID], most: int) -> Mapping[UUID, Sequence[float]]:
        """See the port."""
        found: dict[UUID, list[float]] = {}
        async with self._links.pooled(writes=False) as connection:
            for row in await connection.fetch(statement("delays_durations"), list(job_ids), most):
                found.setdefault(row["job_id"], []).append(row["seconds"])
        return found

    async def samples(
        self, job_ids: Collection[UUID], most: int, *, since: float | None = None, before: UUID | None = None
    ) -> Mapping[UUID, Sequence[RunSample]]:
        """See the port."""
        found: dict[UUID, list[RunSample]] = {}
        asked = list(job_ids), most, since, LAST_ID if before is None else before
        async with self._links.pooled(writes=False) as connection:
            for row in await connection.fetch(statement("delays_samples"), *asked):
                measured = MeasuredEnd(row["seconds"], row["output_bytes"])
                sample = RunSample(row["run_id"], row["namespace"], row["ended_at"], measured)
                found.setdefault(row["job_id"], []).append(sample)
        return found

    async def watched_jobs(
        self, namespaces: Collection[str], limit: int, *, after: UUID, ids: Collection[UUID] | None = None
    ) -> NoticeJobPage:
        """See the port."""
        asked = [list(namespaces), after, limit, *([] if ids is None else [list(ids)])]
        name = "delays_jobs" if ids is None else "delays_jobs_named"
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement(name), *asked)
        jobs = [
            NoticeJob(
                row["namespace"],
                row["job_id"],
                row["name"],
                {} if row["labels"] is None else _labels(row["labels"]),
            )
            for row in rows
            if row["is_asked"]
        ]
        beyond = [row["job_id"] for row in rows if row["ends_page"]]
        return NoticeJobPage(jobs, beyond[0] if beyond else None)

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
