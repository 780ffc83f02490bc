"""Four shards and several keepers under load: one is killed, others come, one is told to end. Each job that was
acknowledged runs once, and at the end all keepers have as many shards."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Fleet, Role, api_client
from tests.support.cassandras import keyspace, linked
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.registry import CassandraRegistry
from tickwise.adapters.store.keeper.shards import shard_numbers
from tickwise.adapters.store.sharded.placing import rendezvous

pytestmark = pytest.mark.thorough
SHARDS: Final = 4
BETWEEN: Final = 12
"""Jobs that are acknowledged between two events, of all namespaces together."""


def _names() -> list[str]:
    """For each shard a namespace that is placed there."""
    found: dict[int, str] = {}
    for number in itertools.count():
        found.setdefault(rendezvous(f"team-{number}", shard_numbers(SHARDS)), f"team-{number}")
        if len(found) == SHARDS:
            return [*found.values()]
    raise AssertionError


class SharedShards:
    """The roles on one keyspace, and what was asked of them."""

    def __init__(self, fleet: Fleet, registry: CassandraRegistry) -> None:
        self.fleet = fleet
        self.names = _names()
        self.asked: Counter[str] = Counter()
        self.client = api_client()
        self._registry = registry

    async def start(self) -> list[Role]:
        """Two keepers with two shards each, and one of each other role; the keepers."""
        keepers = [self.fleet.start("keeper") for _ in range(2)]
        await self.even(keepers)
        others = [self.fleet.start(*words) for words in (("api", "--port", "0"), ("scheduler",), ("executor",))]
        urls = [await role.ready() for role in others]
        self.client = api_client(urls[0] or "")
        for name in self.names:
            (await self.client.post("/namespaces", json={"name": name})).raise_for_status()
        return keepers

    async def even(self, keepers: Sequence[Role]) -> None:
        """All shards are these keepers', and none has two more than another one."""
        addresses = [(await keeper.event("keeper_listens"))["endpoint"] for keeper in keepers]

        async def are_even() -> bool:
            owners = [owner.partition("/")[0] for owner in (await self._registry.owners()).values()]
            counts = [owners.count(address) for address in addresses]
            return sum(counts) == SHARDS and max(counts) - min(counts) <= 1

        await eventually(are_even, within_seconds=60.0, what=f"{len(keepers)} keepers share the shards evenly")

    async def ask(self, name: str, over: asyncio.Event) -> None:
        """Ask for one job of a namespace after the other, each until it is acknowledged."""
        while not over.is_set():
            key = f"job-{self.asked[name]}"
            task = {"kind": "function", "name": "tests.nothing_at_all"}
            body = {"name": key, "key": key, "schedule_type": "IMMEDIATE", "task": task}
            await eventually(
                partial(self._acknowledged, name, body), within_seconds=60.0, what=f"{key} of {name} is acknowledged"
            )
            self.asked[name] += 1

    async def _acknowledged(self, name: str, body: dict[str, Any]) -> bool:
        try:
            answer = await self.client.post("/jobs", json=body, headers={"Tickwise-Namespace": name})
        except httpx2.HTTPError:
            return False
        # A repetition after a lost answer finds the key in use, by its own job.
        assert answer.status_code in (200, 201, 409, 503), answer.text
        return answer.status_code < 500

    async def some_more(self) -> None:
        """Jobs of every namespace are acknowledged."""
        before = self.asked.copy()
        each = BETWEEN // SHARDS
        await eventually(
            lambda: all(self.asked[name] >= before[name] + each for name in self.names),
            within_seconds=60.0, what="jobs of all namespaces are acknowledged",
        )  # fmt: skip

    async def settled(self) -> None:
        """Each job that was asked for has run once, successfully."""
        for name in self.names:
            await eventually(partial(self._has_run_once, name), within_seconds=60.0, what=f"all jobs of {name} ran")

    async def _has_run_once(self, name: str) -> bool:
        runs: Counter[str] = Counter()
        states: set[str] = set()
        headers = {"Tickwise-Namespace": name}
        page = await self.client.get("/runs", params={"limit": 500}, headers=headers)
        while True:
            for run in page.raise_for_status().json():
                runs[run["job_id"]] += 1
                states.add(run["status"])
            further = page.links.get("next")
            if further is None:
                break
            page = await self.client.get(further["url"].removeprefix("/api/v1"), headers=headers)
        assert max(runs.values()) == 1, "a job that runs at once has one run"
        return len(runs) == self.asked[name] and states == {"SUCCESS"}


@pytest_asyncio.fixture
async def shared(cassandra_server_url: str, redis_server_url: str, tmp_path: Path) -> AsyncIterator[SharedShards]:
    """On a keyspace of its own."""
    async with keyspace(cassandra_server_url, SHARDS) as url, linked(url) as link:
        fleet = Fleet(
            url,
            tmp_path,
            TICKWISE_SIGNALS_URL=redis_server_url,
            TICKWISE_FUNCTION_MODULES="tests.integration.processes.tasks",
        )
        made = SharedShards(fleet, CassandraRegistry(link, shard_numbers(SHARDS)))
        with fleet.watched():
            try:
                yield made
            finally:
                await made.client.aclose()


@pytest.mark.takes_up_to(300)
async def test_keepers_share_shards_evenly_while_they_come_and_go(shared: SharedShards) -> None:
    """A killed one's shards spread over those that are left, a new one gets its share, and one that ends leaves its
    own to the others. Nothing that was acknowledged is lost, and nothing runs twice."""
    over = asyncio.Event()
    killed, leaving = await shared.start()
    asking = [asyncio.create_task(shared.ask(name, over)) for name in shared.names]
    try:
        await shared.some_more()
        killed.kill()
        await shared.even([leaving])
        await shared.some_more()

        before = len(leaving.events("shard_handed_over"))
        third = shared.fleet.start("keeper")
        await shared.even([leaving, third])
        moved = len(leaving.events("shard_handed_over")) - before
        assert (2, 0) == (moved, len(third.events("shard_handed_over"))), "no shard moves in vain"
        fourth = shared.fleet.start("keeper")
        await shared.even([leaving, third, fourth])
        await shared.some_more()

        leaving.signal(signal.SIGTERM)
        assert 0 == await leaving.ended()
        await shared.even([third, fourth])
        await shared.some_more()
    finally:
        over.set()
        await asyncio.gather(*asking)
    await shared.settled()
    lost = [role.log.name for role in (leaving, third, fourth) if role.events("log_lost")]
    assert not lost, "a shard is handed over, and never taken from one that lives"
