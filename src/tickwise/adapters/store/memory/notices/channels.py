"""Channels, and what their senders alone are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.notices.notices import hurry
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.domain.notices.rules import NoticeChannel, NoticeState, without_channel
from tickwise.ports.store.notices import (
    ChannelBacklog,
    ChannelSecrets,
    channel_changed,
    channel_name_taken,
    check_channels,
)


class NoticeChannels(Duty):
    """`ChannelStore` of the port."""

    async def add(
        self, channel: NoticeChannel, secrets: Mapping[str, str], *, audit: AuditEntry | None = None
    ) -> NoticeChannel:
        state = self._state
        stored = state.channels.get(channel.channel_id)
        if stored is not None:
            return stored
        state.check_open(channel.namespace)
        mine = [each for each in state.channels.values() if each.namespace == channel.namespace]
        if any(each.name == channel.name for each in mine):
            raise channel_name_taken(channel.name)
        check_channels(len(mine))
        stored = replace(
            channel, version=1, created_at=state.now(), delivered_at=None, failed_at=None, error=None, failures=0,
            again_at=None, is_slow=False,
        )  # fmt: skip
        state.channels[channel.channel_id] = stored
        state.channel_secrets[channel.channel_id] = dict(secrets)
        state.notices_version += 1
        state.audit.write(audit)
        return stored

    async def change(
        self, channel: NoticeChannel, secrets: Mapping[str, str] | None, *, audit: AuditEntry | None = None
    ) -> NoticeChannel | None:
        state = self._state
        stored = state.channels.get(channel.channel_id)
        if stored is None or stored.namespace != channel.namespace:
            return None
        if stored.version != channel.version:
            raise channel_changed(stored.name)
        state.check_open(channel.namespace, or_closing=False)
        others = (each for each in state.channels.values() if each.channel_id != channel.channel_id)
        if any((each.namespace, each.name) == (channel.namespace, channel.name) for each in others):
            raise channel_name_taken(channel.name)
        changed = replace(
            stored,
            name=channel.name,
            kind=channel.kind,
            settings=channel.settings,
            allow_private=channel.allow_private,
            version=stored.version + 1,
            failures=0,
            again_at=None,
            is_slow=False,
        )
        state.channels[channel.channel_id] = changed
        hurry(state, channel.channel_id)
        if secrets is not None:
            state.channel_secrets[channel.channel_id] = dict(secrets)
        state.notices_version += 1
        state.audit.write(audit)
        return changed

    async def remove(self, namespace: str, channel_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        state = self._state
        stored = state.channels.get(channel_id)
        if stored is None or stored.namespace != namespace:
            return False
        del state.channels[channel_id]
        state.channel_secrets.pop(channel_id, None)
        for rule_id, rule in state.notification_rules.items():
            rest = without_channel(rule, channel_id)
            if rest != rule:
                state.notification_rules[rule_id] = replace(rest, version=rule.version + 1)
        for record in state.notices.values():
            if record.notice.channel_id == channel_id and record.notice.state is NoticeState.WAITING:
                record.notice = replace(record.notice, state=NoticeState.DROPPED, ended_at=state.now())
                record.sender = None
        state.notices_version += 1
        state.audit.write(audit)
        return True

    async def wake(self, namespace: str, channel_id: UUID, *, audit: AuditEntry | None = None) -> NoticeChannel | None:
        state = self._state
        stored = state.channels.get(channel_id)
        if stored is None or stored.namespace != namespace:
            return None
        is_over = stored.again_at is None
        woken = state.channels[channel_id] = replace(stored, again_at=None)
        if hurry(state, channel_id) or not is_over:
            state.audit.write(audit)
        return woken

    async def backlog(self, channel_ids: Sequence[UUID]) -> Mapping[UUID, ChannelBacklog]:
        waiting = [each.notice for each in self._state.notices.values() if each.sender is None]
        found = {}
        for channel_id in channel_ids:
            mine = [
                each.events
                for each in waiting
                if each.channel_id == channel_id
                and each.state is NoticeState.WAITING
                and not each.is_test
                and (each.due <= self._state.now() or each.tries)
            ]
            found[channel_id] = ChannelBacklog(len(mine), sum(mine))
        return found

    async def find(self, namespace: str, *, channel_ids: Sequence[UUID] | None = None) -> Sequence[NoticeChannel]:
        found = [
            each
            for each in self._state.channels.values()
            if each.namespace == namespace and (channel_ids is None or each.channel_id in channel_ids)
        ]
        return sorted(found, key=lambda each: each.name)

    async def secrets(self, channel_ids: Sequence[UUID]) -> Sequence[ChannelSecrets]:
        state = self._state
        return [
            ChannelSecrets(state.channels[each], state.channel_secrets[each])
            for each in dict.fromkeys(channel_ids)
            if each in state.channels
        ]

    async def all_secrets(self, after: UUID | None, limit: int) -> Sequence[ChannelSecrets]:
        behind = sorted(each for each in self._state.channels if after is None or each > after)
        return await self.secrets(behind[:limit])

    async def reseal(self, channel_id: UUID, before: Mapping[str, str], secrets: Mapping[str, str]) -> bool:
        if self._state.channel_secrets.get(channel_id) != dict(before):
            return False
        self._state.channel_secrets[channel_id] = dict(secrets)
        return True
