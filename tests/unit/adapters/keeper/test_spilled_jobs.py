"""Jobs that are over are found in a file of the process as in memory, and the log alone is their truth."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.blocks import end_runs
from tests.support.effects import contents_of, differences
from tickwise.adapters.store.keeper import spilled_jobs
from tickwise.adapters.store.keeper import store as keeper
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.images import Reader
from tickwise.adapters.store.keeper.log import Tenure
from tickwise.adapters.store.keeper.spill_file import SpillLost
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.spilled_jobs import SpilledJobs
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory.ended.job_table import JobTable
from tickwise.adapters.store.memory.records import JobRecord
from tickwise.domain.errors import Bug, Invalid
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Lane
from tickwise.ports.store import JobAction, JobQuery, Retention
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory

NAMESPACES = ("default", "other")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def jobs(folder: Path) -> Iterator[SpilledJobs]:
    """A table that has about three jobs at rest in memory."""
    made = SpilledJobs(folder, 3)
    yield made
    made.close()


def job_record(number: int, chance: random.Random, **fields: Any) -> JobRecord:
    """A job that is over."""
    job_id = UUID(int=(number << 80) + chance.getrandbits(70))
    given: dict[str, Any] = {
        "job_id": job_id, "namespace": chance.choice(NAMESPACES), "name": f"job {number}", "key": None, "digest": None,
        "schedule_type": "IMMEDIATE", "task_kind": "http", "lane": Lane(chance.choice(("default", "slow"))),
        "definition": "{}", "labels": {"number": f"{number}"}, "owner": "me", "created_by": "me",
        "created_at": 1_000.0 + number, "updated_at": 1_000.0, "task_changed_at": 1_000.0, "listed": job_id,
        "recurring": False, "lasting": chance.random() < 0.2,
    }  # fmt: skip
    return JobRecord(**given | fields)


def put(jobs: JobTable, job: JobRecord) -> None:
    """Let a job come, be over, and rest if there is no room for it."""
    jobs[job.job_id] = job
    if job.key is not None:
        jobs.keyed[job.namespace, job.key] = job
    jobs.rest(job)
    jobs.settle()


def plain(job: JobRecord | None) -> Any:
    """A job, in memory or not, as it can be compared."""
    return None if job is None else [getattr(job, name) for name in JobRecord.__dataclass_fields__ if name != "runs"]


def keys(number: int) -> list[tuple[str, str]]:
    """The keys that so many jobs may have."""
    return [(namespace, f"key {each}") for namespace in NAMESPACES for each in range(number)]


def answers(jobs: JobTable, chance: random.Random) -> dict[str, Any]:
    """The answers to everything that can be asked of both tables."""
    some = [*chance.sample(sorted(jobs), min(6, len(jobs))), UUID(int=5)]
    return {
        "get": [plain(jobs.get(each)) for each in some],
        "keys": [found and found.job_id for each in keys(60) for found in (jobs.by_key(*each),)],
        "in": [each in jobs for each in some],
        "length": len(jobs),
        "items": sorted((key, job.name) for key, job in jobs.items()),
        "values": sorted(job.name for job in jobs.values()),
        "after": [list(jobs.ids_after(each, 4)) for each in some],
        "listed": [
            [job.job_id for job in jobs.listed(namespace, before, resting=True)]
            for namespace in NAMESPACES
            for before in (None, some[0])
        ],
        "lanes": jobs.lanes(),
        "of": [
            sum(job.namespace == each for job in jobs.awake) + jobs.resting_in(each) for each in (*NAMESPACES, "none")
        ],
        "old": {*jobs.resting_before(1_020.0), *(job.job_id for job in jobs.awake if job.created_at < 1_020.0)},
        "pages": sorted({plain_id(job_id) for page in jobs.pages(5) for job_id, _ in page}),
    }


def plain_id(job_id: UUID | bytes) -> UUID:
    return UUID(bytes=job_id) if isinstance(job_id, bytes) else job_id


@pytest.mark.parametrize("seed", range(4))
def test_all_answers_are_those_of_jobs_in_memory(jobs: SpilledJobs, seed: int) -> None:
    """While jobs come, are changed and go, in memory and in the file, at random."""
    chance, table = random.Random(seed), JobTable()
    for number in range(60):
        job = job_record(number, chance, key=chance.choice((None, f"key {number}")))
        put(table, replace(job))
        put(jobs, job)
        one = chance.choice(sorted(table))
        if chance.random() < 0.4:
            for each in (table, jobs):
                found = each.to_change(one)
                assert found is not None
                found.version, found.lane = found.version + 1, Lane("changed")
                each.settle()
        elif chance.random() < 0.4:
            for each in (table, jobs):
                gone = each[one]
                del each[one]
                if gone.key is not None:
                    each.keyed.pop((gone.namespace, gone.key), None)
        if number % 6 == 0:
            question = chance.random()
            assert answers(table, random.Random(question)) == answers(jobs, random.Random(question))
    assert jobs.in_memory < 7 < len(jobs) // 2
    assert {each for each in table if each in set(jobs.resting_since(UUID(int=0)))} == {
        each for each in jobs if each not in {job.job_id for job in jobs.awake}
    }


def test_a_job_that_is_no_more_there_cannot_go(jobs: SpilledJobs) -> None:
    """Neither from memory nor from the file."""
    chance = random.Random(1)
    made = [job_record(number, chance) for number in range(10)]
    for job in made:
        put(jobs, job)
    for job in made:
        del jobs[job.job_id]
        with pytest.raises(KeyError):
            del jobs[job.job_id]
    assert (0, None) == (len(jobs), jobs.to_change(made[0].job_id))


def test_a_job_at_rest_refuses_changes(jobs: SpilledJobs) -> None:
    """A change that no entry of the log would have is refused: of a copy, and of what somebody had before."""
    chance = random.Random(1)
    made = [job_record(number, chance) for number in range(10)]
    for job in made:
        put(jobs, job)
    for job in (made[0], jobs[made[0].job_id]):
        with pytest.raises(Bug, match="at rest"):
            job.name = "another"
    hot = jobs.to_change(made[0].job_id)
    assert hot is not None
    hot.name = "another"
    assert "another" == jobs[made[0].job_id].name


@pytest.mark.parametrize(
    "fields",
    [
        {"recurring": True},
        {"secrets": frozenset({"token"})},
        {"calendars": frozenset({"holidays"})},
        {"standing": JobAction.PAUSE},
        {"schedule_type": "ON_DEMAND"},
        {"runs": {UUID(int=1): None}},
    ],
)
def test_what_something_leads_to_stays_in_memory(jobs: SpilledJobs, fields: dict[str, Any]) -> None:
    """Jobs that go on, and those that are found by another thing than their id."""
    chance = random.Random(2)
    for number in range(50):
        put(jobs, job_record(number, chance, **fields))
    assert 50 == jobs.in_memory == len(jobs)


def test_a_full_disk_leaves_jobs_in_memory(jobs: SpilledJobs, folder: Path) -> None:
    """All are found and can be changed, and they are moved when there is room again."""
    folder.write_text("a file stands where the folder should be")
    chance = random.Random(3)
    made = [job_record(number, chance) for number in range(1_000)]
    for job in made[:500]:
        put(jobs, job)
    assert 500 == jobs.in_memory == len(jobs)
    made[0].name = "another"
    folder.unlink()
    for job in made[500:]:
        put(jobs, job)
    assert jobs.in_memory < 10
    assert "another" == jobs[made[0].job_id].name
    assert [job.job_id for job in made] == sorted(jobs)


def test_a_search_that_reads_too_much_is_refused(jobs: SpilledJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what narrows it. A first page is no such search."""
    monkeypatch.setattr(spilled_jobs, "LISTED_MOST", 100)
    chance = random.Random(4)
    for number in range(400):
        put(jobs, job_record(number, chance, namespace="default"))
    listed = jobs.listed("default", None, resting=True)
    assert 50 == len([job for job, _ in zip(listed, range(50), strict=False)])
    with pytest.raises(Invalid, match="narrow the search"):
        list(jobs.listed("default", None, resting=True))


# --------------------------------------------------------------------------------------------- behind a log


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def store_in(folder: Path, clock: VirtualClock, lost: list[str] | None = None) -> KeeperStore:
    log = FileLog(folder, sync=lambda _file: None)
    told = [] if lost is None else lost
    return KeeperStore(log, clock, make_ended=lambda: SpilledRuns(folder, 5), lost=told.append)


@pytest.fixture
def lost() -> list[str]:
    """What the store says when it ends."""
    return []


@pytest.fixture
async def store(folder: Path, clock: VirtualClock, lost: list[str]) -> AsyncIterator[KeeperStore]:
    store = store_in(folder, clock, lost)
    await store.open()
    yield store
    await store.close()


def table_of(store: KeeperStore) -> SpilledJobs:
    """Its jobs."""
    jobs = store.memory.state.jobs
    assert isinstance(jobs, SpilledJobs)
    return jobs


async def opened_again(store: KeeperStore, folder: Path, clock: VirtualClock) -> KeeperStore:
    """Another store over the log of this one, which has ended."""
    await store.log.release()
    again = store_in(folder, clock)
    await again.open()
    return again


@pytest.mark.parametrize("with_checkpoint", [False, True])
@pytest.mark.parametrize("by_this_release", [False, True])
async def test_the_next_start_has_them_all_and_few_in_memory(
    store: KeeperStore, folder: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, *,
    with_checkpoint: bool, by_this_release: bool,
) -> None:  # fmt: skip
    """From entries, from a checkpoint, and from one whose images are to be read by another schema."""
    await end_runs(store, 60)
    recurring = Factory(clock.now(), seed="recurring").recurring(clock.now() + 60.0)
    await store.jobs.add([recurring])
    await end_runs(store, 40)
    waiting = Factory(clock.now(), seed="waiting").job()
    await store.jobs.add([waiting])
    if with_checkpoint:
        await store.keep_checkpoint()
    if not by_this_release:
        monkeypatch.setattr(Reader, "images", lambda *_: None)
    again = await opened_again(store, folder, clock)
    found = differences(store.memory.state, again.memory.state)
    assert {} == {name: pair for name, pair in found.items() if name not in ("lent", "epoch")}
    assert 102 == len(table_of(again))
    assert table_of(again).in_memory < 20
    assert {recurring.job_id, waiting.job_id} <= {job.job_id for job in table_of(again).awake}
    await again.close()


async def test_who_waits_for_a_log_has_few_jobs_in_memory(store: KeeperStore, folder: Path) -> None:
    """A keeper that reads ahead for hours does not gather the jobs that came and ended meanwhile."""
    await end_runs(store, 20)
    await store.keep_checkpoint()
    checkpoint = store.position
    for _ in range(5):
        await end_runs(store, 20)
    contents = await contents_of(store.log, Tenure(0, checkpoint, store.position), SpilledRuns(folder, 5))
    contents.close()
    jobs = contents.tables["jobs"]
    assert isinstance(jobs, SpilledJobs)
    assert jobs.in_memory < 20 < 120 == len(jobs)


async def test_a_checkpoint_has_the_jobs_that_move_while_it_is_written(
    store: KeeperStore, folder: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its pages jobs end, go to the file, come back for a change, and are dropped."""
    monkeypatch.setattr(keeper, "ROWS_OF_PART", 7)
    await end_runs(store, 60)
    chance, turns = random.Random(5), 0

    async def parts(given: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        nonlocal turns
        async for part in given:
            turns += 1
            if turns < 40:
                await end_runs(store, 3)
                jobs = table_of(store)
                for job_id in chance.sample(sorted(jobs), 3):
                    job = jobs.to_change(job_id)
                    assert job is not None
                    job.name = f"changed in turn {turns}"
                await store.now()
                del jobs[chance.choice(sorted(jobs))]
                await store.now()
            yield part

    keep = store.log.keep_checkpoint
    monkeypatch.setattr(store.log, "keep_checkpoint", lambda position, given: keep(position, parts(given)))
    await store.keep_checkpoint()
    assert 1 == store.checkpoints
    again = await opened_again(store, folder, clock)
    found = differences(store.memory.state, again.memory.state)
    assert {} == {name: pair for name, pair in found.items() if name not in ("lent", "epoch")}
    await again.close()


async def test_retention_drops_from_the_file(store: KeeperStore, clock: VirtualClock) -> None:
    """Jobs that are past it, with their runs; younger ones stay."""
    await end_runs(store, 50)
    old = {str(each) for each in table_of(store)}
    await clock.advance(1_000.0)
    await end_runs(store, 10)
    done = await store.upkeep.maintain(Retention(runs_seconds=100.0, failed_seconds=100.0))
    assert old <= set(done.dropped)
    assert 10 == len(table_of(store))


async def test_lists_have_jobs_of_both_places(store: KeeperStore) -> None:
    """The newest first, page after page; and by a status."""
    await end_runs(store, 20)
    await end_runs(store, 20, failed=True)
    found: list[UUID] = []
    while page := await store.searches.jobs(
        JobQuery(namespace="default", limit=7, before=found[-1] if found else None)
    ):
        found += [row.listed for row in page]
    assert sorted(table_of(store), reverse=True) == found
    for status, number in ((JobStatus.FAILED, 20), (JobStatus.COMPLETED, 20), (JobStatus.SCHEDULED, 0)):
        query = JobQuery(namespace="default", statuses=[status], limit=100)
        assert number == len(await store.searches.jobs(query))


async def test_a_file_that_cannot_be_read_ends_the_answers(
    store: KeeperStore, folder: Path, clock: VirtualClock, lost: list[str]
) -> None:
    """The process hears that it must end, and the log has what was acknowledged."""
    await end_runs(store, 50)
    jobs = table_of(store)
    first = min(jobs)
    jobs._file.close()  # type: ignore[union-attr]  # as a disk that fails
    with pytest.raises(SpillLost):
        await store.jobs.get("default", first)
    assert 1 == len(lost)
    again = await opened_again(store, folder, clock)
    assert 50 == len(table_of(again))
    await again.close()


def test_both_files_go_with_the_ended_runs(folder: Path) -> None:
    """Who closes the one has closed the other, and neither has a name."""
    ended = SpilledRuns(folder, 0)
    jobs, chance = ended.make_jobs(), random.Random(6)
    put(jobs, job_record(1, chance))
    assert [] == list(folder.iterdir())
    ended.close()
    with pytest.raises(SpillLost):
        list(jobs)
