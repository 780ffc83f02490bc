"""The store outlives its connections, and says truly what became of a write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.postgres import PostgresLink, PostgresSharedState, PostgresSignals, postgres_limits
from tickwise.adapters.store.postgres import PostgresStore, check_sessions, upgrade
from tickwise.adapters.store.postgres.connection.link import target, translated
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.ports.limits import Pace
from tickwise.ports.shared_state import Note
from tickwise.ports.signals import Topic
from tickwise.ports.store import Added, FireRequest
from tickwise.testing.contracts.base import taken
from tickwise.testing.factories import Factory, executor

pytestmark = pytest.mark.usefixtures("patient_locks", "patient_beats")

KILL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name LIKE 'tickwise%' AND datname = current_database()
"""
TOLD = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
LAST_WORDS = b"E" + (len(TOLD) + 4).to_bytes(4) + TOLD
"""The error message with which a server ends a session (protocol 3.0, `ErrorResponse`)."""
DUE = FireRequest(horizon_seconds=1.0, limit=10)

NOT_DONE = {
    "53000": "insufficient resources",
    "53100": "no space left on the device",
    "53200": "out of memory",
    "53300": "too many connections",
    "25006": "a read-only transaction",
    "25P03": "idle in a transaction for too long",
    "25P04": "a transaction that took too long",
    "40001": "a serialization failure",
    "40P01": "a deadlock",
    "55000": "a lock that a standby cannot give",
    "55P03": "a lock that was not to be had in time",
    "57014": "cancelled by an operator",
    "57P03": "the server is starting",
    "57P05": "idle for too long",
    "58030": "an error of the disk",
}
MAYBE_DONE = {
    "08003": "the connection is gone",
    "08006": "the connection broke",
    "08007": "nobody knows how the transaction ended",
    "40003": "nobody knows whether the statement ended",
    "57P01": "the server is shutting down",
    "57P02": "the server crashed",
}


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    await upgrade(database_url)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    yield store
    await store.close()


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    connection = await asyncpg.connect(database_url, server_settings={"application_name": "operator"})
    yield connection
    await connection.close()


def said(state: str) -> Exception:
    """What the driver raises when the server answers with this state."""
    error: Exception = asyncpg.PostgresError.new({"S": "ERROR", "C": state, "M": "as in the test"})
    return error


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("state", NOT_DONE, ids=lambda state: NOT_DONE[state].replace(" ", "-"))
def test_a_server_that_refuses_for_now_is_waited_for(state: str, writes: bool) -> None:
    """It is no bug of ours, and nothing was written."""
    with pytest.raises(StoreUnavailable), translated(writes=writes):
        raise said(state)


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("state", MAYBE_DONE, ids=lambda state: MAYBE_DONE[state].replace(" ", "-"))
def test_a_write_that_may_have_been_carried_out_is_in_doubt(state: str, writes: bool) -> None:
    """A read never is."""
    with pytest.raises(InDoubt if writes else StoreUnavailable), translated(writes=writes):
        raise said(state)


def test_a_statement_that_a_new_schema_made_invalid_is_prepared_anew() -> None:
    """The caller repeats it on a fresh connection."""
    with pytest.raises(StoreUnavailable), translated(writes=True):
        raise asyncpg.InvalidCachedStatementError("cached statement plan is invalid")


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("answer", [asyncpg.ProtocolError, asyncpg.OutdatedSchemaCacheError])
def test_a_write_with_an_answer_that_cannot_be_read_is_in_doubt(
    answer: type[asyncpg.InternalClientError], writes: bool
) -> None:
    """The server got the statement, and may have carried it out."""
    with pytest.raises(InDoubt if writes else StoreUnavailable), translated(writes=writes):
        raise answer("as in the test")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://one:5432,two:5432/db", "read-write"),
        ("postgresql://one/db?sslmode=require", "read-write"),
        ("postgresql://one,two/db?target_session_attrs=any", None),
    ],
)
def test_of_several_servers_the_one_that_takes_writes_is_wanted(address: str, expected: str | None) -> None:
    """Unless the address says otherwise itself."""
    assert target(address) == expected


async def test_a_server_without_a_free_place_is_waited_for(
    store: PostgresStore, operator: asyncpg.Connection, database_url: str
) -> None:
    """And used again as soon as there is one."""
    name = await operator.fetchval("SELECT current_database()")
    await operator.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT 0')
    late = PostgresStore(database_url, clock=SystemClock())
    try:
        with pytest.raises(StoreUnavailable):
            await late.open()
    finally:
        await operator.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT -1')
    await late.open()
    assert await late.now() > 0
    await late.close()


async def test_connections_to_a_server_that_takes_no_writes_any_more_are_given_up(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """The write that meets it was not carried out; the next one goes over a new connection."""
    make = Factory(await store.now(), seed="standby")
    pid = "SELECT pg_backend_pid()"
    async with store._links.pooled(writes=False) as one, store._links.pooled(writes=False) as two:
        old = {await one.fetchval(pid), await two.fetchval(pid)}
        for connection in (one, two):
            await connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable):
        await store.jobs.add([make.job(key="first")])
    assert await store.jobs.add([make.job(key="first")]) == [Added.CREATED]
    async with store._links.pooled(writes=False) as one, store._links.pooled(writes=False) as two:
        assert old.isdisjoint({await one.fetchval(pid), await two.fetchval(pid)})


@pytest.mark.parametrize("error", [asyncio.CancelledError, ValueError])
async def test_giving_a_connection_back_changes_nothing_of_how_a_call_ends(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """What was done is answered, and an error stays what it is, although giving back fails."""
    give_back = asyncpg.pool.Pool.release

    async def fails(*given: object, **named: object) -> None:
        await give_back(*given, **named)
        raise asyncpg.InterfaceError("as in the test")

    monkeypatch.setattr(asyncpg.pool.Pool, "release", fails)
    assert await store.keys.count() == 0
    with pytest.raises(error):
        async with store._links.pooled(writes=True):
            raise error


async def test_a_hot_line_to_a_server_that_takes_no_writes_any_more_is_given_up(store: PostgresStore) -> None:
    """So a heartbeat fails once, and then finds the primary."""
    born = await store.executors.join(executor("one", lease_seconds=600.0))
    async with store._links.line("beat").use(writes=False) as connection:
        await connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable):
        await store.executors.beat(born, 600.0)
    assert (await store.executors.beat(born, 600.0)).alive


async def test_a_server_that_takes_no_writes_is_not_connected_to(
    store: PostgresStore, operator: asyncpg.Connection, database_url: str
) -> None:
    """A standby is not mistaken for the primary."""
    name = await operator.fetchval("SELECT current_database()")
    await operator.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    late = PostgresStore(database_url, clock=SystemClock())
    try:
        with pytest.raises(StoreUnavailable):
            await late.open()
    finally:
        await operator.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    await late.open()
    await late.close()


async def test_a_lost_connection_is_replaced(store: PostgresStore, operator: asyncpg.Connection) -> None:
    """Idle ones that were cut cost at most one failed call each."""
    born = await store.executors.join(executor("one", lease_seconds=600.0))
    assert (await store.executors.beat(born, 600.0)).alive
    assert await operator.fetchval(KILL) >= 1

    async def beats() -> bool:
        try:
            return (await store.executors.beat(born, 600.0)).alive
        except (InDoubt, StoreUnavailable):
            return False

    assert await eventually(beats)


async def test_a_write_whose_connection_is_cut_is_in_doubt_and_can_be_repeated(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """The caller sends the same again: twice is once."""
    job = Factory(await store.now(), seed="cut").job()
    await store.jobs.add([Factory(await store.now(), seed="lane").job()])
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("LOCK TABLE tickwise.runs IN EXCLUSIVE MODE")
    adding = asyncio.create_task(store.jobs.add([job]))
    await eventually(lambda: sessions_waiting(operator), what="the write waits for the lock")
    await operator.fetchval(KILL)
    with pytest.raises(InDoubt):
        await adding
    await transaction.rollback()
    assert await eventually(lambda: added(store, job)) in ([Added.CREATED], [Added.REPEATED])
    assert await store.jobs.get("default", job.job_id) is not None


async def added(store: PostgresStore, job: object) -> object:
    """The answer, once the store can be reached again."""
    try:
        return await store.jobs.add([job])  # type: ignore[list-item]  # whatever job the test made
    except (InDoubt, StoreUnavailable):
        return None


async def test_a_read_whose_connection_is_cut_wrote_nothing(store: PostgresStore, operator: asyncpg.Connection) -> None:
    """So there is no doubt about it."""
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("LOCK TABLE tickwise.keys IN ACCESS EXCLUSIVE MODE")
    reading = asyncio.create_task(store.keys.count())
    await eventually(lambda: sessions_waiting(operator), what="the read waits for the lock")
    await operator.fetchval(KILL)
    with pytest.raises(StoreUnavailable):
        await reading
    await transaction.rollback()


async def test_a_scheduler_that_dies_while_it_decides_leaves_its_timers(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """Another one takes them."""
    make = Factory(await store.now(), seed="fires")
    job = make.recurring(make.now)
    await store.jobs.add([job])
    async with taken(store, DUE) as batch:
        assert [timer.job_id for timer in batch.timers] == [job.job_id]
        await operator.fetchval(KILL)
        with pytest.raises((InDoubt, StoreUnavailable)):
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, make.now + 60.0)])

    async def free() -> list[object]:
        try:
            async with taken(store, DUE) as batch:
                return [timer.job_id for timer in batch.timers]
        except StoreUnavailable:
            return []

    assert await eventually(free) == [job.job_id]


async def test_a_ring_is_heard_in_other_processes_and_after_the_link_was_cut(
    database_url: str, operator: asyncpg.Connection
) -> None:
    """Each topic by those who listen for it."""
    here, there = (
        PostgresSignals(PostgresLink(database_url, SystemClock())),
        PostgresSignals(PostgresLink(database_url, SystemClock())),
    )
    runs, cancels, own = there.listen(Topic.RUNS), there.listen(Topic.CANCELS), here.listen(Topic.RUNS)
    for signals in (here, there):
        await signals.start()
    await asyncio.wait_for(cancels.wait(), 60.0)  # a new link wakes everybody once
    for cut in (False, True):
        if cut:
            cancels.clear()  # before the cut: the link may be back before this test goes on
            assert await operator.fetchval(KILL) >= 2
            await asyncio.wait_for(cancels.wait(), 60.0)

        def heard() -> bool:
            here.send(Topic.RUNS)
            return runs.is_set()

        for event in (runs, cancels, own):
            event.clear()
        here.send(Topic.RUNS)
        assert own.is_set()
        assert await eventually(heard)
        assert not cancels.is_set()
    for signals in (here, there):
        await signals.stop()


async def test_a_bell_without_a_server_is_silent_and_harmless() -> None:
    """Its own listeners hear it all the same."""
    signals = PostgresSignals(PostgresLink("postgresql://nobody:secret@127.0.0.1:1/none", SystemClock()))
    await signals.start()
    event = signals.listen(Topic.TIMERS)
    signals.send(Topic.TIMERS)
    assert event.is_set()
    await signals.stop()


async def test_an_idle_session_that_the_server_ends_is_an_outage_and_no_defect(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver has read the server's last message and not yet the end of the stream, and refuses the next statement.
    Notes, the shared count and signals take that for a database that is away; the next call has a new session."""
    await upgrade(database_url)
    link = PostgresLink(database_url, SystemClock())
    shared_state, limits = PostgresSharedState(link), postgres_limits(link)
    notes = [Note("process", "here", {"alive": True})]
    assert await shared_state.put(notes, 30.0)
    _end_session(link)
    assert not await shared_state.put(notes, 30.0)
    assert await eventually(lambda: shared_state.put(notes, 30.0))
    await limits.start()
    assert await limits.hit("somebody", Pace(100.0, 100))
    _end_session(link)
    assert await limits.hit("somebody", Pace(100.0, 100))
    await limits.stop()
    await link.close()
    assert not [record for record in caplog.records if record.exc_info], "an error with a traceback is a defect"


def _end_session(link: PostgresLink) -> None:
    assert link._connection is not None
    link._connection._protocol.data_received(LAST_WORDS)


async def test_a_link_without_a_server_that_takes_writes_is_an_outage_and_no_defect(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An address that names which servers will do finds none of them during a failover."""
    await upgrade(database_url)
    standby_url = f"{database_url}{'&' if '?' in database_url else '?'}target_session_attrs=standby"
    await check_sessions(standby_url)
    link = PostgresLink(standby_url, SystemClock())
    assert not await PostgresSharedState(link).put([Note("process", "here", {"alive": True})], 30.0)
    signals = PostgresSignals(link)
    await signals.start()
    assert await eventually(lambda: any("wake-ups are neither" in record.message for record in caplog.records))
    await signals.stop()
    await link.close()
    assert not [record for record in caplog.records if record.exc_info], "an error with a traceback is a defect"
