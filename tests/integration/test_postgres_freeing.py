"""What a lost executor held is set free although something is wrong with a part of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.lifecycle import RunState
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import Began, Check, ClaimRequest, Violation
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import Factory, executor

pytestmark = pytest.mark.usefixtures("patient_locks")

BAD = 10_000

BREAK = """
CREATE FUNCTION tickwise.refuse_bad() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'nothing is to be done with this row';
END
$$;
CREATE TRIGGER runs_bad BEFORE UPDATE OR DELETE ON tickwise.runs FOR EACH ROW
  WHEN (old.job_id = '00000000-0000-0000-0000-000000000001') EXECUTE FUNCTION tickwise.refuse_bad();
"""
MEND = "DROP TRIGGER runs_bad ON tickwise.runs; DROP FUNCTION tickwise.refuse_bad()"
PLANT = """
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, state, holder, token, attempt)
SELECT now(), now(), now(), lpad(to_hex(n), 32, '0')::uuid, '00000000-0000-0000-0000-000000000001', 1, 'default', 3,
       $1, n, 1
FROM generate_series(1, $2::int) n
"""
DIES = "UPDATE tickwise.executors SET lease = now() - interval '1 second', lease_seconds = 0 WHERE executor = ANY($1)"
HELD = "SELECT count(*) FROM tickwise.runs WHERE holder <> 0"
SLOW = """
CREATE FUNCTION tickwise.look_slowly() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF current_setting('application_name') LIKE 'tickwise%' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;
  RETURN true;
END
$$;
ALTER TABLE tickwise.runs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY slowly ON tickwise.runs USING (tickwise.look_slowly());
"""
QUICK = """
ALTER TABLE tickwise.runs DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
DROP POLICY slowly ON tickwise.runs;
DROP FUNCTION tickwise.look_slowly();
"""
CANCEL = """
INSERT INTO tickwise.cancel_requests (asked, token, holder, run_id, kind, error)
SELECT now(), token, holder, run_id, 'cancel', 'cancelled by ada' FROM tickwise.runs WHERE run_id = $1
"""
CLAIM = "UPDATE tickwise.runs SET holder = $2, token = token + 1 WHERE run_id = $1"


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.execute("DELETE FROM tickwise.runs")
    await connection.close()


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest_asyncio.fixture
async def store(database_url: str, operator: asyncpg.Connection, clock: ShiftedClock) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url, clock=clock)
    await store.open()
    yield store
    await store.close()


async def test_rows_that_cannot_be_freed_hold_up_no_other(
    store: PostgresStore,
    operator: asyncpg.Connection,
    clock: ShiftedClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ten thousand bad ones before one good one: it is free after the first call, they are once they can be."""
    make = Factory(await store.now(), seed="freeing")
    await store.jobs.add([make.job()])
    lost, also_lost = [await store.executors.join(executor(name, lease_seconds=600.0)) for name in ("one", "two")]
    request = ClaimRequest(executor=also_lost, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    [good] = await store.attempts.claim(request)
    assert await store.attempts.start(also_lost, [Began(good.run_id, good.token, good.now)]) == []
    await operator.execute(PLANT, lost, BAD)
    await operator.execute(BREAK)
    await operator.execute(DIES, [lost, also_lost])
    with caplog.at_level(logging.ERROR):
        expired = await store.executors.expire(crashes_max=3)
    assert (sorted(expired.executors), expired.freed) == ([lost, also_lost], 1)
    row = await store.runs.get("default", good.run_id)
    assert row is not None
    assert (row.state, row.crashes, row.executor) == (RunState.QUEUED, 1, None)
    [told] = [record.getMessage() for record in caplog.records if "cannot be freed" in record.getMessage()]
    assert told.startswith(f"{BAD} runs whose executor is gone")
    assert "nothing is to be done with this row" in told
    # They are left alone for a while, and then tried again.
    await operator.execute(MEND)
    assert (await store.executors.expire(crashes_max=3)).freed == 0
    assert await operator.fetchval(HELD) == BAD
    clock.shift(61.0)
    assert (await store.executors.expire(crashes_max=3)).freed == BAD
    assert await operator.fetchval(HELD) == 0
    assert await operator.fetchval("SELECT bool_and(settled) FROM tickwise.executors")


async def test_a_run_that_was_claimed_anew_while_it_was_looked_at_is_not_taken_from_the_active(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """Its next executor was born after the look began, which so knows nothing of it; yet it lives."""
    make = Factory(await store.now(), seed="anew")
    await store.jobs.add([make.job()])
    lost = await store.executors.join(executor("one", lease_seconds=600.0))
    request = ClaimRequest(executor=lost, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    [claimed] = await store.attempts.claim(request)
    await operator.execute("UPDATE tickwise.executors SET gone = now(), settled = true WHERE executor = $1", lost)
    await operator.execute(SLOW)
    await operator.execute("SELECT pg_advisory_lock(1)")
    healing = asyncio.ensure_future(store.checks.heal(Check.HELD_BY_ACTIVE, [Violation(claimed.run_id, "", "default")]))
    await eventually(lambda: sessions_waiting(operator), within_seconds=60)
    born = await operator.fetchval(
        "INSERT INTO tickwise.executors (born, lease, lease_seconds, slots, name, queues, labels, functions) "
        "VALUES (now(), now() + interval '1 hour', 3600, 1, 'two', '{default}', '{}', '{}') RETURNING executor"
    )
    await operator.execute(CLAIM, claimed.run_id, born)
    await operator.execute("SELECT pg_advisory_unlock(1)")
    assert await healing == 1
    await operator.execute(QUICK)
    row = await store.runs.get("default", claimed.run_id)
    assert row is not None
    assert (row.state, row.executor) == (RunState.DISPATCHED, born)


async def test_a_cancel_that_came_while_its_run_was_looked_at_is_carried_out(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """It was told that the run is asked to stop: so the run neither goes on elsewhere nor waits for a person."""
    make = Factory(await store.now(), seed="asked")
    await store.jobs.add([make.job()])
    lost = await store.executors.join(executor(lease_seconds=600.0))
    request = ClaimRequest(executor=lost, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    [claimed] = await store.attempts.claim(request)
    await store.attempts.start(lost, [Began(claimed.run_id, claimed.token, claimed.now, OnUnknown.HOLD)])
    await operator.execute("UPDATE tickwise.executors SET gone = now(), settled = true WHERE executor = $1", lost)
    await operator.execute(SLOW)
    await operator.execute("SELECT pg_advisory_lock(1)")
    healing = asyncio.ensure_future(store.checks.heal(Check.HELD_BY_ACTIVE, [Violation(claimed.run_id, "", "default")]))
    await eventually(lambda: sessions_waiting(operator), within_seconds=60)
    await operator.execute(CANCEL, claimed.run_id)
    await operator.execute("SELECT pg_advisory_unlock(1)")
    await healing
    await operator.execute(QUICK)
    row = await store.runs.get("default", claimed.run_id)
    assert row is not None
    assert RunState.CANCELLED is row.state


async def test_a_run_that_somebody_has_in_hand_is_freed_by_the_next_call(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """Nobody waits for it; its executor stays unsettled until then."""
    make = Factory(await store.now(), seed="in hand")
    await store.jobs.add([make.job(), make.job()])
    lost = await store.executors.join(executor(lease_seconds=600.0))
    request = ClaimRequest(executor=lost, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    first, second = await store.attempts.claim(request)
    await operator.execute(DIES, [lost])
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("SELECT FROM tickwise.runs WHERE run_id = $1 FOR UPDATE", first.run_id)
    assert (await store.executors.expire(crashes_max=3)).freed == 1
    await transaction.rollback()
    assert (await store.executors.expire(crashes_max=3)).freed == 1
    rows = [await store.runs.get("default", claimed.run_id) for claimed in (first, second)]
    assert [RunState.QUEUED] * 2 == [row.state for row in rows if row is not None]
