"""What a process of the API remembers of keys, and when it asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from tickwise.adapters.clock import VirtualClock
from tickwise.api.auth import KNOWN_SECONDS, Authenticator
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.callers import Caller
from tickwise.domain.errors import StoreUnavailable, Unauthenticated
from tickwise.domain.model import Principal
from tickwise.ports.identity import FoundKey

SECRET = b"Bearer secret"
KEY_ID = UUID("01a1fd81-8cdc-82e9-be4e-34f9a5bd159d")
OTHER_ID = UUID("01a1fd81-8cdc-82e9-be4e-34f9a5bd159e")
SOMEONE = Caller.of_key(Principal("someone", "default", frozenset(), KEY_ID))


@dataclass
class Book:
    """A store of keys that counts how often it is asked, and the signal of revocations."""

    known: dict[bytes, FoundKey] = field(default_factory=lambda: {secret_digest(b"secret"): FoundKey(SOMEONE, None)})
    asked: int = 0
    away: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    concerns: Callable[[UUID], bool] = lambda _: False
    meanwhile: Callable[[], None] = lambda: None

    async def find(self, digest: bytes) -> FoundKey | None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("away")
        found = self.known.get(digest)
        self.meanwhile()
        return found

    def listen(self, concerns: Callable[[UUID], bool]) -> asyncio.Event:
        self.concerns = concerns
        return self.news

    def revoke(self) -> None:
        """As another process does it, whose signal comes through."""
        self.known.clear()
        if self.concerns(KEY_ID):
            self.news.set()


async def refused(authenticator: Authenticator) -> bool:
    try:
        await authenticator.caller(SECRET)
    except Unauthenticated:
        return True
    return False


async def test_a_key_is_looked_up_once_and_forgotten_within_five_seconds() -> None:
    """A revoked key stops working when what was remembered of it is too old, even if no signal comes."""
    clock, book = VirtualClock(), Book()
    authenticator = Authenticator(book.find, clock)
    assert [SOMEONE] * 3 == [await authenticator.caller(SECRET) for _ in range(3)]
    assert 1 == book.asked
    book.known.clear()
    assert KNOWN_SECONDS < 5
    await clock.advance(KNOWN_SECONDS)
    assert await refused(authenticator)


async def test_a_key_that_was_unknown_is_taken_soon_after_it_was_made() -> None:
    """Unknown keys are remembered too, so that guessing costs the store nothing, but for a second only."""
    clock, book = VirtualClock(), Book({})
    authenticator = Authenticator(book.find, clock)
    for _ in range(3):
        assert await refused(authenticator)
    assert 1 == book.asked
    book.known[secret_digest(b"secret")] = FoundKey(SOMEONE, None)
    await clock.advance(1.0)
    assert SOMEONE == await authenticator.caller(SECRET)


async def test_a_revoked_key_is_refused_as_soon_as_the_signal_is_there() -> None:
    """With no time passing at all; and what was remembered is not asked for in vain afterwards."""
    clock, book = VirtualClock(), Book()
    authenticator = Authenticator(book.find, clock, news=book.listen)
    assert SOMEONE == await authenticator.caller(SECRET)
    book.revoke()
    assert authenticator.remembered(SECRET) is None
    assert await refused(authenticator)


async def test_a_key_that_is_revoked_while_it_is_looked_up_is_refused_next_time() -> None:
    """The answer was on its way when the key ceased to be good: it is not remembered as news."""
    clock, book = VirtualClock(), Book()
    authenticator = Authenticator(book.find, clock, news=book.listen)
    await authenticator.caller(SECRET)
    await clock.advance(KNOWN_SECONDS)
    book.meanwhile = book.revoke
    assert SOMEONE == await authenticator.caller(SECRET)
    assert await refused(authenticator)


async def test_the_revocation_of_a_key_that_is_not_used_here_costs_nothing() -> None:
    """It concerns the processes that remember the key."""
    clock, book = VirtualClock(), Book()
    authenticator = Authenticator(book.find, clock, news=book.listen)
    await authenticator.caller(SECRET)
    assert (True, False) == (book.concerns(KEY_ID), book.concerns(OTHER_ID))


async def test_a_change_of_the_owner_of_a_key_concerns_the_process_that_knows_the_key() -> None:
    """It looks the key up again at the next request, so a deactivated owner counts at once."""
    clock, book = VirtualClock(), Book()
    book.known[secret_digest(b"secret")] = FoundKey(replace(SOMEONE, owner_id=OTHER_ID), None)
    authenticator = Authenticator(book.find, clock, news=book.listen)
    await authenticator.caller(SECRET)
    assert (True, True) == (book.concerns(KEY_ID), book.concerns(OTHER_ID))


async def test_a_key_is_refused_when_it_expires() -> None:
    """It is not remembered for longer than it is good."""
    clock, book = VirtualClock(), Book()
    book.known[secret_digest(b"secret")] = FoundKey(SOMEONE, KNOWN_SECONDS / 2)
    authenticator = Authenticator(book.find, clock)
    await authenticator.caller(SECRET)
    book.known.clear()
    await clock.advance(KNOWN_SECONDS / 2 - 0.001)
    assert not await refused(authenticator)
    await clock.advance(0.002)
    assert await refused(authenticator)


@pytest.mark.parametrize("told", [False, True])
async def test_what_was_said_of_a_key_counts_while_the_store_is_away(told: bool) -> None:
    """Also if a signal came that something may have changed: it says nothing of this key that could be looked up."""
    clock, book = VirtualClock(), Book()
    authenticator = Authenticator(book.find, clock, stale_seconds=60.0, news=book.listen)
    await authenticator.caller(SECRET)
    book.away = True
    if told:
        book.news.set()
    await clock.advance(KNOWN_SECONDS)
    assert SOMEONE == await authenticator.caller(SECRET)
    assert SOMEONE == authenticator.remembered(SECRET)
    await clock.advance(60.0)
    with pytest.raises(StoreUnavailable):
        await authenticator.caller(SECRET)


async def test_an_expired_key_does_not_count_while_the_store_is_away() -> None:
    """When it expires was said with it."""
    clock, book = VirtualClock(), Book()
    book.known[secret_digest(b"secret")] = FoundKey(SOMEONE, 10.0)
    authenticator = Authenticator(book.find, clock, stale_seconds=60.0)
    await authenticator.caller(SECRET)
    book.away = True
    await clock.advance(10.5)
    with pytest.raises(StoreUnavailable):
        await authenticator.caller(SECRET)
