"""A link to an S3 server that a test harms: it answers in the server's place, stalls, refuses or cuts.

The bytes of a request that passes are not changed, so its signature holds: it names the host of the link.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

CHUNK: Final = 1 << 16
ERRORS: Final = {
    "SlowDown": 503,
    "AccessDenied": 403,
    "NoSuchBucket": 404,
    "RequestTimeTooSkewed": 403,
    "InternalError": 500,
}


@dataclass(eq=False)
class S3Link:
    """Listens on a port of its own before the server at `target`."""

    target: str
    mode: str = "pass"
    """`pass`; `stall`: nothing is answered; `cut`: links are reset in the middle of a request; `refuse`: nobody listens
    any more; or a name of `ERRORS`, which is the answer to each request."""
    only: bytes = b""
    """The harm is done to requests that begin with this alone, such as `PUT`; empty: to all."""
    answered: int = 0
    """Requests that were answered in the server's place."""
    cuts: int = 0
    """Requests in whose midst their link was reset."""
    carried: int = 0
    """Bytes of the server's answers."""
    url: str = ""
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def set(self, mode: str, *, only: bytes = b"") -> None:
        """From now on, also for links that are open."""
        self.mode, self.only = mode, only
        self.cut()

    def cut(self) -> None:
        """Reset every open link."""
        for writer in [*self._writers]:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._requests(reader, writer)
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request after the other: each is read whole, and then judged."""
        parts = urlsplit(self.target)
        there, beyond = await asyncio.open_connection(parts.hostname, parts.port)
        self._writers.add(beyond)
        back = asyncio.create_task(self._carry(there, writer))
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                harmed = self.mode != "pass" and head.startswith(self.only)
                if harmed and self.mode == "refuse":
                    return
                length = _length(head)
                if harmed and self.mode == "cut":
                    await reader.read(max(1, length // 2))
                    self.cuts += 1
                    return
                body = await reader.readexactly(length) if length else b""
                if harmed and self.mode == "stall":
                    await asyncio.Event().wait()
                if harmed:
                    self.answered += 1
                    writer.write(_refusal(self.mode, is_head=head.startswith(b"HEAD")))
                    await writer.drain()
                    return
                beyond.write(head + body)
                await beyond.drain()
        finally:
            back.cancel()
            self._writers.discard(beyond)
            beyond.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers. A server that ends its connection, idle for 5 s, ends the client's: else the client's next request
        on it would never be answered. Who stalls says nothing, not even that."""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                self.carried += len(data)
                writer.write(data)
                await writer.drain()
        if self.mode != "stall":
            writer.close()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _refusal(code: str, *, is_head: bool) -> bytes:
    status = ERRORS[code]
    body = b"" if is_head else f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>no</Message></Error>'.encode()
    head = f"HTTP/1.1 {status} No\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
