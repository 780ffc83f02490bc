"""A namespace is closed at the very moment at which something is added to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.identity.namespaces import NamespaceState, NewNamespace
from tickwise.ports.store import Added
from tickwise.testing.factories import Factory

pytestmark = pytest.mark.usefixtures("patient_locks")

SAME_ID = (
    "INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type, "
    "task_kind, created_by, definition) VALUES (now(), now(), $1, 1, $2, false, 'default', '', '', '', '', '')"
)
"""As long as it is not known whether this is committed, another job of the id waits at its write."""


MANY_JOBS = """
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition)
SELECT now(), now(), gen_random_uuid(), 1, n % 2 = 0, true, CASE WHEN n % 101 = 0 THEN 'team-a' ELSE 'b' || n % 50 END,
       '', '', '', '', ''
FROM generate_series(1, 50000) n;
INSERT INTO tickwise.timers (due, job_id) SELECT now(), job_id FROM tickwise.jobs WHERE lasting
ON CONFLICT DO NOTHING;
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace)
SELECT now(), now(), now(), gen_random_uuid(), job_id, 1, namespace FROM tickwise.jobs WHERE NOT lasting
"""


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def test_a_close_waits_for_the_submit_that_found_the_namespace_open(
    database_url: str, operator: asyncpg.Connection
) -> None:
    """Held up between its look and its write, it is stored before the answer of `closing`; the next one is refused."""
    store, other = (PostgresStore(database_url, clock=SystemClock()) for _ in range(2))
    await store.open()
    await other.open()
    try:
        make = Factory(await store.now())
        namespace = await store.namespaces.add(NewNamespace(name="team-a", display_name="A", created_by="ada"))
        for job in (make.recurring(make.now + 3600.0, namespace="team-a"), make.job(namespace="team-a", key="k")):
            transaction = operator.transaction()
            await transaction.start()
            await operator.execute(SAME_ID, job.job_id, job.key is not None or job.recurring)
            submit = asyncio.create_task(store.jobs.add([job]))
            await eventually(partial(is_waiting, operator, 1), within_seconds=30, what="the submit waits")
            close = asyncio.create_task(other.namespaces.change(replace(namespace, state=NamespaceState.CLOSING)))
            await eventually(partial(is_waiting, operator, 2), within_seconds=30, what="the close waits for it")
            await transaction.rollback()
            assert await submit == [Added.CREATED]
            namespace = await close
            late = job._replace(job_id=make.identifier(), key="l")
            assert await store.jobs.add([late]) == [Added.CLOSING]
            namespace = await other.namespaces.change(replace(namespace, state=NamespaceState.ACTIVE))
    finally:
        await store.close()
        await other.close()


async def test_the_jobs_of_a_namespace_that_go_on_are_found_by_its_index(operator: asyncpg.Connection) -> None:
    """Among many of others, which are not read; nor are timers and runs, but of the jobs that were found."""
    await operator.execute(MANY_JOBS, timeout=60)
    await operator.execute("ANALYZE tickwise.jobs, tickwise.timers, tickwise.runs", timeout=60)
    for generic in ("force_custom_plan", "force_generic_plan"):
        await operator.execute(f"SET plan_cache_mode = {generic}")
        await operator.execute(f"PREPARE going AS {statement('removal_jobs_going')}")
        [row] = await operator.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE going ('team-a', '{UUID(int=0)}', 200)")
        await operator.execute("DEALLOCATE going")
        plan = row[0]
        assert "namespace_job_id_idx" in plan, plan
        assert '"Seq Scan"' not in plan, plan


async def is_waiting(operator: asyncpg.Connection, sessions: int) -> bool:
    """Check whether so many sessions wait for a lock."""
    return await sessions_waiting(operator) == sessions
