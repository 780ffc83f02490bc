"""The port that the world sees, and the files by which the command line finds a local `up`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn

from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.roles.control.secrets import add_admin_key, secret_digest
from tickwise.roles.service import wait_for
from tickwise.wiring.house import House

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


def banner(address: str, settings: Settings, made: str | None) -> None:
    """What a person wants to know, once. On standard error, beside the log."""
    lines = [f"Tickwise is up: {address}"]
    if made is not None:
        lines += ["", "  The first admin key. It is shown this once and stored only as a hash:", "", f"    {made}", ""]
    if settings.bootstrap_key is not None:
        lines.append("  TICKWISE_BOOTSTRAP_KEY is an admin key.")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


async def local_key(house: House, made: str | None) -> str:
    """The key with which the command line of this user finds a local `up`: kept in a file that only they can read."""
    if house.settings.bootstrap_key is not None:
        return house.settings.bootstrap_key
    file = house.settings.data_dir / "local.key"
    with contextlib.suppress(OSError):
        kept = file.read_text().strip()
        if kept and await house.keys.key_find(secret_digest(kept.encode())) is not None:
            return kept
    key = made or await add_admin_key(house.keys, house.clock, "the command line of this machine")
    _write_private(file, key + "\n")
    return key


@contextlib.contextmanager
def client_file(data_dir: Path, url: str, key: str, database_url: str) -> Iterator[None]:
    """Where the command line looks, `doctor` also for the database; gone after an orderly end."""
    file = data_dir / "client.json"
    facts = {"url": url, "key": key, "pid": os.getpid(), "database_url": database_url}
    _write_private(file, json.dumps(facts) + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _write_private(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    partial.replace(file)
