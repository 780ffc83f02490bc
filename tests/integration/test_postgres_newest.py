"""The page of the newest jobs derives by itself what the view of jobs derives; both say the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.lifecycle import JobStatus
from tickwise.ports.store import JobQuery

VERY_MANY = 1_000
"""Failed runs of the jobs of a page, from which on each job's newest run is looked up."""
JOBS = {name: UUID(int=number << 96 | 8 << 76 | 8 << 60 | number) for number, name in enumerate("abcd", 1)}
FILL = """
INSERT INTO tickwise.lanes (namespace, queue, priority, requires) VALUES ('default', 'q', 5, '{}');
INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                           task_kind, created_by, definition)
SELECT now(), now(), id, (SELECT lane FROM tickwise.lanes WHERE queue = 'q'), false, false, 'default', 'job',
       'IMMEDIATE', 'shell', 'ada', '{}'
FROM unnest($1::uuid[]) j(id)
"""
ENDED = """
INSERT INTO tickwise.history (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before,
                              attempt, failures, crashes, trigger, namespace)
SELECT now(), now(), now(), now(), now(), 1, 1, (lpad(to_hex(n), 8, '0') || right($1::uuid::text, 28))::uuid,
       $1, $2, 3, 1, 1, 0, 1, 'default'
FROM generate_series($3::int, $4::int) n
"""
"""Runs of a job in a final state, by numbers that order their ids."""


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    await upgrade(database_url)
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


async def test_a_job_that_is_over_failed_if_its_newest_run_did(store: PostgresStore, database_url: str) -> None:
    """With few failed runs, which are found together, and with so many of one job that those of the others are not."""
    connection = await asyncpg.connect(database_url)
    lane, jobs = FILL.strip().split(";\n")
    await connection.execute(lane)
    await connection.execute(jobs, [*JOBS.values()])
    for name, state, number in (("d", 6, 1), ("c", 6, 1), ("c", 5, 2), ("b", 6, 1), ("a", 5, 1)):
        await connection.execute(ENDED, JOBS[name], state, number, number)
    await check_page(store)
    await connection.execute(ENDED, JOBS["d"], 6, 2, VERY_MANY)
    await check_page(store)
    await connection.close()


async def check_page(store: PostgresStore) -> None:
    """The page says what each job came to, and what is said of it alone."""
    page = await store.searches.jobs(JobQuery(namespace="default", limit=10))
    assert [JOBS[name] for name in "dcba"] == [row.job_id for row in page]
    failed, completed = JobStatus.FAILED, JobStatus.COMPLETED
    assert [failed, completed, failed, completed] == [row.status for row in page]
    assert [await store.jobs.get("default", row.job_id) for row in page] == list(page)
