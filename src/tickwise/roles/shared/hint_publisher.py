"""Publishes claim hints to executors through the broker, right after the runs are committed.

    committed ──► by lane ──► packed ──► thrown into the channel of their priority

Nobody waits for it and it cannot fail. Invariant: nothing depends on a hint. One that is lost, repeated or late costs
latency, and one for a run that was never made costs a look at an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tickwise.domain.model import Lane
from tickwise.ports.broker import Broker, Channel, Message, lane_of
from tickwise.ports.store import Ready
from tickwise.roles.shared.messages import Hints, encode

QUICK: Final = "task:function"
"""Runs in this lane are worked off in batches; the others take a slot each."""
PACK_QUICK: Final = 100
"""Runs of one message: a pack goes to one executor, and hundreds are a few milliseconds of its work."""
PACK_SLOTS: Final = 4
"""Of what takes a slot: few, so that one executor does not sit on what others could start."""
SPREAD_SECONDS: Final = 0.25
"""A pack is claimed when its last run can be, so its first must not be ready much earlier."""


class HintPublisher:
    """One process's."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def publish(self, runs: Iterable[Ready]) -> None:
        """Publish the hints of committed runs that are claimable now or soon."""
        by_lane: dict[Lane, list[Ready]] = {}
        for run in runs:
            known = by_lane.get(run.lane)
            if known is None:
                by_lane[run.lane] = [run]
            else:
                known.append(run)
        thrown: dict[Channel, list[Message]] = {}
        for lane, ready in by_lane.items():
            messages = thrown.setdefault(lane_of(lane.priority, self._broker.lanes), [])
            messages += [Message(encode(hints)) for hints in packs(lane, ready)]
        for channel, messages in thrown.items():
            self._broker.send_nowait(channel, messages)


def packs(lane: Lane, runs: list[Ready]) -> Iterator[Hints]:
    """The runs of one lane as hints, the earliest first."""
    most = PACK_QUICK if QUICK in lane.requires else PACK_SLOTS
    if len(runs) > 1:
        runs.sort(key=_ready)
    begin = 0
    for end in range(1, len(runs) + 1):
        if end < len(runs) and end - begin < most and runs[end].ready - runs[begin].ready <= SPREAD_SECONDS:
            continue
        yield Hints.of(lane, runs[begin:end])
        begin = end


def _ready(run: Ready) -> float:
    return run.ready
