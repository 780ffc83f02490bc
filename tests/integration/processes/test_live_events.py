"""Live events by real processes: an API that is killed, another one that goes on, many streams, and their ends."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.integration.processes.fleet import Fleet, api_client
from tests.support.listening import Ear, listening
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade

STREAMS = 150
"""As many as a test has time for; `bench EVENTS` opens a thousand."""
ENDS_WITHIN_SECONDS = 60.0
FEED = "FROM pg_stat_activity WHERE application_name = 'tickwise feed' AND datname = current_database()"
HELLO = {"name": "hello", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "true"}}


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(database_url, tmp_path)
    yield made
    made.stop()


@asynccontextmanager
async def apis(fleet: Fleet, database_url: str, count: int) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """So many processes of the API, each with a client."""
    await upgrade(database_url)
    roles = [fleet.start("api", "--port", "0") for _ in range(count)]
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(api_client(str(await role.ready()), timeout=60)) for role in roles]


async def submit(client: httpx2.AsyncClient, **body: Any) -> str:
    """A new job's id."""
    answer = await client.post("/jobs", json={**HELLO, **body})
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def test_a_stream_goes_on_at_another_process_after_a_kill(fleet: Fleet, database_url: str) -> None:
    """Each change once, whatever was committed while nobody listened, or was under way when the process died."""
    async with apis(fleet, database_url, 2) as (first, second):
        fleet.start("scheduler")
        await fleet.start("executor").ready()
        jobs = []
        async with listening(first) as ear:
            jobs += [await submit(second) for _ in range(25)]
            await ear.until(lambda heard: len(heard.of("run")) >= 40, "some of it")
            fleet.roles[0].kill()
            await ear.until(lambda heard: heard.over, "the stream broke")
        jobs += [await submit(second) for _ in range(25)]
        async with listening(second, last_id=ear.last_id) as again:
            jobs += [await submit(second) for _ in range(5)]

            def all_ended(_: Ear) -> bool:
                return {"SUCCESS"} == {(ear.states(job) + again.states(job) or ["?"])[-1] for job in jobs}

            await again.until(all_ended, "all ended")
    events = [*ear.of("run"), *again.of("run")]
    assert [] == [name for name, times in Counter(event.data["change"] for event in events).items() if times > 1]
    for job in jobs:
        states = ear.states(job) + again.states(job)
        assert ["QUEUED", "DISPATCHED"] == states[:2], (job, states)
        assert "SUCCESS" == states[-1], (job, states)
    assert [] == again.of("gap")


async def test_a_stream_goes_on_at_the_same_address_after_a_restart(fleet: Fleet, database_url: str) -> None:
    """Nothing of it was in the process."""
    async with apis(fleet, database_url, 1) as [client]:
        port = str(client.base_url.port)
        async with listening(client) as ear:
            one = await submit(client)
            await ear.until(lambda heard: heard.states(one), "the first job")
            fleet.roles[0].kill()
        await fleet.start("api", "--port", port).ready()
        two = await submit(client)
        async with listening(client, last_id=ear.last_id) as again:
            three = await submit(client)
            await again.until(lambda heard: heard.states(three), "the last job")
        assert [[], ["QUEUED"], ["QUEUED"]] == [again.states(job) for job in (one, two, three)]


async def test_many_streams_are_one_reader_of_the_database(fleet: Fleet, database_url: str) -> None:
    """Each gets what it asked for; none reads when none is open."""
    async with apis(fleet, database_url, 1) as [client], AsyncExitStack() as stack:
        connection = await asyncpg.connect(database_url)
        stack.push_async_callback(connection.close)
        jobs = [await submit(client, schedule_type="ON_DEMAND") for _ in range(3)]
        async with AsyncExitStack() as streams, wide(client) as many:
            ears = [
                await streams.enter_async_context(listening(many, f"/events?job_id={jobs[number % 3]}"))
                for number in range(STREAMS)
            ]
            [before] = await readers(connection)
            assert 202 == (await client.post(f"/jobs/{jobs[0]}/runNow")).status_code
            for number, ear in enumerate(ears):
                if number % 3 == 0:
                    await ear.until(lambda heard: heard.of("run"), f"stream {number}")
            assert 1 == len(await readers(connection))
            assert [0] * (STREAMS - STREAMS // 3) == [len(ear.events) for at, ear in enumerate(ears) if at % 3]
            metrics = await client.get(str(client.base_url).replace("/api/v1/", "/metrics"))
            assert f"tickwise_live_streams {STREAMS}.0\n" in metrics.text
        await eventually(lambda: quiet(connection), what="nobody reads")
        assert before


@asynccontextmanager
async def wide(client: httpx2.AsyncClient) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with as many connections as streams."""
    limits = httpx2.Limits(max_connections=STREAMS + 50, max_keepalive_connections=0)
    async with httpx2.AsyncClient(
        base_url=client.base_url, headers=client.headers, limits=limits, verify=False, trust_env=False
    ) as made:
        yield made


async def readers(connection: asyncpg.Connection) -> list[int]:
    """The sessions that read the feed."""
    rows = await connection.fetch(f"SELECT pid {FEED}")
    return [row["pid"] for row in rows]


async def quiet(connection: asyncpg.Connection) -> bool:
    """Whether no statement about the feed has begun in half a second."""
    ask = f"SELECT max(query_start) {FEED}"
    before = await connection.fetchval(ask)
    await connection.execute("SELECT pg_sleep(0.5)")
    return bool(before == await connection.fetchval(ask))


async def test_a_process_that_stops_says_so(fleet: Fleet, database_url: str) -> None:
    """At once, with the time after which to come back; and it does not wait for its streams."""
    async with apis(fleet, database_url, 1) as [client], listening(client) as ear:
        fleet.roles[0].signal(signal.SIGTERM)
        await ear.until(lambda heard: heard.over, "the stream ends")
        assert ["stopping"] == [event.data["reason"] for event in ear.of("end")]
        assert ear.retry
        assert ear.last_id
        assert 0 == await fleet.roles[0].ended()


async def test_a_stream_ends_with_its_key(fleet: Fleet, database_url: str) -> None:
    """Revoked at another process, while the stream is open."""
    async with apis(fleet, database_url, 2) as (first, second):
        made = (await first.post("/keys", json={"name": "ci", "scopes": ["runs:read"]})).json()
        async with listening(second, Authorization=f"Bearer {made['key']}") as ear:
            assert 200 == (await first.delete(f"/keys/{made['key_id']}")).status_code
            async with asyncio.timeout(ENDS_WITHIN_SECONDS):
                await ear.until(lambda heard: heard.over, "the stream ends")
            assert ["unauthenticated"] == [event.data["reason"] for event in ear.of("end")]


async def test_a_log_is_followed_to_its_end(fleet: Fleet, database_url: str) -> None:
    """Line by line while the task writes, over a break, and then it is over."""
    heard = fleet.folder / "heard"  # the task goes on when the test has heard its first lines, however long that takes
    wait = f"while [ ! -e {heard} ]; do sleep 0.05; done"
    command = f"echo line 1; echo line 2; {wait}; for i in 3 4 5 6; do echo line $i; done; printf last"
    async with apis(fleet, database_url, 1) as [client]:
        fleet.start("scheduler")
        await fleet.start("executor").ready()
        async with listening(client) as events:
            job = await submit(client, task={"kind": "shell", "command": command})
            await events.until(lambda heard: "RUNNING" in heard.states(job), "it runs")
        # Runs that an earlier test left in this database begin now as well.
        [run] = {event.data["run_id"] for event in events.of("run") if event.data["job_id"] == job}
        async with listening(client, f"/runs/{run}/logs/stream") as ear:
            try:
                await ear.until(lambda heard: len(heard.of("log")) >= 2, "two lines")
            except AssertionError as failure:
                told = (await client.get(f"/runs/{run}")).text
                raise AssertionError(f"{failure}\n{told}\n{fleet.logs()}") from failure
            assert ["log", "log"] == [event.name for event in ear.events], "it is told while it is written"
        heard.touch()
        async with listening(client, f"/runs/{run}/logs/stream", last_id=ear.last_id) as rest:
            await rest.until(lambda heard: heard.over, "the end")
        lines = [event.data["line"] for event in (*ear.of("log"), *rest.of("log"))]
        assert [*(f"line {number}" for number in range(1, 7)), "last"] == lines
        [end] = rest.of("end")
        assert ("complete", "SUCCESS", 1) == (end.data["reason"], end.data["status"], end.data["attempt"])
