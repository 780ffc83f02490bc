"""Names of receivers are looked up apart from all else, one thread for each."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.waiting import eventually
from tickwise.adapters.outgoing import lookups
from tickwise.adapters.outgoing.lookups import SHARE_THREADS, THREADS, Lookups, LookupShare
from tickwise.adapters.senders.mail import MailServer, _connected

ANSWER = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]


class SlowNames:
    """A server of names that does not answer before it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def __call__(self, host: str, port: int, family: int) -> Any:
        """One look-up."""
        self.asked.append(host)
        if host != "quick":
            assert self.answers.wait(30.0)
        return ANSWER


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNames]:
    """In place of the system's."""
    slow = SlowNames()
    monkeypatch.setattr(lookups, "_look_up", slow)
    yield slow
    slow.answers.set()


async def test_slow_names_take_no_thread_of_the_loop(names: SlowNames) -> None:
    """Nor do several who ask for one name take several: others are answered meanwhile."""
    own = Lookups()
    waiting = [asyncio.create_task(own.addresses("slow", 443)) for _ in range(3 * THREADS)]
    async with asyncio.timeout(60):
        assert ANSWER == await own.addresses("quick", 443)
        assert "done" == await asyncio.to_thread(lambda: "done")
    await eventually(lambda: "slow" in names.asked, what="its thread has begun")
    for each in waiting[1:]:
        each.cancel()
    names.answers.set()
    async with asyncio.timeout(60):
        assert ANSWER == await waiting[0]
    assert ["quick", "slow"] == sorted(names.asked)
    own.close()


async def given_up(own: Lookups | LookupShare, hosts: list[str]) -> None:
    """Ask for each of these, and wait for none."""
    for host in hosts:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await own.addresses(host, 443)


async def test_names_that_hang_leave_threads_to_others(names: SlowNames) -> None:
    """Many at once; and once they were given up, any number of them."""
    own = Lookups()
    await given_up(own, [f"hangs {number}" for number in range(THREADS - 1)])
    async with asyncio.timeout(60):
        assert ANSWER == await own.addresses("quick", 443)
    names.answers.set()
    await all_done(own)
    names.answers.clear()
    await given_up(own, [f"hangs {number}" for number in range(THREADS - 1)])
    await given_up(own, [f"others {number}" for number in range(THREADS - 1)])
    async with asyncio.timeout(60):
        assert ANSWER == await own.addresses("quick", 443)
    names.answers.set()
    own.close()


async def test_a_name_that_answers_in_time_is_slow_no_more(names: SlowNames) -> None:
    """Nor is one that answers that it has no address: it is an answer."""
    own = Lookups()
    await given_up(own, ["slow"])
    names.answers.set()
    await all_done(own)
    assert {"slow"} == own._slow
    assert ANSWER == await own.addresses("slow", 443)
    assert set() == own._slow
    own.close()


async def all_done(own: Lookups) -> None:
    """Until nothing is looked up any more."""
    await asyncio.gather(*map(asyncio.wrap_future, [*own._running.values()]))


async def test_one_who_gives_up_leaves_the_answer_to_others(names: SlowNames) -> None:
    """Who asks while it is looked up gets that answer, or a new one once it is there."""
    own = Lookups()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await own.addresses("slow", 443)
    names.answers.set()
    async with asyncio.timeout(60):
        assert ANSWER == await own.addresses("slow", 443)
    assert {"slow"} == set(names.asked)
    own.close()


async def test_mail_servers_are_looked_up_so_too(names: SlowNames) -> None:
    """Within the time of the sender."""
    server = MailServer("slow", 25, False, None, None)
    own = Lookups()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await _connected(server, None, own)
    await eventually(lambda: ["slow"] == names.asked, what="its thread has begun")
    names.answers.set()
    own.close()


async def test_a_tenant_takes_no_more_than_its_share_however_many_names_hang(names: SlowNames) -> None:
    """The names below a wildcard are without end, and nobody need wait for one."""
    own = Lookups()
    await given_up(own.share_of("a"), [f"{number}.example.com" for number in range(3 * THREADS)])
    await eventually(lambda: SHARE_THREADS == len(names.asked), what="the threads of its share have begun")
    assert SHARE_THREADS == len(own._running)
    async with asyncio.timeout(60):
        assert ANSWER == await own.share_of("b").addresses("quick", 443)
    hanging = asyncio.create_task(own.share_of("a").addresses("another.example.com", 443))
    names.answers.set()
    async with asyncio.timeout(60):
        assert ANSWER == await hanging
    await all_done(own)
    await eventually(lambda: not own._shares)
    own.close()


async def test_those_of_a_tenant_who_ask_for_one_name_take_one_thread_of_its_share(names: SlowNames) -> None:
    """Another name is answered meanwhile."""
    own = Lookups()
    share = own.share_of("a")
    waiting = [asyncio.create_task(share.addresses("slow", 443)) for _ in range(3)]
    await eventually(lambda: names.asked == ["slow"])
    waiting += [asyncio.create_task(share.addresses("slow", 443)) for _ in range(2 * SHARE_THREADS)]
    async with asyncio.timeout(60):
        assert ANSWER == await share.addresses("quick", 443)
    names.answers.set()
    assert [ANSWER] * len(waiting) == await asyncio.gather(*waiting)
    own.close()
