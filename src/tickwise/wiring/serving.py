"""The port that the world sees."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import uvicorn

from tickwise.domain.errors import Misconfigured
from tickwise.roles.service import wait_for

SHUTDOWN_SECONDS: Final = 5
"""How long requests that are under way may take when the API stops."""
TICK_SECONDS: Final = 1.0
"""How often the time in the answers' headers is read."""


class _Server(uvicorn.Server):
    """Signals are ours: an orderly end is more than the end of the server."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Until it is told to end. Its own looks ten times a second whether it was, a fifth of what an idle `up` costs;
        what is left to do is the `Date` of the answers."""
        while not await self.on_tick(0):
            await wait_for(self._ending, TICK_SECONDS)

    def end(self) -> None:
        """Take nothing new; what is under way is answered first."""
        self.should_exit = True
        self._ending.set()


def listen(host: str, port: int) -> socket.socket:
    """Bound before anything else starts, so that a port in use costs nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as failure:
        sock.close()
        raise Misconfigured(
            f"port {port} of {host} cannot be opened: {failure.strerror}. Is another tickwise running? "
            "Choose a free port with --port, or stop what uses it."
        ) from failure
    return sock


def address_of(sock: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.asynccontextmanager
async def serving(app: Any, sockets: list[socket.socket]) -> AsyncIterator[None]:
    """The app answers on these sockets while the block lasts. Raises `Misconfigured` if somebody else does."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # Nothing here asks for the address of a client, so nobody need work out what proxies say of it.
        proxy_headers=False,
        backlog=2048,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = _Server(config)
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
                "port with --port or --health-port, or stop what uses it."
            ) from failure
