"""Namespaces: one that takes all it can get, beside one that just wants to work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest_asyncio

from tests.security.probes import probe
from tests.support.app import ADMIN_KEY, API, World, world
from tickwise.adapters.clock import VirtualClock
from tickwise.api.clients.pacing import RequestPaces
from tickwise.ports.limits import Pace
from tickwise.ports.store import MAX_LANES_OF_NAMESPACE, MAX_NAMESPACE, RuleKind
from tickwise.testing.factories import executor

SHELL = {"kind": "shell", "command": "true"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


async def tenant(here: World, namespace: str, name: str = "someone") -> str:
    return await here.key(f"a-key-of-{name}-in-{namespace}", "*", namespace=namespace, name=name)


async def post(here: World, key: str, path: str, body: Any, **headers: str) -> httpx2.Response:
    sent = {"Authorization": f"Bearer {key}", **headers}
    return await here.client.post(f"{API}{path}", json=body, headers=sent)


def jobs(count: int) -> list[dict[str, Any]]:
    """Each in a queue of its own."""
    return [{"name": "a", "every": "1h", "task": SHELL, "queue": f"queue-{number}"} for number in range(count)]


@probe(6, stopped_by="a share for each namespace; default lanes are always there")
async def test_queues_without_end_stop_nobody_else(here: World) -> None:
    """A namespace names a new queue in each job, until there is no room."""
    greedy, modest = await tenant(here, "greedy"), await tenant(here, "modest")
    for start in range(0, MAX_LANES_OF_NAMESPACE, 500):
        batch = jobs(MAX_LANES_OF_NAMESPACE)[start : start + 500]
        answers = (await post(here, greedy, "/jobs:batch", batch)).json()["results"]
        assert {201} == {answer["status"] for answer in answers}
    more = {"name": "a", "every": "1h", "task": SHELL, "queue": "one-more"}
    refused = await post(here, greedy, "/jobs", more)
    assert (409, "lanes_exhausted") == (refused.status_code, refused.json()["code"])
    assert 201 == (await post(here, greedy, "/jobs", {"name": "a", "every": "1h", "task": SHELL})).status_code
    assert 201 == (await post(here, modest, "/jobs", more)).status_code


@probe(6, stopped_by="a share for each namespace, and some places that are reserved")
async def test_windows_without_end_stop_nobody_else(here: World) -> None:
    """A namespace stores maintenance windows until it is refused."""
    greedy, modest = await tenant(here, "greedy"), await tenant(here, "modest")
    body = {"when": {"weekly": [{"days": ["sun"], "from": "02:00", "to": "04:00"}]}}

    async def put(key: str, name: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return (await here.client.put(f"{API}/windows/{name}", json=body, headers=headers)).status_code

    statuses = [await put(greedy, f"w{number}") for number in range(MAX_NAMESPACE[RuleKind.WINDOW] + 1)]
    assert ([201] * (len(statuses) - 1), 409) == (statuses[:-1], statuses[-1])
    assert 201 == await put(modest, "w")


@probe(6, stopped_by="namespace and name are joined so that no other two read alike")
async def test_names_that_read_alike_share_no_answer(here: World) -> None:
    """`c` of `a/b` sends the Idempotency-Key of `b/c` of `a`, to read its answer."""
    one, two = await tenant(here, "a/b", "c"), await tenant(here, "a", "b/c")
    body = {"name": "a", "every": "1h", "task": SHELL}
    first, second = [await post(here, key, "/jobs", body, **{"Idempotency-Key": "k"}) for key in (one, two)]
    assert "idempotency-replayed" not in second.headers
    assert first.json()["job_id"] != second.json()["job_id"]


@probe(6, stopped_by="namespace and name are joined so that no other two read alike")
async def test_names_that_read_alike_share_no_pace() -> None:
    """`c` of `a/b` uses up the requests of `b/c` of `a`."""
    clock = VirtualClock()
    async with world(clock=clock, paces=RequestPaces(key=Pace(rate=0.1, burst=2))) as here:
        one, two = await tenant(here, "a/b", "c"), await tenant(here, "a", "b/c")
        statuses = [
            (await here.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {key}"})).status_code
            for key in (one, one, one, two)
        ]
    assert [200, 200, 429, 200] == statuses


@probe(6, stopped_by="a caller of one namespace is shown the executors that may claim its runs, without other names")
async def test_executors_tell_nothing_of_other_namespaces(here: World) -> None:
    """A namespace looks at the executors, of which some are bound to other tenants."""
    one, both, free = [
        await here.store.executors.join(executor(name=name, namespaces=namespaces))
        for name, namespaces in (("acquirer", ("target",)), ("shared", ("target", "modest")), ("any", None))
    ]
    shown = {}
    for key in (await tenant(here, "modest"), ADMIN_KEY):
        answer = await here.client.get(f"{API}/executors", headers={"Authorization": f"Bearer {key}"})
        shown[key] = {row["executor_id"]: row["namespaces"] for row in answer.json()}
    of_tenant, of_admin = shown.values()
    assert {str(both): ["modest"], str(free): None} == of_tenant
    assert {str(one): ["target"], str(both): ["target", "modest"], str(free): None} == of_admin
