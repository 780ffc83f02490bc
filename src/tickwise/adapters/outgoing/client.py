"""The only module that loads aiohttp, which takes a tenth of a second.

An executor loads it when it starts, a scheduler with the first notice that goes over HTTP. Other processes do without.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from tickwise.adapters.outgoing.access import HttpAccess
from tickwise.adapters.outgoing.exchange import (
    CONNECT_SECONDS,
    Answer,
    NoAnswer,
    Request,
    TlsFailure,
    UnusableAddress,
)
from tickwise.adapters.outgoing.lookups import Lookups
from tickwise.adapters.outgoing.tls_words import tls_words

READ_BYTES: Final = 1 << 16
BROKEN_OFF: Final = (
    "the server broke off while the connection was being secured, and did not say why: it may want a certificate of "
    "the client, or another version of TLS"
)


class VettedResolver(AbstractResolver):
    """Resolves a name for one connection, and gives its addresses only if each of them may be reached."""

    def __init__(self, access: HttpAccess, inner: AbstractResolver) -> None:
        self._access = access
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses that aiohttp connects to. Raises `AddressRefused`."""
        found = await self._inner.resolve(host, port, family)
        name = host.lower().removesuffix(".")
        for result in found:
            self._access.check(ip_address(result["host"].partition("%")[0]), name, port)
        return found

    async def close(self) -> None:
        await self._inner.close()


class PooledResolver(AbstractResolver):
    """Looks names up in threads of its own instead of those of the event loop."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name. Raises `OSError`."""
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=family,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for family, _, proto, _, address in await self._lookups.addresses(host, port, family)
        ]

    async def close(self) -> None:
        """The threads are their owner's."""


class HttpClient:
    """Sends requests, each to addresses that may be reached, and follows no redirect."""

    def __init__(self, access: HttpAccess, *, connections: int, resolver: AbstractResolver | None = None) -> None:
        """`resolver` instead of the system's. A running event loop is needed."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections, resolver=VettedResolver(access, resolver or ThreadedResolver())
            ),
            cookie_jar=aiohttp.DummyCookieJar(),  # attempts share nothing
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
            trust_env=False,  # a proxy would connect to addresses that were not checked
        )

    async def close(self) -> None:
        """End every connection."""
        await self._session.close()

    async def send(
        self, request: Request, take: Callable[[int, bytes], Awaitable[None]]
    ) -> tuple[int, Mapping[str, str]]:
        """Send it; the status and the headers of the answer, whose body goes to `take` piece by piece, unpacked, with
        the status. Raises `AddressRefused`, and `NoAnswer`, `TlsFailure` or `UnusableAddress`, and what `take` raises.
        """
        async with self._exchange(request) as response:
            async for piece in response.content.iter_chunked(READ_BYTES):
                await take(response.status, piece)
            return response.status, response.headers

    async def ask(self, request: Request, *, bytes_most: int) -> Answer:
        """Send it; the answer, with its body only if that says why it was refused, and no more of it than that. The
        rest is not read. Raises as `send`."""
        async with self._exchange(request) as response:
            body = b""
            if not 200 <= response.status < 300:
                body = await _beginning(response.content, bytes_most)
            return Answer(response.status, response.headers, body)

    @asynccontextmanager
    async def _exchange(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, once its headers are there."""
        try:
            async with asyncio.timeout(request.first_byte_seconds):
                response = await self._session.request(
                    request.method,
                    request.url,
                    headers=request.headers,
                    data=request.body,
                    allow_redirects=False,
                    ssl=True if request.tls is None else request.tls,
                    proxy=request.proxy,
                    timeout=aiohttp.ClientTimeout(total=None, connect=request.connect_seconds),
                )
            async with response:
                yield response
        except aiohttp.InvalidURL as error:
            raise UnusableAddress(_described(error)) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise NoAnswer(f"no connection within {request.connect_seconds:g} s") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if (words := tls_words(error)) is not None:
                raise TlsFailure(words) from error
            if _broke_off(error, request):
                raise TlsFailure(BROKEN_OFF) from error
            if type(error) is TimeoutError and request.first_byte_seconds is not None:
                raise NoAnswer(f"no status and headers within {request.first_byte_seconds:g} s") from error
            raise NoAnswer(_described(error)) from error


async def _beginning(content: aiohttp.StreamReader, bytes_most: int) -> bytes:
    body = b""
    async for piece in content.iter_chunked(READ_BYTES):
        body += piece
        if len(body) >= bytes_most:
            break
    return body[:bytes_most]


def _broke_off(error: Exception, request: Request) -> bool:
    """Check whether the server ended a new connection before it was secure."""
    is_new = isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionResetError)
    return is_new and request.url.scheme == "https"


def _described(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):  # its own text has the address of an object in memory
        why = error.os_error.strerror or type(error.os_error).__name__
        return f"{type(error).__name__}: cannot connect to {error.host}:{error.port}: {why}"
    return f"{type(error).__name__}: {error}"
