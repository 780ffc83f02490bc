"""Look-ups of names in threads of their own: slow servers of names hold up nothing else of the process.

    name ──► is it being looked up? ──► its answer is awaited by all who ask
                    └─ no ──► one of `THREADS` threads

Invariant: one name takes one thread at a time, however many ask, and also while nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

THREADS: Final = 8
"""Names that are looked up at once. A name that hangs takes one of them."""

AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]


class Lookups:
    """Look-ups of the senders of one scheduler."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._running: dict[tuple[str, int, int], Future[list[AddressInfo]]] = {}

    async def addresses(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[AddressInfo]:
        """The addresses of a name, as `getaddrinfo` gives them. Raises `OSError`."""
        key = (host, port, family)
        running = self._running.get(key)
        if running is None:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tickwise-names")
            running = self._threads.submit(_look_up, *key)
            self._running[key] = running
            running.add_done_callback(lambda _: self._running.pop(key, None))
        # Shielded: one who gives up does not take the answer from the others.
        return await asyncio.shield(asyncio.wrap_future(running))

    def close(self) -> None:
        """Begin no further look-up."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _look_up(host: str, port: int, family: int) -> list[AddressInfo]:
    return socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
