"""Log lines about events that anybody can cause."""

from __future__ import annotations

from tickwise.observability.event_pace import EventPace
from tickwise.testing.clock import VirtualClock


async def test_a_flood_of_events_is_a_line_now_and_then_with_their_number() -> None:
    """Of each kind apart: a flood of one hides no other."""
    clock = VirtualClock()
    pace = EventPace(clock, seconds=10.0)
    assert [1, 0, 0] == [pace.due("key") for _ in range(3)]
    assert 1 == pace.due("silent")
    await clock.advance(9.9)
    assert 0 == pace.due("key")
    await clock.advance(0.2)
    assert 4 == pace.due("key")
    assert 0 == pace.due("key")
