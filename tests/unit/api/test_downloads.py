"""Downloads of logs and artefacts over the API and the pages: in parts, with their headers alone, at any size."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest

from tests.support.app import ADMIN_KEY, API
from tests.support.artefacts import keep_artefacts
from tests.support.pages import Browser, Rig, pages
from tickwise.adapters.blobs import open_blobs
from tickwise.documents.artefacts import Artefact, ArtefactIndex, artefact_key, index_content, index_key
from tickwise.ports.blobs import log_chunk_key
from tickwise.ports.store import ClaimRequest, NewExecutor

LARGE_BYTES = 512 << 20
GROWTH_BYTES = 48 << 20
"""Far below the file, far above some parts and what an allocator keeps."""
CONTENT = bytes(range(256)) * 16


@asynccontextmanager
async def scene() -> AsyncIterator[tuple[Rig, UUID, Browser]]:
    """A run with an attempt, and a viewer's browser."""
    async with pages() as rig:
        job = {"name": "a", "task": {"kind": "shell", "command": "x"}, "schedule_type": "IMMEDIATE"}
        made = (await rig.here.client.post(f"{API}/jobs", json=job)).json()
        runs = (await rig.here.client.get(f"{API}/jobs/{made['job_id']}/runs")).json()
        store = rig.here.store
        executor = await store.executors.join(
            NewExecutor(number=2, name="e", queues=["default"], labels=[], functions=[], slots=1, lease_seconds=60)
        )
        assert await store.attempts.claim(
            ClaimRequest(executor=executor, queues=["default"], labels=["task:shell"], limit=10, ahead_seconds=0)
        )
        yield rig, UUID(runs[0]["run_id"]), await rig.signed_in("ada", ("viewer", "default"))


async def _write_log(rig: Rig, run: UUID) -> None:
    blobs = rig.here.control.context.blobs
    for number in range(4):
        content = CONTENT[number * 1024 : number * 1024 + 1024]
        await blobs.put(log_chunk_key(run, 1, number, last=number == 3), content)


@pytest.mark.parametrize("what", ["artefact", "log"])
@pytest.mark.parametrize("way", ["api", "page"])
async def test_a_download_can_be_had_in_parts(what: str, way: str) -> None:
    """206 for a range, also over the borders of a log's chunks; 416 with the size; the whole under another tag; its
    headers alone."""
    async with scene() as (rig, run, browser):
        await _write_log(rig, run)
        await keep_artefacts(rig.here.control.context.blobs, run, {"a.bin": CONTENT})
        paths = {
            ("artefact", "api"): f"{API}/runs/{run}/artefacts/a.bin", ("log", "api"): f"{API}/runs/{run}/logs/file",
            ("artefact", "page"): f"/runs/{run}/artefacts/a.bin", ("log", "page"): f"/runs/{run}/log",
        }  # fmt: skip
        path = paths[what, way]

        async def ask(method: str = "GET", **headers: str) -> Any:
            if way == "page":
                return await browser.ask(method, path, **headers)
            said = {name.replace("_", "-"): value for name, value in headers.items()}
            return await rig.here.client.request(method, path, headers=said)

        whole = await ask()
        assert (200, CONTENT, "4096") == (whole.status_code, whole.content, whole.headers["content-length"])
        assert whole.headers["content-disposition"].startswith("attachment; ")
        tag = whole.headers["etag"]
        part = await ask(Range="bytes=1000-2999", If_Range=tag)
        assert (206, CONTENT[1000:3000]) == (part.status_code, part.content)
        assert ("bytes 1000-2999/4096", tag) == (part.headers["content-range"], part.headers["etag"])
        assert (200, CONTENT) == ((other := await ask(Range="bytes=1000-", If_Range='"b"')).status_code, other.content)
        beyond = await ask(Range="bytes=4096-")
        assert (416, "bytes */4096") == (beyond.status_code, beyond.headers["content-range"])
        head = await ask("HEAD", Range="bytes=0-1")
        assert (200, b"") == (head.status_code, head.content)
        assert ["4096"] == head.headers.get_list("content-length")
        same = ("etag", "accept-ranges", "content-type", "content-disposition")
        assert [whole.headers[name] for name in same] == [head.headers[name] for name in same]


async def test_the_tag_of_a_log_changes_as_it_grows() -> None:
    """Its parts are not joined with those of a longer one; a log that is put together keeps its tag."""
    async with scene() as (rig, run, _):
        blobs, path = rig.here.control.context.blobs, f"{API}/runs/{run}/logs/file"
        empty = await rig.here.client.get(path)
        assert (200, b"") == (empty.status_code, empty.content)
        await blobs.put(log_chunk_key(run, 1, 0, last=False), b"first\n")
        before = await rig.here.client.get(path)
        await blobs.put(log_chunk_key(run, 1, 1, last=True), b"second\n")
        resumed = await rig.here.client.get(path, headers={"Range": "bytes=6-", "If-Range": before.headers["etag"]})
        assert (200, b"first\nsecond\n") == (resumed.status_code, resumed.content)
        await blobs.put(log_chunk_key(run, 1, 0, last=False).replace("000000", "whole.last"), b"first\nsecond\n")
        joined = await rig.here.client.get(path, headers={"Range": "bytes=6-", "If-Range": resumed.headers["etag"]})
        assert (206, b"second\n") == (joined.status_code, joined.content)
        assert "1" == joined.headers["tickwise-attempt"]


async def test_a_log_of_another_namespace_is_not_found() -> None:
    """As the run itself is not."""
    async with scene() as (rig, run, _):
        await _write_log(rig, run)
        key = await rig.here.key("stranger", "runs:read", namespace="other")
        answer = await rig.here.client.get(
            f"{API}/runs/{run}/logs/file", headers={"Authorization": f"Bearer {key}", "Range": "bytes=0-0"}
        )
        assert 404 == answer.status_code


class Answered:
    """What an application sends, of which the bytes are counted and not kept."""

    def __init__(self) -> None:
        self.status, self.size, self.memory_most = 0, 0, 0
        self.is_whole = False
        self._process = psutil.Process()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size += len(message.get("body", b""))
            self.memory_most = max(self.memory_most, self._process.memory_info().rss)
            self.is_whole = not message.get("more_body", False)


async def _ask(app: Any, path: str, **headers: str) -> Answered:
    said = {"authorization": f"Bearer {ADMIN_KEY}", "host": "tickwise", **headers}
    answered = Answered()
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in said.items()],
        "client": ("127.0.0.1", 4711), "server": ("tickwise", 80),
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, answered.send)
    return answered


@pytest.mark.parametrize("what", ["artefact", "log"])
async def test_a_large_download_costs_the_memory_of_a_part(what: str, tmp_path: Path) -> None:
    """Whole and from its middle on, from a folder."""
    async with scene() as (rig, run, _):
        blobs = rig.here.control.context.blobs = open_blobs(tmp_path.as_uri())
        name = artefact_key(run, 1, 0) if what == "artefact" else log_chunk_key(run, 1, 0, last=True)
        await blobs.put(name, b"")
        os.truncate(tmp_path / name, LARGE_BYTES)
        index = ArtefactIndex([Artefact("a", LARGE_BYTES, hashlib.sha256(b"").hexdigest())])
        await blobs.put(index_key(run, 1), index_content(index))
        path = f"{API}/runs/{run}/artefacts/a" if what == "artefact" else f"{API}/runs/{run}/logs/file"
        assert 206 == (await _ask(rig.here.app, path, range="bytes=0-9")).status
        before = psutil.Process().memory_info().rss
        for headers, status, size in (({}, 200, LARGE_BYTES), ({"range": "bytes=-300000000"}, 206, 300_000_000)):
            found = await _ask(rig.here.app, path, **headers)
            assert (status, size, True) == (found.status, found.size, found.is_whole)
            assert found.memory_most - before < GROWTH_BYTES


async def test_a_file_that_vanishes_while_it_is_sent_ends_the_answer_unfinished(tmp_path: Path) -> None:
    """Fewer bytes than its length says, and no end of the body: the server cuts the connection."""
    async with scene() as (rig, run, browser):
        blobs = rig.here.control.context.blobs = open_blobs(tmp_path.as_uri())
        key = artefact_key(run, 1, 0)
        await blobs.put(key, bytes(3 << 20))
        await blobs.put(index_key(run, 1), index_content(ArtefactIndex([Artefact("a", 9 << 20, "00")])))
        assert browser.cookie
        for found in (
            await _ask(rig.here.app, f"{API}/runs/{run}/artefacts/a"),
            await _ask(rig.pages, f"/runs/{run}/artefacts/a", cookie=browser.cookie, host="127.0.0.1"),
        ):
            assert (200, 3 << 20, False) == (found.status, found.size, found.is_whole)
