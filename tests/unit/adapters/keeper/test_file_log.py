"""A log in a folder: what it acknowledged is there, and what it cannot read it says."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tickwise.adapters.store.keeper import file_log
from tickwise.adapters.store.keeper.file_frames import LogDamaged, framed
from tickwise.adapters.store.keeper.file_log import FileLog, examine
from tickwise.adapters.store.keeper.log import LogEntry, OwnershipLost
from tickwise.domain.errors import StoreUnavailable
from tickwise.testing.contracts.effect_log import EffectLogContract, OpenLog


class TestEffectLog(EffectLogContract):
    @pytest.fixture
    def open_log(self, tmp_path: Path) -> OpenLog:
        """One more object of the log in the folder of the test."""

        async def opened() -> FileLog:
            return FileLog(tmp_path, sync=lambda _file: None)

        return opened


def threads_of_logs() -> set[threading.Thread]:
    """Those that live."""
    return {each for each in threading.enumerate() if each.name.startswith("log_")}


async def ended(threads: set[threading.Thread]) -> None:
    """Wait until none of them lives."""
    await eventually(lambda: not threads & threads_of_logs())


async def written(folder: Path, *bodies: bytes) -> None:
    """A log with these entries, given back."""
    log = FileLog(folder)
    await log.acquire("writer", "")
    for body in bodies:
        await log.append(body)
    await log.release()


async def read(folder: Path) -> list[LogEntry]:
    """All entries, by a new owner."""
    log = FileLog(folder)
    tenure = await log.acquire("reader", "")
    found = [entry async for entry in log.entries(tenure.checkpoint)]
    await log.release()
    return found


def segment(folder: Path) -> Path:
    """The file that has entries."""
    return max(folder.glob("log-*.tw"), key=lambda path: path.stat().st_size)


async def of(*parts: bytes) -> AsyncIterator[bytes]:
    """Parts of a checkpoint."""
    for part in parts:
        yield part


async def test_entries_are_numbered_without_gaps_over_owners(tmp_path: Path) -> None:
    """Each owner goes on behind the one before, in an epoch of its own."""
    await written(tmp_path, b"one", b"two")
    await written(tmp_path, b"three")
    assert [(1, b"one"), (2, b"two"), (3, b"three")] == await read(tmp_path)


async def test_each_tenure_has_a_higher_epoch(tmp_path: Path) -> None:
    """Also one that appends nothing."""
    log = FileLog(tmp_path)
    epochs = []
    for _ in range(3):
        epochs.append((await log.acquire("owner", "")).epoch)
        await log.release()
    assert [1, 2, 3] == epochs


@pytest.mark.parametrize("torn", [1, 5, 15, 17, 300])
async def test_a_torn_end_is_cut_and_the_log_goes_on(tmp_path: Path, torn: int) -> None:
    """A write that was under way when the machine stopped, cut at any byte, was acknowledged to nobody."""
    await written(tmp_path, b"one", b"two")
    path = segment(tmp_path)
    whole = path.read_bytes()
    await written(tmp_path / "longer", b"one", b"two", b"x" * 400)
    path.write_bytes(whole + segment(tmp_path / "longer").read_bytes()[len(whole) :][:torn])
    await written(tmp_path, b"three")
    assert [(1, b"one"), (2, b"two"), (3, b"three")] == await read(tmp_path)


@pytest.mark.parametrize("place", [28, 32, 36, 43, 44, 46])
async def test_damage_in_the_middle_is_told_with_its_place(tmp_path: Path, place: int) -> None:
    """Of length, checksum, number and body of an entry that another one follows; nothing is changed."""
    await written(tmp_path, b"one", b"two", b"three")
    path = segment(tmp_path)
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(LogDamaged, match=rf"{path.name} at byte 28"):
        await read(tmp_path)
    assert bytes(content) == path.read_bytes()


async def test_a_lost_segment_is_told(tmp_path: Path) -> None:
    """Between two others, and before the first one."""
    for body in (b"one", b"two", b"three"):
        await written(tmp_path, body)
    first, middle, *_ = sorted(tmp_path.glob("log-*.tw"))
    kept = middle.read_bytes()
    middle.unlink()
    with pytest.raises(LogDamaged, match="begins with entry 3, and the segment before ends with 1"):
        await read(tmp_path)
    middle.write_bytes(kept)
    first.unlink()
    with pytest.raises(LogDamaged, match="entries 1 to 1 are not there"):
        await read(tmp_path)


async def test_one_process_has_a_log(tmp_path: Path) -> None:
    """A second owner is refused while the first one lives, and told who that is."""
    log = FileLog(tmp_path)
    await log.acquire("process 7", "")
    with pytest.raises(StoreUnavailable, match="process 7"):
        await FileLog(tmp_path).acquire("process 8", "")
    await log.release()
    await FileLog(tmp_path).acquire("process 8", "")


async def test_a_log_that_was_given_back_has_no_thread(tmp_path: Path) -> None:
    """A process may open and close any number of stores; a log that is acquired again works as before."""
    log = FileLog(tmp_path)
    for entry in (1, 2):
        await log.acquire("process 7", "")
        assert entry == await log.append(b"body")
        mine = threads_of_logs()
        assert mine
        await log.release()
        await ended(mine)


async def test_an_owner_of_a_folder_that_was_replaced_appends_no_more(tmp_path: Path) -> None:
    """A folder that is put in place anew, as by a restore, belongs to its new owner."""
    log = FileLog(tmp_path / "store")
    await log.acquire("old", "")
    (tmp_path / "store").rename(tmp_path / "moved")
    await FileLog(tmp_path / "store").acquire("new", "")
    with pytest.raises(OwnershipLost):
        await log.append(b"late")
    assert [] == await read(tmp_path / "moved")


async def test_a_full_disk_refuses_and_keeps_what_it_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an entry fits: it is cut off, and the log goes on when there is room again."""
    log = FileLog(tmp_path)
    await log.acquire("owner", "")
    await log.append(b"one")
    write = os.write

    def full(file: int, content: memoryview) -> int:
        if not os.readlink(f"/proc/self/fd/{file}").startswith(str(tmp_path)) or len(content) <= 20:
            return write(file, content)
        if len(content) > 100:
            return write(file, content[:50])
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreUnavailable, match="is full"):
        await log.append(b"x" * 120)
    with pytest.raises(StoreUnavailable, match="is full"):
        await log.acquire("owner", "")
    monkeypatch.undo()
    assert 1 == (await log.acquire("owner", "")).last
    assert 2 == await log.append(b"two")
    await log.release()
    assert [(1, b"one"), (2, b"two")] == await read(tmp_path)


async def test_after_a_write_that_the_disk_did_not_confirm_the_process_stops(tmp_path: Path) -> None:
    """What is read back may be in memory alone."""
    failing = False

    def sync(file: int) -> None:
        if failing:
            raise OSError(errno.EIO, "input/output error")
        os.fdatasync(file)

    log = FileLog(tmp_path, sync=sync)
    await log.acquire("owner", "")
    await log.append(b"one")
    failing = True
    for _ in range(2):
        with pytest.raises(OwnershipLost):
            await log.append(b"two")


async def test_a_checkpoint_counts_once_it_is_whole(tmp_path: Path) -> None:
    """One that breaks off leaves the one before in force."""
    log = FileLog(tmp_path)
    await log.acquire("owner", "")
    for body in (b"one", b"two", b"three"):
        await log.append(body)
    await log.keep_checkpoint(2, of(b"first", b"second"))

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable):
        await log.keep_checkpoint(3, broken())
    await log.release()
    tenure = await log.acquire("owner", "")
    assert (2, 3) == (tenure.checkpoint, tenure.last)
    assert [b"first", b"second"] == [part async for part in log.checkpoint(2)]
    assert [(3, b"three")] == [entry async for entry in log.entries(2)]


async def test_a_checkpoint_that_was_cut_is_told(tmp_path: Path) -> None:
    """A file that lost its end, at a frame or within one, is no checkpoint."""
    log = FileLog(tmp_path)
    await log.acquire("owner", "")
    await log.append(b"one")
    await log.keep_checkpoint(1, of(b"first", b"second"))
    [path] = tmp_path.glob("checkpoint-*.tw")
    whole = path.read_bytes()
    for length in (len(whole) - 1, len(whole) - 24, len(whole) - 24 - 22):
        path.write_bytes(whole[:length])
        with pytest.raises(LogDamaged, match="ends too early"):
            [part async for part in log.checkpoint(1)]
        with pytest.raises(LogDamaged):
            examine(tmp_path)


async def test_what_a_checkpoint_has_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole segments that are before it, and earlier checkpoints; numbers go on."""
    monkeypatch.setattr(file_log, "SEGMENT_BYTES", 100)
    log = FileLog(tmp_path)
    await log.acquire("owner", "")
    for number in range(10):
        await log.append(b"x" * 60 + bytes([number]))
    await log.keep_checkpoint(4, of(b"four"))
    await log.keep_checkpoint(9, of(b"nine"))
    await log.drop(10)
    await log.release()
    assert ["checkpoint-0000000000000009.tw"] == [path.name for path in tmp_path.glob("checkpoint-*")]
    tenure = await log.acquire("owner", "")
    assert (9, 10) == (tenure.checkpoint, tenure.last)
    assert [10] == [entry.position async for entry in log.entries(9)]
    assert 2 >= len(list(tmp_path.glob("log-*.tw"))) - 1


async def with_checkpoint(folder: Path, position: int, *bodies: bytes) -> Path:
    """A log with these entries and a checkpoint; its segment, which has all of them."""
    log = FileLog(folder)
    await log.acquire("writer", "")
    for body in bodies:
        await log.append(body)
    await log.keep_checkpoint(position, of(b"state"))
    await log.release()
    return segment(folder)


def flip(path: Path, place: int) -> bytes:
    """Damage one byte; the content."""
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
    return bytes(content)


@pytest.mark.parametrize("place", [28, 32, 36, 43, 44, 47, 60])
async def test_damage_before_a_whole_checkpoint_is_passed_over(tmp_path: Path, place: int) -> None:
    """To any part of an entry that nobody needs. What is behind it is read, more is written, and the look tells it."""
    path = await with_checkpoint(tmp_path, 2, b"one", b"two", b"three", b"four")
    flip(path, place)
    assert ([(path, 28 if place < 47 else 47)], 4) == (examine(tmp_path).passed_over, examine(tmp_path).last)
    assert [(3, b"three"), (4, b"four")] == await read(tmp_path)
    await written(tmp_path, b"five")
    assert [(3, b"three"), (4, b"four"), (5, b"five")] == await read(tmp_path)


async def test_damage_before_a_checkpoint_of_the_last_entry_is_passed_over(tmp_path: Path) -> None:
    """Nothing of the file is needed then, and the next entry follows the checkpoint."""
    flip(await with_checkpoint(tmp_path, 3, b"one", b"two", b"three"), 50)
    assert [] == await read(tmp_path)
    await written(tmp_path, b"four")
    assert [(4, b"four")] == await read(tmp_path)


async def test_a_segment_that_a_checkpoint_has_is_not_read(tmp_path: Path) -> None:
    """Not even its head must be whole."""
    await written(tmp_path, b"one", b"two")
    path = segment(tmp_path)
    await with_checkpoint(tmp_path, 2, b"three")
    flip(path, 3)
    assert [(3, b"three")] == await read(tmp_path)


async def test_a_torn_end_behind_damage_that_is_passed_over_is_cut(tmp_path: Path) -> None:
    """The entry that was being written was acknowledged to nobody."""
    path = await with_checkpoint(tmp_path, 2, b"one", b"two", b"three")
    flip(path, 30)
    path.write_bytes(path.read_bytes()[:-1])
    assert [] == await read(tmp_path)
    await written(tmp_path, b"again")
    assert [(3, b"again")] == await read(tmp_path)


async def test_what_looks_like_an_entry_in_a_body_is_none(tmp_path: Path) -> None:
    """A job may hold any bytes: those of a forged entry in one that is damaged do not take the place of the entry."""
    path = await with_checkpoint(tmp_path, 2, b"one", framed(3, b"forged"), b"three")
    flip(path, 30)
    assert [(3, b"three")] == await read(tmp_path)


async def test_damage_behind_a_checkpoint_names_the_commands_that_go_on_without(tmp_path: Path) -> None:
    """They do what the sentence says: all before the damage is there, and the entries that it names are gone."""
    path = await with_checkpoint(tmp_path, 1, b"one", b"two", b"three", b"four")
    await written(tmp_path, b"five")
    flip(path, 67)
    with pytest.raises(LogDamaged) as told:
        await read(tmp_path)
    assert "it goes on as of entry 2, and entries 3 to 5 are lost" in str(told.value)
    command = str(told.value).split("`")[1]
    assert command.startswith(f"truncate --size=66 {path} && rm {tmp_path}/log-")
    ran = await asyncio.create_subprocess_shell(command)
    assert 0 == await ran.wait()
    assert [(2, b"two")] == await read(tmp_path)
    await written(tmp_path, b"other")
    assert [(2, b"two"), (3, b"other")] == await read(tmp_path)


async def test_without_its_checkpoint_a_log_is_refused(tmp_path: Path) -> None:
    """It would begin without the entries that the checkpoint had."""
    log = FileLog(tmp_path)
    await log.acquire("writer", "")
    await log.append(b"one")
    await log.release()
    await log.acquire("writer", "")
    await log.append(b"two")
    await log.keep_checkpoint(1, of(b"state"))
    await log.drop(2)
    await log.release()
    next(tmp_path.glob("checkpoint-*.tw")).unlink()
    with pytest.raises(LogDamaged, match="entries 1 to 1 are not there, nor a checkpoint that has them"):
        await read(tmp_path)


async def test_a_foreign_file_is_named(tmp_path: Path) -> None:
    """One with the name of a file of the log; any other is left alone."""
    await written(tmp_path, b"one")
    (tmp_path / "notes.txt").write_text("of a person")
    assert [(1, b"one")] == await read(tmp_path)
    for name in ("log-copy.tw", "log-5.tw"):
        (tmp_path / name).write_text("of a person")
        with pytest.raises(LogDamaged, match=rf"{name} is no file of the log: move it away"):
            await read(tmp_path)
        (tmp_path / name).unlink()
