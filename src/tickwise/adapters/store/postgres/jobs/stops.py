"""Stops: rows that the clock brings into force, seen by claims through two views (`0022_stops.sql`).

A stop is added and lifted while no timer is being decided, as a rule is: what a scheduler holds back is then written,
and is found and woken.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.jobs.flow import ask_back
from tickwise.adapters.store.postgres.jobs.rules import changing_rules
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.decision import Hold, TimerState
from tickwise.domain.errors import Unavailable
from tickwise.domain.stops import STOPS_KEPT_SECONDS, Meanwhile, Stop, StopScope
from tickwise.ports.store import DueJob, StopQuery, check_stops


class Stops(Part):
    """`StopStore` of the port."""

    async def add(self, stop: Stop, *, audit: AuditEntry | None = None) -> Stop:
        """See the port."""
        scope = stop.scope
        async with changing_rules(self._links) as connection:
            stored = await connection.fetchrow(statement("stop_get"), stop.stop_id)
            if stored is None:
                await check_open(connection, stop.namespace, or_closing=False)
                check_stops(await connection.fetchval(statement("stops_standing"), stop.namespace))
                await connection.execute(
                    statement("stop_add"), stop.stop_id, stop.namespace, scope.job_id, scope.queue,
                    _labels(scope), stop.begin, stop.until, stop.open_ended,
                    stop.meanwhile, stop.reason, stop.by, STOPS_KEPT_SECONDS,
                )  # fmt: skip
                await connection.execute(statement("rules_changed"), stop.namespace)
                await write_audit(connection, audit)
                stored = await connection.fetchrow(statement("stop_get"), stop.stop_id)
        # Once it stands, no claim takes more of its scope: what is held by then is all there is to ask for. If that
        # cannot be asked for now, the next heartbeat does it.
        with contextlib.suppress(Unavailable):
            async with self._links.pooled(writes=True) as connection:
                with translated(writes=True):
                    await ask_back(connection)
        return _stop(stored)

    async def lift(self, namespace: str, stop_id: UUID, *, by: str, audit: AuditEntry | None = None) -> Stop | None:
        """See the port."""
        async with changing_rules(self._links) as connection:
            if await connection.fetchval(statement("stop_lift"), stop_id, namespace, by):
                await connection.execute(statement("stop_unask"), namespace)
                await connection.execute(statement("rules_changed"), namespace)
                await write_audit(connection, audit)
        return next(iter(await self.find(StopQuery(namespace=namespace, stop_id=stop_id))), None)

    async def find(self, query: StopQuery) -> Sequence[Stop]:
        """See the port."""
        asked = query.namespace, query.stop_id, query.before, query.over_seconds, query.limit
        async with self._links.pooled(writes=False) as connection:
            return [_stop(row) for row in await connection.fetch(statement("stops_find"), *asked)]

    async def due(self, namespace: str, scope: StopScope, *, until: float, limit: int) -> Sequence[DueJob]:
        """See the port."""
        name = "stops_due_of_lanes"
        asked: list[Any] = [scope.queue]
        if scope.is_of_jobs:
            name, asked = "stops_due_of_jobs", [scope.job_id, _labels(scope)]
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement(name), namespace, *asked, until, limit)
        return [_due_job(row) for row in rows]


def _labels(scope: StopScope) -> str | None:
    return json.dumps(dict(scope.labels)) if scope.labels else None


def _due_job(row: Mapping[str, Any]) -> DueJob:
    hold = None if row["hold"] is None else Hold(row["hold"])
    timer = TimerState(row["due"], row["since"], hold, row["fired"])
    return DueJob(row["job_id"], row["name"], row["definition"], timer)


def _stop(row: Mapping[str, Any]) -> Stop:
    labels = {} if row["labels"] is None else json.loads(row["labels"])
    return Stop(
        stop_id=row["stop_id"],
        namespace=row["namespace"],
        scope=StopScope(labels, row["queue"], row["job_id"]),
        begin=row["begin"],
        until=row["until"],
        open_ended=row["open_ended"],
        meanwhile=Meanwhile(row["meanwhile"]),
        reason=row["reason"],
        by=row["asked_by"],
        asked_at=row["asked_at"],
        lifted_by=row["lifted_by"],
    )
