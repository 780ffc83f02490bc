"""Channels, and what their senders alone are told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.notices.rules import decode_rule, encode_rule
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import is_effective, write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.notices.rules import NoticeChannel, NoticeChannelKind, without_channel
from tickwise.ports.store.notices import (
    MAX_CHANNEL_BACKLOG,
    ChannelBacklog,
    ChannelSecrets,
    channel_changed,
    channel_name_taken,
    check_channels,
)


class NoticeChannels(Part):
    """`ChannelStore` of the port."""

    async def add(
        self, channel: NoticeChannel, secrets: Mapping[str, str], *, audit: AuditEntry | None = None
    ) -> NoticeChannel:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            stored = await connection.fetchrow(statement("channel_get"), channel.channel_id)
            if stored is not None:
                return _channel(stored)
            await check_open(connection, channel.namespace)
            check_channels(await connection.fetchval(statement("channels_count"), channel.namespace))
            try:
                await connection.execute(
                    statement("channel_add"), channel.channel_id, channel.namespace, channel.name, channel.kind.value,
                    json.dumps(dict(channel.settings)), channel.allow_private, channel.created_by,
                )  # fmt: skip
            except asyncpg.UniqueViolationError:
                raise channel_name_taken(channel.name) from None
            await connection.execute(statement("channel_secrets_put"), channel.channel_id, json.dumps(dict(secrets)))
            await connection.execute(statement("notices_changed"))
            await write_audit(connection, audit)
            return _channel(await connection.fetchrow(statement("channel_get"), channel.channel_id))

    async def change(
        self, channel: NoticeChannel, secrets: Mapping[str, str] | None, *, audit: AuditEntry | None = None
    ) -> NoticeChannel | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            stored = await connection.fetchrow(statement("channel_lock"), channel.namespace, channel.channel_id)
            if stored is None:
                return None
            if stored["version"] != channel.version:
                raise channel_changed(stored["name"])
            await check_open(connection, channel.namespace, or_closing=False)
            try:
                await connection.execute(
                    statement("channel_change"), channel.channel_id, channel.name, channel.kind.value,
                    json.dumps(dict(channel.settings)), channel.allow_private,
                )  # fmt: skip
            except asyncpg.UniqueViolationError:
                raise channel_name_taken(channel.name) from None
            if secrets is not None:
                kept = json.dumps(dict(secrets))
                await connection.execute(statement("channel_secrets_put"), channel.channel_id, kept)
            await connection.execute(statement("notices_hurry"), channel.channel_id)
            await connection.execute(statement("notices_changed"))
            await write_audit(connection, audit)
            return _channel(await connection.fetchrow(statement("channel_get"), channel.channel_id))

    async def remove(self, namespace: str, channel_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            # First, as a change of a rule does: nobody waits for the other then.
            await connection.execute(statement("notices_changed"))
            if await connection.fetchval(statement("channel_remove"), namespace, channel_id) is None:
                return False
            await _leave_escalations(connection, namespace, channel_id)
            await write_audit(connection, audit)
        return True

    async def wake(self, namespace: str, channel_id: UUID, *, audit: AuditEntry | None = None) -> NoticeChannel | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            rests = await connection.fetchval(statement("channel_there"), namespace, channel_id)
            if rests is None:
                return None
            await connection.execute(statement("channel_wake"), channel_id)
            hurried = await connection.execute(statement("notices_hurry"), channel_id)
            if rests or is_effective(hurried):
                await write_audit(connection, audit)
            return _channel(await connection.fetchrow(statement("channel_get"), channel_id))

    async def backlog(self, channel_ids: Sequence[UUID]) -> Mapping[UUID, ChannelBacklog]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("channels_backlog"), list(channel_ids), MAX_CHANNEL_BACKLOG)
        return {row["channel_id"]: ChannelBacklog(row["notices"], row["events"]) for row in rows}

    async def find(self, namespace: str, *, channel_ids: Sequence[UUID] | None = None) -> Sequence[NoticeChannel]:
        """See the port."""
        asked = None if channel_ids is None else list(channel_ids)
        async with self._links.pooled(writes=False) as connection:
            return [_channel(row) for row in await connection.fetch(statement("channels_find"), namespace, asked)]

    async def secrets(self, channel_ids: Sequence[UUID]) -> Sequence[ChannelSecrets]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("channels_secrets"), list(channel_ids))
        return [ChannelSecrets(_channel(row), json.loads(row["secrets"])) for row in rows]

    async def all_secrets(self, after: UUID | None, limit: int) -> Sequence[ChannelSecrets]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("channels_all"), after, limit)
        return await self.secrets([row["channel_id"] for row in rows])

    async def reseal(self, channel_id: UUID, before: Mapping[str, str], secrets: Mapping[str, str]) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            kept = await connection.fetchval(
                statement("channel_reseal"), channel_id, json.dumps(dict(before)), json.dumps(dict(secrets))
            )
        return kept is not None


async def _leave_escalations(connection: asyncpg.Connection, namespace: str, channel_id: UUID) -> None:
    """Let a channel leave the escalations of its rules, which are in their bodies."""
    for row in await connection.fetch(statement("channel_escalations"), namespace, str(channel_id)):
        rule = decode_rule(row["body"])
        if rule.escalation is not None and channel_id in rule.escalation.channels:
            rest = without_channel(rule, channel_id)
            await connection.execute(statement("channel_escalation_leave"), rule.rule_id, encode_rule(rest))


def _channel(row: Mapping[str, Any]) -> NoticeChannel:
    return NoticeChannel(
        channel_id=row["channel_id"],
        namespace=row["namespace"],
        name=row["name"],
        kind=NoticeChannelKind(row["kind"]),
        settings=json.loads(row["settings"]),
        allow_private=row["allow_private"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        version=row["version"],
        delivered_at=row["delivered_at"],
        failed_at=row["failed_at"],
        error=row["error"],
        failures=row["failures"],
        again_at=row["again_at"],
        is_slow=row["slow"],
    )
