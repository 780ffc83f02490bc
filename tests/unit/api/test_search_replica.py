"""A replica for searches: what people list comes from it, what anything is decided by never does."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx2
import pytest

from tests.support.app import API, World, world
from tests.support.pages import pages
from tickwise.adapters.clock import VirtualClock
from tickwise.api.resources import RESOURCES
from tickwise.control.bulk.pages import OperationPages
from tickwise.domain.errors import Misconfigured, StoreUnavailable, TickwiseError, Unavailable
from tickwise.domain.observing.analytics import GroupBy, GroupSort, analysed
from tickwise.domain.observing.objectives import StartCount
from tickwise.ports.store import JobQuery, JobRow, JobStarts, Page, Searches, StartsQuery
from tickwise.roles.shared.search_replica import AWAY_SECONDS, SLOW_SECONDS, Replica
from tickwise.web.views import PAGES

STREAMS = {"streamEvents", "streamRunLog", "live", "run_follow"}
"""Never end."""
SEARCHES = {name for name in vars(Searches) if not name.startswith("_")} - {"count"}
"""Operations count what they are about to change, so that is the store's to say."""
JOB = {"name": "a", "every": "1h", "objective_start_seconds": 30, "task": {"kind": "shell", "command": "true"}}
SOME_ID = "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"


NO_RUNS = analysed((), group_by=GroupBy.JOB, sort=GroupSort.RUNS, top=1)


class Recording:
    """A replica that never got anything: nothing is found there. It notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def look(*_arguments: Any, **_named: Any) -> Any:
            self.asked.append(name)
            if name == "starts":
                query: StartsQuery = _arguments[0]
                return dict.fromkeys(query.jobs, JobStarts(dict.fromkeys(query.windows, StartCount(0, 0)), None))
            return NO_RUNS if name == "analyse" else Page()

        return look


async def _ask(here: World, method: str, path: str, body: Any = None) -> httpx2.Response:
    for name in ("job_id", "run_id", "task_id", "key", "operation_id", "queue", "name", "backfill_id"):
        path = path.replace("{" + name + "}", SOME_ID)
    return await here.client.request(method, path, json=body if method in ("POST", "PUT") else None)


async def test_nothing_but_searches_ever_reaches_the_replica() -> None:
    """Every route of the API is asked, with an empty body and with a job in it, and every page: the replica hears of
    the methods that it may stand in for, and of no others; each of them was asked."""
    replica = Recording()
    async with pages(searches=replica) as rig:
        here = rig.here
        await here.client.post(f"{API}/jobs", json={**JOB, "job_id": SOME_ID})
        for endpoint in RESOURCES:
            for body in ({}, JOB):
                if endpoint.name not in STREAMS:
                    await _ask(here, endpoint.method, endpoint.path, body)
        assert (await here.client.put(f"{API}/calendars/{SOME_ID}", json={"dates": ["2026-12-25"]})).is_success
        browser = await rig.signed_in("reads pages", ("admin", "*"))
        for page in PAGES:
            if page.method == "GET" and page.name not in STREAMS:
                await browser.get(re.sub(r"\{[^}]*\}", SOME_ID, page.path))
    assert SEARCHES == set(replica.asked)


async def test_what_is_decided_is_decided_by_the_store() -> None:
    """The replica knows of nothing at all. Jobs are read, changed and cancelled one by one and by a filter as if there
    were none, and only what is listed is as old as it is."""
    async with world(searches=Recording()) as here:
        made = [(await here.client.post(f"{API}/jobs", json={**JOB, "key": f"k{n}"})).json() for n in range(3)]
        first = made[0]["job_id"]
        assert 200 == (await here.client.get(f"{API}/jobs/{first}")).status_code
        assert 200 == (await here.client.get(f"{API}/jobs/by-key/k1")).status_code
        assert [] == (await here.client.get(f"{API}/jobs")).json()
        assert 200 == (await here.client.put(f"{API}/jobs/{first}", json={"name": "b"})).status_code
        run = (await here.client.post(f"{API}/jobs/{first}/runNow")).json()["run_id"]
        assert 200 == (await here.client.get(f"{API}/runs/{run}")).status_code
        assert [] == (await here.client.get(f"{API}/jobs/{first}/runs")).json()
        dry = await here.client.post(f"{API}/jobs:pause", json={"filter": {"name": "a"}, "dry_run": True})
        assert 200 == dry.status_code, dry.text
        assert 2 == dry.json()["matches"], dry.text
        assert 200 == (await here.client.delete(f"{API}/jobs/{first}")).status_code


@pytest.mark.parametrize("what", ["jobs:pause", "runs:cancel"])
async def test_what_is_done_to_many_is_done_to_what_the_store_has(what: str) -> None:
    """An operation finds its jobs and runs, of all of which the replica has never heard."""
    async with world(searches=Recording()) as here:
        for _ in range(3):
            job_id = (await here.client.post(f"{API}/jobs", json=JOB)).json()["job_id"]
            await here.client.post(f"{API}/jobs/{job_id}/runNow")
        answer = await here.client.post(f"{API}/{what}", json={"filter": {"all": True}})
        assert 202 == answer.status_code, answer.text
        operation = await here.store.operations.take(30.0)
        assert operation is not None
        assert 3 == (await OperationPages(here.control.context).page(operation, 100)).done


class Link:
    """A replica or a primary that says who it is, or is away."""

    def __init__(self, name: str, clock: VirtualClock) -> None:
        self.name = name
        self.failure: TickwiseError | None = None
        self.seconds = 0.0
        self.asked = 0
        self._clock = clock

    async def jobs(self, _query: JobQuery) -> Sequence[Any]:
        self.asked += 1
        await self._clock.advance(self.seconds)
        if self.failure is not None:
            raise self.failure
        return [self.name]


class Pair:
    """A replica before its primary."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.replica, self.primary = Link("replica", self.clock), Link("primary", self.clock)
        self.searches = Replica(self.replica, self.primary, self.clock, **options)  # type: ignore[arg-type]  # one method is asked

    async def ask(self) -> JobRow | str:
        return (await self.searches.jobs(JobQuery(namespace="default")))[0]


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), Misconfigured("its schema is older")])
async def test_a_replica_that_is_away_is_stood_in_for_by_the_primary(failure: TickwiseError) -> None:
    """At once, and without being asked again for a while; then it is looked for, and taken again."""
    pair = Pair()
    assert "replica" == await pair.ask()
    pair.replica.failure = failure
    assert ["primary"] * 3 == [await pair.ask() for _ in range(3)]
    assert 2 == pair.replica.asked
    await pair.clock.advance(AWAY_SECONDS)
    pair.replica.failure = None
    assert "replica" == await pair.ask()


async def test_a_search_that_was_too_much_for_the_replica_is_kept_from_the_primary() -> None:
    """It would take as long there, beside everything that has to be on time."""
    pair = Pair()
    pair.replica.failure, pair.replica.seconds = StoreUnavailable("took too long"), SLOW_SECONDS
    with pytest.raises(Unavailable, match="took too long"):
        await pair.ask()
    assert 0 == pair.primary.asked


async def test_a_replica_is_connected_by_its_first_search() -> None:
    """Nothing waits for it at the start, and one that is not there yet is tried again."""
    failures: list[Exception] = [StoreUnavailable("not yet")]
    opened: list[int] = []

    async def opens() -> None:
        if failures:
            raise failures.pop()
        opened.append(1)

    pair = Pair(opens=opens)
    assert "primary" == await pair.ask()
    await pair.clock.advance(AWAY_SECONDS)
    assert ["replica", "replica"] == [await pair.ask(), await pair.ask()]
    assert [1] == opened
