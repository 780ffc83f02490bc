"""The streams of pages: what they tell, who may have one, and when they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Rig, pages
from tests.support.people import PASSWORD
from tests.support.waiting import eventually
from tickwise.ports.store import NewJob
from tickwise.testing.factories import Factory

ENDS_WITHIN_SECONDS = 6.0


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
        await asyncio.wait_for(task, 10)


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
    assert 0 == rig.here.control.live.streams
