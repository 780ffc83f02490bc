"""A log whose parts were put together, or lost, while somebody reads it."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.adapters.blobs import StoredBlobs, open_blobs
from tickwise.control.runs.logs import LogReader, read_log
from tickwise.domain.errors import NotFound
from tickwise.domain.model import time_id
from tickwise.ports.blobs import LOG_WHOLE, BlobInfo, log_chunk_key, log_prefix

RUN = time_id(1_700_000_000_000, b"0123456789")
FOLDER = log_prefix(RUN, 1)


async def _parts(count: int) -> StoredBlobs:
    blobs = open_blobs("memory://")
    for number in range(count):
        await blobs.put(log_chunk_key(RUN, 1, number, last=number == count - 1), b"line %d\n" % number)
    return blobs


async def test_the_whole_counts_alone() -> None:
    """While its parts are still there, and when they are gone; the log is complete."""
    blobs = await _parts(3)
    expected = b"line 0\nline 1\nline 2\n"
    await blobs.put(f"{FOLDER}{LOG_WHOLE}", expected)
    for _ in range(2):
        chunk = await read_log(blobs, RUN, 1, offset=0, limit=1_000, ended=False)
        assert (expected, True, len(expected)) == (chunk.content, chunk.complete, chunk.size)
        await blobs.delete([f"{FOLDER}000000", f"{FOLDER}000001", f"{FOLDER}000002.last"])


async def test_a_reader_goes_on_when_the_parts_become_one() -> None:
    """Between its listing and its reading."""
    blobs = await _parts(3)
    reader = await LogReader.open(blobs, RUN, 1)
    assert b"line 0\n" == await reader.read(0, 7)
    await blobs.put(f"{FOLDER}{LOG_WHOLE}", b"line 0\nline 1\nline 2\n")
    await blobs.delete([info.key for info in await blobs.list(FOLDER) if not info.key.endswith(LOG_WHOLE)])
    assert b"line 1\nline 2\n" == await reader.read(7, 100)


async def test_a_part_that_the_store_has_lost_is_told_in_its_place() -> None:
    """With its key; the rest is read, and offsets go on."""
    blobs = await _parts(5)
    await blobs.delete([f"{FOLDER}000001", f"{FOLDER}000002"])
    chunk = await read_log(blobs, RUN, 1, offset=0, limit=1_000, ended=True)
    lines = chunk.content.decode().splitlines()
    assert ["line 0", "line 3", "line 4"] == [lines[0], *lines[2:]]
    assert f"has lost {FOLDER}000001 to 000002" in lines[1]
    assert chunk.complete
    again = b"".join(
        [(await read_log(blobs, RUN, 1, offset=at, limit=5, ended=True)).content for at in range(0, 300, 5)]
    )
    assert chunk.content == again


class Forgetful(StoredBlobs):
    """Lists a blob that it does not give."""

    def __init__(self, blobs: StoredBlobs, key: str) -> None:
        super().__init__(blobs._store)
        self.key = key

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if key == self.key:
            raise NotFound("forgotten")
        return await super().get_range(key, start, length)

    async def list(self, prefix: str) -> Sequence[BlobInfo]:
        return await super().list(prefix)


async def test_a_part_that_is_listed_and_not_there_is_filled() -> None:
    """With as many bytes, so that what follows keeps its offset, and reading ends."""
    whole = open_blobs("memory://")
    await whole.put(log_chunk_key(RUN, 1, 0, last=False), b"first\n")
    await whole.put(log_chunk_key(RUN, 1, 1, last=False), b"x" * 299 + b"\n")
    await whole.put(log_chunk_key(RUN, 1, 2, last=True), b"last\n")
    blobs = Forgetful(whole, f"{FOLDER}000001")
    chunk = await read_log(blobs, RUN, 1, offset=0, limit=1_000, ended=True)
    assert 311 == len(chunk.content)
    assert chunk.content.startswith(b"first\n[the store of outputs lists ")
    assert chunk.content.endswith(b".\nlast\n")
    assert chunk.complete
