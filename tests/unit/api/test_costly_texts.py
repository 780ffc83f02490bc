"""Texts that are made to keep a process busy cost the event loop little, and others are served beside them."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API, World, world

MAX_SECONDS = 0.5
"""Of the event loop's thread, for one request of a megabyte; usual are some milliseconds."""
BUSY_COMPILER = "lambda:0\n" * 14_000
WHEN = {"name": "a", "schedule_type": "IMMEDIATE"}
SHELL = {"kind": "shell", "command": "date"}


@pytest_asyncio.fixture(scope="module")
async def here() -> AsyncIterator[World]:
    """The first request makes what all further ones have: it is none of theirs."""
    async with world() as made:
        assert 422 == (await made.client.post(f"{API}/jobs", content=b"{}")).status_code
        yield made


async def cost(here: World, body: bytes, path: str = "/jobs") -> tuple[int, float]:
    """The status of the answer, and the processor time of the loop's thread. (What waits beside costs it nothing.)

    Without the garbage collector, which would walk through what thousands of other tests left in this process."""
    gc.disable()
    try:
        before = time.thread_time()
        answer = await here.client.post(API + path, content=body, headers={"Content-Type": "application/json"})
        return answer.status_code, time.thread_time() - before
    finally:
        gc.enable()


def job(**fields: Any) -> bytes:
    return json.dumps({**WHEN, "task": SHELL, **fields}).encode()


def python(source: str) -> bytes:
    return job(task={"kind": "python", "source": source})


DEEP = 100_000
LONG = 900_000
HEAD = b'{"name":"a","task":{"kind":"shell","command":"date"}'
COSTLY = {
    "a script that keeps the compiler busy": python(BUSY_COMPILER),
    "a script made of headers": python("# /// script\n" * 9_000),
    "a header made of names": python("# /// script\n# " + "a." * 2_000 + "a = 1\n# ///\n"),
    "a long script": python("x = 1\n" * 120_000),
    "a kind of a megabyte": job(task={"kind": "p" * LONG}),
    "a field of a megabyte": job(**{"x" * LONG: 1}),
    "a field of a megabyte in the task": job(task={**SHELL, "`- at `$" * (LONG // 8): 1}),
    "calendars without end": job(calendars=[{"name": f"x{number}"} for number in range(45_000)]),
    "empty calendars without end": job(calendars=[{}] * 200_000),
    "fields without end": job(**{f"x{number}": 1 for number in range(70_000)}),
    "backticks": job(**{"`" * LONG: 1}),
    "a deep payload": HEAD + b',"payload":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "a deep task": b'{"name":"a","task":' + b'{"kind":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "a deep body": b"[" * 1_000_000,
    "a long number in the task": b'{"name":"a","task":{"kind":"http","url":"http://a/","body":' + b"9" * LONG + b"}}",
    "a long number in the payload": HEAD + b',"payload":' + b"9" * LONG + b"}",
    "a long number in a field": b'{"name":"a","max_retries":' + b"9" * LONG + b"}",
    "a long fraction": b'{"name":"a","timeout_seconds":0.' + b"9" * LONG + b"}",
    "a date that never comes": job(schedule_type="CRON", cron="0 0 30 2 *"),
    "dates that never come": job(schedule_type="CRON", cron="0 0 31 2,4,6,9,11 *"),
    "a leap day on a Monday": job(schedule_type="CRON", cron="59 59 23 29 2 1"),
    "a line of lists": job(schedule_type="CRON", cron="0 0 " + ",".join(["1-31/1"] * 60) + " * *"),
    "a line of commas": job(schedule_type="CRON", cron="," * 490),
    "a zone of dots": job(schedule_type="CRON", cron="0 0 * * *", timezone="../" * 33),
    "a duration of parts": job(every="1h" * 25),
    "a label of a megabyte": job(requires=["a" * LONG + "!"]),
    "many labels": job(requires=["a=" + "b" * 99] * 9_000),
    "many own labels": job(labels={f"k{number}": "v" for number in range(60_000)}),
    "an address of a megabyte": job(task={"kind": "http", "url": "http://" + "a." * (LONG // 2)}),
    "an address of masks": job(task={"kind": "http", "url": "http://a/?" + ";a=***" * (LONG // 6)}),
    "headers": job(task={"kind": "http", "url": "http://a/", "headers": {"A": "\u00e9" * (LONG // 6)}}),
    "statuses": job(task={"kind": "http", "url": "http://a/", "expect": ["2xx"] * 140_000}),
    "arguments": job(task={"kind": "shell", "argv": ["a"] * 200_000}),
    "members with a blank before the colon": HEAD + b',"payload":[' + b'{"a" :1},' * 110_000 + b"1]}",
    "empty objects and one blank": HEAD + b',"payload":[' + b"{}," * 330_000 + b'{"a" :1}]}',
    "objects and one member twice": HEAD + b',"payload":[' + b'{"":{}},' * 125_000 + b'{"a":1,"a":1}]}',
    "empty objects and one member twice": HEAD + b',"payload":[' + b"{}," * 330_000 + b'{"a":1,"a":1}]}',
    "rules of retrying": job(retry={"on": {"include": ["a.b"] * 100_000}}),
}  # fmt: skip


@pytest.mark.parametrize("body", COSTLY.values(), ids=COSTLY.keys())
async def test_a_costly_text_costs_the_loop_little(here: World, body: bytes) -> None:
    """Taken or refused, it is answered, and the loop works for a small part of a second."""
    assert len(body) <= 1 << 20
    status, seconds = await cost(here, body)
    assert status in (201, 400, 413, 422)
    assert seconds < MAX_SECONDS


@pytest.mark.parametrize("source", [BUSY_COMPILER, "# /// script\n" * 70_000, "x = 1\n" * 120_000])
async def test_an_uploaded_script_costs_the_loop_little(here: World, source: str) -> None:
    """A stored task may be larger than what a job holds."""
    body = json.dumps({"name": "s", "script": source}).encode()
    status, seconds = await cost(here, body, "/tasks")
    assert status == 201
    assert seconds < MAX_SECONDS


@pytest.mark.parametrize(
    "jobs",
    [
        [
            {**WHEN, "task": {"kind": "python", "source": f"x = {number}\n" + "pass\n" * 25_000}}
            for number in range(100)
        ],
        [{**WHEN, "task": SHELL, "payload": ["x" * 200_000]} for _ in range(100)],
        [{**WHEN, "task": {"kind": "p" * 200_000}} for _ in range(100)],
    ],
    ids=["scripts", "payloads", "kinds"],
)
async def test_a_batch_of_large_jobs_lets_others_in_between(here: World, jobs: list[dict[str, Any]]) -> None:
    """It yields by bytes: a hundred jobs are fewer than what it would do in one turn if it counted jobs alone."""
    body = json.dumps({"jobs": jobs}).encode()
    batch = asyncio.create_task(cost(here, body, "/jobs:batch"))
    beside = 0
    while not batch.done():
        answer = await here.client.get("http://tickwise/livez")
        assert answer.status_code == 200
        beside += 1
        await asyncio.wait([batch], timeout=0)
    assert (await batch)[0] in (200, 201, 207, 422)
    assert beside > 20


async def test_a_batch_of_refused_jobs_lets_others_work(here: World) -> None:
    """What is wrong with a job costs more to say than a good one costs to read."""
    jobs = [{"name": "x", "schedule_type": "ON_DEMAND", f"x{number}": 1} for number in range(400)]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time

    working = asyncio.create_task(others())
    answer = await here.client.post(f"{API}/jobs:batch", json={"jobs": jobs})
    working.cancel()
    assert 400 == answer.json()["refused"]
    assert turns > 2 * 400 / 4


def event(line: str) -> str:
    """An iCalendar file of one event, with this line in it."""
    head = ("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:x", "BEGIN:VEVENT", "UID:1", "DTSTAMP:20260101T000000Z")
    return "\r\n".join((*head, line, "END:VEVENT", "END:VCALENDAR", ""))


@pytest.mark.parametrize(
    "line",
    [
        f"DTSTART;TZID={'A' * LONG}:20260101T000000",
        f"DTSTART;TZID={'A/' * (LONG // 2)}B:20260101T000000",
        f"DTSTART:{'A' * LONG}",
        f"{'A' * LONG}",
    ],
    ids=["a zone of one name", "a zone of many folders", "a date", "a name"],
)
async def test_a_long_value_in_a_calendar_file_is_refused_shortly(here: World, line: str) -> None:
    """It names the event and what to write, and quotes little."""
    answer = await here.client.put(f"{API}/calendars/x", json={"ics": event(line)})
    found = answer.json()
    assert (422, "/ics") == (answer.status_code, found["pointer"])
    assert len(answer.content) < 2_000


@pytest.mark.parametrize("body", COSTLY.values(), ids=COSTLY.keys())
async def test_a_problem_is_short(here: World, body: bytes) -> None:
    """However long the value is that is at fault, or the name of its field."""
    answer = await here.client.post(f"{API}/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.is_success or len(answer.content) < 8_000
