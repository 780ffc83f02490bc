"""The blobs of an executor that go on while the object store is away.

    put ──store answers, and nothing of this folder waits──► store
     └──else──► spool on disk ──oldest first, in order within a folder──► store
                  └── full: `SpoolFull`, and the output is lost; the log says how much

A put waits for the store for `PUT_SECONDS` at most. While the store is away one delivery at a time is the probe, with
growing pauses. When the last part of a log has arrived, the parts become one object (`compaction.py`).

Invariant: part n+1 of a log is never in the store before part n: a reader sees a prefix of the log, at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from tickwise.adapters.blobs.spool.compaction import StreamingBlobs, closes_log, compact
from tickwise.adapters.blobs.spool.files import SpooledFile, SpoolFiles
from tickwise.domain.errors import TickwiseError, Unavailable
from tickwise.ports.blobs import SCRIPTS, BlobInfo, SpoolFull, check_key
from tickwise.ports.clock import Clock

PUT_SECONDS: Final = 3.0
"""The longest that a put waits for the store before the content goes to the disk: so much later a task's end may be."""
DELIVER_SECONDS: Final = 60.0
"""The longest that one delivery may take."""
FIRST_PAUSE_SECONDS: Final = 0.5
MAX_PAUSE_SECONDS: Final = 15.0
ADOPT_SECONDS: Final = 30.0
"""Between two looks for the files of executors that are gone."""
LAST_SECONDS: Final = 5.0
"""The longest that an end of the executor waits for what the spool still holds; the rest stays on the disk."""
AT_ONCE: Final = 8
"""Folders that are delivered at once."""
SMALL_BYTES: Final = 4 << 10
RESERVE_BYTES: Final = 1 << 20
"""The room beyond the bound for small blobs: the ends of logs, and what they say about lost output."""
SCRIPT_BYTES: Final = 16 << 20
"""The scripts that are kept in memory. Their keys are digests, which the reader checks."""
COMPACTIONS_AT_ONCE: Final = 2

logger = structlog.get_logger("tickwise.output")


class SpoolState(NamedTuple):
    """The output on the disk of this executor."""

    waiting_bytes: int
    waiting_blobs: int
    is_away: bool
    """The last try to reach the store failed."""
    is_full: bool
    detail: str
    """The reason why the last try failed; empty: it did not."""


class SpooledBlobs:
    """`Blobs` for an executor. `start` before the first put, `stop` after the last."""

    def __init__(self, blobs: StreamingBlobs, clock: Clock, root: Path, bytes_most: int) -> None:
        """`root`: the folder of all spools of this machine. `bytes_most`: what may wait there of this executor."""
        self._blobs = blobs
        self._clock = clock
        self._files = SpoolFiles(root)
        self._bytes_most = bytes_most
        self._waiting: OrderedDict[int, SpooledFile] = OrderedDict()
        self._folders: Counter[str] = Counter()
        self._bytes = 0
        self._detail = ""
        self._stuck_folder = ""
        self._refused_bytes = 0
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._compactions: set[asyncio.Task[None]] = set()
        self._gate = asyncio.Semaphore(COMPACTIONS_AT_ONCE)
        self._scripts: OrderedDict[str, bytes] = OrderedDict()

    async def start(self) -> None:
        """Take over what earlier executors left, and begin to deliver."""
        await self._adopt()
        self._tasks = [asyncio.create_task(self._deliver()), asyncio.create_task(self._look_for_orphans())]

    async def stop(self) -> None:
        """Deliver for a moment more, and leave the rest to the next executor on this folder."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                while self._waiting and not self._detail:
                    await self._clock.sleep(0.05)
                if self._compactions:
                    await asyncio.wait([*self._compactions])
        ending = [*self._tasks, *self._compactions]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        if self._waiting:
            logger.warning("output_left_on_disk", blobs=len(self._waiting), bytes=self._bytes, detail=self._detail)
        await asyncio.to_thread(self._files.close)

    @property
    def state(self) -> SpoolState:
        """The output that waits now."""
        is_full = self._bytes >= self._bytes_most
        return SpoolState(self._bytes, len(self._waiting), bool(self._detail), is_full, self._detail)

    # ------------------------------------------------------------------ Blobs

    async def put(self, key: str, content: bytes) -> None:
        """Store it, or keep it on the disk. Raises `SpoolFull` if the disk may hold no more."""
        folder = check_key(key).rpartition("/")[0]
        if not self._detail and not self._folders[folder]:
            try:
                async with asyncio.timeout(PUT_SECONDS):
                    await self._blobs.put(key, content)
            except TimeoutError:
                self._failed(f"the object store took more than {PUT_SECONDS:.0f} s for {len(content)} bytes")
            except Unavailable as error:
                self._failed(error.detail)
            else:
                self._arrived(key)
                return
        await self._keep(key, content)

    async def get(self, key: str) -> bytes:
        """See the port. Scripts come from memory the second time."""
        if not key.startswith(SCRIPTS):
            return await self._blobs.get(key)
        known = self._scripts.get(key)
        if known is not None:
            self._scripts.move_to_end(key)
            return known
        content = self._scripts[key] = await self._blobs.get(key)
        while sum(map(len, self._scripts.values())) > SCRIPT_BYTES:
            self._scripts.popitem(last=False)
        return content

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """See the port. What waits on the disk is not seen."""
        return await self._blobs.get_range(key, start, length)

    async def list(self, prefix: str) -> Sequence[BlobInfo]:
        """See the port."""
        return await self._blobs.list(prefix)

    async def folders(self, prefix: str) -> Sequence[str]:
        """See the port."""
        return await self._blobs.folders(prefix)

    async def delete(self, keys: Sequence[str]) -> None:
        """See the port."""
        await self._blobs.delete(keys)

    # ------------------------------------------------------------------ the disk

    async def _keep(self, key: str, content: bytes) -> None:
        size = len(content)
        most = self._bytes_most + (RESERVE_BYTES if size <= SMALL_BYTES else 0)
        if self._bytes + size > most:
            raise self._refused(key, size, f"the {self._bytes_most} bytes that may wait on its disk are used")
        file = SpooledFile(self._files.number(), key, size)
        # Counted before it is written: the next part of this log must not overtake it.
        self._add(file)
        try:
            await asyncio.to_thread(self._files.write, file, content)
        except OSError as error:
            self._drop(file)
            raise self._refused(key, size, f"its disk takes nothing more: {error.strerror}") from error
        self._news.set()

    def _refused(self, key: str, size: int, why: str) -> SpoolFull:
        if not self._refused_bytes:
            logger.error("output_spool_full", key=key, detail=self._detail, why=why, waiting_bytes=self._bytes)
        self._refused_bytes += size
        self._news.set()
        return SpoolFull(f"the object store is away ({self._detail or 'until now'}), and {why}")

    def _add(self, file: SpooledFile) -> None:
        self._waiting[file.number] = file
        self._folders[file.folder] += 1
        self._bytes += file.size_bytes

    def _drop(self, file: SpooledFile) -> None:
        if self._waiting.pop(file.number, None) is not None:
            self._bytes -= file.size_bytes
            self._folders[file.folder] -= 1
            if not self._folders[file.folder]:
                del self._folders[file.folder]

    async def _adopt(self) -> None:
        adopted = await asyncio.to_thread(self._files.adopt)
        for file in adopted:
            self._add(file)
        if adopted:
            total = sum(file.size_bytes for file in adopted)
            logger.info("output_adopted", blobs=len(adopted), bytes=total)
            self._news.set()

    async def _look_for_orphans(self) -> None:
        while True:
            await self._clock.sleep(ADOPT_SECONDS)
            try:
                await self._adopt()
            except OSError as error:
                logger.warning("output_adoption_failed", detail=str(error))

    # ------------------------------------------------------------------ the way to the store

    async def _deliver(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            batch = self._batch()
            if not batch:
                self._back()
                self._news.clear()
                if not self._waiting:
                    await self._news.wait()
                continue
            if not all(await asyncio.gather(*(self._deliver_one(file) for file in batch))):
                await self._clock.sleep(pause)
                pause = min(MAX_PAUSE_SECONDS, pause * 2)
            else:
                pause = FIRST_PAUSE_SECONDS

    def _batch(self) -> Sequence[SpooledFile]:
        """The oldest file of each of some folders; one alone while the store is away."""
        first: dict[str, SpooledFile] = {}
        for file in self._waiting.values():
            first.setdefault(file.folder, file)
            if len(first) >= AT_ONCE:
                break
        if not self._detail:
            return [*first.values()]
        probes = [file for file in first.values() if file.folder != self._stuck_folder]
        return (probes or [*first.values()])[:1]

    async def _deliver_one(self, file: SpooledFile) -> bool:
        try:
            content = await asyncio.to_thread(self._files.read, file)
        except FileNotFoundError:
            # It is being written, or could not be: in both cases `_keep` goes on.
            await self._clock.sleep(0.01)
            return True
        except OSError as error:
            return self._stuck(file, f"its disk does not give {file.name} back: {error.strerror}")
        try:
            async with asyncio.timeout(DELIVER_SECONDS):
                await self._blobs.put(file.key, content)
        except TimeoutError:
            why = f"the object store took more than {DELIVER_SECONDS:.0f} s for {len(content)} bytes"
            return self._stuck(file, why)
        except (TickwiseError, OSError) as error:
            return self._stuck(file, getattr(error, "detail", str(error)))
        await asyncio.to_thread(self._files.remove, file)
        self._drop(file)
        self._back()
        self._arrived(file.key)
        return True

    def _stuck(self, file: SpooledFile, why: str) -> bool:
        """Another folder is the next probe: one blob that the store never takes must not hold up all."""
        self._stuck_folder = file.folder
        self._failed(why)
        return False

    def _failed(self, why: str) -> None:
        if not self._detail:
            logger.warning("output_waits_on_disk", detail=why)
        self._detail = why

    def _back(self) -> None:
        if self._detail:
            logger.info("output_delivered_again", waiting_bytes=self._bytes, lost_bytes=self._refused_bytes)
        self._detail, self._refused_bytes = "", 0

    def _arrived(self, key: str) -> None:
        if closes_log(key):
            task = asyncio.create_task(self._compact(f"{key.rpartition('/')[0]}/"))
            self._compactions.add(task)
            task.add_done_callback(self._compactions.discard)

    async def _compact(self, folder: str) -> None:
        async with self._gate:
            try:
                await compact(self._blobs, folder)
            except TickwiseError as error:
                logger.info("log_not_compacted", folder=folder, detail=error.detail)


@contextlib.asynccontextmanager
async def spooled(blobs: StreamingBlobs, clock: Clock, root: Path, bytes_most: int) -> AsyncIterator[SpooledBlobs]:
    """The blobs of an executor at work."""
    found = SpooledBlobs(blobs, clock, root, bytes_most)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()
