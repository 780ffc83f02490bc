"""The network of one run, in the proxy: its listening sockets, its connections, and what they carried.

    sandbox │ proxy                                                    │ outside
    127.64.0.1:443  ──► the name that the address stands for ──┐       │
    127.0.0.1:1080  ──► what SOCKS or HTTP asks for ───────────┼─ admitted, resolved once, every address checked ──► it
    127.0.0.1:53    ──► the address of a name                  └─ else: reset, and one line in the run's log

Invariants: no connection goes to an address that was not checked. A run holds at most `CONNECTIONS_MAX` connections,
each with buffers of bounded size, and has at most `LINES_MAX` lines in its log. When the run ends, all of it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, cast

from tickwise.adapters.outgoing.access import Address
from tickwise.adapters.outgoing.lookups import LookupShare
from tickwise.adapters.runner.process.sandbox.network.destinations import (
    AllowedDestinations,
    DestinationRefused,
    written,
)
from tickwise.adapters.runner.process.sandbox.network.names import NameBook, answer
from tickwise.adapters.runner.process.sandbox.network.requests import ProxyRequest, UnreadableRequest, read_request

PROXY_PORT: Final = 1080
DNS_PORT: Final = 53
LOOPBACK: Final = "127.0.0.1"
CONNECTIONS_MAX: Final = 128
"""Of one run. A connection holds at most 0.6 MB: what is read at once and not yet sent, in both directions."""
LINES_MAX: Final = 32
REQUEST_SECONDS: Final = 10.0
"""For the first bytes of a program that knows proxies, and for each query over TCP."""
LOOKUP_SECONDS: Final = 15.0
CONNECT_SECONDS: Final = 10.0
"""For one address."""
ADDRESSES_MAX: Final = 8
"""Of a name that are tried."""
BUFFER_BYTES: Final = 32 << 10
"""More is read only once so much is sent. The loop reads up to 256 kB at once."""
LOOKUPS_MAX: Final = 2
"""Names that one run looks up at once. The threads for that are those of all runs, and its namespace has a share."""
KEEP_ALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))
"""Seconds, seconds, and tries. A task's own keep-alive ends at the proxy, so a peer that is gone is noticed here."""
QUERIES_MAX: Final = 64
"""Over one connection."""
NO_LINGER: Final = struct.pack("ii", 1, 0)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Unreachable(Exception):
    """An admitted destination to which no connection could be made."""


class RunNetwork:
    """The sockets of one run. For one event loop."""

    def __init__(self, destinations: AllowedDestinations, lookups: LookupShare, log: Callable[[str], None]) -> None:
        """`log` gets each line for the run's log once."""
        self._destinations = destinations
        self._lookups = lookups
        self._log = log
        self._lines: set[str] = set()
        self._book = NameBook(sorted({name for name, _ in destinations.names}))
        self._servers: list[asyncio.AbstractServer] = []
        self._datagrams: list[asyncio.DatagramTransport] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking = asyncio.Semaphore(LOOKUPS_MAX)
        self._is_over = False
        self.sent_bytes = 0
        self.received_bytes = 0

    def instruction(self) -> Sequence[str]:
        """The lines for `namespace_program`: the addresses and the listening sockets, in the order of their names."""
        found = self._destinations
        wild = {port for _, port in found.suffixes if port}
        listens = {("tcp", host, port) for host, port in self._listened() if port and (":" in host or port not in wild)}
        listens |= {("tcp", "0.0.0.0", port) for port in wild}  # names to come, in a namespace of its own
        listens |= {("tcp", LOOPBACK, PROXY_PORT), ("tcp", LOOPBACK, DNS_PORT), ("udp", LOOPBACK, DNS_PORT)}
        listens -= {("tcp", "0.0.0.0", port) for port in (PROXY_PORT, DNS_PORT)}
        addresses = sorted({str(address) for address, _ in found.addresses if not address.is_loopback})
        return [f"address {address}" for address in addresses] + [
            f"listen {kind} {address} {port}" for kind, address, port in sorted(listens)
        ]

    def _listened(self) -> list[tuple[str, int]]:
        names = [(self._book.address_of(name) or "", port) for name, port in self._destinations.names]
        # A loopback address is the task's own; that of the executor is reached through the proxy, if at all.
        return names + [(str(one), port) for one, port in self._destinations.addresses if not one.is_loopback]

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Serve these listening sockets until `close`. Takes them over. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        for one in sockets:
            one.setblocking(False)
            address, port = one.getsockname()[:2]
            if one.type == socket.SOCK_DGRAM:
                transport, _ = await loop.create_datagram_endpoint(lambda: _Questions(self._answer), sock=one)
                self._datagrams.append(transport)
                continue
            handler = self._direct
            if address == LOOPBACK and port in (PROXY_PORT, DNS_PORT):
                handler = self._asked if port == PROXY_PORT else self._questions
            self._servers.append(await asyncio.start_server(self._serving(handler), sock=one, limit=BUFFER_BYTES))

    async def close(self) -> None:
        """End every connection and listen no more."""
        self._is_over = True
        for server in self._servers:
            server.close()
        for transport in self._datagrams:
            transport.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _note(self, line: str) -> None:
        """Log a line once, and no more than `LINES_MAX`."""
        if line in self._lines or len(self._lines) > LINES_MAX or self._is_over:
            return
        self._lines.add(line)
        self._log(line if len(self._lines) <= LINES_MAX else "further lines are left out")

    # ---------------------------------------------------------------------------------------- connections

    def _serving(
        self, handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._is_over or len(self._tasks) >= CONNECTIONS_MAX:
                self._note(f"refused a connection: the run has {CONNECTIONS_MAX} already")
                reset(writer)
                return
            task = asyncio.get_running_loop().create_task(self._carry(handler, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return begin

    async def _carry(
        self,
        handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            await handler(reader, writer)
            await _finish(writer)
        except (OSError, EOFError, TimeoutError):
            pass  # one of both sides is gone
        finally:
            reset(writer)

    async def _direct(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A program that knows no proxy has connected to an address that stands for a destination."""
        address, port = writer.get_extra_info("sockname")[:2]
        host = self._book.name_of(address)
        if host is None and ip_address(address).is_loopback:
            return  # its own loopback, where nothing listens
        try:
            streams = await self._connect(host or address, port)
        except (DestinationRefused, Unreachable) as error:
            self._note(str(error))
            reset(writer)
            return
        await self._pump((reader, writer), streams)

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A program asks for a connection by SOCKS or HTTP."""
        try:
            request = await asyncio.wait_for(read_request(reader, partial(put, writer)), REQUEST_SECONDS)
        except UnreadableRequest as error:
            put(writer, error.answer)
            return
        streams = await self._connected(request, writer)
        if streams is None:
            return
        try:
            put(writer, request.accepted)
            put(streams[1], request.first)
            self.sent_bytes += len(request.first)
            await self._pump((reader, writer), streams)
        finally:
            reset(streams[1])

    async def _connected(self, request: ProxyRequest, writer: asyncio.StreamWriter) -> Streams | None:
        try:
            return await self._connect(request.host, request.port)
        except (DestinationRefused, Unreachable) as error:
            self._note(str(error))
            put(writer, request.refusal(str(error), is_forbidden=isinstance(error, DestinationRefused)))
            return None

    async def _connect(self, text: str, port: int) -> Streams:
        """Raises `DestinationRefused`, `Unreachable`."""
        host = self._destinations.admit(text, port)
        entry = written(host, port)
        addresses = await self._addresses(host, port)
        for address in addresses:
            self._destinations.check(address, host, port)
        why = "it has no address"
        for address in addresses[:ADDRESSES_MAX]:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    streams = await asyncio.open_connection(str(address), port, limit=BUFFER_BYTES)
                keep_alive(streams[1])
                return streams
            except TimeoutError:
                why = f"no connection within {CONNECT_SECONDS:.0f} s"
            except OSError as error:
                why = (error.strerror or str(error)).lower()
        raise Unreachable(f"{entry} cannot be reached: {why}")

    async def _addresses(self, host: Address | str, port: int) -> list[Address]:
        """All addresses of a host, each once. Raises `Unreachable`."""
        if not isinstance(host, str):
            return [host]
        try:
            async with asyncio.timeout(LOOKUP_SECONDS), self._looking:
                found = await self._lookups.addresses(host, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or "no answer of the servers of names"
            raise Unreachable(f"{written(host, port)} cannot be reached: {why.lower()}") from None
        return list(dict.fromkeys(ip_address(info[4][0].partition("%")[0]) for info in found))

    async def _pump(self, inside: Streams, outside: Streams) -> None:
        """Carry bytes in both directions until both sides have ended, or one is gone."""
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._one_way(inside[0], outside[1], self._count_sent))
                both.create_task(self._one_way(outside[0], inside[1], self._count_received))
            await _finish(outside[1])
        except* (OSError, EOFError):
            reset(inside[1])  # one of both is gone
        finally:
            reset(outside[1])

    @staticmethod
    async def _one_way(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int], None]
    ) -> None:
        while piece := await reader.read(BUFFER_BYTES):
            count(len(piece))
            put(writer, piece)
            await writer.drain()
        if not writer.transport.is_closing():
            writer.write_eof()

    def _count_sent(self, length: int) -> None:
        self.sent_bytes += length

    def _count_received(self, length: int) -> None:
        self.received_bytes += length

    # ---------------------------------------------------------------------------------------- names

    def _answer(self, wire: bytes) -> bytes | None:
        return answer(wire, self._destinations, self._book, self._note)

    async def _questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Queries over TCP: each with its length before it."""
        for _ in range(QUERIES_MAX):
            async with asyncio.timeout(REQUEST_SECONDS):
                length = int.from_bytes(await reader.readexactly(2), "big")
                found = self._answer(await reader.readexactly(length))
            if found is None:
                return
            put(writer, len(found).to_bytes(2, "big") + found)
            await writer.drain()


class _Questions(asyncio.DatagramProtocol):
    """Queries over UDP."""

    def __init__(self, answered: Callable[[bytes], bytes | None]) -> None:
        self._answered = answered
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        found = self._answered(data)
        if found is not None and self._transport is not None:
            self._transport.sendto(found, addr)


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Let the kernel ask a silent peer whether it is there."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE:
        raw.setsockopt(socket.IPPROTO_TCP, option, value)


def put(writer: asyncio.StreamWriter, content: bytes) -> None:
    """Write to a connection. Raises `ConnectionResetError` if it is gone, of which uvloop makes a `RuntimeError`."""
    if writer.transport.is_closing():
        raise ConnectionResetError
    if content:
        writer.write(content)


async def _finish(writer: asyncio.StreamWriter) -> None:
    """Close after everything is sent."""
    writer.close()
    async with asyncio.timeout(REQUEST_SECONDS):
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection off, so that its other side learns of it at once. Of one that is closed, nothing."""
    transport = writer.transport
    if not transport.is_closing():
        raw = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    transport.abort()
