"""A trace from end to end, through a real `tickwise up`: a request's `traceparent` reaches tasks of each kind, and the
spans of request and attempt reach a real collector."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.collector import Collector, Received, collecting
from tests.support.local_up import OWN_TASKS, Local, local_up
from tests.support.waiting import eventually
from tickwise.domain.trace_context import read_trace

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
STATE = "congo=t61rcWkgMzE"
SCRIPT = "import json, os\nprint(json.dumps({n: os.environ.get(n) for n in ('TRACEPARENT', 'TRACESTATE')}))"
SHELL = 'printf \'{"TRACEPARENT":"%s","TRACESTATE":"%s"}\' "$TRACEPARENT" "$TRACESTATE"'


@dataclass(frozen=True)
class Place:
    """An `up` and the collector of its traces."""

    up: Local
    collector: Collector

    async def submit(self, task: dict[str, Any], traceparent: str | None, **body: Any) -> tuple[str, str]:
        """Create a job that runs at once, in this trace; its run when that has ended, and its state."""
        headers = {"Authorization": f"Bearer {self.up.key}"}
        sent = {} if traceparent is None else {"traceparent": traceparent, "tracestate": STATE}
        async with httpx2.AsyncClient(base_url=self.up.url, headers=headers, timeout=60) as client:
            wanted = {"name": "traced", "schedule_type": "IMMEDIATE", "task": task, "max_retries": 0, **body}
            answer = await client.post("/api/v1/jobs", json=wanted, headers=sent)
            assert 201 == answer.status_code, answer.text
            job = answer.json()["job_id"]

            async def ended() -> Any:
                runs = (await client.get(f"/api/v1/jobs/{job}/runs")).json()
                runs = runs if isinstance(runs, list) else runs["items"]
                return runs and runs[0]["status"] in ("SUCCESS", "FAILED") and runs[0]

            run = await eventually(ended, what="the run has ended")
            return str(run["run_id"]), str(run["status"])

    async def output(self, run: str) -> str:
        """The output of a run."""
        async with httpx2.AsyncClient(
            base_url=self.up.url, headers={"Authorization": f"Bearer {self.up.key}"}, timeout=60
        ) as client:
            return (await client.get(f"/api/v1/runs/{run}/logs")).text

    async def run(self, run: str) -> Any:
        """A run."""
        async with httpx2.AsyncClient(
            base_url=self.up.url, headers={"Authorization": f"Bearer {self.up.key}"}, timeout=60
        ) as client:
            return (await client.get(f"/api/v1/runs/{run}")).json()

    async def spans(self, trace: str, *names: str) -> dict[str, list[Received]]:
        """The spans of a trace, when spans with all of these names have arrived."""

        def arrived() -> Any:
            found = self.collector.of(trace)
            return set(names) <= found.keys() and found

        found: dict[str, list[Received]] = await eventually(arrived, what=f"{names} of {trace}")
        return found


def settings(collector: Collector | None, **more: str) -> dict[str, str]:
    given = {"TICKWISE_HTTP_ALLOW": "127.0.0.1", "TICKWISE_FUNCTION_MODULES": "tests.support.functions", **OWN_TASKS}
    if collector is not None:
        given["TICKWISE_OTLP_ENDPOINT"] = collector.url
    return {**given, **more}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An `up` that sends its traces; of its own accord it begins none."""
    folder = tmp_path_factory.mktemp("traces")
    with (
        collecting() as collector,
        local_up(
            folder / "data",
            **settings(
                collector, TICKWISE_TRACE_RATIO="0", TICKWISE_LOG_DIR=str(folder), TICKWISE_HORIZON_SECONDS="0.5"
            ),
        ) as up,
    ):
        yield Place(up, collector)


def sent(number: int, *, recorded: bool = True) -> str:
    return f"00-{TRACE[:-4]}{number:04x}-{PARENT}-{'01' if recorded else '00'}"


def handed(text: str) -> tuple[str | None, str | None]:
    """The trace that a task printed."""
    found = json.loads(text)
    return found["TRACEPARENT"], found["TRACESTATE"]


async def test_each_kind_of_task_is_handed_the_span_of_its_own_attempt(place: Place) -> None:
    """A script and a shell command in the environment, a function in its context, an HTTP call as a header."""
    told: dict[str, tuple[str | None, str | None]] = {}
    tasks: dict[str, dict[str, Any]] = {
        "python": {"source": SCRIPT},
        "shell": {"command": SHELL},
        "function": {"name": "tests.trace"},
        "http": {"method": "POST", "url": f"{place.collector.url}/called", "expect": [404]},
    }
    for number, (kind, task) in enumerate(tasks.items(), 1):
        run, status = await place.submit({"kind": kind, **task}, sent(number))
        assert "SUCCESS" == status
        if kind == "function":
            told[kind] = handed(json.dumps((await place.run(run))["result"]))
        elif kind == "http":
            told[kind] = next(
                (headers["traceparent"], headers["tracestate"])
                for headers in place.collector.headers
                if headers.get("tickwise-run-id") == run
            )
        else:
            told[kind] = handed(await place.output(run))
        trace = sent(number)[3:35]
        spans = await place.spans(trace, f"task {kind}", "attempt", "wait")
        (task_span,), (attempt,) = spans[f"task {kind}"], spans["attempt"]
        found = read_trace(*told[kind])
        assert found is not None
        assert (trace, task_span.span_id, True, STATE) == (
            found.trace_text, found.span_text, found.sampled, found.tracestate,
        )  # fmt: skip
        assert (attempt.span_id, run) == (task_span.parent_id, attempt.attributes["tickwise.run.id"])


async def test_a_trace_leads_from_the_request_to_the_task(place: Place) -> None:
    """Request, submit, the write, the wait, the attempt and the task, each a part of the one before."""
    run, _ = await place.submit({"kind": "shell", "command": "true"}, sent(100))
    trace = sent(100)[3:35]
    assert trace == (await place.run(run))["trace_id"]
    spans = await place.spans(
        trace, "POST /api/v1/jobs", "submit", "group commit", "jobs.add", "wait", "attempt", "task shell", "record"
    )
    (request,), (submit,), (group,), (write,), (attempt,), (record,) = (
        spans[name] for name in ("POST /api/v1/jobs", "submit", "group commit", "jobs.add", "attempt", "record")
    )
    assert (PARENT, request.span_id, submit.span_id, group.span_id, submit.span_id, attempt.span_id) == (
        request.parent_id, submit.parent_id, group.parent_id, write.parent_id, attempt.parent_id, record.parent_id,
    )  # fmt: skip
    assert run == record.attributes["tickwise.run.id"]
    assert {"http.request.method": "POST", "http.route": "/api/v1/jobs", "http.response.status_code": 201}.items() <= (
        request.attributes.items()
    )
    assert {"db.system.name": "postgresql", "db.operation.name": "jobs.add"} == write.attributes
    assert request.started <= submit.started <= write.started <= write.ended <= submit.ended <= request.ended
    assert all(span.started <= span.ended for group in spans.values() for span in group)
    assert place.up.key not in str(place.collector.spans)


async def test_a_scheduler_is_in_the_trace_of_a_job_that_waits_for_its_time(place: Place) -> None:
    """It makes the run from the request's job, and the attempt follows."""
    soon = (datetime.now(UTC) + timedelta(seconds=8.0)).isoformat()  # beyond the horizon, although the request be slow
    task = {"kind": "shell", "command": "true"}
    run, _ = await place.submit(task, sent(105), schedule_type="FUTURE", schedule_time=soon)
    spans = await place.spans(sent(105)[3:35], "submit", "fire", "attempt", "record")
    (submit,), (fire,), (attempt,) = spans["submit"], spans["fire"], spans["attempt"]
    assert {submit.span_id} == {fire.parent_id, attempt.parent_id}
    assert run == fire.attributes["tickwise.run.id"]
    assert submit.started <= fire.started <= fire.ended <= attempt.ended


async def test_a_failure_is_an_error_with_its_reason_and_no_text_of_the_task(place: Place) -> None:
    """An output may hold anything."""
    await place.submit({"kind": "shell", "command": "echo a-secret-of-the-task >&2; exit 3"}, sent(101))
    spans = await place.spans(sent(101)[3:35], "attempt", "task shell")
    (attempt,) = spans["attempt"]
    assert ("exit_code", "FAILED") == (attempt.error, attempt.attributes["tickwise.outcome"])
    assert "a-secret-of-the-task" not in str(place.collector.spans)


async def test_what_is_not_recorded_makes_no_span_and_is_handed_on(place: Place) -> None:
    """The caller's decision counts; a job without a trace makes none here, where the share is 0."""
    run, _ = await place.submit({"kind": "shell", "command": SHELL}, sent(102, recorded=False))
    assert (sent(102, recorded=False), STATE) == handed(await place.output(run))
    run, _ = await place.submit({"kind": "shell", "command": SHELL}, None)
    assert ("", "") == handed(await place.output(run))
    await place.submit({"kind": "shell", "command": "true"}, sent(103))
    await place.spans(sent(103)[3:35], "attempt")
    assert {} == place.collector.of(sent(102)[3:35])
    assert run not in str(place.collector.spans)


async def test_lines_of_the_log_file_name_the_trace_of_request_and_run(place: Place) -> None:
    """In the file of this process, one JSON object a line, also after a rotation by another program and SIGHUP."""
    import os

    file = Path(place.up.environ["TICKWISE_LOG_DIR"]) / "tickwise.log"
    file.rename(file.with_suffix(".moved"))
    os.kill(place.up.pid, signal.SIGHUP)
    run, _ = await place.submit({"kind": "shell", "command": "true"}, sent(104))

    def events() -> Any:
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        found = {line["event"]: line for line in lines if line.get("trace_id") == sent(104)[3:35]}
        return {"request", "run_started", "run_ended"} <= found.keys() and found

    found = await eventually(events, what="the lines of the trace")
    assert run == found["run_started"]["run_id"] == found["run_ended"]["run_id"]
    assert "SUCCESS" == found["run_ended"]["outcome"]


def test_without_an_address_a_trace_is_handed_on_all_the_same_and_a_collector_that_hangs_holds_up_nothing(
    tmp_path: Path,
) -> None:
    """Two set-ups, one after the other: no tracing, and one whose collector takes a span and never answers."""
    import asyncio
    import threading

    async def through(up: Local, collector: Collector) -> str:
        place = Place(up, collector)
        run, status = await place.submit({"kind": "shell", "command": SHELL}, sent(200))
        assert "SUCCESS" == status
        return await place.output(run)

    with collecting() as collector:
        with local_up(tmp_path / "off", **settings(None)) as up:
            assert (sent(200), STATE) == handed(asyncio.run(through(up, collector)))
        assert 0 == collector.requests
        collector.hold = threading.Event()
        with local_up(tmp_path / "on", **settings(collector, TICKWISE_TRACE_RATIO="1")) as up:
            found = read_trace(*handed(asyncio.run(through(up, collector))))
            assert found is not None
            assert sent(200)[3:35] == found.trace_text
        assert [] == collector.spans
