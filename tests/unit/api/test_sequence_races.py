"""Changes of sequences through several API processes: together they close no circle that neither closes alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.overriding import override
from tests.unit.api.rig import create, get
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.control.jobs.links import Steps, with_steps
from tickwise.ports.store import JobChange, JobRow

ON_DEMAND = {"schedule_type": "ON_DEMAND"}
REFUSED = (422, "sequence_cycle")


class Crossing(MemoryStore):
    """A store at which changes wait for each other: before they are stored, so that all have looked by then, and
    after that, so that all are stored before any looks again."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.before, self.after = Meeting(0), Meeting(0)
        self.meanwhile: Callable[[JobRow], Awaitable[None]] | None = None
        """Called once, after the next change."""
        override(self, "jobs.change", self._change)

    async def _change(self, call: Callable[..., Awaitable[JobRow]], change: JobChange, **said: Any) -> JobRow:
        await self.before.wait()
        row = await call(change, **said)
        await self.after.wait()
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile(row)
        return row


class Meeting:
    """So many wait for each other, once; whoever comes later goes on at once."""

    def __init__(self, guests: int) -> None:
        self._missing = guests
        self._all_there = asyncio.Event()

    async def wait(self) -> None:
        """Until all are there."""
        self._missing -= 1
        if self._missing <= 0:
            self._all_there.set()
        await self._all_there.wait()


@pytest_asyncio.fixture
async def apis() -> AsyncIterator[list[World]]:
    """Three processes of the API, as far as they know of each other: only the store is one."""
    store = Crossing()
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(world(store=store)) for _ in range(3)]


def crossing(here: World) -> Crossing:
    assert isinstance(here.store, Crossing)
    return here.store


async def put(here: World, job_id: str, **body: Any) -> tuple[int, str | None]:
    """The status of the answer, and its code."""
    answer = await here.client.put(f"{API}/jobs/{job_id}", json=body)
    return answer.status_code, answer.json().get("code")


async def steps(here: World, *jobs: str) -> list[list[str]]:
    """What each goes on to."""
    found = [await get(here, f"/jobs/{job_id}") for job_id in jobs]
    return [job["then"] + job["on_failure"] for job in found]


@pytest.mark.parametrize("after", [0, 2], ids=["each looks again at once", "none looks again before both are stored"])
async def test_of_two_changes_that_close_a_circle_together_none_or_one_stays(apis: list[World], after: int) -> None:
    """Both looked while there was none; who sees it afterwards takes its own back, and the answers tell which."""
    one, two = [await create(apis[0], **ON_DEMAND) for _ in range(2)]
    crossing(apis[0]).before, crossing(apis[0]).after = Meeting(2), Meeting(after)
    answers = await asyncio.gather(put(apis[0], one, then=two), put(apis[1], two, on_failure=one))
    assert REFUSED in answers
    stayed = [answer == (200, None) for answer in answers]
    assert [[two] * stayed[0], [one] * stayed[1]] == await steps(apis[0], one, two)


async def test_a_circle_of_three_changes_does_not_stay_either(apis: list[World]) -> None:
    """One step from each of three processes."""
    jobs = [await create(apis[0], **ON_DEMAND) for _ in range(3)]
    crossing(apis[0]).before = Meeting(3)
    answers = await asyncio.gather(*(put(apis[place], job, then=jobs[place - 1]) for place, job in enumerate(jobs)))
    assert REFUSED in answers
    assert [] in await steps(apis[0], *jobs)


async def closed_elsewhere(here: World, job_id: str, then: str) -> None:
    """Another process stores a step without having seen the one that makes it a circle."""
    row = await here.store.jobs.get("default", UUID(job_id))
    assert row is not None
    await here.store.jobs.change(with_steps(row, Steps((UUID(then),), ())))


async def test_nothing_of_a_change_stays_whose_steps_are_taken_back(apis: list[World]) -> None:
    """Neither its schedule nor its name: the answer was no."""
    one, two = [await create(apis[0], **ON_DEMAND) for _ in range(2)]
    crossing(apis[0]).meanwhile = lambda _: closed_elsewhere(apis[1], two, one)
    change = {"name": "new", "schedule_type": "CRON", "cron_expression": "0 3 * * *"}
    assert REFUSED == await put(apis[0], one, then=two, **change)
    job = await get(apis[0], f"/jobs/{one}")
    assert ("a", "ON_DEMAND", [], None) == tuple(job[name] for name in ("name", "schedule_type", "then", "next_run_at"))


async def test_what_others_changed_meanwhile_stays(apis: list[World]) -> None:
    """Only the steps are taken back, whatever else the job is by then."""
    one, two = [await create(apis[0], **ON_DEMAND) for _ in range(2)]

    async def meanwhile(_: JobRow) -> None:
        """A third process gives the job a name."""
        await closed_elsewhere(apis[1], two, one)
        assert (200, None) == await put(apis[2], one, name="renamed")

    crossing(apis[0]).meanwhile = meanwhile
    assert REFUSED == await put(apis[0], one, then=two)
    job = await get(apis[0], f"/jobs/{one}")
    assert ("renamed", []) == (job["name"], job["then"])


async def test_other_steps_that_somebody_gave_it_meanwhile_stay(apis: list[World]) -> None:
    """That is decided by now, and not by this change."""
    one, two, three = [await create(apis[0], **ON_DEMAND) for _ in range(3)]

    async def meanwhile(row: JobRow) -> None:
        """The job goes on to another one."""
        await closed_elsewhere(apis[1], two, one)
        await apis[1].store.jobs.change(with_steps(row, Steps((UUID(three),), ())))

    crossing(apis[0]).meanwhile = meanwhile
    assert REFUSED == await put(apis[0], one, then=two)
    assert [[three], [one]] == await steps(apis[0], one, two)


async def test_steps_and_all_else_of_one_change_are_stored(apis: list[World]) -> None:
    """What is walked first is not all of it."""
    one, two = [await create(apis[0], **ON_DEMAND) for _ in range(2)]
    assert (200, None) == await put(apis[0], one, then=two, name="new", schedule_type="INTERVAL", every="1h")
    job = await get(apis[0], f"/jobs/{one}")
    assert ("new", "INTERVAL", [two]) == tuple(job[name] for name in ("name", "schedule_type", "then"))


async def test_a_change_of_steps_alone_makes_one_version(apis: list[World]) -> None:
    """It is one change, and a walk is none."""
    one, two = [await create(apis[0], **ON_DEMAND) for _ in range(2)]
    before = (await get(apis[0], f"/jobs/{one}"))["version"]
    assert (200, None) == await put(apis[0], one, then=two)
    assert before + 1 == (await get(apis[0], f"/jobs/{one}"))["version"]


async def test_steps_do_not_stay_without_the_rest_of_their_change(apis: list[World]) -> None:
    """Its key is taken: 409, and the job goes on to nothing."""
    one, two = [await create(apis[0], **ON_DEMAND) for _ in range(2)]
    await create(apis[0], **ON_DEMAND, key="taken")
    assert (409, "key_taken") == await put(apis[0], one, then=two, key="taken")
    assert [[]] == await steps(apis[0], one)
