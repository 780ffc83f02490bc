"""Keys that are guessed."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from tests.security.probes import probe
from tickwise.adapters.clock import VirtualClock
from tickwise.api.auth import Authenticator
from tickwise.api.key_lookups import MAX_NETWORK, MAX_WAITING
from tickwise.api.problems import KeysWaiting
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.callers import Caller
from tickwise.domain.errors import StoreUnavailable, Unauthenticated
from tickwise.domain.model import Principal
from tickwise.ports.identity import FoundKey

GOOD = "a-good-key"


class Keys:
    """A store of one key that counts what it is asked, and can be held."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.open = asyncio.Event()
        self.open.set()
        self.away = False

    async def find(self, digest: bytes) -> FoundKey | None:
        self.asked.append(digest)
        await self.open.wait()
        if self.away:
            raise StoreUnavailable("away")
        if digest == secret_digest(GOOD.encode()):
            return FoundKey(Caller.of_key(Principal("someone", "default", frozenset(), key_id=uuid4())), None)
        return None


class Door:
    """An authenticator, and people before it."""

    def __init__(self) -> None:
        self.keys = Keys()
        self.clock = VirtualClock()
        self.authenticator = Authenticator(self.keys.find, self.clock, misses_per_second=100.0)

    def knock(self, key: str, address: str) -> asyncio.Task[Caller]:
        return asyncio.create_task(self.authenticator.caller(b"Bearer " + key.encode(), address))

    def guess(self, count: int, address: str) -> list[asyncio.Task[Caller]]:
        return [self.knock(f"{address} guesses {number}", address) for number in range(count)]


async def refused(tasks: list[asyncio.Task[Caller]]) -> None:
    """Each of them was told that its key is not known."""
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, Unauthenticated), outcome


def put_off(tasks: list[asyncio.Task[Caller]]) -> int:
    """How many of them were told to come again."""
    return sum(task.done() and isinstance(task.exception(), KeysWaiting) for task in tasks)


@probe(3, stopped_by="a bounded rate of look-ups; what is over it waits")
async def test_distinct_wrong_keys_cost_a_bounded_number_of_queries() -> None:
    """A thousand different keys at once from 20 addresses, each of which the store has to be asked for."""
    door = Door()
    tasks = [task for number in range(20) for task in door.guess(50, f"10.0.0.{number}")]
    await door.clock.advance(0.0)
    assert len(door.keys.asked) <= 55  # half a second's worth, and the few that look at the same time
    await door.clock.advance(1.0)
    assert 140 <= len(door.keys.asked) <= 160
    await door.clock.advance(10.0)
    await refused(tasks)
    assert 1_000 == len(door.keys.asked)


@probe(3, stopped_by="addresses take turns, and a good key is never refused")
@pytest.mark.parametrize("address", ["10.0.0.2", "2001:db8:0:1::1"])
async def test_guesses_do_not_keep_a_good_key_out(address: str) -> None:
    """A good key that was never shown here, while another address, or network, guesses."""
    door = Door()
    attackers = ["10.0.0.1"] if "." in address else [f"2001:db8:0:2::{n:x}" for n in range(1, 50)]
    tasks = [task for attacker in attackers for task in door.guess(1_000 // len(attackers), attacker)]
    await door.clock.advance(0.0)
    assert len(tasks) - MAX_NETWORK == put_off(tasks)
    good = door.knock(GOOD, address)
    await door.clock.advance(0.05)
    assert "someone" == good.result().name
    assert not all(task.done() for task in tasks)
    await door.clock.advance(20.0)
    assert len(tasks) - MAX_NETWORK == put_off(tasks)
    await refused([task for task in tasks if not put_off([task])])


@probe(3, stopped_by="503 at once for the network that has most keys waiting")
async def test_keys_that_wait_are_bounded_in_all() -> None:
    """Different keys from more networks than there are places, and then a good key from another one."""
    door = Door()
    door.keys.open.clear()
    tasks = [task for number in range(40) for task in door.guess(60, f"10.0.0.{number}")]
    await door.clock.advance(0.0)
    assert 40 * 60 - MAX_WAITING == put_off(tasks)
    tasks += door.guess(len(door.keys.asked), "10.0.1.1")  # in the places of those that are being looked up
    await door.clock.advance(0.0)
    assert 40 * 60 - MAX_WAITING == put_off(tasks)
    good = door.knock(GOOD, "10.0.1.2")
    await door.clock.advance(0.0)
    assert 40 * 60 - MAX_WAITING + 1 == put_off(tasks)
    door.keys.open.set()
    await door.clock.advance(0.5)
    assert "someone" == good.result().name
    await door.clock.advance(20.0)
    await refused([task for task in tasks if not put_off([task])])


@probe(3, stopped_by="503 at once when each network has one key waiting")
async def test_a_network_of_its_own_for_each_key_takes_no_more_places() -> None:
    """As many networks as there are places, each with one key, and one more."""
    door = Door()
    door.keys.open.clear()
    tasks = [door.knock(f"{number}", f"2001:db8:0:{number:x}::1") for number in range(MAX_WAITING + 10)]
    await door.clock.advance(0.0)
    late = [door.knock(f"late {number}", f"2001:db8:1:{number:x}::1") for number in range(9)]
    await door.clock.advance(0.0)
    assert (10, 9 - len(door.keys.asked)) == (put_off(tasks), put_off(late))
    door.keys.open.set()
    await door.clock.advance(20.0)
    await refused([task for task in [*tasks, *late] if not put_off([task])])


@probe(3, stopped_by="a key is looked up only while somebody waits for the answer")
async def test_keys_of_those_who_left_are_not_looked_up() -> None:
    """Different keys whose callers go away, but for one of two that show the same key."""
    door = Door()
    door.keys.open.clear()
    first = door.guess(4, "10.0.0.1")
    await door.clock.advance(0.0)
    gone, pair = door.guess(50, "10.0.0.2"), [door.knock("both", "10.0.0.2") for _ in range(2)]
    await door.clock.advance(0.0)
    for task in [*gone, pair[0]]:
        task.cancel()
    await asyncio.wait([*gone, pair[0]])
    more = door.guess(MAX_NETWORK - 1, "10.0.0.2")
    await door.clock.advance(0.0)
    assert 0 == put_off(more)
    for task in more:
        task.cancel()
    await asyncio.wait(more)
    door.keys.open.set()
    await door.clock.advance(20.0)
    await refused([*first, pair[1]])
    assert 5 == len(door.keys.asked)


@probe(3, stopped_by="keys that were found before are not queued")
async def test_guesses_do_not_slow_a_known_key() -> None:
    """A key in use whose remembered look-up has just expired, from the address that guesses."""
    door = Door()
    first = door.knock(GOOD, "10.0.0.1")
    await door.clock.advance(0.0)
    assert first.done()
    await door.clock.advance(5.0)
    tasks = door.guess(MAX_NETWORK, "10.0.0.1")
    again = door.knock(GOOD, "10.0.0.1")
    await door.clock.advance(0.0)
    assert "someone" == again.result().name
    await door.clock.advance(20.0)
    await refused(tasks)


@probe(3, stopped_by="a few look-ups at a time")
async def test_guesses_take_few_connections_of_a_slow_store() -> None:
    """Different keys at once while the store does not answer."""
    door = Door()
    door.keys.open.clear()
    tasks = door.guess(40, "10.0.0.1")
    await door.clock.advance(0.0)
    assert 4 == len(door.keys.asked)
    door.keys.open.set()
    await door.clock.advance(1.0)
    await refused(tasks)


@probe(3, stopped_by="one look-up for all who show the same key at once")
async def test_one_wrong_key_many_times_is_one_query() -> None:
    """The same wrong key in a hundred requests at once, some of whose clients go away."""
    door = Door()
    door.keys.open.clear()
    tasks = [door.knock("wrong", "10.0.0.1") for _ in range(100)]
    await door.clock.advance(0.0)
    for task in tasks[:50]:
        task.cancel()
    door.keys.open.set()
    await door.clock.advance(0.0)
    await refused(tasks[50:])
    assert 1 == len(door.keys.asked)


@probe(3, stopped_by="503: the key is neither taken nor called wrong")
async def test_a_store_that_is_away_makes_no_key_wrong() -> None:
    """A good key that was never shown here, while the store is away, and again when it is back."""
    door = Door()
    door.keys.away = True
    early = door.knock(GOOD, "10.0.0.1")
    await door.clock.advance(0.0)
    assert isinstance(early.exception(), StoreUnavailable)
    door.keys.away = False
    late = door.knock(GOOD, "10.0.0.1")
    await door.clock.advance(0.0)
    assert "someone" == late.result().name
