"""A member of a group whose topics are not what they were, and whose library fails as nobody foresaw."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tickwise.adapters.broker.kafka import KafkaBroker
from tickwise.adapters.broker.kafka import library as library_module
from tickwise.adapters.broker.kafka import member as member_module
from tickwise.adapters.broker.kafka.address import read_address
from tickwise.adapters.broker.kafka.consumer import KafkaConsumer
from tickwise.adapters.broker.kafka.library import Complaints, client_library, free
from tickwise.adapters.broker.kafka.member import Member
from tickwise.adapters.broker.kafka.partition_buffers import PartitionId
from tickwise.adapters.broker.kafka.remade import HEARD_SECONDS, Remade
from tickwise.adapters.clock import SystemClock, VirtualClock
from tickwise.ports.broker import REQUESTS, RESULTS
from tickwise.testing.contracts.broker import until

ONE, TWO, OTHER = PartitionId(REQUESTS, 0), PartitionId(REQUESTS, 1), PartitionId(RESULTS, 0)
ADDRESS = read_address("kafka://127.0.0.1:1?partitions=2")


class Message:
    """As the library gives it."""

    def __init__(self, offset: int, epoch: int, partition: int = 0) -> None:
        self._offset, self._epoch, self._partition = offset, epoch, partition

    def error(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def topic(self) -> str:
        return "tickwise.requests"

    def value(self) -> bytes:
        return b"%d" % self._offset

    def key(self) -> None:
        return None

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (2, 1_000)

    def leader_epoch(self) -> int:
        return self._epoch


class Library:
    """A consumer of the library: a log of partition 0 of the requests."""

    def __init__(self) -> None:
        self.end = 0
        self.coming: list[Message] = []
        self.did: list[tuple[str, int, int]] = []

    def get_watermark_offsets(self, _partition: Any, **_how: Any) -> tuple[int, int]:
        return (7, self.end)

    def poll(self, _seconds: float) -> Message | None:
        return self.coming.pop(0) if self.coming else None

    def consume(self, count: int, _seconds: float) -> Sequence[Message]:
        taken, self.coming = self.coming[:count], self.coming[count:]
        return taken

    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        self._note("assign", partitions)

    def commit(self, *, offsets: Sequence[Any], asynchronous: bool) -> None:
        assert asynchronous
        self._note("commit", offsets)

    def seek(self, partition: Any) -> None:
        self._note("seek", [partition])

    def resume(self, partitions: Sequence[Any]) -> None:
        self._note("resume", partitions)

    def _note(self, what: str, partitions: Sequence[Any]) -> None:
        self.did += [(what, each.partition, each.offset) for each in partitions]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def member(clock: VirtualClock) -> Member:
    """It has both partitions of the requests, and worked off a hundred of the first."""
    made = Member(ADDRESS, clock, Complaints(), [REQUESTS], "group")
    topic = client_library().TopicPartition
    made._assigned(Library(), [topic("tickwise.requests", 0), topic("tickwise.requests", 1)])
    made._put([*(Message(at, 3) for at in range(100)), Message(0, 3, partition=1)])
    made.buffers.done(made.buffers.take(100))
    return made


@pytest.fixture
def library(member: Member) -> Library:
    """Which member works on; all is committed."""
    made = Library()
    made.end = 100
    member._step(made)
    member._committed(None, [])
    made.did.clear()
    return made


def shorter_by_look(library: Library, member: Member) -> None:
    """The broker says that it ends before what was taken."""
    library.end = 80
    member._look_at = 0.0
    member._step(library)
    library.coming = [Message(at, 4) for at in range(80, 85)]


def shorter_by_message(library: Library, _member: Member) -> None:
    """Another leader wrote where messages had been."""
    library.end = 200
    library.coming = [Message(0, 3, partition=1), Message(80, 4)]


@pytest.mark.parametrize("happens", [shorter_by_look, shorter_by_message])
def test_a_log_that_lost_its_end_is_read_again(member: Member, library: Library, happens: Any) -> None:
    """From where it begins, which is committed at once; nothing that came since is taken for what was there before."""
    happens(library, member)
    member._step(library)
    member._step(library)
    assert [("commit", 0, 7), ("seek", 0, 7), ("resume", 0, 7)] == [each for each in library.did if each[2] == 7]
    library.end = 85
    library.coming = [Message(at, 4) for at in range(80, 85)]
    member._step(library)
    taken = member.buffers.take(99)
    assert [80, 81, 82, 83, 84] == [each.offset for each in taken if each.partition == 0]


def test_another_leader_alone_changes_nothing(member: Member, library: Library) -> None:
    """It writes on behind what is there; and what is fetched again after a pause is no new log."""
    library.end = 105
    library.coming = [*(Message(at, 4) for at in range(100, 103)), *(Message(at, 3) for at in range(90, 100))]
    member._step(library)
    library.coming = [Message(at, 4) for at in range(100, 105)]
    member._step(library)
    member._step(library)
    assert [100, 101, 102, 103, 104] == [each.offset for each in member.buffers.take(99) if each.partition == 0]
    assert [] == [each for each in library.did if each[0] == "seek"]


def test_partitions_of_a_topic_that_was_made_again_begin_anew_once() -> None:
    """Also those that come from a member that heard of it later; and not what comes by a rebalance of another day."""
    remade = Remade()
    assert set() == remade.assigned([ONE], 0.0)
    remade.heard([REQUESTS], 10.0)
    assert {ONE} == remade.assigned([ONE, OTHER], 11.0)
    assert {TWO} == remade.assigned([ONE, TWO], 12.0)
    assert set() == remade.assigned([ONE, TWO], 13.0)
    remade.heard([REQUESTS], 20.0)
    assert {ONE} == remade.assigned([ONE], 21.0)
    assert set() == remade.assigned([TWO], 20.0 + HEARD_SECONDS)


def test_the_first_assignment_begins_anew_however_late_it_comes() -> None:
    """A group may need long to gather."""
    remade = Remade()
    remade.heard([REQUESTS], 0.0)
    assert {ONE} == remade.assigned([ONE], 10 * HEARD_SECONDS)
    assert set() == remade.assigned([TWO], 11 * HEARD_SECONDS)


def test_nothing_of_a_topic_that_is_no_more_is_committed(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """An offset of the old one would pass over messages of the new one."""
    committed: list[object] = []
    library = Library()
    monkeypatch.setattr(library, "subscribe", lambda *_, **__: None, raising=False)
    monkeypatch.setattr(library, "close", lambda: committed.append(member.buffers.to_commit()), raising=False)
    monkeypatch.setattr(member, "_made", lambda: library)
    member.begin_anew([REQUESTS])
    member._live()
    assert [{}] == committed
    assert [] == library.did


async def test_a_member_goes_on_after_an_error_that_nobody_foresaw(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged, and somebody fetches again."""
    monkeypatch.setattr("tickwise.adapters.broker.kafka.member.AGAIN_SECONDS", 0.01)
    member = Member(ADDRESS, SystemClock(), Complaints(), [REQUESTS], "group")
    lives: Iterator[int] = iter(range(1_000_000))
    lived: list[int] = []

    def fail() -> None:
        lived.append(next(lives))
        raise TypeError

    monkeypatch.setattr(member, "_made", fail)
    assert not member.ready
    member.start()
    await until(lambda: len(lived) >= 3)
    assert not member.ready
    await asyncio.to_thread(member.stop)


async def test_the_keeper_goes_on_after_an_error_that_nobody_foresaw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker counts as away until it is looked at well."""
    broker = KafkaBroker("kafka://127.0.0.1:1", SystemClock())
    looks: list[Any] = [ValueError("no number")]

    def look() -> dict[Any, Any]:
        if looks:
            raise looks.pop()
        return {}

    monkeypatch.setattr(broker, "_topics", SimpleNamespace(look=look, marked=True))
    await broker._keep_once()
    assert (False, "it could not be looked at: ValueError") == broker.state()[:2]
    await broker._keep_once()
    assert broker.state().reachable


async def test_a_client_that_never_ends_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's close, and its freeing, seldom hang: the stop says so, and leaves the thread behind."""
    monkeypatch.setattr(member_module, "STOP_SECONDS", 0.05)
    monkeypatch.setattr(library_module, "STOP_SECONDS", 0.05)
    closing, over = threading.Event(), threading.Event()

    def hang() -> None:
        closing.set()
        over.wait()

    try:
        complaints = Complaints()
        made = Member(ADDRESS, SystemClock(), complaints, [REQUESTS], "group")
        monkeypatch.setattr(made, "_live", hang)
        consumer = KafkaConsumer(made, reachable=lambda: True, wanted=lambda: True)
        await consumer.start()
        await asyncio.to_thread(closing.wait)
        await consumer.stop()
        assert "did not end within" in complaints.last
        complaints.recovered()
        complaints.last = ""
        await free(hang, complaints)
        assert "did not end within" in complaints.last
    finally:
        over.set()
