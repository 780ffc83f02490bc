"""Roles on Cassandra: two keepers, an API, a scheduler and an executor, while the owner of the shard is killed, frozen,
and told to end. Every job that was acknowledged runs, and none is refused for good."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.processes.fleet import Fleet, Role, api_client
from tests.support.cassandras import keyspace
from tests.support.waiting import eventually

pytestmark = pytest.mark.thorough
FUNCTIONS = "tests.integration.processes.tasks"
BODY = {"name": "one", "schedule_type": "IMMEDIATE", "task": {"kind": "function", "name": "tests.nothing_at_all"}}


class Cluster:
    """The roles, and what was asked of them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.keepers: list[Role] = []
        self.client = api_client()
        self.asked: dict[str, bool] = {}
        """By the key of a job: whether it was acknowledged."""

    async def start(self) -> None:
        """Two keepers, the second of which waits, and one of each other role."""
        first = self.fleet.start("keeper")
        await first.event("log_opened")
        self.keepers = [first, self.fleet.start("keeper")]
        roles = [self.fleet.start(*words) for words in (("api", "--port", "0"), ("scheduler",), ("executor",))]
        urls = [await role.ready() for role in (*self.keepers, *roles)]
        self.client = api_client(urls[len(self.keepers)] or "")

    @property
    def owner(self) -> Role:
        """The one that opened the log last."""
        return max((each for each in self.keepers if each.events("log_opened")), key=_opened_at)

    async def taken_over(self, before: Role) -> None:
        """Another keeper has opened the log since."""
        await eventually(lambda: self.owner is not before, what="another keeper owns the shard")

    async def ask(self, over: asyncio.Event) -> None:
        """Ask for one job after the other, each until it is acknowledged, by its key."""
        while not over.is_set():
            key = f"job-{len(self.asked)}"
            self.asked[key] = False
            task = {"kind": "function", "name": "tests.nothing_at_all"}
            body = {"name": key, "key": key, "schedule_type": "IMMEDIATE", "task": task}
            await eventually(partial(self._acknowledged, body), what=f"{key} is acknowledged")
            self.asked[key] = True

    async def _acknowledged(self, body: dict[str, Any]) -> bool:
        try:
            answer = await self.client.post("/jobs", json=body)
        except httpx2.HTTPError:
            return False
        # A repetition after a lost answer finds the key in use, by its own job.
        assert answer.status_code in (200, 201, 409, 503), answer.text
        return answer.status_code < 500

    async def settled(self) -> None:
        """Each job that was asked for has run, successfully."""

        async def states() -> list[str]:
            found: list[str] = []
            page: httpx2.Response | None = await self.client.get("/runs", params={"limit": 500})
            while page is not None:
                found += [run["status"] for run in page.raise_for_status().json()]
                further = page.links.get("next")
                page = None if further is None else await self.client.get(further["url"].removeprefix("/api/v1"))
            return found

        async def are_done() -> bool:
            found = await states()
            return len(found) >= len(self.asked) and set(found) == {"SUCCESS"}

        await eventually(are_done, what="all jobs have run")


def _opened_at(role: Role) -> str:
    return str(role.events("log_opened")[-1]["timestamp"])


@pytest_asyncio.fixture
async def cluster(cassandra_server_url: str, redis_server_url: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    """On a keyspace of its own."""
    async with keyspace(cassandra_server_url) as url:
        fleet = Fleet(
            url,
            tmp_path,
            TICKWISE_SIGNALS_URL=redis_server_url,
            TICKWISE_FUNCTION_MODULES=FUNCTIONS,
            TICKWISE_LEASE_SECONDS="4",
            TICKWISE_HEARTBEAT_SECONDS="0.5",
        )
        made = Cluster(fleet)
        with fleet.watched():
            try:
                await made.start()
                yield made
            finally:
                await made.client.aclose()


@pytest.mark.takes_up_to(180)
async def test_every_acknowledged_job_runs_while_owners_come_and_go(cluster: Cluster) -> None:
    """Killed, frozen past its lease and thawed, told to end: each time the other keeper goes on."""
    over = asyncio.Event()
    asking = [asyncio.create_task(cluster.ask(over)) for _ in range(1)]
    try:
        await _some_more(cluster)
        killed = cluster.owner
        killed.kill()
        await cluster.taken_over(killed)
        await _some_more(cluster)

        cluster.keepers.append(cluster.fleet.start("keeper"))
        await cluster.keepers[-1].ready()
        frozen = cluster.owner
        frozen.signal(signal.SIGSTOP)
        await cluster.taken_over(frozen)
        await _some_more(cluster)
        frozen.signal(signal.SIGCONT)
        await frozen.event("log_lost")  # it is told, and answers nothing more by what it knew

        leaving = cluster.owner
        leaving.signal(signal.SIGTERM)
        await cluster.taken_over(leaving)
        assert 0 == await leaving.ended()
        await _some_more(cluster)
    finally:
        over.set()
        await asyncio.gather(*asking)
    await cluster.settled()


async def _some_more(cluster: Cluster) -> None:
    """Jobs are acknowledged."""
    before = sum(cluster.asked.values())
    await eventually(lambda: sum(cluster.asked.values()) >= before + 20, what="jobs are acknowledged")


async def test_a_keeper_tells_its_metrics(cluster: Cluster) -> None:
    """At its health port: one of the keepers owns the shard, and counts commits and the calls of each role by name; one
    that waits for the shard tells nothing of it."""
    keepers = [cluster.fleet.start("keeper", "--health-port", "0") for _ in range(2)]
    urls = [str(await role.ready()) for role in keepers]
    for role in cluster.keepers:
        role.signal(signal.SIGTERM)
    await eventually(lambda: any(each.events("log_opened") for each in keepers), what="one of them owns the shard")
    answer = await cluster.client.post("/jobs", json=BODY)
    assert answer.status_code in (201, 503), answer.text

    async def told() -> list[dict[str, float]] | None:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            texts = [(await client.get(f"{url}/metrics")).raise_for_status().text for url in urls]
        found = [_keeper_samples(text) for text in texts]
        is_settled = sorted(each["owned"] for each in found) == [0, 1] and any(map(_is_asked, found))
        return found if is_settled and max(each["connections"] for each in found) >= 3 else None

    owner, waiting = sorted(await eventually(told, what="one owns, one waits"), key=lambda each: -each["owned"])
    assert owner["log_entries_total"] == owner["commit_seconds_count"] > 0
    assert owner["epoch"] >= 2
    assert owner["connections"] >= 3
    assert owner["loop_lag_seconds_count"] > 0
    assert math.isnan(waiting["epoch"])
    assert 0 == waiting["log_entries_total"]


def _is_asked(samples: dict[str, float]) -> bool:
    return any(name.startswith("calls_total") and value > 0 for name, value in samples.items())


def _keeper_samples(text: str) -> dict[str, float]:
    """Of the metrics of keepers, without the label of the shard."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    (executors,) = [each.value for each in samples if each.name == "tickwise_executors"]
    assert math.isnan(executors), "a keeper says how many executors there are, and does not know"
    return {
        " ".join([each.name.removeprefix("tickwise_keeper_"), each.labels.get("method", "")]).strip(): each.value
        for each in samples
        if each.name.startswith("tickwise_keeper_")
    }


async def test_a_keeper_needs_the_address_of_a_keyspace(cluster: Cluster) -> None:
    """And the other roles a Redis: each says what to do."""
    for words, settings, said in (
        (
            ("keeper",),
            {"TICKWISE_DATABASE_URL": "postgresql://nobody@localhost/none"},
            "this is for Cassandra alone",
        ),
        (("api", "--port", "0"), {"TICKWISE_SIGNALS_URL": ""}, "set TICKWISE_SIGNALS_URL=redis://"),
        (("up", "--port", "0"), {}, "`tickwise up` does not run on Cassandra"),
    ):
        role = cluster.fleet.start(*words, **settings)
        assert 0 != await role.ended()
        assert said in role.log.read_text()
