"""What the PostgreSQL store does when the database itself is at odds with what should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.queue import claim_cursor
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Lane
from tickwise.ports.store import ClaimRequest, NewJob, Retention
from tickwise.testing.factories import Factory, executor, outcome

pytestmark = pytest.mark.usefixtures("patient_locks")

END = """
INSERT INTO tickwise.history (due, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures,
                              crashes, trigger, namespace)
VALUES (now(), now(), now(), 1, 1, $1, $1, 5, 3, 1, 0, 0, 1, 'default')
"""
MAKE = """
WITH timer AS (SELECT FROM tickwise.timers WHERE job_id = $1 FOR UPDATE)
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, spec)
SELECT now(), now(), now(), gen_random_uuid(), job_id, lane, namespace, definition
FROM tickwise.jobs, timer WHERE job_id = $1
"""


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
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def claimed_of(store: PostgresStore, *jobs: NewJob) -> tuple[int, list[Claimed]]:
    """An executor that has claimed the runs of these jobs, in this order."""
    await store.jobs.add(jobs)
    number = await store.executors.join(executor("one", lease_seconds=600.0))
    request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    claims = {claimed.job_id: claimed for claimed in await store.attempts.claim(request)}
    return number, [claims[job.job_id] for job in jobs]


async def test_a_run_that_had_ended_before_holds_up_no_batch(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """It goes and its first record stays; the report of it is refused, and the rest of the batch is recorded."""
    make = Factory(await store.now(), seed="ended")
    number, [lost, fine] = await claimed_of(store, make.job(), make.job())
    await operator.execute(END, lost.run_id)
    refused = await store.attempts.finish(number, [outcome(lost, RunState.FAILED), outcome(fine)])
    assert [lost.run_id] == list(refused)
    rows = [await store.runs.get("default", claimed.run_id) for claimed in (lost, fine)]
    assert [RunState.SUCCESS] * 2 == [row.state for row in rows if row is not None]
    assert 0 == (await store.upkeep.stats()).held


async def test_a_run_that_has_used_up_all_numbers_of_attempts_is_in_nobodys_way(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """A run can be given back without end, and a number has one: it is claimed all the same, with all others."""
    make = Factory(await store.now(), seed="often")
    old, new = make.job(), make.job()
    await store.jobs.add([old, new])
    await operator.execute("UPDATE tickwise.runs SET attempt = 32767 WHERE job_id = $1", old.job_id)
    number = await store.executors.join(executor("one", lease_seconds=600.0))
    request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    claims = {claimed.job_id: claimed.attempt for claimed in await store.attempts.claim(request)}
    assert {old.job_id: 32767, new.job_id: 1} == claims


async def test_a_run_whose_job_is_gone_is_handed_over_without_a_definition(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """So that it ends on record as unreadable; the claim of the others does not fail after its commit."""
    make = Factory(await store.now(), seed="gone")
    large = '{"text":"' + "x" * 10_000 + '"}'
    orphan, whole = make.job(definition=large), make.job(definition=large)
    await store.jobs.add([orphan, whole])
    await operator.execute("DELETE FROM tickwise.jobs WHERE job_id = $1", orphan.job_id)
    number = await store.executors.join(executor("one", lease_seconds=600.0))
    request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    specs = {claimed.job_id: claimed.spec for claimed in await store.attempts.claim(request)}
    assert {orphan.job_id: "", whole.job_id: large} == specs


async def test_a_claim_of_lanes_that_cannot_be_looked_up_is_handed_over_all_the_same(
    store: PostgresStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is committed: its runs are taken, whatever their order."""
    make = Factory(await store.now(), seed="lanes")
    await store.jobs.add([make.job(lane=Lane("default", priority)) for priority in (1, 9)])
    other = PostgresStore(database_url, clock=SystemClock())
    await other.open()
    number = await other.executors.join(executor("one", lease_seconds=600.0))

    async def away(number: int) -> Lane:
        raise StoreUnavailable("the database could not be reached: nothing was written")

    monkeypatch.setattr(other._shared.lanes, "place", away)
    request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    assert 2 == len(await other.attempts.claim(request))
    await other.close()


async def test_a_run_that_is_added_while_a_claim_is_under_way_is_in_the_next_one(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late the answer of the claim comes: it says nothing of what was added after its begin. No sweep is needed
    to find the run."""
    monkeypatch.setattr(claim_cursor, "SWEEP_SECONDS", 3_600.0)
    make = Factory(await store.now(), seed="late")
    number, _ = await claimed_of(store, make.job())  # by which the store's clock is heard
    request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=10, ahead_seconds=0.0)
    fetch = asyncpg.Connection.fetch
    added: list[NewJob] = []

    async def late(self: asyncpg.Connection, query: str, *args: object) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await fetch(self, query, *args)
        if query == statement("claim") and not added:
            begun = await store.now()
            added.append(Factory(begun, seed="added").job())
            await store.jobs.add(added)

            async def lag_is_over() -> bool:
                return await store.now() > begun + 3 * claim_cursor.LAG_SECONDS

            await eventually(lag_is_over)
        return rows

    monkeypatch.setattr(asyncpg.Connection, "fetch", late)
    assert [] == await store.attempts.claim(request)
    assert [job.job_id for job in added] == [claimed.job_id for claimed in await store.attempts.claim(request)]


async def test_an_edit_waits_for_the_run_that_a_scheduler_is_just_making(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """That run was made from the old definition; the edit must find it, and not pass it by."""
    make = Factory(await store.now(), seed="edits")
    job = make.recurring(make.now, definition='{"n":1}')
    await store.jobs.add([job])
    row = await store.jobs.get("default", job.job_id)
    assert row is not None
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(MAKE, job.job_id)
    edit = asyncio.create_task(store.jobs.change(make.change(row, definition='{"n":2}')))

    async def blocked_or_done() -> bool:
        return edit.done() or bool(await sessions_waiting(operator))

    await eventually(blocked_or_done)
    await transaction.commit()
    await edit
    assert '{"n":2}' == await operator.fetchval("SELECT spec FROM tickwise.runs WHERE job_id = $1", job.job_id)


async def test_a_heartbeat_that_hangs_fails_long_before_its_lease(
    store: PostgresStore, operator: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """In time for another try; and what is said of it names no address, no table and no driver."""
    number = await store.executors.join(executor("one", lease_seconds=60.0))
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("SELECT FROM tickwise.executors FOR UPDATE")
    beating = asyncio.create_task(store.executors.beat(number, 60.0))
    with pytest.raises(InDoubt) as told:
        # Half a lease. Any other statement would wait for its answer or for the lock for a whole one.
        await asyncio.wait_for(beating, 30.0)
    assert "the link to the database broke during a write: it may or may not have been carried out" == told.value.detail
    assert "TimeoutError" in caplog.text
    await transaction.rollback()
    assert (await store.executors.beat(number, 60.0)).alive


async def test_a_step_of_the_upkeep_that_cannot_be_done_stops_no_other(
    store: PostgresStore, operator: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits for the next round."""
    retention = Retention(runs_seconds=30 * 86_400.0, failed_seconds=90 * 86_400.0)
    made = list((await store.upkeep.maintain(retention)).made)
    assert [4, 4] == [sum(name.startswith(kind) for name in made) for kind in ("history_", "jobs_")]
    await store.receipts.keep(Factory(await store.now(), seed="upkeep").receipt(keep_seconds=0.0))
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("LOCK TABLE tickwise.attempts IN ACCESS EXCLUSIVE MODE")
    assert 1 == (await store.upkeep.maintain(retention)).receipts
    assert "attempts_trim" in caplog.text
    await transaction.rollback()


async def test_what_is_said_of_a_server_that_is_away_names_no_address() -> None:
    """Strangers read it; the log has the rest."""
    store = PostgresStore("postgresql://somebody:secret@127.0.0.1:1/nothing", clock=SystemClock())
    with pytest.raises(StoreUnavailable) as told:
        await store.now()
    assert "the database could not be reached: nothing was written" == told.value.detail
