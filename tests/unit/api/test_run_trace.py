"""A run says which trace it belongs to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest_asyncio

from tests.support.scene import Scene, scene
from tests.support.spans import KeptSpans
from tickwise.domain.trace_context import trace_id_of_run
from tickwise.observability.tracing import Tracer

TRACE = "0af7651916cd43dd8448eb211c80319c"
JOB = {"name": "a", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "true"}}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def run_of(here: Scene, job: str) -> str:
    """The only run of a job."""
    [run] = await here.ask("GET", f"/jobs/{job}/runs")
    return str(run["run_id"])


async def test_a_run_has_the_trace_of_the_request_that_made_it(here: Scene) -> None:
    """Whether or not it is recorded; also one that is asked for of a job that lasts."""
    sent = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-00"}
    answer = await here.world.client.post("/api/v1/jobs", json=JOB, headers=sent)
    assert TRACE == (await here.ask("GET", f"/runs/{await run_of(here, answer.json()['job_id'])}"))["trace_id"]
    lasting = await here.create(schedule_type="ON_DEMAND")
    answer = await here.world.client.post(f"/api/v1/jobs/{lasting}/runNow", headers=sent)
    assert TRACE == (await here.ask("GET", f"/runs/{answer.json()['run_id']}"))["trace_id"]
    answer = await here.world.client.post(f"/api/v1/jobs/{lasting}/runNow")
    assert (await here.ask("GET", f"/runs/{answer.json()['run_id']}"))["trace_id"] is None


async def test_a_run_that_begins_a_trace_has_that_of_its_id(here: Scene) -> None:
    """Only where it is recorded: each process knows by the id."""
    job = await here.create(schedule_type="IMMEDIATE")
    run = await here.ask("GET", f"/runs/{await run_of(here, job)}")
    assert run["trace_id"] is None
    context = here.world.control.context
    for ratio, recorded in ((1.0, True), (0.0, False)):
        context.tracer = Tracer(KeptSpans(), ratio, here.clock)
        found = (await here.ask("GET", f"/runs/{run['run_id']}"))["trace_id"]
        assert found == (f"{trace_id_of_run(UUID(run['run_id'])):032x}" if recorded else None)
