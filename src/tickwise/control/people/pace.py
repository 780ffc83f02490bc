"""The pace of sign-ins: a bound on guesses that locks nobody out.

    an address    ── `BURST` attempts at once, then one in `INTERVAL_SECONDS` ──► a hash costs nobody else their turn
    a name, from one network ── after `FREE_FAILURES` wrong passwords, a pause that doubles ──► guesses get slow there
    a name that signed in from there before ── attempts of its own, and its hash comes first ──► a flood holds up others

The pause belongs to the name and the network together: wrong passwords from elsewhere do not keep a person from signing
in where they are.

Attempts of an address, and failures of a name from a network, count in all API processes together (`ports.limits`), so
a guesser has not as many tries again with each process. Known names and doubled pauses are of this process. The shared
count of failures allows at once what the pauses allow until they are at their longest, and then one in each such pause:
one process alone never meets it first. A right password is not counted there.

Invariant: the memory is bounded, and made-up names and addresses free nobody who has to wait: the counts that hold up
least are forgotten first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from typing import Final

from tickwise.domain.errors import SignInPaced
from tickwise.domain.model import joined
from tickwise.domain.networks import network_of
from tickwise.observability.bounded import Bounded
from tickwise.ports.clock import Clock
from tickwise.ports.limits import Pace, RateLimits

BURST: Final = 20
INTERVAL_SECONDS: Final = 1.0
FREE_FAILURES: Final = 5
PAUSE_SECONDS_MOST: Final = 900.0
FORGOTTEN_SECONDS: Final = 86_400.0
"""Failures count for so long after the last one."""
REMEMBERED_MAX: Final = 20_000

ATTEMPTS: Final = Pace(1.0 / INTERVAL_SECONDS, BURST)
FAILURES: Final = Pace(1.0 / PAUSE_SECONDS_MOST, FREE_FAILURES + math.ceil(math.log2(PAUSE_SECONDS_MOST)))


@dataclass(slots=True)
class _Failures:
    """Wrong passwords for one name from one network."""

    count: int
    last: float
    until: float
    is_crowded: bool = False
    """All processes together had too many: from now on an attempt counts before its password is looked at, …"""
    is_counted: bool = False
    """… and this one has."""


class SignInPace:
    """Counts attempts and failures."""

    def __init__(self, clock: Clock, limits: RateLimits | None = None) -> None:
        """`limits` counts with other processes; None: there is none."""
        self._monotonic = clock.monotonic
        self._limits = limits
        self._addresses: Bounded[tuple[str, str], float] = Bounded(REMEMBERED_MAX, float)
        """The theoretical time (as in `ports.limits`) of each network, and of each name that is known there."""
        self._failures: Bounded[tuple[str, str], _Failures] = Bounded(REMEMBERED_MAX, attrgetter("until"))
        self._known: Bounded[tuple[str, str], float] = Bounded(REMEMBERED_MAX, float)
        """Names and the networks from which they signed in, and when."""

    def is_known(self, account: str, address: str) -> bool:
        """Check whether this name has signed in from there: a flood of sign-ins waits for it, not it for the flood."""
        return self._known.get((account, network_of(address))) is not None

    async def begin(self, account: str, address: str) -> None:
        """One more attempt. Raises `SignInPaced`."""
        now, network = self._monotonic(), network_of(address)
        failures = self._failures.get((account, network))
        if failures is not None and failures.until > now:
            raise _paced(failures.until - now)
        if failures is not None and failures.is_crowded:
            pause = await self._count("@sign-in-failed", (account, network), FAILURES)
            if pause > 0.0:
                failures.until = now + pause
                raise _paced(pause)
            failures.is_counted = True
        counted = (account, network) if self.is_known(account, address) else ("", network)
        ahead = max(self._addresses.get(counted) or now, now) + INTERVAL_SECONDS
        if ahead - now > BURST * INTERVAL_SECONDS:
            raise _paced(ahead - now - BURST * INTERVAL_SECONDS)
        self._addresses.put(counted, ahead)
        pause = await self._count("@sign-in", counted, ATTEMPTS)
        if pause > 0.0:
            raise _paced(pause)

    async def failed(self, account: str, address: str) -> None:
        """The password was wrong."""
        now, place = self._monotonic(), (account, network_of(address))
        failures = self._failures.get(place)
        if failures is None or now - failures.last > FORGOTTEN_SECONDS:
            failures = _Failures(0, now, now)
        failures.count += 1
        failures.last = now
        if failures.count >= FREE_FAILURES:
            failures.until = now + min(2.0 ** min(failures.count - FREE_FAILURES, 20), PAUSE_SECONDS_MOST)
        self._failures.put(place, failures)
        if failures.is_counted:
            failures.is_counted = False
            return
        pause = await self._count("@sign-in-failed", place, FAILURES)
        failures.is_crowded = failures.is_crowded or pause > 0.0
        failures.until = max(failures.until, now + pause)

    def succeeded(self, account: str, address: str) -> None:
        """The person is in: failures of before count no more."""
        place = (account, network_of(address))
        self._failures.pop(place)
        self._known.put(place, self._monotonic())

    async def _count(self, what: str, place: tuple[str, str], pace: Pace) -> float:
        """Count one with the other processes; the seconds until they would let one more through, 0 if they let this
        one."""
        if self._limits is None:
            return 0.0
        account, network = place
        # What somebody typed as a name may be a password: it goes nowhere as it is.
        named = sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:32] if account else ""
        passed = await self._limits.hit(joined(what, named, network), pace)
        return 0.0 if passed.allowed else passed.retry_seconds


def _paced(seconds: float) -> SignInPaced:
    return SignInPaced(
        f"too many attempts to sign in; wait for {math.ceil(seconds)} s", retry_after_seconds=math.ceil(seconds)
    )
