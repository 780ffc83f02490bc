"""The delivery of notices: at least once, in turn for each channel, again after a pause, dead after a day."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.support.receivers import mail_sink, receiver
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.adapters.senders.http_delivery import HttpDelivery
from tickwise.adapters.senders.mail import EmailSender, InstallationMail
from tickwise.adapters.senders.webhook import WebhookSender
from tickwise.adapters.store.memory import MemoryStore
from tickwise.documents.channel_secrets import sealed_secrets
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.messages import notice_text
from tickwise.domain.notices.rules import Notice, NoticeChannel, NoticeChannelKind, NoticeState
from tickwise.observability.metrics import Metrics
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.senders import ChannelSender, DeliveryOutcome, DeliveryResult, NoticeMessage
from tickwise.ports.store import SEND_LEASE_SECONDS, NoticeQuery, SettledNotice
from tickwise.ports.store.notices import LINGER_SECONDS, SENDS_OF_NAMESPACE
from tickwise.roles.scheduler.notice_delivery import (
    GIVE_UP_SECONDS,
    IDLE_SECONDS,
    LOOK_SECONDS,
    PAUSE_MAX_SECONDS,
    SENDS,
    UNDER_WAY,
    NoticeDelivery,
    pause_seconds,
)
from tickwise.roles.scheduler.queue_counts import COUNT_SECONDS, QueueCounts
from tickwise.testing.clock import VirtualClock
from tickwise.testing.contracts.store.notices.deliveries import SECRETS, channel, notice
from tickwise.testing.factories import Factory

HOUR = 3_600.0
SECRET = "T0AAAA/B0BBBB/verysecrettoken"


class Scripted(ChannelSender):
    """A sender that answers as it is told, by the name of the channel."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Notice]] = []
        self.secrets: list[Mapping[str, str]] = []
        self.says: dict[str, DeliveryResult | Exception] = {}
        self.holds: dict[str, asyncio.Event] = {}
        self.is_closed = False
        self.loads = 0

    async def load(self) -> None:
        """Count it."""
        self.loads += 1

    async def send(
        self, channel: NoticeChannel, secrets: Mapping[str, str], message: NoticeMessage, *, timeout: float
    ) -> DeliveryResult:
        """One try."""
        self.sent.append((channel.name, message.notice))
        self.secrets.append(secrets)
        if channel.name in self.holds:
            await self.holds[channel.name].wait()
        said = self.says.get(channel.name, DeliveryResult(DeliveryOutcome.DELIVERED))
        if isinstance(said, Exception):
            raise said
        return said

    async def close(self) -> None:
        """Note it."""
        self.is_closed = True


class Delivery:
    """A store in memory, a clock in hand, and the delivery of one scheduler after the other."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.make = Factory(self.clock.now(), seed="delivery")
        self.sender = Scripted()
        self.metrics = Metrics()
        self.delivery = self.scheduler("one")

    def scheduler(
        self,
        name: str,
        senders: Mapping[NoticeChannelKind, ChannelSender] | None = None,
        sealer: EnvelopeSealer | None = None,
    ) -> NoticeDelivery:
        """The delivery of a scheduler."""
        return NoticeDelivery(
            self.store.notices,
            self.store.channels,
            senders or dict.fromkeys(NoticeChannelKind, self.sender),
            words=notice_text,
            now=self.store.now,
            clock=self.clock,
            name=name,
            tried=self.metrics.notice_tried,
            sealer=sealer,
        )

    async def channel(
        self, name: str = "ops", secrets: Mapping[str, str] | None = None, **fields: Any
    ) -> NoticeChannel:
        """A channel."""
        return await self.store.channels.add(channel(self.make, name, **fields), secrets or {})

    async def notice(self, to: NoticeChannel, **fields: Any) -> Notice:
        """A notice that is due."""
        return await self.store.notices.add(notice(self.make, to, rule_id=self.make.identifier(), **fields))

    async def round(self) -> float:
        """One look, and the end of what it began."""
        pause = await self.delivery.step()
        await self.delivery.finish()
        return pause

    async def found(self) -> list[Notice]:
        """All notices."""
        return list(await self.store.notices.find(NoticeQuery(namespace="default")))

    async def states(self) -> list[NoticeState]:
        """Their states, the newest first."""
        return [each.state for each in await self.found()]


@pytest.fixture
async def rig() -> AsyncIterator[Delivery]:
    """Nothing is there yet."""
    made = Delivery()
    yield made
    await made.delivery.close()


async def test_a_due_notice_is_delivered_at_the_next_look(rig: Delivery) -> None:
    """Looks are rare while there is no channel."""
    assert await rig.round() == IDLE_SECONDS
    to = await rig.channel()
    assert await rig.round() == LOOK_SECONDS
    made = await rig.notice(to)
    with capture_logs() as lines:
        await rig.round()
    assert [("ops", made.notice_id)] == [(name, each.notice_id) for name, each in rig.sender.sent]
    assert [NoticeState.DELIVERED] == await rig.states()
    assert ["notice_delivered"] == [line["event"] for line in lines]
    await rig.delivery.close()
    assert rig.sender.is_closed
    assert (await rig.store.channels.find("default"))[0].delivered_at == rig.clock.now()


async def test_libraries_are_loaded_once_there_is_a_channel(rig: Delivery) -> None:
    """Before its first notice, and once."""
    await rig.round()
    assert rig.sender.loads == 0
    await rig.channel()
    for _ in range(2):
        await rig.round()
    assert rig.sender.loads == len(NoticeChannelKind)


async def test_a_channel_that_hangs_holds_up_no_other(rig: Delivery) -> None:
    """And its own notices go one after the other; the end of one brings the next look."""
    slow, quick = await rig.channel("slow"), await rig.channel("quick")
    rig.sender.holds["slow"] = asyncio.Event()
    for to in (slow, slow, quick, quick):
        await rig.notice(to)
    for _ in range(3):
        await rig.delivery.step()
        await rig.clock.settle()
    assert ["quick", "quick", "slow"] == sorted(name for name, _ in rig.sender.sent)
    rig.delivery.wake.clear()
    rig.sender.holds["slow"].set()
    await rig.delivery.finish()
    assert rig.delivery.wake.is_set()
    await rig.round()
    assert [NoticeState.DELIVERED] * 4 == await rig.states()


async def test_a_bounded_number_is_under_way_at_once(rig: Delivery) -> None:
    """More wait for their turn."""
    names = [f"c{number:02}" for number in range(SENDS + 4)]
    rig.sender.holds = {name: asyncio.Event() for name in names}
    for number, name in enumerate(names):
        namespace = f"team-{number // SENDS_OF_NAMESPACE}"
        if number % SENDS_OF_NAMESPACE == 0:
            await rig.store.namespaces.add(NewNamespace(name=namespace, display_name=namespace, created_by="ada"))
        await rig.notice(await rig.channel(name, namespace=namespace))
    for _ in range(2):
        await rig.delivery.step()
        await rig.clock.settle()
    assert len(rig.sender.sent) == SENDS
    for hold in rig.sender.holds.values():
        hold.set()
    await rig.delivery.finish()
    await rig.round()
    assert sorted(name for name, _ in rig.sender.sent) == names


async def test_what_hangs_leaves_its_turn_and_is_bounded_all_the_same(rig: Delivery) -> None:
    """Receivers of many namespaces that hang for the first time: each has a turn for two seconds."""
    for number in range(UNDER_WAY + 2 * SENDS):
        namespace = f"team-{number // SENDS_OF_NAMESPACE}"
        if number % SENDS_OF_NAMESPACE == 0:
            await rig.store.namespaces.add(NewNamespace(name=namespace, display_name=namespace, created_by="ada"))
        to = await rig.channel(f"c{number:03}", namespace=namespace)
        rig.sender.holds[to.name] = asyncio.Event()
        await rig.notice(to)
    counts = []
    for _ in range(UNDER_WAY // SENDS + 1):
        await rig.delivery.step()
        await rig.delivery.step()
        await rig.clock.settle()
        counts.append(len(rig.sender.sent))
        await rig.clock.advance(LINGER_SECONDS + 0.1)
    assert counts == [*range(SENDS, UNDER_WAY + 1, SENDS), UNDER_WAY]
    for hold in rig.sender.holds.values():
        hold.set()
    await rig.delivery.finish()


async def test_a_namespace_whose_channels_hang_holds_up_no_other(rig: Delivery) -> None:
    """Thirty channels with four notices each, that are due longer: the notice of another one goes at the next look."""
    rig.sender.holds = {f"hangs{number:02}": asyncio.Event() for number in range(30)}
    for name in rig.sender.holds:
        to = await rig.channel(name)
        for _ in range(4):
            await rig.notice(to)
    await rig.delivery.step()
    await rig.clock.settle()
    await rig.store.namespaces.add(NewNamespace(name="shop", display_name="shop", created_by="ada"))
    await rig.notice(await rig.channel("quick", namespace="shop"))
    await rig.delivery.step()
    await rig.clock.settle()
    assert ["quick"] == [name for name, _ in rig.sender.sent if name not in rig.sender.holds]


async def test_a_failed_try_is_repeated_after_growing_pauses(rig: Delivery) -> None:
    """No earlier than the receiver asks for; after a day the notice is dead, and a person can send it again."""
    made = await rig.notice(await rig.channel())
    rig.sender.says["ops"] = DeliveryResult(DeliveryOutcome.LATER, "503", 120.0)
    await rig.round()
    [waits] = await rig.found()
    assert waits.due == rig.clock.now() + 120.0
    rig.sender.says["ops"] = DeliveryResult(DeliveryOutcome.LATER, "503")
    begun, gaps = rig.clock.now(), []
    while (state := (await rig.found())[0]).state is NoticeState.WAITING:
        gaps.append(state.due - rig.clock.now())
        await rig.clock.advance(gaps[-1] + 0.001)
        await rig.round()
    assert max(gaps) <= PAUSE_MAX_SECONDS
    assert gaps[1] < gaps[4] < gaps[8]
    assert GIVE_UP_SECONDS <= rig.clock.now() - begun < GIVE_UP_SECONDS + PAUSE_MAX_SECONDS
    assert (await rig.found())[0].state is NoticeState.DEAD
    assert len(rig.sender.sent) > 95
    rig.sender.says = {}
    assert await rig.store.notices.again("default", made.notice_id) is not None
    await rig.round()
    assert [NoticeState.DELIVERED] == await rig.states()


@pytest.mark.parametrize(("tries", "most"), [(1, 5.0), (2, 10.0), (5, 80.0), (9, 900.0), (10_000, 900.0)])
def test_a_pause_doubles_up_to_a_quarter_of_an_hour(tries: int, most: float) -> None:
    """It is drawn between half of it and all of it."""
    assert (pause_seconds(tries, 0.0), pause_seconds(tries, 1.0)) == (most / 2, most)


async def test_a_refused_notice_is_dead_at_once(rig: Delivery) -> None:
    """On record, with the reason."""
    await rig.notice(await rig.channel())
    rig.sender.says["ops"] = DeliveryResult(DeliveryOutcome.REFUSED, "410: gone")
    with capture_logs() as lines:
        await rig.round()
    [dead] = await rig.found()
    assert (dead.state, dead.error) == (NoticeState.DEAD, "410: gone")
    assert ["notice_dead"] == [line["event"] for line in lines]


async def test_a_notice_that_had_no_turn_waits_untried(rig: Delivery) -> None:
    """Nothing is told of it; it goes a second later."""
    await rig.notice(await rig.channel())
    rig.sender.says["ops"] = DeliveryResult(DeliveryOutcome.UNTRIED)
    with capture_logs() as lines:
        await rig.round()
    [waits] = await rig.found()
    assert (waits.state, waits.tries, waits.error, lines) == (NoticeState.WAITING, 0, None, [])
    rig.sender.says = {}
    await rig.clock.advance(1.0)
    await rig.round()
    assert [NoticeState.DELIVERED] == await rig.states()


async def test_a_sender_that_breaks_is_a_failed_try(rig: Delivery) -> None:
    """Its error may hold a secret, so its kind alone is told."""
    await rig.notice(await rig.channel())
    rig.sender.says["ops"] = RuntimeError(f"https://hooks/{SECRET}")
    with capture_logs() as lines:
        await rig.round()
    [waits] = await rig.found()
    assert (waits.state, waits.error) == (NoticeState.WAITING, "the sender failed: RuntimeError")
    assert SECRET not in str(lines)
    await rig.clock.advance(PAUSE_MAX_SECONDS)
    rig.delivery = rig.scheduler("none", {NoticeChannelKind.EMAIL: rig.sender})
    await rig.round()
    assert "no sender" in str((await rig.found())[0].error)


async def test_an_outcome_is_recorded_when_the_store_is_back(rig: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not delivered again for that."""
    await rig.notice(await rig.channel())
    settle, away = rig.store.notices.settle, [StoreUnavailable("away")] * 5

    async def settles(sender: str, results: list[SettledNotice]) -> None:
        if away:
            raise away.pop()
        await settle(sender, results)

    monkeypatch.setattr(rig.store.notices, "settle", settles)
    await rig.delivery.step()
    await rig.clock.advance(10.0)
    await rig.delivery.finish()
    assert [NoticeState.DELIVERED] == await rig.states()
    assert len(rig.sender.sent) == 1


async def test_a_sender_that_is_killed_after_a_delivery_delivers_again_under_the_same_id(rig: Delivery) -> None:
    """A real receiver knows by `webhook-id` that it has seen it. The next scheduler does it once the lease is over."""
    async with receiver() as at:
        fields, secrets = channel_fields(NoticeChannelKind.WEBHOOK, {"url": f"{at.url}/{SECRET}"}, random=bytes(32))
        to = await rig.channel("hook", secrets, settings=fields, allow_private=True)
        await rig.notice(to)
        for name in ("killed", "next"):
            webhook = WebhookSender(HttpDelivery())
            scheduler = rig.scheduler(name, {NoticeChannelKind.WEBHOOK: webhook})
            if name == "killed":
                scheduler._record = asyncio.Event().wait  # type: ignore[method-assign, assignment]  # it never gets there
                await scheduler.step()
                await at.arrived.wait()
                await scheduler.close()
                await scheduler.finish()
                assert [NoticeState.WAITING] == await rig.states()
                await rig.clock.advance(SEND_LEASE_SECONDS - 1.0)
            else:
                await scheduler.step()
                assert len(at.got) == 1
                await rig.clock.advance(1.0)
                await scheduler.step()
                await scheduler.finish()
                await scheduler.close()
    assert [NoticeState.DELIVERED] == await rig.states()
    first, second = at.got
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


async def test_what_a_mail_server_missed_for_an_hour_comes_as_one_mail(rig: Delivery) -> None:
    """With all that happened meanwhile, counted."""
    fields, _ = channel_fields(NoticeChannelKind.EMAIL, {"to": ["ada@example.com"]})
    to = await rig.channel("mail", kind=NoticeChannelKind.EMAIL, settings=fields)
    rule = rig.make.identifier()
    async with mail_sink() as sink:
        port = sink.port
    mails = {NoticeChannelKind.EMAIL: EmailSender(InstallationMail(f"smtp://127.0.0.1:{port}", "t@example.com"))}
    rig.delivery = rig.scheduler("mails", mails)
    await rig.store.notices.add(notice(rig.make, to, rule_id=rule))
    begun, added = rig.clock.now(), 1
    with capture_logs() as lines:
        while rig.clock.now() < begun + HOUR:
            await rig.delivery.step()
            # While it is under way, more happens: a notice of its own, which joins the first.
            await rig.store.notices.add(replace(notice(rig.make, to, rule_id=rule), events=100))
            added += 100
            await rig.delivery.finish()
            waits = [each for each in await rig.found() if each.state is NoticeState.WAITING]
            assert len(waits) == 1
            await rig.clock.advance(waits[0].due - rig.clock.now() + 0.001)
    assert {"notice_delayed"} == {line["event"] for line in lines}
    async with mail_sink(port=port) as sink:
        await rig.round()
    [mail] = sink.mails
    body = mail.message.get_body(("plain",))
    assert body is not None
    assert f"{added:,} events since" in body.get_content()
    assert [NoticeState.DELIVERED] == await rig.states()


async def test_no_secret_is_in_a_log_line(rig: Delivery) -> None:
    """Nor on record: whatever a receiver answers."""
    async with receiver() as at:
        url = f"{at.url}/services/{SECRET}"
        fields, secrets = channel_fields(NoticeChannelKind.WEBHOOK, {"url": url}, random=bytes(range(32)))
        await rig.notice(await rig.channel("hook", secrets, settings=fields, allow_private=True))
        at.says, at.text = [500, 500, 410], f"{url} {json.dumps(dict(secrets))}"
        webhook = WebhookSender(HttpDelivery())
        rig.delivery = rig.scheduler("one", {NoticeChannelKind.WEBHOOK: webhook})
        with capture_logs() as lines:
            for _ in range(3):
                await rig.round()
                await rig.clock.advance(PAUSE_MAX_SECONDS)
        await rig.delivery.close()
    rig.delivery = rig.scheduler("end")
    told = f"{lines} {await rig.found()} {await rig.store.channels.find('default')}"
    assert ["notice_delayed", "notice_delayed", "notice_dead"] == [line["event"] for line in lines]
    assert not [each for each in ("verysecret", "whsec_", secrets["signing_secret"][6:]) if each in told]


async def test_a_notice_of_a_channel_that_is_gone_is_dropped(rig: Delivery) -> None:
    """It was made while the channel was removed."""
    made = await rig.notice(await rig.channel())
    other = await rig.channel("other")
    rig.store.state.notices[made.notice_id].notice = replace(made, channel_id=UUID(int=9))
    await rig.notice(other)
    await rig.round()
    assert {NoticeState.DROPPED, NoticeState.DELIVERED} == set(await rig.states())


async def test_tries_are_counted_by_the_kind_of_the_channel_alone() -> None:
    """Sent, failed, given up; and what waits, until the store is away. However many channels there are, the series are
    the same."""
    here = Delivery()
    before = here.metrics.render().decode().count("tickwise_notices_")
    said = {
        "good": DeliveryResult(DeliveryOutcome.DELIVERED),
        "slow": DeliveryResult(DeliveryOutcome.LATER, "500"),
        "gone": DeliveryResult(DeliveryOutcome.REFUSED, "410"),
    }
    for name, result in said.items():
        for number in range(2):
            here.sender.says[f"{name}{number}"] = result
            await here.notice(await here.channel(f"{name}{number}"))
    for _ in range(3):
        await here.round()
    counts = QueueCounts(here.store.upkeep, here.store.notices, here.metrics)
    assert COUNT_SECONDS == await counts.step()
    text = here.metrics.render().decode()
    for line in (
        'notices_sent_total{kind="webhook"} 2.0', 'notices_failed_total{kind="webhook"} 4.0',
        'notices_dead_total{kind="webhook"} 2.0', 'notices_dead_total{kind="email"} 0.0',
        'notices_waiting{kind="webhook"} 2.0', 'notices_channels_failing{kind="webhook"} 4.0',
        'notices_oldest_seconds{kind="email"} 0.0', 'notices_channels_resting{kind="webhook"} 2.0',
    ):  # fmt: skip
        assert f"tickwise_{line}" in text
    assert "slow0" not in text
    assert before + 4 * len(NoticeChannelKind) == text.count("tickwise_notices_")
    here.metrics.notices_counted(None)
    assert "tickwise_notices_waiting{" not in here.metrics.render().decode()


async def test_a_sender_gets_the_secrets_opened(rig: Delivery) -> None:
    """Sealed as control seals them; while the key is not there, the notice waits and says why."""
    key = EnvelopeSealing([LocalKey(bytes(32))], rig.clock)
    made = channel(rig.make)
    await rig.store.channels.add(made, await sealed_secrets(SECRETS, made.channel_id, key))
    await rig.notice(made)
    await rig.round()
    [waits] = await rig.found()
    assert (NoticeState.WAITING, True) == (waits.state, "do not open" in str(waits.error))
    assert [] == rig.sender.sent
    rig.delivery = rig.scheduler("two", sealer=key)
    await rig.clock.advance(waits.due - rig.clock.now() + 0.001)
    await rig.round()
    assert [NoticeState.DELIVERED] == await rig.states()
    assert [SECRETS] == rig.sender.secrets


async def test_who_has_a_mail_gets_it_once_from_any_scheduler(rig: Delivery) -> None:
    """A server takes a mail for one recipient and not yet for the other: another scheduler sends it to that one alone,
    also after a try that the server hears nothing of."""
    async with mail_sink() as sink:
        port = sink.port
        to = await rig.channel(settings={"to": ["ada@example.com", "grace@example.com"]}, kind=NoticeChannelKind.EMAIL)
        await rig.notice(to)
        sink.refuses = {"grace@example.com": "451 greylisted, come again"}
        await _mailing(rig, "one", port)
        assert [["ada@example.com"]] == [mail.recipients for mail in sink.mails]
        assert [("ada@example.com",)] == [each.served for each in await rig.found()]
        sink.refuses = {}
    await rig.clock.advance(HOUR)
    await _mailing(rig, "two", port)
    assert [(2, ("ada@example.com",))] == [(each.tries, each.served) for each in await rig.found()]
    async with mail_sink(port=port) as sink:
        await rig.clock.advance(HOUR)
        await _mailing(rig, "three", port)
        assert [["grace@example.com"]] == [mail.recipients for mail in sink.mails]
    assert [NoticeState.DELIVERED] == await rig.states()


async def _mailing(rig: Delivery, name: str, port: int) -> None:
    """One round of a scheduler that has sent nothing yet."""
    mail = EmailSender(InstallationMail(f"smtp://127.0.0.1:{port}", "t@example.com"))
    rig.delivery = rig.scheduler(name, {NoticeChannelKind.EMAIL: mail})
    await rig.round()
    await rig.delivery.close()
