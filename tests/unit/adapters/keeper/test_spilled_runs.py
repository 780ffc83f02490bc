"""Ended runs in a file of the process are found as those in memory are, and the log alone is their truth."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.blocks import JOBS, NAMESPACES, end_runs, ended_run
from tests.support.effects import differences
from tickwise.adapters.store.keeper import spilled
from tickwise.adapters.store.keeper import store as keeper
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.spill_file import SpillLost, open_spill
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory.ended import EndedRuns, Within
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import Retention, RunQuery
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def ended(folder: Path) -> Iterator[SpilledRuns]:
    """Runs of which three are in memory."""
    made = SpilledRuns(folder, 3)
    yield made
    made.close()


def answers(runs: EndedRuns, known: list[UUID], chance: random.Random) -> dict[str, Any]:
    """The answers to everything that can be asked."""
    some = [*chance.sample(known, min(6, len(known))), UUID(int=5)]
    bounds = [Within(), Within(before=some[0]), Within(after=some[0]), Within(due_after=1_010.0, due_before=1_040.0)]
    asked = product((None, *JOBS), (None, *NAMESPACES), (False, True), bounds)
    return {
        "get": [runs.get(each) for each in some],
        "in": [each in runs for each in some],
        "length": len(runs),
        "all": sorted(runs),
        "items": sorted(runs.items()),
        "values": sorted(each.token for each in runs.values()),
        "newest": [
            list(runs.newest(job, namespace=namespace, failed=failed, within=within))
            for job, namespace, failed, within in asked
        ],
        "first": list(islice(runs.newest(), 2)),
        "ids after": sorted(runs.ids_after(some[0])),
        "any": [runs.has_any(job) for job in JOBS],
        "newest failed": [runs.newest_failed(job) for job in JOBS],
        "number": [runs.number_of(each) for each in NAMESPACES],
        "over": sorted(runs.ended_before(1_030.0, failed_at=1_015.0)),
        "pages": sorted({run_id for page in runs.pages(5) for run_id, _ in page}),
    }


def test_runs_with_long_results_are_bounded_by_bytes(folder: Path) -> None:
    """The oldest are in the file before they are too many by number; all are found, and what goes gives its room."""
    chance = random.Random(3)
    runs = SpilledRuns(folder, 1_000, near_bytes=1_000_000)
    known = {}
    for number in range(60):
        ended = ended_run(number, chance)
        ended = ended._replace(row=ended.row._replace(result="7" * 100_000))
        known[ended.row.run_id] = runs[ended.row.run_id] = ended
        in_memory = list(known)[-runs.in_memory :]
        assert sum(len(known[each].row.result or "") for each in in_memory) <= 1_000_000
    assert 4 <= runs.in_memory <= 9
    assert known == dict(runs.items())
    assert known[min(known)] == runs[min(known)], "the oldest one is in the file"
    runs.drop(list(known)[-runs.in_memory :])
    for number in range(100, 600):
        ended = ended_run(number, chance)
        runs[ended.row.run_id] = ended
    assert 500 == runs.in_memory, "bytes of runs that went are counted"
    runs.close()


def test_long_results_stay_in_memory_while_the_disk_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is found; once there is room, some calls move them."""

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    chance = random.Random(4)
    runs = SpilledRuns(folder, 1_000, near_bytes=1_000_000)
    known = {}
    monkeypatch.setattr(spilled, "open_spill", full)
    for number in range(60):
        if number == 40:
            assert 40 == runs.in_memory
            monkeypatch.setattr(spilled, "open_spill", open_spill)
        ended = ended_run(number, chance)
        ended = ended._replace(row=ended.row._replace(result="7" * 100_000))
        known[ended.row.run_id] = runs[ended.row.run_id] = ended
    assert runs.in_memory <= 9
    assert known == dict(runs.items())
    runs.close()


@pytest.mark.parametrize("seed", range(4))
def test_all_answers_are_those_of_runs_in_memory(ended: SpilledRuns, seed: int) -> None:
    """While runs come, come once more and go, in memory and in the file, at random."""
    chance, plain, known = random.Random(seed), EndedRuns(), list[UUID]()
    for number in range(60):
        run = ended_run(number if chance.random() < 0.8 else chance.randint(0, 60), chance)
        for runs in (ended, plain):
            runs[run.row.run_id] = run
        known.append(run.row.run_id)
        if chance.random() < 0.3:
            again = plain[chance.choice(list(plain))]
            for runs in (ended, plain):
                runs[again.row.run_id] = again._replace(token=1_000)
        if chance.random() < 0.3:
            gone = chance.sample(list(plain), min(2, len(plain)))
            for runs in (ended, plain):
                runs.drop(gone)
        if number % 6 == 0:
            question = chance.random()
            expected = answers(plain, known, random.Random(question))
            assert expected == answers(ended, known, random.Random(question))
    assert ended.in_memory < 6 < len(ended) // 2


def test_a_run_that_is_not_there_cannot_go(ended: SpilledRuns) -> None:
    """Neither from memory nor from the file."""
    with pytest.raises(KeyError):
        ended.drop([UUID(int=1)])
    with pytest.raises(KeyError):
        del ended[UUID(int=1)]


def test_the_file_has_no_name(ended: SpilledRuns, folder: Path) -> None:
    """So nothing of it is left behind by a process that is killed, and no backup takes it along."""
    chance = random.Random(1)
    for number in range(20):
        ended[UUID(int=number)] = ended_run(number, chance)
    assert len(ended) > ended.in_memory
    assert [] == list(folder.iterdir())


def test_a_full_disk_leaves_runs_in_memory(ended: SpilledRuns, folder: Path) -> None:
    """All are found, and they are moved when there is room again."""
    folder.write_text("a file stands where the folder should be")
    chance = random.Random(2)
    runs = [ended_run(number, chance) for number in range(1_000)]
    for run in runs[:500]:
        ended[run.row.run_id] = run
    assert 500 == ended.in_memory == len(ended)
    folder.unlink()
    for run in runs[500:]:
        ended[run.row.run_id] = run
    assert ended.in_memory < 10
    assert runs == list(reversed(list(ended.newest())))


def test_a_search_that_reads_too_much_is_refused(ended: SpilledRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what narrows it. A first page is no such search, and the store's own reads are none."""
    chance = random.Random(3)
    for number in range(3_000):
        run = ended_run(number, chance)
        ended[run.row.run_id] = run
    monkeypatch.setattr(spilled, "STEPS_MOST", 50_000)
    assert 50 == len(list(islice(ended.newest(is_search=True), 50)))
    with pytest.raises(Invalid, match="narrow the search"):
        list(ended.newest(is_search=True))
    monkeypatch.setattr(spilled, "STEPS_MOST", 10_000)
    with pytest.raises(Invalid, match="narrow the search"):
        list(ended.newest(within=Within(due_before=0.0), is_search=True))
    assert 3_000 == len(list(ended.newest()))


def test_what_comes_behind_a_refused_search_is_carried_out(ended: SpilledRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bound is not that of the moves and drops behind it."""
    chance = random.Random(4)
    runs = [ended_run(number, chance) for number in range(4_000)]
    for run in runs[:2_000]:
        ended[run.row.run_id] = run
    monkeypatch.setattr(spilled, "STEPS_MOST", 1_000)
    monkeypatch.setattr(spilled, "STEPS_AT_ONCE", 10)
    with pytest.raises(Invalid, match="narrow the search"):
        list(ended.newest(is_search=True))
    for run in runs[2_000:]:
        ended[run.row.run_id] = run
    ended.drop([run.row.run_id for run in runs[:1_000]])
    assert ended.in_memory < 10
    assert 3_000 == len(ended) == len(list(ended.newest()))


# --------------------------------------------------------------------------------------------- behind a log


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def store_in(folder: Path, clock: VirtualClock, lost: list[str]) -> KeeperStore:
    log = FileLog(folder, sync=lambda _file: None)
    return KeeperStore(log, clock, make_ended=lambda: SpilledRuns(folder, 5), lost=lost.append)


@pytest.fixture
async def store(folder: Path, clock: VirtualClock) -> AsyncIterator[KeeperStore]:
    lost: list[str] = []
    store = store_in(folder, clock, lost)
    store.told_lost = lost  # type: ignore[attr-defined]  # for the tests
    await store.open()
    yield store
    await store.close()


async def test_a_start_takes_away_what_a_killed_process_left(folder: Path, clock: VirtualClock) -> None:
    """A file for ended runs has a name for a moment."""
    folder.mkdir()
    (folder / "ended-left.spill").touch()
    store = store_in(folder, clock, [])
    await store.open()
    await end_runs(store, 20)
    assert [] == list(folder.glob("*.spill"))
    await store.close()


@pytest.mark.parametrize("with_checkpoint", [False, True])
async def test_the_next_start_has_them_all_and_few_in_memory(
    store: KeeperStore, folder: Path, clock: VirtualClock, with_checkpoint: bool
) -> None:
    """From entries, and from a checkpoint."""
    runs = await end_runs(store, 100)
    if with_checkpoint:
        await store.keep_checkpoint()
    await store.close()
    again = store_in(folder, clock, [])
    await again.open()
    assert set(runs) == set(again.memory.state.ended)
    assert again.memory.state.ended.in_memory <= 10
    assert RunState.SUCCESS is (await again.runs.get("default", runs[0])).state
    await again.close()


async def test_a_checkpoint_has_the_runs_that_move_while_it_is_written(
    store: KeeperStore, folder: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its pages runs end, go to the file and are dropped."""
    monkeypatch.setattr(keeper, "ROWS_OF_PART", 7)
    before = await end_runs(store, 60)
    late: list[UUID] = []

    async def parts(given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in given:
            if len(late) < 60:
                late.extend(await end_runs(store, 3))
                store.memory.state.ended.drop([before.pop()])
            yield part

    keep = store.log.keep_checkpoint
    monkeypatch.setattr(store.log, "keep_checkpoint", lambda position, given: keep(position, parts(given)))
    await store.keep_checkpoint()
    assert 1 == store.checkpoints
    await end_runs(store, 1)
    live, known = store.memory.state, dict(store.memory.state.ended.items())
    assert {*before, *late} <= known.keys()
    again = store_in(folder, clock, [])
    again.log, store_log = FileLog(folder, sync=lambda _file: None), store.log
    await store_log.release()
    await again.open()
    found = differences(live, again.memory.state)
    assert {} == {name: pair for name, pair in found.items() if name != "lent"}
    await again.close()


async def test_retention_drops_from_the_file(store: KeeperStore, clock: VirtualClock) -> None:
    """Runs and their jobs, once they are past it."""
    runs = await end_runs(store, 50)
    await clock.advance(1_000.0)
    done = await store.upkeep.maintain(Retention(runs_seconds=100.0, failed_seconds=100.0))
    assert {str(each) for each in runs} <= set(done.dropped)
    assert 0 == len(store.memory.state.ended)
    assert {} == store.memory.state.jobs
    assert [] == list(await store.searches.runs(RunQuery(namespace="default")))


async def test_a_file_that_cannot_be_read_ends_the_answers(
    store: KeeperStore, folder: Path, clock: VirtualClock
) -> None:
    """The process hears that it must end, a call that met it changes nothing, and the log has what was acknowledged."""
    runs = await end_runs(store, 50)
    far = store.memory.state.ended
    assert isinstance(far, SpilledRuns)
    far._file.close()  # type: ignore[union-attr]  # as a disk that fails
    with pytest.raises(SpillLost):
        await store.runs.get("default", runs[0])
    assert 1 == len(store.told_lost)
    with pytest.raises(SpillLost):
        await store.jobs.add([Factory(clock.now(), seed="refused").job()])
    await store.close()
    again = store_in(folder, clock, [])
    await again.open()
    assert set(runs) == set(again.memory.state.ended)
    assert 50 == len(again.memory.state.jobs)
    await again.close()


async def test_checkpoints_write_at_most_three_times_what_entries_do(
    store: KeeperStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many ended runs there are: a large state is not written anew for each 16 MB."""
    monkeypatch.setattr(keeper, "CHECKPOINT_BYTES", 10_000)
    written = {"entries": 0, "checkpoints": 0}
    append, keep = store.log.append, store.log.keep_checkpoint

    async def counted(body: bytes) -> int:
        written["entries"] += len(body)
        return await append(body)

    async def parts(given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in given:
            written["checkpoints"] += len(part)
            yield part

    monkeypatch.setattr(store.log, "append", counted)
    monkeypatch.setattr(store.log, "keep_checkpoint", lambda position, given: keep(position, parts(given)))
    for _ in range(60):
        await end_runs(store, 20)
    assert store.checkpoints > 5
    assert written["checkpoints"] < 3 * written["entries"]
