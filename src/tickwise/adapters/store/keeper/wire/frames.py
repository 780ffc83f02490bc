"""Messages on one connection: the length of each in four bytes, then MessagePack-RPC.

    request   [0, number, method, params]     response  [1, number, error or nil, result]
    notice    [2, method, params]

The responses come in any order. Source: https://github.com/msgpack-rpc/msgpack-rpc/blob/master/spec.md
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final, cast

import msgspec

from tickwise.domain.errors import TooLarge

FRAME_MAX_BYTES: Final = 64 << 20
"""The largest message: more than an entry of the log has could not be committed."""
WHY_CHARACTERS: Final = 200
"""Of a reason that the other end may have chosen."""
HELLO_MAX_BYTES: Final = 4_096
"""The largest message from somebody who was not let in yet."""
REQUEST: Final = 0
RESPONSE: Final = 1
NOTICE: Final = 2
_LENGTH: Final = struct.Struct("!I")


class Request(msgspec.Struct, array_like=True):
    """A call."""

    kind: int
    number: int
    method: str
    params: msgspec.Raw


class Response(msgspec.Struct, array_like=True):
    """Its answer, or its refusal; or a notice, which answers nothing."""

    kind: int
    number: int | str
    """The name, of a notice."""
    error: msgspec.Raw
    result: msgspec.Raw = msgspec.Raw(b"\xc0")


class FrameProtocol(asyncio.Protocol):
    """One end of a connection. A subclass takes messages in `heard`, what is no message in `not_understood`, and the
    end in `lost`.

    Invariant: no bytes from the other end raise past it. They end this connection, and no other."""

    def __init__(self) -> None:
        self.frame_max_bytes = HELLO_MAX_BYTES
        self.transport: asyncio.Transport | None = None
        self.is_writable = True
        self.is_reading = True
        self.is_over = False
        """This end has ended the connection: what arrived by then is not read any more."""
        self._arrived = bytearray()
        self._leaving: list[bytes] = []

    def heard(self, body: bytes) -> None:
        """Take a whole message. An error ends the connection."""
        raise NotImplementedError

    def not_understood(self, why: str) -> None:
        """The other end sent what is no message; the connection ends."""
        raise NotImplementedError

    def lost(self) -> None:
        """The connection has ended."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio`."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the reason is the other end's affair
        """See `asyncio`."""
        self.transport = None
        self.lost()

    def data_received(self, data: bytes) -> None:
        """See `asyncio`."""
        if not self.is_over:
            self._arrived += data
            self._split()

    def read_on(self, *, wanted: bool) -> None:
        """Take further messages, or none for now; what has arrived by then is kept."""
        if wanted == self.is_reading or self.transport is None or self.transport.is_closing():
            return
        self.is_reading = wanted
        if wanted:
            self.transport.resume_reading()
            asyncio.get_running_loop().call_soon(self._split)
        else:
            self.transport.pause_reading()

    def _split(self) -> None:
        arrived, begin = self._arrived, 0
        while self.is_reading and not self.is_over and len(arrived) - begin >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(arrived, begin)
            if length > self.frame_max_bytes:
                self._give_up(f"a message of {length} bytes")
                return
            end = begin + _LENGTH.size + length
            if len(arrived) < end:
                break
            try:
                self.heard(bytes(memoryview(arrived)[begin + _LENGTH.size : end]))
            except Exception as failure:  # noqa: BLE001  # of all that others may send, none may reach the event loop
                self._give_up(f"{type(failure).__name__}: {failure}")
                return
            begin = end
        del arrived[:begin]

    def _give_up(self, why: str) -> None:
        self._arrived.clear()
        self.not_understood(why[:WHY_CHARACTERS])
        self.end()

    def pause_writing(self) -> None:
        """See `asyncio`."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """See `asyncio`."""
        self.is_writable = True

    def send(self, body: bytes) -> None:
        """Send a message; messages of one turn of the event loop leave together. Raises `TooLarge`."""
        if len(body) > FRAME_MAX_BYTES:
            raise TooLarge(f"a message of {len(body)} bytes between a role and its keeper; the most is 64 MB")
        if not self._leaving:
            asyncio.get_running_loop().call_soon(self._leave)
        self._leaving += (_LENGTH.pack(len(body)), body)

    def _leave(self) -> None:
        leaving, self._leaving = self._leaving, []
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(b"".join(leaving))

    def end(self) -> None:
        """End the connection after what was sent."""
        self.is_over = True
        if self.transport is not None:
            self._leave()
            self.transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.is_over = True
        if self.transport is not None:
            self.transport.abort()
