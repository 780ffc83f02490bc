"""Parts of the API that run apart: which route belongs to which, and what a server says of the others' routes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest

from tests.support.app import API, world
from tests.support.overriding import override
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.api.endpoint import ApiService
from tickwise.api.resources import RESOURCES
from tickwise.domain.errors import BrokerUnavailable, StoreUnavailable
from tickwise.ports.store import StoreStats

JOB = {"name": "a", "every": "1h", "task": {"kind": "shell", "command": "true"}}


def test_a_gateway_can_tell_the_services_by_method_and_path() -> None:
    """By the rules in `docs/how-to/scale-out.md`, the first that fits."""
    for endpoint in RESOURCES:
        if re.match(rf"{API}/(users|namespaces)(/|$)", endpoint.path):
            expected = ApiService.USERS
        elif re.match(rf"({API}/auth/|/\.well-known/)", endpoint.path):
            expected = ApiService.AUTH
        else:
            looks = endpoint.method == "GET" or endpoint.path.endswith(":preview")
            expected = ApiService.SEARCH if looks else ApiService.JOBS
        assert expected is endpoint.service, endpoint.name


@pytest.mark.parametrize("here", list(ApiService))
async def test_a_route_of_another_service_is_421_and_says_whose_it_is(here: ApiService) -> None:
    """Every route of the other service, and none of its own; what speaks of the process itself is served by each."""
    async with world(serves=(here,)) as made:
        for endpoint in RESOURCES:
            if endpoint.endless and endpoint.service is here:
                assert 421 != (await made.client.head(endpoint.path)).status_code
                continue
            answer = await made.client.request(endpoint.method, endpoint.path)
            if endpoint.service is here:
                assert 421 != answer.status_code, endpoint.name
                continue
            problem = answer.json()
            assert (421, "not_served_here", endpoint.service) == (
                answer.status_code,
                problem["code"],
                problem["service"],
            ), endpoint.name
            assert f"--serve {endpoint.service}" in problem["detail"]
        for path in ("/livez", "/readyz", "/healthz", "/healthz/details", "/metrics", "/openapi.json"):
            assert 200 == (await made.client.get(path)).status_code, path


async def test_a_stranger_is_told_nothing_of_services() -> None:
    """Without a key it is 401, as everywhere."""
    async with world(serves=(ApiService.SEARCH,)) as made:
        answer = await made.client.post(f"{API}/jobs", json=JOB, headers={"Authorization": ""})
        assert 401 == answer.status_code


async def test_two_servers_on_one_store_are_one_service() -> None:
    """What one takes, the other one finds."""
    store = MemoryStore(SystemClock())
    async with (
        world(serves=(ApiService.JOBS,), store=store) as jobs,
        world(serves=(ApiService.SEARCH,), store=store) as search,
    ):
        job_id = (await jobs.client.post(f"{API}/jobs", json=JOB)).json()["job_id"]
        assert 421 == (await jobs.client.get(f"{API}/jobs/{job_id}")).status_code
        assert job_id == (await search.client.get(f"{API}/jobs/{job_id}")).json()["job_id"]


async def test_the_description_names_the_service_of_each_route() -> None:
    """`x-service`, by which a gateway's routes can be made or checked."""
    async with world() as made:
        paths = (await made.client.get("/openapi.json")).json()["paths"]
    assert {(each.path, each.method.lower()): each.service for each in RESOURCES} == {
        (path, method): said["x-service"]
        for path, methods in paths.items()
        for method, said in methods.items()
        if path.startswith((API, "/.well-known/"))
    }
    assert "x-service" not in paths["/livez"]["get"]


class Away(MemoryStore):
    """A store that can be taken away from those who look at how it is."""

    away = False

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        override(self, "upkeep.stats", self._stats)

    async def _stats(self, call: Callable[[], Awaitable[StoreStats]]) -> StoreStats:
        if self.away:
            raise StoreUnavailable("away")
        return await call()


class BrokerLink:
    """Whether the broker of a buffered API can be reached."""

    away = False

    def accepts(self) -> None:
        if self.away:
            raise BrokerUnavailable("away")


@pytest.mark.parametrize(
    ("store_away", "broker_away", "status"),
    [(False, False, 200), (True, False, 200), (False, True, 503), (True, True, 503)],
)
async def test_a_buffered_api_is_ready_while_its_broker_is(*, store_away: bool, broker_away: bool, status: int) -> None:
    """Whatever the store does: jobs are taken all the same."""
    store, broker = Away(SystemClock()), BrokerLink()
    async with world(store=store, accepts=broker.accepts) as made:
        store.away, broker.away = store_away, broker_away
        assert status == (await made.client.get("/readyz")).status_code


async def test_another_api_is_ready_while_its_store_is() -> None:
    """There is nothing else to take a job."""
    store = Away(SystemClock())
    async with world(store=store) as made:
        store.away = True
        assert 503 == (await made.client.get("/readyz")).status_code
