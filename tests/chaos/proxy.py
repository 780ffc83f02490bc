"""A TCP proxy before the database that does to a link what networks do: cut it, slow it, swallow what it carries.

Each process that is to be harmed gets one of its own, so that a partition has two sides.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from tickwise.adapters.clock import SystemClock

CHUNK: Final = 1 << 16
_CLOCK: Final = SystemClock()


class Way:
    """One direction of every link of a proxy: open, or what is sent on it disappears."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()


@dataclass(eq=False)
class Proxy:
    """Listens on a port of its own and speaks with the server behind it."""

    target: str
    """The server's address, by socket or by port."""
    delay_seconds: float = 0.0
    swallowed: int = 0
    """Bytes that went nowhere."""
    up: Way = field(default_factory=Way)
    """From the process to the server."""
    down: Way = field(default_factory=Way)
    """From the server to the process."""
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> str:
        """The address through it."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        parts = urlsplit(self.target)
        user = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}", query=""))

    async def stop(self) -> None:
        """Cut everything and listen no more."""
        assert self._server is not None
        self._server.close()
        self.reset()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def reset(self) -> None:
        """Cut every link as a firewall that forgets its connections does: with RST."""
        for writer in [*self._writers]:
            writer.transport.abort()

    def swallow(self, *, up: bool = True, down: bool = True) -> None:
        """From now on nothing arrives, and nobody is told."""
        for way, wanted in ((self.up, up), (self.down, down)):
            if wanted:
                way.open.clear()

    def heal(self) -> None:
        """The network is back. What was sent meanwhile is lost, so the links that it was sent on are cut."""
        self.reset()
        self.up.open.set()
        self.down.open.set()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.target)
        sockets = parse_qs(parts.query).get("host")
        if sockets:
            return await asyncio.open_unix_connection(f"{unquote(sockets[0])}/.s.PGSQL.5432")
        return await asyncio.open_connection(parts.hostname, parts.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        beyond: asyncio.StreamWriter | None = None
        try:
            # A server that is away refuses: so does the proxy, by hanging up.
            with contextlib.suppress(OSError, asyncio.CancelledError):
                there, beyond = await self._connect()
                self._writers.add(beyond)
                ways = (self._carry(reader, beyond, self.up), self._carry(there, writer, self.down))
                await asyncio.gather(*ways)
        finally:
            self._tasks.discard(task)
            for each in (writer, beyond):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self.delay_seconds:
                    await _CLOCK.sleep(self.delay_seconds)
                if not way.open.is_set():
                    self.swallowed += len(data)
                    continue
                writer.write(data)
                await writer.drain()
        if way.open.is_set():
            # An end of stream is said on: the other side is done. Through a broken network it would not be heard.
            with contextlib.suppress(OSError):
                writer.close()
