"""Rates of requests, of anything that has a name (a key, an address, a namespace), counted by all processes of the API
together.

The measure is a pace (GCRA: the generic cell rate algorithm): each request moves a caller's theoretical time on by 1 /
rate, and one that would move it further ahead of now than the burst allows is refused. So there are no windows at
whose edges twice as much comes through, one number a caller is all that is kept, and it is known exactly when the next
request will be taken.

Invariant: where the shared count can be reached, all processes together let through at most `burst` at once and
`rate` a second over time, for each caller. Where it cannot, each process keeps to its own share, and says so once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

BURST_SECONDS: Final = 2.0
"""The part of a rate of requests that may come at once."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate of one caller."""

    rate: float
    """Requests a second, more than 0; not whole: 0.1 is one in ten seconds."""
    burst: int
    """The most requests at once after a quiet time; at least 1."""

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf or self.burst < 1:
            raise ValueError(f"a pace needs a rate above 0 and a burst of at least 1, not {self.rate} and {self.burst}")

    @classmethod
    def of_requests(cls, rate: float) -> Pace:
        """The pace of so many requests a second: clients work in bursts, so two seconds of it may come at once."""
        return cls(rate, max(1, math.ceil(BURST_SECONDS * rate)))

    @property
    def interval_seconds(self) -> float:
        """Between two requests, in the long run."""
        return 1.0 / self.rate

    @property
    def tolerance_seconds(self) -> float:
        """The most by which a caller's theoretical time may be ahead of now."""
        return self.burst / self.rate


class Passed(NamedTuple):
    """The decision on one request, and the caller's budget after it."""

    allowed: bool
    remaining: int
    """The number of further requests that would be allowed now."""
    reset_seconds: float
    """The time until the whole burst is available again."""
    retry_seconds: float
    """0 if the request was allowed; else the time until the next one will be allowed, if no other comes first."""


class RateLimits(Protocol):
    """The count. Never raises because the other side is away."""

    async def start(self) -> None:
        """Begin; never raises because the other side is away."""
        ...

    async def stop(self) -> None:
        """Free everything."""
        ...

    async def hit(self, who: str, pace: Pace) -> Passed:
        """One request of this caller, by this pace. Those that come together are asked for together; of several paces
        for one caller, the last one counts."""
        ...
