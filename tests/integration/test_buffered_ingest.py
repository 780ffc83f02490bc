"""Jobs are accepted while PostgreSQL is dead, through a real Kafka; afterwards all of them are there, once."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.support.app import API, World, world
from tests.support.buffered import new_recorder
from tests.support.waiting import eventually
from tickwise.adapters.broker.kafka import KafkaBroker
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.observability.metrics import Metrics
from tickwise.ports.store import JobQuery

SHELL = {"kind": "shell", "command": "date"}
LATER = "2031-01-01T00:00:00Z"


@asynccontextmanager
async def mortal() -> AsyncIterator[EmbeddedPostgres]:
    """A PostgreSQL that keeps what it has committed, and may be killed."""
    data_dir = Path(tempfile.mkdtemp(prefix="tickwise-mortal-"))
    server = EmbeddedPostgres(data_dir, clock=SystemClock(), settings={"max_connections": "50"})
    try:
        yield server
    finally:
        root = server._cluster.root if server._cluster is not None else data_dir
        await server.stop()
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(data_dir, ignore_errors=True)


async def kill(server: EmbeddedPostgres) -> None:
    """With -9, and its children; returns when all of it is gone."""
    assert server.pid is not None
    process = psutil.Process(server.pid)
    children = process.children(recursive=True)
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    await eventually(lambda: not any(child.is_running() for child in children), what="its children are gone")


async def accepted(here: World, name: str, **body: Any) -> Any:
    """The answer to a create that was accepted."""
    answer = await here.client.post(f"{API}/jobs", json={"name": name, "task": SHELL, "at": LATER, **body})
    assert 202 == answer.status_code, answer.text
    return answer.json()


async def test_jobs_are_accepted_while_the_database_is_dead_and_are_all_there_once_afterwards(
    kafka_prefix_url: str,
) -> None:
    """Creates, a change and a cancel are taken in under a server that was killed with -9; when it is back the recorder
    applies them in order, without anybody's help, and each job is there exactly once."""
    clock = SystemClock()
    async with mortal() as server:
        url = await server.start()
        await upgrade(url)
        store = PostgresStore(url, clock=clock)
        broker = KafkaBroker(kafka_prefix_url, clock)
        await store.open()
        await broker.open(store.upkeep.cluster_id)
        recorder = new_recorder(store, broker, clock, Metrics())
        await recorder.start()
        try:
            async with world(clock=clock, store=store, broker=broker) as here:
                first = await accepted(here, "before")
                assert await eventually(lambda: there(here, first["job_id"]), what="the first job is applied")
                await kill(server)
                made = [await accepted(here, f"n{number}") for number in range(30)]
                await answered(here, "PUT", made[0]["job_id"], json={"name": "changed"})
                await answered(here, "DELETE", made[1]["job_id"])
                await answered(here, "PUT", first["job_id"], json={"name": "changed before"})
                waiting = await here.client.get(f"{API}/jobs/{made[2]['job_id']}")
                assert (202, "pending") == (waiting.status_code, waiting.json()["status"])
                assert url == await server.start()
                last = await accepted(here, "after")
                ids = [first["job_id"], *(one["job_id"] for one in made), last["job_id"]]
                assert await eventually(lambda: all_there(here, ids), what="every job is applied")
                names = await eventually(lambda: names_of(here, 32), what="the changes are applied")
                assert (
                    Counter({"before": 0, "changed before": 1, "changed": 1, "after": 1})
                    + Counter(f"n{number}" for number in range(1, 30))
                    == +names
                )
                cancelled = (await here.client.get(f"{API}/jobs/{made[1]['job_id']}")).json()
                assert "CANCELLED" == cancelled["status"]
        finally:
            await recorder.stop()
            await broker.close()


async def answered(here: World, method: str, job_id: str, **options: Any) -> None:
    """A change or a cancel that was accepted."""
    answer = await here.client.request(method, f"{API}/jobs/{job_id}", **options)
    assert 202 == answer.status_code, answer.text


async def there(here: World, job_id: str) -> bool:
    """Whether the store has the job."""
    return (await here.client.get(f"{API}/jobs/{job_id}")).status_code == 200


async def all_there(here: World, job_ids: list[str]) -> bool:
    """Whether it has all of them."""
    return all([await there(here, job_id) for job_id in job_ids])


async def names_of(here: World, count: int) -> Counter[str] | None:
    """How often each name is there, once the changes are applied."""
    rows = await here.store.searches.jobs(JobQuery(namespace="default", limit=500))
    names = Counter(row.name for row in rows)
    cancelled = sum(str(row.status) == "CANCELLED" for row in rows)
    applied = names["changed"] and names["changed before"] and cancelled
    return names if applied and len(rows) == count else None
