"""Receivers that fail hold up their own channel, and that within bounds: real receivers over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from tests.support.receivers import Receiver, receiver
from tests.unit.roles.test_notice_delivery import Delivery
from tickwise.adapters.senders.http_delivery import HttpDelivery
from tickwise.adapters.senders.webhook import WebhookSender
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.rules import NoticeChannel, NoticeChannelKind, NoticeState
from tickwise.roles.scheduler import notice_delivery
from tickwise.roles.scheduler.notice_delivery import PAUSE_FIRST_SECONDS

BAD: Mapping[str, int | str] = {"hangs": "hang", "floods": "flood", "redirects": 302, "refuses": 500}


class Place(Delivery):
    """A scheduler that sends webhooks."""

    def __init__(self) -> None:
        super().__init__()
        self.delivery = self.scheduler("one", {NoticeChannelKind.WEBHOOK: WebhookSender(HttpDelivery())})

    async def hook(self, name: str, at: Receiver) -> NoticeChannel:
        """A channel whose messages go to this receiver."""
        fields, secrets = channel_fields(NoticeChannelKind.WEBHOOK, {"url": at.url}, random=bytes(32))
        return await self.channel(name, secrets, settings=fields, allow_private=True)


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
        monkeypatch.setattr(notice_delivery, "SEND_SECONDS", 10.0)
        while await tries() == 4:
            await place.clock.advance(0.5)
            await place.round()
        for _ in range(2):
            await place.round()
        assert [NoticeState.DELIVERED] * 3 == await place.states()
        assert 4 + 3 == await tries()
