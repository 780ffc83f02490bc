"""`CassandraLog`: the log of one shard in Cassandra, and who owns it.

    append:   body ──► log_entry(shard, segment, position, epoch)     a plain write, which says nothing alone
              head ──► shard.last = n + 1  IF epoch = E AND last = n  from here on the entry is there
    acquire:  wait until the lease of the owner has ended  ──►  epoch = E + 1  IF epoch, last, renewed are as seen
    drop:     first, in whole segments of 256 positions ──► delete them ──► the next drop notes that they are gone

Of a position the body of the highest epoch counts. A later owner learns `last` in the step that makes it owner, so it
writes bodies behind that position only; a body behind `last` does not count at all.

The epoch stops an owner that lost the shard: it is in the condition of each update. The lease guards reads alone. It is
judged by monotonic clocks: the owner counts from before its renewal, a rival from after it saw the renewal. Neither
looks at the time of a node.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final

from tickwise.adapters.store.cassandra.blocks import HistoryBlocks
from tickwise.adapters.store.cassandra.checkpoints import Checkpoints
from tickwise.adapters.store.cassandra.link import ROWS_A_PAGE, CassandraLink
from tickwise.adapters.store.cassandra.ownership import PATIENCE_SECONDS, OwnershipRow, ShardRow
from tickwise.adapters.store.cassandra.pieces import cut, grouped, joined
from tickwise.adapters.store.cassandra.time import ClusterTime
from tickwise.adapters.store.keeper.log import BlockName, LogEntry, OwnershipLost, Tenure
from tickwise.domain.errors import Bug, Misconfigured, StoreUnavailable
from tickwise.observability.tasks import end_tasks
from tickwise.observability.waits import note_wait

LEASE_SECONDS: Final = 5.0
"""A frozen keeper is replaced after this time; a pause of the garbage collector or of the machine is shorter."""
DRIFT: Final = 0.02
"""The share of the lease that is given up for monotonic clocks of different pace; machines differ by some 1e-4."""
LOOK_SECONDS: Final = 0.1
"""Between two looks at the row of another owner."""
PAGE_BYTES: Final = 4 << 20
"""The part of a log in one answer, about: a reader that is behind shares its process with the owner of the shard."""
FIRST_ROWS: Final = 8
"""The rows of the first page of a segment: nobody knows yet how large its entries are."""
SEGMENT_POSITIONS: Final = 256
"""A partition of 13 MB where entries have 50 kB; Cassandra works well up to 100 MB. Written into no row: changing it
needs a new table."""
ENTRY_MAX_BYTES: Final = 512 << 20
"""1,024 pieces in one partition; a reader has it whole in memory. Calls that come together stay below 8 MB, and the
arguments of one below 40 MB. One call may end all runs of a job, each with a payload that came before it."""
PIECES_AT_ONCE: Final = 8
"""Of a large body: each write waits for the disk of a node, which syncs several of them together."""
IN_DOUBT: Final = "an entry of this log may exist or not: acquire the log again"


@dataclass(slots=True)
class _Held:
    """The tenure, as its owner knows it."""

    epoch: int
    last: int
    renewed: int = 0
    checkpoints: int = 0
    """The number of the last one that was begun."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One conditional update at a time: two of one row would only make each other begin anew."""


class CassandraLog:
    """One shard, as the port `EffectLog` describes it; for one process, which calls `append` one at a time."""

    def __init__(
        self,
        link: CassandraLink,
        shard: int,
        *,
        lease_seconds: float = LEASE_SECONDS,
        is_gone: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        """`is_gone`: whether nobody serves at the endpoint of the present owner, so that its lease need not be waited
        for; `endpoint_is_gone` asks the machine."""
        self._link = link
        self._lease_seconds = lease_seconds
        self._is_gone = is_gone
        self._row = OwnershipRow(link, shard)
        self._checkpoints = Checkpoints(link, shard)
        self._blocks = HistoryBlocks(link, shard)
        self._held: _Held | None = None
        self._why_not = "this process has not acquired the log"
        self._in_doubt = False
        self._nonces: set[str] = set()
        """Of the last tenure, and of those that this object has asked for since: their leases need not be waited
        for."""
        self._continues = False
        """True from an acquisition until the log is given back, or known to be another owner's."""
        self.shard = shard
        self.entry_max_bytes = ENTRY_MAX_BYTES
        self.time = ClusterTime(link)
        """The store's clock; told since the first `acquire`."""

    # ------------------------------------------------------------------ ownership

    async def owner(self) -> ShardRow:
        """The owner just now, with its endpoint; `owner` is empty if there is none."""
        return await self._row.read()

    async def acquire(self, owner: str, endpoint: str) -> Tenure:
        """Own the log as soon as the present owner has released it, its lease has ended, or it is gone.

        Waits as long as that takes; cancel it to give up. A process that goes on after a doubt does not wait for
        another owner: it raises `OwnershipLost`."""
        self._lose("this process acquires the log anew")
        while True:
            seen = await self._row.read()
            if self._continues and seen.owner and seen.nonce not in self._nonces:
                self._give_up(_belongs(seen))
                raise OwnershipLost(self._why_not)
            tenure = await self._take(await self._until_free(seen), owner, endpoint)
            if tenure is not None:
                return tenure

    async def peek(self) -> Tenure | None:
        """The row as a majority has it: it may lack an entry that is under way, and names none that is not there."""
        row = await self._row.look()
        return None if row is None else Tenure(row.epoch, row.checkpoint, row.last)

    async def seize(self, owner: str, endpoint: str) -> Tenure:
        """Own the log at once, for a present owner that is known to be gone. One that is not may answer reads from its
        memory until its lease ends; its appends are refused from now on."""
        self._lose("this process acquires the log anew")
        while True:
            tenure = await self._take(await self._row.read(), owner, endpoint, by_force=True)
            if tenure is not None:
                return tenure

    async def renew(self) -> float:
        """Extend the lease; for how many seconds from the call's begin reads may be answered."""
        held = self._owned()
        began = self._link.clock.monotonic()
        async with held.lock:
            # A number of its own, also if this one fails: a late copy of it must not pass for the next one.
            held.renewed = renewed = held.renewed + 1
            now = self.time.now()
            told, until = _ms(now), _date(now + self._lease_seconds)
            await self._change(
                "shard_renew",
                (renewed, until, told, self.shard, held.epoch, renewed, told),
                held,
                may_go_on=lambda row: row.renewed < renewed and row.told_at <= told,
                is_done=lambda row: row.renewed == renewed,
            )
        left = self._lease_seconds * (1.0 - DRIFT)
        if self._link.clock.monotonic() - began >= left:
            raise StoreUnavailable("the renewal of the lease took longer than the lease")
        return left

    async def release(self) -> None:
        """Give the log back. The next owner need not wait."""
        held = self._held
        if held is None:
            await self._release_unheard()
            return
        async with held.lock:
            told = self.time.now()
            values = (_date(told), _ms(told), self.shard, held.epoch)
            self._give_up("this process has released the log")
            await self._row.change(
                "shard_release",
                values,
                lambda row: row.epoch == held.epoch and row.owner != "",
            )

    async def _release_unheard(self) -> None:
        """Give back what an acquisition that was given up may have got: nobody would renew it."""
        nonces, self._nonces = self._nonces, set()
        if not nonces:
            return
        row = await self._row.read()
        if row.nonce in nonces and row.owner:
            told = max(row.told_at, _ms(self.time.now()))
            values = (_date(told / 1_000), told, self.shard, row.epoch)
            await self._row.change("shard_release", values, lambda seen: seen.epoch == row.epoch and seen.owner != "")

    async def _until_free(self, seen: ShardRow) -> ShardRow:
        """The row once its owner may be replaced: what it showed for a whole lease."""
        clock = self._link.clock
        since = clock.monotonic()
        while seen.owner and seen.nonce not in self._nonces and clock.monotonic() - since <= seen.lease_ms / 1_000:
            if self._is_gone is not None and seen.endpoint and await self._is_gone(seen.endpoint):
                break
            await clock.sleep(min(LOOK_SECONDS, seen.lease_ms / 10_000))
            row = await self._row.look() or seen
            if row.lives != seen.lives or row.owner != seen.owner:
                seen, since = row, clock.monotonic()
        return seen

    async def _take(self, seen: ShardRow, owner: str, endpoint: str, *, by_force: bool = False) -> Tenure | None:
        """Become the owner if the row is as it was seen; `by_force`: if its epoch is. None: it is not."""
        if not owner:
            raise Bug("an owner needs a name: a row without one is free")
        await self.time.measure()
        epoch = seen.epoch + 1
        nonce = self._link.clock.random_bytes(8).hex()
        self._nonces.add(nonce)
        until = _date(self.time.now() + self._lease_seconds)
        as_seen = (seen.epoch,) if by_force else (seen.epoch, seen.last, seen.renewed, seen.owner)
        row = await self._row.change(
            "shard_force" if by_force else "shard_seize",
            (owner, endpoint, epoch, nonce, int(self._lease_seconds * 1_000), until, self.shard, *as_seen),
            lambda row: row.epoch == seen.epoch and (by_force or (row.lives, row.owner) == (seen.lives, seen.owner)),
        )
        # Read anew: the owner of before may have kept a checkpoint, or appended, since the row was seen.
        now = row or await self._row.read()
        if (now.epoch, now.nonce) != (epoch, nonce):
            return None
        self.time.begin_at(now.told_at / 1_000)
        self._nonces = {nonce}
        self._held, self._in_doubt, self._continues = _Held(epoch, now.last), False, True
        return Tenure(epoch, now.checkpoint, now.last)

    def _owned(self) -> _Held:
        if self._held is None:
            raise StoreUnavailable(IN_DOUBT) if self._in_doubt else OwnershipLost(self._why_not)
        return self._held

    def _lose(self, why: str) -> None:
        self._held, self._why_not, self._in_doubt = None, why, False

    def _give_up(self, why: str) -> None:
        self._lose(why)
        self._continues = False

    async def _change(
        self,
        name: str,
        values: tuple[Any, ...],
        held: _Held,
        *,
        may_go_on: Callable[[ShardRow], bool],
        is_done: Callable[[ShardRow], bool],
    ) -> None:
        """An update by the owner. Raises `OwnershipLost`, or `StoreUnavailable` where this process has begun another
        tenure meanwhile, which goes on. Of a row of this tenure `may_go_on` tells whether the update is still possible,
        and `is_done` whether it was applied: a node that stood still may carry out a copy of each update minutes
        later, so none may be possible again after a later one of its kind."""
        row = await self._row.change(name, values, lambda row: row.epoch == held.epoch and may_go_on(row))
        if row is not None and not (row.epoch == held.epoch and is_done(row)):
            if self._held is not held:
                self._owned()
                raise StoreUnavailable("this update was of an earlier tenure of this process")
            self._give_up(f"{_belongs(row)}; it was ours in epoch {held.epoch}")
            raise OwnershipLost(self._why_not)

    # ------------------------------------------------------------------ entries

    async def append(self, body: bytes) -> int:
        """Store one entry and return its position."""
        held = self._owned()
        if len(body) > ENTRY_MAX_BYTES:
            raise Bug(f"an entry of {len(body)} bytes; the most is {ENTRY_MAX_BYTES}")  # `entry_max_bytes` says it
        position = held.last + 1
        try:
            # Without the lock: a renewal of the lease must not wait until a large body is written.
            await self._write_body(held.epoch, position, body)
            async with held.lock:
                told = _ms(self.time.now())
                await self._change(
                    "shard_append",
                    (position, told, self.shard, held.epoch, held.last),
                    held,
                    may_go_on=lambda row: row.last == held.last,
                    is_done=lambda row: row.last == position,
                )
        except OwnershipLost:
            raise
        except BaseException:
            # A late copy of this body or of this update may still come: neither may meet another entry of this epoch.
            self._held, self._in_doubt = None, True
            raise
        held.last = position
        return position

    async def _write_body(self, epoch: int, position: int, body: bytes) -> None:
        pieces = cut(body)
        numbered = enumerate(pieces)

        async def write_some() -> None:
            for place, piece in numbered:
                await self._write_piece((self.shard, _segment(position), position, epoch, place, len(pieces), piece))

        writing = [asyncio.ensure_future(write_some()) for _ in range(min(PIECES_AT_ONCE, len(pieces)))]
        try:
            await asyncio.gather(*writing)
        finally:
            await end_tasks(writing)

    async def _write_piece(self, values: tuple[Any, ...]) -> None:
        end = self._link.clock.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                await self._link.ask("entry_write", *values)
                return
            except StoreUnavailable as failure:
                if self._link.clock.monotonic() > end:
                    raise
                note_wait(failure)
            await self._link.clock.sleep(LOOK_SECONDS)

    async def entries(self, after: int) -> AsyncIterator[LogEntry]:
        """The entries behind that position, in order. Raises `Misconfigured` where one is missing: the log is
        damaged."""
        row = await self._row.read()
        if after + 1 < row.first:
            raise Bug(f"entries before {row.first} of shard {self.shard} were dropped, and {after + 1} was asked for")
        position = after
        while position < row.last:
            end = min(row.last, (_segment(position + 1) + 1) * SEGMENT_POSITIONS)
            async for entry in self._read(position, end):
                if entry.position != position + 1:
                    break
                position = entry.position
                yield entry
            if position != end:
                raise Misconfigured(
                    f"entry {position + 1} of the log of shard {self.shard} is missing: "
                    "restore the keyspace from a backup"
                )

    async def _read(self, after: int, end: int) -> AsyncIterator[LogEntry]:
        """Whole entries of one segment, from behind one position to another."""
        state: bytes | None = None
        rest: list[Any] = []
        most = FIRST_ROWS
        while True:
            rows, state = await self._link.page(
                "entries_read", self.shard, _segment(end), after, end, after=state, most=most
            )
            most = _rows_of_page([len(row[-1]) for row in rows])
            rest += rows
            # The last position of a page may go on in the next one.
            whole = rest if state is None else [row for row in rest if row[0] != rest[-1][0]]
            for position, pieces in grouped(whole):
                body = joined(pieces)
                if body is None:
                    return
                yield LogEntry(position, body)
            if state is None:
                return
            rest = rest[len(whole) :]

    # ------------------------------------------------------------------ checkpoints, drops

    async def keep_checkpoint(self, position: int, parts: AsyncIterable[bytes]) -> None:
        """Store the state as of that position; the one before counts until all parts are there."""
        held = self._owned()
        if position > held.last:
            raise Bug(f"a checkpoint at {position}, and the last entry has {held.last}")
        held.checkpoints += 1
        number = held.checkpoints
        count = await self._checkpoints.write(held.epoch, number, parts)
        async with held.lock:
            row = await self._row.read()
            if row.epoch == held.epoch and row.checkpoint > position:
                raise Bug(f"a checkpoint at {position} would come after one of a later position")
            before = row.checkpoint, row.checkpoint_epoch, row.checkpoint_number
            await self._change(
                "shard_checkpoint",
                (position, held.epoch, number, count, self.shard, held.epoch, *before),
                held,
                may_go_on=lambda row: (row.checkpoint, row.checkpoint_epoch, row.checkpoint_number) == before,
                is_done=lambda row: (row.checkpoint_epoch, row.checkpoint_number) == (held.epoch, number),
            )
        await self._checkpoints.sweep(await self._row.read(), (held.epoch, number))

    async def checkpoint(self, position: int) -> AsyncIterator[bytes]:
        """The parts of the checkpoint of that position."""
        row = await self._row.read()
        if row.checkpoint != position or position == 0:
            raise Bug(f"shard {self.shard} has its checkpoint at {row.checkpoint}, and not at {position}")
        async for part in self._checkpoints.read(row):
            yield part

    # ------------------------------------------------------------------ blocks

    async def keep_block(self, number: int, body: bytes) -> BlockName:
        """Store a block under the epoch of this tenure."""
        name = BlockName(self._owned().epoch, number)
        await self._blocks.write(name, body)
        return name

    async def block(self, name: BlockName) -> bytes:
        """The body of a block."""
        return await self._blocks.read(name)

    async def blocks(self) -> Collection[BlockName]:
        """All blocks that were begun."""
        return await self._blocks.names()

    async def drop_blocks(self, names: Collection[BlockName]) -> None:
        """Delete blocks that no checkpoint names."""
        self._owned()
        await self._blocks.delete(names)

    async def drop(self, before: int) -> None:
        """Delete segments whose entries lie before that position and in the checkpoint."""
        held = self._owned()
        row = await self._row.read()
        kept = _segment(min(before, row.checkpoint + 1, row.last + 1))
        first = kept * SEGMENT_POSITIONS + 1
        if first <= row.first and row.swept == _segment(row.first):
            return
        first = max(first, row.first)
        await self._note_dropped(held, first, row.swept)
        for segment in range(row.swept, kept):
            await self._link.ask("segment_delete", self.shard, segment)
        await self._note_dropped(held, first, kept)

    async def _note_dropped(self, held: _Held, first: int, swept: int) -> None:
        async with held.lock:
            await self._change(
                "shard_drop",
                (first, swept, self.shard, held.epoch, first, swept),
                held,
                may_go_on=lambda row: row.first <= first and row.swept <= swept,
                is_done=lambda row: (row.first, row.swept) == (first, swept),
            )


async def endpoint_is_gone(endpoint: str) -> bool:
    """Try whether the machine of host:port refuses the connection: it is there, and no process listens. A machine that
    does not answer at all may come back, and its process with it."""
    host, _, port = endpoint.rpartition(":")
    try:
        async with asyncio.timeout(1.0):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError as failure:
        return failure.errno == errno.ECONNREFUSED
    except (TimeoutError, ValueError, OverflowError):  # what stands in the row may be no port
        return False
    writer.close()
    return False


def _rows_of_page(sizes: Sequence[int]) -> int:
    """The number of rows of the next page, if they are as large as the largest one of the page before."""
    return max(1, min(ROWS_A_PAGE, PAGE_BYTES // max(1, max(sizes, default=1))))


def _belongs(row: ShardRow) -> str:
    return f"shard {row.shard} belongs to {row.owner or 'nobody'}, epoch {row.epoch}"


def _segment(position: int) -> int:
    return (position - 1) // SEGMENT_POSITIONS


def _ms(seconds: float) -> int:
    """Rounded up: the next owner must not begin before a time that this one has told."""
    return ceil(seconds * 1_000)


def _date(seconds: float) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
