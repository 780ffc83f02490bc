"""One process's way to Redis: the address as it is set, the commands, and connections that only listen.

    redis://[user:password@]host[:port][/db][?prefix=tickwise]      rediss:// the same over TLS, with ca=, cert=, key=

Redis may be away, slow, empty or read-only at any time. So every call here has an end, nothing is repeated by the
driver (who waits for an answer that is late asks for something newer instead), and what goes wrong is one of `AWAY`.
Keys bear the prefix and the name of the cluster, so that two installations can share a server.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tickwise.adapters.signals.keeping import Keeper
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock

AWAY: Final = (RedisError, OSError, TimeoutError)
"""All that a call may raise, besides being cancelled."""
ANSWER_SECONDS: Final = 2.0
"""After this long without an answer a connection is given up. Redis answers within a millisecond; one that does not for
so long is away, or something between swallows what is sent."""
CHECK_SECONDS: Final = 2.0
"""The interval of checks of a quiet connection, which may have broken without notice."""
MAX_CONNECTIONS: Final = 4
"""For commands, of one process. A command that finds none free waits; the driver's own pool fails beyond the
hundredth."""
OPTIONS: Final = ("prefix", "ca", "cert", "key")
PORT: Final = 6379

Command = tuple[str | bytes | int | float, ...]
"""As it is sent: its name, its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The parts of an address. No text made from it contains the password."""

    host: str
    port: int
    db: int
    username: str | None
    password: str | None = field(repr=False)
    tls: bool
    prefix: str
    ca: str | None
    cert: str | None
    key: str | None

    @property
    def shown(self) -> str:
        """The address for people, without the password."""
        return f"{'rediss' if self.tls else 'redis'}://{self.host}:{self.port}/{self.db}"


def read_address(url: str) -> Address:
    """Raises `Misconfigured`, without what may be a password."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
        db = int(parts.path.strip("/") or 0)
    except ValueError as wrong:
        raise Misconfigured(f"signals_url cannot be read ({_plain(wrong)}); write redis://HOST:PORT/0") from None
    if parts.scheme not in ("redis", "rediss") or not parts.hostname or db < 0:
        raise Misconfigured("signals_url must be like redis://HOST:PORT/0, or rediss:// for TLS")
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise Misconfigured(f"signals_url: there is no option {unknown[0]!r}; there are {', '.join(OPTIONS)}")
    tls = parts.scheme == "rediss"
    for name in ("ca", "cert", "key"):
        file = options.get(name)
        if file is not None and not tls:
            raise Misconfigured(f"signals_url: {name}= is for TLS; write rediss://, or leave it out")
        if file is not None and not Path(file).is_file():
            raise Misconfigured(f"signals_url: {name}={file} is no file that can be read")
    prefix = options.get("prefix", "tickwise")
    if not prefix.isprintable() or not 0 < len(prefix) <= 100:
        raise Misconfigured("signals_url: prefix= must have 1 to 100 printable characters")
    return Address(
        host=parts.hostname, port=port, db=db, prefix=prefix, tls=tls,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        ca=options.get("ca"), cert=options.get("cert"), key=options.get("key"),
    )  # fmt: skip


def _plain(wrong: ValueError) -> str:
    """The fault, without a piece of the address in it."""
    return str(wrong).split(":", maxsplit=1)[0].lower()


class RedisLink:
    """The connection to Redis that all parts of one process share."""

    def __init__(self, url: str, cluster: str, clock: Clock, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        """`cluster`: the name of the store that this process serves. Raises `Misconfigured`; touches no network."""
        self.clock = clock
        self._answer_seconds = answer_seconds
        self.keeper = Keeper(clock=clock, where="Redis", away=AWAY)
        self.address = address = read_address(url)
        self._root = f"{address.prefix}:{cluster}"
        self._kind = SSLConnection if address.tls else Connection
        self._arguments: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "db": address.db,
            "username": address.username,
            "password": address.password,
            "protocol": 2,
            "socket_timeout": answer_seconds,
            "socket_connect_timeout": answer_seconds,
            "socket_keepalive": True,
            "retry": Retry(NoBackoff(), 0),
            "client_name": "tickwise",
        }
        if address.tls:
            self._arguments |= {
                "ssl_ca_certs": address.ca,
                "ssl_certfile": address.cert,
                "ssl_keyfile": address.key,
            }
        pool = BlockingConnectionPool(
            max_connections=MAX_CONNECTIONS,
            timeout=answer_seconds,
            connection_class=self._kind,
            health_check_interval=CHECK_SECONDS,
            **self._arguments,
        )
        self._commands: Redis = Redis(connection_pool=pool)

    def key(self, *parts: str) -> str:
        """The full name of a key or a channel."""
        return ":".join((self._root, *parts))

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Send these in one go; the answer to each, or its error. Raises one of `AWAY` if there are no answers."""
        batch = self._commands.pipeline(transaction=False)
        for command in commands:
            batch.execute_command(*command)
        found: list[Any] = await batch.execute(raise_on_error=False)
        return found

    async def ask(self, *command: str | bytes | float) -> Any:
        """Send one; its answer. Raises one of `AWAY`."""
        return await self._commands.execute_command(*command)  # type: ignore[no-untyped-call]  # the driver's

    @contextlib.asynccontextmanager
    async def hearing(self, channels: Sequence[str]) -> AsyncIterator[Hearing]:
        """A connection of its own that hears these channels (full names). Raises one of `AWAY`."""
        connection = self._kind(**self._arguments)
        hearing = Hearing(connection, self._answer_seconds)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]  # the driver's
            await connection.send_command("SUBSCRIBE", *channels)
            yield hearing
        finally:
            with contextlib.suppress(*AWAY):
                await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Free everything."""
        with contextlib.suppress(*AWAY):
            await self._commands.aclose(close_connection_pool=True)


class Heard(NamedTuple):
    """A message of a channel; or, without a value, that the server says that a channel is heard from now on."""

    channel: str
    value: bytes | None


class Hearing:
    """A connection that is subscribed.

    The driver's own `PubSub` connects again by itself, silently, and what was said meanwhile is missing without a
    word; here a lost link is an error."""

    def __init__(self, connection: Connection, answer_seconds: float) -> None:
        self._connection = connection
        self._answer_seconds = answer_seconds

    async def next(self) -> Heard:
        """Wait for it, and see that the link is alive meanwhile. Raises one of `AWAY`."""
        asked = False
        while True:
            said = await self._connection.read_response(timeout=self._answer_seconds if asked else CHECK_SECONDS)
            if said is None:
                if asked:
                    raise TimeoutError("Redis does not answer")
                await self._connection.send_command("PING", check_health=False)
                asked = True
                continue
            asked = False
            kind = said[0] if isinstance(said, list) else None
            if kind == b"message":
                return Heard(said[1].decode(errors="replace"), said[2])
            if kind == b"subscribe":
                return Heard(said[1].decode(errors="replace"), None)
