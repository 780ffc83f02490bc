"""An API and a scheduler on a database of their own, and what a test asks of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import psutil

from tests.integration.processes.fleet import Fleet, Role, api_client
from tests.support.waiting import eventually

SETTINGS = {"TICKWISE_LEASE_SECONDS": "60", "TICKWISE_HEARTBEAT_SECONDS": "0.3"}
"""A lease that no stall of a busy machine costs."""
DOOMED = {"TICKWISE_LEASE_SECONDS": "10"}
"""For an executor that is frozen until its lease is over: short enough to wait for, and longer than a busy machine is
likely to stand still before that. One that is killed needs none: see `House.expire`."""


EXPIRE = "UPDATE tickwise.executors SET lease = born, lease_seconds = 0 WHERE executor = ANY($1) AND gone IS NULL"
"""No lease ends sooner after a start of the server than it lasts: so it lasts no time."""


class House:
    """The two of them, and executors on demand, each test's on a queue of its own."""

    def __init__(self, fleet: Fleet, client: httpx2.AsyncClient, database_url: str) -> None:
        self.fleet = fleet
        self.client = client
        self._database_url = database_url

    async def executor(self, queue: str, **settings: str) -> Role:
        """One at work on that queue."""
        role = self.fleet.start("executor", TICKWISE_QUEUES=queue, **settings)
        await role.ready()
        return role

    async def expire(self, lost: Role) -> None:
        """Its lease is over now, as if the time had passed; it is killed or frozen, and the scheduler finds that."""
        number = lost.events("executor_joined")[-1]["executor"]
        connection = await asyncpg.connect(self._database_url)

        async def is_gone() -> bool:
            # Again and again: a last renewal may have been under way.
            await connection.execute(EXPIRE, [number])
            found = await connection.fetchval("SELECT gone FROM tickwise.executors WHERE executor = $1", number)
            return found is not None

        try:
            await eventually(is_gone, what="it is taken for dead")
        finally:
            await connection.close()

    async def submit(self, **body: Any) -> str:
        """The id of a new job that runs at once; of its run, see `run`."""
        answer = await self.client.post("/jobs", json={"name": "a", "schedule_type": "IMMEDIATE", **body})
        assert 201 == answer.status_code, answer.text
        return str(answer.json()["job_id"])

    async def run(self, job_id: str) -> dict[str, Any]:
        """The one run of the job, with its attempts."""
        (run,) = (await self.client.get(f"/jobs/{job_id}/runs")).json()
        found: dict[str, Any] = (await self.client.get(f"/runs/{run['run_id']}")).json()
        return found

    async def until(self, job_id: str, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The one run of the job, as soon as that holds."""

        async def look() -> dict[str, Any] | None:
            found = await self.run(job_id)
            return found if holds(found) else None

        try:
            return await eventually(look, what=what)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{await self.run(job_id)}\n{self.fleet.logs()}") from None

    async def ended(self, job_id: str) -> dict[str, Any]:
        """The one run of the job, after its end."""
        final = {"SUCCESS", "FAILED", "CANCELLED", "SKIPPED"}
        return await self.until(job_id, lambda run: run["status"] in final, "the run ends")


@asynccontextmanager
async def runtime(database_url: str, folder: Path, **settings: str) -> AsyncIterator[House]:
    """Both at work, on an upgraded database."""
    fleet = Fleet(database_url, folder, **{**SETTINGS, **settings})
    try:
        scheduler, api = fleet.start("scheduler"), fleet.start("api", "--port", "0")
        url = await api.ready()
        await scheduler.ready()
        assert url is not None
        async with api_client(url, timeout=60) as client:
            yield House(fleet, client, database_url)
    finally:
        fleet.stop()


class Errand:
    """A shell task that says which process it is, leaves a child in another session, and waits for its errand's end."""

    def __init__(self, folder: Path) -> None:
        self._said = folder / "said"
        self._end = folder / "end"
        self._done = folder / "done"

    def task(self) -> dict[str, str]:
        """As a job names it."""
        command = (
            f'setsid sleep 600 & echo "$TICKWISE_FENCING_TOKEN $$ $!" >> {self._said}; '
            f"until [ -e {self._end} ]; do sleep 0.02; done; "
            f'echo "$TICKWISE_FENCING_TOKEN" >> {self._done}'
        )
        return {"kind": "shell", "command": command}

    def attempts(self) -> list[list[int]]:
        """Of each attempt that began, in order: token, its process, its child."""
        lines = self._said.read_text().splitlines() if self._said.exists() else []
        return [[int(word) for word in line.split()] for line in lines]

    async def begun(self, count: int) -> list[int]:
        """The processes of the `count`th attempt, once it has begun."""
        attempts = await eventually(
            lambda: found if len(found := self.attempts()) >= count else None,
            what=f"attempt {count} begins",
        )
        return attempts[count - 1][1:]

    def end(self) -> None:
        """Let it end."""
        self._end.touch()

    def done(self) -> list[int]:
        """The tokens of the attempts that came to their end."""
        return [int(line) for line in self._done.read_text().split()] if self._done.exists() else []


def active(pids: list[int]) -> list[int]:
    """Those of these processes that are there, zombies left out."""

    def lives(pid: int) -> bool:
        try:
            return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    return [pid for pid in pids if lives(pid)]


async def gone(pids: list[int], *, within_seconds: float = 60.0) -> None:
    """Wait until none of these processes is there any more."""
    await eventually(lambda: not active(pids), within_seconds=within_seconds, what=f"{pids} end")
