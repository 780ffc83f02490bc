"""The draws of a seed before the first step: the nodes, the faults that may occur, and the requests.

Swarm testing: each seed leaves out about half of the faults and of the features. A world in which everything happens at
once finds less: a fault that restarts all executors every second hides what only shows in a long-lived one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Final, NamedTuple

FAULTS: Final = (
    "crash", "crash at any await", "dies after a call", "freezes after a call", "pause", "partition", "hang",
    "request lost", "answer lost", "store away", "store restart", "clock jump", "signals", "latency", "half open",
)  # fmt: skip
FEATURES: Final = (
    "once", "future", "cron", "interval", "run now", "cancel run", "cancel job", "retry", "pause", "edit", "failing",
    "long", "stubborn", "deadly", "timeout", "repeat", "burst", "overlap", "catch up", "leave", "quick", "priority",
    "unknown", "redrive", "sequence", "limit", "rate", "hold", "bulk", "maintenance",
)  # fmt: skip
BROKER_SHARE: Final = 0.5
"""Of worlds, in which a broker carries hints; in half of them results too."""
FAILOVER: Final = "failover"
"""The store is set back to what it was some seconds ago: a standby takes over that had not yet got everything."""
FAILOVER_SHARE: Final = 0.3
"""Of worlds with faults, in which that happens."""
BROKER_FAULTS: Final = ("broker away", "broker carries badly")

QUIET_SHARE: Final = 0.06
"""The share of worlds without any fault: a failure there is a failure everywhere."""


class ClockChangePlace(NamedTuple):
    """A zone, and an instant at which its clock changes."""

    zone: str
    change: str


CHANGES: Final = (
    ClockChangePlace("Europe/Berlin", "2027-03-28T01:00:00"),
    ClockChangePlace("Europe/Berlin", "2027-10-31T01:00:00"),
    ClockChangePlace("America/New_York", "2027-03-14T07:00:00"),
    ClockChangePlace("America/New_York", "2027-11-07T06:00:00"),
    ClockChangePlace("Australia/Lord_Howe", "2027-04-03T15:00:00"),
    ClockChangePlace("Australia/Lord_Howe", "2027-10-02T15:30:00"),
)
ORDINARY: Final = 1_800_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarm:
    """One seed's draw."""

    seed: int
    start: float
    """Unix seconds."""
    zone: str
    clock_changes: float | None
    """The instant at which the zone's clock does, if it does in this world."""
    faults: frozenset[str]
    features: frozenset[str]
    rough_seconds: float
    """The time during which faults happen and requests are made."""
    schedulers: int
    executors: int
    apis: int
    places: int
    """Tasks of one kind that an executor runs at a time."""
    lease_seconds: float
    poll_seconds: float
    horizon_seconds: float
    heal_seconds: float
    latency_seconds: float
    """The most that one way to the store takes, usually."""
    lag_seconds: float
    fault_gap_seconds: float
    """Between two faults, in the mean."""
    call_fault_share: float
    """Of calls that go wrong, if calls can."""
    ask_gap_seconds: float
    """Between two requests, in the mean."""
    broker: bool = False
    """There is one, and it carries hints."""
    recorders: int = 0
    """With a broker: so many of them apply results; without any, executors tell the store themselves."""

    @property
    def heartbeat_seconds(self) -> float:
        return self.lease_seconds * 0.3

    def can(self, fault: str) -> bool:
        return fault in self.faults

    def wants(self, feature: str) -> bool:
        return feature in self.features


def draw(seed: int) -> Swarm:
    """Draw a world; equal seeds give equal worlds."""
    dice = Random(f"{seed}/swarm")
    faults = [name for name in FAULTS if dice.random() < 0.45]
    if dice.random() < QUIET_SHARE:
        faults = []
    features = [name for name in FEATURES if dice.random() < 0.55]
    if not {"once", "future", "cron", "interval"} & {*features}:
        features.append("once")
    rough = dice.uniform(40.0, 110.0)
    start, zone, change = ORDINARY + dice.random() * 86_400.0, "UTC", None
    if dice.random() < 0.3:
        place = dice.choice(CHANGES)
        zone, change = place.zone, datetime.fromisoformat(place.change).replace(tzinfo=UTC).timestamp()
        start = change - dice.uniform(0.2, 0.8) * rough
    # Of dice of its own, so that worlds without a broker are what they were before there was any.
    carried = Random(f"{seed}/broker")
    broker = carried.random() < BROKER_SHARE
    recorders = carried.choice((0, 0, 1, 2)) if broker else 0
    if broker and faults:
        faults += [name for name in BROKER_FAULTS if carried.random() < 0.6]
    if faults and Random(f"{seed}/failover").random() < FAILOVER_SHARE:
        faults.append(FAILOVER)
    return Swarm(
        seed=seed,
        start=round(start, 3),
        zone=zone,
        clock_changes=change,
        faults=frozenset(faults),
        features=frozenset(features),
        rough_seconds=rough,
        schedulers=dice.choice((1, 2, 2, 3)),
        executors=dice.choice((1, 2, 2, 3)),
        apis=dice.choice((1, 2)),
        places=dice.choice((1, 2, 4, 8)),
        lease_seconds=dice.choice((3.0, 5.0, 10.0)),
        poll_seconds=dice.choice((0.5, 1.0, 2.0, 3.0)),
        horizon_seconds=dice.choice((2.0, 4.0, 6.0)),
        heal_seconds=dice.choice((1.0, 2.0)),
        latency_seconds=dice.choice((0.0005, 0.004, 0.03)),
        lag_seconds=dice.choice((0.0, 0.0, 0.002, 0.02)),
        fault_gap_seconds=dice.choice((3.0, 8.0, 20.0)),
        call_fault_share=dice.choice((0.002, 0.01, 0.05)),
        ask_gap_seconds=dice.choice((0.7, 2.0, 4.0)),
        broker=broker,
        recorders=recorders,
    )
