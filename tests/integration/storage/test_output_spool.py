"""Output while the object store is away or slow: it waits on disk, up to a bound, and arrives in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from tests.integration.storage.test_bucket import bucket, bucket_of
from tests.services.s3.server import S3
from tests.support.local_up import ROOT
from tests.support.s3_links import S3Link
from tests.support.waiting import eventually
from tickwise.adapters.blobs.s3.bucket import S3Blobs
from tickwise.adapters.blobs.spool import delivery
from tickwise.adapters.blobs.spool.delivery import SpooledBlobs, spooled
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.output import OutputSink
from tickwise.control.runs.logs import read_log
from tickwise.domain.errors import Unavailable
from tickwise.domain.model import time_id
from tickwise.ports.blobs import SpoolFull, log_chunk_key, log_prefix

CLOCK = SystemClock()


@pytest_asyncio.fixture
async def link(s3_server: S3) -> AsyncIterator[S3Link]:
    async with S3Link(s3_server.url) as made:
        yield made


def a_run() -> UUID:
    return time_id(int(CLOCK.now() * 1000), os.urandom(10))


async def text_of(blobs: S3Blobs, run: UUID) -> bytes:
    """The log as a reader has it now."""
    return (await read_log(blobs, run, 1, offset=0, limit=1 << 30, ended=False)).content


async def is_closed(blobs: S3Blobs, run: UUID) -> bool:
    return (await read_log(blobs, run, 1, offset=0, limit=1 << 30, ended=False)).complete


@pytest.mark.parametrize("mode", ["refuse", "stall", "AccessDenied", "SlowDown", "cut"])
async def test_output_waits_on_disk_and_arrives_in_order(
    s3_server: S3, link: S3Link, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task's end does not wait for the store. A reader sees a beginning of the log at any moment, and all of it
    after the store is back, in one object."""
    blobs = bucket(s3_server, endpoint=link.url)
    direct = bucket_of(blobs, s3_server)
    run = a_run()
    async with spooled(blobs, CLOCK, tmp_path, 1 << 20) as spool:
        sink = OutputSink(spool, CLOCK, run, 1, limit_bytes=1 << 20)
        sink.write(b"first\n")
        await eventually(lambda: _has(direct, run, b"first\n"), what="the first part arrives")
        await eventually(lambda: not sink.pending_bytes and not spool.state.waiting_bytes, what="and is known to")
        monkeypatch.setattr(delivery, "PUT_SECONDS", 0.5)
        link.set(mode)
        for number in range(3):
            sink.write(b"line %d\n" % number)
            await CLOCK.sleep(0.6)
            assert b"first\n" == await text_of(direct, run)
        began = CLOCK.monotonic()
        await sink.close(patient=True)
        # A request that stalls takes 30 s, and a delivery is tried until the store is back.
        assert CLOCK.monotonic() - began < 20.0
        assert sink.lost is None
        state = spool.state
        assert 21 == state.waiting_bytes
        assert state.is_away
        link.set("pass")
        await eventually(lambda: is_closed(direct, run), what="all arrives")
        # A look between the parts and the one object that takes their place sees less, and the next one all.
        await eventually(lambda: _has(direct, run, b"first\nline 0\nline 1\nline 2\n"), what="all of it is there")
        await eventually(lambda: _one_object(direct, run), what="it is one object")
        assert b"first\nline 0\nline 1\nline 2\n" == await text_of(direct, run)
        assert (0, 0, False) == spool.state[:3]


async def _has(blobs: S3Blobs, run: UUID, content: bytes) -> bool:
    return await text_of(blobs, run) == content


async def _one_object(blobs: S3Blobs, run: UUID) -> bool:
    return [info.key.rpartition("/")[2] for info in await blobs.list(log_prefix(run, 1))] == ["whole.last"]


async def test_beyond_the_bound_output_is_lost_and_counted(s3_server: S3, link: S3Link, tmp_path: Path) -> None:
    """To the byte, in the place where it stood; the run ends as it did, and the size of the log is that of the log."""
    blobs = bucket(s3_server, endpoint=link.url)
    direct = bucket_of(blobs, s3_server)
    run = a_run()
    link.set("refuse")
    async with spooled(blobs, CLOCK, tmp_path, 20_000) as spool:
        sink = OutputSink(spool, CLOCK, run, 1, limit_bytes=1 << 20)
        sink.write(b"a" * 15_000)
        await eventually(lambda: spool.state.waiting_bytes == 15_000, what="the first part waits")
        sink.write(b"b" * 12_345)
        await eventually(lambda: not sink.pending_bytes, what="the second part is given up")
        sink.write(b"the end\n")
        await sink.close(patient=True)
        assert sink.lost is None
        link.set("pass")
        await eventually(lambda: is_closed(direct, run), what="all arrives")
    text = await text_of(direct, run)
    assert text.startswith(b"a" * 15_000 + b"\n[12345 bytes of output were lost here: the object store is away (")
    assert text.endswith(b"]\nthe end\n")
    assert len(text) == sink.kept_bytes


async def test_a_blob_that_is_too_large_is_refused_at_once(s3_server: S3, link: S3Link, tmp_path: Path) -> None:
    """So an artefact is named as not kept; the end of a log still finds room, and the store is tried again."""
    blobs = bucket(s3_server, endpoint=link.url)
    link.set("refuse")
    async with spooled(blobs, CLOCK, tmp_path, 1_000) as spool:
        with pytest.raises(SpoolFull, match="the 1000 bytes that may wait on its disk are used"):
            await spool.put("artefacts/1/a", b"x" * 5_000)
        await spool.put("logs/1/2/000000.last", b"x" * 1_500)
        link.set("pass")
        await eventually(lambda: not spool.state.waiting_bytes, what="it is delivered")
        await spool.put("artefacts/1/a", b"x" * 5_000)
    assert b"x" * 1_500 == await blobs.get("logs/1/2/000000.last")


async def test_the_next_executor_delivers_what_one_left(s3_server: S3, link: S3Link, tmp_path: Path) -> None:
    """In its order, also of several that are gone; what a live one holds is not touched."""
    blobs = bucket(s3_server, endpoint=link.url)
    run = a_run()
    link.set("refuse")
    contents = [b"%d " % number for number in range(12)]
    for begin in (0, 4):
        async with spooled(blobs, CLOCK, tmp_path, 1 << 20) as spool:
            for number in range(begin, begin + 4):
                await spool.put(log_chunk_key(run, 1, number, last=False), contents[number])
    async with spooled(blobs, CLOCK, tmp_path, 1 << 20) as live:
        assert 8 == live.state.waiting_blobs
        for number in range(8, 12):
            await live.put(log_chunk_key(run, 1, number, last=number == 11), contents[number])
        async with spooled(blobs, CLOCK, tmp_path, 1 << 20) as second:
            assert 0 == second.state.waiting_blobs
            link.set("pass")
            await eventually(lambda: is_closed(blobs, run), what="all arrives")
        await eventually(lambda: not live.state.waiting_blobs, what="and is on the disk no more")
        assert b"".join(contents) == await text_of(blobs, run)
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


WRITER = """
import asyncio, sys
from pathlib import Path
from tickwise.adapters.blobs import BlobAccess, open_blobs
from tickwise.adapters.blobs.spool.delivery import SpooledBlobs
from tickwise.adapters.clock import SystemClock

async def main(url, key, secret, folder, prefix):
    blobs = open_blobs(url, BlobAccess(access_key_id=key, secret_access_key=secret))
    spool = SpooledBlobs(blobs, SystemClock(), Path(folder), 1 << 26)
    await spool.start()
    for number in range(100_000):
        await spool.put(f"{prefix}{number:06d}", b"%06d\\n" % number * 100)
        print(number, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_killed_executor_loses_nothing_that_was_on_its_disk(
    s3_server: S3, link: S3Link, tmp_path: Path
) -> None:
    """`kill -9` in the middle of its writes: each write that had returned is delivered by the next one, once, and in
    order."""
    blobs = bucket(s3_server, endpoint=link.url)
    run = a_run()
    link.set("refuse")
    url = s3_server.blobs_url(blobs.address.prefix, endpoint=link.url)
    arguments = [url, s3_server.access_key_id, s3_server.secret_access_key, str(tmp_path), log_prefix(run, 1)]
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    output = process.stdout
    assert output is not None
    said: list[bytes] = []
    while len(said) < 60:
        said.append(await asyncio.to_thread(lambda: output.readline()))
    process.send_signal(signal.SIGKILL)
    said += (await asyncio.to_thread(output.read)).splitlines()
    written = sum(line.strip().isdigit() for line in said)
    process.wait(60)
    output.close()
    link.set("pass")
    async with spooled(blobs, CLOCK, tmp_path, 1 << 26) as spool:
        await eventually(lambda: not spool.state.waiting_blobs, within_seconds=60, what="all is delivered")
    text = await text_of(blobs, run)
    numbers = [int(line) for line in text.splitlines()]
    assert numbers == [number for number in range(len(numbers) // 100) for _ in range(100)]
    assert len(numbers) // 100 >= written >= 50


async def test_one_blob_that_the_store_never_takes_holds_up_no_other(s3_server: S3, tmp_path: Path) -> None:
    """Another log arrives meanwhile."""
    blobs = Choosy(bucket(s3_server))
    async with spooled(blobs, CLOCK, tmp_path, 1 << 20) as spool:
        await spool.put("logs/1/bad/000000", b"x")
        await spool.put("logs/1/good/000000", b"y")
        await eventually(lambda: _stored(blobs, "logs/1/good/"), what="the other one arrives")
        await eventually(lambda: 1 == spool.state.waiting_blobs, what="and its file is gone")


class Choosy(S3Blobs):
    """Never takes what is below `bad`."""

    def __init__(self, other: S3Blobs) -> None:
        self.__dict__.update(other.__dict__)

    async def put(self, key: str, content: bytes) -> None:
        if "/bad/" in key:
            raise Unavailable("it is not to be taken")
        await super().put(key, content)


async def _stored(blobs: S3Blobs, folder: str) -> bool:
    return bool(await blobs.list(folder))


async def test_scripts_are_read_once(s3_server: S3, tmp_path: Path) -> None:
    """They are named by their content; a task whose script was read before starts while the store is away."""
    async with S3Link(s3_server.url) as link:
        blobs = bucket(s3_server, endpoint=link.url)
        key = f"scripts/a/{uuid4().hex}"
        await blobs.put(key, b"print()")
        async with spooled(blobs, CLOCK, tmp_path, 1 << 20) as spool:
            assert b"print()" == await spool.get(key)
            link.set("refuse")
            assert b"print()" == await spool.get(key)


async def test_a_log_is_one_object_after_its_end(s3_server: S3, tmp_path: Path) -> None:
    """However many parts it had, and a reader that began before goes on after."""
    blobs = bucket(s3_server)
    run = a_run()
    async with spooled(blobs, CLOCK, tmp_path, 1 << 20) as spool:
        for number in range(30):
            await spool.put(log_chunk_key(run, 1, number, last=number == 29), b"%d\n" % number * 50)
        await eventually(lambda: _one_object(blobs, run), what="it is one object")
    expected = b"".join(b"%d\n" % number * 50 for number in range(30))
    assert expected == await text_of(blobs, run)
    assert isinstance(spool, SpooledBlobs)
