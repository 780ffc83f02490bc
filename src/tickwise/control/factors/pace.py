"""The pace of wrong codes: beside that of passwords (`people.pace`), a bound for each person in all.

    an address                  ── as for passwords, in one count with them
    a person, from one network  ── as for passwords: pauses that double, up to 15 min
    a person, from anywhere     ── `PERSON`: 50 wrong codes at once, then one in 15 min

Only a caller with the right password gets here. One code in 330,000 is right (three steps of a million codes),
so a guesser with any number of addresses needs years. A person who showed a second factor from the same network
before is not held up by guesses from elsewhere. No pause lasts for ever, and passkeys are guessed by nobody.
"""

from __future__ import annotations

import math
from typing import Final
from uuid import UUID

from tickwise.control.people.pace import REMEMBERED_MAX, SignInPace
from tickwise.domain.errors import SignInPaced
from tickwise.observability.bounded import Bounded
from tickwise.ports.clock import Clock
from tickwise.ports.limits import Pace, RateLimits

PERSON: Final = Pace(1 / 900.0, 50)


class CodePace:
    """Counts wrong codes."""

    def __init__(self, clock: Clock, pace: SignInPace, limits: RateLimits | None) -> None:
        """`pace` is that of passwords; `limits` counts with other processes."""
        self._monotonic = clock.monotonic
        self._pace = pace
        self._limits = limits
        self._wrong: Bounded[UUID, float] = Bounded(REMEMBERED_MAX, float)
        """The theoretical time (as in `ports.limits`) of each person."""

    async def begin(self, user_id: UUID, address: str) -> None:
        """One more attempt of a person. Raises `SignInPaced`."""
        account, now = _account(user_id), self._monotonic()
        ahead = (self._wrong.get(user_id) or now) - now - PERSON.tolerance_seconds + PERSON.interval_seconds
        if ahead > 0.0 and not self._pace.is_known(account, address):
            raise SignInPaced(
                f"too many wrong codes; wait for {math.ceil(ahead)} s, or show a passkey from where you showed one "
                "before",
                retry_after_seconds=math.ceil(ahead),
            )
        await self._pace.begin(account, address)

    async def failed(self, user_id: UUID, address: str) -> None:
        """The code was wrong."""
        now = self._monotonic()
        until = max(self._wrong.get(user_id) or now, now) + PERSON.interval_seconds
        if self._limits is not None:
            passed = await self._limits.hit(f"@second-factor-failed {user_id}", PERSON)
            if not passed.allowed:
                until = max(until, now + PERSON.tolerance_seconds - PERSON.interval_seconds + passed.retry_seconds)
        self._wrong.put(user_id, until)
        await self._pace.failed(_account(user_id), address)

    def succeeded(self, user_id: UUID, address: str) -> None:
        """The person is in."""
        self._pace.succeeded(_account(user_id), address)


def _account(user_id: UUID) -> str:
    return f"second factor of {user_id}"
