"""Calendars and maintenance windows, stored as sent, and stops, in force by the clock alone; a change wakes the timers
that it concerns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.stops import STOPS_KEPT_SECONDS, Stop, StopScope
from tickwise.ports.store import (
    DueJob,
    JobAction,
    Page,
    RuleKind,
    RuleQuery,
    RuleRow,
    StopQuery,
    check_room,
    check_seen,
    check_stops,
    is_done,
    page_within,
)


class Rules(Duty):
    """`RuleStore` of the port."""

    async def put(
        self,
        rule: RuleRow,
        expected_version: int | None = None,
        *,
        again: bool = False,
        audit: AuditEntry | None = None,
    ) -> RuleRow:
        rules = self._state.rules
        name = (rule.namespace, rule.kind, rule.name)
        stored = rules.get(name)
        version = 0 if stored is None else stored.version
        if stored is not None and is_done(stored, rule, expected_version, again=again):
            return stored
        check_seen(stored, rule, expected_version)
        self._state.check_open(rule.namespace, or_closing=stored is None)
        if stored is None:
            of_kind = self._state.rules_of_kind
            quotas = self._state.quotas_of(rule.namespace)
            check_room(rule.kind, quotas, of_all=len(rules), of_kind=of_kind[rule.namespace, rule.kind])
            of_kind[rule.namespace, rule.kind] += 1
        now = self._state.now()
        first = replace(rule, created_at=now) if stored is None else stored
        rules[name] = replace(
            rule, version=version + 1, created_by=first.created_by, created_at=first.created_at, updated_at=now
        )
        changed(self._state, rule.namespace)
        self._state.audit.write(audit)
        return rules[name]

    async def find(self, query: RuleQuery) -> Page[RuleRow]:
        found = [
            rule
            for rule in self._state.rules.values()
            if (rule.namespace, rule.kind) == (query.namespace, query.kind)
            and (query.names is None or rule.name in query.names)
            and (query.after is None or rule.name > query.after)
        ]
        return page_within(sorted(found, key=lambda rule: rule.name)[: query.limit], query.bytes_most)

    async def delete(
        self,
        namespace: str,
        kind: RuleKind,
        name: str,
        *,
        expected: RuleRow | None = None,
        audit: AuditEntry | None = None,
    ) -> None:
        stored = self._state.rules.get((namespace, kind, name))
        if stored is None:
            raise NotFound(f"there is no {kind} {name}")
        if expected is not None:
            check_seen(stored, expected, expected.version)
        if kind is RuleKind.CALENDAR and self._is_used(namespace, name):
            raise Conflict(
                f"jobs go by the calendar {name}: take it out of their definitions, or cancel them",
                code="calendar_in_use",
            )
        del self._state.rules[namespace, kind, name]
        self._state.rules_of_kind[namespace, kind] -= 1
        changed(self._state, namespace)
        self._state.audit.write(audit)

    async def all(self) -> tuple[int, Sequence[RuleRow]]:
        return self._state.rules_version, list(self._state.rules.values())

    def _is_used(self, namespace: str, calendar: str) -> bool:
        return any(
            job.namespace == namespace and calendar in job.calendars and job.standing is not JobAction.CANCEL
            for job in self._state.jobs.awake
        )


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
        changed(state, stop.namespace)
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
        changed(state, namespace)
        state.audit.write(audit)
        return lifted

    async def find(self, query: StopQuery) -> Sequence[Stop]:
        since = self._state.now() - query.over_seconds
        found = [
            each
            for each in self._state.stops.values()
            if each.until > since
            and query.namespace in (None, each.namespace)
            and query.stop_id in (None, each.stop_id)
            and (query.before is None or each.stop_id < query.before)
        ]
        return sorted(found, key=lambda each: each.stop_id, reverse=True)[: query.limit]

    async def due(self, namespace: str, scope: StopScope, *, until: float, limit: int) -> Sequence[DueJob]:
        found = [
            DueJob(job.job_id, job.name, job.definition, job.timer.pending)
            for job in self._state.jobs.awake
            if job.namespace == namespace
            and job.timer is not None
            and job.timer.pending.due < until
            and scope.concerns(job.job_id, job.labels, job.lane.queue)
        ]
        return sorted(found, key=lambda each: (each.timer.due, each.job_id))[:limit]


def changed(state: State, namespace: str) -> None:
    """Timers that a rule or a stop holds back in a namespace are decided anew."""
    state.rules_version += 1
    for timer in state.timers():
        if timer.job.namespace == namespace:
            state.ask_anew(timer.job)
