"""Notification rules: changed by version, and gone with what they made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.rules import (
    MAX_RULES,
    MAX_WHOLE_RULES,
    AlertState,
    Escalation,
    FailuresOf,
    NoticeEvent,
    NoticeState,
    QuietHours,
    Severity,
)
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.namespaces import SETTLE_SECONDS
from tickwise.ports.store import NotificationRuleQuery, Store
from tickwise.testing.contracts.store.notices.base import NoticesContract, entry
from tickwise.testing.contracts.store.people.removals import TEAM, begin_removal, drop_all, open_namespace
from tickwise.testing.factories import Factory


class NotificationRulesContract(NoticesContract):
    """`NotificationRuleStore`."""

    async def test_a_rule_is_read_as_it_was_written(self, store: Store, make: Factory) -> None:
        """Each field."""
        one, two = await self.channel(store, "one"), await self.channel(store, "two")
        rule = await self.rule(
            store,
            make,
            on=frozenset({NoticeEvent.FAILURE, NoticeEvent.LATE}),
            channels=(one,),
            jobs=(make.identifier(), make.identifier()),
            labels={"team": "payments"},
            severity=Severity.CRITICAL,
            after=90.0,
            in_a_row=3,
            failures_of=FailuresOf(3, 10),
            attempts=4,
            group_seconds=60.0,
            repeat_seconds=3_600.0,
            quiet=QuietHours(22 * 60, 7 * 60, "Europe/Berlin", frozenset({0, 4})),
            escalation=Escalation(900.0, (two,)),
        )
        assert rule.version == 1
        assert rule.created_by == "ada"
        assert rule.created_at > 0
        assert await store.notification_rules.find(NotificationRuleQuery(namespace="default")) == [rule]

    async def test_a_rule_is_added_once(self, store: Store, make: Factory) -> None:
        """By its id; its name is taken then."""
        rule = await self.rule(store, make)
        assert await store.notification_rules.add(replace(rule, severity=Severity.INFO)) == rule
        with pytest.raises(Conflict) as refused:
            await store.notification_rules.add(replace(rule, rule_id=make.identifier()))
        assert refused.value.code == "name_taken"

    async def test_a_rule_names_channels_of_its_namespace(self, store: Store, make: Factory) -> None:
        """In its escalation too."""
        await open_namespace(store)
        there, elsewhere = await self.channel(store), await self.channel(store, "ops", TEAM)
        for fields in ({"channels": (elsewhere,)}, {"channels": (there,), "escalation": Escalation(1.0, (elsewhere,))}):
            with pytest.raises(NotFound):
                await self.rule(store, make, **fields)
        assert await store.notification_rules.find(NotificationRuleQuery(namespace=None)) == []

    async def test_a_removed_channel_leaves_its_rules(self, store: Store, make: Factory) -> None:
        """Their escalations too; one without a channel is none. Other rules stay as they are."""
        one, two, three = [await self.channel(store, name) for name in ("one", "two", "three")]
        told = await self.rule(store, make, "told", channels=(one, two), escalation=Escalation(900.0, (three, two)))
        alone = await self.rule(store, make, "alone", channels=(one,), escalation=Escalation(900.0, (two,)))
        other = await self.rule(store, make, "other", channels=(one,), escalation=Escalation(900.0, (three,)))
        assert await store.channels.remove("default", two)
        found = {each.name: each for each in await store.notification_rules.find(NotificationRuleQuery(namespace=None))}
        assert (found["told"].channels, found["told"].escalation) == ((one,), Escalation(900.0, (three,)))
        assert (found["alone"].channels, found["alone"].escalation) == ((one,), None)
        assert found["told"].version > told.version
        assert found["alone"].version > alone.version
        assert found["other"] == other

    async def test_a_change_is_of_the_version_that_was_read(self, store: Store, make: Factory) -> None:
        """A second one of it is refused; one of a rule that is not there is none."""
        rule = await self.rule(store, make)
        changed = await store.notification_rules.change(replace(rule, name="days", created_by="eve"))
        assert changed == replace(rule, name="days", version=2)
        with pytest.raises(Conflict) as refused:
            await store.notification_rules.change(replace(rule, name="weeks"))
        assert refused.value.code == "version_changed"
        assert await store.notification_rules.change(replace(rule, rule_id=make.identifier())) is None
        other = await self.rule(store, make, "others")
        with pytest.raises(Conflict) as refused:
            await store.notification_rules.change(replace(other, name="days"))
        assert refused.value.code == "name_taken"

    async def test_a_namespace_has_no_more_than_its_rules(
        self, store: Store, make: Factory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A change is allowed still."""
        monkeypatch.setattr("tickwise.ports.store.notices.MAX_RULES", 2)
        rule = await self.rule(store, make, "one")
        await self.rule(store, make, "two")
        with pytest.raises(Conflict) as refused:
            await self.rule(store, make, "three")
        assert refused.value.code == "rules_exhausted"
        assert await store.notification_rules.change(rule) == replace(rule, version=2)
        assert MAX_RULES == 20_000

    async def test_few_rules_concern_the_whole_namespace(
        self, store: Store, make: Factory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another one is refused, also as a change; one that concerns all already may change. Others are not
        counted."""
        monkeypatch.setattr("tickwise.ports.store.notices.MAX_WHOLE_RULES", 2)
        await open_namespace(store)
        await self.rule(store, make, "elsewhere", namespace=TEAM)
        await self.rule(store, make, "one")
        labelled = await self.rule(store, make, "labelled", labels={"team": "payments"})
        await self.rule(store, make, "of a job", jobs=(make.identifier(),))
        two = await self.rule(store, make, "two")
        with pytest.raises(Conflict, match="labels") as refused:
            await self.rule(store, make, "three")
        assert refused.value.code == "rules_exhausted"
        with pytest.raises(Conflict) as refused:
            await store.notification_rules.change(replace(labelled, labels={}))
        assert refused.value.code == "rules_exhausted"
        monkeypatch.setattr("tickwise.ports.store.notices.MAX_WHOLE_RULES", 1)
        changed = await store.notification_rules.change(replace(two, name="three"))
        assert changed == replace(two, name="three", version=2)
        assert MAX_WHOLE_RULES == 100

    async def test_each_change_gives_another_version_of_all(self, store: Store, make: Factory) -> None:
        """And tells whether a namespace notes events."""
        seen = [await store.notification_rules.version()]
        rule = await self.rule(store, make)
        seen.append(await store.notification_rules.version())
        changed = await store.notification_rules.change(replace(rule, enabled=False))
        seen.append(await store.notification_rules.version())
        assert changed is not None
        await store.notification_rules.change(replace(changed, enabled=True))
        seen.append(await store.notification_rules.version())
        assert await store.notification_rules.remove("default", rule.rule_id)
        seen.append(await store.notification_rules.version())
        assert [each.is_watched for each in seen] == [False, True, False, True, False]
        assert len({each.version for each in seen}) == 5

    async def test_rules_are_found_by_name_page_by_page(self, store: Store, make: Factory) -> None:
        """By channel and id too, and of all namespaces."""
        await open_namespace(store)
        shared = await self.channel(store, "shared")
        rules = [await self.rule(store, make, name, channels=(shared,)) for name in ("c", "a", "b")]
        other = await self.rule(store, make, "d", namespace=TEAM)
        find = store.notification_rules.find
        page = await find(NotificationRuleQuery(namespace="default", limit=2))
        assert [each.name for each in page] == ["a", "b"]
        assert [each.name for each in await find(NotificationRuleQuery(namespace="default", after_name="b"))] == ["c"]
        assert await find(NotificationRuleQuery(namespace="default", rule_id=rules[0].rule_id)) == [rules[0]]
        assert len(await find(NotificationRuleQuery(namespace="default", channel_id=shared))) == 3
        assert await find(NotificationRuleQuery(namespace=None, channel_id=other.channels[0])) == [other]
        assert len(await find(NotificationRuleQuery(namespace=None))) == 4

    async def test_a_removed_rule_is_silent(self, store: Store, make: Factory) -> None:
        """Its alerts are closed, and its notices that wait are dropped, on record; those of others are as they were."""
        rule, other = await self.rule(store, make), await self.rule(store, make, "other")
        fold = self.fold(*(part(each, make) for each in (rule, other) for part in (self.alert, self.notice)))
        assert await store.alerts.fold(fold)
        assert not await store.notification_rules.remove("elsewhere", rule.rule_id)
        assert await store.notification_rules.remove("default", rule.rule_id, audit=entry(rule.rule_id))
        assert not await store.notification_rules.remove("default", rule.rule_id, audit=entry(rule.rule_id))
        states = {each.rule_id: each.state for each in await self.alerts(store)}
        assert states == {rule.rule_id: AlertState.CLOSED, other.rule_id: AlertState.OPEN}
        notices = {each.rule_id: each.state for each in await self.notices(store)}
        assert notices == {rule.rule_id: NoticeState.DROPPED, other.rule_id: NoticeState.WAITING}
        assert len(await store.audit.find(AuditQuery(namespace="default", limit=10))) == 1

    async def test_a_disabled_rule_is_silent(self, store: Store, make: Factory) -> None:
        """Until it is enabled again."""
        rule = await self.rule(store, make)
        assert await store.alerts.fold(self.fold(self.alert(rule, make), self.notice(rule, make)))
        disabled = await store.notification_rules.change(replace(rule, enabled=False))
        assert disabled is not None
        assert [each.state for each in await self.alerts(store)] == [AlertState.CLOSED]
        assert [each.state for each in await self.notices(store)] == [NoticeState.DROPPED]
        assert await store.alerts.fold(self.fold(self.alert(rule, make), self.notice(rule, make)))
        assert len(await self.alerts(store)) == 1
        await self.ended(store, make)
        assert await self.pending(store) == []
        await store.notification_rules.change(replace(disabled, enabled=True))
        assert await store.alerts.fold(self.fold(self.alert(rule, make)))
        assert len(await self.alerts(store)) == 2

    async def test_a_removed_namespace_leaves_no_rule(self, store: Store, make: Factory) -> None:
        """Nor channels, alerts, notices or events; a later namespace of the name notes none."""
        await open_namespace(store)
        rule = await self.rule(store, make, namespace=TEAM)
        await self.ended(store, make, job=make.job(namespace=TEAM))
        assert await store.alerts.fold(self.fold(self.alert(rule, make), self.notice(rule, make)))
        before = await store.notification_rules.version()
        await begin_removal(store)
        with pytest.raises(Conflict):
            await store.notification_rules.add(replace(rule, rule_id=make.identifier(), name="late"))
        # A scheduler that has read the event before the removal began.
        [event] = await self.pending(store)
        assert await store.alerts.fold(self.fold(self.alert(rule, make, "late"), judged=[event]))
        await drop_all(store)
        assert await store.notification_rules.find(NotificationRuleQuery(namespace=None)) == []
        assert await self.alerts(store, namespace=TEAM) == []
        assert list(await self.notices(store, TEAM)) == []
        after = await store.notification_rules.version()
        assert (after.is_watched, after.version != before.version) == (False, True)
        await self.shift(store, SETTLE_SECONDS + 1.0)
        await drop_all(store)
        assert await store.removals.end(TEAM)
        await open_namespace(store)
        with pytest.raises(NotFound):
            await self.rule(store, make, namespace=TEAM, channels=rule.channels)
        await self.ended(store, make, RunState.FAILED, job=make.job(namespace=TEAM))
        assert await self.pending(store) == []
