"""One session of the driver, bridged to asyncio: statements by name, errors of our own.

    coroutine ── ask ──► driver's thread ──► node
        ▲                     │ many answers
        └── one wake-up ◄─────┘

The driver answers in a thread of its own. Answers that arrive while the event loop is busy wait in a list, and one
wake-up hands them all over. Invariant: the driver repeats nothing by itself that could be applied twice; whether a
statement may be repeated is for the caller to say.

The driver resolves the names of the address once, and then knows the nodes by their addresses. Where all of them have
got other ones (a single node in a container that started again), it looks for ever in vain: once no node has been there
for `LOST_SECONDS`, a second session is begun by the names, and takes the place of the first one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import cassandra as driver
import structlog
from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, ResultSet
from cassandra.connection import ConnectionBusy, ConnectionException
from cassandra.policies import ConstantSpeculativeExecutionPolicy, FallthroughRetryPolicy
from cassandra.query import UNSET_VALUE, BatchStatement, SimpleStatement, tuple_factory

from tickwise.adapters.statements import Statements
from tickwise.adapters.store.cassandra.address import CassandraAddress
from tickwise.adapters.store.cassandra.hosts import ReplicasFirst
from tickwise.domain.errors import Bug, CassandraAway, InDoubt, Misconfigured, StoreUnavailable, TickwiseError
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock

ANSWER_SECONDS: Final = 2.0
"""The longest time that one try waits for its answer; a node that is well takes 1 to 10 ms."""
BUSY_PAUSE_SECONDS: Final = 0.05
"""Before a statement is tried again that the driver did not send, since a node reads more slowly than we write."""
CONNECT_SECONDS: Final = 5.0
SPECULATE_SECONDS: Final = 0.3
"""A statement that may be sent twice goes to a second node after this long without an answer."""
HEARTBEAT_SECONDS: Final = 5
"""As shipped 30: a node that is frozen would be taken for well that long."""
NODELAY: Final = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
"""The driver sends a request in pieces of 4 KiB; without this the kernel holds the last piece back for 40 ms."""
PROTOCOL: Final = 5
"""Of Cassandra 4.0 and later."""
LOST_SECONDS: Final = 5.0
"""For so long no node is there before the names of the address are resolved again, and again after as long."""
BACK_MAX_SECONDS: Final = 2.0
"""The longest pause between two tries to reach a node that was down; as shipped it grows to 10 minutes."""

statement: Final = Statements(Path(__file__).parent, suffix=".cql")
SERIAL: Final = frozenset({"shard_read"})
"""Reads that settle conditional updates which are under way."""
CONDITIONAL: Final = frozenset(
    {
        "shard_make",
        "shard_seize",
        "shard_force",
        "shard_append",
        "shard_renew",
        "shard_release",
        "shard_checkpoint",
        "shard_drop",
        "meta_make",
        "generation_make",
        "generation_raise",
    }
)
"""Updates under a condition: a late answer leaves open whether they were applied. All others may be sent twice."""
ROWS_A_PAGE: Final = 64
"""A row has at most one piece of a body, 512 KiB: a page has at most 32 MiB."""

UNSET: Final = UNSET_VALUE
"""In place of a value: the column stays as it is."""

Rows = Sequence[tuple[Any, ...]]

logger = structlog.get_logger("tickwise.store")


class _Answers:
    """Hands answers of the driver's thread to the event loop, many by one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._arrived: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []

    def arrive(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        """Called in the driver's thread."""
        with self._lock:
            self._arrived.append((future, value, error))
            is_first = len(self._arrived) == 1
        if is_first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, []
        for future, value, error in arrived:
            if future.done():
                continue  # nobody waits for it any more
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


class CassandraLink:
    """A session with a cluster. `open` before use; every method may raise `StoreUnavailable` or `Misconfigured`, and
    `InDoubt` where a conditional update was sent and its answer did not come."""

    def __init__(self, address: CassandraAddress, clock: Clock, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.address = address
        self.clock = clock
        self._answer_seconds = answer_seconds
        self._hosts = ReplicasFirst(clock, address.datacenter)
        self._cluster: Any = None
        self._session: Any = None
        self._answers: _Answers | None = None
        self._prepared: dict[str, Any] = {}
        self._lost_since: float | None = None
        """The time of the first of the latest statements that found no node; None: the latest one found one."""
        self._connecting: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ its life

    async def open(self) -> None:
        """Connect to one node, learn of the others, and use the keyspace if it is there."""
        logging.getLogger("cassandra").setLevel(logging.CRITICAL)  # its errors are ours to report, once
        context = self.address.ssl_context()
        self._answers = _Answers(asyncio.get_running_loop())
        try:
            self._cluster, self._session = await asyncio.to_thread(self._connect, context, self._hosts)
        except Exception as failure:  # noqa: BLE001  # the driver's errors have no common base
            _translated(failure, conditional=False)

    def _connect(self, context: Any, hosts: ReplicasFirst) -> tuple[Any, Any]:
        from cassandra.policies import ExponentialReconnectionPolicy

        profile = ExecutionProfile(
            load_balancing_policy=hosts,
            retry_policy=FallthroughRetryPolicy(),
            consistency_level=ConsistencyLevel.LOCAL_QUORUM,
            # Of all replicas, not of one data centre's: two keepers in two data centres cannot both win.
            serial_consistency_level=ConsistencyLevel.SERIAL,
            request_timeout=self._answer_seconds,
            row_factory=tuple_factory,
            speculative_execution_policy=ConstantSpeculativeExecutionPolicy(SPECULATE_SECONDS, 2),
        )
        address = self.address
        login = PlainTextAuthProvider(address.user, address.password) if address.user else None
        cluster = Cluster(
            contact_points=list(address.hosts),
            port=address.hosts[0][1],
            protocol_version=PROTOCOL,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            auth_provider=login,
            ssl_context=context,
            sockopts=NODELAY,
            connect_timeout=CONNECT_SECONDS,
            control_connection_timeout=CONNECT_SECONDS,
            idle_heartbeat_interval=HEARTBEAT_SECONDS,
            idle_heartbeat_timeout=HEARTBEAT_SECONDS,
            reconnection_policy=ExponentialReconnectionPolicy(0.2, BACK_MAX_SECONDS, max_attempts=None),
            application_name="tickwise",
        )
        try:
            session = cluster.connect()
            if address.keyspace in cluster.metadata.keyspaces:
                session.set_keyspace(address.keyspace)
        except BaseException:
            cluster.shutdown()
            raise
        return cluster, session

    async def close(self) -> None:
        """End its connections and threads."""
        cluster, self._cluster, self._session = self._cluster, None, None
        self._prepared.clear()
        if self._connecting is not None:
            await end_tasks([self._connecting])
        if cluster is not None:
            await asyncio.to_thread(cluster.shutdown)

    @property
    def looks_again(self) -> bool:
        """True while it resolves the names of its address anew, because no node is there."""
        return self._connecting is not None and not self._connecting.done()

    def _note_lost(self) -> None:
        """A statement found no node."""
        now = self.clock.monotonic()
        if self._lost_since is None:
            self._lost_since = now
        if now - self._lost_since < LOST_SECONDS or self._cluster is None:
            return
        if not self.looks_again:
            self._lost_since = now
            self._connecting = asyncio.create_task(self._connect_again())

    async def _connect_again(self) -> None:
        """Begin a session by the names of the address, in place of the one that has no node."""
        hosts = ReplicasFirst(self.clock, self.datacenter)  # the same one
        begun = asyncio.ensure_future(asyncio.to_thread(self._connect, self.address.ssl_context(), hosts))
        try:
            cluster, session = await asyncio.shield(begun)
        except asyncio.CancelledError:
            begun.add_done_callback(_shut_down)
            raise
        except Exception as failure:  # noqa: BLE001  # the driver's errors have no common base
            logger.info("cassandra_not_found", detail=_short(failure))
            return
        former, self._cluster, self._session, self._hosts = self._cluster, cluster, session, hosts
        # Statements belong to a session.
        self._prepared = {}
        self._lost_since = None
        logger.info("cassandra_found_again", nodes=[str(host.endpoint) for host in self.hosts()])
        await asyncio.to_thread(former.shutdown)

    # ------------------------------------------------------------------ the cluster

    @property
    def datacenter(self) -> str:
        """The one whose nodes are asked."""
        return str(self._hosts._child_policy.local_dc)  # noqa: SLF001  # the policy offers no other way

    def hosts(self) -> list[Any]:
        """The nodes of this data centre, in a fixed order, also those that are down."""
        known = [host for host in self._cluster.metadata.all_hosts() if host.datacenter == self.datacenter]
        return sorted(known, key=lambda host: (str(host.address), host.endpoint.port))

    def has_table(self, name: str) -> bool:
        """Look whether the keyspace of the address has that table."""
        keyspace = self._cluster.metadata.keyspaces.get(self.address.keyspace)
        return keyspace is not None and name in keyspace.tables

    async def use_keyspace(self) -> None:
        """Use the keyspace of the address, which was not there when the link was opened."""
        try:
            await asyncio.to_thread(self._open_session().set_keyspace, self.address.keyspace)
        except Exception as failure:  # noqa: BLE001  # the driver's errors have no common base
            _translated(failure, conditional=False)

    # ------------------------------------------------------------------ statements

    async def ask(self, name: str, *values: Any) -> Rows:
        """The rows of the answer to a statement of a `.cql` file of this package; of a conditional one the first value
        is whether it was applied."""
        rows, _ = await self._ask_prepared(name, values, None)
        return rows

    async def page(
        self, name: str, *values: Any, after: bytes | None = None, most: int = ROWS_A_PAGE
    ) -> tuple[Rows, bytes | None]:
        """The rows of one page, `most` of them, and where the next one begins; None: there is none."""
        return await self._ask_prepared(name, values, after, most)

    async def prepared(self, name: str, text: str | None = None) -> Any:
        """The driver's statement of that name. `text`: of one that stands in no file, and may be sent twice."""
        return self._prepared.get(name) or await self._prepare(name, text)

    async def send(self, batch: BatchStatement) -> None:
        """Carry out writes that may be repeated."""
        await self._send(batch, None, None, conditional=False)

    async def run(self, text: str, *, host: Any = None) -> Rows:
        """A statement that is not prepared: of the schema, or of one node alone."""
        rows, _ = await self._send(SimpleStatement(text, fetch_size=None), (), None, conditional=False, host=host)
        return rows

    async def _ask_prepared(
        self, name: str, values: Sequence[Any], after: bytes | None, most: int = ROWS_A_PAGE
    ) -> tuple[Rows, bytes | None]:
        prepared = self._prepared.get(name) or await self._prepare(name)
        bound = prepared.bind(values)
        bound.fetch_size = most
        return await self._send(bound, None, after, conditional=name in CONDITIONAL)

    async def _prepare(self, name: str, text: str | None = None) -> Any:
        session = self._open_session()
        try:
            prepared = await asyncio.to_thread(session.prepare, text or statement(name))
        except Exception as failure:  # noqa: BLE001  # the driver's errors have no common base
            if isinstance(failure, NoHostAvailable):
                self._note_lost()
            _translated(failure, conditional=False)
        if session is not self._session:
            return await self._prepare(name, text)
        prepared.is_idempotent = name not in CONDITIONAL
        if name in SERIAL:
            prepared.consistency_level = ConsistencyLevel.SERIAL
        self._prepared[name] = prepared
        return prepared

    async def _send(
        self, bound: Any, values: Any, after: bytes | None, *, conditional: bool, host: Any = None
    ) -> tuple[Rows, bytes | None]:
        """The answer. What was not sent, since the connections to all nodes are full, is tried again for as long as an
        answer may take: a large checkpoint fills them for a moment."""
        until = self.clock.monotonic() + self._answer_seconds
        while True:
            try:
                return await self._answer(bound, values, after, host)
            except asyncio.CancelledError:
                raise
            except Exception as failure:  # noqa: BLE001  # the driver's errors have no common base
                if _is_unsent(failure) and self.clock.monotonic() < until:
                    await self.clock.sleep(BUSY_PAUSE_SECONDS)
                    continue
                slow = getattr(failure, "last_host", None)
                if slow is not None:
                    self._hosts.avoid(slow)
                if isinstance(failure, NoHostAvailable):
                    self._note_lost()
                _translated(failure, conditional=conditional and not _is_unsent(failure))

    async def _answer(self, bound: Any, values: Any, after: bytes | None, host: Any) -> tuple[Rows, bytes | None]:
        session, answers = self._open_session(), self._answers
        assert answers is not None
        future: asyncio.Future[tuple[Rows, bytes | None]] = asyncio.get_running_loop().create_future()
        asked = session.execute_async(bound, values, paging_state=after, host=host)
        asked.add_callbacks(
            lambda rows: answers.arrive(future, (rows or (), ResultSet(asked, rows).paging_state), None),
            lambda error: answers.arrive(future, None, error),
        )
        answer = await future
        self._lost_since = None
        _let_go(asked)
        return answer

    def _open_session(self) -> Any:
        if self._session is None:
            raise StoreUnavailable("the link to Cassandra is closed")
        return self._session


def _let_go(asked: Any) -> None:
    """Break the circles of a request that is answered: its callbacks and its timer point back at it. Else each batch of
    rows stays in memory until the next search for circles, which takes the event loop tens of milliseconds."""
    asked.clear_callbacks()
    asked._timer = None  # noqa: SLF001  # it is cancelled, and its owner drops it when its time has come


def _shut_down(begun: asyncio.Future[tuple[Any, Any]]) -> None:
    """End a session that came after its link was closed."""
    if not begun.cancelled() and begun.exception() is None:
        threading.Thread(target=begun.result()[0].shutdown).start()


def _is_unsent(failure: Exception) -> bool:
    """Check whether no node was sent anything, since the connections to all that were tried are full."""
    if not isinstance(failure, NoHostAvailable):
        return False
    causes = dict(failure.errors).values()
    return bool(causes) and all(isinstance(each, ConnectionBusy) for each in causes)


def _translated(failure: Exception, *, conditional: bool) -> NoReturn:
    """Raise our error in place of the driver's. `conditional`: a statement was sent that must not be applied twice."""
    error = _ours(failure, conditional=conditional)
    raise error from failure


def _ours(failure: Exception, *, conditional: bool) -> TickwiseError:
    said = _short(failure)
    if isinstance(failure, NoHostAvailable):
        refused = [each for each in dict(failure.errors).values() if isinstance(each, driver.AuthenticationFailed)]
        if refused:
            return Misconfigured(f"Cassandra refuses this user: {_short(refused[0])}; check database_url")
    if isinstance(failure, driver.AuthenticationFailed | driver.Unauthorized):
        return Misconfigured(f"Cassandra refuses this user: {said}; check its password and its rights")
    if isinstance(failure, driver.InvalidRequest):
        if "does not exist" in said or "unconfigured table" in said or "No keyspace" in said:
            return Misconfigured("the keyspace or a table of it is missing; run `tickwise db upgrade`")
        return Bug(f"Cassandra does not take a statement: {said}")
    if isinstance(failure, driver.RequestValidationException):
        return Misconfigured(f"Cassandra refuses: {said}")
    if isinstance(failure, driver.UnresolvableContactPoints):
        return CassandraAway("no host of database_url can be resolved: check the names of its hosts, and the DNS")
    if conditional and not isinstance(failure, driver.Unavailable):
        return InDoubt(f"Cassandra did not say whether it applied an update: {said}")
    known = (driver.DriverException, NoHostAvailable, ConnectionException, OSError, TimeoutError)
    if isinstance(failure, known) or type(failure).__module__.startswith("cassandra"):
        return CassandraAway(f"Cassandra does not answer: {said}")
    return Bug(f"the link to Cassandra: {said}")


def _short(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"[:300]


async def opened_link(
    address: CassandraAddress, clock: Clock, *, answer_seconds: float = ANSWER_SECONDS
) -> CassandraLink:
    """A link that is open."""
    link = CassandraLink(address, clock, answer_seconds=answer_seconds)
    await link.open()
    return link
