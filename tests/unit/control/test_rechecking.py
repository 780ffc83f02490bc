"""What comes by the topic of requests is checked again by the recorder, as the API checks a body."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tests.support.buffered import Buffered, buffered
from tickwise.control.bodies import JobBody
from tickwise.control.jobs.rechecking import is_usual
from tickwise.control.jobs.submission import Submitted
from tickwise.documents.definition import decode_definition
from tickwise.domain.model import Principal
from tickwise.domain.trace_context import read_trace
from tickwise.ports.broker import DEAD, REQUESTS, Message
from tickwise.ports.store import JobQuery, OperationStatus
from tickwise.roles.shared.messages import NewJobPart, Request, decode, encode

WHO = Principal("someone", "default", frozenset({"*"}))
SHELL = {"kind": "shell", "command": "date"}
LATER = "2031-01-01T00:00:00Z"
CALENDAR = "/api/v1/calendars/closed"
START = 1_800_000_000.0
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

BODIES: dict[str, dict[str, Any]] = {
    "at once": {"schedule_type": "IMMEDIATE"},
    "later": {"at": LATER},
    "to the microsecond": {"at": "2031-01-01T00:00:00.123457+05:30"},
    "later, with an id": {"at": LATER, "job_id": "019b0000-0000-8000-8000-000000000001", "key": "k"},
    "spread": {"at": LATER, "jitter_seconds": 3600, "fuse_per_minute": 7},
    "not late": {"at": LATER, "misfire": {"mode": "skip", "grace_seconds": 60}},
    "asked for": {"schedule_type": "ON_DEMAND"},
    "cron": {"cron": "*/5 * * * *"},
    "cron of a zone": {
        "cron": "30 2 * * *", "timezone": "Europe/Berlin", "dst": {"gap": "skip", "overlap": "both"},
        "start_at": LATER, "end_at": "2032-01-01T00:00:00Z", "max_runs": 9, "window_seconds": 60,
    },
    "every": {"every": "90s", "overlap": "queue_all"},
    "every, as cron": {"cron": "@every 1h30m", "jitter_seconds": 5},
    "anchored": {"interval_seconds": 60.5, "anchor": "2020-02-29T00:00:00Z"},
    "over before it begins": {"cron": "0 0 29 2 *", "end_at": "2027-03-01T00:00:00Z"},
    "a function": {"at": LATER, "task": {"kind": "function", "name": "report"}},
    "its own function": {"at": LATER, "task": None},
    "a script": {"at": LATER, "task": {"kind": "python", "source": "print(1)\n"}},
    "http": {"at": LATER, "task": {"kind": "http", "url": "https://example.org/a?b=c", "method": "POST", "body": "x"}},
    "a payload": {"at": LATER, "params": {"a": [1, "é", None, 1e300]}, "description": "what for"},
    "placed": {"at": LATER, "queue": "big.ones", "priority": 9, "requires": ["gpu", "zone=a"], "owner": "ann"},
    "owned by its creator": {"at": LATER, "owner": "someone"},
    "retried": {
        "at": LATER, "max_retries": 7, "timeout_seconds": 9.5,
        "retry": {
            "backoff": "list", "delays_seconds": [1, 60], "jitter": 0, "deadline_seconds": 3600,
            "on": {"exit_code": {"64-78": "fail"}, "reason": {"timeout": "fail"}},
        },
    },
    "limited": {
        "at": LATER, "labels": {"customer": "acme"}, "concurrency": {"limit": 2, "key": "label:customer"},
        "rate": {"limit": 10, "per_seconds": 60, "key": "queue"}, "on_unknown": "fail",
        "limits": {"output_bytes": 1000, "cpu_seconds": 1.5, "memory_bytes": 1 << 24},
    },
}  # fmt: skip


def body(name: str = "a", **said: Any) -> JobBody:
    fields = {"name": name, "task": SHELL, **said}
    text = json.dumps({field: value for field, value in fields.items() if value is not None})
    return msgspec.json.decode(text, type=JobBody)


async def composed(here: Buffered, **said: Any) -> Request:
    """What an API sends for this body."""
    await here.ingest.accept(WHO, body(**said))
    (sent,) = await here.batch()
    await here.consumer.done([sent])
    return decode(Request, sent.value)


async def forged(here: Buffered, request: Request) -> list[str]:
    """The jobs that are there after somebody with the right to write the topic sent this."""
    await here.broker.send(REQUESTS, [Message(encode(request), request.job_id.bytes)])
    await here.apply()
    return [row.name for row in await here.link.store.searches.jobs(JobQuery(namespace="default", limit=50))]


@pytest.mark.parametrize("said", BODIES.values(), ids=BODIES)
async def test_a_job_of_an_api_is_stored_as_it_was_composed(said: dict[str, Any]) -> None:
    """The check changes no field of it, whatever the body says: it is stored as a direct one would be."""
    async with buffered() as here:
        request = await composed(here, **said)
        job = request.new_job()
        assert job == await here.applier.composer.recheck(job, request.accepted)


async def test_a_job_in_a_trace_is_stored_as_it_was_composed_and_takes_the_short_way() -> None:
    """The trace is checked without the full check."""
    trace = read_trace(TRACE, "a=b")
    assert trace is not None
    async with buffered() as here:
        await here.ingest.accept(WHO.in_trace(trace), body(at=LATER))
        (sent,) = await here.batch()
        request = decode(Request, sent.value)
        job = request.new_job()
        found = decode_definition(job.definition)
        assert (TRACE, "a=b") == (found.traceparent, found.tracestate)
        assert is_usual(job, found, request.accepted, here.applier.composer.check)
        assert job == await here.applier.composer.recheck(job, request.accepted)


async def test_a_job_with_a_stored_task_a_calendar_and_successors_is_stored_as_it_was_composed() -> None:
    """What it names is looked up again."""
    async with buffered() as here:
        client = here.world.client
        for method, path, said in (
            ("POST", "/tasks", {"taskId": "t", "name": "t", "script": "print(2)"}),
            ("PUT", "/calendars/closed", {"dates": ["2031-01-02"]}),
        ):
            answer = await client.request(method, f"/api/v1{path}", json=said)
            assert 201 == answer.status_code, answer.text
        follower = await here.world.control.requests._submissions.submit(
            WHO, body("follower", schedule_type="ON_DEMAND")
        )
        assert isinstance(follower, Submitted)
        request = await composed(
            here, task=None, taskId="t", cron="0 0 * * *", calendars=[{"name": "closed"}], then=str(follower.job_id)
        )
        job = request.new_job()
        assert job == await here.applier.composer.recheck(job, request.accepted)


async def test_a_repeat_of_what_is_stored_is_not_judged_again() -> None:
    """What it names may be gone by then, and it was carried out."""
    async with buffered() as here:
        assert 201 == (await here.world.client.put(CALENDAR, json={"dates": ["2031-01-02"]})).status_code
        await here.ingest.accept(WHO, body(cron="0 0 * * *", calendars=[{"name": "closed"}]))
        sent = await here.batch()
        await here.recorder.apply(sent)
        request = decode(Request, sent[0].value)
        await here.world.control.requests._moves.cancel(WHO, request.job_id)
        assert 200 == (await here.world.client.delete(CALENDAR)).status_code
        await here.recorder.apply(sent)
        assert await here.link.store.operations.get("default", request.operation_id) is None


@dataclass(frozen=True)
class Forgery:
    """A job that no API would have composed."""

    of: str
    """The body that it is made of."""
    part: Callable[[NewJobPart], NewJobPart]
    pointer: str

    @property
    def body(self) -> dict[str, Any]:
        """What the API was sent."""
        return BODIES[self.of]


def part(**fields: Any) -> Callable[[NewJobPart], NewJobPart]:
    return lambda said: msgspec.structs.replace(said, **fields)


def definition(**fields: Any) -> Callable[[NewJobPart], NewJobPart]:
    def change(said: NewJobPart) -> NewJobPart:
        return msgspec.structs.replace(said, definition=json.dumps(json.loads(said.definition) | fields))

    return change


FORGERIES = {
    "no definition": Forgery("later", part(definition="{"), ""),
    "bottomless": Forgery("later", part(definition='{"payload":' * 5_000), ""),
    "no name": Forgery("later", part(name=""), "/name"),
    "a long name": Forgery("later", part(name="n" * 201), "/name"),
    "a name with a zero": Forgery("later", part(name="a\0b"), "/name"),
    "a key with a slash": Forgery("later", part(key="a/b"), "/key"),
    "a long key": Forgery("later", part(key="k" * 201), "/key"),
    "many labels": Forgery("later", part(labels={str(n): "x" for n in range(51)}), "/labels"),
    "a queue that no one can name": Forgery("later", part(queue="../etc"), "/queue"),
    "a priority above all": Forgery("later", part(priority=10), "/priority"),
    "a priority below all": Forgery("later", part(priority=-1), "/priority"),
    "a reserved label": Forgery("later", part(requires=("function:payroll", "task:shell")), "/requires"),
    "the labels of another kind": Forgery("later", part(requires=("task:python",)), "/requires"),
    "no label of its kind": Forgery("later", part(requires=()), "/requires"),
    "many labels of its own": Forgery(
        "later", part(requires=tuple(sorted([*(f"l{n}" for n in range(21)), "task:shell"]))), "/requires"
    ),
    "a task that no one checked": Forgery("later", definition(task={"kind": "shell"}), "/task/command"),
    "a kind that is not there": Forgery("later", definition(task={"kind": "root", "command": "id"}), "/task/kind"),
    "a task with more in it": Forgery("later", definition(task={**SHELL, "user": "root"}), "/task/user"),
    "a stored task that is not there": Forgery("later", definition(task_id="t", task_version=1), "/taskId"),
    "retries without end": Forgery("later", definition(max_retries=1_000_000), "/max_retries"),
    "a time limit of ages": Forgery("later", definition(timeout_seconds=1e12), "/timeout_seconds"),
    "no time at all": Forgery("later", definition(timeout_seconds=-1), "/timeout_seconds"),
    "a delay of ages": Forgery("retried", definition(retry={"base_seconds": 1e12}), "/retry/base_seconds"),
    "output without end": Forgery("later", definition(limits={"output_bytes": 1 << 60}), "/limits/output_bytes"),
    "more slots than there may be": Forgery(
        "limited", definition(concurrency={"limit": 10_000_000}), "/concurrency/limit"
    ),
    "a key of a limit that is none": Forgery("limited", definition(rate={"limit": 1, "key": "all"}), "/rate/key"),
    "a schedule that is none": Forgery("cron", definition(cron_expression="every day"), "/cron_expression"),
    "an interval that never ends": Forgery("every", definition(interval_seconds=0.001), "/interval_seconds"),
    "an interval from nowhere": Forgery("every", definition(anchor=None), "/anchor"),
    "a schedule from long ago": Forgery("every", definition(planned_at=5.0), "/planned_at"),
    "a zone that is none": Forgery("cron of a zone", definition(timezone="Mars/Olympus"), "/timezone"),
    "a time beyond all": Forgery("later", definition(schedule_time=1e18), "/schedule_time"),
    "a calendar that is not there": Forgery(
        "cron", definition(calendars=[{"name": "payroll"}]), "/calendars/0/name"
    ),
    "a successor that is not there": Forgery(
        "cron", definition(then=["019b0000-0000-8000-8000-00000000000f"]), "/then/0"
    ),
    "a digest that is none": Forgery("later, with an id", part(digest=b"d" * 4096), ""),
    "warnings without end": Forgery("later", definition(warnings=["w" * 3_000]), "/warnings"),
    "an isolation that is none": Forgery("later", definition(isolation="none"), "/isolation"),
    "a trace that is none": Forgery("later", definition(traceparent=f"{TRACE}\nLD_PRELOAD=x"), "/traceparent"),
    "a trace in capitals": Forgery("later", definition(traceparent=TRACE.upper()), "/traceparent"),
    "a state that is none": Forgery("later", definition(traceparent=TRACE, tracestate="a=b\0"), "/traceparent"),
    "a state without a trace": Forgery("limited", definition(tracestate="a=b"), "/traceparent"),
    "a long description": Forgery("later", definition(description="d" * 10_001), "/description"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_a_job_that_no_api_would_have_taken_becomes_no_row(forgery: Forgery) -> None:
    """It ends as a failed operation that says what is wrong with it, even where nothing is signed."""
    async with buffered() as here:
        request = await composed(here, **forgery.body)
        assert request.job is not None
        wrong = msgspec.structs.replace(request, job=forgery.part(request.job))
        assert [] == await forged(here, wrong)
        ended = await here.link.store.operations.get("default", request.operation_id)
        assert ended is not None
        assert OperationStatus.FAILED is ended.status
        assert forgery.pointer == json.loads(ended.problems)[0].get("pointer", ""), ended.problems


async def test_what_follows_from_a_definition_is_not_taken_from_the_message() -> None:
    """When it is due, under which id it runs, by which key it is limited."""
    async with buffered() as here:
        request = await composed(here, **BODIES["limited"])
        assert request.job is not None
        said = json.loads(request.job.definition) | {"limit_key": "label:customer=other", "rate_key": "job:x"}
        wrong = msgspec.structs.replace(
            request.job,
            definition=json.dumps(said),
            due=START,
            run_id=request.job_id,
            recurring=True,
            never=True,
            schedule_type="CRON",
            task_kind="python",
            calendars=("payroll",),
            zone_data="1999a",
        )
        honest, job = request.new_job(), msgspec.structs.replace(request, job=wrong).new_job()
        checked = await here.applier.composer.recheck(job, request.accepted)
        assert json.loads(honest.definition) == json.loads(checked.definition)
        assert honest._replace(definition="") == checked._replace(definition="")


@pytest.mark.parametrize(
    "fields",
    [
        {"namespace": ""},
        {"namespace": "n" * 201},
        {"namespace": "a\0b"},
        {"principal": ""},
        {"principal": "p" * 201},
        {"principal": "p\0"},
    ],
    ids=str,
)
async def test_a_request_of_a_principal_that_cannot_be_is_put_aside(fields: dict[str, str]) -> None:
    """There is no namespace to which a failed operation of it could belong."""
    async with buffered() as here:
        request = msgspec.structs.replace(await composed(here, at=LATER), **fields)
        assert [] == await forged(here, request)
        consumer = here.broker.consumer([DEAD], "of the test")
        await consumer.start()
        assert 1 == len(await consumer.take(10, 0.0))
