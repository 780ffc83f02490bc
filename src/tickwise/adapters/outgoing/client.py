"""The only module that loads aiohttp, which takes a tenth of a second.

An executor loads it when it starts, a scheduler with the first notice that goes over HTTP. Other processes do without.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from tickwise.adapters.outgoing.access import HttpAccess
from tickwise.adapters.outgoing.exchange import Answer, NoAnswer, Request, UnusableAddress
from tickwise.adapters.outgoing.lookups import Lookups

CONNECT_SECONDS: Final = 30.0
READ_BYTES: Final = 1 << 16


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
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            trust_env=False,  # a proxy would connect to addresses that were not checked
        )

    async def close(self) -> None:
        """End every connection."""
        await self._session.close()

    async def send(self, request: Request, take: Callable[[bytes], Awaitable[None]]) -> tuple[int, Mapping[str, str]]:
        """Send it; the status and the headers of the answer, whose body goes to `take` piece by piece. Raises
        `AddressRefused`, and `NoAnswer` or `UnusableAddress`."""
        try:
            async with self._session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
            ) as response:
                async for piece in response.content.iter_chunked(READ_BYTES):
                    await take(piece)
                return response.status, response.headers
        except aiohttp.InvalidURL as error:
            raise UnusableAddress(_described(error)) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NoAnswer(_described(error)) from error

    async def ask(self, request: Request, *, bytes_most: int) -> Answer:
        """Send it; the answer, with its body only if that says why it was refused, and no more of it than that. The
        rest is not read. Raises as `send`."""
        try:
            async with self._session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
            ) as response:
                body = b""
                if not 200 <= response.status < 300:
                    body = await _beginning(response.content, bytes_most)
                return Answer(response.status, response.headers, body)
        except aiohttp.InvalidURL as error:
            raise UnusableAddress(_described(error)) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NoAnswer(_described(error)) from error


async def _beginning(content: aiohttp.StreamReader, bytes_most: int) -> bytes:
    body = b""
    async for piece in content.iter_chunked(READ_BYTES):
        body += piece
        if len(body) >= bytes_most:
            break
    return body[:bytes_most]


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
