"""Connections of clients that are not known yet: bounds on the bytes and the time of a request, and one way to read it.

    bytes ─► Connection (llhttp by uvicorn) ─► Front ─► …
                │ a refusal before the route: a problem, then the end of the connection
    once a second: Connections.look ─► deadlines for heads, bodies, idle connections and unread answers

uvicorn parses and answers; this module adds what it leaves open:

- An `Upgrade` header is ignored and the body is read (RFC 9110 §7.8). llhttp would take the body for another protocol.
- A message that two readers could frame in two ways is refused, and nothing behind it is read.
- Heads, trailers, waiting requests and connections are bounded. A full server drops the connection that has waited
  longest for a head, or for the look-up of a new key: neither half-open connections nor wrong keys keep anybody out.
- Deadlines are looked at once a second instead of a timer for each request.

Invariant: a connection without a key holds no more than a head and two pieces of data, and the bytes of one message are
never read as another one. (docs/decisions/0023)
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import httptools
import structlog
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tickwise.api.auth import CONNECTION
from tickwise.api.edge.protection import HSTS, PROTECTION
from tickwise.api.edge.tls_stream import TlsStream
from tickwise.api.problems import (
    MEDIA_TYPE,
    AddressTooLong,
    ExpectationUnknown,
    HeadersTooLarge,
    HttpMalformed,
    HttpUnsupported,
    HttpVersionUnsupported,
    RequestTimeout,
    ServerFull,
    TooManyWaiting,
    problem_of,
)
from tickwise.api.reading import ClientGone
from tickwise.api.wire import encode
from tickwise.domain.errors import Bug, TickwiseError
from tickwise.ports.identity import FoundKey

HEADERS_MAX: Final = 256
"""Headers of one request; each costs far more memory than its bytes."""
PIPELINE_MAX: Final = 8
"""Requests of one connection that wait for the one before them. All can come in one piece of data, before any is
answered, and each is served ahead of a request that comes later on another connection."""
DRAIN_BYTES: Final = 256 << 10
"""Rest of a body that is read after its answer, so that the connection can go on. More ends it."""
LINGER_SECONDS: Final = 5.0
"""After a last answer: how long bytes are thrown away, because closing at once could destroy that answer on its way."""
STALL_SECONDS: Final = 30.0
"""The longest time that a client may read nothing of an answer that waits for it."""

HANDSHAKE_FAILED: Final = "tls_handshake_failed"
"""In the log of refusals, beside the codes of problems."""

ONCE: Final = (
    *(b"host", b"authorization", b"tickwise-namespace", b"content-type", b"idempotency-key", b"transfer-encoding"),
)
"""Headers that a proxy and we must not choose from differently."""

_ALLOWED: Final = bytes({0x09, *range(0x20, 0x7F), *range(0x80, 0x100)})
"""The bytes that the value of a header may have (RFC 9110, section 5.5)."""
_UNREADABLE: Final = (httptools.HttpParserError, UnicodeDecodeError, AttributeError)
"""The error that uvicorn raises for a malformed address."""

logger = structlog.get_logger("tickwise.api")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The resources that a client may use before its key is checked."""

    connections: int = 2_048
    header_bytes: int = 64 << 10
    uri_bytes: int = 16 << 10
    header_seconds: float = 10.0
    """From the first byte of a request to the end of its headers; the grace of a body, too."""
    keep_alive_seconds: float = 75.0
    body_bytes_per_second: float = 500.0
    """Least rate of a body after its grace; 0 is no limit."""


class Connections:
    """All connections of one server. Call `look` once a second."""

    def __init__(
        self,
        limits: ConnectionLimits,
        request_id: Callable[[], str],
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`tls` gives the certificate in force; None: plain HTTP."""
        self.limits = limits
        self._request_id = request_id
        self._tls = tls
        self._open: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}
        """Those that wait for a head, the longest waiting first: idle, half-open, or at their end. Or for their key."""
        self._refused: Counter[str] = Counter()
        self._looked_at: float | None = None
        self._usual: tuple[Sequence[tuple[bytes, bytes]], bytes] = ((), b"")

    def usual(self, state: ServerState) -> bytes:
        """The lines of the headers that each answer has. uvicorn makes new ones every second, because of the date."""
        made, lines = self._usual
        if made is not state.default_headers:
            lines = b"".join([b"%b: %b\r\n" % header for header in state.default_headers])
            self._usual = (state.default_headers, lines)
        return lines

    def protocol(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> asyncio.Protocol:
        """A connection, as uvicorn makes one."""
        connection = Connection(self, config, server_state, app_state, _loop)
        if self._tls is None:
            return connection
        # It has all methods of a protocol, beside those of a transport.
        return cast("asyncio.Protocol", TlsStream(connection, self._tls()))

    def opened(self, connection: Connection) -> None:
        """Make room for it: by the longest waiting one, or by turning this one away if all others are at work."""
        self._open.add(connection)
        if len(self._open) > self.limits.connections:
            victim = next(iter(self._waiting), connection)
            self.closed(victim)
            victim.make_room(new=victim is connection)
            self.count(ServerFull.code)
        if connection in self._open:
            self._waiting[connection] = None

    def closed(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def waits(self, connection: Connection) -> None:
        """From now on it waits for a head, or for the look-up of its key."""
        if connection in self._open:
            self._waiting[connection] = None

    def works(self, connection: Connection) -> None:
        """Note that a connection has sent a head, and that its key is not being looked up."""
        self._waiting.pop(connection, None)

    def count(self, code: str) -> None:
        """One more refusal for the next log line."""
        self._refused[code] += 1

    def look(self, now: float) -> None:
        """Enforce the deadlines of all connections, and log what was refused since the last look."""
        passed = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        for connection in tuple(self._open):
            connection.look(now, passed)
        if self._refused:
            logger.warning("connections_refused", codes=dict(self._refused))
            self._refused.clear()

    def last_answer(self, failure: TickwiseError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Status, headers and body of a refusal before any route was found."""
        request_id = self._request_id()
        problem, headers = problem_of(failure, request_id)
        body = encode(problem)
        named = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request_id.encode()),
            (b"connection", b"close"),
        ]
        return problem.status, [*named, *headers, *PROTECTION], body


class Connection(HttpToolsProtocol):
    """One connection. uvicorn's, with bounds."""

    def __init__(
        self,
        all_of_them: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = all_of_them
        self._limits = all_of_them.limits
        self._exact_from = min(self._limits.header_bytes, self._limits.uri_bytes)
        self._reading = True
        """False after the last request of this connection: what still comes is thrown away."""
        self._running: RequestResponseCycle | None = None
        """The request that is being answered, or was the last one."""
        self._lookup: asyncio.Task[FoundKey | None] | None = None
        """Of the key of that request."""
        self._last_words: bytes | None = None
        """A refusal that waits for the answers before it."""
        self._since = self.loop.time()
        """The time at which the present wait of an idle connection, a head or an end began."""
        self._in_head = False
        self._in_body = False
        self._upgrade_asked = False
        self._fed_bytes = 0
        """The length of the data that is being parsed."""
        self._boundary = False
        """True if a head or a body ended in that data."""
        self._head_bytes = 0
        self._body_bytes = 0
        self._body_idle_bytes = 0
        """Bytes of a body's framing (extensions, trailers) since its last data."""
        self._body_seconds = 0.0
        """The time spent waiting for the present body."""
        self._answered_bytes = 0
        """The part of the body that had arrived when its answer was sent."""
        self._unsent_bytes = 0
        self._unsent_since = self._since

    # ------------------------------------------------------------------ the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self)
        if self._lookup is not None:
            self._give_up()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._reading:
            return
        self._fed_bytes = len(data)
        self._boundary = False
        body_bytes = self._body_bytes
        try:
            self._feed(data)
        except httptools.HttpParserCallbackError as failure:
            self._refuse(_meant(failure))
        except httptools.HttpParserError:
            self._refuse(HttpMalformed())
        else:
            if self._in_head:
                self._in_head_still()
            elif self._in_body:
                self._in_body_still(body_bytes)

    def handshake_failed(self) -> None:
        """The client and we have no TLS in common, or it is none."""
        self._all.count(HANDSHAKE_FAILED)
        self._linger()

    def spoke_plain_http(self) -> None:
        """A client sent no TLS to a port of TLS; its bytes could be read on their way."""
        self.scheme = "http"
        self._refuse(HttpMalformed("this port speaks TLS, and the client does not: use https://"))

    def shutdown(self) -> None:
        """Shut down as uvicorn does, but do not wait for clients that have had their last answer."""
        if self._reading or self._last_words is not None:
            super().shutdown()
        else:
            self.transport.abort()

    def _feed(self, data: bytes) -> None:
        """Parse. An upgrade that was asked for is parsed again without that header, by a parser of its own."""
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as asked:
                rest = data[asked.args[0] :]
                data = self._head_without_upgrade() + rest
                self._upgrade_asked = False
                self._fed_bytes = len(data)
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """The head that was just parsed. The parser refuses line breaks in values, so nothing can hide in one."""
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def _in_head_still(self) -> None:
        """The head goes on in further data."""
        if not self._head_bytes:
            self._since = self.loop.time()
        # Data in which another message ended is not counted, because its share of the head is not known.
        self._head_bytes += 1 if self._boundary else self._fed_bytes
        if self._head_bytes > self._limits.header_bytes + self._limits.uri_bytes:
            self._refuse(HeadersTooLarge(self._limits.header_bytes))

    def _in_body_still(self, before: int) -> None:
        """The body goes on in further data; `before`: its bytes before the last data."""
        self._body_idle_bytes = self._body_idle_bytes + self._fed_bytes if before == self._body_bytes else 0
        if self._body_idle_bytes > self._limits.header_bytes:
            self._refuse(HeadersTooLarge(self._limits.header_bytes))
        elif self.cycle.response_complete and self._body_bytes - self._answered_bytes > DRAIN_BYTES:
            self._linger()

    # ------------------------------------------------------------------ the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.uri_bytes:
            raise AddressTooLong(self._limits.uri_bytes)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # a trailer: it is not checked, so it must not look like a header
        headers = self.headers
        if len(headers) >= HEADERS_MAX:
            raise HeadersTooLarge(self._limits.header_bytes)
        # As uvicorn does, written out: this runs for every header of every request.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Check the head as a whole, then let uvicorn start the request."""
        if self._head_bytes + self._fed_bytes > self._exact_from:
            size = sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self._limits.header_bytes:
                raise HeadersTooLarge(self._limits.header_bytes)
        version = self.parser.get_http_version()
        self._check(version)
        self._in_head, self._head_bytes, self._boundary = False, 0, True
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise HttpUnsupported("CONNECT is for proxies; this is none")
            self._upgrade_asked = True
            return
        if len(self.pipeline) >= PIPELINE_MAX:
            raise TooManyWaiting(f"more than {PIPELINE_MAX} requests wait on this connection; open another one")
        super().on_headers_complete()
        self._all.works(self)
        self._in_body = True
        self._body_bytes = self._body_idle_bytes = self._answered_bytes = 0
        self._body_seconds = 0.0
        if self.expect_100_continue:
            # A client that was refused may or may not send its body: the next bytes could be read in two ways.
            self.cycle.keep_alive = False
            self.cycle.waiting_for_100_continue = version != "1.0"

    def _check(self, version: str) -> None:
        """Refuse a head that another HTTP parser could read in another way."""
        if version not in ("1.1", "1.0"):
            raise HttpVersionUnsupported(version)
        headers = dict(self.headers)
        if b"host" not in headers and version == "1.1":
            raise HttpMalformed("the header Host is missing")
        if len(headers) != len(self.headers):
            names = Counter(name for name, _ in self.headers)
            for name in ONCE:
                if names[name] > 1:
                    raise HttpMalformed(f"the header {name.decode()} is given twice")
        if b"transfer-encoding" in headers:
            if version == "1.0":
                raise HttpMalformed("HTTP/1.0 has no Transfer-Encoding")
            if headers[b"transfer-encoding"].strip().lower() != b"chunked":
                raise HttpUnsupported("no transfer coding is read but `chunked`")
        if b"expect" in headers and not self.expect_100_continue:
            raise ExpectationUnknown

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._upgrade_asked:
            return  # it is parsed again, with its body
        self._in_body, self._boundary = False, True
        super().on_message_complete()
        if self.cycle.response_complete and self.cycle is self._running:
            self._is_idle()

    # ------------------------------------------------------------------ the answers

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        cycle.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]  # read by the front alone
        super()._start_asgi_task(cycle, app)

    async def while_open(self, lookup: Coroutine[Any, Any, FoundKey | None]) -> FoundKey | None:
        """The result of looking up a new key; meanwhile this connection may have to make room. Raises `ClientGone`."""
        running = self._running
        task = self._lookup = self.loop.create_task(lookup)
        self._all.waits(self)
        try:
            return await task
        except asyncio.CancelledError:
            if running is not None and running.disconnected:
                raise ClientGone from None
            raise
        finally:
            self._lookup = None
            if running is not None and not running.disconnected:
                self._all.works(self)

    async def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Send the whole answer to the present request, as uvicorn would in two pieces, each header checked by two
        patterns: this takes a tenth of the time of a submit. `headers` have the length of the body."""
        running = self._running
        if running is None or running.response_started:
            raise Bug("there is no request that waits for an answer")
        if self.flow.write_paused and not running.disconnected:
            await self.flow.drain()
        if running.disconnected:
            return
        lines = [STATUS_LINE[status], self._all.usual(self.server_state)]
        lines += [b"%b: %b\r\n" % header for header in headers]
        if not running.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        head = b"".join(lines)
        # The status line and the empty line, the usual headers, and one line for each of the others.
        if head.translate(None, _ALLOWED) != b"\r\n" * (len(lines) - 1 + len(self.server_state.default_headers)):
            raise Bug("a header of an answer holds a control character")
        running.response_started = True
        running.waiting_for_100_continue = False
        self.transport.write(head + body)
        running.response_complete = True
        running.message_event.set()
        if not running.keep_alive:
            self.transport.close()
        running.on_response()

    def _give_up(self) -> None:
        """The client of the present request no longer waits for its answer."""
        running = self._running
        if running is not None:
            running.disconnected = True
            running.message_event.set()
        if self._lookup is not None:
            self._lookup.cancel()

    def on_response_complete(self) -> None:
        """Complete the answer as uvicorn does, without a timer for each answer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._last_words is None:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._last_words is not None:
            self._say(self._last_words)
        elif self._in_body:
            self._answered_bytes = self._body_bytes
            self._all.waits(self)
        else:
            self._is_idle()

    def _is_idle(self) -> None:
        self._since = self.loop.time()
        self._all.waits(self)

    def _refuse(self, failure: TickwiseError) -> None:
        """Read nothing more; answer with a problem after the answers that are still to come."""
        self._reading = False
        self._all.count(failure.code)
        running = self._running
        if self._in_body and self.cycle is running:
            if running.response_complete:
                self._linger()
                return
            if running.response_started:
                self.transport.close()
                return
            self._give_up()  # its request never ends, so nothing may be done for it
        elif self._in_body:
            self.pipeline.popleft()
        words = self._words(failure)
        if running is None or running.response_complete or running.disconnected:
            self._say(words)
        else:
            self._last_words = words
            self.flow.pause_reading()

    def _words(self, failure: TickwiseError) -> bytes:
        status, headers, body = self._all.last_answer(failure)
        usual = self.server_state.default_headers
        if self.scheme != "https":
            usual = [header for header in usual if header != HSTS]  # it means nothing outside of TLS (RFC 6797)
        lines = [b"%s: %s\r\n" % header for header in (*usual, *headers)]
        return b"".join([STATUS_LINE[status], *lines, b"\r\n", body])

    def _say(self, words: bytes) -> None:
        self._last_words = None
        if not self.transport.is_closing():
            self.transport.write(words)
            self._linger()

    def _linger(self) -> None:
        """Take no more requests: the client sees the end, and the bytes that it still sends are thrown away for a
        while."""
        self._reading = self._in_head = self._in_body = False
        self._since = self.loop.time()
        self._all.waits(self)
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def make_room(self, *, new: bool) -> None:
        """The server is full, and this connection has waited longest; or it is `new`, and all others are at work."""
        if new:
            self._reading = False
            self.transport.write(self._words(ServerFull()))
            self.transport.close()
        else:
            self.transport.abort()

    # ------------------------------------------------------------------ deadlines

    def look(self, now: float, passed: float) -> None:
        """End the connections that have taken too long. `passed`: seconds since the last look."""
        if self._stalled(now):
            self._all.count("answer_unread")
            self.transport.abort()
        elif self._last_words is not None or self.transport.is_closing():
            return
        elif not self._reading:
            if now - self._since > LINGER_SECONDS:
                self.transport.abort()
        elif self._in_head:
            if self.flow.read_paused:
                self._since = now  # we do not listen, so the client is not late
            elif now - self._since > self._limits.header_seconds:
                self._refuse(RequestTimeout("the headers did not come in time"))
        elif self._in_body:
            self._look_at_body(passed)
        elif self._running is None or self._running.response_complete:
            most = self._limits.header_seconds if self._running is None else self._limits.keep_alive_seconds
            if now - self._since > most:
                self.transport.close()

    def _look_at_body(self, passed: float) -> None:
        """A body has a grace, and after it a least rate; the time in which we do not read does not count."""
        rate = self._limits.body_bytes_per_second
        if not rate or self.flow.read_paused or self.cycle.waiting_for_100_continue:
            return
        self._body_seconds += passed
        if self._body_seconds > self._limits.header_seconds + self._body_bytes / rate:
            self._refuse(RequestTimeout(f"the body came with less than {rate:g} bytes a second"))

    def _stalled(self, now: float) -> bool:
        """Check whether the client reads none of the bytes that were sent to it."""
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self._unsent_bytes:
            self._unsent_since = now
        self._unsent_bytes = unsent
        return unsent > 0 and now - self._unsent_since > STALL_SECONDS


def _meant(failure: httptools.HttpParserCallbackError) -> TickwiseError:
    """The error that a callback of ours, or of uvicorn, raised inside the parser."""
    cause = failure.__context__
    if isinstance(cause, TickwiseError):
        return cause
    if not isinstance(cause, _UNREADABLE):
        logger.error("connection_failed", exc_info=cause)
    return HttpMalformed()
