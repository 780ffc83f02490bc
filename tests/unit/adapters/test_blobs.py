"""The blobs port, kept by the local folder and by memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwise.adapters.blobs import OutputBlobs, StoredBlobs, open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import Bug, Misconfigured, NotFound


@pytest.fixture(params=["file", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> StoredBlobs:
    return open_blobs("memory://" if request.param == "memory" else f"{(tmp_path / 'a b').as_uri()}")


async def test_what_was_put_is_there_whole_and_can_be_replaced(blobs: StoredBlobs) -> None:
    """Also nothing at all, and a lot."""
    for content in (b"first", b"", b"x" * 3_000_000):
        await blobs.put("logs/1/000000", content)
        assert await blobs.get("logs/1/000000") == content


async def test_a_range_ends_with_the_blob(blobs: StoredBlobs) -> None:
    """Fewer bytes at the end, none beyond it."""
    await blobs.put("a", b"0123456789")
    assert await blobs.get_range("a", 2, 3) == b"234"
    assert await blobs.get_range("a", 8, 5) == b"89"
    assert await blobs.get_range("a", 10, 5) == b""
    assert await blobs.get_range("a", 11, 5) == b""


async def test_what_is_not_there_is_not_found(blobs: StoredBlobs) -> None:
    """Whole or in part, also if it is a folder."""
    await blobs.put("folder/a", b"x")
    for key in ("missing", "folder/missing", "folder"):
        with pytest.raises(NotFound):
            await blobs.get(key)
        with pytest.raises(NotFound):
            await blobs.get_range(key, 0, 1)


async def test_a_listing_is_of_one_folder_in_key_order(blobs: StoredBlobs) -> None:
    """With sizes and times; a folder that is not there is empty."""
    before = SystemClock().now()
    for key in ("logs/1/000001", "logs/1/000000", "logs/1/000002.last", "logs/10/000000", "logs/1x", "other"):
        await blobs.put(key, b"abc")
    found = await blobs.list("logs/1/")
    assert [(info.key, info.size_bytes) for info in found] == [
        (f"logs/1/{name}", 3) for name in ("000000", "000001", "000002.last")
    ]
    # File systems take the time from a clock that is some milliseconds behind.
    assert all(abs(info.written_at - before) < 10 for info in found)
    assert list(await blobs.list("nowhere/")) == []


async def test_a_listing_names_a_folder(blobs: StoredBlobs) -> None:
    """A prefix that ends elsewhere is a mistake of the caller's."""
    with pytest.raises(Bug):
        await blobs.list("logs/1")


async def test_folders_are_named_without_their_path(blobs: StoredBlobs) -> None:
    """In order, blobs left out."""
    for key in ("logs/2/a", "logs/1/a/b", "logs/file"):
        await blobs.put(key, b"")
    assert list(await blobs.folders("logs/")) == ["1", "2"]


async def test_delete_removes_what_is_there(blobs: StoredBlobs) -> None:
    """What is not there is no error."""
    await blobs.put("logs/1/a", b"x")
    await blobs.delete(["logs/1/a", "logs/1/missing"])
    assert list(await blobs.list("logs/")) == []


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".hidden", "a/./b", "a\0", "ü", "a b"])
async def test_no_key_leads_out_of_the_store(blobs: StoredBlobs, key: str) -> None:
    """Whatever reads, writes or deletes it."""
    with pytest.raises(Bug):
        await blobs.put(key, b"x")
    with pytest.raises(Bug):
        await blobs.get(key)
    with pytest.raises(Bug):
        await blobs.delete([key])


async def test_a_folder_keeps_what_was_put_before(tmp_path: Path) -> None:
    """For the next process."""
    await open_blobs(tmp_path.as_uri()).put("a/b", b"kept")
    assert await open_blobs(tmp_path.as_uri()).get("a/b") == b"kept"


@pytest.mark.parametrize("url", ["s3://bucket", "file://host/folder", "file:relative", "/folder", ""])
def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    """With what it must look like."""
    with pytest.raises(Misconfigured, match="blobs_url must"):
        open_blobs(url)


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    """With its name."""
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="cannot be used"):
        open_blobs((tmp_path / "file").as_uri())


@pytest.mark.parametrize("key", ["scripts/x/y", "scripts/y", "logsx/y", "other"])
async def test_an_executor_writes_outputs_alone(key: str) -> None:
    """It reads everything; a script it neither changes nor removes."""
    blobs = open_blobs("memory://")
    await blobs.put(key, b"as it was")
    view = OutputBlobs(blobs)
    assert b"as it was" == await view.get(key)
    with pytest.raises(Bug):
        await view.put(key, b"changed")
    with pytest.raises(Bug):
        await view.delete([key])
    assert b"as it was" == await blobs.get(key)
    await view.put("logs/1/2/3", b"said")
    assert b"said" == await view.get_range("logs/1/2/3", 0, 10)
    await view.delete(["logs/1/2/3"])
    assert [] == await view.list("logs/")
