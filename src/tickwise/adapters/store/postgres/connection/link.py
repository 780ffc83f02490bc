"""Connections that come back by themselves, and the driver's errors in our words.

    Line   one connection with a duty of its own (claim, finish, beat, fire): taken in turn, prepared statements warm
    Pool   the rest

Invariant: an error that leaves here says truly whether something may have been written: `StoreUnavailable`, nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import count
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import asyncpg

from tickwise.adapters.store.postgres.connection.arrays import pack_columns
from tickwise.adapters.store.postgres.connection.dialer import Dialer
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug, InDoubt, Invalid, Misconfigured, NamespaceMoved, StoreUnavailable, TickwiseError

BEAT: Final = "beat"
BEAT_SECONDS: Final = 3.0
"""A third of the shortest lease that is usual: a heartbeat that hangs must fail in time for another try."""

PAGES: Final = "pages"
PAGES_AT_ONCE: Final = 2
"""Sessions for pages whose plan is kept. Such a page takes about a millisecond of the server."""
SEARCHES: Final = "searches"
SEARCHES_AT_ONCE: Final = 2
"""Sessions for searches that look at a bounded number of rows: some milliseconds of the server, so they are not in the
way of such pages."""
PAGE_SECONDS: Final = 10.0
"""The most time that such a page takes, and any search."""

UPKEEP: Final = "upkeep"
UPKEEP_SECONDS: Final = 1_800.0
"""A day may hold tens of millions of runs, and a step of the upkeep reads a whole day."""

CONNECT_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 60.0
"""A statement that takes longer has lost its server: no answer is waited for for ever."""

CLOSE_SECONDS: Final = 5.0
"""For so long what is under way may still end when the store is closed."""

POOL_CONNECTIONS: Final = 5
"""More do not write faster: on two cores 16 wrote 58k rows a second where 2 wrote 76k."""

LOCK_TIMEOUT: Final = "4s"
"""We hold no lock for as long. While a person locks a table by hand, callers get 503 and do not wait."""

# The tables of the hot path go from empty to full and back within seconds, so a plan that follows their statistics
# flips (40k runs a second became 1.5k). Hot sessions get the one plan that their statements were written for.
# A process that is stopped in the midst of a transaction keeps others from what it holds only for the time-out.
HOT_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_nestloop": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "idle_in_transaction_session_timeout": "30s",
    "lock_timeout": LOCK_TIMEOUT,
}
POOL_SETTINGS: Final = {"jit": "off", "idle_in_transaction_session_timeout": "30s", "lock_timeout": LOCK_TIMEOUT}


PAGE_SETTINGS: Final = {
    **POOL_SETTINGS,
    "plan_cache_mode": "force_generic_plan",
    "max_parallel_workers_per_gather": "0",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "statement_timeout": f"{PAGE_SECONDS:g}s",
    "lock_timeout": f"{PAGE_SECONDS / 2:g}s",
}
"""A page whose plan is kept is planned once, for all values. Its statement is written for one plan, in the order of an
index. The wait for a lock ends earlier, so that its error names the lock."""


READ_SETTINGS: Final = {"default_transaction_read_only": "on"}
"""The session setting of a store that only reads: it writes to no server, not even to a primary."""


class Terms(NamedTuple):
    """The terms of a line's connections."""

    connect_seconds: float
    command_seconds: float
    settings: Mapping[str, str]


HOT: Final = Terms(CONNECT_SECONDS, COMMAND_SECONDS, HOT_SETTINGS)
TERMS: Final = {
    BEAT: Terms(BEAT_SECONDS, BEAT_SECONDS, HOT_SETTINGS),
    # It gives up rather than let others queue behind it.
    PAGES: Terms(CONNECT_SECONDS, COMMAND_SECONDS, PAGE_SETTINGS),
    SEARCHES: Terms(CONNECT_SECONDS, COMMAND_SECONDS, PAGE_SETTINGS),
    UPKEEP: Terms(CONNECT_SECONDS, UPKEEP_SECONDS, {**POOL_SETTINGS, "lock_timeout": "1s"}),
}
"""Lines that are not as the hot ones are, by the first word of their duty."""

_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    OSError,
    TimeoutError,
)
_REFUSED_FOR_NOW = (
    asyncpg.InsufficientResourcesError,  # too many connections, no disk, no memory
    asyncpg.TransactionRollbackError,  # deadlock, serialization: rolled back
    asyncpg.OperatorInterventionError,  # cancelled by an operator or a timeout
    asyncpg.ObjectNotInPrerequisiteStateError,  # a lock that is not to be had, now or on a standby
    asyncpg.ReadOnlySQLTransactionError,  # a standby: the address will point to the primary again
    asyncpg.IdleInTransactionSessionTimeoutError,  # we stood still for so long that the server took back what we held
    asyncpg.TransactionTimeoutError,
    asyncpg.PostgresSystemError,  # its disk
    asyncpg.InvalidCachedStatementError,  # the schema was changed meanwhile: prepared anew, it goes
)
_ENDED_SOMEHOW = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.StatementCompletionUnknownError,
)
"""Refusals after which a write may have been carried out all the same."""
_SET_UP_WRONGLY = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedTableError,
    asyncpg.InvalidSchemaNameError,
)
_CAUSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (asyncpg.InvalidAuthorizationSpecificationError, "the database refuses the role of its URL, or the password"),
    (asyncpg.InvalidCatalogNameError, "the database that the URL names does not exist"),
    (asyncpg.InsufficientPrivilegeError, "the database role lacks a right that this process needs"),
    (asyncpg.UndefinedTableError, "the database lacks a table: run `tickwise db upgrade`"),
    (asyncpg.InvalidSchemaNameError, "the database has no schema of Tickwise: run `tickwise db upgrade`"),
)
"""The public text of a refusal that no waiting ends."""
_REFUSED_BY_POOL: Final = (
    "startup parameter", "no such database", "no such user", "password", "login rejected", "config error",
)  # fmt: skip
"""Parts of what PgBouncer says, in one kind of error, of what no waiting ends. All else may pass: it cannot connect
just now, all its sessions are in use, it shuts down."""
_NAMESPACE_SHUT: Final = "TW001"
"""The code with which the database's function `namespaces_open` fails."""
_NAMESPACE_MOVED: Final = "TW002"
"""The code with which the database's function `shard_check` fails, with the namespace as its detail."""
_UNSTORABLE = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError, UnicodeEncodeError)


log = logging.getLogger(__name__)


class UniqueBroken(Exception):
    """The error that a unique name is in use; the caller, who knows the name, translates it."""


class NamespaceShut(Exception):
    """The error that a namespace takes nothing new; the caller finds out which."""


@contextlib.contextmanager
def translated(*, writes: bool) -> Iterator[None]:
    """Raise our errors for the driver's. With `writes`, a link that breaks inside leaves the write in doubt."""
    try:
        yield
    except TickwiseError:
        raise
    except asyncpg.UniqueViolationError as error:
        raise UniqueBroken from error
    except _UNSTORABLE as error:
        raise Invalid("a text holds a character that cannot be stored, such as U+0000: leave it out") from error
    except _REFUSED_FOR_NOW as error:
        if writes and isinstance(error, _ENDED_SOMEHOW):
            raise _in_doubt(error) from error
        raise _unavailable("the database refuses for now", error) from error
    except _SET_UP_WRONGLY as error:
        raise Misconfigured(
            f"PostgreSQL refuses: {error}; is the database URL right, and its schema upgraded?"
        ) from error
    except asyncpg.ProtocolViolationError as error:
        if any(part in str(error) for part in _REFUSED_BY_POOL):
            raise Misconfigured(f"the pool before PostgreSQL refuses: {error}; is the database URL right?") from error
        raise _unavailable("the pool before the database refuses for now", error) from error
    except _LOST as error:
        if writes:
            raise _in_doubt(error) from error
        raise _unavailable("the database could not be reached", error) from error
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise _unavailable("no server that takes writes could be reached", error) from error
    except asyncpg.InternalClientError as error:
        if writes and type(error) is not asyncpg.InternalClientError:
            # An answer that the driver cannot read: the statement was sent.
            raise _in_doubt(error) from error
        # The server's farewell lies unread in an idle connection; the driver notices before it sends anything.
        raise _unavailable("the link to the database was cut", error) from error
    except asyncpg.PostgresError as error:
        if error.sqlstate == _NAMESPACE_SHUT:
            raise NamespaceShut from error
        if error.sqlstate == _NAMESPACE_MOVED:
            raise NamespaceMoved(error.detail or "") from error
        if isinstance(error, asyncpg.CheckViolationError) and error.constraint_name is None:
            # No constraint of ours, which have names: a row was on its way when a partition was made for it.
            raise _unavailable("the database refuses for now", error) from error
        if type(error) is asyncpg.DataError:  # of the driver itself: it could not encode a value, and sent nothing
            _log_cause("a value cannot be sent to the database", error)
            raise Invalid("a value is greater or smaller than can be stored: check its numbers and times") from error
        raise Bug(f"PostgreSQL refused a statement of ours: {error}") from error


def cause_of(wrong: Misconfigured) -> str:
    """The fault on the way to the database, without names and addresses: readiness is open to all clients."""
    error = wrong.__cause__
    for kind, cause in _CAUSES:
        if isinstance(error, kind):
            return cause
    return "the pool before the database refuses the database URL" if error is not None else wrong.detail


@contextlib.contextmanager
def _outage() -> Iterator[None]:
    """A fault in the set-up of a store that was open is an outage: an operator changes it back, or on."""
    try:
        yield
    except Misconfigured as wrong:
        log.error("%s", wrong.detail)
        raise StoreUnavailable(f"{cause_of(wrong)}: nothing was written") from wrong


def _in_doubt(error: Exception) -> InDoubt:
    _log_cause("a write is in doubt", error)
    return InDoubt("the link to the database broke during a write: it may or may not have been carried out")


def _unavailable(what: str, error: Exception) -> StoreUnavailable:
    _log_cause(what, error)
    return StoreUnavailable(f"{what}: nothing was written")


def _log_cause(what: str, error: Exception) -> None:
    """The driver's own words name addresses, paths and roles: they are for the log, and not for the caller."""
    log.warning("%s: %s", what, str(error) or type(error).__name__)


def target(dsn: str, *, reads_only: bool = False) -> str | None:
    """The servers of an address that will do: one that takes writes, unless the address says it. After a failover
    each new connection finds the new primary so, among several hosts or behind one name. For who only reads, any, and
    among several a standby."""
    if "target_session_attrs" in parse_qs(urlsplit(dsn).query):
        return None
    return "prefer-standby" if reads_only else "read-write"


def session_name(duty: str) -> str:
    """The name of a duty's session at the server."""
    return f"tickwise {duty}"


class QuietConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg carries no types
    """A pooled connection that is not reset between uses: we leave nothing behind, and a reset costs a round trip."""

    def get_reset_query(self) -> str:
        """Send no reset query."""
        return ""


class Links:
    """All connections of one store.

    Each new one asks first in which epoch the store is (`ports/store/continuity.py`). If that is another one than
    before, what this process remembers of the store may be wrong: it is forgotten, and the caller is told to ask again,
    for it may have used what was remembered.
    """

    def __init__(
        self,
        dsn: str,
        *,
        changed: Callable[[], None],
        reads_only: bool = False,
        pool_connections: int = POOL_CONNECTIONS,
    ) -> None:
        """`changed` forgets what is remembered of the store."""
        self.dsn = dsn
        self._pool_connections = pool_connections
        self.reads_only = reads_only
        self.token = 0
        """The highest fencing token that this process has seen."""
        self._changed = changed
        self._epoch: int | None = None
        self._target = target(dsn, reads_only=reads_only)
        self._settings = READ_SETTINGS if reads_only else {}
        self._dialer = Dialer()
        self._shift: tuple[str, str] | None = None
        self._pool: asyncpg.Pool | None = None
        self._lines: dict[str, Line] = {}
        self._pages = count()

    def line(self, duty: str) -> Line:
        """The connection for a duty. It is made at its first use."""
        if duty not in self._lines:
            self._lines[duty] = Line(self, duty)
        return self._lines[duty]

    def idle_line(self, duty: str) -> Line:
        """A connection for a duty that is held for long: another one for each that is busy."""
        return next(line for number in count(1) if not (line := self.line(f"{duty} {number}")).busy)

    def page_line(self) -> Line:
        """A connection for a page whose plan is kept: an idle one, else each in turn."""
        return self._idle(PAGES, PAGES_AT_ONCE)

    def search_line(self) -> Line:
        """A connection for a search that looks at a bounded number of rows, chosen in the same way."""
        return self._idle(SEARCHES, SEARCHES_AT_ONCE)

    def _idle(self, duty: str, at_once: int) -> Line:
        lines = [self.line(f"{duty} {number}") for number in range(1, at_once + 1)]
        return next((line for line in lines if not line.busy), lines[next(self._pages) % at_once])

    async def connect(self, duty: str) -> asyncpg.Connection:
        """A new hot connection."""
        terms = TERMS.get(duty.partition(" ")[0], HOT)
        with _outage(), translated(writes=False):
            connection = await self._dialer.dial(
                self.dsn,
                timeout=terms.connect_seconds,
                target_session_attrs=self._target,
                command_timeout=terms.command_seconds,
                max_cached_statement_lifetime=0,
                server_settings={**terms.settings, **self._settings, "application_name": session_name(duty)},
            )
            try:
                await self._welcome(connection)
                await self.adjust(connection)
            except BaseException:
                connection.terminate()
                raise
        return connection

    async def _welcome(self, connection: asyncpg.Connection) -> None:
        """Prepare a new connection before its first use."""
        await pack_columns(connection)
        if self.reads_only:
            return
        try:
            epoch = await connection.fetchval(statement("epoch"), self.token, None)
        except (asyncpg.UndefinedFunctionError, asyncpg.InvalidSchemaNameError):
            return  # a schema before there were epochs, or none: `open` says so
        if self.heard_epoch(epoch):
            raise StoreUnavailable("the store was set back or moved since it was last reached: ask again")

    def heard_epoch(self, epoch: int) -> bool:
        """Note the epoch; True if it differs from the one before. Remembered answers are then dropped."""
        before, self._epoch = self._epoch, epoch
        if before is None or before == epoch:
            return False
        log.warning(
            "the store is in epoch %d now, it was in %d: it may have lost its last acknowledged writes", epoch, before
        )
        self._changed()
        return True

    def check(self, *, writes: bool) -> None:
        """Raise `Bug` for a write through what only reads: it would go where nothing may be decided by."""
        if writes and self.reads_only:
            raise Bug("a store that was opened for searches only was asked to write")

    async def adjust(self, connection: asyncpg.Connection) -> None:
        """Set the shift of a session's clock. Without a shift, as in production, no statement is sent."""
        if self._shift is not None:
            await connection.execute(statement("shift"), *self._shift)

    async def open(self) -> None:
        """Make the pool ready; its connections are made when they are needed. Raises `Misconfigured` if sessions at
        this address are shared with others."""
        with translated(writes=False):
            await self._dialer.check(self.dsn, target_session_attrs=self._target)
        self._pool = await asyncpg.create_pool(
            self.dsn,
            connect=self._dialer.dial,
            min_size=0,
            max_size=self._pool_connections,
            timeout=CONNECT_SECONDS,
            target_session_attrs=self._target,
            command_timeout=COMMAND_SECONDS,
            max_cached_statement_lifetime=0,
            max_inactive_connection_lifetime=120.0,
            connection_class=QuietConnection,
            init=self._welcome,
            setup=self.adjust,
            server_settings={**POOL_SETTINGS, **self._settings, "application_name": "tickwise"},
        )

    async def close(self) -> None:
        """Give back every connection."""
        for line in self._lines.values():
            await line.close()
        self._lines.clear()
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                await asyncio.wait_for(pool.close(), CLOSE_SECONDS)
            except TimeoutError:
                pool.terminate()

    async def shift(self, seconds: float, *, start_seconds: float) -> None:
        """Move the clock of every statement from now on to `seconds` from the true time, and what is taken for the
        server's start to `start_seconds` from the true one."""
        self._shift = (str(seconds), str(start_seconds))
        for line in self._lines.values():
            await line.adjust()

    @contextlib.asynccontextmanager
    async def pooled(self, *, writes: bool) -> AsyncIterator[asyncpg.Connection]:
        """A connection for any statement, planned by statistics as usual. One that failed is not used again; and none
        of them, if its server takes no writes any more."""
        pool = self._pool
        if pool is None:
            raise StoreUnavailable("the store is not open")
        self.check(writes=writes)
        with _outage(), translated(writes=False):
            connection = await pool.acquire(timeout=CONNECT_SECONDS)
        try:
            with translated(writes=writes):
                yield connection
        except (InDoubt, StoreUnavailable) as error:
            with contextlib.suppress(asyncpg.InterfaceError):  # a lost one has left the pool by itself
                connection.terminate()
            if isinstance(error.__cause__, asyncpg.ReadOnlySQLTransactionError):
                await pool.expire_connections()
                for duty, at_once in ((PAGES, PAGES_AT_ONCE), (SEARCHES, SEARCHES_AT_ONCE)):
                    for number in range(1, at_once + 1):
                        self.line(f"{duty} {number}").expire()
            raise
        finally:
            # An error while the connection is given back must not replace the result or the first error.
            with contextlib.suppress(*_LOST, asyncpg.PostgresError, asyncpg.InternalClientError):
                await pool.release(connection)


class Line:
    """One hot connection with a duty of its own, used in turn; a lost one is replaced at the next use."""

    def __init__(self, links: Links, duty: str) -> None:
        self._links = links
        self._duty = duty
        self._turn = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    @property
    def busy(self) -> bool:
        """True if a caller uses the connection."""
        return self._turn.locked()

    async def acquire(self) -> asyncpg.Connection:
        """The connection, alone until `release`."""
        await self._turn.acquire()
        try:
            connection = self._connection
            if connection is None or connection.is_closed():
                connection = self._connection = await self._links.connect(self._duty)
        except BaseException:
            self._turn.release()
            raise
        return connection

    def release(self) -> None:
        """Give the connection back. The next user gets a fresh one in place of one that is closed."""
        self._turn.release()

    def expire(self) -> None:
        """Give up the connection: its server is no longer the one to ask. Who uses it now finds it cut."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncIterator[asyncpg.Connection]:
        """The connection, alone; the caller translates errors. After any, the next user gets a fresh one."""
        connection = await self.acquire()
        try:
            yield connection
        except (InDoubt, StoreUnavailable, asyncio.CancelledError):
            connection.terminate()
            raise
        finally:
            self.release()

    @contextlib.asynccontextmanager
    async def use(self, *, writes: bool) -> AsyncIterator[asyncpg.Connection]:
        """The connection, alone. Errors come out translated."""
        self._links.check(writes=writes)
        async with self.hold() as connection:
            with translated(writes=writes):
                yield connection

    async def adjust(self) -> None:
        """Set the shift of the session's clock."""
        async with self._turn:
            if self._connection is not None and not self._connection.is_closed():
                await self._links.adjust(self._connection)

    async def close(self) -> None:
        """Close the connection, politely if the server is there. A caller that still waits for a long answer gets
        none."""
        try:
            await asyncio.wait_for(self._turn.acquire(), CLOSE_SECONDS)
        except TimeoutError:
            if self._connection is not None:
                self._connection.terminate()
            return
        try:
            connection, self._connection = self._connection, None
            if connection is None or connection.is_closed():
                return
            try:
                await connection.close(timeout=2.0)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()
        finally:
            self._turn.release()
