"""Notification rules: changed one after the other, read whole by schedulers when their version has changed.

Invariant: a namespace notes events while it has an enabled rule, by the transaction that stores the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.notices.rules import NotificationRule
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

decode_rule: Final = msgspec.json.Decoder(NotificationRule).decode


class NotificationRules(Part):
    """`NotificationRuleStore` of the port."""

    async def add(self, rule: NotificationRule, *, audit: AuditEntry | None = None) -> NotificationRule:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("notices_version_next"))
            stored = await connection.fetchrow(statement("notification_rule_get"), rule.rule_id)
            if stored is not None:
                return _rule(stored)
            await check_open(connection, rule.namespace)
            await _check(connection, rule, None)
            await connection.execute(
                statement("notification_rule_add"), rule.rule_id, rule.namespace, rule.name, rule.created_by,
                *_columns(rule),
            )  # fmt: skip
            await _watch(connection, rule.namespace)
            await write_audit(connection, audit)
            stored = await connection.fetchrow(statement("notification_rule_get"), rule.rule_id)
        return _rule(stored)

    async def change(self, rule: NotificationRule, *, audit: AuditEntry | None = None) -> NotificationRule | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("notices_version_next"))
            stored = await connection.fetchrow(statement("notification_rule_get"), rule.rule_id)
            if stored is None or stored["namespace"] != rule.namespace:
                return None
            if stored["version"] != rule.version:
                raise version_changed(rule)
            await check_open(connection, rule.namespace, or_closing=False)
            await _check(connection, rule, _rule(stored))
            changed = statement("notification_rule_change")
            await connection.execute(changed, rule.rule_id, rule.name, *_columns(rule))
            after = "notification_rule_wake" if rule.enabled else "notification_rule_silence"
            await connection.execute(statement(after), rule.rule_id)
            await _watch(connection, rule.namespace)
            await write_audit(connection, audit)
            stored = await connection.fetchrow(statement("notification_rule_get"), rule.rule_id)
        return _rule(stored)

    async def remove(self, namespace: str, rule_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("notices_version_next"))
            # A fold that uses the rule has locked it: what it makes is there by the next statement.
            if not await connection.fetchval(statement("notification_rule_drop"), rule_id, namespace):
                return False
            await connection.execute(statement("notification_rule_silence"), rule_id)
            await _watch(connection, namespace)
            await write_audit(connection, audit)
        return True

    async def find(self, query: NotificationRuleQuery) -> Sequence[NotificationRule]:
        """See the port."""
        asked = query.namespace, query.rule_id, query.channel_id, query.after_name, query.limit
        async with self._links.pooled(writes=False) as connection:
            return [_rule(row) for row in await connection.fetch(statement("notification_rules_find"), *asked)]

    async def watch(self, namespace: str) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await check_open(connection, namespace)
            await connection.execute(statement("notices_watch_jobs"), namespace)

    async def version(self) -> NoticesVersion:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return NoticesVersion(*await connection.fetchrow(statement("notices_version")))


async def _check(connection: asyncpg.Connection, rule: NotificationRule, before: NotificationRule | None) -> None:
    asked = rule.namespace, rule.name, rule.rule_id
    count, is_taken = await connection.fetchrow(statement("notification_rules_count"), *asked)
    if is_taken:
        raise name_taken(rule)
    if before is None:
        check_rule_room(count)
    if rule.is_whole and not (before is not None and before.is_whole):
        check_whole_room(await connection.fetchval(statement("notification_rules_whole"), rule.namespace))
    wanted = channels_of(rule)
    rows = await connection.fetch(statement("notification_rule_channels"), rule.namespace, list(wanted))
    if gone := wanted - {row["channel_id"] for row in rows}:
        raise channels_gone(gone)


async def _watch(connection: asyncpg.Connection, namespace: str) -> None:
    await connection.execute(statement("notices_watch_rules"), namespace)
    await connection.execute(statement("notices_unwatch_rules"), namespace)


def _columns(rule: NotificationRule) -> list[Any]:
    return [list(rule.channels), list(rule.jobs), sorted(rule.on), rule.enabled, encode_rule(rule)]


def encode_rule(rule: NotificationRule) -> str:
    """A rule as its row keeps it whole."""
    return msgspec.json.encode(rule).decode()


def _rule(row: Mapping[str, Any]) -> NotificationRule:
    """A rule as it is stored. Its channels are those of the column: one that was removed has left it."""
    return replace(
        decode_rule(row["body"]),
        version=row["version"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        channels=tuple(row["channels"]),
    )
