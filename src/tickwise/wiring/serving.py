"""The server behind a port. It loads the web server, so a process without a port does not import it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, cast

import uvicorn

from tickwise.adapters.clock import SystemClock
from tickwise.api.connections import ConnectionLimits, Connections
from tickwise.api.edge.protection import HSTS
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.roles.shared.service import wait_for
from tickwise.wiring.listening import address_of

DESCRIPTORS_KEPT: Final = 256
"""File descriptors that are not for clients: the store's connections, tasks, files."""
CONNECTIONS_LEAST: Final = 64
SHUTDOWN_SECONDS: Final = 5
"""The longest time that requests under way may take when the API stops."""
TICK_SECONDS: Final = 1.0
"""The interval at which the time in answers' headers is read and deadlines are checked."""


class _Server(uvicorn.Server):
    """Signals are ours: an orderly end is more than the end of the server."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()
        self._connections = connections

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Until it is told to end. Its own looks ten times a second whether it was, a fifth of what an idle `up` costs;
        what is left to do is the `Date` of the answers, and the deadlines of connections."""
        loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self._connections.look(loop.time())
            await wait_for(self._ending, TICK_SECONDS)

    def end(self) -> None:
        """Take nothing new; what is under way is answered first."""
        self.should_exit = True
        self._ending.set()


def limits_of(settings: Settings) -> ConnectionLimits:
    """The limits of connections, within what this process may open."""
    return ConnectionLimits(
        connections=connections_most(settings.connections_limit),
        header_bytes=settings.header_limit_bytes,
        uri_bytes=settings.uri_limit_bytes,
        header_seconds=settings.header_seconds,
        keep_alive_seconds=settings.keep_alive_seconds,
        body_bytes_per_second=settings.body_bytes_per_second_least,
    )


def connections_most(wanted: int) -> int:
    """`wanted`, or fewer if the process may not open as many files: a full table would stop the store's connections."""
    if sys.platform == "win32":
        return wanted
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or files - DESCRIPTORS_KEPT >= wanted:
        return wanted
    return max(CONNECTIONS_LEAST, files - DESCRIPTORS_KEPT)


@contextlib.asynccontextmanager
async def serving(
    app: Any,
    sockets: list[socket.socket],
    limits: ConnectionLimits | None = None,
    *,
    tls: Callable[[], ssl.SSLContext] | None = None,
) -> AsyncIterator[None]:
    """The app answers on these sockets while the block lasts. `tls` gives the certificate in force; None: plain HTTP.
    Raises `Misconfigured` if another process answers there."""
    connections = Connections(limits or ConnectionLimits(), _request_ids(), tls)
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", connections.protocol),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # The API reads them itself (`api.clients.address`): this one takes the first of two headers.
        proxy_headers=False,
        headers=[] if tls is None else [(HSTS[0].decode(), HSTS[1].decode())],
        backlog=2048,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = _Server(config, connections)
    places = " and ".join(address_of(sock) for sock in sockets)
    serving = asyncio.create_task(server.serve(sockets=sockets))
    try:
        while not server.started and not serving.done():
            await asyncio.wait([serving], timeout=0.005)
        if not serving.done():
            yield
    finally:
        server.end()
        try:
            await serving
        except OSError as failure:
            # Two may be bound to one port as long as neither listens there, and the other one was quicker.
            raise Misconfigured(
                f"nothing can be served at {places}: {failure.strerror}. Is another tickwise running? Choose a free "
                "port with --port or --health-port, or stop the program that uses it."
            ) from failure


def _request_ids() -> Callable[[], str]:
    """Names for requests that are refused before the API sees them."""
    prefix, count = SystemClock().random_bytes(8).hex(), itertools.count(1)
    return lambda: f"{prefix}{next(count):08x}"
