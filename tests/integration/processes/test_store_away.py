"""Keepers or Cassandra are away: what an operator is told by probes and reports of each role and by `tickwise status`
(soon, with the cause, without an address of a machine), and what becomes of the jobs of those who submit meanwhile.

`STALL_SECONDS=60 pytest -s …` lets the node stand still for longer, and prints the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx2
import psutil
import pytest
import pytest_asyncio

from tests.integration.processes.fleet import KEY, Fleet, Role, api_client
from tests.services.cassandra import Cassandra
from tests.support.cassandras import keyspace
from tests.support.local_up import environment, run_command
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.testing.factories import Factory
from tickwise.wiring.cassandra.stores import KeyspaceStore

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(400)]
PROBE_SECONDS = 8.0
"""A probe of these tests gives up after that: far above the 2 s that it may take, below the 10 s that a call waits."""
COMMAND_SECONDS = 15.0
"""A command that waits for its own request takes 21 s."""


class Installation:
    """A node that may be harmed, and one process of each role with its health port."""

    def __init__(self, node: Cassandra, fleet: Fleet, database_url: str) -> None:
        self.node, self.fleet, self.database_url = node, fleet, database_url
        self.keeper: Role
        self.urls: dict[str, str] = {}

    async def start(self) -> None:
        """All of them, once they are ready."""
        await self.start_keeper()
        roles = {
            name: self.fleet.start(*words)
            for name, words in (
                ("api", ("api", "--port", "0")),
                ("scheduler", ("scheduler", "--health-port", "0")),
                ("executor", ("executor", "--health-port", "0")),
            )
        }
        for name, role in roles.items():
            self.urls[name] = str(await role.ready())
        await self.all_ready()

    async def start_keeper(self) -> None:
        """One, which owns the shard."""
        self.keeper = self.fleet.start("keeper", "--health-port", "0")
        self.urls["keeper"] = str(await self.keeper.ready())
        await self.keeper.event("log_opened")

    async def get(self, role: str, path: str) -> httpx2.Response:
        """One answer, which must come soon."""
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=PROBE_SECONDS) as client:
            return await client.get(f"{self.urls[role]}{path}")

    async def all_ready(self) -> None:
        """Each role says so."""

        async def ready() -> bool:
            answers = await asyncio.gather(*(self.get(role, "/readyz") for role in self.urls))
            return {200} == {each.status_code for each in answers}

        await eventually(ready, what="all roles are ready")

    async def says(self, role: str, path: str, words: str) -> str:
        """The text of a refusal that has these words, once there is one."""
        seen: list[str] = []

        async def told() -> str | None:
            answer = await self.get(role, path)
            seen[:] = [answer.text]
            return answer.text if answer.status_code == 503 and words in answer.text else None

        try:
            return await eventually(told, what=f"{path} of the {role} says {words!r}")
        except AssertionError as failure:
            failure.add_note(f"it says: {seen}")
            raise

    async def status(self) -> tuple[int, str]:
        """The end of `tickwise status`, and its words."""
        words = ["status", "--url", self.urls["api"], "--api-key", KEY]
        ran = await asyncio.wait_for(asyncio.to_thread(run_command, words, environment()), COMMAND_SECONDS)
        return ran.code, ran.err


@pytest_asyncio.fixture
async def here(redis_server_url: str, tmp_path: Path) -> AsyncIterator[Installation]:
    """On a node of its own."""
    async with Cassandra() as node, keyspace(node.url) as url:
        fleet = Fleet(url, tmp_path, TICKWISE_SIGNALS_URL=redis_server_url)
        made = Installation(node, fleet, url)
        with fleet.watched():
            await made.start()
            yield made


def without_addresses(text: str, here: Installation) -> None:
    """Anybody may ask."""
    assert here.node.address not in text
    assert "127.0.0.1" not in text, text


async def test_the_missing_one_is_named(here: Installation) -> None:
    """The keeper that was killed, with what to do; then Cassandra, also by an owner whose lease is over meanwhile. All
    of them go on by themselves."""
    here.keeper.kill()
    del here.urls["keeper"]
    for role in here.urls:
        without_addresses(await here.says(role, "/readyz", "no keeper answers"), here)
        part: Any = "failing" if role == "api" else "No keeper answers this process: start `tickwise keeper`."
        without_addresses(await here.says(role, "/healthz", part), here)
    code, told = await here.status()
    assert (3, True) == (code, "start `tickwise keeper`" in told), told

    await here.start_keeper()
    await here.all_ready()

    here.node.freeze()
    try:
        await here.says("keeper", "/healthz", "Cassandra d")  # it did not answer a renewal, or does not an append
        for role in ("keeper", "api", "scheduler", "executor"):
            without_addresses(await here.says(role, "/readyz", "Cassandra does not answer"), here)
        for role in ("scheduler", "executor"):
            without_addresses(await here.says(role, "/healthz", "Cassandra does not answer. Nothing new starts"), here)
        code, told = await here.status()
        assert (3, True) == (code, "Cassandra does not answer" in told), told
    finally:
        here.node.thaw()
    await here.all_ready()
    code, told = await here.status()
    assert 0 == code, told


CLOCK: Final = SystemClock()
STALL_SECONDS: Final = float(os.environ.get("STALL_SECONDS", "15"))
SUBMITS: Final = 500
"""A second."""
STEP_SECONDS: Final = 0.02
DEFINITION: Final = '{"schedule_type":"FUTURE","task":{"kind":"shell","command":"true"},"description":"%s"}' % (
    "x" * 4_000
)
GROWTH_BYTES: Final = 64 << 20
"""The most that a keeper may grow while the node stands still. If it kept what came meanwhile, it would be above 8 kB
for each submit: 60 MB in 15 s, and 240 MB in a minute."""


class Submits:
    """So many jobs a second, each in a call of its own, and their answers."""

    def __init__(self, store: KeyspaceStore, make: Factory, due: float) -> None:
        self._store, self._make, self._due = store, make, due
        self.acknowledged: set[UUID] = set()
        self.refused: set[UUID] = set()
        self.doubted: set[UUID] = set()
        self.under_way: set[asyncio.Task[None]] = set()
        self.most_under_way = 0

    async def run(self, over: asyncio.Event) -> None:
        """Until then; whether calls are answered changes nothing."""
        while not over.is_set():
            for _ in range(round(SUBMITS * STEP_SECONDS)):
                task = asyncio.create_task(self._submit())
                self.under_way.add(task)
                task.add_done_callback(self.under_way.discard)
            self.most_under_way = max(self.most_under_way, len(self.under_way))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), STEP_SECONDS)
        await asyncio.gather(*self.under_way)

    async def _submit(self) -> None:
        job = self._make.job(self._due, definition=DEFINITION)
        try:
            await self._store.jobs.add([job])
        except InDoubt:
            self.doubted.add(job.job_id)
        except StoreUnavailable:
            self.refused.add(job.job_id)
        else:
            self.acknowledged.add(job.job_id)

    async def there(self, ids: set[UUID]) -> set[UUID]:
        """Those of these jobs that the store has."""
        left, found = [*ids], set[UUID]()
        while left:
            part, left = left[:200], left[200:]
            rows = await asyncio.gather(*(self._store.jobs.get(DEFAULT_NAMESPACE, each) for each in part))
            found |= {each for each, row in zip(part, rows, strict=True) if row is not None}
        return found


async def _asks(client: httpx2.AsyncClient, over: asyncio.Event, answers: list[httpx2.Response]) -> None:
    """One job after the other through the API."""
    body = {"name": "one", "schedule_type": "ON_DEMAND", "task": {"kind": "shell", "command": "true"}}
    while not over.is_set():
        answers.append(await client.post("/jobs", json=body))


async def _largest(pid: int, over: asyncio.Event) -> int:
    """The most memory that a process has until then."""
    process, most = psutil.Process(pid), 0
    while not over.is_set():
        most = max(most, process.memory_info().rss)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), 0.1)
    return most


async def test_a_node_that_stands_still_under_load_loses_nothing_that_was_acknowledged(here: Installation) -> None:
    """Callers are told to come back, what was refused is not there, and the keeper does not keep what it cannot write:
    also the next owner has all that was acknowledged."""
    store = KeyspaceStore(read_address(here.database_url), CLOCK)
    over, thawed = asyncio.Event(), asyncio.Event()
    answers: list[httpx2.Response] = []
    async with contextlib.AsyncExitStack() as stack:
        await store.open()
        stack.push_async_callback(store.close)
        client = await stack.enter_async_context(api_client(here.urls["api"]))
        client.timeout = 60
        now = await store.now()
        submits = Submits(store, Factory(now, seed="stalled"), now + 86_400.0)
        submitting = asyncio.create_task(submits.run(over))
        await eventually(lambda: len(submits.acknowledged) > 5 * SUBMITS, what="a flow of submits")
        before = psutil.Process(here.keeper.pid).memory_info().rss
        growing = asyncio.create_task(_largest(here.keeper.pid, thawed))
        asking = asyncio.create_task(_asks(client, thawed, answers))
        here.node.freeze()
        try:
            await CLOCK.sleep(STALL_SECONDS)
            await eventually(lambda: any(503 == each.status_code for each in answers), within_seconds=60,
                             what="the API tells its caller to come back")  # fmt: skip
        finally:
            here.node.thaw()
        thawed.set()
        grown = await growing - before
        acknowledged = len(submits.acknowledged)
        await eventually(lambda: len(submits.acknowledged) > acknowledged + SUBMITS, what="the flow goes on")
        over.set()
        await asyncio.gather(submitting, asking)
        told = Counter((each.status_code, each.json().get("code")) for each in answers)
        print(  # noqa: T201  # figures are for people
            f"{STALL_SECONDS:g} s: {len(submits.acknowledged)} acknowledged, {len(submits.refused)} refused, "
            f"{len(submits.doubted)} in doubt, at most {submits.most_under_way} under way; keeper {before >> 20} MB "
            f"+ {grown >> 20} MB; API {dict(told)}"
        )
        assert grown < GROWTH_BYTES
        assert {(201, None), (503, "store_unavailable"), (503, "in_doubt")} >= told.keys()
        assert all("Retry-After" in each.headers for each in answers if each.status_code == 503)
        assert submits.refused, "nobody was told to come back"
        assert submits.acknowledged == await submits.there(submits.acknowledged)
        assert set() == await submits.there(submits.refused)
        here.keeper.kill()
        await here.start_keeper()
        assert submits.acknowledged == await submits.there(submits.acknowledged)
