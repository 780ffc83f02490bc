"""The first bytes of a program that knows proxies: what it asks for, by SOCKS5 or by HTTP.

    05 …                            SOCKS5 (RFC 1928), its command CONNECT, without a password
    CONNECT host:443 HTTP/1.1       a tunnel
    GET http://host/path HTTP/1.1   one request, sent on as `GET /path`; the connection ends with its answer

HTTP is read by h11. Of SOCKS only these forty bytes are needed, and no library for servers is kept well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import h11
from yarl import URL

from tickwise.adapters.runner.process.sandbox.network.destinations import written

HEAD_BYTES: Final = 16 << 10
"""Of a request with its headers."""
READ_BYTES: Final = 4_096
SOCKS_VERSION: Final = 5
_SOCKS_CONNECT: Final = 1
_SOCKS_V4, _SOCKS_NAME, _SOCKS_V6 = 1, 3, 4
_SOCKS_NOT_ALLOWED, _SOCKS_UNREACHABLE, _SOCKS_NO_COMMAND, _SOCKS_NO_TYPE = 2, 4, 7, 8
_SOCKS_NO_METHOD: Final = b"\x05\xff"
_HOP_HEADERS: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"te", b"host",
})  # fmt: skip


class UnreadableRequest(Exception):
    """The first bytes are no request that the proxy carries out."""

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__()
        self.answer = answer
        """For the program."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A connection that a program asks the proxy for."""

    host: str
    port: int
    accepted: bytes
    """For the program, once the connection is made."""
    first: bytes
    """For the destination, before everything else."""
    is_socks: bool

    def refusal(self, why: str, *, is_forbidden: bool) -> bytes:
        """The answer when the connection is not made: it is not allowed, or the destination cannot be reached."""
        if self.is_socks:
            return _socks_reply(_SOCKS_NOT_ALLOWED if is_forbidden else _SOCKS_UNREACHABLE)
        return _http_refusal("403 Forbidden" if is_forbidden else "502 Bad Gateway", why)


async def read_request(reader: asyncio.StreamReader, answer: Callable[[bytes], None]) -> ProxyRequest:
    """`answer` sends to the program. Raises `UnreadableRequest`; `EOFError` and `OSError` if the program goes away."""
    first = await reader.readexactly(1)
    if first[0] == SOCKS_VERSION:
        return await _read_socks(reader, answer)
    return await _read_http(first, reader)


async def _read_socks(reader: asyncio.StreamReader, answer: Callable[[bytes], None]) -> ProxyRequest:
    methods = await reader.readexactly((await reader.readexactly(1))[0])
    if 0 not in methods:
        raise UnreadableRequest(_SOCKS_NO_METHOD)
    answer(bytes((SOCKS_VERSION, 0)))
    version, command, _, kind = await reader.readexactly(4)
    if version != SOCKS_VERSION or command != _SOCKS_CONNECT:
        raise UnreadableRequest(_socks_reply(_SOCKS_NO_COMMAND))
    if kind == _SOCKS_V4:
        host = str(IPv4Address(await reader.readexactly(4)))
    elif kind == _SOCKS_V6:
        host = str(IPv6Address(await reader.readexactly(16)))
    elif kind == _SOCKS_NAME:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("latin-1")
    else:
        raise UnreadableRequest(_socks_reply(_SOCKS_NO_TYPE))
    port = int.from_bytes(await reader.readexactly(2), "big")
    return ProxyRequest(host, port, _socks_reply(0), b"", is_socks=True)


def _socks_reply(code: int) -> bytes:
    return bytes((SOCKS_VERSION, code, 0, _SOCKS_V4, 0, 0, 0, 0, 0, 0))


async def _read_http(first: bytes, reader: asyncio.StreamReader) -> ProxyRequest:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
    connection.receive_data(first)
    try:
        while (event := connection.next_event()) is h11.NEED_DATA:
            piece = await reader.read(READ_BYTES)
            if not piece:
                raise EOFError
            connection.receive_data(piece)
        if not isinstance(event, h11.Request):
            raise EOFError
        rest, _ = connection.trailing_data
        return _tunnel(event, rest) if event.method == b"CONNECT" else _plain(event, rest)
    except (h11.ProtocolError, ValueError) as error:
        raise UnreadableRequest(_http_refusal("400 Bad Request", f"no request for a proxy: {error}")) from None


def _tunnel(request: h11.Request, rest: bytes) -> ProxyRequest:
    """Raises `ValueError`."""
    host, colon, port = request.target.decode("ascii").rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port[:6]) < 65_536:
        raise ValueError("the target is HOST:PORT")
    return ProxyRequest(host, int(port), b"HTTP/1.1 200 Connection established\r\n\r\n", rest, is_socks=False)


def _plain(request: h11.Request, rest: bytes) -> ProxyRequest:
    """Raises `ValueError`."""
    url = URL(request.target.decode("ascii"), encoded=True)
    host, port = url.raw_host, url.port
    if url.scheme != "http" or not host or not port:
        raise ValueError("the target is an address that begins with http://")
    headers = [(name, value) for name, value in request.headers if name not in _HOP_HEADERS]
    named = written(host, port) if port != 80 or ":" in host else host
    headers = [(b"host", named.removesuffix(":80").encode()), *headers, (b"connection", b"close")]
    sent = h11.Request(method=request.method, target=url.raw_path_qs.encode("ascii"), headers=headers)
    head = h11.Connection(h11.CLIENT).send(sent)
    assert head is not None
    return ProxyRequest(host, port, b"", head + rest, is_socks=False)


def _http_refusal(status: str, why: str) -> bytes:
    text = f"network: {why}\n".encode("ascii", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    return head.encode() + text
