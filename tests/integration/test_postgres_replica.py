"""Searches may go to a copy: a hot standby, or a role that may only read. Opening it writes nothing either."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support import databases, standby
from tests.support.standby import Pair
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.connection.link import target
from tickwise.domain.errors import Bug, StoreUnavailable
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.ports.store import ClaimRequest, JobQuery, LetterQuery, RunQuery
from tickwise.testing import factories
from tickwise.testing.factories import Factory

WEEK = 604_800.0

Question = Callable[[PostgresStore], Awaitable[Any]]


def copy_of(url: str) -> PostgresStore:
    """A store for searches."""
    return PostgresStore(url, clock=SystemClock(), reads_only=True)


async def lived_in(url: str) -> UUID:
    """A database with jobs that wait, runs of which one succeeded, one failed and one is held; the job of the first."""
    await upgrade(url)
    store = PostgresStore(url, clock=SystemClock())
    await store.open()
    make = Factory(await store.now(), seed="replica")
    jobs = [make.job(labels={"team": "a"}) for _ in range(5)]
    await store.jobs.add([*jobs, make.job(make.now + WEEK), make.recurring(make.now + WEEK, key="nightly")])
    await store.queues.hold(make.hold("heavy"))
    await store.operations.add(make.operation())
    await store.rules.put(make.rule(), expected_version=None)
    executor = await store.executors.join(factories.executor(lease_seconds=3600.0))
    request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=3, ahead_seconds=0.0)
    claims = await store.attempts.claim(request)
    ends = (RunState.SUCCESS, RunState.FAILED)
    ended = [factories.outcome(claimed, state) for claimed, state in zip(claims, ends, strict=False)]
    assert await store.attempts.finish(executor, ended) == []
    await store.close()
    return claims[0].job_id


QUESTIONS: dict[str, Question] = {
    "jobs, newest first": lambda store: store.searches.jobs(JobQuery(namespace="default", limit=10)),
    "jobs by status": lambda store: store.searches.jobs(
        JobQuery(namespace="default", statuses=(JobStatus.SCHEDULED,), limit=10)
    ),
    "jobs by label": lambda store: store.searches.jobs(JobQuery(namespace="default", labels={"team": "a"}, limit=10)),
    "how many jobs": lambda store: store.searches.count(JobQuery(namespace="default", limit=1_000)),
    "a job by its key": lambda store: store.jobs.get("default", "nightly"),
    "runs": lambda store: store.searches.runs(RunQuery(namespace="default", limit=10)),
    "runs that failed": lambda store: store.searches.runs(
        RunQuery(namespace="default", states=(RunState.FAILED,), limit=10)
    ),
    "how many runs": lambda store: store.searches.count(RunQuery(namespace="default", limit=1_000)),
    "runs by the hour": lambda store: store.searches.tally("default", 0.0, 4e9),
    "dead letters": lambda store: store.searches.letters(
        LetterQuery(namespace="default", expire_seconds=WEEK, limit=10)
    ),
    "how many dead letters": lambda store: store.searches.count(
        LetterQuery(namespace="default", expire_seconds=WEEK, limit=1_000)
    ),
    "operations": lambda store: store.searches.operations("default", None, 10),
    "queues": lambda store: store.queues.all("default"),
    "executors": lambda store: store.executors.all(),
}


@pytest_asyncio.fixture(scope="module")
async def servers() -> AsyncIterator[Pair]:
    """A primary that was worked on, and its standby, which has all of it."""
    async with standby.pair() as pair:
        await lived_in(pair.primary)
        await pair.caught_up()
        yield pair


@pytest_asyncio.fixture(scope="module")
async def stores(servers: Pair) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """The one that works, and one for searches on the standby."""
    working, searching = PostgresStore(servers.primary, clock=SystemClock()), copy_of(servers.standby)
    await working.open()
    await searching.open()
    yield working, searching
    await searching.close()
    await working.close()


async def test_a_copy_has_the_name_of_its_primary(stores: tuple[PostgresStore, PostgresStore]) -> None:
    """Both learn it as they open."""
    working, searching = stores
    assert working.upkeep.cluster_id == searching.upkeep.cluster_id


async def test_the_standby_of_these_tests_is_one(servers: Pair) -> None:
    """It follows and takes no writes; else all that is shown here would say nothing."""
    connection = await asyncpg.connect(servers.standby)
    assert await connection.fetchval("SELECT pg_is_in_recovery()") is True
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await connection.execute("DELETE FROM tickwise.jobs")
    await connection.close()


@pytest.mark.parametrize("asked", QUESTIONS)
async def test_a_hot_standby_answers_searches_as_its_primary_does(
    stores: tuple[PostgresStore, PostgresStore], asked: str
) -> None:
    """To the last byte, once it has caught up."""
    working, searching = stores
    expected = await QUESTIONS[asked](working)
    assert expected not in ([], 0, None)
    assert expected == await QUESTIONS[asked](searching)


async def test_what_is_written_at_the_primary_is_found_at_the_standby(
    servers: Pair, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    """A little later."""
    working, searching = stores
    job = Factory(await working.now(), seed="later").job(name="later")
    await working.jobs.add([job])
    await servers.caught_up()
    row = await searching.jobs.get("default", job.job_id)
    assert row is not None
    assert (row.name, await searching.runs.attempts(job.job_id)) == ("later", [])


async def test_a_store_for_searches_writes_nowhere(servers: Pair, stores: tuple[PostgresStore, PostgresStore]) -> None:
    """Whatever it is asked, and though its address leads to the primary: that would be a bug, and is told as one."""
    working, _ = stores
    job = Factory(await working.now(), seed="nowhere").job()
    for url in (servers.primary, servers.standby):
        searching = copy_of(url)
        await searching.open()
        writes: Sequence[Question] = (
            lambda store: store.jobs.add([job]),
            lambda store: store.timers.fire(1.0, 10),
            lambda store: store.executors.join(factories.executor()),
            lambda store: store.executors.expire(crashes_max=3),
        )
        for write in writes:
            with pytest.raises(Bug, match="searches only"):
                await write(searching)
        assert await working.jobs.get("default", job.job_id) is None
        await searching.close()


async def test_a_role_that_may_only_read_is_enough_for_searches(postgres_url: str) -> None:
    """It is given the schema and its tables to read, and nothing else."""
    role = f"reader_{os.getpid()}"
    server = await asyncpg.connect(postgres_url)
    await server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
    async with databases.database(postgres_url) as url:
        await lived_in(url)
        owner = await asyncpg.connect(url)
        await owner.execute(
            f"GRANT USAGE ON SCHEMA tickwise TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA tickwise TO {role}"
        )
        await owner.close()
        working = PostgresStore(url, clock=SystemClock())
        searching = copy_of(databases.with_role(url, role, "secret"))
        await working.open()
        await searching.open()
        answers = [(await ask(working), await ask(searching)) for ask in QUESTIONS.values()]
        await searching.close()
        await working.close()
    await server.execute(f"DROP ROLE {role}")
    await server.close()
    assert [of_working for of_working, _ in answers] == [of_searching for _, of_searching in answers]


async def test_a_copy_that_has_no_schema_yet_is_worth_waiting_for(postgres_url: str) -> None:
    """It comes with the primary's: nobody has to do anything at the copy."""
    async with databases.database(postgres_url) as url:
        with pytest.raises(StoreUnavailable, match="comes with the primary"):
            await copy_of(url).open()
        await upgrade(url)
        searching = copy_of(url)
        await searching.open()
        await searching.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://a:b@one,two/c", ("prefer-standby", "read-write")),
        ("postgresql://a:b@one,two/c?target_session_attrs=any", (None, None)),
    ],
)
def test_among_several_servers_searches_go_to_a_standby(url: str, expected: tuple[str | None, str | None]) -> None:
    """And work goes to the one that takes writes; unless the address says which."""
    assert expected == (target(url, reads_only=True), target(url))
