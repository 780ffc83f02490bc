"""Redis away, emptied, silent, read-only: whoever listens is late, never wrong, and nothing grows or ends by it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID, uuid4

import pytest

from tests.chaos.proxy import Proxy
from tests.services.redis import Redis
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.redis import RedisLink, RedisSharedState, RedisSignals, redis_limits
from tickwise.adapters.signals.redis.link import read_address
from tickwise.domain.errors import Misconfigured
from tickwise.ports.limits import Pace
from tickwise.ports.shared_state import Note
from tickwise.ports.signals import Topic

WITHIN_SECONDS = 60.0
RUN = UUID(int=7)


@asynccontextmanager
async def bells(*urls: str, cluster: str = "c") -> AsyncIterator[list[RedisSignals]]:
    """One for each address, at work."""
    links = [RedisLink(url, cluster, SystemClock()) for url in urls]
    made = [RedisSignals(link) for link in links]
    for bell in made:
        await bell.start()
    yield made
    for bell in made:
        await bell.stop()
    for link in links:
        await link.close()


async def heard(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), WITHIN_SECONDS)


async def rung_until(ring: Callable[[], None], event: asyncio.Event) -> None:
    """Ring again and again until it is heard."""

    def once() -> bool:
        ring()
        return event.is_set()

    await eventually(once, within_seconds=WITHIN_SECONDS, what="it is heard")


async def linked(here: RedisSignals, there: RedisSignals) -> None:
    """Both ways are made."""
    for sender, listener in ((here, there), (there, here)):
        event = listener.listen(Topic.OPERATIONS)
        await rung_until(partial(sender.send, Topic.OPERATIONS), event)


async def test_listeners_are_woken_when_redis_is_back_and_rings_of_the_meantime_are_heard() -> None:
    """Killed and started again, with everything that it knew gone."""
    async with Redis() as redis, bells(redis.url, redis.url) as (here, there):
        await linked(here, there)
        redis.kill()
        woken = there.listen(Topic.TIMERS)
        unconcerned = there.listen(Topic.CANCELS, concerns=lambda _: False)
        here.send(Topic.RUNS)  # while nobody is there
        await redis.start()
        await heard(woken)
        await heard(unconcerned)  # whoever it concerned, it may have been missed
        event = there.listen(Topic.RUNS)
        await rung_until(lambda: here.send(Topic.RUNS), event)


async def test_a_cancel_is_kept_for_who_was_not_there(redis_url: str) -> None:
    """For a minute, by the name of what it is about; a listener that begins later hears it."""
    cluster = uuid4().hex
    async with bells(redis_url, cluster=cluster) as (here,):
        mark = here.listen(Topic.OPERATIONS)
        await heard(mark)
        here.send(Topic.CANCELS, [RUN])
        link = RedisLink(redis_url, cluster, SystemClock())
        await eventually(lambda: link.ask("EXISTS", link.key("cancels")), within_seconds=WITHIN_SECONDS, what="kept")
        assert 0 < await link.ask("TTL", link.key("cancels")) <= 60
        late = RedisSignals(link)
        everybody = late.listen(Topic.OPERATIONS)
        told: list[UUID] = []

        def concerns(run: UUID) -> bool:
            told.append(run)
            return True

        late.listen(Topic.CANCELS, concerns=concerns)
        await late.start()
        await heard(everybody)
        await eventually(lambda: RUN in told, within_seconds=WITHIN_SECONDS, what="the cancel is heard")
        await late.stop()
        await link.close()


async def test_a_link_that_swallows_everything_is_found_out(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """No error, no end of the connection: no answer either. It is made anew, and everybody is woken."""
    proxy = Proxy(target=redis_url)
    async with bells(redis_url, await proxy.start(), cluster=uuid4().hex) as (here, there):
        await linked(here, there)
        proxy.swallow()

        def given_up() -> bool:
            return any("wake-ups are not heard" in record.getMessage() for record in caplog.records)

        await eventually(given_up, within_seconds=WITHIN_SECONDS, what="the connection is given up")
        woken = there.listen(Topic.TIMERS)
        proxy.heal()
        await heard(woken)
    await proxy.stop()


async def test_one_that_may_not_be_written_to_still_rings_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A replica. Nothing is kept there, and nothing fails by it."""
    async with Redis() as redis:
        replica = Redis(settings={"replicaof": f"127.0.0.1 {redis.port}"})
        async with replica, bells(replica.url, replica.url) as (here, there):
            link = RedisLink(replica.url, "c", SystemClock())
            await linked(here, there)
            event = there.listen(Topic.CANCELS, concerns=lambda run: run == RUN)
            event.clear()
            with caplog.at_level(logging.WARNING):
                for _ in range(3):
                    await rung_until(lambda: here.send(Topic.CANCELS, [RUN]), event)
                    event.clear()
            assert 1 == sum("does not keep cancels" in record.getMessage() for record in caplog.records)
            assert not await RedisSharedState(link).put([Note("role", "a", {})], 60.0)
            await eventually(_found_nothing(link), within_seconds=WITHIN_SECONDS, what="it can be looked at")
            limits = redis_limits(link)
            await limits.start()
            assert [True, True, False] == [
                (await limits.hit("anna", Pace(rate=0.001, burst=2))).allowed for _ in range(3)
            ]
            await limits.stop()
            await link.close()


def _found_nothing(link: RedisLink) -> Callable[[], Awaitable[bool]]:
    """None while the replica loads what its master has."""

    async def look() -> bool:
        return await RedisSharedState(link).look("role") == {}

    return look


async def test_with_nobody_there_everything_answers(caplog: pytest.LogCaptureFixture) -> None:
    """No exception, no waiting for long, and no password in a log."""
    url = "redis://anna:hunter2secret@127.0.0.1:1/0"
    link = RedisLink(url, "c", SystemClock())
    limits = redis_limits(link)
    shared_state, signals = RedisSharedState(link), RedisSignals(link)
    with caplog.at_level(logging.DEBUG):
        for each in (limits, shared_state, signals):
            await each.start()
        own = signals.listen(Topic.RUNS)
        signals.send(Topic.RUNS)
        assert own.is_set()
        assert not await shared_state.put([Note("role", "a", {})], 60.0)
        assert await shared_state.look("role") is None
        await shared_state.take_down("role", ["a"])
        assert [True, True, False] == [(await limits.hit("anna", Pace(rate=0.001, burst=2))).allowed for _ in range(3)]
        await eventually(lambda: len(caplog.records) >= 3, within_seconds=WITHIN_SECONDS, what="it is said")
        for each in (limits, shared_state, signals):
            await each.stop()
        await link.close()
    assert "hunter2secret" not in caplog.text + repr(link.address)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://", "redis://HOST"),
        ("redis://host:port/0", "cannot be read"),
        ("redis://host/zero", "cannot be read"),
        ("redis://host/-1", "redis://HOST"),
        ("redis://host?colour=red", "there is no option 'colour'; there are prefix, ca, cert, key"),
        ("redis://host?ca=/etc/hosts", "rediss://"),
        ("rediss://host?ca=/no/such/file", "no file"),
        ("redis://host?prefix=", "prefix"),
        ("redis://host?prefix=%00", "prefix"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_what_to_write(url: str, says: str) -> None:
    """Before anything is connected, and without a password in the message."""
    with pytest.raises(Misconfigured) as refused:
        read_address(url.replace("://", "://anna:hunter2secret@", 1) if url != "redis://" else url)
    assert says in refused.value.detail
    assert "hunter2secret" not in refused.value.detail


def test_an_address_says_what_it_means() -> None:
    """Names and passwords may be percent-encoded; TLS is checked against the machine's authorities by default."""
    found = read_address("rediss://an%40na:p%2Fw%3A@[::1]:7000/3?prefix=mine")
    assert ("::1", 7000, 3, "an@na", "p/w:", True, "mine") == (
        found.host, found.port, found.db, found.username, found.password, found.tls, found.prefix,
    )  # fmt: skip
    assert ("localhost", 6379, 0, None, None, False, "tickwise") == (
        (plain := read_address("redis://localhost")).host, plain.port, plain.db, plain.username, plain.password,
        plain.tls, plain.prefix,
    )  # fmt: skip
    assert "p/w:" not in repr(found) + found.shown
