"""Look-ups of keys that nobody has shown here before: few at once, wrong ones at a bounded rate, none refused.

    distinct wrong keys ──► a queue for each address ──► in turn, a few at once ──► the store

A caller can make up keys without end, and each costs a query that no memory of earlier answers saves. A limit that
refuses would also refuse the first use of a good key, from the same proxy or during an attack from many addresses. A
look-up therefore waits for its turn, and addresses take turns. Keys that this process has found before are not queued.

Invariant: a good key is always looked up; wrong keys cost the store at most `misses_per_second` queries.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

from tickwise.ports.clock import Clock
from tickwise.ports.identity import FoundKey

Find = Callable[[bytes], Awaitable[FoundKey | None]]

AT_ONCE: Final = 4
"""Of the store's connections, so that a flood of keys leaves the others to the work."""
BURST_SECONDS: Final = 0.5
"""Wrong keys of so long may be looked up at once after a quiet time."""


class KeyLookups:
    """The queue."""

    def __init__(self, find: Find, clock: Clock, *, misses_per_second: float) -> None:
        self._find = find
        self._clock = clock
        self._seconds_each = 1.0 / misses_per_second
        self._paid_until = 0.0
        """When the wrong keys so far are paid for, on the monotonic clock."""
        self._queues: dict[str, deque[bytes]] = {}
        """Of each network, the one whose turn it is first."""
        self._answers: dict[bytes, asyncio.Future[FoundKey | None]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    async def find(self, digest: bytes, address: str) -> FoundKey | None:
        """The good key with this digest. Raises what the store raises."""
        answer = self._answers.get(digest)
        if answer is None:
            loop = asyncio.get_running_loop()
            answer = self._answers[digest] = loop.create_future()
            self._queues.setdefault(_network(address), deque()).append(digest)
            if len(self._workers) < AT_ONCE:
                worker = loop.create_task(self._work(), name="look up keys")
                self._workers.add(worker)
                worker.add_done_callback(self._workers.discard)
        return await asyncio.shield(answer)

    async def _work(self) -> None:
        """Look up what waits, until nothing does."""
        while self._queues:
            now = self._clock.monotonic()
            early = self._paid_until - now - BURST_SECONDS
            if early > 0.0:
                await self._clock.sleep(early)
                continue
            digest = self._next()
            # Charged first and given back for a good key, so that those who look at the same time see it.
            self._paid_until = max(self._paid_until, now) + self._seconds_each
            try:
                found = await self._find(digest)
            except Exception as failure:  # noqa: BLE001 - it belongs to those who wait for this key
                self._settle(digest, failure)
            else:
                if found is not None:
                    self._paid_until -= self._seconds_each
                self._settle(digest, found)

    def _next(self) -> bytes:
        """The key whose turn it is; its network is the last one then."""
        network = next(iter(self._queues))
        queue = self._queues.pop(network)
        digest = queue.popleft()
        if queue:
            self._queues[network] = queue
        return digest

    def _settle(self, digest: bytes, outcome: FoundKey | Exception | None) -> None:
        answer = self._answers.pop(digest)
        if answer.cancelled():
            return
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
            answer.exception()  # read: nobody may be waiting any more
        else:
            answer.set_result(outcome)


def _network(address: str) -> str:
    """The address, or the 64 bits of it that one customer has."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    return known.exploded[:19] if isinstance(known, IPv6Address) else address
