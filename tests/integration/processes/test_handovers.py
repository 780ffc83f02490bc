"""The end of a run in one process lets the run that waits for it begin in another one, by nothing but a wake-up.

Nobody here looks for work by itself, or hears what it is to stop, before a test would have given up: executors look
once a minute, and there is no scheduler. What tasks write to a file of the test's is the witness.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx2
import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Fleet, api_client
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade

LOOK_SECONDS: Final = 60.0
GIVE_UP_SECONDS: Final = 50.0
"""Sooner than anybody looks: each wake-up that is missing fails the test."""
SETTINGS: Final = {
    "TICKWISE_POLL_SECONDS": f"{LOOK_SECONDS:g}",
    "TICKWISE_HEARTBEAT_SECONDS": "60",
    "TICKWISE_LEASE_SECONDS": "300",
    "TICKWISE_FUNCTION_MODULES": "tests.integration.processes.tasks",
}
RUNS: Final = 20
YEARLY: Final = {"schedule_type": "CRON", "cron_expression": "0 0 1 1 *"}
SEEN_SECONDS: Final = 0.5
"""Claims have read past what has been ready for so long."""

WAITED = "SELECT min(now() - queued) > $1 * interval '1 second' FROM tickwise.runs WHERE job_id = $2"


class Here:
    """Two executors at work, and what a test asks of them."""

    def __init__(self, fleet: Fleet, client: httpx2.AsyncClient, witness: Path) -> None:
        self.fleet = fleet
        self.client = client
        self.witness = witness

    async def ask(self, path: str, status: int, body: Any = None) -> Any:
        answer = await self.client.post(path, json=body)
        assert status == answer.status_code, answer.text
        return answer.json()

    async def job(self, name: str, queue: str = "left", **body: Any) -> str:
        """The id of a new job of this function."""
        task = {"task": {"kind": "function", "name": name}, "payload": {"witness": str(self.witness)}}
        return str((await self.ask("/jobs", 201, {"name": "a", "queue": queue, **task, **body}))["job_id"])

    async def run(self, job_id: str, **body: Any) -> str:
        """The id of a run that is asked for."""
        return str((await self.ask(f"/jobs/{job_id}/runNow", 202, body or None))["run_id"])

    def said(self, word: str) -> list[str]:
        """The runs whose tasks said so, in that order."""
        return [run for said, run in self._lines() if said == word]

    async def until(self, word: str, count: int) -> list[str]:
        """The same, as soon as so many did."""
        try:
            return await eventually(
                lambda: found if len(found := self.said(word)) >= count else None,
                within_seconds=GIVE_UP_SECONDS,
                what=f"{count} {word}",
            )
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.fleet.logs()}") from None

    def check_one_at_a_time(self) -> None:
        """None began before the one before it had ended."""
        lines = self._lines()
        assert [word for word, _ in lines] == ["begins", "ends"] * (len(lines) // 2)
        assert all(before[1] == after[1] for before, after in zip(lines[::2], lines[1::2], strict=True))

    def _lines(self) -> list[list[str]]:
        return [line.split() for line in self.witness.read_text().splitlines()] if self.witness.exists() else []


@pytest.fixture(scope="module", params=["postgresql", "redis"])
def signals(request: pytest.FixtureRequest) -> dict[str, str]:
    """By which way processes wake each other."""
    return {"TICKWISE_SIGNALS_URL": request.getfixturevalue("redis_url")} if request.param == "redis" else {}


@pytest_asyncio.fixture(scope="module")
async def fleet(
    database_url: str, signals: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Fleet, httpx2.AsyncClient]]:
    """An API and two executors, each with a queue of its own and one that both serve."""
    await upgrade(database_url)
    made = Fleet(database_url, tmp_path_factory.mktemp("fleet"), **SETTINGS, **signals)
    try:
        api = made.start("api", "--port", "0")
        executors = [made.start("executor", TICKWISE_QUEUES=queues) for queues in ("left,both", "right,both")]
        for role in executors:
            await role.ready()
        url = await api.ready()
        assert url is not None
        async with api_client(url, timeout=60) as client:
            yield made, client
    finally:
        made.stop()


@pytest.fixture
def here(fleet: tuple[Fleet, httpx2.AsyncClient], tmp_path: Path) -> Here:
    return Here(*fleet, tmp_path / "witness")


async def test_a_slot_goes_from_process_to_process(here: Here) -> None:
    """A limit of one, over two queues that no executor serves both of; all run, one at a time."""
    limit = {"concurrency": {"limit": 1, "key": "key:pen"}, "schedule_type": "IMMEDIATE"}
    for number in range(RUNS):
        await here.job("tests.turn", ("left", "right")[number % 2], **limit)
    assert RUNS == len(set(await here.until("ends", RUNS)))
    here.check_one_at_a_time()


@pytest.mark.parametrize("policy", ["skip", "queue_all"])
async def test_what_people_ask_for_at_once_runs_in_that_order(here: Here, policy: str) -> None:
    """One after the other, by whichever executor."""
    job_id = await here.job("tests.turn", "both", **YEARLY, overlap=policy)
    asked = [await here.run(job_id) for _ in range(RUNS)]
    assert asked == await here.until("ends", RUNS)
    here.check_one_at_a_time()


async def test_what_is_to_be_replaced_is_stopped_by_a_wake_up(here: Here) -> None:
    """Its holder asks the store for what it is to stop only once a minute."""
    job_id = await here.job("tests.until_stopped", "both", **YEARLY)
    asked = []
    for count in range(1, 6):
        asked.append(await here.run(job_id, overlap="cancel_running"))
        assert asked == await here.until("begins", count)
    await here.ask(f"/runs/{asked[-1]}/cancel", 202)
    assert asked == await here.until("ends", len(asked))
    here.check_one_at_a_time()


async def test_what_waited_in_a_queue_begins_when_that_goes_on(here: Here, database_url: str) -> None:
    """Though claims have long read past the time since which it could be claimed."""
    waiting = await here.job("tests.turn", "left", schedule_type="ON_DEMAND")
    other = await here.job("tests.turn", "both", schedule_type="ON_DEMAND")
    await here.ask("/queues/left/hold", 200, {})
    held = await here.run(waiting)
    session = await asyncpg.connect(database_url)
    await eventually(lambda: session.fetchval(WAITED, SEEN_SECONDS, waiting), what="it has waited")
    await session.close()
    others = [await here.run(other) for _ in range(RUNS)]
    await here.until("ends", RUNS)
    await here.ask("/queues/left/resume", 200, {})
    assert {held, *others} == set(await here.until("ends", RUNS + 1))
