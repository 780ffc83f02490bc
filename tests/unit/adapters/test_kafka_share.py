"""What a share group gave us: taken by urgency, accepted if it is done, given back if not."""

from __future__ import annotations

from tickwise.adapters.broker.kafka.share import Acquired
from tickwise.ports.broker import Delivery, lane_of

URGENT, USUAL = lane_of(9, 2), lane_of(0, 2)


def test_what_is_done_is_accepted_and_the_rest_goes_back() -> None:
    """Also what was never taken. What is done after that says nothing."""
    acquired = Acquired([URGENT, USUAL])
    deliveries = [Delivery(USUAL, b"", None, (), 0, at, float(at)) for at in range(4)]
    acquired.put((each, each.offset) for each in deliveries)
    taken = acquired.take(3)
    acquired.done(taken[1:])
    assert (1, False, {URGENT.name: 0, USUAL.name: 2}) == (acquired.waiting, acquired.all_done(), acquired.lag())
    assert ([1, 2], [0, 3]) == acquired.settle()
    assert (0, True) == (acquired.waiting, acquired.all_done())
    acquired.done(taken)
    assert ([], []) == acquired.settle()


def test_the_urgent_comes_first_and_nothing_is_passed_over() -> None:
    """Every tenth take begins with the oldest."""
    acquired = Acquired([URGENT, USUAL])
    usual = Delivery(USUAL, b"", None, (), 0, 0, 1.0)
    urgent = [Delivery(URGENT, b"", None, (), 0, at, 2.0 + at) for at in range(30)]
    acquired.put((each, each) for each in (usual, *urgent))
    takes = [acquired.take(1) for _ in range(10)]
    assert [[each] for each in urgent[:9]] == takes[:9]
    assert [usual] == takes[9]
    assert [] == acquired.take(0)
