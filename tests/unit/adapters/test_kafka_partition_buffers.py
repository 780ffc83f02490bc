"""What was fetched and not taken: bounded, in order, and gone when its partition is."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tickwise.adapters.broker.kafka import partition_buffers as module
from tickwise.adapters.broker.kafka.library import Complaints
from tickwise.adapters.broker.kafka.partition_buffers import PartitionBuffers, PartitionId
from tickwise.ports.broker import REQUESTS, RESULTS, Delivery

ONE, TWO, OTHER = PartitionId(REQUESTS, 0), PartitionId(REQUESTS, 1), PartitionId(RESULTS, 0)


def fetched(place: PartitionId, offsets: Iterable[int], size: int = 1) -> list[Delivery]:
    """Messages of one partition."""
    return [Delivery(place.channel, b"x" * size, None, (), place.partition, at, float(at)) for at in offsets]


@pytest.fixture
def buffers() -> PartitionBuffers:
    """With two partitions of requests and one of results."""
    made = PartitionBuffers([REQUESTS, RESULTS])
    made.assign([ONE, TWO, OTHER])
    return made


def offsets(deliveries: Iterable[Delivery]) -> list[int]:
    """Theirs."""
    return [each.offset for each in deliveries]


def test_what_is_fetched_again_is_put_once(buffers: PartitionBuffers) -> None:
    """A partition that is resumed after a pause may begin with what is here already, taken or not."""
    assert [3, 0, 2] == [buffers.put(fetched(ONE, at)) for at in (range(3), range(3), range(1, 5))]
    assert [0, 1, 2] == offsets(buffers.take(3))
    assert buffers.put(fetched(ONE, range(5))) == 0
    assert [3, 4] == offsets(buffers.take(9))
    assert buffers.put(fetched(ONE, range(6))) == 1


def test_what_is_revoked_is_gone(buffers: PartitionBuffers) -> None:
    """Neither taken, nor committed by a late done, nor counted; and what was on its way stays out."""
    buffers.put(fetched(ONE, range(5)) + fetched(TWO, range(2)))
    taken = buffers.take(2)
    buffers.revoke([ONE])
    buffers.done(taken)
    assert {} == buffers.to_commit()
    assert buffers.put(fetched(ONE, range(5, 9))) == 0
    assert (2, [TWO, OTHER]) == (buffers.waiting, buffers.places())
    buffers.assign([ONE])
    buffers.put(fetched(ONE, range(5)))
    assert [0, 1, 2, 3, 4] == offsets(each for each in buffers.take(99) if each.partition == 0)


def test_a_full_partition_pauses_and_an_emptied_one_goes_on(
    buffers: PartitionBuffers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are fetched meanwhile. It is said once."""
    monkeypatch.setattr(module, "MAX_WAITING", 40)
    monkeypatch.setattr(module, "MAX_BATCH", 10)
    buffers.put(fetched(ONE, range(10)))
    assert ([ONE], []) == buffers.turn()
    assert ([], []) == buffers.turn()
    assert buffers.any_paused()
    buffers.take(5)
    assert ([], [ONE]) == buffers.turn()
    assert not buffers.any_paused()


@pytest.mark.parametrize("size", [1, 5 << 20])
def test_nothing_is_put_beyond_the_bounds(
    buffers: PartitionBuffers, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By number, and by bytes with one batch more: then every partition that holds something is paused."""
    monkeypatch.setattr(module, "MAX_WAITING", 40)
    monkeypatch.setattr(module, "MAX_BATCH", 10)
    at = 0
    while (room := buffers.room()) > 0:
        buffers.put(fetched(ONE, range(at, at + room), size))
        at += room
    assert buffers.waiting == (40 if size == 1 else 10)
    assert ([ONE], []) == buffers.turn()
    buffers.take(1000)
    assert (0, 10) == (buffers.waiting, buffers.room())
    assert ([], [ONE]) == buffers.turn()


def test_a_commit_is_told_once_and_again_if_it_failed(buffers: PartitionBuffers) -> None:
    """With whatever was done since."""
    buffers.put(fetched(ONE, range(7, 12)) + fetched(TWO, range(3)))
    taken = [each for each in buffers.take(99) if each.partition == 0]
    buffers.done(taken[:2])
    assert {ONE: 9} == buffers.to_commit()
    assert {} == buffers.to_commit()
    buffers.not_committed([ONE])
    buffers.done(taken[2:3])
    assert ({}, {ONE: 10}) == (buffers.to_commit([TWO]), buffers.to_commit([ONE, OTHER]))


def test_the_lag_is_what_is_not_done(buffers: PartitionBuffers) -> None:
    """As of where the partitions ended; one of which nothing was fetched is not behind."""
    buffers.put(fetched(ONE, range(10)))
    buffers.done(buffers.take(4)[:3])
    buffers.ends({ONE: 12, TWO: 5})
    assert {"requests": 9, "results": 0} == buffers.lag()


def test_trouble_is_said_once_until_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of it; what the library only notes is for debugging; and there is an end to kinds."""
    said: list[tuple[str, str]] = []

    class Logger:
        def warning(self, _event: str, *, kind: str, detail: str) -> None:
            said.append((kind, detail))

        def debug(self, _event: str, **_fields: object) -> None:
            pass

        def info(self, event: str, *, after: list[str]) -> None:
            said.append((event, ",".join(after)))

    monkeypatch.setattr("tickwise.adapters.broker.kafka.library.logger", Logger())
    complaints = Complaints()
    complaints.recovered()
    for number in range(3):
        complaints.log(40, "%s [%s] %s", "FAIL", "client", f"refused {number}")
        complaints.log(20, "%s [%s] %s", "NOTE", "client", "slow")
        complaints.complain("DOWN", "all")
    complaints.recovered()
    complaints.complain("DOWN", "again")
    expected = [("FAIL", "refused 0"), ("DOWN", "all"), ("kafka_well_again", "DOWN,FAIL,NOTE"), ("DOWN", "again")]
    assert expected == said
    assert complaints.last == "again"
    for number in range(1000):
        complaints.complain(str(number), "x")
    assert len(said) < 300
