"""A receiver of HTTP requests on a socket of its own, which answers well, badly, endlessly or not at all."""

from __future__ import annotations

import asyncio
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self


class Manner(Enum):
    """The manner of its answers."""

    WELL = "200"
    REFUSES = "500"
    REDIRECTS = "302, to itself"
    HANGS = "never"
    FLOODS = "200, and a body without an end"
    HANGS_UP = "it closes the connection"


class Heard(NamedTuple):
    """One request."""

    method: str
    path: str
    body: str


class HttpReceiver:
    """`async with` listens. `manner` may be changed at any time."""

    def __init__(self, manner: Manner = Manner.WELL) -> None:
        self.manner = manner
        self.heard: list[Heard] = []
        self._came = asyncio.Condition()
        self._over = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.close()
        await self._server.wait_closed()

    def url(self, path: str) -> str:
        """The address of a path."""
        return f"http://127.0.0.1:{self.port}{path}"

    async def until(self, count: int, within_seconds: float = 60.0) -> None:
        """Return once it has heard so many requests."""
        async with asyncio.timeout(within_seconds), self._came:
            await self._came.wait_for(lambda: len(self.heard) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _ = head[0].split(" ", 2)
            fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            async with self._came:
                self.heard.append(Heard(method, path, body.decode()))
                self._came.notify_all()
            await self._answer(writer, path)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, path: str) -> None:
        match self.manner:
            case Manner.WELL:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
            case Manner.REFUSES:
                writer.write(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
            case Manner.REDIRECTS:
                writer.write(f"HTTP/1.1 302 There\r\nLocation: {path}\r\nContent-Length: 0\r\n\r\n".encode())
            case Manner.HANGS:
                await self._over.wait()
            case Manner.FLOODS:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                while not self._over.is_set():
                    writer.write(b"x" * 65_536)
                    await writer.drain()
            case Manner.HANGS_UP:
                pass
        await writer.drain()
