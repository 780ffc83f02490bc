"""The streams of pages: what they tell, who may have one, and when they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tests.support.people import PASSWORD
from tests.support.waiting import eventually
from tickwise.control.people.session_opening import BrowserLimits
from tickwise.ports.blobs import log_chunk_key
from tickwise.ports.store import ClaimRequest, NewJob
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import Factory, executor, outcome

ENDS_WITHIN_SECONDS = 14.0
"""Usual are 1 to 3 s; the next heartbeat comes after 15."""
IDLE_SECONDS = BrowserLimits().idle_seconds


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


class Stream:
    """An answer that goes on."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.text = ""
        self.over = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.text += message.get("body", b"").decode()

    def of(self, name: str) -> list[dict[str, Any]]:
        """The data of the events of a name."""
        found = []
        for block in self.text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if lines.get("event") == name:
                found.append(json.loads(lines["data"]))
        return found

    @property
    def last_id(self) -> str:
        """The id with which a browser comes back."""
        return [line.removeprefix("id: ") for line in self.text.split("\n") if line.startswith("id: ")][-1]


@asynccontextmanager
async def following(rig: Rig, browser: Browser, path: str = "/live", **headers: str) -> AsyncIterator[Stream]:
    """A page's stream, with its cookie."""
    stream, gone = Stream(), asyncio.Event()
    address, _, query = path.partition("?")
    said = {"host": "127.0.0.1:8470", "cookie": browser.cookie or "", **headers}
    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "path": address, "raw_path": address.encode(), "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in said.items() if value],
        "http_version": "1.1", "asgi": {"version": "3.0", "spec_version": "2.3"}, "scheme": "http",
        "client": ("127.0.0.1", 4711), "server": ("127.0.0.1", 8470), "root_path": "",
    }  # fmt: skip

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def serve() -> None:
        await rig.pages(scope, receive, stream.send)
        stream.over = True

    task = asyncio.create_task(serve())
    try:
        await eventually(lambda: stream.text or stream.over, what="an answer")
        yield stream
    finally:
        gone.set()
        await asyncio.wait_for(task, 60)


async def made(rig: Rig, **fields: Any) -> NewJob:
    """A job with a run, stored."""
    job = Factory(await rig.here.store.now(), seed=str(fields)).job(**fields)
    await rig.here.store.jobs.add([job])
    return job


async def test_a_page_is_told_that_something_changed(rig: Rig) -> None:
    """And not what: it asks for its block. The answer is not kept, compressed, or held back on its way."""
    browser = await rig.signed_in("ada", ("viewer", "default"))
    async with following(rig, browser, accept_encoding="gzip") as stream:
        assert (200, b"text/event-stream; charset=utf-8") == (stream.status, stream.headers[b"content-type"])
        assert b"no-store, no-transform" == stream.headers[b"cache-control"]
        assert b"content-encoding" not in stream.headers
        assert b"default-src 'none'" in stream.headers[b"content-security-policy"]
        await made(rig)
        await eventually(lambda: stream.of("changed"), what="it is told")
        assert {} == stream.of("changed")[0]
        assert "run_id" not in stream.text
    assert 0 == rig.here.control.live._open.total()


async def test_a_page_hears_of_what_it_shows_alone(rig: Rig) -> None:
    """Of its job, its run, its namespace, and of the jobs whose labels its visitor may see."""
    mine = await made(rig, labels={"team": "a"})
    browser = await rig.signed_in("ada", ("viewer", "default"))
    bound = {"name": "Red", "password": PASSWORD, "roles": [
        {"role": "viewer", "namespace": "default", "labels": {"team": "a"}}]}  # fmt: skip
    assert 201 == (await rig.here.client.post(f"{API}/users", json=bound)).status_code
    red = rig.browser()
    assert 303 == (await red.sign_in("Red")).status_code
    of_job, of_run = f"/live?job_id={mine.job_id}", f"/live?run_id={mine.run_id}"
    async with (
        following(rig, browser) as whole,
        following(rig, browser, of_job) as job,
        following(rig, browser, of_run) as run,
        following(rig, red) as labelled,
    ):
        await made(rig, labels={"team": "b"})
        await eventually(lambda: whole.of("changed"), what="the page of all is told")
        assert ([], [], []) == (job.of("changed"), run.of("changed"), labelled.of("changed"))
        assert 200 == (await rig.here.client.post(f"{API}/runs/{mine.run_id}/cancel")).status_code
        for stream in (job, run, labelled):
            await eventually(partial(stream.of, "changed"), what="it is told")


async def test_a_page_that_comes_back_is_told_of_what_it_missed(rig: Rig) -> None:
    """By the id that the browser remembers; an id of another release is none."""
    browser = await rig.signed_in("ada", ("viewer", "default"))
    async with following(rig, browser) as stream:
        last = stream.last_id
        async with following(rig, browser):
            pass
    await made(rig)
    async with following(rig, browser, last_event_id=last) as again, following(rig, browser, last_event_id="x") as odd:
        await eventually(lambda: again.of("changed") or again.of("gap"), what="it is told")
        assert (200, []) == (odd.status, odd.of("changed"))


async def test_a_page_without_a_session_has_no_stream(rig: Rig) -> None:
    """401, and no form: a script asks. Without the permission: 403."""
    async with following(rig, rig.browser()) as stream:
        assert (401, True) == (stream.status, stream.over)
    nobody = await rig.signed_in("nobody")
    async with following(rig, nobody) as stream:
        assert (403, True) == (stream.status, stream.over)
    browser = await rig.signed_in("ada", ("viewer", "default"))
    async with following(rig, browser, "/live?job_id=x") as stream:
        assert 422 == stream.status
    assert 0 == rig.here.control.live._open.total()


async def ended(stream: Stream) -> str:
    """The reason for which a stream ends, within seconds."""
    await eventually(lambda: stream.over, within_seconds=ENDS_WITHIN_SECONDS, what="the stream ends")
    [end] = stream.of("end")
    return str(end["reason"])


async def test_a_stream_ends_with_the_session(rig: Rig) -> None:
    """Signed out; another session of the person goes on."""
    browser = await rig.signed_in("ada", ("viewer", "default"))
    other = rig.browser()
    await other.sign_in("ada")
    async with following(rig, browser) as stream, following(rig, other) as second:
        cookie = browser.cookie
        await browser.post("/logout")
        assert "unauthenticated" == await ended(stream)
        assert not second.over
        browser.cookie = cookie
    async with following(rig, browser) as again:
        assert 401 == again.status


async def test_a_stream_ends_with_its_person_and_with_their_role(rig: Rig) -> None:
    """Deactivated, or given less: within seconds."""
    for name, change in (("ada", {"active": False}), ("eve", {"roles": []})):
        browser = await rig.signed_in(name, ("viewer", "default"))
        users = (await rig.here.client.get(f"{API}/users")).json()
        [who] = [each["user_id"] for each in users if each["name"] == name]
        async with following(rig, browser) as stream:
            answer = await rig.here.client.patch(f"{API}/users/{who}", json=change)
            assert 200 == answer.status_code, answer.text
            assert "unauthenticated" == await ended(stream)


async def test_a_stream_is_no_use_of_the_session() -> None:
    """A page that is left open ends with the idle time of its session, whatever it is told."""
    clock = ShiftedClock()
    async with pages(clock=clock) as rig:
        browser = await rig.signed_in("ada", ("viewer", "default"))
        async with following(rig, browser) as stream:
            for _ in range(3):
                clock.shift(IDLE_SECONDS / 2.5)
                await made(rig, name=str(clock.now()))
                if stream.over:
                    break
            assert "unauthenticated" == await ended(stream)


async def test_an_output_is_told_as_markup_that_is_escaped(rig: Rig) -> None:
    """In its colours, which go on over the parts; each line has the name that the page gives it."""
    job = await made(rig)
    blobs = rig.here.control.context.blobs
    assert job.run_id is not None
    content = b"\x1b[31mred\nstill <b>\n"
    await blobs.put(log_chunk_key(job.run_id, 1, 0, last=False), content)
    born = await rig.here.store.executors.join(executor())
    request = ClaimRequest(executor=born, queues=("default",), labels=(), limit=1, ahead_seconds=1.0)
    [claimed] = await rig.here.store.attempts.claim(request)
    browser = await rig.signed_in("ada", ("viewer", "default"))
    async with following(rig, browser, f"/runs/{job.run_id}/follow?attempt=1&at=9") as stream:
        await eventually(lambda: stream.of("output"), what="a line")
        [part] = stream.of("output")
        assert (1, 9) == (part["attempt"], part["offset"])
        assert '<span class="line" id="b9">' in part["lines"]
        assert '<span class="a-red">still &lt;b&gt;</span>' in part["lines"]
        await blobs.put(log_chunk_key(job.run_id, 1, 1, last=True), b"end\n")
        assert not await rig.here.store.attempts.finish(born, [outcome(claimed)])
        assert "complete" == await ended(stream)
        assert '<span class="a-red">end</span>' in stream.of("output")[-1]["lines"]


async def test_a_page_that_shows_another_part_of_an_output_does_not_follow_it(rig: Rig) -> None:
    """Lines that come would move what is read: at a line, before one, and with a text that is looked for."""
    job = await made(rig)
    assert job.run_id is not None
    await rig.here.control.context.blobs.put(log_chunk_key(job.run_id, 1, 0, last=False), b"one\ntwo\n")
    born = await rig.here.store.executors.join(executor())
    request = ClaimRequest(executor=born, queues=("default",), labels=(), limit=1, ahead_seconds=1.0)
    assert 1 == len(await rig.here.store.attempts.claim(request))
    browser = await rig.signed_in("ada", ("viewer", "default"))
    path = f"/runs/{job.run_id}"
    for query, follows in (
        ("", True),
        ("?attempt=1", True),
        ("?at=4", False),
        ("?until=4", False),
        ("?find=two", False),
    ):
        page = Markup((await browser.get(path + query)).text)
        found = [each["data-follow"] for each in page.named("section") if "data-follow" in each]
        assert ([f"{path}/follow?attempt=1&at=8"] if follows else []) == found, query
