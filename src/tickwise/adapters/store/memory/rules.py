"""Calendars and maintenance windows, stored as sent; a change wakes the timers that it concerns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict, NotFound
from tickwise.ports.store import (
    JobAction,
    Page,
    RuleKind,
    RuleQuery,
    RuleRow,
    check_room,
    check_seen,
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
        self._changed(rule.namespace)
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
        self._changed(namespace)
        self._state.audit.write(audit)

    async def all(self) -> tuple[int, Sequence[RuleRow]]:
        return self._state.rules_version, list(self._state.rules.values())

    def _is_used(self, namespace: str, calendar: str) -> bool:
        return any(
            job.namespace == namespace and calendar in job.calendars and job.standing is not JobAction.CANCEL
            for job in self._state.jobs.values()
        )

    def _changed(self, namespace: str) -> None:
        """Timers that a calendar or window holds back here are decided anew."""
        self._state.rules_version += 1
        for timer in self._state.timers():
            if timer.job.namespace == namespace:
                self._state.ask_anew(timer.job)
