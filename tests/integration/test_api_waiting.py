"""What a run waits for is said by the run and by its job, on either store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.testing.factories import executor

SHELL = {"kind": "shell", "command": "date"}
FUNCTION = {"kind": "function", "name": "tests.known"}


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def here(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[World]:
    """Two executors live: one for the queue `default` with a label, one for the queue `functions` with a function."""
    store: Any = MemoryStore(SystemClock())
    if request.param == "postgres":
        await upgrade(database_url)
        store = PostgresStore(database_url, clock=SystemClock())
    async with world(store=store) as made:
        for queue, labels, functions in (("default", ["gpu"], []), ("functions", [], ["tests.known"])):
            await store.executors.join(
                executor(queue, queues=[queue], labels=labels, functions=functions, lease_seconds=600.0)
            )
        yield made


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({"task": SHELL}, None),
        ({"task": SHELL, "requires": ["gpu"]}, None),
        ({"task": FUNCTION, "queue": "functions"}, None),
        ({"task": {**FUNCTION, "name": "tests.unknown"}}, "no active executor offers the function 'tests.unknown'"),
        ({"task": SHELL, "queue": "nowhere"}, "no active executor serves the queue 'nowhere'"),
        ({"task": SHELL, "requires": ["gpu", "zone=mars"]}, "of the queue 'default' has the labels gpu, zone=mars"),
        ({"task": FUNCTION}, "offers the function 'tests.known' for the queue 'default'"),
    ],
)
async def test_a_run_that_nobody_can_take_says_what_it_waits_for(
    here: World, job: dict[str, Any], says: str | None
) -> None:
    """A function, a queue or labels that no active executor has; nothing where one can take it."""
    created = await here.client.post(f"{API}/jobs", json={"name": "a", "schedule_type": "IMMEDIATE", **job})
    job_id = created.json()["job_id"]
    (run,) = (await here.client.get(f"{API}/jobs/{job_id}/runs")).json()
    for path in (f"/runs/{run['run_id']}", f"/jobs/{job_id}"):
        warnings = (await here.client.get(API + path)).json()["warnings"]
        assert (0 if says is None else 1) == len(warnings), (path, warnings)
        assert says is None or says in warnings[0], path


async def test_where_nobody_is_alive_the_run_says_so() -> None:
    """The job does not: it is no matter of its own."""
    async with world() as here:
        body = {"name": "a", "schedule_type": "IMMEDIATE", "task": SHELL}
        job_id = (await here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
        (run,) = (await here.client.get(f"{API}/jobs/{job_id}/runs")).json()
        assert ["no executor is active; runs wait for one"] == (
            await here.client.get(f"{API}/runs/{run['run_id']}")
        ).json()["warnings"]
        assert [] == (await here.client.get(f"{API}/jobs/{job_id}")).json()["warnings"]
