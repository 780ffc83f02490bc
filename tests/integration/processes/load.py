"""Many clients that submit single jobs and never give one up: what the roles are under when they are killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import asyncpg
import httpx2

from tests.integration.processes.fleet import api_client
from tests.integration.processes.witness import SQL, Witness
from tests.support.waiting import eventually

CLIENTS = 8
PATIENCE_SECONDS = 90.0


class Load:
    """Each client sends a job under a key of its own, and the same again until it is acknowledged."""

    def __init__(self, url: str, witness: Witness) -> None:
        self.url = url
        """Where to send; may be changed while the clients work."""
        self.acknowledged: dict[str, str] = {}
        """The name of each job that a 201 came for, with its id."""
        self.statuses: Counter[int] = Counter()
        self.retry_after: set[str] = set()
        """What the answers with 503 said about when to come again."""
        self._witness = witness
        self._numbers = count()

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """The clients work until the block is left; then each brings its last job to its acknowledgement."""
        enough = asyncio.Event()
        clients = [asyncio.create_task(self._client(enough)) for _ in range(CLIENTS)]
        try:
            yield
        finally:
            enough.set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.gather(*clients)

    async def acknowledges(self, more: int) -> None:
        """Wait for so many further acknowledgements."""
        goal = len(self.acknowledged) + more
        await eventually(
            lambda: len(self.acknowledged) >= goal, within_seconds=PATIENCE_SECONDS, what=f"{goal} acknowledged jobs"
        )

    async def _client(self, enough: asyncio.Event) -> None:
        async with api_client() as client:
            while not enough.is_set():
                name = f"job {next(self._numbers)}"
                job_id = await eventually(
                    partial(self._submit, client, name), within_seconds=PATIENCE_SECONDS, what=name
                )
                self.acknowledged[name] = job_id

    async def _submit(self, client: httpx2.AsyncClient, name: str) -> str | None:
        """One attempt; None if it has to be repeated."""
        body = {
            "name": name, "schedule_type": "IMMEDIATE", "payload": self._witness.payload,
            "task": {"kind": "function", "name": "tests.witness"},
        }  # fmt: skip
        try:
            answer = await client.post(f"{self.url}/api/v1/jobs", json=body, headers={"Idempotency-Key": name})
        except httpx2.TransportError:
            return None
        self.statuses[answer.status_code] += 1
        if answer.status_code == 503:
            self.retry_after.add(answer.headers["Retry-After"])
            return None
        assert 201 == answer.status_code, answer.text
        return str(answer.json()["job_id"])


async def each_once(connection: asyncpg.Connection, load: Load, ended: Any) -> None:
    """Every acknowledged job is there, as often as it was meant, and its one run has ended; and so of any other job."""
    jobs = {str(row["job_id"]): row["name"] for row in await connection.fetch(SQL["jobs_by_name"])}
    assert load.acknowledged == {name: job_id for job_id, name in jobs.items() if name in load.acknowledged}
    assert len(jobs) == len(set(jobs.values())), "a repeated request made a second job"
    assert Counter(jobs.keys()) == Counter(str(row["job_id"]) for row in ended)
