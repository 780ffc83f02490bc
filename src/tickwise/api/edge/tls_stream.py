"""TLS of one connection, between the network and HTTP.

    network ──bytes──► TlsStream (OpenSSL in memory) ──data──► Connection (HTTP)
            ◄─bytes───           ◄────────────write───────────

The event loop has TLS of its own, but it makes the HTTP connection after the handshake: until then nobody counts the
connection, and nobody can end it. Here HTTP has it from its first moment. A handshake is time without a head: it has
the deadline of a head (`header_seconds`), and makes room when the server is full (`connections`).

A client that speaks plain HTTP gets one answer in plain HTTP, and the end. Each connection takes the certificate that
is in force when it is opened, and keeps it.

Invariant: HTTP gets only bytes that TLS has checked, and what HTTP writes leaves encrypted or not at all; the one
exception is the answer to a client that has sent no TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from enum import Enum, auto
from typing import Any, Final, Protocol

RECORD_BYTES: Final = 16 << 10
"""The most that one record of TLS carries."""
HANDSHAKE: Final = 0x16
"""The first byte of each client that speaks TLS: the type of its first record."""


class HttpSide(Protocol):
    """The HTTP connection above."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """The network is there; the handshake begins."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """The network is gone."""
        ...

    def data_received(self, data: bytes) -> None:
        """Plain bytes of the client."""
        ...

    def eof_received(self) -> None:
        """The client sends nothing more."""
        ...

    def pause_writing(self) -> None:
        """Too much waits to be sent."""
        ...

    def resume_writing(self) -> None:
        """Most of it is sent."""
        ...

    def handshake_failed(self) -> None:
        """End the connection: there is no common TLS."""
        ...

    def spoke_plain_http(self) -> None:
        """Answer a client that sent no TLS; what is written now is not encrypted."""
        ...


class _Phase(Enum):
    SHAKING = auto()
    OPEN = auto()
    CLEAR = auto()
    """The client spoke plain HTTP, and gets its answer."""
    ENDED = auto()
    """Nothing is read or written any more; the network closes."""


class TlsStream(asyncio.Transport):
    """The protocol of the network's transport, and the transport of the HTTP connection."""

    def __init__(self, http: HttpSide, context: ssl.SSLContext) -> None:
        super().__init__()
        self._http = http
        self._context = context
        self._network: asyncio.Transport
        self._from_client, self._to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_client, self._to_client, server_side=True)
        self._phase = _Phase.SHAKING
        self._is_first = True
        self._paused = self._congested = self._is_reading = False

    # ------------------------------------------------------------------ as the protocol of the network

    def connection_made(self, transport: asyncio.Transport) -> None:
        """HTTP has the connection from now on."""
        self._network = transport
        self._http.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._phase = _Phase.ENDED
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Shake hands, or decrypt."""
        if self._is_first:
            self._is_first = False
            if data[0] != HANDSHAKE and self._phase is _Phase.SHAKING:
                self._phase = _Phase.CLEAR
                self._http.spoke_plain_http()
        if self._phase is _Phase.SHAKING:
            self._from_client.write(data)
            if self._shake():
                self._read()
        elif self._phase is _Phase.OPEN:
            self._from_client.write(data)
            self._read()

    def eof_received(self) -> None:
        """Pass it on; the network closes itself. HTTP knows how long a message is: a cut one is not taken for whole."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """Take nothing in either: TLS answers some of what clients send by itself."""
        self._congested = True
        self._set_reading()
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """The client has read."""
        self._congested = False
        self._set_reading()
        self._http.resume_writing()

    # ------------------------------------------------------------------ as the transport of HTTP

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt and send; before the handshake and after the end nothing is sent."""
        if self._phase is _Phase.CLEAR:
            self._network.write(data)
        elif self._phase is _Phase.OPEN:
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[self._tls.write(rest) :]
            except ssl.SSLError:
                self.abort()
            self._flush()

    def close(self) -> None:
        """Send what was written, say so, and close."""
        self._say_end()
        self._network.close()

    def write_eof(self) -> None:
        """Say that nothing more comes; what still comes is thrown away."""
        self._say_end()
        if self._network.can_write_eof():
            self._network.write_eof()

    def can_write_eof(self) -> bool:
        """TLS has an end of its own."""
        return True

    def abort(self) -> None:
        """Close at once."""
        self._phase = _Phase.ENDED
        self._network.abort()

    def is_closing(self) -> bool:
        """Check whether the network closes."""
        return self._network.is_closing()

    def pause_reading(self) -> None:
        """Pass no more on."""
        self._paused = True
        self._set_reading()

    def resume_reading(self) -> None:
        """Pass on what has come meanwhile, then read on."""
        self._paused = False
        self._set_reading()
        if not self._is_reading:
            asyncio.get_running_loop().call_soon(self._read)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of TLS, or of the network."""
        if name == "sslcontext":
            return self._context
        return self._tls if name == "ssl_object" else self._network.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """The encrypted bytes that wait: none wait here."""
        return self._network.get_write_buffer_size()

    # ------------------------------------------------------------------ between the two

    def _shake(self) -> bool:
        """Go on with the handshake; True once it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError:
            self._flush()  # the alert that says why
            self._phase = _Phase.ENDED
            self._http.handshake_failed()
            return False
        self._phase = _Phase.OPEN
        self._flush()
        return True

    def _read(self) -> None:
        """Decrypt what is there, as long as HTTP takes it."""
        if self._is_reading:
            return
        self._is_reading = True
        try:
            # To ask what is left costs less than the exception of a read that finds nothing.
            while (
                self._phase is _Phase.OPEN and not self._paused and (self._from_client.pending or self._tls.pending())
            ):
                data = self._tls.read(RECORD_BYTES)
                if not data:
                    self.close()
                    return
                self._http.data_received(data)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is to come
        except ssl.SSLZeroReturnError:
            self.close()
        except ssl.SSLError:
            self._flush()  # the alert that says why
            self.close()
        finally:
            self._is_reading = False
        if self._phase is _Phase.OPEN:
            self._flush()  # some messages of TLS have an answer of TLS

    def _flush(self) -> None:
        if self._to_client.pending:
            self._network.write(self._to_client.read())

    def _say_end(self) -> None:
        """The message of TLS that nothing more comes, once."""
        if self._phase is _Phase.OPEN:
            with contextlib.suppress(ssl.SSLError):  # it was written, and the client's own is not waited for
                self._tls.unwrap()
            self._flush()
        self._phase = _Phase.ENDED

    def _set_reading(self) -> None:
        if self._network.is_closing():
            return
        if self._paused or self._congested:
            self._network.pause_reading()
        else:
            self._network.resume_reading()
