"""A log in a folder of this machine: for one process, durable by fsync.

    lock                        held (flock) by the owner, whose name is in it
    log-POSITION.tw             a segment: the entries from that position on; its head has the epoch that wrote it
    checkpoint-POSITION.tw      the whole state as of an entry, written aside, then renamed
    checkpoint-….new            one that is not finished
    block-EPOCH-NUMBER.tw       a block: a part of the state that is written once; checkpoints name it

    append ──► one write, one fsync ──► position          an entry that is torn by a crash was acknowledged to nobody,
    acquire ─► epoch + 1, a new segment                   and is cut off by the next owner

Invariants: an entry is acknowledged after fsync, with the folder's own entry of its segment; a checkpoint counts once
it is renamed, and what is before it goes after that; what cannot be read is told with its place (`LogDamaged`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple, TypeVar

from tickwise.adapters.store.keeper.blocks import names_in
from tickwise.adapters.store.keeper.file_frames import (
    FRAME_MOST,
    EntryDamaged,
    FrameFile,
    LogDamaged,
    bodies_of,
    damage,
    framed,
)
from tickwise.adapters.store.keeper.log import BlockName, LogEntry, OwnershipLost, Tenure
from tickwise.domain.errors import Misconfigured, StoreUnavailable

HEAD: Final = struct.Struct(">8sQQI")
MAGIC: Final = b"TWLOG\x00\x00\x01"
"""The last byte is the version of the files' layout."""
SEGMENT_BYTES: Final = 8 << 20
"""A segment that is larger is followed by another one."""
LEFT_BEHIND: Final = "checkpoint-*.new", "block-*.new", "ended-*.spill"
"""Files of a process that was killed: unfinished checkpoints, and one for ended runs that still had its name."""
PARTS_AT_ONCE: Final = 16
POSITION_DIGITS: Final = 16
"""In the names of files: they sort as their positions."""
R = TypeVar("R")


@dataclass(slots=True)
class Segment:
    """A file of entries."""

    path: Path
    first: int
    epoch: int


class FileLog:
    """The port `EffectLog` over a folder. `sync` is `os.fdatasync`, but for tests."""

    entry_max_bytes = FRAME_MOST

    def __init__(self, folder: Path, *, sync: Callable[[int], None] = os.fdatasync) -> None:
        self._folder = folder
        self._sync = sync
        self._threads: ThreadPoolExecutor | None = None
        """While it is used."""
        self._lock: int | None = None
        self._segments: list[Segment] = []
        self._live: int | None = None
        """The file descriptor of the last segment."""
        self._bytes = 0
        """The size of it."""
        self._epoch = 0
        self._last = 0
        self.passed_over: list[tuple[Path, int]] = []
        """Files with damage to entries that the checkpoint has, and the place in each."""

    async def acquire(self, owner: str, endpoint: str) -> Tenure:
        return await self._apart(lambda: self._acquire(owner, endpoint))

    async def peek(self) -> Tenure | None:
        return None

    async def append(self, body: bytes) -> int:
        return await self._apart(lambda: self._append(body))

    async def entries(self, after: int) -> AsyncIterator[LogEntry]:
        for number, segment in enumerate(self._segments):
            follows = self._segments[number + 1].first if number + 1 < len(self._segments) else self._last + 1
            if follows <= after + 1:
                continue
            for entry in await self._apart(lambda segment=segment: self._read(segment, after)):  # type: ignore[misc]  # bound here
                if after < entry.position <= self._last:
                    yield entry

    async def keep_checkpoint(self, position: int, parts: AsyncIterable[bytes]) -> None:
        target = self._folder / f"checkpoint-{position:016}.tw"
        aside = target.with_suffix(".new")
        file = await self._apart(lambda: _new_file(aside))
        try:
            await self._apart(lambda: _write(file, _head(self._epoch, position)))
            count = 0
            async for part in parts:
                count += 1
                await self._apart(lambda number=count, body=part: _write(file, framed(number, body)))  # type: ignore[misc]  # bound here
            await self._apart(lambda: self._finish(file, count, aside=aside, target=target))
        except BaseException:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise
        finally:
            os.close(file)

    async def checkpoint(self, position: int) -> AsyncIterator[bytes]:
        parts = self._parts(self._folder / f"checkpoint-{position:016}.tw", position)
        while some := await self._apart(lambda: list(islice(parts, PARTS_AT_ONCE))):
            for body in some:
                yield body

    async def keep_block(self, number: int, body: bytes) -> BlockName:
        return await self._apart(lambda: self._keep_block(number, body))

    async def block(self, name: BlockName) -> bytes:
        return await self._apart(lambda: self._block(name))

    async def blocks(self) -> Collection[BlockName]:
        return await self._apart(self._blocks)

    async def drop_blocks(self, names: Collection[BlockName]) -> None:
        await self._apart(lambda: self._drop_blocks(names))

    async def drop(self, before: int) -> None:
        await self._apart(lambda: self._drop(before))

    async def renew(self) -> float:
        return float("inf")

    async def release(self) -> None:
        await self._apart(self._release)
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def look(self) -> int:
        """Read all files and change nothing; the position of the last entry. Raises `LogDamaged`."""
        checkpoint = self._newest_checkpoint()
        if checkpoint:
            for part in self._parts(self._folder / f"checkpoint-{checkpoint:016}.tw", checkpoint):
                for named in names_in(part):
                    self._look_at(named.name, checkpoint)
        self._find(checkpoint)
        return self._last

    def _look_at(self, name: BlockName, checkpoint: int) -> None:
        try:
            self._block(name)
        except LogDamaged:
            if self._newest_checkpoint() == checkpoint:
                raise
            # Its owner kept another one meanwhile, which does not name this block.
            raise FileNotFoundError(self._path_of(name)) from None

    async def _apart(self, work: Callable[[], R]) -> R:
        """Do it in the log's own thread: each thing after the one before, and the event loop goes on."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="log")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except OSError as failure:
            raise _translated(failure, self._folder) from failure

    # ------------------------------------------------------------------------------------------- in the thread

    def _acquire(self, owner: str, endpoint: str) -> Tenure:
        try:
            return self._acquired(owner, endpoint)
        except BaseException:
            self._release()
            raise

    def _acquired(self, owner: str, endpoint: str) -> Tenure:
        self._close_live()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._lock is None:
            self._lock = _locked(self._folder / "lock", self._folder)
        self._check_owned()
        for pattern in LEFT_BEHIND:
            for unfinished in self._folder.glob(pattern):
                unfinished.unlink()
        checkpoint = self._newest_checkpoint()
        cut = self._find(checkpoint)
        self._epoch = max((each.epoch for each in self._segments), default=0) + 1
        if checkpoint:
            self._epoch = max(self._epoch, self._epoch_of_checkpoint(checkpoint) + 1)
        self._epoch = max([self._epoch, *(each.epoch + 1 for each in self._blocks())])
        if cut is not None:
            os.truncate(cut[0], cut[1])
        self._open_segment()
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{owner}\n{endpoint}\n".encode(), 0)
        return Tenure(self._epoch, checkpoint, self._last)

    def _newest_checkpoint(self) -> int:
        return max((_position(each) for each in self._folder.glob("checkpoint-*.tw")), default=0)

    def _find(self, checkpoint: int) -> tuple[Path, int] | None:
        """Find the segments and the last entry; the segment that has a torn end, with where it is to be cut."""
        self._last = 0
        self._segments, cut = self._found(checkpoint)
        if self._segments and self._segments[0].first > checkpoint + 1:
            first = self._segments[0].first
            raise LogDamaged(
                f"the log is damaged in {self._folder}: entries {checkpoint + 1} to {first - 1} are not there, nor "
                "a checkpoint that has them. Restore the folder from a backup; nothing was changed"
            )
        if checkpoint > self._last:
            if self._segments:
                raise LogDamaged(
                    f"the log is damaged in {self._segments[-1].path}: it ends with entry {self._last}, and there is a "
                    f"checkpoint of entry {checkpoint}. Restore the folder from a backup; nothing was changed"
                )
            self._last = checkpoint
        return cut

    def _found(self, checkpoint: int) -> tuple[list[Segment], tuple[Path, int] | None]:
        found: list[Segment] = []
        self.passed_over = []
        cut, paths = None, sorted(self._folder.glob("log-*.tw"))
        for place, path in enumerate(paths):
            is_last = path == paths[-1]
            first = _position(path)
            if not is_last and (follows := _position(paths[place + 1])) <= checkpoint + 1:
                # The checkpoint has all of it; it goes with the next one.
                found.append(Segment(path, first, 0))
                self._last = follows - 1
                continue
            file = FrameFile(path, HEAD.size)
            epoch = _epoch_of(file.content, first)
            if epoch is None:
                if is_last and not any(file.frames(first)):
                    continue  # torn before its first entry: it is begun anew
                file.end = 0
                raise file.damaged("the head of the segment is not whole")
            if found and self._last + 1 != first:
                raise file.damaged(f"it begins with entry {first}, and the segment before ends with {self._last}")
            self._last = first - 1
            try:
                for frame in file.frames(first, checkpoint + 1):
                    self._last = frame.number
            except EntryDamaged as failure:
                raise _with_way_out(failure, paths[place + 1 :]) from None
            if file.passed_over is not None:
                self._last = max(self._last, checkpoint)
                self.passed_over.append((path, file.passed_over))
            if file.torn_bytes():
                if not is_last:
                    what = f"entry {self._last + 1} is not whole, and another segment follows"
                    torn = EntryDamaged(path, file.end, self._last + 1, what, self._last + 1)
                    raise _with_way_out(torn, paths[place + 1 :])
                cut = path, file.end
            found.append(Segment(path, first, epoch))
        return found, cut

    def _epoch_of_checkpoint(self, position: int) -> int:
        path = self._folder / f"checkpoint-{position:016}.tw"
        with path.open("rb") as file:
            epoch = _epoch_of(file.read(HEAD.size), position)
        if epoch is None:
            raise LogDamaged(f"the log is damaged in {path} at byte 0: the head of the checkpoint is not whole")
        return epoch

    def _open_segment(self) -> None:
        """Begin a segment with the next entry. One that has no entry is begun anew."""
        self._close_live()
        first = self._last + 1
        if self._segments and self._segments[-1].first == first:
            self._segments.pop()
        path = self._folder / f"log-{first:016}.tw"
        file = _new_file(path)
        try:
            _write(file, _head(self._epoch, first))
            self._sync(file)
            _sync_folder(self._folder)
        except BaseException:
            os.close(file)
            raise
        self._live, self._bytes = file, HEAD.size
        self._segments.append(Segment(path, first, self._epoch))

    def _append(self, body: bytes) -> int:
        if self._live is None:
            raise OwnershipLost(f"the log in {self._folder} is not this process's any more")
        self._check_owned()
        if self._bytes > SEGMENT_BYTES:
            self._open_segment()
        frame = framed(self._last + 1, body)
        try:
            _write(self._live, frame)
        except OSError:
            # Nobody was told of it, and the next `acquire` cuts it off.
            self._close_live()
            raise
        try:
            self._sync(self._live)
        except OSError as failure:
            # What is read back now may be in memory alone, and gone later: only another process can know.
            self._release()
            raise OwnershipLost(
                f"the disk of {self._folder} did not confirm a write: {failure}. Start again"
            ) from failure
        self._bytes += len(frame)
        self._last += 1
        return self._last

    def _check_owned(self) -> None:
        """Raise `OwnershipLost` if the folder is not the one that was locked: it was moved, or put in place anew."""
        try:
            there = os.stat(self._folder / "lock")
        except FileNotFoundError:
            there = None
        mine = None if self._lock is None else os.fstat(self._lock)
        if there is None or mine is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            self._release()
            raise OwnershipLost(f"the folder {self._folder} is another one than was opened")

    def _read(self, segment: Segment, after: int) -> list[LogEntry]:
        file = FrameFile(segment.path, HEAD.size)
        return [LogEntry(frame.number, frame.body) for frame in file.frames(segment.first, after + 1)]

    def _parts(self, path: Path, position: int) -> Iterator[bytes]:
        """The parts of a checkpoint. Raises `LogDamaged` behind the last one if it is not whole."""
        with path.open("rb") as file:
            head = file.read(HEAD.size)
        if _epoch_of(head, position) is None:
            raise damage(path, 0, "the head of the checkpoint is not whole")
        last, count = None, 0
        for body in bodies_of(path, HEAD.size):
            if last is not None:
                yield last
                count += 1
            last = body
        # The last frame says how many there are: a rename may outlive what was renamed where fsync does not hold.
        if last != count.to_bytes(8, "big"):
            raise damage(path, path.stat().st_size, "the checkpoint ends too early")

    def _keep_block(self, number: int, body: bytes) -> BlockName:
        name = BlockName(self._epoch, number)
        target = self._path_of(name)
        aside = target.with_suffix(".new")
        file = _new_file(aside)
        try:
            _write(file, _head(self._epoch, number) + framed(1, body))
            self._sync(file)
            self._check_owned()
            aside.rename(target)
            _sync_folder(self._folder)
        except BaseException:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise
        finally:
            os.close(file)
        return name

    def _block(self, name: BlockName) -> bytes:
        path = self._path_of(name)
        if not path.exists():
            raise damage(path, 0, "it is not there, and the checkpoint needs it")
        with path.open("rb") as file:
            head = file.read(HEAD.size)
        if _epoch_of(head, name.number) != name.epoch:
            raise damage(path, 0, "the head of the block is not whole")
        bodies = list(bodies_of(path, HEAD.size))
        if len(bodies) != 1:
            raise damage(path, HEAD.size, "the block is not whole")
        return bodies[0]

    def _blocks(self) -> list[BlockName]:
        return [_block_name(each) for each in self._folder.glob("block-*.tw")]

    def _drop_blocks(self, names: Collection[BlockName]) -> None:
        self._check_owned()
        for name in names:
            self._path_of(name).unlink(missing_ok=True)

    def _path_of(self, name: BlockName) -> Path:
        return self._folder / f"block-{name.epoch:010}-{name.number:010}.tw"

    def _finish(self, file: int, count: int, *, aside: Path, target: Path) -> None:
        self._check_owned()
        _write(file, framed(count + 1, count.to_bytes(8, "big")))
        self._sync(file)
        aside.rename(target)
        _sync_folder(self._folder)

    def _drop(self, before: int) -> None:
        """Segments all of whose entries are before that position, and checkpoints but the newest."""
        checkpoints = sorted(self._folder.glob("checkpoint-*.tw"))
        for path in checkpoints[:-1]:
            path.unlink()
        while len(self._segments) > 1 and self._segments[1].first <= before:
            self._segments.pop(0).path.unlink()

    def _close_live(self) -> None:
        if self._live is not None:
            os.close(self._live)
            self._live = None

    def _release(self) -> None:
        self._close_live()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _head(epoch: int, position: int) -> bytes:
    fields = HEAD.pack(MAGIC, epoch, position, 0)[:-4]
    return fields + zlib.crc32(fields).to_bytes(4, "big")


def _epoch_of(content: bytes, position: int) -> int | None:
    """The epoch in a file's head; None: it is not whole. Raises `Misconfigured` for the layout of another release."""
    if len(content) < HEAD.size:
        return None
    magic, epoch, said, checksum = HEAD.unpack_from(content)
    if zlib.crc32(content[: HEAD.size - 4]) != checksum or said != position:
        return None
    if magic != MAGIC:
        raise Misconfigured(
            "the files of the log have another layout than this release reads: use the one that wrote them"
        )
    return int(epoch)


def _with_way_out(failure: EntryDamaged, later: Sequence[Path]) -> LogDamaged:
    """The error for damage behind which entries are lost, with the commands that give these up. `later`: the segments
    behind it."""
    last = failure.last
    if later:
        file = FrameFile(later[-1], HEAD.size)
        with contextlib.suppress(LogDamaged):
            last = max(last, *(frame.number for frame in file.frames(_position(later[-1]))), _position(later[-1]) - 1)
    lost = f"entry {failure.number} is" if last == failure.number else f"entries {failure.number} to {last} are"
    commands = [f"truncate --size={failure.offset} {quote(str(failure.path))}"]
    if later:
        commands.append(f"rm {' '.join(quote(str(each)) for each in later)}")
    return LogDamaged(
        f"the log is damaged in {failure.path} at byte {failure.offset}: {failure.what}. Nothing was changed. "
        f"Restore the folder from a backup. Without one, copy the folder, then run `{' && '.join(commands)}` "
        f"and start again: it goes on as of entry {failure.number - 1}, and {lost} lost, with what was "
        "answered since then"
    )


def _position(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    if len(digits) < POSITION_DIGITS or not digits.isdecimal():
        raise LogDamaged(f"{path} is no file of the log: move it away")
    return int(digits)


def _block_name(path: Path) -> BlockName:
    try:
        _, epoch, number = path.stem.split("-")
        return BlockName(int(epoch), int(number))
    except ValueError:
        raise LogDamaged(f"{path} is no file of the log: move it away") from None


def _new_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def _write(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _locked(path: Path, folder: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 200, 0).decode(errors="replace").partition("\n")[0]
        os.close(handle)
        raise StoreUnavailable(
            f"the store in {folder} is open in another process ({holder or 'unknown'}): one process can have it"
        ) from None
    return handle


def _translated(failure: OSError, folder: Path) -> StoreUnavailable:
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(f"the disk of {folder} is full: nothing more is written until there is room")
    return StoreUnavailable(f"the store in {folder} cannot be read or written: {failure}")


class FolderReport(NamedTuple):
    """The result of a look at a folder."""

    files: int
    bytes: int
    last: int
    """The position of the last whole entry or checkpoint."""
    passed_over: Sequence[tuple[Path, int]]
    """Files with damage to entries that a checkpoint has, and the place in each."""


def examine(folder: Path) -> FolderReport:
    """Read all files of a log, also beside its owner, who may append meanwhile. Raises `LogDamaged`."""
    for tries_left in (2, 1, 0):
        try:
            log = FileLog(folder)
            last, paths = log.look(), sorted(folder.glob("*-*.tw"))
            break
        except FileNotFoundError:
            # Its owner kept a checkpoint meanwhile, and what was before it went.
            if not tries_left:
                raise
    sizes = [path.stat().st_size for path in paths if path.exists()]
    return FolderReport(len(sizes), sum(sizes), last, log.passed_over)
