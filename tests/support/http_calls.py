"""An http runner as an executor has one, and a server that keeps each request as its bytes and answers with bytes."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually
from tickwise.adapters.blobs import StoredBlobs, open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.http.runner import HttpRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.ports.runner import Assignment, Ending
from tickwise.testing.contracts.runner import Listener, assignment

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"


@dataclass
class RawRequest:
    """One request, as it came."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int
    """The number of the connection, from 1."""

    def header(self, name: str) -> str:
        """The value of the only header of this name."""
        (value,) = [value for each, value in self.headers if each.lower() == name.lower()]
        return value

    def has(self, name: str) -> bool:
        """Check whether there is a header of this name."""
        return any(each.lower() == name.lower() for each, _ in self.headers)


Reply = Callable[[RawRequest, asyncio.StreamWriter], Awaitable[None]]


def replies(content: bytes = OK) -> Reply:
    """Answer each request with these bytes."""

    async def reply(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    return reply


@dataclass
class RawServer:
    """A server on loopback."""

    port: int = 0
    scheme: str = "http"
    requests: list[RawRequest] = field(default_factory=list)
    connections: int = 0
    peers: list[Any] = field(default_factory=list)
    """The certificate of the client of each connection, as `getpeercert` gives it."""

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://127.0.0.1:{self.port}"


@asynccontextmanager
async def raw_server(reply: Reply | None = None, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A server that goes on with a connection until its client leaves it, or `reply` closes it."""
    answer = reply or replies()
    made = RawServer(scheme="http" if tls is None else "https")
    serving: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(writer)
        made.connections += 1
        number = made.connections
        made.peers.append(writer.get_extra_info("peercert"))
        try:
            while (request := await _request(reader, number)) is not None:
                made.requests.append(request)
                await answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()
            serving.discard(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for writer in list(serving):
            writer.transport.abort()
        await eventually(lambda: not serving)


async def _request(reader: asyncio.StreamReader, connection: int) -> RawRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (each.partition(":") for each in rest if each)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return RawRequest(line, headers, await reader.readexactly(length), connection)


class Caller:
    """An http runner that is started, and its listener."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.blobs: StoredBlobs = open_blobs("memory://")
        known = {"clock": SystemClock(), "slots": 4, "http_allow": ("127.0.0.0/8",), "result_limit_bytes": 1 << 10}
        self.runner = HttpRunner(RunnerSettings(blobs=self.blobs, work_root=folder, **{**known, **settings}))
        self.listener = Listener()

    def launch(self, url: str, payload: Any = None, changes: dict[str, Any] | None = None, **task: Any) -> Assignment:
        """Begin an attempt of a checked task."""
        checked = self.runner.kinds[0].check({"kind": "http", "url": url, **task})
        given = assignment(checked, payload, **(changes or {}))
        self.runner.launch([given])
        return given

    async def run(self, url: str, payload: Any = None, changes: dict[str, Any] | None = None, **task: Any) -> Ending:
        """The end of an attempt of a checked task."""
        return await self.listener.ending_of(self.launch(url, payload, changes, **task))


@asynccontextmanager
async def calling(folder: Path, **settings: Any) -> AsyncIterator[Caller]:
    """A runner that is started, and closed at the end."""
    made = Caller(folder, **settings)
    await made.runner.start(made.listener, time.time)
    try:
        yield made
    finally:
        await made.runner.close()
