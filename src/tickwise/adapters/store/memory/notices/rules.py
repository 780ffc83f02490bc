"""Notification rules. A namespace notes events while it has an enabled one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.audit import AuditEntry
from tickwise.domain.notices.rules import AlertState, NoticeEvent, NoticeState, NotificationRule
from tickwise.ports.store.notices import (
    NoticesVersion,
    NotificationRuleQuery,
    channels_gone,
    channels_of,
    check_rule_room,
    check_whole_room,
    name_taken,
    version_changed,
)


class NotificationRules(Duty):
    """`NotificationRuleStore` of the port."""

    async def add(self, rule: NotificationRule, *, audit: AuditEntry | None = None) -> NotificationRule:
        state = self._state
        stored = state.notification_rules.get(rule.rule_id)
        if stored is not None:
            return stored
        state.check_open(rule.namespace)
        self._check(rule, None)
        stored = replace(rule, version=1, created_at=state.now())
        state.notification_rules[rule.rule_id] = stored
        self._changed(rule.namespace)
        state.audit.write(audit)
        return stored

    async def change(self, rule: NotificationRule, *, audit: AuditEntry | None = None) -> NotificationRule | None:
        state = self._state
        stored = state.notification_rules.get(rule.rule_id)
        if stored is None or stored.namespace != rule.namespace:
            return None
        if stored.version != rule.version:
            raise version_changed(rule)
        state.check_open(rule.namespace, or_closing=False)
        self._check(rule, stored)
        changed = replace(
            rule, version=rule.version + 1, created_at=stored.created_at, created_by=stored.created_by
        )  # fmt: skip
        state.notification_rules[rule.rule_id] = changed
        if changed.enabled:
            self._wake(rule.rule_id)
        else:
            silence(state, rule.rule_id)
        self._changed(rule.namespace)
        state.audit.write(audit)
        return changed

    async def remove(self, namespace: str, rule_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        state = self._state
        stored = state.notification_rules.get(rule_id)
        if stored is None or stored.namespace != namespace:
            return False
        del state.notification_rules[rule_id]
        silence(state, rule_id)
        self._changed(namespace)
        state.audit.write(audit)
        return True

    async def find(self, query: NotificationRuleQuery) -> Sequence[NotificationRule]:
        found = [
            rule
            for rule in self._state.notification_rules.values()
            if query.namespace in (None, rule.namespace)
            and query.rule_id in (None, rule.rule_id)
            and (query.channel_id is None or query.channel_id in rule.channels)
            and (query.after_name is None or rule.name > query.after_name)
        ]
        return sorted(found, key=lambda rule: (rule.name, rule.namespace))[: query.limit]

    async def watch(self, namespace: str) -> None:
        self._state.check_open(namespace)
        self._state.notices_watched_by_jobs.add(namespace)
        self._state.notices_watched.setdefault(namespace, 0)

    async def version(self) -> NoticesVersion:
        return NoticesVersion(self._state.notices_version, bool(self._state.notices_watched))

    def _check(self, rule: NotificationRule, before: NotificationRule | None) -> None:
        others = [
            each
            for each in self._state.notification_rules.values()
            if each.namespace == rule.namespace and each.rule_id != rule.rule_id
        ]
        if any(each.name == rule.name for each in others):
            raise name_taken(rule)
        if before is None:
            check_rule_room(len(others))
        if rule.is_whole and not (before is not None and before.is_whole):
            check_whole_room(sum(each.is_whole for each in others))
        channels = self._state.channels
        wanted = channels_of(rule)
        if gone := {each for each in wanted if each not in channels or channels[each].namespace != rule.namespace}:
            raise channels_gone(gone)

    def _wake(self, rule_id: UUID) -> None:
        for record in self._state.alerts.values():
            if record.alert.rule_id == rule_id and record.alert.state is AlertState.OPEN:
                record.next_at = self._state.now()

    def _changed(self, namespace: str) -> None:
        watch_rules(self._state, namespace)
        self._state.notices_version += 1


def watch_rules(state: State, namespace: str) -> None:
    """Note events of a namespace as long as it has an enabled rule, or a job of it names channels itself."""
    enabled = [rule for rule in state.notification_rules.values() if rule.namespace == namespace and rule.enabled]
    if enabled:
        state.notices_watched[namespace] = len(enabled)
    elif namespace in state.notices_watched_by_jobs:
        state.notices_watched[namespace] = 0
    else:
        state.notices_watched.pop(namespace, None)
    state.notices_retries.discard(namespace)
    if any(NoticeEvent.RETRIES in rule.on for rule in enabled):
        state.notices_retries.add(namespace)
    asked = {job_id for rule in enabled if NoticeEvent.SUCCESS in rule.on for job_id in rule.jobs}
    if asked:
        state.notices_successes[namespace] = frozenset(asked)
    else:
        state.notices_successes.pop(namespace, None)


def silence(state: State, rule_id: UUID) -> None:
    """Close the alerts of a rule, and drop its notices that wait."""
    for alert in state.alerts.values():
        if alert.alert.rule_id == rule_id and alert.alert.state is not AlertState.CLOSED:
            alert.alert = replace(alert.alert, state=AlertState.CLOSED, closed_at=state.now())
            alert.next_at = None
            alert.version += 1
    for notice in state.notices.values():
        if notice.notice.rule_id == rule_id and notice.notice.state is NoticeState.WAITING:
            notice.notice = replace(notice.notice, state=NoticeState.DROPPED, ended_at=state.now())
            notice.sender = notice.leased_until = None
