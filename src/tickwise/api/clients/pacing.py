"""Requests of one address, one key and one namespace are let through at a pace; a caller above a pace is told when to
come again.

    RateLimit-Policy: "address";q=100;w=2, "key";q=200;w=2     200 at once, all of it there again after 2 seconds
    RateLimit: "address";r=60;t=1, "key";r=17;t=2              17 would be taken now

    address ──► key, remembered or looked up ──► key's pace ──► namespace's pace ──► the body is read

The headers are those of draft-ietf-httpapi-ratelimit-headers-10, lists of structured fields; `Retry-After` is the time
after which the next request will be taken, rounded up to a second.

A key, or a person, has one pace in all of its namespaces. An address is counted before its key is looked up, by its
network. A request that is over the pace of its key does not count for its namespace: one key that sends too much leaves
the others what is theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tickwise.api.problems import Headers, RateLimited
from tickwise.domain.model import Principal, joined
from tickwise.domain.networks import network_of
from tickwise.ports.limits import Pace, RateLimits

KEY: Final = "key"
ADDRESS: Final = "address"
NAMESPACE: Final = "namespace"
_WHO: Final = {KEY: "this key", ADDRESS: "this address", NAMESPACE: "the namespace"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPaces:
    """The paces of requests; None: no limit."""

    key: Pace | None = None
    address: Pace | None = None
    namespace: Pace | None = None
    """Of a namespace that has none of its own."""


class Pacer:
    """Lets requests through."""

    def __init__(self, limits: RateLimits, paces: RequestPaces) -> None:
        self._limits = limits
        self._paces = paces
        self.counts_addresses: Final = paces.address is not None
        self.counts_callers: Final = paces.key is not None or paces.namespace is not None

    async def admit_address(self, address: str, headers: Headers) -> None:
        """Let one more request of this address through, as `admit`. Raises `RateLimited`."""
        if self._paces.address is not None:
            await self._hit(ADDRESS, joined("@address", network_of(address)), self._paces.address, headers)

    async def admit(self, who: Principal, headers: Headers, rate: float | None = None) -> None:
        """Let one more request through; the answer to it bears what is put into `headers`, refused or not. `rate`: the
        requests a second of the namespace, if it has a quota of its own. Raises `RateLimited`."""
        if self._paces.key is not None:
            await self._hit(KEY, who.credential_name, self._paces.key, headers)
        pace = self._paces.namespace if rate is None else Pace.of_requests(rate)
        if pace is not None:
            await self._hit(NAMESPACE, joined("@namespace", who.namespace), pace, headers)

    async def _hit(self, policy: str, counted: str, pace: Pace, headers: Headers) -> None:
        passed = await self._limits.hit(counted, pace)
        limit = f'"{policy}";r={passed.remaining};t={math.ceil(passed.reset_seconds)}'.encode()
        if headers:
            (_, policies), (_, limits) = headers
            headers[:] = _headers(policies + b", " + _policy(policy, pace), limits + b", " + limit)
        else:
            headers[:] = _headers(_policy(policy, pace), limit)
        if not passed.allowed:
            raise RateLimited(
                f"{_WHO[policy]} may send {pace.rate:g} requests a second, {pace.burst} at once; wait for "
                f"{passed.retry_seconds:.3g} s",
                retry_after_seconds=passed.retry_seconds,
            )


@lru_cache(1_024)
def _policy(name: str, pace: Pace) -> bytes:
    return f'"{name}";q={pace.burst};w={max(1, math.ceil(pace.tolerance_seconds))}'.encode()


def _headers(policies: bytes, limits: bytes) -> Headers:
    return [(b"ratelimit-policy", policies), (b"ratelimit", limits)]
