"""Anomalies on PostgreSQL: two schedulers tell one once, and their looks go by indexes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from tests.integration.test_postgres_notices import CHANNEL, EMPTY
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.notices.rules import NoticeEvent, NotificationRule
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.ports.store import AlertQuery, ClaimRequest, NewJob
from tickwise.roles.scheduler.alerting import LOOK_SECONDS, Alerting
from tickwise.roles.scheduler.observing.anomaly_watch import ROUND_SECONDS, AnomalyWatch
from tickwise.testing.factories import Factory, executor, outcome

NONE = UUID(int=0)
LAST = UUID(int=(1 << 128) - 1)
FILL = """
    INSERT INTO tickwise.history (due, queued, started, ended, executor, token, run_id, job_id, state, before, attempt,
                                  failures, crashes, trigger, namespace)
    SELECT now(), now(), now(), now(), 1, n, gen_random_uuid(),
           ('00000000-0000-0000-0000-' || lpad((n % 1000)::text, 12, '0'))::uuid, 5, 3, 1, 0, 0, 1, 'default'
    FROM generate_series(1, 50000) n;
    INSERT INTO tickwise.jobs (created, updated, job_id, lane, recurring, lasting, namespace, name, schedule_type,
                               task_kind, created_by, definition)
    SELECT now(), now(), gen_random_uuid(), 1, true, true, 'default', 'job', 'CRON', 'shell', 'ada', '{}'
    FROM generate_series(1, 20000);
    ANALYZE tickwise.history, tickwise.jobs;"""


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    """A store without rules."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(EMPTY)
    await connection.close()
    opened = PostgresStore(database_url, clock=SystemClock())
    await opened.open()
    yield opened
    await opened.close()


async def ran(store: PostgresStore, make: Factory, job: NewJob, holder: int, seconds: float, output: int) -> UUID:
    """A run of the job that ended just now."""
    now = await store.now()
    await store.runs.add("default", job.job_id, [make.run(job.job_id, now)])
    request = ClaimRequest(executor=holder, queues=("default",), labels=(), limit=1, ahead_seconds=0.0)
    [claim] = await store.attempts.claim(request)
    end = outcome(claim, started=now - seconds, ended=now)
    usage = {claim.run_id: ResourceUsage(output_bytes=output)}
    assert [] == list(await store.attempts.finish(holder, [end], usage))
    return claim.run_id


async def test_two_schedulers_tell_one_anomaly_once(store: PostgresStore, database_url: str) -> None:
    """Each has found it, and notes it at the same time."""
    make, channel_id = Factory(await store.now()), uuid4()
    connection = await asyncpg.connect(database_url)
    await connection.execute(CHANNEL, channel_id)
    await connection.close()
    rule = NotificationRule(
        rule_id=uuid4(), namespace="default", name="odd", on=frozenset({NoticeEvent.ANOMALY}), channels=(channel_id,)
    )
    await store.notification_rules.add(rule)
    job = make.recurring(make.now + 1_000.0)
    await store.jobs.add([job])
    holder = await store.executors.join(executor(lease_seconds=1e6))
    for _ in range(12):
        await ran(store, make, job, holder, 2.0, 20_000)
    odd = await ran(store, make, job, holder, 2.5, 900_000)
    schedulers = [Alerting(store, SystemClock()) for _ in range(2)]
    watches = [AnomalyWatch(each, store, SystemClock()) for each in schedulers]
    for _ in range(2):
        assert [ROUND_SECONDS] * 2 == await asyncio.gather(*(each.step() for each in watches))
    while await schedulers[0].step() < LOOK_SECONDS:
        pass
    [alert] = await store.alerts.find(AlertQuery(namespace="default"))
    assert (odd, 1, str(job.job_id)) == (alert.run_id, alert.events, alert.subject)
    assert "a run wrote 900 kB, usually 20 kB to 20 kB" == alert.sentence


@pytest.mark.parametrize(
    ("name", "arguments", "index"),
    [
        ("delays_samples", [[UUID(int=7), UUID(int=8)], 50, 1.0, LAST], r"history\w*_job_id_run_id_idx"),
        ("delays_jobs", [["default"], NONE, 200], "jobs_lasting_pkey"),
        ("delays_jobs_named", [["default"], NONE, 200, [UUID(int=7)]], "jobs_lasting_pkey"),
    ],
)
async def test_a_look_goes_by_its_index(
    store: PostgresStore, database_url: str, name: str, arguments: list[object], index: str
) -> None:
    """And reads no large table from end to end."""
    del store
    connection = await asyncpg.connect(database_url)
    if not await connection.fetchval("SELECT count(*) > 1000 FROM tickwise.history"):
        await connection.execute(FILL, timeout=120)
    text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {statement(name)}", *arguments)
    await connection.close()
    plan = json.dumps(json.loads(text))
    used = set(re.findall(r'"Index Name": "(\w+)"', plan))
    scanned = set(re.findall(r'"Node Type": "Seq Scan"[^{}]*?"Relation Name": "(\w+)"', plan))
    assert any(re.fullmatch(index, each) for each in used), (used, scanned)
    assert not scanned & {"history_rest", "jobs_lasting"}, scanned
