"""Stops, in force by the clock alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.domain.stops import STOPS_KEPT_SECONDS, Stop, StopScope
from tickwise.ports.store import KNOWN_SECONDS, DueJob, check_stops


class Stops(Duty):
    """`StopStore` of the port."""

    async def add(self, stop: Stop, *, audit: AuditEntry | None = None) -> Stop:
        state, now = self._state, self._state.now()
        stored = state.stops.get(stop.stop_id)
        if stored is not None:
            return stored
        state.check_open(stop.namespace, or_closing=False)
        check_stops(sum(each.namespace == stop.namespace and not each.is_over(now) for each in state.stops.values()))
        for old in [each for each in state.stops.values() if each.until < now - STOPS_KEPT_SECONDS]:
            del state.stops[old.stop_id]
        stored = state.stops[stop.stop_id] = replace(stop, asked_at=now, begin=max(now, stop.begin))
        self._changed(stop.namespace)
        state.audit.write(audit)
        return stored

    async def lift(self, namespace: str, stop_id: UUID, *, by: str, audit: AuditEntry | None = None) -> Stop | None:
        state, now = self._state, self._state.now()
        stored = state.stops.get(stop_id)
        if stored is None or stored.namespace != namespace:
            return None
        if stored.is_over(now):
            return stored
        lifted = state.stops[stop_id] = replace(stored, until=now, lifted_by=by)
        self._changed(namespace)
        state.audit.write(audit)
        return lifted

    async def get(self, namespace: str, stop_id: UUID) -> Stop | None:
        found = self._state.stops.get(stop_id)
        return found if found is not None and found.namespace == namespace and self._is_kept(found) else None

    async def find(self, namespace: str, *, standing: bool, before: UUID | None = None, limit: int) -> Sequence[Stop]:
        now = self._state.now()
        found = [
            each
            for each in self._state.stops.values()
            if each.namespace == namespace
            and (not each.is_over(now) if standing else self._is_kept(each))
            and (before is None or each.stop_id < before)
        ]
        return sorted(found, key=lambda each: each.stop_id, reverse=True)[:limit]

    async def due(self, namespace: str, scope: StopScope, *, until: float, limit: int) -> Sequence[DueJob]:
        found = [
            DueJob(job.job_id, job.name, job.definition, job.timer.pending)
            for job in self._state.jobs.values()
            if job.namespace == namespace
            and job.timer is not None
            and job.timer.pending.due < until
            and scope.concerns(job.job_id, job.labels, job.lane.queue)
        ]
        return sorted(found, key=lambda each: (each.timer.due, each.job_id))[:limit]

    async def known(self, namespace: str | None = None) -> Sequence[Stop]:
        since = self._state.now() - KNOWN_SECONDS
        return [
            each
            for each in self._state.stops.values()
            if each.until > since and (namespace is None or each.namespace == namespace)
        ]

    def _is_kept(self, stop: Stop) -> bool:
        return stop.until > self._state.now() - STOPS_KEPT_SECONDS

    def _changed(self, namespace: str) -> None:
        self._state.rules_version += 1
        for timer in self._state.timers():
            if timer.job.namespace == namespace:
                self._state.ask_anew(timer.job)
