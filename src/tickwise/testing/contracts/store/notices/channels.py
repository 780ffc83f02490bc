"""Channels: their names, versions and secrets, and what goes with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.errors import Conflict
from tickwise.domain.notices.rules import MAX_CHANNELS, NoticeChannelKind, NoticeState
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import NoticeQuery, SettledNotice, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.notices.deliveries import SECRETS, channel, notice
from tickwise.testing.factories import Factory


def entry(target: str) -> AuditEntry:
    """An entry of the audit log; which action it is does not matter here."""
    return AuditEntry("default", AuditAction.STOP_MADE, Source(CallerKind.KEY, None, "ada"), "channel", target)


class ChannelsContract(StoreContract):
    """`ChannelStore`."""

    async def test_a_channel_is_found_without_its_secrets(self, store: Store, make: Factory) -> None:
        """A sender is told them; one that is added twice is one."""
        made = channel(make, settings={"url": "https://hooks.example.com/***"}, allow_private=True, created_by="ada")
        stored = await store.channels.add(made, SECRETS)
        assert stored == replace(made, created_at=stored.created_at)
        assert abs(stored.created_at - make.now) < 60
        assert await store.channels.add(replace(made, name="other"), {"url": "x"}) == stored
        assert [stored] == await store.channels.find("default")
        [found] = await store.channels.secrets([made.channel_id, make.identifier()])
        assert (found.channel, found.secrets) == (stored, SECRETS)

    async def test_all_secrets_are_found_page_by_page(self, store: Store, make: Factory) -> None:
        """Of all namespaces, in the order of the ids, also where a channel has none."""
        made = [channel(make, name=f"c{number}", namespace=("default", "*")[number % 2]) for number in range(5)]
        for each in made:
            await store.channels.add(each, {} if each is made[0] else SECRETS)
        wanted = sorted(each.channel_id for each in made)
        first = await store.channels.all_secrets(None, 3)
        rest = await store.channels.all_secrets(first[-1].channel.channel_id, 3)
        assert (3, wanted) == (len(first), [each.channel.channel_id for each in [*first, *rest]])
        assert {str(made[0].channel_id): {}, str(made[1].channel_id): SECRETS}.items() <= {
            str(each.channel.channel_id): each.secrets for each in [*first, *rest]
        }.items()
        assert [] == await store.channels.all_secrets(wanted[-1], 3)

    async def test_secrets_are_replaced_only_if_they_are_those(self, store: Store, make: Factory) -> None:
        """A rotation of the key never takes back what a person has changed meanwhile; the version stays."""
        made = await store.channels.add(channel(make), SECRETS)
        sealed = {"sealed": "AQID"}
        assert await store.channels.reseal(made.channel_id, dict(reversed(SECRETS.items())), sealed)
        assert not await store.channels.reseal(made.channel_id, SECRETS, {"url": "of yesterday"})
        assert not await store.channels.reseal(make.identifier(), SECRETS, sealed)
        [found] = await store.channels.secrets([made.channel_id])
        assert (sealed, made.version) == (found.secrets, found.channel.version)

    async def test_a_name_is_taken_once_in_a_namespace(self, store: Store, make: Factory) -> None:
        """Also by a change; another namespace may use it."""
        await store.channels.add(channel(make, name="ops"), {})
        with pytest.raises(Conflict) as refused:
            await store.channels.add(channel(make, name="ops"), {})
        assert refused.value.code == "channel_name_taken"
        other = await store.channels.add(channel(make, name="night"), {})
        with pytest.raises(Conflict) as refused:
            await store.channels.change(replace(other, name="ops"), None)
        assert refused.value.code == "channel_name_taken"
        await store.channels.add(channel(make, name="ops", namespace="*"), {})
        assert ["night", "ops"] == [each.name for each in await store.channels.find("default")]
        assert ["ops"] == [each.name for each in await store.channels.find("*")]
        assert [other] == await store.channels.find("default", channel_ids=[other.channel_id])

    async def test_a_change_names_the_version_that_it_replaces(self, store: Store, make: Factory) -> None:
        """Secrets stay unless others are given; what was delivered stays on record."""
        first = await store.channels.add(channel(make), SECRETS)
        fields: dict[str, Any] = {"kind": NoticeChannelKind.SLACK, "settings": {"url": "x"}, "allow_private": True}
        second = await store.channels.change(replace(first, name="new", **fields), None)
        assert second == replace(first, name="new", version=2, **fields)
        [found] = await store.channels.secrets([first.channel_id])
        assert found.secrets == SECRETS
        with pytest.raises(Conflict) as refused:
            await store.channels.change(replace(first, name="newer"), None)
        assert refused.value.code == "channel_changed"
        assert second is not None
        assert await store.channels.change(second, {"url": "y"}) == replace(second, version=3)
        [found] = await store.channels.secrets([first.channel_id])
        assert found.secrets == {"url": "y"}
        assert await store.channels.change(replace(first, namespace="*"), None) is None
        assert await store.channels.change(channel(make), None) is None

    async def test_with_a_channel_its_waiting_notices_are_dropped(self, store: Store, make: Factory) -> None:
        """On record, those that are held too; a holder that comes back changes nothing. What ended stays as it was."""
        gone, stays = await store.channels.add(channel(make), {}), await store.channels.add(channel(make, name="b"), {})
        sent = await store.notices.add(notice(make, gone))
        assert [sent.notice_id] == [each.notice_id for each in (await store.notices.due("one", 1)).notices]
        waits = await store.notices.add(notice(make, gone, rule_id=make.identifier()))
        other = await store.notices.add(notice(make, stays))
        assert not await store.channels.remove("*", gone.channel_id)
        assert await store.channels.remove("default", gone.channel_id)
        assert not await store.channels.remove("default", gone.channel_id)
        await store.notices.settle("one", [SettledNotice(sent.notice_id, NoticeState.DELIVERED)])
        found = {each.notice_id: each.state for each in await store.notices.find(NoticeQuery(namespace="default"))}
        dropped = NoticeState.DROPPED
        assert found == {
            sent.notice_id: dropped, waits.notice_id: dropped, other.notice_id: NoticeState.WAITING
        }  # fmt: skip
        assert [] == await store.channels.secrets([gone.channel_id])
        assert [other.notice_id] == [each.notice_id for each in (await store.notices.due("one", 9)).notices]

    async def test_a_change_of_channels_is_audited_once(self, store: Store, make: Factory) -> None:
        """Also if it is repeated."""
        made = channel(make)
        for _ in range(2):
            await store.channels.add(made, {}, audit=entry("add"))
        stored = (await store.channels.find("default"))[0]
        await store.channels.change(stored, None, audit=entry("change"))
        for _ in range(2):
            await store.channels.remove("default", made.channel_id, audit=entry("remove"))
        rows = await store.audit.find(AuditQuery(namespace="default"))
        assert ["add", "change", "remove"] == sorted(str(row.target) for row in rows)

    async def test_a_channel_that_rests_is_tried_when_a_person_asks(self, store: Store, make: Factory) -> None:
        """With what waits for another try. Its failures stay; where nothing waits or rests, nothing is audited."""
        to = await store.channels.add(channel(make), {})
        for _ in range(2):
            await store.notices.add(notice(make, to, rule_id=make.identifier(), events=3))
        [held], _ = await store.notices.due("one", 9)
        away = SettledNotice(held.notice_id, NoticeState.WAITING, "away", 900.0, rest_seconds=600.0)
        await store.notices.settle("one", [away])
        assert [] == (await store.notices.due("one", 9)).notices
        assert await store.channels.wake("*", to.channel_id) is None
        woken = await store.channels.wake("default", to.channel_id, audit=entry("wake"))
        assert woken is not None
        assert (woken.again_at, woken.failures, woken.error) == (None, 1, "away")
        [first], _ = await store.notices.due("one", 9)
        await store.notices.settle("one", [SettledNotice(first.notice_id, NoticeState.DELIVERED)])
        [second], _ = await store.notices.due("one", 9)
        assert held.notice_id in (first.notice_id, second.notice_id)
        await store.channels.wake("default", to.channel_id, audit=entry("again"))
        assert ["wake"] == [row.target for row in await store.audit.find(AuditQuery(namespace="default"))]

    async def test_the_backlog_of_a_channel_is_what_is_due_or_was_tried(self, store: Store, make: Factory) -> None:
        """Not what a sender has, what a group holds back, and no test."""
        to, idle = [await store.channels.add(channel(make, name), {}) for name in ("ops", "idle")]
        held = await store.notices.add(notice(make, to, events=100, due=make.now - 900.0))
        assert [held.notice_id] == [each.notice_id for each in (await store.notices.due("one", 9)).notices]
        for events, fields in ((3, {}), (4, {"due": make.now - 5.0}), (50, {"due": make.now + 900.0})):
            await store.notices.add(notice(make, to, rule_id=make.identifier(), events=events, **fields))
        await store.notices.add(notice(make, to, is_test=True))
        ids = [to.channel_id, idle.channel_id]
        assert {ids[0]: (2, 7), ids[1]: (0, 0)} == await store.channels.backlog(ids)
        await store.notices.settle("one", [SettledNotice(held.notice_id, NoticeState.WAITING, "away", 600.0)])
        assert (3, 107) == (await store.channels.backlog(ids))[ids[0]]

    async def test_a_namespace_has_a_bounded_number_of_channels(self, store: Store, make: Factory) -> None:
        """One more is refused, and none of another namespace."""
        for number in range(MAX_CHANNELS):
            await store.channels.add(channel(make, name=f"c{number}"), {})
        with pytest.raises(Conflict) as refused:
            await store.channels.add(channel(make, name="one more"), {})
        assert refused.value.code == "channels_exhausted"
        await store.channels.add(channel(make, namespace="*"), {})
