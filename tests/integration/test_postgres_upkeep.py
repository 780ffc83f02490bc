"""What belongs to runs that are no longer on record goes with them, and nothing else does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import PostgresStore, upgrade, upkeep
from tickwise.adapters.store.postgres.upkeep import Partition
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import (
    Began,
    ClaimRequest,
    Gate,
    LetterStatus,
    OperationStep,
    Retention,
    RunCancel,
    Settlement,
)
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import Factory, executor, outcome

pytestmark = pytest.mark.usefixtures("patient_locks")

DAY_SECONDS = 86_400.0
UPKEEP_WAITS_SECONDS = 3.0
"""Upkeep tries to have a table for longer than that."""
KEEP = Retention(runs_seconds=DAY_SECONDS, failed_seconds=10 * DAY_SECONDS)
COUNTS = """
SELECT (SELECT count(*) FROM tickwise.letters) AS letters, (SELECT count(*) FROM tickwise.limits) AS limits,
       (SELECT count(*) FROM tickwise.rates) AS rates, (SELECT count(*) FROM tickwise.operations) AS operations
"""


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def store(database_url: str, operator: asyncpg.Connection) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url, clock=ShiftedClock())
    await store.open()
    yield store
    await store.close()


async def counted(operator: asyncpg.Connection) -> dict[str, int]:
    return dict(await operator.fetchrow(COUNTS))


async def test_settlements_operations_and_keys_go_with_what_they_belong_to(
    store: PostgresStore, operator: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """A key once nothing has it, an operation with the runs of its time, a settlement with its failed run; and each
    step of the upkeep can be carried out."""
    make = Factory(await store.now(), seed="upkeep")
    await store.jobs.add([make.job()])
    born = await store.executors.join(executor(lease_seconds=100 * DAY_SECONDS))
    request = ClaimRequest(executor=born, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    [claimed] = await store.attempts.claim(request)
    gate = Gate("job:x", 1, "job:x", 1.0)
    assert await store.attempts.start(born, [Began(claimed.run_id, claimed.token, claimed.now, gate=gate)]) == []
    with caplog.at_level(logging.WARNING):
        await store.upkeep.maintain(KEEP)
    assert await counted(operator) == {"letters": 0, "limits": 1, "rates": 1, "operations": 0}
    assert await store.attempts.finish(born, [outcome(claimed, RunState.FAILED)]) == []
    await store.letters.settle("default", [Settlement(claimed.run_id, LetterStatus.DISCARDED)], by="ada")
    operation = make.operation()
    await store.operations.add(operation)
    step = OperationStep(
        operation_id=operation.operation_id, expected_step=0, cursor=None, done=1, refused=0, problems="[]"
    )
    assert await store.operations.step(step)
    with caplog.at_level(logging.WARNING):
        await store.upkeep.maintain(KEEP)
    assert await counted(operator) == {"letters": 1, "limits": 0, "rates": 1, "operations": 1}
    await store.shift(2 * DAY_SECONDS)
    with caplog.at_level(logging.WARNING):
        await store.upkeep.maintain(KEEP)
    assert await counted(operator) == {"letters": 1, "limits": 0, "rates": 1, "operations": 0}
    await store.shift(500 * DAY_SECONDS)
    with caplog.at_level(logging.WARNING):
        await store.upkeep.maintain(KEEP)
    assert await counted(operator) == {"letters": 0, "limits": 0, "rates": 0, "operations": 0}
    steps = [message for message in caplog.messages if "step" in message]
    assert steps == []


async def test_one_time_jobs_are_looked_at_a_few_in_each_transaction(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that stay come again and again: a long statement over all of them would keep the dead rows of all tables.
    Those between them that are over go."""
    monkeypatch.setattr(upkeep, "LOOKED_A_STEP", 2)
    make = Factory(await store.now(), seed="steps")
    born = await store.executors.join(executor(lease_seconds=100 * DAY_SECONDS))
    jobs = [
        make.job(key=f"over {number}") if number in (4, 8, 9) else make.job(make.now + 900 * DAY_SECONDS)
        for number in range(10)
    ]
    await store.jobs.add(jobs)
    claims = await store.attempts.claim(
        ClaimRequest(executor=born, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    )
    assert await store.attempts.finish(born, [outcome(claim) for claim in claims]) == []
    await store.shift(40 * DAY_SECONDS)
    await store.upkeep.maintain(KEEP)
    there = [number for number, job in enumerate(jobs) if await store.jobs.get("default", job.job_id) is not None]
    assert there == [0, 1, 2, 3, 5, 6, 7]


@pytest.mark.parametrize("kind", ["jobs", "history"])
async def test_what_moves_into_a_new_partition_is_there_for_who_looks_meanwhile(
    store: PostgresStore, operator: asyncpg.Connection, kind: str
) -> None:
    """Who asks for a job or a run in the moment in which its partition is made gets it, and not that there is none."""
    make = Factory(await store.now(), seed="meanwhile")
    job = make.job()
    await store.jobs.add([job])
    assert job.run_id is not None
    await store.runs.move(RunCancel("default", job.run_id, "ada"))
    day = int((await store.now()) // DAY_SECONDS)
    partition = Partition(f"{kind}_of_today", kind, day)
    parent = "jobs_passing" if kind == "jobs" else "history"
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("SELECT tickwise.partition_make($1, $2, $3, $4)", parent, partition.name, *partition.bounds)
    looks = store.jobs.get("default", job.job_id) if kind == "jobs" else store.runs.get("default", job.run_id)
    look = asyncio.create_task(looks)
    await eventually(lambda: sessions_waiting(operator), what="somebody who looks and has to wait")
    await transaction.commit()
    assert await look is not None


async def test_what_comes_in_while_its_partition_waits_for_its_place_moves_too(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """A row that is committed between the look and the lock is not left out, and its partition is made at once."""
    await store.upkeep.maintain(KEEP)
    today = f"jobs_{await _today(operator)}"
    await operator.execute(f"DROP TABLE IF EXISTS tickwise.jobs_of_today, tickwise.{today}")
    await operator.execute("DELETE FROM tickwise.jobs")
    job = Factory(await store.now(), seed="late").job()
    await store.jobs.add([job])
    await operator.execute("CREATE TEMP TABLE late AS SELECT * FROM tickwise.jobs")
    await operator.execute("DELETE FROM tickwise.jobs")
    for _ in range(5):
        transaction = operator.transaction()
        await transaction.start()
        await operator.execute("INSERT INTO tickwise.jobs SELECT * FROM late")
        began = time.monotonic()
        upkeep = asyncio.create_task(store.upkeep.maintain(KEEP))
        await eventually(lambda: sessions_waiting(operator), what="upkeep that has to wait")
        await transaction.commit()
        held_seconds = time.monotonic() - began
        made = (await upkeep).made
        if today in made or held_seconds < UPKEEP_WAITS_SECONDS:
            break
        await operator.execute("DELETE FROM tickwise.jobs")  # the machine stood still: once more
    assert today in made
    lies_in = await operator.fetchval(
        "SELECT relname FROM pg_class WHERE oid = (SELECT tableoid FROM tickwise.jobs WHERE job_id = $1)", job.job_id
    )
    assert lies_in == today


async def _today(operator: asyncpg.Connection) -> str:
    return str(await operator.fetchval("SELECT to_char(tickwise.now() AT TIME ZONE 'UTC', 'YYYYMMDD')"))


@pytest.mark.parametrize("reads", ["the whole past", "what is past its time"])
async def test_who_reads_for_long_keeps_the_upkeep_out_and_nobody_else(
    store: PostgresStore, operator: asyncpg.Connection, database_url: str, reads: str
) -> None:
    """While a transaction that has read history stays open, jobs are handed in, run and end as always, whatever the
    upkeep tries; and the upkeep does what it could not do once the reader has ended."""
    make = Factory(await store.now(), seed=f"reader of {reads}")
    day = int((await store.now()) // DAY_SECONDS) - 40
    old = Partition(f"history_{datetime.fromtimestamp(day * DAY_SECONDS, UTC):%Y%m%d}", "history", day)
    await operator.execute("SELECT tickwise.partition_make('history', $1, $2, $3)", old.name, *old.bounds)
    born = await store.executors.join(executor(lease_seconds=100 * DAY_SECONDS))
    request = ClaimRequest(executor=born, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    impatient = await asyncpg.connect(database_url, server_settings={"lock_timeout": "2s"})
    await store.upkeep.maintain(
        replace(KEEP, runs_seconds=50 * DAY_SECONDS)
    )  # what is to be made is made; the old one stays
    async with asyncio.timeout(110), operator.transaction():
        await operator.fetch(f"SELECT FROM tickwise.{'history' if reads == 'the whole past' else old.name} LIMIT 1")
        upkeep = asyncio.create_task(store.upkeep.maintain(KEEP))
        ended = 0
        while not upkeep.done() or ended == 0:
            # Twenty times as long as the upkeep lets anybody wait.
            await impatient.fetch("SELECT FROM tickwise.history LIMIT 1")
            await store.jobs.add([make.job()])
            for claimed in await store.attempts.claim(request):
                assert await store.attempts.finish(born, [outcome(claimed)]) == []
                ended += 1
        assert old.name not in (await upkeep).dropped
    await impatient.close()
    assert old.name in (await store.upkeep.maintain(KEEP)).dropped
