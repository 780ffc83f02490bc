"""A database that is slower than the load: what waits is bounded, callers are told, and all goes on by itself."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import httpx2
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.support.app import API, World, world
from tests.support.buffered import new_recorder
from tests.support.databases import sessions_waiting
from tests.support.overriding import override
from tests.support.waiting import eventually
from tickwise.adapters.broker.kafka import KafkaBroker, consumer, partition_buffers
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.observability.brokers import watched
from tickwise.observability.draining import MAX_WAIT_SECONDS
from tickwise.observability.metrics import Metrics
from tickwise.ports.store import JobQuery
from tickwise.ports.store.wrapping import Call, WrappedStore

MAX_WAITING = 20
ACCEPTED, BATCHES = 8_000, 8
EVERYTHING = JobQuery(namespace="default", limit=1_000)
JOB = {"name": "a", "schedule_type": "FUTURE", "schedule_time": "2199-01-01T00:00:00Z"}
COUNT = "SELECT count(*) FROM tickwise.jobs"


@pytest_asyncio.fixture
async def here(database_url: str) -> AsyncIterator[World]:
    """The API on PostgreSQL; few submits may wait."""
    await upgrade(database_url)
    async with world(store=PostgresStore(database_url, clock=SystemClock())) as made:
        made.control.requests._submissions._gatherer._waiting_max = MAX_WAITING
        yield made


async def submit(here: World) -> httpx2.Response:
    return await here.client.post(f"{API}/jobs", json={**JOB, "task": {"kind": "shell", "command": "true"}})


async def test_submits_beyond_what_may_wait_are_told_to_come_back(here: World, database_url: str) -> None:
    """429 at once with Retry-After while the store takes nothing; what had been let in is stored, once, and the next
    submit is as ever."""
    session = await asyncpg.connect(database_url)
    # The first asks whatever is asked once (keys, the store's time), so that the others only wait for the write.
    assert 201 == (await submit(here)).status_code
    transaction = session.transaction()
    await transaction.start()
    await session.execute("LOCK TABLE tickwise.jobs IN ACCESS EXCLUSIVE MODE")
    writing = asyncio.create_task(submit(here))
    await eventually(lambda: sessions_waiting(session), what="a write waits for the lock")
    others = [asyncio.create_task(submit(here)) for _ in range(MAX_WAITING + 30)]
    await eventually(lambda: sum(each.done() for each in others) == 30, what="those beyond the bound are answered")
    refused = [each.result() for each in others if each.done()]
    assert {(429, "busy")} == {(answer.status_code, answer.json()["code"]) for answer in refused}
    assert all(1 <= int(answer.headers["retry-after"]) <= MAX_WAIT_SECONDS for answer in refused)
    waiting = [each for each in others if not each.done()]
    await transaction.rollback()
    stored = await asyncio.gather(writing, *waiting)
    assert [201] * (1 + MAX_WAITING) == [answer.status_code for answer in stored]
    assert 201 == (await submit(here)).status_code
    assert 1 + 1 + MAX_WAITING + 1 == await session.fetchval(COUNT)
    await session.close()


async def test_batches_that_wait_are_bounded_by_their_bytes(here: World, database_url: str) -> None:
    """A second batch is refused while the first, which leaves no room beside it, waits for the store; then it is
    taken."""
    session = await asyncpg.connect(database_url)
    before = await session.fetchval(COUNT)
    here.control.requests._submissions._gatherer.room._most = 1_000
    body = [{**JOB, "task": {"kind": "shell", "command": "true"}}] * 10

    async def batch() -> int:
        return (await here.client.post(f"{API}/jobs:batch", json=body)).status_code

    assert 200 == await batch()
    transaction = session.transaction()
    await transaction.start()
    await session.execute("LOCK TABLE tickwise.jobs IN ACCESS EXCLUSIVE MODE")
    writing = asyncio.create_task(batch())
    await eventually(lambda: sessions_waiting(session), what="a write waits for the lock")
    assert 429 == await batch()
    await transaction.rollback()
    assert [200, 200] == [await writing, await batch()]
    assert before + 30 == await session.fetchval(COUNT)
    await session.close()


class Gated(WrappedStore):
    """A store that takes no jobs until it is let."""

    def __init__(self, store: PostgresStore) -> None:
        super().__init__(store)
        override(self, "jobs.add", self._add)
        self.opened = asyncio.Event()
        self.asked = asyncio.Event()

    async def _add(self, call: Call, *arguments: Any, **named: Any) -> Any:
        self.asked.set()
        await self.opened.wait()
        return await call(*arguments, **named)


async def test_what_a_database_cannot_take_waits_in_the_broker_and_not_in_a_process(
    database_url: str, kafka_prefix_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database takes nothing while thousands of submits are accepted. Recorder and consumer fill up to their limits
    and no further, the rest is lag; then the database takes all of it, each job once."""
    for module in (partition_buffers, consumer):
        monkeypatch.setattr(module, "MAX_WAITING", ACCEPTED // 2)
    clock, metrics = SystemClock(), Metrics()
    await upgrade(database_url)
    store = Gated(PostgresStore(database_url, clock=clock))
    broker = watched(KafkaBroker(f"{kafka_prefix_url}&partitions=2&lanes=1", clock), metrics, clock.monotonic)
    async with world(store=store, broker=broker) as made:
        await broker.open(store.upkeep.cluster_id)
        before = {row.job_id for row in await store.searches.jobs(EVERYTHING)}
        recorder = new_recorder(store, broker, clock, metrics)
        metrics.watch_buffers(recorder.buffers)
        await recorder.start()
        ids = [job_id for _ in range(BATCHES) for job_id in await accepted(made)]
        await store.asked.wait()

        def full() -> bool:
            """Only what is beyond what may be held is still in the broker."""
            found = gauges(metrics)
            held = found["tickwise_buffer_items", "broker_taken"] + found["tickwise_buffer_items", "recorder_requests"]
            limit = found["tickwise_buffer_limit", "broker_taken"] + found["tickwise_buffer_limit", "recorder_requests"]
            assert held <= limit < ACCEPTED
            return found["tickwise_broker_lag", "requests"] >= ACCEPTED and held >= limit / 4

        await eventually(full, within_seconds=60, what="the recorder holds what it may")
        store.opened.set()
        await eventually(
            lambda: gauges(metrics)["tickwise_requests_applied_total", "done"] >= ACCEPTED,
            within_seconds=120, what="all is applied",
        )  # fmt: skip
        await recorder.stop()
        session = await asyncpg.connect(database_url)
        stored = [row["job_id"] for row in await session.fetch("SELECT job_id FROM tickwise.jobs")]
        await session.close()
        assert sorted(ids) == sorted(each for each in stored if each not in before)
    await broker.close()


async def accepted(made: World) -> list[UUID]:
    """The ids of as many jobs as go into one request, once the broker has them."""
    body = [{**JOB, "task": {"kind": "shell", "command": "true"}}] * (ACCEPTED // BATCHES)
    answer = await made.client.post(f"{API}/jobs:batch", json=body)
    assert 202 == answer.status_code, answer.text
    return [UUID(each["job_id"]) for each in answer.json()["results"]]


def gauges(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Each sample by its name and first label."""
    families = text_string_to_metric_families(metrics.render().decode())
    found = {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in families
        for sample in family.samples
    }
    return defaultdict(float, found)
