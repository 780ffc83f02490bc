"""The connections of http tasks: kept open for the next request, apart for each namespace.

    (namespace) ──► client ──► (scheme, host, port, TLS context) ──► connections, each to an address that was judged

A server may remember a caller by its connection, so two namespaces never share one. A connection that is kept goes on
to the address that was judged when it was made: a name that leads elsewhere by now is looked up, and judged, only for
a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tickwise.adapters.outgoing.access import HttpAccess

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

    from tickwise.adapters.outgoing.client import HttpClient

MAX_CLIENTS: Final = 64
"""Namespaces whose idle connections are kept."""


@dataclass(slots=True)
class _Shared:
    client: HttpClient
    users: int = 0


class NamespaceClients:
    """A client for each namespace that has called lately."""

    def __init__(self, access: HttpAccess, *, connections: int, resolver: AbstractResolver | None = None) -> None:
        """`connections`: of one namespace at once. `resolver` instead of the system's."""
        self._access = access
        self._connections = connections
        self._resolver = resolver
        self._shared: OrderedDict[str, _Shared] = OrderedDict()

    @asynccontextmanager
    async def client(self, namespace: str) -> AsyncIterator[HttpClient]:
        """The client of a namespace, which lives at least until this is left."""
        from tickwise.adapters.outgoing.client import HttpClient

        shared = self._shared.get(namespace)
        if shared is None:
            client = HttpClient(self._access, connections=self._connections, resolver=self._resolver)
            shared = self._shared[namespace] = _Shared(client)
        self._shared.move_to_end(namespace)
        shared.users += 1
        try:
            yield shared.client
        finally:
            shared.users -= 1
            await self._close_oldest()

    async def close(self) -> None:
        """End every connection."""
        shared, self._shared = self._shared, OrderedDict()
        for each in shared.values():
            await each.client.close()

    async def _close_oldest(self) -> None:
        idle = [name for name, each in self._shared.items() if each.users == 0]
        for name in idle[: max(len(self._shared) - MAX_CLIENTS, 0)]:
            await self._shared.pop(name).client.close()
