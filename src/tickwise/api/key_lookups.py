"""Look-ups of keys that are new to this process: few at once, wrong ones at a bounded rate, few waiting.

    distinct wrong keys ──► a queue for each address ──► in turn, a few at once ──► the store

A caller can make up keys without end, and each costs a query that no memory of earlier answers saves. A limit that
refuses would also refuse the first use of a good key, from the same proxy or during an attack from many addresses. A
look-up therefore waits for its turn, and addresses take turns. Keys that this process has found before are not queued.

A caller that waits holds a request in memory. Each network has few places therefore, and all together have a bounded
number: the network with the most gives one up to a network that has fewer. A key that nobody waits for any more leaves.

Invariant: a good key is looked up, or its caller told to send it again; it is never called wrong. Wrong keys cost the
store at most `misses_per_second` queries, and at most `MAX_WAITING` keys wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tickwise.api.problems import KeysWaiting
from tickwise.domain.networks import network_of
from tickwise.ports.clock import Clock
from tickwise.ports.identity import FoundKey

Find = Callable[[bytes], Awaitable[FoundKey | None]]

AT_ONCE: Final = 4
"""Of the store's connections, so that a flood of keys leaves the others to the work."""
BURST_SECONDS: Final = 0.5
"""Wrong keys of so long may be looked up at once after a quiet time."""
MAX_NETWORK: Final = 64
"""Keys of one network that may wait."""
MAX_WAITING: Final = 1_000
"""Keys that may wait in all; each holds a request of up to 80 kB."""


@dataclass(slots=True)
class _Lookup:
    """A key that is looked up, or waits for that."""

    network: str
    answer: asyncio.Future[FoundKey | None]
    callers: int = 0
    """The number of callers that wait for the answer."""


class KeyLookups:
    """The queue."""

    def __init__(self, find: Find, clock: Clock, *, misses_per_second: float) -> None:
        self._find = find
        self._clock = clock
        self._seconds_each = 1.0 / misses_per_second
        self._paid_until = 0.0
        """The time at which the wrong keys so far are paid for, on the monotonic clock."""
        self._queues: dict[str, dict[bytes, None]] = {}
        """Of each network, the one whose turn it is first; the keys in their order."""
        self._waiting = 0
        """Keys in all queues."""
        self._lookups: dict[bytes, _Lookup] = {}
        self._workers: set[asyncio.Task[None]] = set()

    async def find(self, digest: bytes, address: str) -> FoundKey | None:
        """The good key with this digest. Raises `KeysWaiting`, and what the store raises. If every caller that waits
        for a key is cancelled before its turn, it is not looked up."""
        lookup = self._lookups.get(digest) or self._queue(digest, network_of(address))
        lookup.callers += 1
        try:
            return await asyncio.shield(lookup.answer)
        finally:
            lookup.callers -= 1
            queued = digest in self._queues.get(lookup.network, ())
            if queued and not lookup.callers and self._lookups[digest] is lookup:
                self._leave(digest, lookup.network)
                del self._lookups[digest]

    def _queue(self, digest: bytes, network: str) -> _Lookup:
        """A place for it. Raises `KeysWaiting`."""
        taken = len(self._queues.get(network, ()))
        if taken >= MAX_NETWORK:
            raise KeysWaiting
        if self._waiting >= MAX_WAITING:
            most = max(self._queues, key=lambda each: len(self._queues[each]))
            if len(self._queues[most]) <= taken + 1:
                raise KeysWaiting
            latest = next(reversed(self._queues[most]))
            self._leave(latest, most)
            self._settle(latest, KeysWaiting())
        loop = asyncio.get_running_loop()
        lookup = self._lookups[digest] = _Lookup(network, loop.create_future())
        self._queues.setdefault(network, {})[digest] = None
        self._waiting += 1
        if len(self._workers) < AT_ONCE:
            worker = loop.create_task(self._work(), name="look up keys")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return lookup

    def _leave(self, digest: bytes, network: str) -> None:
        """Take a key out of its network's queue."""
        queue = self._queues[network]
        del queue[digest]
        self._waiting -= 1
        if not queue:
            del self._queues[network]

    async def _work(self) -> None:
        """Look up the waiting keys, until there is none."""
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
        network, queue = next(iter(self._queues.items()))
        digest = next(iter(queue))
        self._leave(digest, network)
        if queue:
            self._queues[network] = self._queues.pop(network)
        return digest

    def _settle(self, digest: bytes, outcome: FoundKey | Exception | None) -> None:
        answer = self._lookups.pop(digest).answer
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
            answer.exception()  # read: there may be no waiting caller any more
        else:
            answer.set_result(outcome)
