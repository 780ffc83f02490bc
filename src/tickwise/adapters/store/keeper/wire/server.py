"""`KeeperServer`: answers the calls of roles for the shards that this process owns.

    connection ──► hello: key, shard ──► calls, many at a time ──► answers, as they come
                     └─ not let in: one sentence, then the end          └── what they hand over goes with the answer

Back-pressure: of one connection at most `CALLS_MOST` calls are carried out at a time; more of it is not read. So is one
whose client does not read its answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog

from tickwise import __version__
from tickwise.adapters.store.keeper.handed_over import HEARD
from tickwise.adapters.store.keeper.wire.forms import FORMS, NotServedHere, encoded, reader, refusal
from tickwise.adapters.store.keeper.wire.frames import (
    FRAME_MAX_BYTES,
    NOTICE,
    REQUEST,
    RESPONSE,
    FrameProtocol,
    Request,
    read_request,
)
from tickwise.adapters.store.keeper.wire.greeting import ALIVE, CALLS_MOST, ELSEWHERE, HELLO, STANDBY, Hello, Welcome
from tickwise.adapters.store.keeper.wire.pinning import Endpoint, KeeperCertificate
from tickwise.domain.errors import Bug, TickwiseError, TooLarge, Unauthenticated
from tickwise.observability.keepers import KeeperMetrics
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover, Store

HELLO_SECONDS: Final = 10.0
FAREWELL_SECONDS: Final = 1.0
"""For clients that were told that the shard is elsewhere."""
UNKNOWN_MOST: Final = 256
"""Connections that have not said who they are."""

logger = structlog.get_logger("tickwise.keeper")


_hello: Final = reader(Hello)
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
        self.unknown = 0
        self._certificate = certificate
        self._key = key.encode()
        self._server: asyncio.Server | None = None
        self._connections: set[_ServerConnection] = set()

    async def start(self, host: str, port: int = 0) -> Endpoint:
        """Listen; port 0: at a free one. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _ServerConnection(self),
            host,
            port,
            ssl=self._certificate.context,
            ssl_handshake_timeout=HELLO_SECONDS,
        )
        found = self._server.sockets[0].getsockname()
        return Endpoint(host, found[1], self._certificate.fingerprint)

    async def stop(self) -> None:
        """Take no more connections, and end those that are there: clients that were told leave by themselves."""
        if self._server is not None:
            self._server.close()
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

    def __init__(self, server: KeeperServer) -> None:
        super().__init__()
        self.shard: int | None = None
        """None: it was not let in yet."""
        self.read_until: int | None = None
        """Of a keeper that waits for the shard: how far it has read the log."""
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        server = self._server
        server.begin(self)
        server.unknown += 1
        self._deadline = asyncio.get_running_loop().call_later(HELLO_SECONDS, self.abort)
        if server.unknown > UNKNOWN_MOST:
            self.abort()

    def lost(self) -> None:
        self._known()
        self._server.forget(self)

    def _known(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._server.unknown -= 1

    async def quiet(self) -> None:
        """Return when no call is under way."""
        if self._tasks:
            await asyncio.wait({*self._tasks})

    def heard(self, body: bytes) -> None:
        request = read_request(body)
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
            logger.warning("keeper_client_refused", shard=found.shard)
            self._refuse(request, Unauthenticated("the key is not that of this keyspace"))
            self.end()
            return
        store = self._server.stores.get(found.shard)
        if store is None:
            self._refuse(request, _not_here(found.shard))
            self.end()
            return
        self._known()
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
    try:
        given, named = form.arguments(request.params)
    except msgspec.DecodeError as failure:
        raise Bug(f"this keeper ({__version__}) cannot read {request.method}: {failure}") from None
    part, _, method = request.method.rpartition(".")
    call: Callable[..., Awaitable[Any]] = getattr(getattr(store, part) if part else store, method)
    return form.answer(await call(*given, **named))
