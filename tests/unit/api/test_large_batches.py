"""Batches of any size and content: a job in one is bounded as one alone, and others are served beside them."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from httpx2 import Response
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.app import API, World, world
from tickwise.adapters.clock import SystemClock
from tickwise.api.ingest import check_parts
from tickwise.api.reading import LARGE_BYTES, LargeBodies
from tickwise.control.turns import Turns
from tickwise.domain.errors import Busy, TooLarge

MAX_SECONDS = 0.5
"""Of the event loop's thread, until others have their turn; usual are some milliseconds."""
HEAD = b'{"name":"a","schedule_type":"IMMEDIATE","task":{"kind":"shell","command":"date"}'
COSTLY_PAYLOAD = HEAD + b',"payload":[' + b'{"a" :1},' * 110_000 + b"1]}"
COSTLY_REFUSAL = HEAD + b',"payload":[' + b'{"":{}},' * 125_000 + b'{"a":1,"a":1}]}'


@pytest_asyncio.fixture(scope="module")
async def here() -> AsyncIterator[World]:
    """The first request makes what all further ones have: it is none of theirs."""
    async with world() as made:
        assert 200 == (await made.client.post(f"{API}/jobs:batch", content=b"[{}]")).status_code
        yield made


def job(payload: Any, name: str = "a") -> bytes:
    task = {"kind": "shell", "command": "date"}
    return json.dumps({"name": name, "schedule_type": "IMMEDIATE", "task": task, "payload": payload}).encode()


JOB_BYTES_MAX = 1 << 20
MUCH = 31 << 20


async def longest_turn(here: World, body: bytes, media: str = "application/json") -> tuple[Response, float]:
    """The answer to a batch, and the longest time of the processor in which nobody else was served."""
    longest = 0.0

    async def others() -> None:
        nonlocal longest
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
            longest = max(longest, time.thread_time() - before)
            before = time.thread_time()

    gc.disable()
    beside = asyncio.create_task(others())
    try:
        answer = await here.client.post(f"{API}/jobs:batch", content=body, headers={"Content-Type": media})
        # The time before the answer is known at the next turn.
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
        return answer, longest
    finally:
        beside.cancel()
        gc.enable()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" + HEAD + b',"payload":[' + b'{"a" :1},' * (MUCH // 9) + b"1]}]", 413),
        (b'{"jobs":[' + HEAD + b',"payload":[' + b'{"a" :1},' * (MUCH // 9) + b"1]}]}", 413),
        (b"[" + b"{}," * (MUCH // 3) + b"{}]", 413),
        (b'{"jobs": [' + b"{}," * (MUCH // 3) + b"{}]}", 413),
        (b'{"jobs": [{}], "jobs": [' + b"{}," * (MUCH // 3) + b"{}]}", 422),
        (b'{"Jobs": [' + b"{}," * (MUCH // 3) + b"{}]}", 413),
        (b"[" + b"1," * (MUCH // 2) + b"1]", 413),
        (b"[" * MUCH, 400),
        (b"[" + b"[" * 990 + b"1" + b"]" * 990 + b",{}" * (MUCH // 3) + b"]", 413),
        (b"[" + b'"' + b"," * MUCH + b'"]', 413),
        (b"[" + b",".join([COSTLY_PAYLOAD] * 8) + b"]", 200),
        (b"[" + b",".join([COSTLY_REFUSAL] * 8) + b"]", 200),
        (b"[" + b",".join([HEAD + b',"payload":[' + b'{"a" :1},' * 300 + b"1]}"] * 3_000) + b"]", 200),
    ],
    ids=[
        "a job too large", "in an object", "too many jobs", "in an object", "jobs twice", "another member", "numbers",
        "depth", "depth and many", "a text", "costly payloads", "costly refusals", "many costly payloads",
    ],
)  # fmt: skip
async def test_a_costly_batch_lets_others_work(here: World, body: bytes, status: int) -> None:
    """Whatever its author writes into it. (`CPython`'s own limit of depth decides which way a deep one is refused.)"""
    answer, longest = await longest_turn(here, body)
    assert answer.status_code == status or (status == 413 and answer.status_code == 400 and b"[[[" in body)
    assert longest < MAX_SECONDS


async def test_lines_without_end_let_others_work(here: World) -> None:
    for body in (b"\n" * MUCH, b"{}\n" * (MUCH // 3)):
        answer, longest = await longest_turn(here, body, "application/x-ndjson")
        assert answer.status_code == 413
        assert longest < MAX_SECONDS


@pytest.mark.parametrize("form", ["array", "object", "lines", "array with many commas"])
async def test_a_job_in_a_batch_may_be_no_larger_than_one_alone(here: World, form: str) -> None:
    """413 names it; nothing of the batch is stored, and one at the limit is."""
    name = f"of an {form}"
    good, large = job("x", name), job("x" * JOB_BYTES_MAX, name)
    largest = large[: JOB_BYTES_MAX - 2] + b'"}'
    assert len(largest) == JOB_BYTES_MAX

    def batch(jobs: list[bytes]) -> tuple[bytes, str]:
        if form == "lines":
            return b"\n".join(jobs), "application/x-ndjson"
        if form == "object":
            return b'{"jobs": [' + b",".join(jobs) + b"]}", "application/json"
        commas = job([1] * 100_000)
        return b"[" + b" ,\n ".join([*jobs, *([commas] * 2 if "commas" in form else [])]) + b"]", "application/json"

    body, media = batch([good, large])
    answer, _ = await longest_turn(here, body, media)
    assert (413, "/1 has more than") == (answer.status_code, answer.json()["detail"][11:27])
    assert (await here.client.get(f"{API}/jobs", params={"name": name})).json() == []
    body, media = batch([good, largest])
    answer, _ = await longest_turn(here, body, media)
    assert answer.status_code == 200
    assert answer.json()["refused"] == 0


@given(
    values=st.lists(
        st.recursive(st.one_of(st.integers(), st.text(), st.floats(allow_nan=False), st.none()), st.lists), max_size=5
    ),
    blank=st.sampled_from(["", " ", "\n\t"]),
)
@settings(deadline=None)
def test_walking_finds_the_parts_of_any_array(values: list[Any], blank: str) -> None:
    """It ends at the end of the array, whatever is in it, and refuses exactly what is larger than a job."""
    parts = [json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") for value in values]
    between = f"{blank},{blank}".encode()
    body = blank.encode() + b"[" + between.join(parts) + blank.encode() + b"]"
    try:
        asyncio.run(check_parts(body, 16, Turns(SystemClock())))
        refused = False
    except TooLarge:
        refused = True
    assert refused == any(len(part) > 16 for part in parts)


async def test_large_bodies_share_a_bounded_room() -> None:
    """What does not fit is refused before it is read to its end; what is answered gives its room back."""
    bodies = LargeBodies(room_bytes=3 * LARGE_BYTES)
    with bodies.share() as small, bodies.share() as one, bodies.share() as two:
        small.take(LARGE_BYTES)
        one.take(2 * LARGE_BYTES)
        with pytest.raises(Busy):
            two.take(2 * LARGE_BYTES)
    with bodies.share() as three:
        three.take(3 * LARGE_BYTES)


async def test_large_bodies_wait_for_their_turn_and_small_ones_for_nobody() -> None:
    """The third large one begins when one of the first two is answered."""
    bodies = LargeBodies()
    working: list[str] = []
    done = {name: asyncio.Event() for name in ("one", "two", "three", "small")}

    async def request(name: str, size: int) -> None:
        with bodies.share() as share:
            share.take(size)
            async with share.turn():
                working.append(name)
                await done[name].wait()

    async def all_that_can() -> None:
        for _ in range(5):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time

    async with asyncio.TaskGroup() as group:
        for name in ("one", "two", "three"):
            group.create_task(request(name, 2 * LARGE_BYTES))
        group.create_task(request("small", LARGE_BYTES))
        await all_that_can()
        assert working == ["one", "two", "small"]
        done["two"].set()
        await all_that_can()
        assert working == ["one", "two", "small", "three"]
        for each in done.values():
            each.set()


async def test_a_large_batch_takes_its_turn_and_a_small_one_none(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And holds it until its answer."""
    turns = 0

    class Counted(LargeBodies):
        @asynccontextmanager
        async def turn(self) -> AsyncIterator[None]:
            nonlocal turns
            turns += 1
            async with super().turn():
                yield

    monkeypatch.setattr(here.app._server, "_large", Counted())
    one = job("x" * 600_000)
    for number, expected in ((1, 0), (2, 1)):
        answer, _ = await longest_turn(here, b"\n".join([one] * number), "application/x-ndjson")
        assert 200 == answer.status_code
        assert expected == turns
