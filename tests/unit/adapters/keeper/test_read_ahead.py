"""What is read of a log before it is owned is what its owner finds, also where the log was shortened meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.blocks import BLOCK_RUNS, drop_runs, end_runs, names_of, small_blocks, store_over
from tests.support.effects import differences
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.log import BlockName, LogEntry, Tenure
from tickwise.adapters.store.keeper.read_ahead import ReadAhead
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory.state import State
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory


class SeenLog(FileLog):
    """The log of an owner, looked at beside it, as one in Cassandra can be."""

    def __init__(self, folder: Path, owner: KeeperStore) -> None:
        super().__init__(folder)
        self.seen, self.owner = folder, owner

    async def peek(self) -> Tenure | None:
        checkpoint = max((int(each.stem.split("-")[1]) for each in self.seen.glob("checkpoint-*.tw")), default=0)
        return Tenure(1, checkpoint, self.owner.position)

    def entries(self, after: int) -> AsyncIterator[LogEntry]:
        return self.owner.log.entries(after)

    def checkpoint(self, position: int) -> AsyncIterator[bytes]:
        return self.owner.log.checkpoint(position)

    async def block(self, name: BlockName) -> bytes:
        return await self.owner.log.block(name)


async def test_a_log_is_read_as_it_grows_and_is_shortened(tmp_path: Path) -> None:
    """By who waits for it: at each end it has the state of the owner."""
    clock = VirtualClock()
    store = KeeperStore(FileLog(tmp_path, sync=lambda _file: None), clock)
    await store.open()
    log = SeenLog(tmp_path, store)
    ahead = ReadAhead(log, SystemClock())
    make = Factory(await store.now(), seed="ahead")
    for number in range(12):
        await store.jobs.add([make.job() for _ in range(3)])
        if number in (2, 5, 6, 11):
            await store.keep_checkpoint()
        if number % 2:
            seen = await log.peek()
            assert seen is not None
            await ahead.catch_up(seen)
            rebuilt = State(clock, store.memory.state.near_seconds)
            ahead.contents.fill(rebuilt)
            assert not differences(store.memory.state, rebuilt)
    await store.close()


async def test_who_waits_learns_which_runs_are_in_blocks(tmp_path: Path) -> None:
    """So a new owner names the blocks that are there, and writes no run again; also of those that went meanwhile."""
    clock = VirtualClock()
    store = store_over(FileLog(tmp_path, sync=lambda _file: None), tmp_path, clock)
    await store.open()
    log = SeenLog(tmp_path, store)
    ahead = ReadAhead(log, SystemClock(), lambda: small_blocks(tmp_path, 3))
    runs = await end_runs(store, 2 * BLOCK_RUNS)
    for number in range(8):
        if number % 3 == 0:
            await store.keep_checkpoint()
        seen = await log.peek()
        assert seen is not None
        await ahead.catch_up(seen)
        runs += await end_runs(store, 4)
        await drop_runs(store, [runs.pop(0), runs.pop(5)])
    await store.keep_checkpoint()
    seen = await log.peek()
    assert seen is not None
    await ahead.catch_up(seen)
    rebuilt = State(clock, store.memory.state.near_seconds)
    ahead.contents.fill(rebuilt)
    assert not differences(store.memory.state, rebuilt)
    ended = rebuilt.ended
    assert isinstance(ended, SpilledRuns)
    assert set(await names_of(store.log, store.position)) == set(ended.places.named())
    assert not ended.places.lapsed()
    ended.close()
    await store.close()
