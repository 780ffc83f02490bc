"""A request's `traceparent`: kept with what the request makes, and nowhere else."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import structlog

from tests.support.app import API, World, world
from tests.support.buffered import buffered
from tickwise.documents.definition import TRACED_CHARACTERS_MAX, decode_definition

TRACE = "0af7651916cd43dd8448eb211c80319c"
SENT = f"00-{TRACE}-b7ad6b7169203331-01"
OTHER = f"00-{TRACE[::-1]}-00f067aa0ba902b7-00"
STATE = "congo=t61rcWkgMzE"
HEADERS = {"traceparent": SENT, "tracestate": STATE}
SHELL = {"kind": "shell", "command": "date"}


async def made(here: World, headers: dict[str, str] | None = None, **body: Any) -> str:
    """The id of a job that was created."""
    when = {} if body.keys() & {"at", "every", "cron_expression"} else {"schedule_type": "IMMEDIATE"}
    answer = await here.client.post(f"{API}/jobs", json={"name": "a", "task": SHELL, **when, **body}, headers=headers)
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def trace_of(here: World, job: str) -> tuple[str | None, str | None]:
    """The trace that is kept with a job."""
    row = await here.store.jobs.get("default", UUID(job))
    assert row is not None
    found = decode_definition(row.definition)
    return found.traceparent, found.tracestate


async def run_trace(
    here: World, job: str, headers: dict[str, str] | None = None, body: Any = None
) -> tuple[str | None, str | None] | None:
    """The trace of a run that this request asks for; None: it goes by the definition of its job."""
    answer = await here.client.post(f"{API}/jobs/{job}/runNow", json=body or {}, headers=headers)
    run = await here.store.runs.get("default", UUID(answer.json()["run_id"]))
    assert run is not None
    if run.definition is None:
        return None
    found = decode_definition(run.definition)
    return found.traceparent, found.tracestate


async def test_the_trace_of_a_create_is_kept_with_a_job_that_runs_once() -> None:
    """At once, or at a time."""
    async with world() as here:
        assert (SENT, STATE) == await trace_of(here, await made(here, HEADERS))
        assert (SENT, None) == await trace_of(here, await made(here, {"traceparent": SENT}, at="2031-01-01T00:00:00Z"))
        assert (None, None) == await trace_of(here, await made(here))


@pytest.mark.parametrize("body", [{"cron_expression": "0 3 * * *"}, {"every": "1h"}, {"schedule_type": "ON_DEMAND"}])
async def test_a_job_that_lasts_keeps_no_trace(body: dict[str, Any]) -> None:
    """Its runs would all be in the trace of the request that made it, for years."""
    async with world() as here:
        assert (None, None) == await trace_of(here, await made(here, HEADERS, **body))


async def test_a_job_that_recurs_from_now_on_forgets_the_trace_of_its_only_run() -> None:
    """A change that does not concern the schedule keeps it."""
    async with world() as here:
        job = await made(here, HEADERS, at="2031-01-01T00:00:00Z")
        assert 200 == (await here.client.put(f"{API}/jobs/{job}", json={"description": "b"})).status_code
        assert (SENT, STATE) == await trace_of(here, job)
        assert 200 == (await here.client.put(f"{API}/jobs/{job}", json={"every": "1h"})).status_code
        assert (None, None) == await trace_of(here, job)


@pytest.mark.parametrize(
    "sent", [SENT.upper(), SENT[:-3], "ff" + SENT[2:], f"00-{'0' * 32}-b7ad6b7169203331-01", "x" * 5_000, SENT * 2]
)
async def test_a_hostile_trace_is_ignored(sent: str) -> None:
    """The job is made as without it."""
    async with world() as here:
        assert (None, None) == await trace_of(here, await made(here, {"traceparent": sent, "tracestate": STATE}))


async def test_two_traces_are_none_and_two_states_are_one_list() -> None:
    """As HTTP reads repeated headers."""
    async with world() as here:
        body = {"name": "a", "task": SHELL, "schedule_type": "IMMEDIATE"}
        found = []
        for headers in (
            [("traceparent", SENT), ("traceparent", OTHER)],
            [("traceparent", SENT), ("tracestate", "a=1"), ("tracestate", "b=2")],
        ):
            answer = await here.client.post(f"{API}/jobs", json=body, headers=headers)
            found.append(await trace_of(here, answer.json()["job_id"]))
        assert [(None, None), (SENT, "a=1,b=2")] == found


async def test_every_job_of_a_batch_is_in_the_trace_of_the_batch() -> None:
    """As one span that works for all of them."""
    async with world() as here:
        jobs = [{"name": "a", "task": SHELL, "schedule_type": "IMMEDIATE"}, {"name": "b", "task": SHELL, "every": "1h"}]
        answer = await here.client.post(f"{API}/jobs:batch", json=jobs, headers=HEADERS)
        first, second = (each["job_id"] for each in answer.json()["results"])
        assert [(SENT, STATE), (None, None)] == [await trace_of(here, first), await trace_of(here, second)]


async def test_a_run_that_is_asked_for_is_in_the_trace_of_that_request() -> None:
    """Not in that of the job; without a trace and a payload it has no definition of its own, and costs nothing more."""
    async with world() as here:
        job = await made(here, schedule_type="ON_DEMAND")
        payload = {"payload": {"a": 1}}
        assert await run_trace(here, job) is None
        assert (SENT, STATE) == await run_trace(here, job, HEADERS)
        assert (None, None) == await run_trace(here, job, body=payload)
        assert (OTHER, None) == await run_trace(here, job, {"traceparent": OTHER}, payload)


async def test_a_further_run_of_a_job_is_not_in_the_trace_that_the_job_was_made_in() -> None:
    """That trace is of its first run."""
    async with world() as here:
        job = await made(here, HEADERS, at="2031-01-01T00:00:00Z")
        assert (None, None) == await run_trace(here, job)


async def test_a_long_definition_is_not_copied_for_a_trace_alone() -> None:
    """A client that puts a trace on each request would else store it anew with each run."""
    async with world() as here:
        task = {"kind": "shell", "command": "#" + "x" * TRACED_CHARACTERS_MAX}
        job = await made(here, schedule_type="ON_DEMAND", task=task)
        assert await run_trace(here, job, HEADERS) is None


async def test_a_repeat_in_another_trace_is_the_same_request() -> None:
    """The trace is no part of what was asked for."""
    async with world() as here:
        body = {"job_id": "019a2b3c-4d5e-8f60-9123-456789abcdef", "at": "2031-01-01T00:00:00Z"}
        job = await made(here, HEADERS, **body)
        answer = await here.client.post(
            f"{API}/jobs", json={"name": "a", "task": SHELL, **body}, headers={"traceparent": OTHER}
        )
        assert (201, job) == (answer.status_code, answer.json()["job_id"])
        assert (SENT, STATE) == await trace_of(here, job)


async def test_a_buffered_request_brings_its_trace_through_the_broker() -> None:
    """Applied by a recorder, which checks it as the rest of the message."""
    async with buffered() as here:
        body = {"name": "a", "task": SHELL, "schedule_type": "IMMEDIATE"}
        answer = await here.world.client.post(f"{API}/jobs", json=body, headers=HEADERS)
        assert 202 == answer.status_code
        await here.apply()
        row = await here.link.store.jobs.get("default", UUID(answer.json()["job_id"]))
        assert row is not None
        found = decode_definition(row.definition)
        assert (SENT, STATE) == (found.traceparent, found.tracestate)


async def test_lines_of_a_request_name_its_trace() -> None:
    """So that a search for a trace finds them."""
    async with world() as here:
        with structlog.testing.capture_logs() as logs:
            await made(here, HEADERS)
            await made(here)
        lines = [line for line in logs if line["event"] == "request"]
        assert [TRACE, None] == [line["trace_id"] for line in lines]
