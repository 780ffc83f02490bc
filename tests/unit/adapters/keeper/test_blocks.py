"""Ended runs are written into blocks once; checkpoints name these, and what counts of them is what they say."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.support.blocks import (
    Death,
    Died,
    DyingFileLog,
    drop_runs,
    end_runs,
    ended_run,
    judge_next_owner,
    lived,
    names_of,
    rows_in,
    small_blocks,
    store_over,
)
from tickwise.adapters.store.keeper import blocks
from tickwise.adapters.store.keeper.blocks import BLOCK_SCHEMA, NamedBlock, block_body, ended_of, read_block
from tickwise.adapters.store.keeper.file_log import FileLog, examine
from tickwise.adapters.store.keeper.history import BlockKeeper
from tickwise.adapters.store.keeper.images import VERSION, WITH_BLOCKS
from tickwise.adapters.store.keeper.log import BlockName
from tickwise.adapters.store.keeper.spilled import SpilledRuns, block_run
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.domain.errors import Misconfigured
from tickwise.ports.store import Retention
from tickwise.testing.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def log_in(folder: Path) -> FileLog:
    return FileLog(folder, sync=lambda _file: None)


@pytest.fixture
async def store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[KeeperStore]:
    """All ended runs outside of memory, five to a block."""
    store = store_over(log_in(tmp_path), tmp_path, clock)
    await store.open()
    yield store
    await store.close()


async def reopened(store: KeeperStore, folder: Path, clock: VirtualClock) -> KeeperStore:
    """The next owner of the same log, with the state that the former one had."""
    live = store.memory.state
    kept = {run_id: live.ended[run_id] for run_id in live.ended}
    await store.close()
    again = store_over(log_in(folder), folder, clock)
    await again.open()
    assert kept == dict(again.memory.state.ended.items())
    return again


def block_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("block-*"))


async def test_a_checkpoint_has_names_in_place_of_runs(store: KeeperStore) -> None:
    """But for the rest that makes no whole block, of those that FAILED and of the others."""
    await end_runs(store, 23)
    await end_runs(store, 12, failed=True)
    await store.keep_checkpoint()
    names = await names_of(store.log, store.position)
    assert [(False, 5)] * 4 + [(True, 5)] * 2 == sorted((each.failed, each.places) for each in names)
    assert 3 + 2 == await rows_in(store.log, store.position)


async def test_a_run_is_written_into_a_block_once(
    store: KeeperStore, tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again by the next checkpoints, and not by the next owner."""
    await end_runs(store, 20)
    await store.keep_checkpoint()
    files = {path: path.stat().st_ino for path in tmp_path.glob("block-*")}
    await end_runs(store, 3)
    await store.keep_checkpoint()
    assert files == {path: path.stat().st_ino for path in tmp_path.glob("block-*")}
    again = await reopened(store, tmp_path, clock)
    await again.keep_checkpoint()
    assert files == {path: path.stat().st_ino for path in tmp_path.glob("block-*")}
    await again.close()


async def test_runs_that_go_stay_gone(store: KeeperStore, tmp_path: Path, clock: VirtualClock) -> None:
    """Out of a block before and after a checkpoint, and by the next owner."""
    runs = await end_runs(store, 20)
    await store.keep_checkpoint()
    await drop_runs(store, [runs[1], runs[7]])
    await store.keep_checkpoint()
    await drop_runs(store, runs[10:12])
    again = await reopened(store, tmp_path, clock)
    assert 16 == len(again.memory.state.ended)
    await drop_runs(again, [runs[0]])
    await again.keep_checkpoint()
    last = await reopened(again, tmp_path, clock)
    assert {runs[0], runs[1], runs[7], *runs[10:12]} == set(runs) - set(last.memory.state.ended)
    await last.close()


async def test_retention_deletes_blocks(store: KeeperStore, tmp_path: Path, clock: VirtualClock) -> None:
    """One whose runs are all over goes after the next checkpoint; those that FAILED stay, in their own."""
    await end_runs(store, 20)
    await end_runs(store, 5, failed=True)
    await store.keep_checkpoint()
    assert 5 == len(block_files(tmp_path))
    await clock.advance(1_000.0)
    await store.upkeep.maintain(Retention(runs_seconds=100.0, failed_seconds=10_000.0))
    assert 5 == len(block_files(tmp_path))
    await store.keep_checkpoint()
    [named] = await names_of(store.log, store.position)
    assert named.failed
    assert 1 == len(block_files(tmp_path))


async def test_a_removed_namespace_leaves_no_block(store: KeeperStore, tmp_path: Path, clock: VirtualClock) -> None:
    """With the next checkpoint its runs leave the disk: the others of their blocks are written anew."""
    runs = await end_runs(store, 20)
    await store.keep_checkpoint()
    store.memory.state.ended.drop(runs[3:9], erase=True)
    store.memory.state.ended.drop(runs[19:])
    await store.now()
    before = set(block_files(tmp_path))
    await store.keep_checkpoint()
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("block-*"))
    assert [False] * 6 == [run_id.bytes in kept for run_id in runs[3:9]]
    assert before - set(block_files(tmp_path))
    again = await reopened(store, tmp_path, clock)
    assert set(runs) - {*runs[3:9], runs[19]} == set(again.memory.state.ended)
    await again.close()


async def test_what_a_dead_owner_wrote_and_nobody_names_goes(
    store: KeeperStore, tmp_path: Path, clock: VirtualClock
) -> None:
    """A block of an earlier epoch with any number, and one that is not finished."""
    await end_runs(store, 20)
    await store.log.keep_block(77, b"a late block")
    (tmp_path / "block-0000000001-0000000078.new").touch()
    again = await reopened(store, tmp_path, clock)
    await again.keep_checkpoint()
    names = await names_of(again.log, again.position)
    assert {each.name for each in names} == set(await again.log.blocks())
    assert {2} == {each.epoch for each in names}
    assert 4 == len(block_files(tmp_path))
    await again.close()


async def test_a_block_that_is_not_there_is_damage(store: KeeperStore, tmp_path: Path, clock: VirtualClock) -> None:
    """A start refuses it, and so does the look of `doctor`; nothing is changed."""
    await end_runs(store, 20)
    await store.keep_checkpoint()
    await store.close()
    examine(tmp_path)
    first = min(tmp_path.glob("block-*"))
    body = first.read_bytes()
    for damaged in (None, body[:-3], body[:40] + b"?" + body[41:]):
        first.unlink(missing_ok=True)
        if damaged is not None:
            first.write_bytes(damaged)
        with pytest.raises(Misconfigured, match="damaged"):
            examine(tmp_path)
        refused = store_over(log_in(tmp_path), tmp_path, clock)
        with pytest.raises(Misconfigured, match="damaged"):
            await refused.open()
        await refused.close()
    first.write_bytes(body)
    again = store_over(log_in(tmp_path), tmp_path, clock)
    await again.open()
    assert 20 == len(again.memory.state.ended)
    await again.close()


async def test_a_look_beside_an_owner_finds_no_damage_in_what_it_deletes(
    store: KeeperStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint is read, then the owner keeps another one and deletes a block that the first one names."""
    runs = await end_runs(store, 20)
    await store.keep_checkpoint()
    [first] = tmp_path.glob("checkpoint-*.tw")
    content = first.read_bytes()
    await drop_runs(store, runs)
    await store.keep_checkpoint()
    first.write_bytes(content)
    newest = FileLog._newest_checkpoint
    seen = iter([int(first.stem.split("-")[1])])
    monkeypatch.setattr(FileLog, "_newest_checkpoint", lambda log: next(seen, 0) or newest(log))
    assert store.position == examine(tmp_path).last


async def test_a_block_of_a_later_owner_is_not_deleted(store: KeeperStore, tmp_path: Path) -> None:
    """By one that kept a checkpoint, lost its epoch, and only then looks what there is to delete."""
    await end_runs(store, 20)
    later = tmp_path / "block-0000000099-0000000001.tw"
    later.touch()
    await store.keep_checkpoint()
    assert later.exists()


async def test_a_release_without_blocks_refuses_a_checkpoint_that_names_some(store: KeeperStore) -> None:
    """It would begin without their runs. One that names none it reads."""
    heads = []
    for number in (3, 20):
        await end_runs(store, number)
        await store.keep_checkpoint()
        first = await anext(aiter(store.log.checkpoint(store.position)))
        heads.append(msgspec.msgpack.decode(first)[0])
    assert [VERSION, WITH_BLOCKS] == heads


async def test_runs_of_a_log_without_blocks_come_into_some(tmp_path: Path, clock: VirtualClock) -> None:
    """A store of the release before has all ended runs in its checkpoint."""
    before = KeeperStore(log_in(tmp_path), clock)
    await before.open()
    runs = await end_runs(before, 20)
    await before.keep_checkpoint()
    assert 20 == await rows_in(before.log, before.position)
    again = await reopened(before, tmp_path, clock)
    await again.keep_checkpoint()
    assert 0 == await rows_in(again.log, again.position)
    last = await reopened(again, tmp_path, clock)
    assert set(runs) == set(last.memory.state.ended)
    await last.close()


async def test_a_store_that_has_all_in_memory_reads_blocks(
    store: KeeperStore, tmp_path: Path, clock: VirtualClock
) -> None:
    """And its checkpoint has all of them as rows, and names none."""
    runs = await end_runs(store, 20)
    await store.keep_checkpoint()
    await drop_runs(store, runs[:1])
    await store.close()
    again = KeeperStore(log_in(tmp_path), clock)
    await again.open()
    await again.keep_checkpoint()
    assert 19 == await rows_in(again.log, again.position)
    assert [] == await names_of(again.log, again.position)
    await again.close()


def test_a_block_of_another_release_is_read_by_its_names() -> None:
    """Fields in another order, and one that this release does not have."""
    run = ended_run(3, random.Random(3))
    plain: Any = msgspec.msgpack.decode(block_run(run).image)
    schema = {**BLOCK_SCHEMA, "EndedRun": ["lost", *reversed(BLOCK_SCHEMA["EndedRun"])]}
    image = msgspec.msgpack.encode(["anything", *reversed(plain)])
    body = msgspec.msgpack.encode((blocks.BLOCK_VERSION, schema, [block_run(run)._replace(image=image), None]))
    [(run_id, found)] = ended_of(read_block(NamedBlock(1, 1, failed=False, places=2), body))
    assert (run.row.run_id, run) == (run_id, found)


@pytest.mark.parametrize("after", [False, True])
async def test_a_death_between_any_two_steps_loses_nothing(tmp_path: Path, clock: VirtualClock, *, after: bool) -> None:
    """Of two checkpoints with blocks, each at every step: no run that was acknowledged is lost, none that went comes
    back, and the next checkpoint leaves no block that nobody names."""
    for step in count(1):
        folder = tmp_path / f"{step}"
        death = Death(step, after=after)
        log = DyingFileLog(folder, death)
        store = store_over(log, folder, clock)
        await store.open()
        came_to_end, there, open_ones = await lived(store, death)
        with contextlib.suppress(Died):
            await store.close()
        await log.bury()
        again = store_over(log_in(folder), folder, clock)
        await judge_next_owner(again, there, open_ones)
        await again.close()
        if came_to_end:
            break
    assert step > 20


# ------------------------------------------------------------------------------------------- at random


@pytest.mark.parametrize("seed", range(6))
async def test_blocks_and_rows_give_what_is_there(
    store: KeeperStore, tmp_path: Path, clock: VirtualClock, seed: int
) -> None:
    """While runs come, come once more and go, blocks are stored, given up, read by the next owner, learned by one that
    waits, or named no more, at random."""
    chance = random.Random(seed)
    ended, waiting = small_blocks(tmp_path, 2, 4), small_blocks(tmp_path, 3, 4)
    stored: dict[BlockName, bytes] = {}
    model: dict[UUID, EndedRun] = {}
    for number in range(200):
        run = ended_run(number, chance)
        model[run.row.run_id] = run
        if chance.random() < 0.2:
            again = chance.choice(list(model))
            model[again] = model[again]._replace(token=number)
        for runs in (ended, waiting):
            for run_id, each in model.items():
                if runs.get(run_id) != each:
                    runs[run_id] = each
        if chance.random() < 0.4 and model:
            for run_id in chance.sample(list(model), min(len(model), chance.choice((1, 1, 1, 9)))):
                del model[run_id]
                erase = chance.random() < 0.3
                for runs in (ended, waiting):
                    runs.drop([run_id], erase=erase)
        for failed in (False, True):
            while chance.random() < 0.5 and (block := ended.places.begin(failed=failed)) is not None:
                body = block_body(ended.runs_at(block, 0, block.places))
                if block.runs and chance.random() < 0.3:
                    gone = UUID(bytes=next(iter(block.runs.values()))[0])
                    del model[gone], ended[gone], waiting[gone]
                if chance.random() < 0.3:
                    ended.places.give_up(block)
                    break
                name = BlockName(1, len(stored) + 1)
                stored[name] = body
                ended.places.finish(block, name)
        if chance.random() < 0.3:
            names = {each.name: each for each in ended.places.named()}
            waiting.keep_blocks(names)
            for new in names.keys() - {known.name for known in waiting.places.stored()}:
                waiting.learn_block(names[new], read_block(names[new], stored[new]))
        if chance.random() < 0.1:
            ended, waiting = waiting, ended
            for block in ended.places.erasing():
                named = block.named()
                left = enumerate(read_block(named, stored[named.name]), start=block.first)
                ended.places.release(block, {at: (each.run, 1) for at, each in left if each is not None})
            await BlockKeeper(store.log, clock, ended, 1).free_lapsed()
        if number % 10 == 0:
            for runs in (ended, waiting):
                assert model == dict(runs.items()) == read_anew(runs, stored)
            await BlockKeeper(store.log, clock, ended, 1).free_lapsed()
            ended = taken_anew(tmp_path, ended, stored)
            assert model == dict(ended.items()) == read_anew(ended, stored)
    ended.close()
    waiting.close()


def read_anew(runs: SpilledRuns, stored: dict[BlockName, bytes]) -> dict[UUID, EndedRun]:
    """The runs that the names of blocks and the rows of a checkpoint give; each is in one of them alone."""
    decode = msgspec.msgpack.Decoder(EndedRun).decode
    found: dict[UUID, EndedRun] = {}
    number = 0
    for named in runs.places.named():
        some = dict(ended_of(read_block(named, stored[named.name])))
        number += len(some)
        found |= some
    for page in runs.pages(3):
        number += len(page)
        found |= {run_id: decode(each) if isinstance(each, msgspec.Raw) else each for run_id, each in page}
    lapsed = {run_id: runs[run_id] for run_id in runs if run_id not in found}
    assert not lapsed or runs.places.lapsed()
    assert len(found) == number
    return found | lapsed


def taken_anew(folder: Path, before: SpilledRuns, stored: dict[BlockName, bytes]) -> SpilledRuns:
    """The container of the next owner."""
    taken = small_blocks(folder, 2, 4)
    for named in before.places.named():
        taken.take_block(named, read_block(named, stored[named.name]))
    for page in before.pages(3):
        for run_id, _ in page:
            taken[run_id] = before[run_id]
    before.close()
    return taken
