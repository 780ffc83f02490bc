"""A hand-over reads a few rows, however many runs wait: for a slot of one key, or for each other in one job."""

from __future__ import annotations

from dataclasses import replace

import asyncpg
import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.decision import Overlap
from tickwise.domain.model import Claimed
from tickwise.ports.store import Began, ClaimRequest, Gate, Handover
from tickwise.testing.factories import Factory, executor, outcome

MANY = 5_000
MAX_READ = 150
"""Rows and entries of indexes, of all statements of one hand-over together; a scan of what waits would be thousands."""

WAIT = {
    "limit": "UPDATE tickwise.runs SET blocked = true, ready = 'infinity', limit_key = 'key:x', most = 1, place = due "
    "WHERE state = 1",
    "overlap": "UPDATE tickwise.runs SET blocked = true, ready = 'infinity' WHERE state = 1",
}
WATCHED = "UPDATE tickwise.runs SET watched = true WHERE state = 3; VACUUM ANALYZE tickwise.runs"
READ = """
SELECT sum(idx_tup_fetch + seq_tup_read)::bigint FROM pg_stat_user_tables
WHERE schemaname = 'tickwise' AND relname = 'runs'
"""
GATE = Gate(limit_key="key:x", limit=1)
GATES: dict[str, Gate | None] = {"limit": GATE, "overlap": None}


async def begun(store: PostgresStore, how: str, make: Factory) -> tuple[int, Claimed]:
    """A run that goes on, of a job with many others."""
    number = await store.executors.join(executor("one", lease_seconds=3600.0))
    job = make.recurring(make.now + 3600.0)
    await store.jobs.add([job])
    overlap = Overlap.QUEUE_ALL if how == "overlap" else Overlap.ALLOW
    runs = [make.run(job.job_id, make.now - 60.0 + n * 1e-3, overlap=overlap) for n in range(MANY)]
    await store.runs.add("default", job.job_id, runs[:1])
    request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=1, ahead_seconds=0.0)
    [first] = await store.attempts.claim(request)
    assert [] == list(
        await store.attempts.start(number, [Began(first.run_id, first.token, first.now, gate=GATES[how])])
    )
    await store.runs.add("default", job.job_id, runs[1:])
    return number, first


@pytest.mark.parametrize("how", WAIT)
async def test_a_hand_over_among_thousands_reads_a_few_rows(database_url: str, how: str) -> None:
    """End, wake-up, claim and start: what the server counted, once the sessions that did it were closed."""
    await upgrade(database_url)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    number, first = await begun(store, how, Factory(await store.now(), seed=how))
    await store.close()
    session = await asyncpg.connect(database_url)
    for statement in (WAIT[how], *WATCHED.split("; ")):
        await session.execute(statement)
    before = await session.fetchval(READ)

    await store.open()
    told: list[Handover] = []
    store.on_handover(told.append)
    assert [] == list(await store.attempts.finish(number, [outcome(first)]))
    [[ready]] = [handover.claimable for handover in told]
    request = ClaimRequest(
        executor=number, queues=("default",), labels=(), limit=1, ahead_seconds=0.0, runs=[ready.run_id]
    )
    [following] = await store.attempts.claim(request)
    began = Began(following.run_id, following.token, following.now, gate=GATES[how])
    assert [] == list(await store.attempts.start(number, [began]))
    await store.close()

    after = await session.fetchval(READ)
    await session.close()
    assert 0 < after - before <= MAX_READ, f"{after - before} rows were read"


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ALL, Overlap.QUEUE_ONE])
async def test_a_start_that_does_not_begin_names_the_run_before_it(database_url: str, policy: Overlap) -> None:
    """It locked that run to look at it, and claims pass over what is locked: who was just woken for that run found
    nothing, and would look again only by itself."""
    await upgrade(database_url)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    make = Factory(await store.now(), seed=f"locked {policy}")
    number = await store.executors.join(executor("one", lease_seconds=3600.0))
    job = make.recurring(make.now + 3600.0)
    await store.jobs.add([job])
    first, second = (make.run(job.job_id, make.now - ago, overlap=policy) for ago in (2.0, 1.0))
    await store.runs.add("default", job.job_id, [first, second])
    request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=1, ahead_seconds=0.0)
    [later] = await store.attempts.claim(replace(request, runs=[second.run_id]))
    told: list[Handover] = []
    store.on_handover(told.append)
    assert [second.run_id] == list(await store.attempts.start(number, [Began(later.run_id, later.token, later.now)]))
    assert [[first.run_id]] == [[ready.run_id for ready in handover.claimable] for handover in told]
    [earlier] = await store.attempts.claim(replace(request, runs=[first.run_id]))
    told.clear()
    assert [] == list(await store.attempts.start(number, [Began(earlier.run_id, earlier.token, earlier.now)]))
    assert [] == told
    await store.close()
