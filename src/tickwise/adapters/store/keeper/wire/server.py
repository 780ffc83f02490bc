"""`KeeperServer`: answers the calls of roles for the shards that this process owns.

    connection ──► TLS ──► hello: key, shard ──► calls, many at a time ──► answers, as they come
      └─ a stranger until then    └─ not let in: a sentence, the end        └── what they hand over goes with the answer

Connections are counted from the moment they are accepted: half a handshake takes the place of a stranger, and never of
a client that has shown the key (`strangers`).

Back-pressure: of one connection at most `CALLS_MOST` calls are carried out at a time; more of it is not read. So is one
whose client does not read its answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog

from tickwise import __version__
from tickwise.adapters.store.keeper.handed_over import HEARD
from tickwise.adapters.store.keeper.search_turns import SearchTurns
from tickwise.adapters.store.keeper.wire.forms import FORMS, NotServedHere, check_size, encoded, reader, refusal
from tickwise.adapters.store.keeper.wire.frames import (
    FRAME_MAX_BYTES,
    NOTICE,
    REQUEST,
    RESPONSE,
    FrameProtocol,
    Request,
)
from tickwise.adapters.store.keeper.wire.greeting import ALIVE, CALLS_MOST, ELSEWHERE, HELLO, STANDBY, Hello, Welcome
from tickwise.adapters.store.keeper.wire.pinning import Endpoint, KeeperCertificate
from tickwise.adapters.store.keeper.wire.strangers import Stranger, Strangers
from tickwise.domain.errors import Bug, TickwiseError, TooLarge, Unauthenticated
from tickwise.observability.event_pace import EventPace
from tickwise.observability.keepers import KeeperMetrics
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover, Store

HELLO_SECONDS: Final = 10.0
FAREWELL_SECONDS: Final = 1.0
"""For clients that were told that the shard is elsewhere."""
ACCEPT_PAUSE_SECONDS: Final = 0.1
"""After a connection that could not be accepted: there may be no file descriptor left."""
BACKLOG: Final = 1_024
"""Connections that the kernel keeps until they are accepted: a restart makes all roles connect at once."""

logger = structlog.get_logger("tickwise.keeper")


_hello: Final = reader(Hello)
_request: Final = reader(Request)
_position: Final = reader(int)


class KeeperServer:
    """One port for all shards of this process."""

    def __init__(
        self, certificate: KeeperCertificate, key: str, clock: Clock, metrics: KeeperMetrics | None = None
    ) -> None:
        """`key`: the secret of the keyspace, which clients have to know."""
        self.clock = clock
        self.metrics = metrics
        self.stores: dict[int, Store] = {}
        """The shards that are served, by their numbers."""
        self.turns = SearchTurns(clock)
        """All shards share the thread of this process."""
        self.strangers = Strangers()
        self._pace = EventPace(clock)
        self._certificate = certificate
        self._key = key.encode()
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._greeting: set[asyncio.Task[None]] = set()
        """Of connections that have not finished their handshake."""
        self._connections: set[_ServerConnection] = set()

    async def start(self, host: str, port: int = 0) -> Endpoint:
        """Listen; port 0: at a free one. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in {(each[0], each[4][0]): None for each in found}:
            listening = socket.create_server((address, port), family=family, backlog=BACKLOG)
            listening.setblocking(False)
            port = listening.getsockname()[1]
            self._listening.append(listening)
            self._accepting.append(loop.create_task(self._accept(listening)))
        return Endpoint(host, port, self._certificate.fingerprint)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError:
                await self.clock.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            task = loop.create_task(self._greet(sock, address[0]))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    async def _greet(self, sock: socket.socket, address: str) -> None:
        """Speak TLS with a new connection. Another one may take its place meanwhile, and ends this task."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        connection = _ServerConnection(self, address, task.cancel)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await loop.connect_accepted_socket(
                lambda: connection, sock, ssl=self._certificate.context, ssl_handshake_timeout=HELLO_SECONDS
            )
        if connection.transport is None:
            connection.leave_strangers()
            sock.close()

    async def stop(self) -> None:
        """Take no more connections, and end those that are there: clients that were told leave by themselves."""
        await end_tasks(self._accepting)
        for listening in self._listening:
            listening.close()
        self._accepting, self._listening = [], []
        await end_tasks([*self._greeting])
        begun = self.clock.monotonic()
        while self._connections and self.clock.monotonic() - begun < FAREWELL_SECONDS:
            await self.clock.sleep(0.01)
        for each in [*self._connections]:
            await each.quiet()
            each.end()

    def serve(self, shard: int, store: Store) -> None:
        """From now on calls for the shard are carried out by this store."""
        self.stores[shard] = store

    async def withdraw(self, shard: int) -> None:
        """Answer for the shard no more: calls under way are answered, later ones refused, and its clients are told."""
        self.stores.pop(shard, None)
        mine = [each for each in self._connections if each.shard == shard]
        for each in mine:
            each.send(encoded((NOTICE, ELSEWHERE, None)))
        await asyncio.gather(*(each.quiet() for each in mine))

    def standby(self, shard: int) -> int | None:
        """The position up to which a keeper that waits for the shard has read its log; None: none says so."""
        found = [each.read_until for each in self._connections if each.shard == shard and each.read_until is not None]
        return max(found, default=None)

    def is_key(self, key: str) -> bool:
        """Check the key of a client, in a time that does not tell where it differs."""
        return hmac.compare_digest(key.encode(), self._key)

    def admit(self, stranger: Stranger) -> None:
        """Count one more connection that has not shown the key; another one may have to end for it."""
        displaced = self.strangers.add(stranger)
        if displaced is not None:
            self.turned_away("crowded", displaced.network)
            displaced.end()

    def turned_away(self, why: str, network: str, detail: str = "") -> None:
        """A connection is ended. `why`: `crowded`, `silent`, `unreadable`."""
        if count := self._counted(why):
            logger.warning("keeper_connection_ended", why=why, network=network, detail=detail, count=count)

    def refused_key(self, network: str, shard: int) -> None:
        """Somebody has shown another key than that of the keyspace."""
        if count := self._counted("key"):
            logger.warning("keeper_client_refused", network=network, shard=shard, count=count)

    def _counted(self, why: str) -> int:
        if self.metrics is not None:
            self.metrics.turned_away(why)
        return self._pace.due(why)

    def begin(self, connection: _ServerConnection) -> None:
        """A connection has begun."""
        self._connections.add(connection)
        self._count_connections()

    def forget(self, connection: _ServerConnection) -> None:
        """A connection has ended."""
        self._connections.discard(connection)
        self._count_connections()

    def _count_connections(self) -> None:
        if self.metrics is not None:
            self.metrics.connected(len(self._connections))


class _ServerConnection(FrameProtocol):
    """One client of one shard."""

    def __init__(self, server: KeeperServer, address: str, stop_greeting: Callable[[], object]) -> None:
        """It counts as a stranger from now on; `stop_greeting` ends its handshake."""
        super().__init__()
        self.shard: int | None = None
        """None: it was not let in yet."""
        self.read_until: int | None = None
        """Of a keeper that waits for the shard: how far it has read the log."""
        self._server = server
        self._stop_greeting = stop_greeting
        self._tasks: set[asyncio.Task[None]] = set()
        self._stranger = Stranger(address, self._displaced)
        self._deadline = asyncio.get_running_loop().call_later(HELLO_SECONDS, self._too_late)
        server.admit(self._stranger)

    def _displaced(self) -> None:
        """Another stranger has its place."""
        self.is_over = True
        if self.transport is None:
            self._stop_greeting()
        else:
            self.abort()

    def _too_late(self) -> None:
        self._server.turned_away("silent", self._stranger.network)
        self._displaced()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.begin(self)
        if self.is_over:
            self.abort()

    def not_understood(self, why: str) -> None:
        self._server.turned_away("unreadable", self._stranger.network, why)

    def lost(self) -> None:
        self.leave_strangers()
        self._server.forget(self)

    def leave_strangers(self) -> None:
        """It has shown the key, or has ended."""
        self._deadline.cancel()
        self._server.strangers.drop(self._stranger)

    async def quiet(self) -> None:
        """Return when no call is under way."""
        if self._tasks:
            await asyncio.wait({*self._tasks})

    def heard(self, body: bytes) -> None:
        request: Request = _request(body)
        if request.kind != REQUEST:
            raise msgspec.ValidationError("a keeper is asked, and asks nothing")
        if self.shard is None:
            self._let_in(request)
        elif request.method == ALIVE:
            self.send(encoded((RESPONSE, request.number, None, None)))
        elif request.method == STANDBY:
            self.read_until = _position(request.params)
            self.send(encoded((RESPONSE, request.number, None, None)))
        else:
            task = asyncio.get_running_loop().create_task(self._carry_out(self.shard, request))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            self._look()

    def _let_in(self, request: Request) -> None:
        found = _hello(request.params)
        if request.method != HELLO or not self._server.is_key(found.key):
            self._server.refused_key(self._stranger.network, found.shard)
            self._refuse(request, Unauthenticated("the key is not that of this keyspace"))
            self.end()
            return
        store = self._server.stores.get(found.shard)
        if store is None:
            self._refuse(request, _not_here(found.shard))
            self.end()
            return
        self.leave_strangers()
        self.shard, self.frame_max_bytes = found.shard, FRAME_MAX_BYTES
        welcome = Welcome(store.upkeep.cluster_id, __version__)
        self.send(encoded((RESPONSE, request.number, None, welcome)))

    async def _carry_out(self, shard: int, request: Request) -> None:
        heard: list[Handover] = []
        HEARD.set(heard)
        metrics = self._server.metrics
        if metrics is not None:
            metrics.called(shard, request.method, is_known=request.method in FORMS)
        try:
            store = self._server.stores.get(shard)
            if store is None:
                raise _not_here(shard)
            answer = await _answer(store, request)
            self.send(encoded((RESPONSE, request.number, None, (answer, heard))))
        except TickwiseError as failure:
            self._refuse(request, failure, heard)
        except Exception as failure:  # a bug of ours must not end the connection of others
            logger.exception("keeper_call_failed", method=request.method)
            self._refuse(request, Bug(f"{request.method}: {type(failure).__name__}: {failure}"), heard)

    def _refuse(self, request: Request, failure: TickwiseError, heard: list[Handover] | None = None) -> None:
        if self.shard is not None and self._server.metrics is not None:
            self._server.metrics.refused(self.shard, failure.code)
        with contextlib.suppress(TooLarge):
            self.send(encoded((RESPONSE, request.number, refusal(failure), (None, heard or []))))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._look()

    def _look(self) -> None:
        """Read on, or not."""
        self.read_on(wanted=len(self._tasks) < CALLS_MOST and self.is_writable)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look()


def _not_here(shard: int) -> NotServedHere:
    return NotServedHere(f"this keeper does not own shard {shard}", retry_after_seconds=0.1)


async def _answer(store: Store, request: Request) -> Any:
    form = FORMS.get(request.method)
    if form is None:
        raise Bug(f"this keeper ({__version__}) knows no call {request.method}: upgrade keepers before roles")
    check_size(request.method, request.params)
    try:
        given, named = form.arguments(request.params)
    except msgspec.DecodeError as failure:
        raise Bug(f"this keeper ({__version__}) cannot read {request.method}: {failure}") from None
    part, _, method = request.method.rpartition(".")
    call: Callable[..., Awaitable[Any]] = getattr(getattr(store, part) if part else store, method)
    return form.answer(await call(*given, **named))
