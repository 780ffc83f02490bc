"""Receivers that fail hold up their own channel, and that within bounds: real receivers over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from tests.support.receivers import MailSink, Receiver, mail_sink, receiver
from tests.unit.roles.test_notice_delivery import Delivery
from tickwise.adapters.senders.http_delivery import CONNECTIONS, HttpDelivery
from tickwise.adapters.senders.mail import EmailSender, InstallationMail
from tickwise.adapters.senders.webhook import WebhookSender
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.rules import Notice, NoticeChannel, NoticeChannelKind, NoticeState
from tickwise.roles.scheduler import notice_delivery
from tickwise.roles.scheduler.notice_delivery import PAUSE_FIRST_SECONDS, UNDER_WAY

BAD: Mapping[str, int | str] = {"hangs": "hang", "floods": "flood", "redirects": 302, "refuses": 500}


class Place(Delivery):
    """A scheduler that sends webhooks and mails."""

    def __init__(self) -> None:
        super().__init__()
        self.delivery = self.scheduler(
            "one",
            {
                NoticeChannelKind.WEBHOOK: WebhookSender(HttpDelivery()),
                NoticeChannelKind.EMAIL: EmailSender(InstallationMail()),
            },
        )

    async def hook(self, name: str, at: Receiver) -> NoticeChannel:
        """A channel whose messages go to this receiver."""
        fields, secrets = channel_fields(NoticeChannelKind.WEBHOOK, {"url": at.url}, random=bytes(32))
        return await self.channel(name, secrets, settings=fields, allow_private=True)

    async def mail(self, name: str, at: MailSink) -> NoticeChannel:
        """A channel whose messages go through this mail server."""
        said = {"to": ["ada@example.com"], "from": "t@example.com", "url": f"smtp://127.0.0.1:{at.port}"}
        fields, secrets = channel_fields(NoticeChannelKind.EMAIL, said)
        return await self.channel(
            name, secrets, settings=fields, kind=NoticeChannelKind.EMAIL, allow_private=True
        )  # fmt: skip

    async def ended(self, notice: Notice) -> None:
        """Wait until the try of a notice is over."""
        while notice.state is NoticeState.WAITING:
            self.delivery.wake.clear()
            await self.delivery.wake.wait()
            [notice] = [each for each in await self.found() if each.notice_id == notice.notice_id]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """Nothing is there yet."""
    made = Place()
    yield made
    await made.delivery.close()


async def test_a_receiver_that_fails_delays_its_own_channel_alone(place: Place) -> None:
    """One that hangs, one that answers 500 with 10 MB, a redirect, a plain 500. A fifth channel of their namespace, due
    after them, is told while the first one hangs still."""
    async with AsyncExitStack() as stack:
        at = {name: await stack.enter_async_context(receiver()) for name in (*BAD, "good")}
        for number, (name, each) in enumerate(at.items()):
            each.says = [BAD[name]] if name in BAD else []
            each.headers = {"Location": "https://login.example.com/"} if name == "redirects" else {}
            await place.notice(await place.hook(name, each), due=place.clock.now() - 100.0 + number)
        while not at["good"].got:
            place.delivery.wake.clear()
            await place.delivery.step()
            await place.delivery.wake.wait()
        assert len(at["hangs"].got) == 1
        names = {each.channel_id: each.name for each in await place.store.channels.find("default")}
        hanging = {names[each.channel_id]: each for each in await place.found()}["hangs"]
        assert (hanging.state, hanging.tries, hanging.error) == (NoticeState.WAITING, 1, None)
        at["hangs"].release.set()
        await place.delivery.finish()
        found = {names[each.channel_id]: each for each in await place.found()}
        assert {"hangs", "good"} == {name for name, each in found.items() if each.state is NoticeState.DELIVERED}
        assert str(found["floods"].error).startswith("it answered 500: xxx")
        assert len(str(found["floods"].error)) <= 500
        assert "302, a redirect to login.example.com" in str(found["redirects"].error)
        assert found["refuses"].error == "it answered 500: no"
        assert {1} == {len(each.got) for each in at.values()}


async def test_receivers_that_hang_for_the_first_time_hold_up_no_other_channel(place: Place) -> None:
    """Four webhooks of a namespace hang, and so does a mail server: a webhook and a mail that are due after them are
    told within three seconds, while all of them hang still."""
    async with AsyncExitStack() as stack:
        hung = [await stack.enter_async_context(receiver()) for _ in range(4)]
        slow, good = await stack.enter_async_context(mail_sink()), await stack.enter_async_context(mail_sink())
        well = await stack.enter_async_context(receiver())
        slow.says = ["hang"]
        begun = place.clock.now()
        for number, each in enumerate(hung):
            each.says = ["hang"]
            await place.notice(await place.hook(f"hangs{number}", each), due=begun - 100.0 + number)
        await place.notice(await place.mail("slow mail", slow), due=begun - 50.0)
        await place.notice(await place.mail("good mail", good), due=begun - 10.0)
        await place.notice(await place.hook("well", well), due=begun - 9.0)
        names = {each.channel_id: each.name for each in await place.store.channels.find("default")}
        told: set[str] = set()
        while told != {"good mail", "well"}:
            assert place.clock.now() < begun + 3.0, told
            await place.delivery.step()
            for tried in await place.found():
                if tried.tries and names[tried.channel_id] in ("good mail", "well"):
                    await place.ended(tried)
            told = {names[each.channel_id] for each in await place.found() if each.state is NoticeState.DELIVERED}
            await place.clock.advance(0.5)
        assert [1] * 4 == [len(each.got) for each in hung]
        assert (1, 1, 0) == (len(well.got), len(good.mails), len(slow.mails))
        for each in hung:
            each.release.set()
        slow.release.set()
        await place.delivery.finish()
        assert [NoticeState.DELIVERED] * 7 == await place.states()


def test_no_try_waits_for_a_connection() -> None:
    """There are as many as tries under way at once."""
    assert CONNECTIONS >= UNDER_WAY


async def test_a_channel_that_hangs_is_tried_now_and_then_and_then_told_all(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rules tell it something: one try at a time finds out how it is, and the pauses grow. Once it takes a
    message, the others follow at once."""
    monkeypatch.setattr(notice_delivery, "SEND_SECONDS", 0.1)

    async def tries() -> int:
        # A request that was given up may reach the receiver late, or never: what counts is what the scheduler tried.
        return sum(each.tries for each in await place.found())

    async with receiver() as at:
        at.says = ["hang"] * 20
        to = await place.hook("ops", at)
        for _ in range(3):
            await place.notice(to)
        begun, tried = place.clock.now(), list[float]()
        while len(tried) < 4:
            before = await tries()
            for _ in range(3):
                await place.round()
            more = await tries() - before
            assert more <= 1
            tried += [place.clock.now() - begun] * more
            await place.clock.advance(0.5)
        gaps = [late - early for early, late in pairwise(tried)]
        assert all(PAUSE_FIRST_SECONDS * 2.0**number / 2 <= gap for number, gap in enumerate(gaps)), gaps
        errors = {each.error for each in await place.found() if each.error}
        assert errors == {"no answer within 0.1 s"}
        at.says.clear()
        at.release.set()
        monkeypatch.setattr(notice_delivery, "SEND_SECONDS", 60.0)
        while await tries() == 4:
            await place.clock.advance(0.5)
            await place.round()
        for _ in range(2):
            await place.round()
        assert [NoticeState.DELIVERED] * 3 == await place.states()
        assert 4 + 3 == await tries()
