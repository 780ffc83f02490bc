"""Hashes of passwords are made in turn: few wait, and people who are known come before a flood of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.control.people.passwords import Passwords
from tickwise.domain.errors import Busy

PASSWORD = "four quiet herons wade"


@pytest_asyncio.fixture
async def passwords(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Passwords]:
    monkeypatch.setattr("tickwise.control.people.passwords._MEMORY_KIB", 1_024)
    made = Passwords(at_once=1, max_waiting=3)
    yield made
    made.close()


@contextmanager
def held(passwords: Passwords) -> Iterator[None]:
    """No hash is begun meanwhile: none is done before the others have come, however long this thread stands still."""
    goes_on = threading.Event()
    passwords._threads.submit(goes_on.wait, 60.0)
    try:
        yield
    finally:
        goes_on.set()


async def test_those_who_are_known_come_first_and_have_places_of_their_own(passwords: Passwords) -> None:
    """A flood that fills the other places is told to come again; a person is served next."""
    encoded = await passwords.hash(PASSWORD)
    ended: list[str] = []

    async def verify(name: str, *, first: bool = False) -> bool:
        try:
            return await passwords.verify(encoded, PASSWORD, first=first)
        finally:
            ended.append(name)

    with held(passwords):
        flood = [asyncio.create_task(verify(f"flood {number}")) for number in range(4)]
        await SystemClock().sleep(0)
        with pytest.raises(Busy):
            await verify("one too many")
        known = asyncio.create_task(verify("ada", first=True))
        await SystemClock().sleep(0)
    assert await known
    assert all(await asyncio.gather(*flood))
    assert ["one too many", "flood 0", "ada", "flood 1", "flood 2", "flood 3"] == ended


async def test_a_caller_that_leaves_gives_its_turn_to_the_next(passwords: Passwords) -> None:
    """No place is lost, whenever it leaves."""
    encoded = await passwords.hash(PASSWORD)
    for _ in range(3):
        tasks = [asyncio.create_task(passwords.verify(encoded, PASSWORD)) for _ in range(4)]
        await SystemClock().sleep(0)
        for task in tasks[:3]:
            task.cancel()
        assert await tasks[3]
        assert await passwords.verify(encoded, PASSWORD)
    await asyncio.gather(*(passwords.verify(encoded, PASSWORD) for _ in range(4)))


async def test_a_caller_learns_beforehand_that_there_is_no_place(passwords: Passwords) -> None:
    """Of those that are known and of the others apart, and only while it is so."""
    encoded = await passwords.hash(PASSWORD)
    passwords.check_room()
    with held(passwords):
        flood = [asyncio.create_task(passwords.verify(encoded, PASSWORD)) for _ in range(4)]
        await SystemClock().sleep(0)
        with pytest.raises(Busy):
            passwords.check_room()
        passwords.check_room(first=True)
    await asyncio.gather(*flood)
    passwords.check_room()


async def test_a_hash_has_the_parameters_of_rfc_9106() -> None:
    """argon2id, 64 MiB, three passes: section 4, second choice. Tests of other things have cheaper ones."""
    made = Passwords()
    try:
        assert (await made.hash(PASSWORD)).startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    finally:
        made.close()
