"""Requests of one key are let through at a pace; a caller above the pace is told when to come again.

    RateLimit-Policy: "key";q=200;w=2        200 at once, all of it there again after 2 seconds
    RateLimit: "key";r=17;t=2                17 would be taken now

The headers are those of the IETF's draft (draft-ietf-httpapi-ratelimit-headers); `Retry-After` is the time after which
the next request will be taken, rounded up to a second.
"""

from __future__ import annotations

import math
from typing import Final

from tickwise.api.problems import Headers, RateLimited
from tickwise.domain.model import Principal
from tickwise.ports.limits import RateLimits

NAME: Final = '"key"'
"""Of the policy: whom it counts."""


class Pacer:
    """Lets requests through."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        pace = limits.pace
        window = max(1, math.ceil(pace.tolerance_seconds))
        self._policy = (b"ratelimit-policy", f"{NAME};q={pace.burst};w={window}".encode())
        self._said = f"{pace.rate:g} requests a second, {pace.burst} at once"

    async def admit(self, who: Principal, headers: Headers) -> None:
        """Let one more request through; the answer to it bears what is put into `headers`, refused or not. Raises
        `RateLimited`."""
        passed = await self._limits.hit(who.full_name)
        limit = f"{NAME};r={passed.remaining};t={math.ceil(passed.reset_seconds)}"
        headers += [self._policy, (b"ratelimit", limit.encode())]
        if not passed.allowed:
            raise RateLimited(
                f"this key may send {self._said}; wait for {passed.retry_seconds:.3g} s",
                retry_after_seconds=passed.retry_seconds,
            )
