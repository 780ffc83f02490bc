"""Look-ups of names in threads of their own: slow servers of names hold up nothing else of the process.

    name ──► is it being looked up? ──► its answer is awaited by all who ask
                    └─ no ──► given up before it was answered, the last time?
                                  ├─ no ──► one of `THREADS` threads
                                  └─ yes ─► one of `SLOW_THREADS`, until it is answered in time again

So names that hang take the threads of other names once. After that they wait for each other, however many they are.
Who asks for tenants gives each a share (`share_of`): names below a domain are without end, and each may hang once.

Invariants: one name takes one thread at a time, however many ask, and also while nobody waits for it any more. A share
takes at most `SHARE_THREADS`, counted until the name is answered, and not until its asker has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final
from weakref import WeakValueDictionary

THREADS: Final = 64
"""Names that are looked up at once. A thread begins when a name needs it: usually there are one or two."""
SHARE_THREADS: Final = 16
"""Of them, for the names that one tenant asks for."""
SLOW_THREADS: Final = 8
"""Of names that were given up before."""
MAX_SLOW: Final = 10_000
"""Names that are remembered as slow, some 1 MB; with more of them all are tried anew."""

AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]


class LookupShare:
    """The look-ups of one tenant. For one event loop."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._room = asyncio.Semaphore(SHARE_THREADS)

    async def addresses(self, host: str, port: int) -> list[AddressInfo]:
        """As `Lookups.addresses`, when this tenant has a thread free. Raises `OSError`."""
        if self._lookups.running(host, port) is not None:
            return await self._lookups.addresses(host, port)
        loop = asyncio.get_running_loop()
        await self._room.acquire()
        try:
            return await self._lookups.addresses(host, port)
        finally:
            running = self._lookups.running(host, port)
            if running is None:
                self._room.release()
            else:  # the asker has gone, and the name still has its thread
                running.add_done_callback(lambda _: self._release_from(loop))

    def _release_from(self, loop: asyncio.AbstractEventLoop) -> None:
        """From a thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._room.release)


class Lookups:
    """Look-ups of the senders of one scheduler, or of the sandboxes of one executor."""

    def __init__(self) -> None:
        self._threads: dict[bool, ThreadPoolExecutor] = {}
        """For slow names, and for the others."""
        self._slow: set[str] = set()
        self._running: dict[tuple[str, int, int], Future[list[AddressInfo]]] = {}
        self._shares: WeakValueDictionary[str, LookupShare] = WeakValueDictionary()
        """Each as long as somebody asks by it, or a name that was asked for by it has a thread."""

    async def addresses(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[AddressInfo]:
        """The addresses of a name, as `getaddrinfo` gives them. Raises `OSError`."""
        key = (host, port, family)
        running = self._running.get(key)
        if running is None:
            running = self._threads_for(host).submit(_look_up, *key)
            self._running[key] = running
            running.add_done_callback(lambda _: self._running.pop(key, None))
        try:
            # Shielded: one who gives up does not take the answer from the others.
            found = await asyncio.shield(asyncio.wrap_future(running))
        except asyncio.CancelledError:
            self._note_slow(host)
            raise
        except OSError:
            self._slow.discard(host)  # that it has no address is an answer, too
            raise
        self._slow.discard(host)
        return found

    def share_of(self, tenant: str) -> LookupShare:
        """The one share of a tenant."""
        found = self._shares.get(tenant)
        if found is None:
            found = self._shares[tenant] = LookupShare(self)
        return found

    def running(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> Future[list[AddressInfo]] | None:
        """The look-up of a name that is not answered yet."""
        return self._running.get((host, port, family))

    def _threads_for(self, host: str) -> ThreadPoolExecutor:
        is_slow = host in self._slow
        if is_slow not in self._threads:
            name = "tickwise-slow-names" if is_slow else "tickwise-names"
            self._threads[is_slow] = ThreadPoolExecutor(SLOW_THREADS if is_slow else THREADS, thread_name_prefix=name)
        return self._threads[is_slow]

    def _note_slow(self, host: str) -> None:
        if len(self._slow) >= MAX_SLOW:
            self._slow.clear()
        self._slow.add(host)

    def close(self) -> None:
        """Begin no further look-up."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        self._threads.clear()


def _look_up(host: str, port: int, family: int) -> list[AddressInfo]:
    return socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
