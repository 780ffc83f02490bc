"""The API on a real port, served as `tickwise api` serves it, and clients that send it bytes."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import Any, Final, Self, cast

from tests.support.app import ADMIN_KEY, World, world
from tests.support.certificates import NAME, trust
from tickwise.api.connections import ConnectionLimits
from tickwise.api.role_health import create_health_app
from tickwise.roles.shared.health import HealthReport, PartStatus
from tickwise.wiring.listening import listen
from tickwise.wiring.serving import serving
from tickwise.wiring.tls.certificates import Certificates

AUTHORIZED: Final = f"Authorization: Bearer {ADMIN_KEY}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection of a client that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        """Hand bytes to the kernel, now or as soon as it takes them."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the kernel has taken most of it."""
        await self._writer.drain()

    def pause(self) -> None:
        """Read nothing from now on."""
        cast("asyncio.ReadTransport", self._writer.transport).pause_reading()

    def abort(self) -> None:
        """Go away without a word."""
        self._writer.transport.abort()

    async def answer(self, *, head: bool = False) -> Answer:
        """The next answer. Raises `EOFError` if the connection ends before one."""
        text = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = text.decode("latin-1").rstrip("\r\n").split("\r\n")
        status = int(first.split()[1])
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = 0 if head or status < 200 else int(headers.get("content-length", 0))
        return Answer(status, headers, await self._reader.readexactly(length))

    async def ended(self) -> bytes:
        """Wait until the server closes the connection; what it said before."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


@dataclass(frozen=True, slots=True)
class Port:
    """A served API."""

    world: World | None
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    """What a client of this port trusts, if it speaks TLS."""

    @property
    def here(self) -> World:
        """What is behind an API."""
        assert self.world is not None
        return self.world

    async def open(self) -> Wire:
        """A connection to it."""
        name = None if self.tls is None else NAME
        return Wire(*await asyncio.open_connection(self.host, self.port, ssl=self.tls, server_hostname=name))

    async def open_with(self, begin: bytes) -> Wire:
        """A connection without TLS that has sent this before the server hears of it: no time can run out between."""
        sock = socket.create_connection((self.host, self.port))
        try:
            sock.sendall(begin)
            sock.setblocking(False)
            return Wire(*await asyncio.open_connection(sock=sock))
        except BaseException:
            sock.close()
            raise

    async def open_raw(self) -> Wire:
        """A connection to it without TLS, whatever it speaks."""
        return Wire(*await asyncio.open_connection(self.host, self.port))


@asynccontextmanager
async def port(
    limits: ConnectionLimits | None = None, *, certificates: Certificates | None = None, **options: Any
) -> AsyncIterator[Port]:
    """An API over a memory store on a free port of loopback."""
    context = None if certificates is None else certificates.context
    trusting = None if certificates is None else trust(certificates.certificate)
    async with world(**options) as here:
        with closing(listen("127.0.0.1", 0)) as sock:
            host, number = sock.getsockname()
            async with serving(here.app, [sock], limits, tls=context):
                yield Port(here, host, number, trusting)


@asynccontextmanager
async def health(limits: ConnectionLimits) -> AsyncIterator[Port]:
    """A health port, as a role without an API opens one."""

    async def nothing() -> None: ...

    async def metrics() -> bytes:
        return b""

    async def report() -> HealthReport:
        return HealthReport(PartStatus.OK, {})

    with closing(listen("127.0.0.1", 0)) as sock:
        host, number = sock.getsockname()
        async with serving(create_health_app(nothing, report, metrics, "text/plain"), [sock], limits):
            yield Port(None, host, number)


def request(method: str, path: str, *headers: str, body: bytes = b"", key: str = ADMIN_KEY) -> bytes:
    """A request with a key. `Content-Length` is stated unless `headers` frame the body themselves."""
    lines = [f"{method} {path} HTTP/1.1", "Host: tickwise", f"Authorization: Bearer {key}", *headers]
    framed = any(line.lower().startswith(("content-length", "transfer-encoding")) for line in headers)
    if body and not framed:
        lines.append(f"Content-Length: {len(body)}")
    if body and not any(line.lower().startswith("content-type") for line in headers):
        lines.append("Content-Type: application/json")
    return "\r\n".join([*lines, "", ""]).encode() + body
