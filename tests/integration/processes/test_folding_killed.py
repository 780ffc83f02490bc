"""A scheduler is killed while it counts failures: each is counted once in the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from tests.integration.processes.fleet import Fleet
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade

FAILED = """
INSERT INTO tickwise.history (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before,
                              attempt, failures, crashes, trigger, namespace, reason, error)
SELECT now(), now(), now(), now(), now(), 1, 1, id, $4, 6, 3, 1, 1, 0, 1, $1, 'error',
       'ValueError: ' || (ARRAY['disk', 'net', 'name'])[n % 3 + 1]
FROM generate_series(1, $3::int) n, LATERAL (SELECT ($2 || lpad(to_hex(n), 20, '0'))::uuid AS id) i
"""
PENDING = "SELECT coalesce(jsonb_object_agg(namespace, n), '{}') FROM (SELECT h.namespace, count(*) AS n "
PENDING += "FROM tickwise.failures_new f JOIN tickwise.history h USING (run_id) GROUP BY 1) s"
COUNTED = "SELECT coalesce(sum(failures), 0)::int FROM tickwise.error_groups WHERE namespace = $1"
HERE = "FROM pg_stat_activity WHERE datname = current_database()"
"""The server may be that of other tests as well."""
WAITING = f"SELECT count(*) {HERE} AND wait_event_type = 'Lock' AND query LIKE '%error_groups%'"
GONE = f"SELECT count(*) = 0 {HERE} AND application_name LIKE 'tickwise%' AND pid <> pg_backend_pid()"
JOB = UUID("01a1cb02-1c4d-89f8-8cc2-34648df1d133")


def since(seconds: float) -> str:
    """The begin of ids of so long ago: what is pending is read in their order."""
    return f"{int((time.time() - seconds) * 1000):012x}"


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(database_url, tmp_path)
    yield made
    made.stop()


async def test_a_scheduler_killed_between_two_counts_loses_none_and_counts_none_twice(
    fleet: Fleet, database_url: str
) -> None:
    """One namespace is counted and committed, the other is counted and not committed when the process is killed."""
    await upgrade(database_url)
    connection, blocker = await asyncpg.connect(database_url), await asyncpg.connect(database_url)

    async def is_counted(namespace: str, failures: int) -> bool:
        return bool(await connection.fetchval(COUNTED, namespace) == failures)

    try:
        # The groups of the second namespace are there, so that one of them can be locked.
        await connection.execute(FAILED, "second", since(60), 30, JOB)
        begun = fleet.start("scheduler")
        await eventually(partial(is_counted, "second", 30), what="the groups are there")
        begun.kill()
        await eventually(lambda: connection.fetchval(GONE), what="its sessions are over")
        await connection.execute(FAILED, "default", since(40), 150, JOB)
        await connection.execute(FAILED, "second", since(20), 120, JOB)
        lock = blocker.transaction()
        await lock.start()
        await blocker.execute("SELECT FROM tickwise.error_groups WHERE namespace = 'second' FOR UPDATE")
        killed = fleet.start("scheduler")
        await eventually(lambda: connection.fetchval(WAITING), what="a count waits for the group")
        killed.kill()
        await lock.rollback()
        await eventually(lambda: connection.fetchval(GONE), what="its sessions are over")
        assert await connection.fetchval(COUNTED, "default") == 150
        assert await connection.fetchval(COUNTED, "second") == 30
        assert await connection.fetchval(PENDING) == '{"second": 120}'
        fleet.start("scheduler")
        await eventually(partial(is_counted, "second", 150), what="the rest is counted")
        assert await connection.fetchval(COUNTED, "default") == 150
        assert await connection.fetchval(PENDING) == "{}"
        letters = "SELECT count(*), count(DISTINCT run_id) FROM tickwise.error_letters"
        assert tuple(await connection.fetchrow(letters)) == (300, 300)
        by_jobs = "SELECT sum(failures)::int FROM tickwise.error_jobs"
        assert await connection.fetchval(by_jobs) == 300
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{fleet.logs()}") from failure
    finally:
        await connection.close()
        await blocker.close()
