"""A keyspace is set back to a copy of its disk: no fencing token is given twice, what executors hold is put right, and
an operator is told what runs again."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Fleet, Role, api_client
from tests.services.cassandra import Cassandra
from tests.support.cassandras import keyspace
from tests.support.local_up import environment, run_command
from tests.support.waiting import eventually
from tickwise.domain.fencing import epoch_of

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(400)]


class Site:
    """A node whose disk may be put back, and the roles on it."""

    def __init__(self, node: Cassandra, fleet: Fleet, database_url: str, folder: Path) -> None:
        self.node, self.fleet, self.database_url, self.folder = node, fleet, database_url, folder
        self.client = api_client()
        self.keeper: Role
        self.others: list[Role] = []
        self.jobs: dict[str, str] = {}
        """The ids of jobs, by their names."""

    async def start(self) -> None:
        """Once they are ready."""
        await self.start_keeper()
        await self.start_others()

    async def start_keeper(self) -> None:
        """The owner of the one shard."""
        self.keeper = self.fleet.start("keeper")
        await self.keeper.ready()
        await self.keeper.event("log_opened")

    async def start_others(self) -> None:
        """All but the keeper."""
        self.others = [self.fleet.start(*words) for words in (("api", "--port", "0"), ("scheduler",), ("executor",))]
        urls = [await role.ready() for role in self.others]
        await self.client.aclose()
        self.client = api_client(urls[0] or "", timeout=60)

    async def stop(self, *roles: Role) -> None:
        """In order."""
        for role in roles:
            role.signal(signal.SIGTERM)
        for role in roles:
            await role.ended()

    @property
    def executor(self) -> Role:
        """The one of the last start."""
        return self.others[-1]

    # ------------------------------------------------------------------ its disk

    async def keep(self) -> None:
        """Back up: a copy of the disk, made while nothing writes."""
        await self.stop(self.keeper)
        await self.node.stop()
        await asyncio.to_thread(shutil.copytree, self.node.folder / "data", self.folder / "copy")
        await self.node.start()
        await self.start_keeper()

    async def put_back(self) -> None:
        """What was written since the backup is gone."""
        await self.stop(self.keeper)
        await self.node.stop()
        await asyncio.to_thread(shutil.rmtree, self.node.folder / "data")
        await asyncio.to_thread(shutil.copytree, self.folder / "copy", self.node.folder / "data")
        await self.node.start()
        await self.start_keeper()

    # ------------------------------------------------------------------ its jobs

    async def tokens(self, name: str, count: int = 1) -> list[int]:
        """The fencing tokens of so many jobs, by the word of their tasks."""
        file = self.folder / name
        for number in range(count):
            task = {"kind": "function", "name": "tests.witness"}
            await self._submit(f"{name}-{number}", payload={"witness": str(file)}, task=task)

        def lines() -> list[str] | None:
            found = file.read_text().splitlines() if file.exists() else []
            return found if len(found) >= count else None

        return [int(line.split()[2]) for line in await eventually(lines, what=f"{name}: {count} jobs have run")]

    async def holding(self, name: str) -> Path:
        """A job whose task runs until the file is there."""
        door = self.folder / name
        command = f"while [ ! -e {door} ]; do sleep 0.05; done"
        await self._submit(name, task={"kind": "shell", "command": command})
        await eventually(lambda: self.has(name, "RUNNING"), what=f"the store knows that {name} runs")
        return door

    async def status_of(self, name: str) -> list[str]:
        """The states of the runs of a job."""
        found = (await self.client.get("/runs", params={"limit": 100})).raise_for_status().json()
        return [each["status"] for each in found if each["job_id"] == self.jobs[name]]

    async def has(self, name: str, state: str) -> bool:
        """Check whether the job has one run, in this state."""
        return [state] == await self.status_of(name)

    async def _submit(self, name: str, **fields: Any) -> None:
        answer = await self.client.post("/jobs", json={"name": name, "schedule_type": "IMMEDIATE", **fields})
        assert 201 == answer.status_code, answer.text
        self.jobs[name] = answer.json()["job_id"]

    def command(self, *words: str) -> Any:
        """The answer of `tickwise … --json`."""
        ran = run_command((*words, "--json"), environment(TICKWISE_DATABASE_URL=self.database_url))
        assert ran.out, ran.err
        return json.loads(ran.out)

    def continuity(self) -> str:
        """The finding of `tickwise doctor`: its level and its words."""
        [found] = [each for each in self.command("doctor") if each["name"] == "continuity"]
        return f"{found['level']}: {found['detail']}"


@pytest_asyncio.fixture
async def site(redis_server_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """On a node of its own."""
    async with Cassandra() as node, keyspace(node.url) as url:
        fleet = Fleet(
            url,
            tmp_path,
            TICKWISE_SIGNALS_URL=redis_server_url,
            TICKWISE_FUNCTION_MODULES="tests.integration.processes.tasks",
            TICKWISE_LEASE_SECONDS="300",
            TICKWISE_HEARTBEAT_SECONDS="0.5",
        )
        made = Site(node, fleet, url, tmp_path)
        with fleet.watched():
            try:
                await made.start()
                yield made
            finally:
                await made.client.aclose()


async def test_what_was_claimed_before_a_restore_is_not_taken_for_what_is_claimed_after(site: Site) -> None:
    """An executor that lives through it goes on with the run that it held at the time of the backup, stops what was
    claimed since, for nothing knows of that, and says so. `tickwise db restored` says what runs again. The same backup
    is restored twice: each time other tokens are lost, and none is given again."""
    given = await site.tokens("before")
    door = await site.holding("held")
    await site.keep()
    given += await site.tokens("lost", 5)
    await site.holding("forgotten")

    await site.put_back()
    given += await site.tokens("after")
    await site.executor.event("held_otherwise")
    assert [] == await site.status_of("lost-0") == await site.status_of("forgotten")
    door.touch()
    await eventually(lambda: site.has("held", "SUCCESS"), what="what was held goes on")
    said = await asyncio.to_thread(site.continuity)
    assert said.startswith("warning: shard 0: executors knew better of 1 runs than the database"), said
    report = await asyncio.to_thread(site.command, "db", "restored")
    assert (0, 1) == (report["held"], report["executors"])
    given += await site.tokens("later", 3)
    assert {report["epoch"]} == {epoch_of(token) for token in given[-3:]}

    await site.stop(*site.others)
    await site.put_back()
    again = await asyncio.to_thread(site.command, "db", "restored")
    assert (1, report["epoch"]) == (again["held"], again["epoch"]), "the backup knows nothing of the epoch after it"
    await site.start_others()
    given += await site.tokens("again", 3)
    assert sorted(set(given)) == given
    assert "an operator said that a backup was restored" in await asyncio.to_thread(site.continuity)
