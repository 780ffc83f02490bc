"""The place in the queue from which a claim reads, so that it scans neither held runs nor dead rows.

    mark ──► │ gone or held │ free, near ……………… │ free, ahead ……………………… │
             ▲              ▲ now                 ▲ now + near            ▲ now + ahead

A claim that began at the queue's start each time would walk over every dead entry that a vacuum has not removed and
over every run that is held: under a held snapshot 33k runs a second became 6k. So each claimer keeps marks, behind
the clock by a lag (an insert may commit that long after its statement began) and swept past at every few seconds.

While looking ahead is cheap, each claim looks all the way; once it reads much that is held, near and ahead are two
claims, the one from just behind the clock, the other from where the last one ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

LAG_SECONDS: Final = 0.1
NEAR_SECONDS: Final = 0.05
SWEEP_SECONDS: Final = 1.9
"""Less than the 2 s for which a run may stay unseen."""
SWEEP_SHARE: Final = 20
"""A sweep may take a twentieth of the time, however much a held snapshot makes it read."""
LOOK_SECONDS: Final = 0.1
FAIR_EVERY: Final = 10
CHEAP_SECONDS: Final = 0.004
CHEAP_SECONDS_PER_RUN: Final = 0.00003

FAR_PAST: Final = float("-inf")


class Reach(Enum):
    """The range that a claim reads."""

    SWEEP = "from the start"
    WHOLE = "from the near mark, all the way ahead"
    NEAR = "from the near mark, what is due now"
    AHEAD = "from where the last look ahead ended"


class Seen(NamedTuple):
    """The facts that a claim showed besides its runs."""

    exhausted: bool
    """There was no more in any lane."""
    now: float
    """The store's clock as the claim began, or an instant that it had passed by then."""
    begun: float
    ended: float
    """On our clock."""


@dataclass(slots=True)
class Marks:
    """Below these instants there is nothing (more) to find: one for all lanes, higher ones for some."""

    floor: float = FAR_PAST
    lanes: dict[int, float] = field(default_factory=dict)

    def passed(self, taken: Sequence[tuple[int, float]], *, exhausted: bool, limit: float, lag: float) -> None:
        """Move on after a claim that returned `taken` (lane, ready). `exhausted`: there was no more in any lane."""
        if exhausted:
            self.floor = max(self.floor, limit)
            self.lanes = {lane: mark for lane, mark in self.lanes.items() if mark > self.floor}
            return
        latest: dict[int, float] = {}
        for lane, ready in taken:
            if ready > latest.get(lane, FAR_PAST):
                latest[lane] = ready
        for lane, ready in latest.items():
            self.lanes[lane] = max(self.lanes.get(lane, self.floor), min(ready - lag, limit))


@dataclass(slots=True)
class ClaimCursor:
    """The marks of one executor and one set of queues and labels."""

    near: Marks = field(default_factory=Marks)
    ahead: Marks = field(default_factory=Marks)
    swept: float = FAR_PAST
    pause: float = SWEEP_SECONDS
    looked: float = FAR_PAST
    costly: bool = False
    count: int = 0
    begun: dict[int, str] = field(default_factory=dict)
    """By priority, the namespace that the last claim began with: the next one begins with another."""

    def next_reach(self, monotonic: float) -> Reach:
        """The range for the next claim."""
        self.count += 1
        if monotonic - self.swept >= self.pause:
            return Reach.SWEEP
        return Reach.NEAR if self.costly else Reach.WHOLE

    @property
    def fair(self) -> bool:
        """Check whether this claim begins with the run that has waited longest, of any priority."""
        return self.count % FAIR_EVERY == 0

    def looks_ahead(self, monotonic: float, ahead_seconds: float) -> bool:
        """Check whether a near claim that found too little is followed by one ahead."""
        return ahead_seconds > NEAR_SECONDS and monotonic - self.looked >= LOOK_SECONDS

    def marks(self, reach: Reach) -> Marks:
        """The positions from which a claim of this range reads."""
        if reach is Reach.SWEEP:
            return Marks()
        return self.ahead if reach is Reach.AHEAD else self.near

    def took(self, lanes: Iterable[tuple[int, str]]) -> None:
        """Remember with which namespaces a claim that took runs of these lanes (priority, namespace) began."""
        taken: dict[int, list[str]] = {}
        for priority, namespace in lanes:
            taken.setdefault(priority, []).append(namespace)
        for priority, namespaces in taken.items():
            last = self.begun.get(priority, "")
            self.begun[priority] = min(namespaces, key=lambda namespace: (namespace <= last, namespace))

    def claimed(self, reach: Reach, taken: Sequence[tuple[int, float]], seen: Seen) -> None:
        """Learn from a claim what it took (lane, ready), and what else there was to see."""
        if reach is Reach.AHEAD:
            last = max((ready for _, ready in taken), default=seen.now)
            self.ahead.passed(taken, exhausted=seen.exhausted, limit=last, lag=0.0)
            if seen.exhausted:
                self.looked = seen.begun
            return
        # A fair claim goes by waiting time alone; what it took says as much about its lanes as any other.
        self.near.passed(taken, exhausted=seen.exhausted, limit=seen.now - LAG_SECONDS, lag=LAG_SECONDS)
        cost = seen.ended - seen.begun
        if reach is Reach.SWEEP:
            self.swept = seen.ended
            self.pause = max(SWEEP_SECONDS, SWEEP_SHARE * cost)
        if reach is not Reach.NEAR:
            self.costly = cost > CHEAP_SECONDS + CHEAP_SECONDS_PER_RUN * len(taken)
            if self.costly:
                self.ahead = Marks(floor=max((ready for _, ready in taken), default=seen.now))
