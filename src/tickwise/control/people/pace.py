"""The pace of sign-ins: a bound on guesses that locks nobody out.

    an address    ── `BURST` attempts at once, then one in `INTERVAL_SECONDS` ──► a hash costs nobody else their turn
    a name, from one network ── after `FREE_FAILURES` wrong passwords, a pause that doubles ──► guesses get slow there

The pause belongs to the name and the network together: wrong passwords from elsewhere do not keep a person from signing
in where they are. The counts are of this process; several processes let through as many times more.

Invariant: the memory is bounded: the counts that were touched longest ago are forgotten first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeVar

from tickwise.domain.errors import SignInPaced
from tickwise.domain.networks import network_of
from tickwise.ports.clock import Clock

K = TypeVar("K")
V = TypeVar("V")

BURST: Final = 20
INTERVAL_SECONDS: Final = 1.0
FREE_FAILURES: Final = 5
PAUSE_SECONDS_MOST: Final = 900.0
FORGOTTEN_SECONDS: Final = 86_400.0
"""Failures count for so long after the last one."""
REMEMBERED_MAX: Final = 50_000


@dataclass(slots=True)
class _Failures:
    """Wrong passwords for one name from one network."""

    count: int
    last: float
    until: float


class SignInPace:
    """Counts attempts and failures."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._addresses: dict[str, float] = {}
        """The theoretical time of each network (as in `ports.limits`)."""
        self._failures: dict[tuple[str, str], _Failures] = {}

    def begin(self, account: str, address: str) -> None:
        """One more attempt. Raises `SignInPaced`."""
        now, network = self._monotonic(), network_of(address)
        failures = self._failures.get((account, network))
        if failures is not None and failures.until > now:
            raise _paced(failures.until - now)
        ahead = max(self._addresses.pop(network, now), now) + INTERVAL_SECONDS
        if ahead - now > BURST * INTERVAL_SECONDS:
            _keep(self._addresses, network, ahead - INTERVAL_SECONDS)
            raise _paced(ahead - now - BURST * INTERVAL_SECONDS)
        _keep(self._addresses, network, ahead)

    def failed(self, account: str, address: str) -> None:
        """The password was wrong."""
        now, place = self._monotonic(), (account, network_of(address))
        failures = self._failures.pop(place, None)
        if failures is None or now - failures.last > FORGOTTEN_SECONDS:
            failures = _Failures(0, now, now)
        failures.count += 1
        failures.last = now
        if failures.count >= FREE_FAILURES:
            failures.until = now + min(2.0 ** min(failures.count - FREE_FAILURES, 20), PAUSE_SECONDS_MOST)
        _keep(self._failures, place, failures)

    def succeeded(self, account: str, address: str) -> None:
        """The person is in: failures of before count no more."""
        self._failures.pop((account, network_of(address)), None)


def _keep(place: dict[K, V], key: K, value: V) -> None:
    if len(place) >= REMEMBERED_MAX:
        del place[next(iter(place))]
    place[key] = value


def _paced(seconds: float) -> SignInPaced:
    return SignInPaced(
        f"too many attempts to sign in; wait for {math.ceil(seconds)} s", retry_after_seconds=math.ceil(seconds)
    )
