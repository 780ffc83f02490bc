"""Readable tables follow a log: idempotent, in any order of writes, and never in the way of commits."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.support.readable import ModelTables, rows_of, wrong_rows
from tests.support.waiting import eventually
from tests.unit.adapters.keeper.test_recording import life_of_runs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store import cassandra
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.readable import projector as module
from tickwise.adapters.store.keeper.readable.budget import BACKLOG_BYTES, LEAST_BYTES, BacklogBudget
from tickwise.adapters.store.keeper.readable.pending import PendingRows
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.readable.tables import (
    ATTEMPTS,
    DUE,
    JOBS,
    READABLE,
    RUNS,
    PartitionDrop,
    RowWrite,
)
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.errors import Bug, Misconfigured, StoreUnavailable
from tickwise.domain.model import Lane
from tickwise.ports.clock import Clock
from tickwise.ports.store import JobAction, Retention
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory

CLOCK = SystemClock()
SCHEMA = Path(str(cassandra.__file__)).parent / "readable" / "tables.cql"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes and looks follow one another closely."""
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.001)
    monkeypatch.setattr(module, "HELD_SECONDS", 0.01)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "MISSING_SECONDS", 0.01)


@pytest.fixture
def tables() -> ModelTables:
    return ModelTables()


class SteppedClock(SystemClock):
    """One whose seconds pass when a test says so, but for a moment at each look: runs are held back for a moment."""

    seconds = 1_000.0

    def monotonic(self) -> float:
        self.seconds += 1e-6
        return self.seconds


class Kept:
    """A store whose log is in a folder, with a projector into model tables."""

    def __init__(
        self, folder: Path, tables: ModelTables, budget: BacklogBudget | None = None, clock: Clock = CLOCK
    ) -> None:
        self.tables = tables
        self.projector = TableProjector(tables, clock, shard=0, budget=budget)
        self.store = KeeperStore(FileLog(folder, sync=lambda _file: None), CLOCK, projection=self.projector)

    async def wrong(self) -> dict[str, Any]:
        """What is other than the state, once all is projected."""
        async with asyncio.timeout(30):
            await self.projector.reached(self.store.position)
        assert self.projector.position >= self.store.position
        return wrong_rows(rows_of(self.tables), self.store.memory.state)


@contextlib.asynccontextmanager
async def keeping(
    folder: Path, tables: ModelTables, budget: BacklogBudget | None = None, clock: Clock = CLOCK
) -> AsyncIterator[Kept]:
    """A store that is open. `clock`: the projector's."""
    kept = Kept(folder, tables, budget, clock)
    await kept.store.open()
    try:
        yield kept
    finally:
        await kept.store.close()


async def add_jobs(store: Any, count: int, seed: str, **fields: Any) -> list[Any]:
    """New one-time jobs, each with a run that waits."""
    make = Factory(await store.now(), seed=seed)
    jobs = [make.job(**fields) for _ in range(count)]
    await store.jobs.add(jobs)
    return jobs


async def test_short_runs_are_few_rows(tmp_path: Path, tables: ModelTables) -> None:
    """A run that comes, is claimed and ends between two writes is one row, and one of its attempt; a timer that fired
    meanwhile is none."""
    async with keeping(tmp_path, tables) as kept:
        await kept.projector.reached(kept.store.position)
        tables.fails = StoreUnavailable("slow")
        (stuck,) = await add_jobs(kept.store, 1, "stuck", lane=Lane(queue="other"))
        # A write of it is under way, so all that follows is pending.
        await eventually(lambda: kept.projector._writing is not None)  # no sign leads out
        await life_of_runs(kept.store)
        await eventually(lambda: kept.projector._read == kept.store.position)  # as above
        tables.writes.clear()
        tables.fails = None
        assert {} == await kept.wrong()
        rows = [row for rows, _ in tables.writes for row in rows if stuck.job_id not in row.key]
        keys = [(row.table.name, row.key) for row in rows if row.table in (RUNS, ATTEMPTS)]
        assert len(set(keys)) == len(keys), "a run was written in pieces"
        assert all(row.columns is not None for row in rows), "a row that never was is deleted"


async def test_a_new_run_is_held_back_and_the_place_stays_before_it(
    tmp_path: Path, tables: ModelTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else comes is written meanwhile. An owner that gives the log back writes all of it."""
    monkeypatch.setattr(module, "HELD_SECONDS", 3_600.0)
    async with keeping(tmp_path, tables) as kept:
        await kept.projector.reached(kept.store.position)
        place = kept.store.position
        (held,) = await add_jobs(kept.store, 1, "held")
        (due,) = await add_jobs(kept.store, 1, "due", due=CLOCK.now() + 7_200)
        await eventually(lambda: tables.rows(DUE))
        assert [due.job_id] == [key[-1] for key in tables.rows(JOBS)]
        assert not tables.rows(RUNS)
        assert place == kept.projector.position
        monkeypatch.setattr(module, "HELD_SECONDS", 0.01)
        assert {} == await kept.wrong()
        (held,) = await add_jobs(kept.store, 1, "held again")
        monkeypatch.setattr(module, "HELD_SECONDS", 3_600.0)
    assert held.job_id in {key[-1] for key in tables.rows(JOBS)}


async def test_runs_that_cannot_be_held_back_for_long_are_written(
    tmp_path: Path, tables: ModelTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory stays bounded: beyond three quarters of what a window may have all is written as it is."""
    monkeypatch.setattr(module, "HELD_SECONDS", 3_600.0)
    async with keeping(tmp_path, tables, BacklogBudget(200_000)) as kept:
        await add_jobs(kept.store, 200, "many")
        await eventually(lambda: len(tables.rows(RUNS)) >= 170)


async def test_where_many_runs_wait_they_wait_longer_for_their_end(
    tmp_path: Path, tables: ModelTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is written at each of its steps costs twice as much, so all would wait longer still."""
    monkeypatch.setattr(module, "HELD_KEYS", 100)
    monkeypatch.setattr(module, "HELD_LOAD_SECONDS", 3_600.0)
    async with keeping(tmp_path, tables) as kept:
        (alone,) = await add_jobs(kept.store, 1, "alone")
        await eventually(lambda: tables.rows(RUNS))
        await add_jobs(kept.store, 60, "many")
        await add_jobs(kept.store, 1, "due", due=CLOCK.now() + 7_200)
        await eventually(lambda: tables.rows(DUE))
        assert [alone.run_id] == [key[-1] for key in tables.rows(RUNS)]
        monkeypatch.setattr(module, "HELD_LOAD_SECONDS", 0.01)
        assert {} == await kept.wrong()


async def test_under_load_writes_are_seldom_and_the_end_does_not_wait_for_one(
    tmp_path: Path, tables: ModelTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of a few rows costs a node as much as one of many. Who gives the shard back writes the rest at once."""
    monkeypatch.setattr(module, "HELD_KEYS", 20)
    monkeypatch.setattr(module, "FLUSH_LOAD_SECONDS", 3_600.0)
    monkeypatch.setattr(module, "HELD_LOAD_SECONDS", 3_600.0)
    async with keeping(tmp_path, tables) as kept:
        await add_jobs(kept.store, 1, "first", due=CLOCK.now() + 7_200)
        await eventually(lambda: tables.rows(DUE))
        await add_jobs(kept.store, 30, "many")
        await eventually(lambda: len(kept.projector._window) >= 60)  # no sign leads out
        await add_jobs(kept.store, 1, "second", due=CLOCK.now() + 7_200)
        assert [] == [*tables.rows(RUNS)]
        async with asyncio.timeout(30):
            await kept.projector.close()
        assert (30, 2) == (len(tables.rows(RUNS)), len(tables.rows(DUE)))


async def test_runs_that_take_much_of_the_log_are_not_held_back(
    tmp_path: Path, tables: ModelTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits never wait for a place that stays only because runs wait for their end."""
    monkeypatch.setattr(module, "HELD_SECONDS", 3_600.0)
    monkeypatch.setattr(module, "BEHIND_BYTES", 20_000)
    async with keeping(tmp_path, tables) as kept:
        for number in range(20):
            await add_jobs(kept.store, 10, f"large {number}")
        await eventually(lambda: len(tables.rows(RUNS)) >= 150)


async def test_the_same_writes_twice_and_in_any_order_change_nothing(tmp_path: Path, tables: ModelTables) -> None:
    """The position is the timestamp: what comes late never wins over what is newer."""
    async with keeping(tmp_path, tables) as kept:
        await life_of_runs(kept.store)
        await add_jobs(kept.store, 20, "more", due=CLOCK.now() + 7_200)
        assert {} == await kept.wrong()

        await kept.store.upkeep.maintain(Retention(runs_seconds=-10.0, failed_seconds=-10.0))
        assert {} == await kept.wrong()
        rows = rows_of(tables)
        draw = random.Random(7)
        for _ in range(20):
            other = ModelTables()
            for write in draw.sample([*tables.writes, *tables.writes], 2 * len(tables.writes)):
                other.store(*write)
            assert rows == rows_of(other)


async def test_an_owner_that_dies_leaves_the_rest_to_the_next(tmp_path: Path, tables: ModelTables) -> None:
    """What was committed and not projected is read from the log; nothing is lost, also if some of it was written."""
    first = Kept(tmp_path, tables)
    await first.store.open()
    await life_of_runs(first.store)
    assert {} == await first.wrong()
    tables.fails = StoreUnavailable("cut off")
    await add_jobs(first.store, 50, "committed")
    place = tables.kept
    await first.projector._stop()  # as a process that is killed
    await first.store.close()
    tables.fails = None
    assert place == tables.kept
    async with keeping(tmp_path, tables) as second:
        assert {} == await second.wrong()
        assert 53 == len(tables.rows(JOBS))
        assert 0 == second.projector.rebuilds, "it began anew"


async def test_what_an_earlier_owner_may_have_written_is_ended(tmp_path: Path, tables: ModelTables) -> None:
    """It wrote the row of a timer and died before it kept its place; the timer went in one of its last entries."""
    first = Kept(tmp_path, tables)
    await first.store.open()
    await first.projector.reached(first.store.position)
    place = tables.kept
    make = Factory(await first.store.now(), seed="earlier")
    job = make.job(CLOCK.now() + 7_200)
    await first.store.jobs.add([job])
    await eventually(lambda: tables.rows(DUE))
    await first.projector._stop()  # as a process that is killed
    tables.kept = place
    await first.store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
    await first.store.close()
    async with keeping(tmp_path, tables) as second:
        assert {} == await second.wrong()
        assert not tables.rows(DUE)


async def test_a_checkpoint_waits_for_the_tables(tmp_path: Path, tables: ModelTables) -> None:
    """So a segment of the log goes only once it is checkpointed and projected."""
    async with keeping(tmp_path, tables) as kept:
        await kept.projector.reached(kept.store.position)
        tables.fails = StoreUnavailable("slow")
        await add_jobs(kept.store, 3, "before")
        keeping_one = asyncio.create_task(kept.store.keep_checkpoint())
        await add_jobs(kept.store, 3, "beside")
        assert not (await asyncio.wait({keeping_one}, timeout=0.2))[0]
        assert not list(tmp_path.glob("checkpoint-*.tw"))
        tables.fails = None
        await keeping_one
        assert 1 == kept.store.checkpoints
        await add_jobs(kept.store, 3, "after")
    async with keeping(tmp_path, tables) as again:
        assert {} == await again.wrong()
        assert 0 == again.projector.rebuilds


async def test_commits_wait_for_tables_that_are_far_behind(
    tmp_path: Path, tables: ModelTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back-pressure: the log behind the tables, and what is in memory of it, stay bounded."""
    monkeypatch.setattr(module, "BEHIND_BYTES", 20_000)
    async with keeping(tmp_path, tables, BacklogBudget(20_000)) as kept:
        await kept.projector.reached(kept.store.position)
        tables.fails = StoreUnavailable("slow")
        done: list[int] = []

        async def submit() -> None:
            for number in range(100):
                await add_jobs(kept.store, 5, f"flood {number}")
                done.append(number)

        flood = asyncio.create_task(submit())
        await eventually(lambda: done, what="the first ones are stored")
        await asyncio.wait({flood}, timeout=0.5)
        assert len(done) < 100, "nobody waited"
        tables.fails = None
        await flood
        assert {} == await kept.wrong()


@pytest.mark.parametrize("checkpoint", [False, True])
async def test_lost_tables_hold_up_nobody_and_are_made_anew(
    tmp_path: Path, tables: ModelTables, *, checkpoint: bool
) -> None:
    """Commits and checkpoints go on while they are missing. Once they are there again all rows are, from the checkpoint
    and the log."""
    async with keeping(tmp_path, tables) as kept:
        await life_of_runs(kept.store)
        assert {} == await kept.wrong()
        tables.fails = Misconfigured("a table is missing")
        await add_jobs(kept.store, 5, "meanwhile")
        if checkpoint:
            async with asyncio.timeout(30):
                await kept.store.keep_checkpoint()
        await kept.store.upkeep.maintain(Retention(runs_seconds=-10.0, failed_seconds=-10.0))
        tables.lose()
        tables.generation += 1
        tables.fails = None
        await eventually(lambda: kept.projector.generation == 2)
        assert {} == await kept.wrong()
        assert tables.rows(JOBS)


async def test_tables_that_are_emptied_are_noticed(tmp_path: Path, tables: ModelTables) -> None:
    """Also when nobody writes: the place of the projection is gone with them."""
    async with keeping(tmp_path, tables) as kept:
        await life_of_runs(kept.store)
        assert {} == await kept.wrong()
        rows = rows_of(tables)
        tables.lose()
        await eventually(lambda: kept.projector.rebuilds == 2)
        assert {} == await kept.wrong()
        assert rows["runs"] == tables.rows(RUNS)


async def test_a_row_that_can_never_be_stored_holds_up_no_other(tmp_path: Path, tables: ModelTables) -> None:
    """It is counted and left out."""
    store = tables.write

    async def write(rows: Any, drop: Any) -> None:
        if any(row.columns is not None and row.columns.get("name") == "poison" for row in rows):
            raise Bug("too large")
        await store(rows, drop)

    tables.write = write  # type: ignore[method-assign]  # the database of this test
    async with keeping(tmp_path, tables) as kept:
        make = Factory(CLOCK.now(), seed="poison")
        await kept.store.jobs.add([make.job(name="poison"), *(make.job() for _ in range(40))])
        assert {"jobs", "hours"} == (await kept.wrong()).keys(), "the hour of its runs stands in its row"
        assert 1 == kept.projector.refused
        assert 40 == len(tables.rows(JOBS))


class StuckTables(ModelTables):
    """Model tables that store nothing until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.under_way = 0
        """The number of rows that are handed over and not stored."""

    async def write(self, rows: Any, drop: Any) -> None:
        self.under_way += len(rows)
        await self.goes_on.wait()
        self.under_way -= len(rows)
        await super().write(rows, drop)


async def test_a_backlog_has_as_many_bytes_as_it_may_and_the_log_has_the_rest(tmp_path: Path) -> None:
    """Window, tail and rows, also those that are being written, while commits go on. Nothing is lost by it."""
    tables, budget = StuckTables(), BacklogBudget(1_000_000)
    async with keeping(tmp_path, tables, budget) as kept:
        projector, store = kept.projector, kept.store
        for number in range(40):
            # 100 jobs, each with a row of its own and one of its timer: some 30 kB of the log, and 240 kB as rows
            await add_jobs(store, 100, f"load {number}", due=CLOCK.now() + 7_200)
            await CLOCK.sleep(0.01)
            window, tail, shadow = projector._window, projector._tail, projector._shadow
            assert tail is not None
            assert shadow is not None
            rows = shadow.pending
            assert window.size <= budget.window + 200_000, "more than one entry beyond the budget"
            assert tail._bytes <= budget.tail
            assert rows is None or rows.size <= budget.rows + 200_000
            assert projector._written.size <= budget.rows + 200_000
        assert projector._read <= store.position - 20, "all of it is in memory"
        assert tables.under_way + projector._written.count + len(projector._window) < 2_000
        tables.goes_on.set()
        assert {} == await kept.wrong()
        assert 4_000 == len(tables.rows(DUE))


async def test_an_owner_that_dies_in_a_load_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    """Part of what one window had is written, its place is not kept, and much of the log was never read. The next owner
    writes it all, from the same place on."""
    tables, budget = StuckTables(), BacklogBudget(1_000_000)
    first = Kept(tmp_path, tables, budget)
    await first.store.open()
    tables.goes_on.set()
    await first.projector.reached(first.store.position)
    place, few = tables.kept, asyncio.Event()
    store = tables.store

    def store_some(rows: Any, drop: Any) -> None:
        store(rows, drop)
        if len(tables.rows(JOBS)) >= 50:
            tables.goes_on.clear()
            few.set()

    tables.store = store_some  # type: ignore[method-assign]  # a database that stands still after some rows
    for number in range(30):
        await add_jobs(first.store, 100, f"load {number}", due=CLOCK.now() + 7_200)
    await few.wait()
    moved = await add_jobs(first.store, 5, "moved", due=CLOCK.now() + 7_200)
    make = Factory(await first.store.now(), seed="moves")
    for job in moved:
        await first.store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
    assert first.projector._read < first.store.position
    await first.projector._stop()  # as a process that is killed
    await first.store.close()
    assert 50 <= len(tables.rows(JOBS)) < 3_000
    assert place == tables.kept
    tables.store = store  # type: ignore[method-assign]  # as above
    tables.goes_on.set()
    async with keeping(tmp_path, tables, BacklogBudget(1_000_000)) as second:
        assert {} == await second.wrong()
        assert (3_005, 3_000) == (len(tables.rows(JOBS)), len(tables.rows(DUE)))
        assert 0 == second.projector.rebuilds, "it began anew"


async def test_shards_of_a_process_share_one_budget(tmp_path: Path, tables: ModelTables) -> None:
    """Each has its part while it follows a log, and gives it back with its shard; one is never too small."""
    budget = BacklogBudget()
    async with keeping(tmp_path / "one", tables, budget):
        assert BACKLOG_BYTES == budget.share
        async with keeping(tmp_path / "two", ModelTables(), budget):
            assert BACKLOG_BYTES // 2 == budget.share
        assert BACKLOG_BYTES == budget.share
    assert BACKLOG_BYTES == budget.share
    for _ in range(100):
        budget.join()
    assert LEAST_BYTES == budget.share
    assert budget.tail + budget.window + 2 * budget.rows == budget.share


async def test_rows_that_can_never_be_stored_are_a_line_now_and_then(
    tmp_path: Path, tables: ModelTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller can make as many as they like: a line has their number, and the key of one of them."""

    async def write(rows: Any, drop: Any) -> None:
        raise Bug("too large")

    async def refused(seed: str) -> int:
        """The number of rows of 40 new jobs."""
        before = kept.projector.refused
        await add_jobs(kept.store, 40, seed)
        async with asyncio.timeout(30):
            await kept.projector.reached(kept.store.position)
        return kept.projector.refused - before

    monkeypatch.setattr(module, "HELD_SECONDS", 0.0)
    tables.write = write  # type: ignore[method-assign]  # the database of this test
    clock = SteppedClock()
    with structlog.testing.capture_logs() as logged:
        async with keeping(tmp_path, tables, clock=clock) as kept:
            first = await refused("first")
            clock.seconds += 10.0
            await refused("second")
    assert first >= 40
    lines = [each for each in logged if each["event"] == "row_refused"]
    assert [1, first] == [each["count"] for each in lines]
    assert ["too large"] * 2 == [each["detail"] for each in lines]


async def test_ended_runs_go_by_partitions(tmp_path: Path, tables: ModelTables) -> None:
    """However many are past their retention, no run leaves a tombstone of its own."""
    async with keeping(tmp_path, tables) as kept:
        await life_of_runs(kept.store)
        await add_jobs(kept.store, 100, "many")
        assert {} == await kept.wrong()
        before = tables.tombstones(RUNS) + tables.tombstones(ATTEMPTS)
        await kept.store.upkeep.maintain(Retention(runs_seconds=-10.0, failed_seconds=-10.0))
        assert {} == await kept.wrong()
        assert before == tables.tombstones(RUNS) + tables.tombstones(ATTEMPTS)
        assert not kept.store.memory.state.ended


def test_a_row_that_came_and_went_between_two_writes_is_not_written() -> None:
    """Unless an earlier owner may have written it."""
    key = (0, 0, 0, 5, "default", "job")
    for position, writes in ((8, 0), (7, 1)):
        pending = PendingRows(7)
        pending.put(DUE, key, position, {}, is_fresh=True)
        pending.delete(DUE, key, 9)
        assert writes == pending.count
        assert writes == len([*pending.writes()])
        assert 0 == pending.count


def test_a_row_and_a_drop_keep_their_order_by_position() -> None:
    """A partition that is dropped and written again has what was written last."""
    tables = ModelTables()
    pending = PendingRows(0)
    key = ("default", 0, 1)
    pending.put(RUNS, (*key, "job", "old"), 3, {"state": "SUCCESS"})
    pending.drop("runs", key, 4)
    pending.put(RUNS, (*key, "job", "new"), 5, {"state": "QUEUED"})
    for rows, drop in pending.writes():
        tables.store(rows, drop)
    tables.store([RowWrite(RUNS, (*key, "job", "old"), 3, {"state": "SUCCESS"})], None)
    tables.store((), PartitionDrop("runs", key, 4))
    assert {(*key, "job", "new"): {"state": "QUEUED"}} == tables.rows(RUNS)


@pytest.mark.parametrize("table", READABLE, ids=lambda table: table.name)
def test_tables_have_the_columns_that_rows_have(table: Any) -> None:
    """Those that the schema makes, and the key that it gives them."""
    found = re.search(
        rf"CREATE TABLE IF NOT EXISTS {{keyspace}}.{table.name} \((.*?)\n\)", SCHEMA.read_text(), re.DOTALL
    )
    assert found is not None
    columns, _, key = found[1].partition("PRIMARY KEY")
    names = re.findall(r"(?:^|, |\n)\s*(\w+) [a-z<>, ]+?(?=,|$)", re.sub(r"<.*?>+", "", columns))
    assert [*table.partition, *table.clustering, *table.columns] == names
    assert [*table.partition, *table.clustering] == re.findall(r"\w+", key)


async def test_an_end_that_is_cancelled_is_cancelled(tables: ModelTables) -> None:
    """Also while it waits for the projector's task, which is cancelled as well."""
    projector = TableProjector(tables, CLOCK, shard=0)
    gate = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await gate.wait()

    projector._task = following = asyncio.create_task(stubborn())
    await VirtualClock().settle()
    ending = asyncio.create_task(projector._stop())
    await VirtualClock().settle()
    ending.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await asyncio.wait([following])
