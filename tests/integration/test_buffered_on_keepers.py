"""Jobs are accepted through the broker while a keeper, its log, or the way to it is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.keepers import CLOCK, GatedServedStore, open_shards, served
from tests.support.waiting import eventually
from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.wire.remote import RemoteStore
from tickwise.adapters.store.sharded import placing
from tickwise.api import auth
from tickwise.control import circuit_breaker
from tickwise.control.namespaces import directory
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.identity.namespaces import NewNamespace

ASK_SECONDS = 0.3
SHELL = {"kind": "shell", "command": "date"}
LATER = "2031-01-01T00:00:00Z"


async def accepted(api: World, namespace: str, **body: Any) -> None:
    """A create is answered with 202."""
    job = {"name": "later", "task": SHELL, "at": LATER, **body}
    answer = await api.client.post(f"{API}/jobs", json=job, headers={"Tickwise-Namespace": namespace})
    assert 202 == answer.status_code, answer.text


@dataclass
class Stage:
    """An API that buffers, in front of one keeper."""

    keeper: GatedServedStore
    client: RemoteStore
    api: World

    async def accepted(self, namespace: str, **body: Any) -> None:
        """A create is answered with 202."""
        await accepted(self.api, namespace, **body)


@pytest_asyncio.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """The API has accepted a job in each of two namespaces. What it knows of keys and namespaces is old at once, so
    each later request asks the store."""
    async with served(tmp_path, CLOCK) as keeper:
        client = await keeper.client(patience_seconds=1.0)
        async with _api(client) as api:
            await client.namespaces.add(NewNamespace(name="team", display_name="Team", created_by="a test"))
            made = Stage(keeper, client, api)
            await made.accepted("default")
            await made.accepted("team")
            monkeypatch.setattr(circuit_breaker, "ASK_SECONDS", ASK_SECONDS)
            yield made


@contextlib.asynccontextmanager
async def _api(store: Any) -> AsyncIterator[World]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(auth, "KNOWN_SECONDS", 0.0)
        patched.setattr(directory, "KNOWN_SECONDS", 0.0)
        broker = MemoryBroker(Exchange(partitions=1), CLOCK)
        await broker.open("a-cluster")
        async with world(store=store, broker=broker) as api:
            yield api
        await broker.close()


async def dead(stage: Stage) -> None:
    """The keeper is gone; Cassandra still names it."""
    await stage.keeper.server.stop()


async def without_owner(stage: Stage) -> None:
    """The keeper is gone, and nobody owns the shard."""
    await stage.keeper.server.stop()
    stage.keeper.endpoint = ""


async def without_way(stage: Stage) -> None:
    """The keeper is gone, and Cassandra cannot be asked who has the shard."""
    await stage.keeper.server.stop()

    async def find() -> str:
        raise StoreUnavailable("Cassandra does not answer")

    stage.client._find = find


async def without_node(stage: Stage) -> None:
    """The keeper lives, and its log refuses what it writes."""
    stage.keeper.log.fails = StoreUnavailable("Cassandra does not answer")
    with contextlib.suppress(Exception):
        await _written(stage)


async def _written(stage: Stage) -> None:
    await stage.client.namespaces.add(NewNamespace(name="other", display_name="Other", created_by="a test"))


@pytest.mark.parametrize("harm", [dead, without_owner, without_way, without_node])
async def test_jobs_are_accepted_while_a_keeper_is_away(stage: Stage, harm: Callable[[Stage], Awaitable[None]]) -> None:
    """In the default namespace and in another one that was seen, with and without a key."""
    await harm(stage)
    for namespace in ("default", "team", "team"):
        await stage.accepted(namespace)
        await stage.accepted(namespace, key=f"of {namespace}")


async def test_a_store_that_hangs_is_waited_for_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper lives, and its log does not answer: what is written there waits, and so does what rests on it. One
    caller in a while tries; a request waits for no longer than one such try."""
    monkeypatch.setattr(circuit_breaker, "AWAY_SECONDS", 60.0)  # no request of this test comes after that while
    stage.keeper.log.gate.clear()
    waiting = asyncio.create_task(_written(stage))
    await eventually(lambda: stage.keeper.log.waiting)
    asked: list[str] = []
    find = stage.api.control.credentials._find

    async def counted(digest: bytes) -> Any:
        asked.append("key")
        return await find(digest)

    stage.api.control.credentials._find = counted
    await stage.accepted("team")
    await asyncio.gather(*(stage.accepted("team", key=f"n{number}") for number in range(20)))
    assert 3 > len(asked)
    stage.keeper.log.gate.set()
    await waiting


async def test_an_answer_that_was_lost_refuses_no_job(stage: Stage) -> None:
    """The link breaks while the API asks for the key and for the namespace: both are read, so nothing is in doubt."""
    stage.keeper.log.gate.clear()
    waiting = asyncio.create_task(_written(stage))
    await eventually(lambda: stage.keeper.log.waiting)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(circuit_breaker, "ASK_SECONDS", 30.0)
        asking = asyncio.create_task(stage.accepted("team"))
        link = stage.client._link
        assert link is not None
        await eventually(lambda: len(link._waiting) > 1, what="the API asks, too")
        stage.keeper.endpoint = ""
        link.abort()
        with contextlib.suppress(Exception):
            await waiting
        await asking
    stage.keeper.log.gate.set()


async def test_jobs_are_accepted_while_the_map_of_shards_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the first shard, as the keys are. A namespace of another shard and one of the first are both served."""
    logs = [FileLog(tmp_path / name, sync=lambda _file: None) for name in ("first", "second")]
    async with open_shards(logs, CLOCK, by_wire=True) as shards, _api(shards.unopened()) as api:
        names = [f"team{number}" for number in range(8)]
        for name in names:
            await api.store.namespaces.add(NewNamespace(name=name, display_name=name, created_by="a test"))
            await accepted(api, name)
        places = (await shards.stores[0].shard_map.read()).places
        assert {1, 2} == {places[name].shard for name in names}
        monkeypatch.setattr(circuit_breaker, "ASK_SECONDS", ASK_SECONDS)
        monkeypatch.setattr(placing, "MAP_SECONDS", 0.0)
        assert shards.server is not None
        await shards.server.withdraw(1)
        for name in names:
            await accepted(api, name)
        shards.server.serve(1, shards.stores[0])
