"""A job through Kafka and Cassandra, as the tables show it to an operator's programs: asked for, due, claimed, ended.

Nothing of the product reads these tables here: each look is CQL, by the partitions that a reader knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Fleet, api_client
from tests.support.cassandras import CLOCK, keyspace, linked
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.config import Settings
from tickwise.wiring.cassandra.stores import KeyspaceStore
from tickwise.wiring.channels import prepare

pytestmark = pytest.mark.thorough


def _of(job_id: UUID, begin: datetime) -> str:
    """The partitions in which the runs of a new job are, as `docs/how-to/cassandra.md` says."""
    hour = begin.replace(minute=0, second=0, microsecond=0)
    hours = ", ".join(f"'{each.isoformat()}'" for each in (hour, hour + timedelta(hours=1)))
    return f"namespace = 'default' AND hour IN ({hours}) AND part = {job_id.bytes[-1] % 64} AND job_id = {job_id}"


async def _cluster_id(url: str) -> str:
    """The name of the installation, as its keeper tells it."""
    store = KeyspaceStore(read_address(url), CLOCK)
    try:
        await store.open()
        return str(store.upkeep.cluster_id)
    finally:
        await store.close()


class Reader:
    """Somebody who knows the tables, and no Tickwise."""

    def __init__(self, link: CassandraLink) -> None:
        self._link = link

    async def rows(self, cql: str) -> Sequence[tuple[Any, ...]]:
        """The rows of a question."""
        return await self._link.run(cql)


@pytest_asyncio.fixture
async def fleet(
    cassandra_server_url: str, redis_server_url: str, kafka_url: str, tmp_path: Path
) -> AsyncIterator[tuple[Fleet, Settings]]:
    """All roles on a keyspace of their own; requests and results go through Kafka."""
    async with keyspace(cassandra_server_url) as url:
        broker_url = f"{kafka_url.partition('?')[0]}?prefix=flow{CLOCK.random_bytes(4).hex()}"
        fleet = Fleet(
            url,
            tmp_path,
            TICKWISE_SIGNALS_URL=redis_server_url,
            TICKWISE_BROKER_URL=broker_url,
            TICKWISE_INGEST="buffered",
            TICKWISE_RESULTS="broker",
            TICKWISE_FUNCTION_MODULES="tests.integration.processes.tasks",
        )
        try:
            yield fleet, Settings(database_url=url, broker_url=broker_url)
        except BaseException as failure:
            failure.add_note(fleet.logs())
            raise
        finally:
            fleet.stop()


@pytest.mark.takes_up_to(120)
async def test_the_life_of_a_job_is_read_in_the_tables(fleet: tuple[Fleet, Settings]) -> None:
    """By who schedules (`due`), by who works (`attempts`, with the token of the claim), and by who wants the result
    (`runs`). The topics were made ahead, by who may make some, and bear the name of the keyspace."""
    roles, settings = fleet
    url = settings.database_url or ""
    await roles.start("keeper").ready()
    prepared = await asyncio.to_thread(prepare, settings, {})
    assert (await _cluster_id(url), 0) == prepared
    started = [roles.start(*words) for words in (("api", "--port", "0"), ("scheduler",), ("recorder",))]
    urls = [await role.ready() for role in started]
    begin = datetime.fromtimestamp(CLOCK.now(), UTC)
    async with api_client(urls[0] or "", timeout=60) as client, linked(url) as link:
        reader = Reader(link)
        task = {"kind": "function", "name": "tests.nothing_at_all"}
        at = begin + timedelta(hours=30)
        later = await client.post("/jobs", json={"name": "later", "schedule_time": at.isoformat(), "task": task})
        soon = await client.post("/jobs", json={"name": "soon", "schedule_type": "IMMEDIATE", "task": task})
        assert {202} == {later.status_code, soon.status_code}, (later.text, soon.text)
        later_id, soon_id = UUID(later.json()["job_id"]), UUID(soon.json()["job_id"])

        hour = at.replace(minute=0, second=0, microsecond=0).isoformat()
        parts = ", ".join(map(str, range(16)))
        of_that_hour = f"shard = 0 AND hour = '{hour}' AND part IN ({parts})"
        (due,) = await eventually(
            partial(reader.rows, f"SELECT job_id, due_at FROM due WHERE {of_that_hour}"),
            what="who schedules sees what is due in that hour",
        )
        assert later_id == due[0]
        assert abs(due[1].replace(tzinfo=UTC) - at) < timedelta(milliseconds=1)

        executor = roles.start("executor")
        await executor.ready()
        asked = f"SELECT run_id, execution_token, state FROM attempts WHERE {_of(soon_id, begin)}"
        (claim,) = await eventually(partial(reader.rows, asked), what="who works has a token")
        assert claim[1] > 0

        async def ended() -> tuple[Any, ...] | None:
            asked = f"SELECT run_id, execution_token, state, ended_at FROM runs WHERE {_of(soon_id, begin)}"
            rows = [row for row in await reader.rows(asked) if row[2] == "SUCCESS"]
            return rows[0] if rows else None

        run = await eventually(ended, what="who wants the result finds it")
        assert (claim[0], claim[1]) == (run[0], run[1])
        assert run[3] is not None
