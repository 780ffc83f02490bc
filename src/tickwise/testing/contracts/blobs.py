"""A store of blobs: they are whole or not there, and no key leads out of it."""

from __future__ import annotations

import asyncio

import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import Bug, NotFound
from tickwise.ports.blobs import LOGS, Blobs
from tickwise.testing.contracts.base import Contract

CLOCKS_DIFFER_SECONDS = 60.0
"""The clock of a blob store is at most so far from the clock of the tests."""
MANY = 120
"""More than a store lists in one page."""
LARGE_BYTES = 3_000_000


class BlobsContract(Contract):
    """The promises of `Blobs`. The adapter's class provides the fixtures `blobs`, an empty store, and `other`, a second
    client of the same blobs, as another process has it; the same object where only one can be.

    All keys lie below `logs/`, so a store that takes nothing else can pass."""

    async def test_a_blob_is_read_as_it_was_written_last(self, blobs: Blobs, other: Blobs) -> None:
        """Also an empty one and a large one, and by another process."""
        for content in (b"first", b"", b"x" * LARGE_BYTES, b"\x00\xff last"):
            await blobs.put("logs/1/000000", content)
            assert content == await blobs.get("logs/1/000000")
            assert content == await other.get("logs/1/000000")

    async def test_a_reader_never_sees_a_part(self, blobs: Blobs, other: Blobs) -> None:
        """A blob that is replaced while it is read is the one before or the one after."""
        contents = [letter * LARGE_BYTES for letter in (b"a", b"b")]
        await blobs.put("logs/1/a", contents[0])
        writes = asyncio.gather(*(blobs.put("logs/1/a", contents[number % 2]) for number in range(6)))
        reads = [await other.get("logs/1/a") for _ in range(6)]
        await writes
        for read in (*reads, await other.get("logs/1/a")):
            assert read in contents, f"{len(read)} bytes of {set(read)}"

    async def test_a_range_ends_with_the_blob(self, blobs: Blobs) -> None:
        """Fewer bytes at the end, none beyond it."""
        await blobs.put("logs/a", b"0123456789")
        found = [await blobs.get_range("logs/a", *part) for part in ((2, 3), (0, 10), (8, 5), (10, 5), (11, 5), (4, 0))]
        assert [b"234", b"0123456789", b"89", b"", b"", b""] == found

    async def test_a_missing_blob_is_not_found(self, blobs: Blobs) -> None:
        """Whole or in part; a folder is no blob."""
        await blobs.put("logs/folder/a", b"x")
        for key in ("logs/missing", "logs/folder/missing", "logs/folder"):
            with pytest.raises(NotFound):
                await blobs.get(key)
            with pytest.raises(NotFound):
                await blobs.get_range(key, 0, 1)

    async def test_a_listing_is_of_one_folder_in_key_order(self, blobs: Blobs, other: Blobs) -> None:
        """With sizes, and with folders below it; the listing of a missing folder is empty."""
        names = ("000001", "000000", "deeper/000003", "000002.last")
        for key in (*(f"logs/1/{name}" for name in names), "logs/10/000000", "logs/1x", "logs/0/9"):
            await blobs.put(key, b"abc")
        found = await other.list("logs/1/")
        assert [(f"logs/1/{name}", 3) for name in sorted(names)] == [(info.key, info.size_bytes) for info in found]
        assert [] == list(await other.list("logs/nowhere/"))

    async def test_a_listing_is_complete(self, blobs: Blobs) -> None:
        """However many blobs there are."""
        keys = [f"logs/many/{number:06d}" for number in range(MANY)]
        await asyncio.gather(*(blobs.put(key, b"") for key in keys))
        assert keys == [info.key for info in await blobs.list("logs/many/")]

    async def test_a_listing_tells_when_each_blob_was_written(self, blobs: Blobs) -> None:
        """Last, on the store's clock."""
        clock = SystemClock()
        before = clock.now()
        times = []
        for _ in range(2):
            await blobs.put("logs/1/a", b"x")
            [info] = await blobs.list("logs/1/")
            times.append(info.written_at)
        assert before - CLOCKS_DIFFER_SECONDS < times[0] <= times[1] < clock.now() + CLOCKS_DIFFER_SECONDS

    async def test_folders_are_named_in_order_without_their_path(self, blobs: Blobs) -> None:
        """A blob is no folder, and a folder is gone with its last blob."""
        for key in ("logs/2/a", "logs/1/a/b", "logs/10/c", "logs/file"):
            await blobs.put(key, b"")
        assert ["1", "10", "2"] == list(await blobs.folders(LOGS))
        await blobs.delete(["logs/1/a/b"])
        assert ["10", "2"] == list(await blobs.folders(LOGS))
        assert [] == list(await blobs.folders("logs/nowhere/"))

    async def test_a_folder_is_named_with_a_slash_at_its_end(self, blobs: Blobs) -> None:
        """Another prefix is a mistake of the caller's: `logs/1` would be `logs/10` too."""
        with pytest.raises(Bug):
            await blobs.list("logs/1")
        with pytest.raises(Bug):
            await blobs.folders("logs")

    async def test_a_delete_removes_all_that_is_there(self, blobs: Blobs, other: Blobs) -> None:
        """A missing blob is no error, neither before nor between others."""
        for key in ("logs/1/a", "logs/1/b", "logs/1/c"):
            await blobs.put(key, b"x")
        await blobs.delete(["logs/1/missing", "logs/1/a", "logs/nowhere/d", "logs/1/c", "logs/1/a"])
        assert ["logs/1/b"] == [info.key for info in await other.list(LOGS)]
        await blobs.delete([])
        with pytest.raises(NotFound):
            await other.get("logs/1/a")

    @pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".hidden", "a/./b", "a\0", "ü", "a b"])
    @pytest.mark.parametrize("folder", ["", LOGS])
    async def test_no_key_leads_out_of_the_store(self, blobs: Blobs, folder: str, key: str) -> None:
        """To read, to write, to list or to delete."""
        with pytest.raises(Bug):
            await blobs.put(folder + key, b"x")
        with pytest.raises(Bug):
            await blobs.get(folder + key)
        with pytest.raises(Bug):
            await blobs.get_range(folder + key, 0, 1)
        with pytest.raises(Bug):
            await blobs.delete([folder + key])
        if not (folder + key).endswith("/"):
            with pytest.raises(Bug):
                await blobs.list(f"{folder}{key}/")
