"""Notices: taken with a lease, settled by the holder alone, merged while they wait, and sent again by a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tickwise.domain.errors import NotFound
from tickwise.domain.notices.changes import Fold, NoticeChange
from tickwise.domain.notices.rules import (
    MAX_LINES,
    Notice,
    NoticeChannel,
    NoticeChannelKind,
    NoticeEvent,
    NoticeLine,
    NoticeState,
    Severity,
)
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.store import SEND_LEASE_SECONDS, KindBacklog, NoticeQuery, SettledNotice, Store
from tickwise.ports.store.notices import (
    FAILING_OF_NAMESPACE,
    FAILING_SENDS,
    LINGER_SECONDS,
    LINGERING_OF_NAMESPACE,
    SENDS_OF_NAMESPACE,
)
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory

SECRETS: Final = {"url": "https://hooks.example.com/T0/secret", "signing_secret": "whsec_x"}


def channel(make: Factory, name: str = "ops", **fields: Any) -> NoticeChannel:
    """A channel."""
    whole: dict[str, Any] = {
        "channel_id": make.identifier(), "namespace": "default", "name": name,
        "kind": NoticeChannelKind.WEBHOOK, **fields,
    }  # fmt: skip
    return NoticeChannel(**whole)


def line(make: Factory, seconds: float = 0.0, **fields: Any) -> NoticeLine:
    """A failure `seconds` from now."""
    whole: dict[str, Any] = {
        "at": make.now + seconds, "event": NoticeEvent.FAILURE, "severity": Severity.WARNING,
        "subject": str(make.identifier()), "subject_name": "nightly", "run_id": make.identifier(),
        "sentence": "exit status 1", "alert_id": make.identifier(), "labels": {"team": "shop"}, **fields,
    }  # fmt: skip
    return NoticeLine(**whole)


def notice(make: Factory, to: NoticeChannel, **fields: Any) -> Notice:
    """A notice of one failure, due now."""
    whole: dict[str, Any] = {
        "notice_id": make.identifier(), "namespace": to.namespace, "channel_id": to.channel_id, "rule_id": None,
        "rule_name": "failures", "severity": Severity.WARNING, "state": NoticeState.WAITING, "events": 1,
        "first_at": make.now, "last_at": make.now, "lines": (line(make),), "due": make.now - 1.0, **fields,
    }  # fmt: skip
    return Notice(**whole)


class DueNoticesContract(StoreContract):
    """`NoticeStore.add` and `due`."""

    async def test_a_notice_is_found_as_it_was_made(self, store: Store, make: Factory) -> None:
        """One that is added twice is one; its channel must be in its namespace."""
        to = await store.channels.add(channel(make), {})
        fields: dict[str, Any] = {"is_test": True, "is_escalation": True, "severity": Severity.CRITICAL, "events": 7}
        made = notice(make, to, rule_id=make.identifier(), lines=(line(make, -1.0), line(make, run_id=None)), **fields)
        assert await store.notices.add(made) == made
        assert await store.notices.add(replace(made, events=9)) == made
        assert [made] == await store.notices.find(NoticeQuery(namespace="default"))
        for stranger in (replace(to, namespace="*"), channel(make)):
            with pytest.raises(NotFound):
                await store.notices.add(notice(make, stranger))

    async def test_a_due_notice_is_taken_by_one_sender(self, store: Store, other: Store, make: Factory) -> None:
        """Until its lease ends; a try counts when it begins, and the first one is on record."""
        assert (await store.notices.due("one", 9)) == ([], False)
        to = await store.channels.add(channel(make), {})
        made = await store.notices.add(notice(make, to))
        [taken], has_channels = await store.notices.due("one", 9)
        assert (taken.notice_id, taken.tries, has_channels) == (made.notice_id, 1, True)
        assert taken.tried_at is not None
        assert ([], True) == await other.notices.due("two", 9)
        await self.shift(store, SEND_LEASE_SECONDS / 2)
        assert ([], True) == await other.notices.due("two", 9)
        await self.shift(store, SEND_LEASE_SECONDS)
        [again], _ = await other.notices.due("two", 9)
        assert again == replace(taken, tries=2)

    async def test_one_notice_of_a_channel_is_held_at_a_time(self, store: Store, other: Store, make: Factory) -> None:
        """The longest due of each; others of the channel wait until it is settled."""
        busy, free = [await store.channels.add(channel(make, name), {}) for name in ("busy", "free")]
        late, early = [
            await store.notices.add(notice(make, busy, rule_id=make.identifier(), due=make.now - seconds))
            for seconds in (1.0, 5.0)
        ]
        third = await store.notices.add(notice(make, free, due=make.now - 3.0))
        await store.notices.add(notice(make, free, due=make.now + 600.0, rule_id=make.identifier()))
        taken, _ = await store.notices.due("one", 9)
        assert [early.notice_id, third.notice_id] == [each.notice_id for each in taken]
        assert ([], True) == await other.notices.due("two", 9)
        await store.notices.settle("one", [SettledNotice(early.notice_id, NoticeState.DELIVERED)])
        assert [late.notice_id] == [each.notice_id for each in (await other.notices.due("two", 9)).notices]

    async def test_a_look_takes_at_most_as_many_as_it_may(self, store: Store, make: Factory) -> None:
        """The longest due first."""
        channels = [await store.channels.add(channel(make, f"c{number}"), {}) for number in range(5)]
        made = [await store.notices.add(notice(make, to, due=make.now - 9 + at)) for at, to in enumerate(channels)]
        found = []
        for _ in range(4):
            taken = [each.notice_id for each in (await store.notices.due("one", 2)).notices]
            await store.notices.settle("one", [SettledNotice(each, NoticeState.DELIVERED) for each in taken])
            found.append(taken)
        identifiers = [each.notice_id for each in made]
        assert found == [identifiers[:2], identifiers[2:4], identifiers[4:], []]


class FairNoticesContract(StoreContract):
    """`NoticeStore.due`: no namespace, and no channel that fails, holds up others. One test of a channel waits."""

    async def channels(
        self, store: Store, make: Factory, count: int, namespace: str = "default", *, due: float = 1.0
    ) -> list[NoticeChannel]:
        """Channels of a namespace, each with a notice that is due since `due` seconds."""
        if namespace != "default":
            await store.namespaces.add(NewNamespace(name=namespace, display_name=namespace, created_by="ada"))
        made = []
        for number in range(count):
            to = await store.channels.add(channel(make, f"c{number:02}", namespace=namespace), {})
            await store.notices.add(notice(make, to, due=make.now - due + number / 1_000))
            made.append(to)
        return made

    async def taken(self, store: Store, sender: str, limit: int) -> list[Notice]:
        """The notices that a look takes."""
        return list((await store.notices.due(sender, limit)).notices)

    async def fail(self, store: Store, make: Factory, channels: list[NoticeChannel]) -> None:
        """Let the newest try of each channel have failed; a notice of it is due again."""
        for at in range(0, len(channels), SENDS_OF_NAMESPACE):
            held = await self.taken(store, "setup", SENDS_OF_NAMESPACE)
            assert len(held) == len(channels[at : at + SENDS_OF_NAMESPACE])
            await store.notices.settle("setup", [SettledNotice(e.notice_id, NoticeState.DEAD, "away") for e in held])
        for number, to in enumerate(channels):
            await store.notices.add(notice(make, to, due=make.now - 500.0 + number / 1_000))

    async def test_a_namespace_has_a_share_of_what_is_under_way(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Of all senders together: what it has due longer than others does not hold them up."""
        await self.channels(store, make, 30, due=900.0)
        [quick] = await self.channels(store, make, 1, "quick")
        first = await self.taken(store, "one", 16)
        assert ["default"] * SENDS_OF_NAMESPACE + ["quick"] == sorted(each.namespace for each in first)
        assert await self.taken(other, "two", 16) == []
        ended = next(each for each in first if each.channel_id != quick.channel_id)
        await store.notices.settle("one", [SettledNotice(ended.notice_id, NoticeState.DELIVERED)])
        assert ["default"] == [each.namespace for each in await self.taken(other, "two", 16)]

    async def test_what_is_held_for_long_has_no_turn(self, store: Store, other: Store, make: Factory) -> None:
        """Receivers that hang for the first time hold up others of their namespace for two seconds, however many they
        are. So many linger at once, and no more."""
        await self.channels(store, make, 40, due=900.0)
        most, counts = SENDS_OF_NAMESPACE + LINGERING_OF_NAMESPACE, list[int]()
        while sum(counts) < most:
            counts.append(len(await self.taken(store, "one", 16)))
            assert await self.taken(other, "two", 16) == []
            await self.shift(store, LINGER_SECONDS + 0.1)
        assert counts == [SENDS_OF_NAMESPACE] * (most // SENDS_OF_NAMESPACE)
        assert await self.taken(other, "two", 16) == []

    async def test_channels_that_failed_and_linger_have_no_turn(self, store: Store, make: Factory) -> None:
        """One that hangs again holds up others that failed for two seconds."""
        await self.fail(store, make, await self.channels(store, make, 8))
        for _ in range(3):
            assert len(await self.taken(store, "one", 16)) == FAILING_OF_NAMESPACE
            await self.shift(store, LINGER_SECONDS + 0.1)

    async def test_namespaces_take_turns(self, store: Store, make: Factory) -> None:
        """The one with the fewest under way comes first, though its notice is due for the shortest time."""
        for namespace, due in (("team-a", 900.0), ("team-b", 600.0), ("team-c", 1.0)):
            await self.channels(store, make, 4, namespace, due=due)
        found = [sorted(each.namespace for each in await self.taken(store, "one", 3)) for _ in range(4)]
        assert found == [["team-a", "team-b", "team-c"]] * 4

    async def test_a_channel_that_failed_comes_after_others(self, store: Store, make: Factory) -> None:
        """And few of them are under way at once; one that delivers is as others again."""
        ill = await self.channels(store, make, 12)
        await self.fail(store, make, ill)
        well = [await store.channels.add(channel(make, f"well{number}"), {}) for number in range(3)]
        for to in well:
            await store.notices.add(notice(make, to))
        first = await self.taken(store, "one", 2)
        assert {each.channel_id for each in first} <= {each.channel_id for each in well}
        second = await self.taken(store, "one", 16)
        assert {each.channel_id for each in [*first, *second]} == {each.channel_id for each in [*well, ill[0]]}
        for each in [*first, *second]:
            await store.notices.settle("one", [SettledNotice(each.notice_id, NoticeState.DELIVERED)])
        assert len(await self.taken(store, "one", 16)) == FAILING_OF_NAMESPACE
        await store.notices.add(notice(make, ill[0]))
        assert [ill[0].channel_id] == [each.channel_id for each in await self.taken(store, "one", 16)]

    async def test_channels_that_failed_share_a_part_of_a_senders_turns(self, store: Store, make: Factory) -> None:
        """Those of all namespaces together."""
        for namespace in ("team-a", "team-b", "team-c"):
            await self.fail(store, make, await self.channels(store, make, 4, namespace))
        assert len(await self.taken(store, "one", 16)) == FAILING_SENDS
        assert await self.taken(store, "one", 16) == []
        assert len(await self.taken(store, "two", 16)) == 2

    async def test_one_test_of_a_channel_waits(self, store: Store, other: Store, make: Factory) -> None:
        """A second one is the first: made anew if it failed before, as it is while it is under way."""
        [to, beside] = await self.channels(store, make, 2, due=-900.0)
        first = await store.notices.add(notice(make, to, is_test=True))
        assert (await other.notices.add(notice(make, to, is_test=True))).notice_id == first.notice_id
        assert (await store.notices.add(notice(make, beside, is_test=True))).notice_id != first.notice_id
        held = await self.taken(store, "one", 9)
        assert len(held) == 2
        under_way = await other.notices.add(notice(make, to, is_test=True))
        assert (under_way.notice_id, under_way.tries) == (first.notice_id, 1)
        waits = SettledNotice(first.notice_id, NoticeState.WAITING, "away", 600.0)
        await store.notices.settle("one", [waits])
        assert await self.taken(store, "one", 9) == []
        anew = await other.notices.add(notice(make, to, is_test=True))
        assert (anew.notice_id, anew.tries, anew.error, anew.tried_at) == (first.notice_id, 0, None, None)
        assert [first.notice_id] == [each.notice_id for each in await self.taken(store, "one", 9)]
        await store.notices.settle("one", [SettledNotice(first.notice_id, NoticeState.DELIVERED)])
        assert (await store.notices.add(notice(make, to, is_test=True))).notice_id != first.notice_id


class SettledNoticesContract(StoreContract):
    """`NoticeStore.settle`, `again` and `find`."""

    async def taken(self, store: Store, make: Factory, **fields: Any) -> Notice:
        """A notice that the sender `one` holds."""
        to = await store.channels.add(channel(make), {})
        await store.notices.add(notice(make, to, **fields))
        [taken], _ = await store.notices.due("one", 1)
        return taken

    async def found(self, store: Store, **fields: Any) -> list[Notice]:
        """The notices of the namespace."""
        return list(await store.notices.find(NoticeQuery(namespace="default", **fields)))

    async def test_the_backlog_is_what_should_have_been_delivered(self, store: Store, make: Factory) -> None:
        """By the kind of the channel: due ones and those that were tried, not those of a group or of quiet hours. A
        channel fails from a failed try to the next delivery."""
        none = dict.fromkeys(NoticeChannelKind, KindBacklog(0, 0.0, 0))
        assert none == await store.notices.backlog()
        taken = await self.taken(store, make)
        mail = await store.channels.add(channel(make, "mail", kind=NoticeChannelKind.EMAIL), {})
        await store.notices.add(notice(make, mail, due=make.now + 3_600.0))
        await store.notices.add(notice(make, mail, rule_id=make.identifier(), due=make.now - 600.0))
        away = SettledNotice(taken.notice_id, NoticeState.WAITING, "500", 900.0, rest_seconds=900.0)
        await store.notices.settle("one", [away])
        await self.shift(store, 60.0)
        found = await store.notices.backlog()
        assert found.keys() == none.keys()
        hook, mails = found[NoticeChannelKind.WEBHOOK], found[NoticeChannelKind.EMAIL]
        assert ((1, 1), (1, 0)) == ((hook.waiting, hook.failing), (mails.waiting, mails.failing))
        assert (hook.resting, mails.resting) == (1, 0)
        assert 60.0 <= hook.oldest_seconds < 160.0
        assert 660.0 <= mails.oldest_seconds < 760.0
        await self.shift(store, 900.0)
        for each in (await store.notices.due("one", 5)).notices:
            await store.notices.settle("one", [SettledNotice(each.notice_id, NoticeState.DELIVERED)])
        assert none == await store.notices.backlog()

    async def test_the_outcome_of_a_try_is_on_record_at_its_channel(self, store: Store, make: Factory) -> None:
        """The newest delivery, the newest failure and what was said then."""
        taken = await self.taken(store, make)
        waits = SettledNotice(taken.notice_id, NoticeState.WAITING, "500: oops", 30.0)
        await store.notices.settle("one", [waits])
        [failed] = await store.channels.find("default")
        assert (failed.delivered_at, failed.error, failed.version) == (None, "500: oops", 1)
        assert failed.failed_at is not None
        [row] = await self.found(store)
        assert row == replace(taken, error="500: oops", due=row.due)
        assert 20.0 < row.due - make.now < 90.0
        assert ([], True) == await store.notices.due("one", 1)
        await self.shift(store, 31.0)
        [again], _ = await store.notices.due("two", 1)
        assert (again.tries, again.tried_at) == (2, taken.tried_at)
        await store.notices.settle("two", [SettledNotice(taken.notice_id, NoticeState.DELIVERED)])
        [sent] = await store.channels.find("default")
        assert sent == replace(failed, delivered_at=sent.delivered_at)
        assert sent.delivered_at is not None
        [row] = await self.found(store)
        assert (row.state, row.error) == (NoticeState.DELIVERED, None)
        assert row.ended_at is not None

    async def test_a_channel_whose_tries_fail_rests(self, store: Store, make: Factory) -> None:
        """Notices of other rules that are due wait too, but a test does not. A test that fails changes nothing."""
        taken = await self.taken(store, make, rule_id=make.identifier())
        [to] = await store.channels.find("default")
        rests = SettledNotice(taken.notice_id, NoticeState.WAITING, "away", 1.0, rest_seconds=60.0)
        await store.notices.settle("one", [rests])
        await store.notices.add(notice(make, to, rule_id=make.identifier()))
        await self.shift(store, 2.0)
        assert (await store.notices.due("one", 9)).notices == []
        [failing] = await store.channels.find("default")
        assert failing.failures == 1
        assert failing.again_at is not None
        assert 30.0 < failing.again_at - await store.now() < 60.0
        test = await store.notices.add(notice(make, to, is_test=True))
        [found], _ = await store.notices.due("one", 9)
        assert found.notice_id == test.notice_id
        await store.notices.settle("one", [rests._replace(notice_id=test.notice_id, again_seconds=600.0)])
        [same] = await store.channels.find("default")
        assert (same.failures, same.again_at) == (1, failing.again_at)
        await self.shift(store, 60.0)
        assert len((await store.notices.due("one", 9)).notices) == 1

    async def test_a_channel_that_takes_messages_again_gets_what_waits(self, store: Store, make: Factory) -> None:
        """Without the pauses of the others; also one that was changed, or for which a person sends a notice again."""
        taken = [await self.taken(store, make, rule_id=make.identifier())]
        [to] = await store.channels.find("default")
        away = SettledNotice(taken[0].notice_id, NoticeState.WAITING, "away", 900.0, rest_seconds=1.0)
        await store.notices.settle("one", [away])
        await self.shift(store, 2.0)
        await store.notices.add(notice(make, to, rule_id=make.identifier()))
        [other], _ = await store.notices.due("one", 9)
        await store.notices.settle("one", [SettledNotice(other.notice_id, NoticeState.DELIVERED)])
        [well] = await store.channels.find("default")
        assert (well.failures, well.again_at) == (0, None)
        [again], _ = await store.notices.due("one", 9)
        assert again.notice_id == taken[0].notice_id
        await store.notices.settle("one", [away._replace(rest_seconds=900.0)])
        changed = await store.channels.change(replace(well, name="renamed"), None)
        assert changed is not None
        assert (changed.failures, changed.again_at) == (0, None)
        [again], _ = await store.notices.due("one", 9)
        await store.notices.settle("one", [SettledNotice(again.notice_id, NoticeState.DEAD, "410")])
        await store.notices.add(notice(make, to, rule_id=make.identifier()))
        [other], _ = await store.notices.due("one", 9)
        await store.notices.settle("one", [away._replace(notice_id=other.notice_id, rest_seconds=900.0)])
        assert (await store.notices.due("one", 9)).notices == []
        await store.notices.again("default", again.notice_id)
        assert [again.notice_id] == [each.notice_id for each in (await store.notices.due("one", 9)).notices]

    async def test_a_channel_that_is_slow_comes_after_others(self, store: Store, make: Factory) -> None:
        """As one that failed, until a try is quick."""
        taken = await self.taken(store, make)
        await store.notices.settle("one", [SettledNotice(taken.notice_id, NoticeState.DELIVERED, was_slow=True)])
        [slow] = await store.channels.find("default")
        assert slow.is_slow
        quick = await store.channels.add(channel(make, "quick"), SECRETS)
        await store.notices.add(notice(make, slow, rule_id=make.identifier(), due=make.now - 60.0))
        await store.notices.add(notice(make, quick, rule_id=make.identifier()))
        [first], _ = await store.notices.due("one", 1)
        assert first.channel_id == quick.channel_id
        [second], _ = await store.notices.due("one", 1)
        await store.notices.settle("one", [SettledNotice(second.notice_id, NoticeState.DELIVERED)])
        found = {each.name: each.is_slow for each in await store.channels.find("default")}
        assert found == {slow.name: False, "quick": False}

    async def test_a_notice_that_had_no_turn_was_not_tried(self, store: Store, make: Factory) -> None:
        """Its tries and its error are as before, and nothing is noted at its channel."""
        taken = await self.taken(store, make)
        untried = SettledNotice(taken.notice_id, NoticeState.WAITING, again_seconds=30.0, was_tried=False)
        await store.notices.settle("one", [untried])
        [row] = await self.found(store)
        assert row == replace(taken, tries=0, tried_at=None, due=row.due)
        assert 20.0 < row.due - make.now < 90.0
        [to] = await store.channels.find("default")
        assert (to.failed_at, to.delivered_at, to.error) == (None, None, None)
        await self.shift(store, 31.0)
        [first], _ = await store.notices.due("one", 1)
        await store.notices.settle("one", [SettledNotice(taken.notice_id, NoticeState.WAITING, "away", 1.0)])
        await self.shift(store, 2.0)
        await store.notices.due("one", 1)
        await store.notices.settle("one", [untried])
        [row] = await self.found(store)
        assert (row.tries, row.tried_at, row.error) == (1, first.tried_at, "away")

    async def test_the_holder_alone_settles(self, store: Store, other: Store, make: Factory) -> None:
        """One whose lease ended finds that another sender has it, and changes nothing; neither does a stranger."""
        taken = await self.taken(store, make)
        delivered = SettledNotice(taken.notice_id, NoticeState.DELIVERED)
        await store.notices.settle("stranger", [delivered])
        assert [NoticeState.WAITING] == [each.state for each in await self.found(store)]
        await self.shift(store, SEND_LEASE_SECONDS + 1.0)
        await other.notices.due("two", 1)
        await store.notices.settle("one", [delivered])
        assert [NoticeState.WAITING] == [each.state for each in await self.found(store)]
        await other.notices.settle("two", [SettledNotice(taken.notice_id, NoticeState.DEAD, "410: gone")])
        await other.notices.settle("two", [delivered])
        [row] = await self.found(store)
        assert (row.state, row.error) == (NoticeState.DEAD, "410: gone")

    async def test_what_waits_is_merged_into_one_that_is_tried_again(self, store: Store, make: Factory) -> None:
        """Of the same channel and rule; not a test, not an escalation, not another rule's."""
        rule = make.identifier()
        old = tuple(line(make, -100.0 + number) for number in range(MAX_LINES))
        taken = await self.taken(store, make, rule_id=rule, events=40, lines=old, first_at=make.now - 100.0)
        to = (await store.channels.find("default"))[0]
        fresh = (line(make, 5.0),)
        fields: dict[str, Any] = {"severity": Severity.CRITICAL, "events": 100_000, "lines": fresh}
        joins = notice(make, to, rule_id=rule, last_at=make.now + 5.0, due=make.now + 60.0, rule_name="new", **fields)
        rest = [
            notice(make, to, rule_id=rule, is_test=True),
            notice(make, to, rule_id=rule, is_escalation=True),
            notice(make, to, rule_id=None),
        ]
        for each in (joins, *rest):
            await store.notices.add(each)
        await store.notices.settle("one", [SettledNotice(taken.notice_id, NoticeState.WAITING, "away", 1.0)])
        found = {each.notice_id: each for each in await self.found(store)}
        assert found.keys() == {taken.notice_id, *(each.notice_id for each in rest)}
        whole = found[taken.notice_id]
        assert (whole.events, whole.severity, whole.rule_name) == (100_040, Severity.CRITICAL, "new")
        assert (whole.first_at, whole.last_at) == (make.now - 100.0, make.now + 5.0)
        assert list(whole.lines) == [*old[1:], *fresh]
        assert (whole.tries, whole.tried_at, whole.error) == (1, taken.tried_at, "away")

    async def test_who_has_a_notice_is_on_record_until_events_join_it(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Another sender sees it, also after a try without a turn, and of a dead one that a person sends again."""
        taken, has = await self.taken(store, make), ("ada@example.com", "alan@example.com")
        waits = SettledNotice(taken.notice_id, NoticeState.WAITING, "451", 0.0, served=has)
        await store.notices.settle("one", [waits])
        [again], _ = await other.notices.due("two", 9)
        assert (again.notice_id, again.served) == (taken.notice_id, has)
        await other.notices.settle("two", [SettledNotice(taken.notice_id, NoticeState.WAITING, was_tried=False)])
        [again], _ = await store.notices.due("one", 9)
        assert again.served == has
        await store.notices.settle("one", [SettledNotice(taken.notice_id, NoticeState.DEAD, "451", served=has)])
        dead = await store.notices.again("default", taken.notice_id)
        assert dead is not None
        assert dead.served == has
        change = NoticeChange(
            notice_id=make.identifier(), namespace="default", channel_id=taken.channel_id, rule_id=taken.rule_id,
            rule_name="failures", severity=Severity.WARNING, events=2, first_at=make.now, last_at=make.now,
            lines=(line(make),), due=make.now - 1.0,
        )  # fmt: skip
        assert await store.alerts.fold(Fold("default", (), (), (change,)))
        assert [(3, ())] == [(each.events, tuple(each.served)) for each in await self.found(store)]
        [again], _ = await store.notices.due("one", 9)
        await store.notices.add(notice(make, (await store.channels.find("default"))[0], rule_id=taken.rule_id))
        await store.notices.settle("one", [waits])
        assert [(4, ())] == [(each.events, tuple(each.served)) for each in await self.found(store)]

    async def test_a_dead_notice_is_sent_again_when_a_person_asks(self, store: Store, make: Factory) -> None:
        """Its tries are counted anew, and what waits joins it. One that is not dead, or has no channel, is not."""
        taken = await self.taken(store, make)
        assert await store.notices.again("default", taken.notice_id) is None
        await store.notices.settle("one", [SettledNotice(taken.notice_id, NoticeState.DEAD, "gone")])
        to = (await store.channels.find("default"))[0]
        await store.notices.add(notice(make, to, events=5))
        assert await store.notices.again("*", taken.notice_id) is None
        waits = await store.notices.again("default", taken.notice_id)
        assert waits is not None
        assert (waits.state, waits.tries, waits.tried_at, waits.events) == (NoticeState.WAITING, 0, None, 6)
        assert [waits] == await self.found(store)
        [again], _ = await store.notices.due("two", 9)
        assert (again.notice_id, again.tries, again.ended_at) == (taken.notice_id, 1, None)
        await store.notices.settle("two", [SettledNotice(taken.notice_id, NoticeState.DEAD, "gone")])
        await store.channels.remove("default", to.channel_id)
        assert await store.notices.again("default", taken.notice_id) is None

    async def test_notices_are_found_newest_first(self, store: Store, make: Factory) -> None:
        """By state, channel, rule and id, page by page."""
        to, night = [await store.channels.add(channel(make, name), {}) for name in ("ops", "night")]
        rules = [make.identifier() for _ in range(3)]
        made = [await store.notices.add(notice(make, to, rule_id=rule)) for rule in rules]
        made.append(await store.notices.add(notice(make, night)))
        newest = sorted((each.notice_id for each in made), reverse=True)
        assert [each.notice_id for each in await self.found(store)] == newest
        assert [each.notice_id for each in await self.found(store, limit=2)] == newest[:2]
        assert [each.notice_id for each in await self.found(store, before=newest[1])] == newest[2:]
        assert [made[3]] == await self.found(store, channel_id=night.channel_id)
        assert [made[1]] == await self.found(store, rule_id=rules[1])
        assert [made[1]] == await self.found(store, notice_id=made[1].notice_id)
        assert [] == await self.found(store, states=[NoticeState.DEAD])
        assert [] == await store.notices.find(NoticeQuery(namespace="*"))

    async def test_events_that_come_while_a_notice_waits_for_another_try_do_not_hurry_it(
        self, store: Store, make: Factory
    ) -> None:
        """They join it. While it is held they make another, which joins it when it waits again."""
        taken = await self.taken(store, make)
        change = NoticeChange(
            notice_id=make.identifier(), namespace="default", channel_id=taken.channel_id, rule_id=None,
            rule_name="failures", severity=Severity.WARNING, events=2, first_at=make.now, last_at=make.now,
            lines=(line(make),), due=make.now - 1.0,
        )  # fmt: skip
        assert await store.alerts.fold(Fold("default", (), (), (change,)))
        assert len(await self.found(store)) == 2
        await store.notices.settle("one", [SettledNotice(taken.notice_id, NoticeState.WAITING, "away", 600.0)])
        assert [3] == [each.events for each in await self.found(store)]
        assert await store.alerts.fold(Fold("default", (), (), (change._replace(notice_id=make.identifier()),)))
        [waits] = await self.found(store)
        assert (waits.notice_id, waits.events, len(waits.lines)) == (taken.notice_id, 5, 3)
        assert ([], True) == await store.notices.due("two", 1)
        await self.shift(store, 601.0)
        assert [taken.notice_id] == [each.notice_id for each in (await store.notices.due("two", 1)).notices]

    async def test_a_notice_of_a_channel_that_is_gone_is_dropped(self, store: Store, make: Factory) -> None:
        """Rules may have been asked while it was removed."""
        taken = await self.taken(store, make)
        await store.notices.settle("one", [SettledNotice(taken.notice_id, NoticeState.DROPPED)])
        assert [NoticeState.DROPPED] == [each.state for each in await self.found(store)]
