"""`TableProjector`: follows the log of a shard and writes readable rows behind its commits.

    checkpoint ──► shadow                                tables are new: its rows are written as well
                     │
    entries ──► window ──each second──► pending ──► batches by partition, a few at once ──► the place

The place is kept after all rows up to it are stored. A projector that begins there again writes rows that say the same.
A tenure begins with the checkpoint, in the background: nobody waits for it.

A run that came a moment ago is held back, since it may end soon: its life is then one row. The place stays before it.
Where many wait they wait longer for their end: to write each at each of its steps would make all of them wait more.
When the database is slow, rows of many changes become one. Memory is bounded by bytes (`budget`): a window becomes rows
portion by portion, as fast as they are written, and while it is full no more entries are read; they are in the log.
Beyond `BEHIND_BYTES` of them commits wait, so that a takeover never has more to read. When a table is missing nothing
waits: the tables are made anew from checkpoint and log once they are there (`tickwise db upgrade`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import structlog

from tickwise.adapters.store.keeper.blocks import names_in, pages_of_blocks
from tickwise.adapters.store.keeper.images import Reader
from tickwise.adapters.store.keeper.log import EffectLog
from tickwise.adapters.store.keeper.projection import Progress
from tickwise.adapters.store.keeper.readable.budget import BacklogBudget
from tickwise.adapters.store.keeper.readable.pending import PendingRows
from tickwise.adapters.store.keeper.readable.shadow import Shadow
from tickwise.adapters.store.keeper.readable.tables import PartitionDrop, ReadableTables, RowWrite, TablesPlace
from tickwise.adapters.store.keeper.readable.tail import LogTail
from tickwise.adapters.store.keeper.readable.window import ENDED_PATH, PROJECTED, ChangeWindow
from tickwise.domain.errors import Bug, Misconfigured, TickwiseError, Unavailable
from tickwise.observability.event_pace import EventPace
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock

FLUSH_SECONDS: Final = 1.0
"""Between the begins of two writes: so far rows are behind, and so many changes of a short run become one write."""
FLUSH_LOAD_SECONDS: Final = 3.0
"""Between the begins of two writes where `HELD_KEYS` or more wait: a write of a few rows costs the node nearly as much
as one of many."""
HELD_SECONDS: Final = 5.0
"""For so long a new run waits for its end, and its job with it, before they are written as they are."""
HELD_LOAD_SECONDS: Final = 10.0
"""The longest wait of a new run where `HELD_KEYS` or more wait. A run that is written before its end costs keeper and
node about twice as much. With 10,000 runs under way that is the difference between a wait of 2 s and one of more than
`HELD_SECONDS`: both would stay as they are."""
HELD_KEYS: Final = 5_000
"""Jobs and runs that changed: some 500 new runs a second."""
BEHIND_BYTES: Final = 64 << 20
"""Of entries: about 2 s of replay. From half of it on nothing is held back."""
WRITES_AT_ONCE: Final = 4
"""A write has up to 400 rows. More of them at once would only stand in the way of commits on the nodes' cores."""
LOOK_SECONDS: Final = 5.0
"""Between two looks whether the tables are still the same ones."""
RETRY_SECONDS: Final = 0.5
MISSING_SECONDS: Final = 5.0
TURN_CHANGES: Final = 500
"""After so many changes that are only merged the event loop has its turn, too."""
CLOSE_SECONDS: Final = 5.0
"""For how long the end waits for what is not written yet. The next owner writes the rest."""

logger = structlog.get_logger("tickwise.store")


class TablesRenewedError(Exception):
    """All tables were made anew, and are empty."""


Writes = Iterator[tuple[Sequence[RowWrite], PartitionDrop | None]]


class TableProjector:
    """The port `Projection` into readable tables."""

    def __init__(
        self, tables: ReadableTables, clock: Clock, *, shard: int, budget: BacklogBudget | None = None
    ) -> None:
        """`budget`: the one of all projectors of this process."""
        self._tables, self._clock, self._shard, self._budget = tables, clock, shard, budget or BacklogBudget()
        self._pace = EventPace(clock)
        self._log: EffectLog | None = None
        self._tail: LogTail | None = None
        self._shadow: Shadow | None = None
        self._task: asyncio.Task[None] | None = None
        self._checkpoint = 0
        self._wanted = 0
        """The highest position that somebody waits for."""
        self._moved = asyncio.Condition()
        self._hurry = asyncio.Event()
        """Set at the end: all is written at once."""
        self._is_suspended = True
        """Nobody waits for tables that are not there: they will be made anew."""
        self._looked = 0.0
        self._read = 0
        """The position of the last entry that was read."""
        self._window = ChangeWindow()
        self._taking = asyncio.Lock()
        """Held while changes become rows: they come in the order of their entries."""
        self._work, self._drained = asyncio.Event(), asyncio.Event()
        self._handing = asyncio.Lock()
        """Held while rows wait until those before them are written."""
        self._writing: asyncio.Task[None] | None = None
        self._written = PendingRows(0)
        """The rows that are being written, or were written last."""
        self.position = 0
        """Up to there all is in the tables, for good."""
        self.generation = 0
        self.rows = self.refused = self.rebuilds = 0
        """Rows that were written, those that the database did not take, and how often all was written anew."""

    # ------------------------------------------------------------------------------------------- for the keeper

    async def follow(self, log: EffectLog, *, checkpoint: int, last: int) -> None:
        """See the port."""
        await self._stop()
        self._budget.join()
        self._log, self._tail, self._checkpoint = log, LogTail(log, last, lambda: self._budget.tail), checkpoint
        # Until its place is known: a checkpoint that counted meanwhile might hide what is not projected.
        self._is_suspended, self.position = False, 0
        self._hurry.clear()
        self._task = asyncio.create_task(self._run())

    def put(self, position: int, body: bytes) -> None:
        """See the port."""
        if self._tail is not None:
            self._tail.put(position, body)

    async def room(self) -> None:
        """See the port."""
        if self._tail is not None and self._tail.behind_bytes > BEHIND_BYTES:
            await self._until(lambda: self._tail is None or self._tail.behind_bytes <= BEHIND_BYTES)

    async def reached(self, position: int) -> None:
        """See the port."""
        self._wanted = max(self._wanted, position)
        self._work.set()
        await self._until(lambda: self.position >= position)

    def progress(self) -> Progress:
        """See the port."""
        pending = None if self._shadow is None else self._shadow.pending
        waiting = 0 if self._tail is None else self._tail.behind_bytes
        return Progress(self.position, waiting, self._written.count + (0 if pending is None else pending.count))

    def kept(self, checkpoint: int) -> None:
        """See the port."""
        self._checkpoint = checkpoint

    async def close(self) -> None:
        """See the port."""
        if self._task is not None and self._tail is not None and not self._is_suspended:
            self._hurry.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.reached(self._tail.last)
        await self._stop()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._is_suspended or self._task is None or is_so())

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._budget.leave()
            await end_tasks([task])
        await self._tell()

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    # ------------------------------------------------------------------------------------------- its life

    async def _run(self) -> None:
        while True:
            pause = RETRY_SECONDS
            try:
                await self._follow()
            except TablesRenewedError:
                logger.warning("tables_made_anew", shard=self._shard)
            except Misconfigured as failure:
                if not self._is_suspended:
                    logger.error("tables_missing", shard=self._shard, detail=failure.detail)
                pause = await self._suspend()
            except TickwiseError as failure:
                # A checkpoint that went while it was read, or a database that is away: begin again.
                logger.warning("tables_not_followed", shard=self._shard, detail=failure.detail)
            except Exception:
                # A fault of this program must not stand in the way of the shard.
                logger.exception("tables_failed", shard=self._shard)
                pause = await self._suspend()
            finally:
                await self._drop_backlog()
            await self._clock.sleep(pause)

    async def _drop_backlog(self) -> None:
        """Nothing of it is lost: it is read again, from the place on."""
        if self._writing is not None:
            await end_all(self._writing)
        self._shadow = self._writing = None
        self._written, self._window = PendingRows(0), ChangeWindow()

    async def _suspend(self) -> float:
        """Nobody waits any more; for how long to wait before the next try."""
        self._is_suspended = True
        await self._tell()
        return MISSING_SECONDS

    async def _follow(self) -> None:
        """Follow the log from the newest checkpoint on; it never returns."""
        assert self._tail is not None
        place = await self._tables.place()
        self.generation, self.position, self._looked = place.generation, place.position or 0, self._clock.monotonic()
        self._is_suspended = False
        horizon, is_new = self._tail.last, place.position is None
        while True:
            shadow, reader, self._read = Shadow(self._shard), Reader(), self._checkpoint
            self._window = ChangeWindow()
            shadow.pending = PendingRows(horizon) if is_new else None
            until = await self._take_checkpoint(shadow, reader)
            if is_new or until <= self.position:
                break
            # It counted while these tables were away: nothing tells what went before it.
            logger.warning("tables_behind_checkpoint", shard=self._shard, position=self.position, checkpoint=until)
            is_new = True
        self._shadow = shadow
        self.rebuilds += is_new
        reading = asyncio.create_task(self._take_entries(shadow, reader, horizon))
        writing = asyncio.create_task(self._write_behind(shadow, horizon))
        try:
            done, _ = await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            await end_all(reading, writing)

    async def _take_checkpoint(self, shadow: Shadow, reader: Reader) -> int:
        """Read the newest checkpoint; the position that none of its rows is newer than."""
        assert self._log is not None
        position, until, is_first = self._read, 0, True
        if not position:
            return 0
        async for part in self._log.checkpoint(position):
            if is_first:
                reader.head(part)
                is_first = False
                continue
            if names := names_in(part):
                async for rows in pages_of_blocks(self._log, names):
                    shadow.take_rows(ENDED_PATH, rows, position)
                    await self._relieve(shadow)
                continue
            found = reader.part(part)
            if isinstance(found, int):
                until = found
            elif found[0] is not None and found[0].table.path in PROJECTED:
                shadow.take_rows(found[0].table.path, dict(found[1]), position)
            await self._relieve(shadow)
        return until

    async def _relieve(self, shadow: Shadow) -> None:
        """Write the rows that came to be if they are many, beside those that come; others have their turn."""
        pending = shadow.pending
        if pending is not None and pending.size >= self._budget.rows:
            shadow.pending = PendingRows(pending.horizon)
            await self._hand_over(pending)
        await self._clock.sleep(0.0)

    async def _take_entries(self, shadow: Shadow, reader: Reader, horizon: int) -> None:
        """Take entry after entry into the window. Those up to the place are in the tables; the shadow needs them."""
        assert self._tail is not None
        tail, done, changes = self._tail, self.position, 0
        while True:
            tail.came.clear()
            async for entry in tail.read(self._read):
                decoded = reader.entry(entry.body)
                async with self._taking:
                    if shadow.pending is None and entry.position > done:
                        shadow.pending = PendingRows(horizon)
                    # An earlier owner may have written rows up to the horizon, in other steps than these.
                    is_apart = entry.position <= horizon or self._window.is_apart(decoded)
                    if is_apart:
                        await self._settle(shadow, everything=True)
                    self._window.add(reader, decoded, entry.position, self._clock.monotonic())
                    self._read = entry.position
                    if is_apart:
                        await self._settle(shadow, everything=True)
                self._work.set()
                while self._window.size >= self._budget.window:
                    self._drained.clear()
                    await self._drained.wait()
                changes += len(decoded.changes)
                if changes >= TURN_CHANGES:
                    changes = 0
                    await self._clock.sleep(0.0)
            await tail.came.wait()

    async def _settle(self, shadow: Shadow, *, everything: bool) -> int:
        """Turn what the window has into pending rows, but for what it holds back; up to which position all is. Rows
        of many changes are written meanwhile."""
        window = self._window
        if not len(window):
            return self._read
        held_seconds = HELD_SECONDS if len(window) < HELD_KEYS else HELD_LOAD_SECONDS
        before = math.inf if everything else self._clock.monotonic() - held_seconds
        for portion in window.take(before):
            shadow.take(portion, window.position)
            await self._relieve(shadow)
        return window.done if len(window) else self._read

    async def _write_behind(self, shadow: Shadow, horizon: int) -> None:
        """Write what is pending, again and again."""
        assert self._tail is not None
        clock, tail = self._clock, self._tail
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._work.wait()
            self._work.clear()
            began = clock.monotonic()
            async with self._taking:
                is_full = self._window.size >= self._budget.held or tail.behind_bytes > BEHIND_BYTES // 2
                position = await self._settle(shadow, everything=self._hurry.is_set() or is_full)
                pending = shadow.pending
                if pending is not None and pending.partitions:
                    shadow.pending = PendingRows(horizon)
            self._drained.set()
            if pending is not None and pending.partitions:
                await self._hand_over(pending)
            pending = None  # rows leave memory as they are written
            if self._writing is not None:
                await self._all_written()
                await self._keep_place(position)
            elif position > self.position and (self._wanted > self.position or began - self._looked >= LOOK_SECONDS):
                await self._keep_place(position)
            if began - self._looked >= LOOK_SECONDS:
                await self._look()
            if len(self._window):
                self._work.set()
            seconds = FLUSH_SECONDS if len(self._window) < HELD_KEYS else FLUSH_LOAD_SECONDS
            await self._pause(seconds - (clock.monotonic() - began))

    async def _pause(self, seconds: float) -> None:
        """Wait, but for the end of this process."""
        waits = [asyncio.create_task(self._clock.sleep(max(0.0, seconds))), asyncio.create_task(self._hurry_up())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_all(*waits)

    async def _hurry_up(self) -> None:
        await self._hurry.wait()

    async def _keep_place(self, position: int) -> None:
        """All rows up to this entry are stored."""
        assert self._tail is not None
        if position <= self.position:
            return
        await self._patiently(lambda: self._tables.keep_place(TablesPlace(self.generation, position)))
        self.position = position
        self._tail.done(position)
        await self._tell()

    async def _look(self) -> None:
        """Check that the tables are still the same ones."""
        self._looked = self._clock.monotonic()
        with contextlib.suppress(Unavailable):
            place = await self._tables.place()
            if place.generation != self.generation or (place.position is None and self.position):
                raise TablesRenewedError

    # ------------------------------------------------------------------------------------------- writing

    async def _hand_over(self, pending: PendingRows) -> None:
        """Have rows written once those before them are."""
        async with self._handing:
            await self._all_written()
            self._written = pending
            self._writing = asyncio.create_task(self._write(pending))

    async def _all_written(self) -> None:
        """Return once all rows that were handed over are in the tables; raise why they cannot be."""
        writing = self._writing
        if writing is not None:
            await writing
            if self._writing is writing:
                self._writing = None

    async def _write(self, pending: PendingRows) -> None:
        """Store all rows: a few partitions at once, each write until it is there."""
        writes = pending.writes()
        workers = [asyncio.create_task(self._write_some(writes)) for _ in range(WRITES_AT_ONCE)]
        try:
            await asyncio.gather(*workers)
        finally:
            await end_all(*workers)

    async def _write_some(self, writes: Writes) -> None:
        for rows, drop in writes:
            await self._store(rows, drop)
            self.rows += len(rows)

    async def _store(self, rows: Sequence[RowWrite], drop: PartitionDrop | None) -> None:
        try:
            await self._patiently(lambda: self._tables.write(rows, drop))
        except Bug as failure:
            if len(rows) > 1 or (rows and drop is not None):
                # One row that can never be taken must not keep the others back, nor all that comes after it.
                if drop is not None:
                    await self._store((), drop)
                for row in rows:
                    await self._store((row,), None)
                return
            self.refused += 1
            if count := self._pace.due("row"):
                key = [f"{row.table.name} {row.key}" for row in rows]
                logger.error("row_refused", shard=self._shard, row=key, detail=failure.detail, count=count)

    async def _patiently(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask until the database answers."""
        pause = RETRY_SECONDS / 8
        while True:
            try:
                await ask()
                return
            except Unavailable:
                await self._clock.sleep(pause * (0.5 + self._clock.chance()))
                pause = min(RETRY_SECONDS * 4, 2 * pause)


async def end_all(*tasks: asyncio.Task[None]) -> None:
    """Cancel them, and wait until they have ended."""
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
