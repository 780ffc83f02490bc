"""The store over a log: an answer comes after its effects are durable, and nothing is answered that could be lost."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.effects import differences
from tests.support.keepers import GatedLog
from tests.support.waiting import eventually
from tests.unit.adapters.keeper.test_recording import life_of_runs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper import rebuild
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.log import LogEntry, OwnershipLost, Tenure
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory.records import JobRecord, RunRecord
from tickwise.domain.errors import CassandraAway, InDoubt, StoreUnavailable, TickwiseError
from tickwise.observability.waits import answered, note_wait
from tickwise.ports.store import Added, Handover
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def log(tmp_path: Path) -> GatedLog:
    return GatedLog(tmp_path)


@pytest.fixture
async def store(log: GatedLog, clock: VirtualClock) -> AsyncIterator[KeeperStore]:
    lost: list[str] = []
    store = KeeperStore(log, clock, lost=lost.append)
    store.told_lost = lost  # type: ignore[attr-defined]  # for the tests
    await store.open()
    yield store
    log.gate.set()
    await store.close()


async def ready(task: asyncio.Task[Any]) -> bool:
    """Check whether a call is answered once all that can happen has."""
    await VirtualClock().settle()
    return task.done()


async def test_a_call_and_a_read_of_its_effect_wait_for_the_log(store: KeeperStore, log: GatedLog) -> None:
    """Neither is answered before; both are once the entry is there."""
    make = Factory(await store.now(), seed="waits")
    job = make.job()
    log.gate.clear()
    write = asyncio.create_task(store.jobs.add([job]))
    assert not await ready(write)
    read = asyncio.create_task(store.jobs.get("default", job.job_id))
    assert not await ready(read)
    log.gate.set()
    assert [Added.CREATED] == await write
    assert job.job_id == (await read).job_id


async def test_many_calls_share_a_write(store: KeeperStore, log: GatedLog) -> None:
    """Those that come while one is under way."""
    make = Factory(await store.now(), seed="group")
    before = log.appends
    await asyncio.gather(*(store.jobs.add([make.job()]) for _ in range(100)))
    assert log.appends - before <= 3
    assert 100 == len(store.memory.state.jobs)


async def test_a_read_of_what_is_durable_waits_for_nothing(store: KeeperStore, log: GatedLog) -> None:
    """While nothing is under way."""
    log.gate.clear()
    assert await ready(asyncio.create_task(store.jobs.get("default", Factory(0.0, seed="x").job().job_id)))


async def test_what_could_not_be_written_has_not_happened(
    store: KeeperStore, log: GatedLog, clock: VirtualClock
) -> None:
    """Its caller is in doubt; what came behind it and reads are refused; when the log is back the state is that of the
    log."""
    make = Factory(await store.now(), seed="fails")
    kept, failed = make.job(), make.job()
    await store.jobs.add([kept])
    log.fails = StoreUnavailable("the disk is full")
    with pytest.raises(InDoubt):
        await store.jobs.add([failed])
    with pytest.raises(StoreUnavailable, match="full"):
        await store.jobs.get("default", kept.job_id)
    log.fails = None

    async def is_back() -> bool:
        await clock.advance(1.0)
        try:
            return await store.jobs.get("default", kept.job_id) is not None
        except StoreUnavailable:
            return False

    await eventually(is_back)
    assert await store.jobs.get("default", failed.job_id) is None
    assert [Added.CREATED] == await store.jobs.add([failed])


async def test_the_store_keeps_its_name(store: KeeperStore, log: GatedLog, clock: VirtualClock, tmp_path: Path) -> None:
    """After a failed write, and in the next process: cookies and messages are signed with it."""
    name = store.upkeep.cluster_id
    log.fails = StoreUnavailable("the disk is full")
    with pytest.raises(InDoubt):
        await store.jobs.add([Factory(clock.now(), seed="name").job()])
    log.fails = None

    async def is_back() -> bool:
        await clock.advance(1.0)
        try:
            return bool(await store.now())
        except StoreUnavailable:
            return False

    await eventually(is_back)
    assert name == store.upkeep.cluster_id
    await store.close()
    next_store = KeeperStore(FileLog(tmp_path, sync=lambda _file: None), clock)
    await next_store.open()
    assert name == next_store.upkeep.cluster_id
    await next_store.close()


async def test_who_lost_the_log_answers_nothing_more(store: KeeperStore, log: GatedLog) -> None:
    """Reads neither, and the process hears that it must end."""
    make = Factory(await store.now(), seed="lost")
    job = make.job()
    await store.jobs.add([job])
    log.fails = OwnershipLost("another process has it")
    with pytest.raises(TickwiseError):
        await store.jobs.add([make.job()])
    with pytest.raises(OwnershipLost):
        await store.jobs.get("default", job.job_id)
    assert ["another process has it"] == store.told_lost


async def test_a_checkpoint_that_is_written_while_calls_go_on_is_whole(
    store: KeeperStore, log: GatedLog, clock: VirtualClock
) -> None:
    """What it and the entries behind it give is the state."""
    make = Factory(await store.now(), seed="checkpoint")
    await store.jobs.add([make.job() for _ in range(2_000)])

    async def work() -> None:
        await life_of_runs(store)
        for _ in range(20):
            await store.jobs.add([make.job()])

    await asyncio.gather(store.keep_checkpoint(), work())
    await store.close()
    assert 1 == store.checkpoints
    again = KeeperStore(log, clock)
    await again.open()
    found = differences(store.memory.state, again.memory.state)
    await again.close()
    assert {} == {name: pair for name, pair in found.items() if name != "lent"}


async def test_a_listener_hears_of_a_handover_after_it_is_durable(store: KeeperStore, log: GatedLog) -> None:
    """Else it would ring for what could still be lost."""
    heard: list[Handover] = []
    store.on_handover(heard.append)
    log.gate.clear()
    make = Factory(await store.now(), seed="handover")
    write = asyncio.create_task(store.jobs.add([make.job()]))
    await ready(write)
    store.memory.state.report_handover(stopping=[make.job().job_id])
    assert [] == heard
    log.gate.set()
    await write
    again = asyncio.create_task(store.jobs.add([make.job()]))
    await again
    assert 1 == len(heard)


class LeasedLog(GatedLog):
    """A log with a lease of 5 s, which can be renewed until a test says otherwise."""

    renewals = 0
    cannot: TickwiseError | None = None

    async def renew(self) -> float:
        self.renewals += 1
        if self.renewals > 1_000:
            await asyncio.Event().wait()
        if self.cannot is not None:
            raise self.cannot
        return 5.0


async def test_a_lease_that_cannot_be_renewed_is_tried_with_pauses(tmp_path: Path, clock: VirtualClock) -> None:
    """Also once it is over, while a node is away: nothing is answered meanwhile, and it is renewed as soon as it can
    be."""
    log = LeasedLog(tmp_path)
    store = KeeperStore(log, clock)
    await store.open()
    log.cannot, before = StoreUnavailable("no node answers"), log.renewals
    await clock.advance(30.0)
    assert 20 < log.renewals - before <= 150
    assert [False] == [store.answers]
    with pytest.raises(StoreUnavailable, match="lease"):
        await store.now()
    log.cannot = None
    await clock.advance(1.0)
    assert [True] == [store.answers]
    await store.close()


class StalledLog(LeasedLog):
    """A log whose database stands still: a renewal meets one failure, and is tried on."""

    stalls = False

    async def renew(self) -> float:
        if self.stalls:
            note_wait(CassandraAway("Cassandra does not answer: no node did"))
            await asyncio.Event().wait()
        return await super().renew()


async def test_a_lease_that_is_over_names_the_database(tmp_path: Path, clock: VirtualClock) -> None:
    """Also while its renewal is still tried; and no more once it succeeded."""
    log = StalledLog(tmp_path)
    store = KeeperStore(log, clock)
    await store.open()
    log.stalls = True
    await clock.advance(6.0)
    with pytest.raises(CassandraAway, match=r"lease .* is over and cannot be renewed: Cassandra does not answer"):
        await store.now()
    await store.close()
    log = StalledLog(tmp_path)
    store = KeeperStore(log, clock)
    await store.open()
    log.cannot = CassandraAway("Cassandra does not answer: none")
    await clock.advance(6.0)
    with pytest.raises(CassandraAway, match="cannot be renewed: Cassandra does not answer: none"):
        await store.now()
    log.cannot = None
    await clock.advance(1.0)
    await store.now()
    await store.close()


async def test_a_read_that_waits_for_an_entry_tells_what_that_waits_for(
    store: KeeperStore, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe gives up before the entry does."""
    append = log.append

    async def tries(body: bytes) -> int:
        note_wait(CassandraAway("Cassandra does not answer: no node did"))
        return await append(body)

    monkeypatch.setattr(log, "append", tries)
    log.gate.clear()
    make = Factory(await store.now(), seed="tells")
    write = asyncio.create_task(store.jobs.add([make.job()]))
    await ready(write)
    with pytest.raises(CassandraAway, match="no node did"):
        await answered(store.now, 0.01)
    log.gate.set()
    assert 1 == len(await write)


class SlowlyAcquiredLog(LeasedLog):
    """A log that takes half a minute to acquire, and is nobody's meanwhile."""

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        super().__init__(folder)
        self._clock = clock
        self.acquisitions = 0
        self.is_acquiring = False

    async def acquire(self, owner: str, endpoint: str) -> Tenure:
        self.acquisitions += 1
        if self.acquisitions > 1:
            self.is_acquiring = True
            await self._clock.sleep(30.0)
            self.is_acquiring = False
        return await super().acquire(owner, endpoint)

    async def renew(self) -> float:
        if self.is_acquiring:
            raise OwnershipLost("this process acquires the log anew")
        return await super().renew()


async def test_a_renewal_while_the_log_is_acquired_anew_gives_no_shard_up(tmp_path: Path, clock: VirtualClock) -> None:
    """After an append in doubt the keeper has no tenure for a moment. It keeps the shard, and answers again."""
    log, lost = SlowlyAcquiredLog(tmp_path, clock), list[str]()
    store = KeeperStore(log, clock, lost=lost.append)
    await store.open()
    log.fails = StoreUnavailable("no node answers")
    with pytest.raises(InDoubt):
        await store.jobs.add([Factory(clock.now(), seed="doubt").job()])
    log.fails = None

    async def is_back() -> bool:
        await clock.advance(1.0)
        return store.answers

    await eventually(is_back)
    assert ([], 2) == (lost, log.acquisitions)
    await store.close()


class FaultyLog(LeasedLog):
    """A log with a fault of the program in one of its methods."""

    faulty = ""
    is_released = False

    async def append(self, body: bytes) -> int:
        if self.faulty == "append":
            raise KeyError("a fault of ours")
        return await super().append(body)

    async def renew(self) -> float:
        if self.faulty == "renew":
            raise KeyError("a fault of ours")
        return await super().renew()

    async def release(self) -> None:
        self.is_released = True
        await super().release()


@pytest.mark.parametrize("faulty", ["append", "renew"])
async def test_a_fault_of_the_program_gives_the_shard_up(tmp_path: Path, clock: VirtualClock, faulty: str) -> None:
    """Else its lease would go on, or end unnoticed, and calls would wait for an answer that nobody gives."""
    log, lost = FaultyLog(tmp_path), list[str]()
    store = KeeperStore(log, clock, lost=lost.append)
    await store.open()
    make = Factory(await store.now(), seed="fault")
    log.faulty = faulty
    if faulty == "append":
        with pytest.raises(InDoubt, match="fault of this keeper"):
            await store.jobs.add([make.job()])
    await clock.advance(5.0)
    with pytest.raises(StoreUnavailable, match="fault of this keeper"):
        await store.jobs.add([make.job()])
    assert ["a fault of this keeper: KeyError: 'a fault of ours'"] == lost
    await store.close()
    assert log.is_released


class FaultyCheckpointLog(GatedLog):
    """A log with a fault of the program where checkpoints are kept."""

    tries = 0

    async def keep_checkpoint(self, position: int, parts: AsyncIterable[bytes]) -> None:
        self.tries += 1
        raise KeyError("a fault of ours")


async def test_a_fault_in_a_checkpoint_is_not_met_at_each_commit(tmp_path: Path, clock: VirtualClock) -> None:
    """The next one is tried after as much again, and calls go on."""
    log = FaultyCheckpointLog(tmp_path)
    store = KeeperStore(log, clock)
    await store.open()
    make = Factory(await store.now(), seed="faulty checkpoint")
    await clock.advance(11.0)
    for _ in range(5):
        await store.jobs.add([make.job()])
        await clock.settle()
    assert 1 == log.tries
    await store.close()


class SlowlyReadLog(LeasedLog):
    """A log whose entries take a minute to read."""

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        super().__init__(folder)
        self._clock = clock

    async def entries(self, after: int) -> AsyncIterator[LogEntry]:
        await self._clock.sleep(60.0)
        async for entry in super().entries(after):
            yield entry


async def test_a_lease_is_renewed_while_a_large_state_is_built(tmp_path: Path, clock: VirtualClock) -> None:
    """Else two keepers take a shard with much to read from each other, again and again, and nobody ever answers."""
    log = LeasedLog(tmp_path)
    store = KeeperStore(log, clock)
    await store.open()
    make = Factory(await store.now(), seed="large")
    await store.jobs.add([make.job() for _ in range(30)])
    await store.close()
    slow = SlowlyReadLog(tmp_path, clock)
    again = KeeperStore(slow, clock)
    opening = asyncio.create_task(again.open())
    renewals = []
    while not opening.done():
        await clock.settle()
        renewals.append(slow.renewals)
        await clock.advance(2.0)
    await opening
    # From the first one on, there is one in each 2 s of a lease of 5 s.
    seen = [count for count in renewals if count]
    assert 28 <= len(seen)
    assert all(before < after for before, after in pairwise(seen[:-1]))
    assert 30 == len(again.memory.state.jobs)
    await again.close()


async def test_a_state_is_built_in_steps(tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What renews the lease gets its turn between them, and the state is the same."""
    log = GatedLog(tmp_path)
    store = KeeperStore(log, clock)
    await store.open()
    await life_of_runs(store)
    make = Factory(await store.now(), seed="steps")
    await store.jobs.add([make.job(due=make.now + each) for each in range(50)])
    await store.keep_checkpoint()
    await store.close()
    monkeypatch.setattr(rebuild, "STEP_ROWS", 3)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await SystemClock().sleep(0.0)
            turns += 1

    steps, turns_at = rebuild.Contents.fill_in_steps, []

    def watched(*given: Any, **named: Any) -> Iterator[None]:
        for _ in steps(*given, **named):
            turns_at.append(turns)
            yield

    monkeypatch.setattr(rebuild.Contents, "fill_in_steps", watched)
    beside = asyncio.create_task(others())
    again = KeeperStore(log, clock)
    await again.open()
    beside.cancel()
    assert 20 < len(turns_at)
    assert all(before < after for before, after in pairwise(turns_at)), "each step lets others have a turn"
    found = differences(store.memory.state, again.memory.state)
    await again.close()
    assert {} == {name: pair for name, pair in found.items() if name != "lent"}


@pytest.mark.parametrize(("jobs", "waits"), [(200, True), (1, False)])
async def test_an_entry_after_a_large_one_is_gathered_for_a_while(
    log: GatedLog, clock: VirtualClock, *, jobs: int, waits: bool
) -> None:
    """Under load commits are few; a call that comes alone does not wait."""
    store = KeeperStore(log, clock, gather_seconds=0.02)
    await store.open()
    make = Factory(await store.now(), seed="gathered")
    await store.jobs.add([make.job() for _ in range(jobs)])
    before = log.appends
    calls = [asyncio.create_task(store.jobs.add([make.job()])) for _ in range(3)]
    if waits:
        await clock.settle()
        assert 0 == log.appends - before
        assert not any(call.done() for call in calls)
        await clock.advance(0.02)
    await asyncio.gather(*calls)
    assert 1 == log.appends - before
    await store.close()


def records_in_memory(namespace: str) -> tuple[int, int]:
    """The runs and jobs that this process has, those that the collector was told to leave alone included."""
    gc.collect()
    gc.unfreeze()
    # By their types alone: others may be weak references to what is gone.
    records = gc.get_objects()
    runs = [each for each in records if issubclass(type(each), RunRecord) and each.job.namespace == namespace]
    return len(runs), sum(issubclass(type(each), JobRecord) and each.namespace == namespace for each in records)


@pytest.fixture
def frozen_again() -> Iterator[None]:
    """Afterwards the collector is told to leave all tests alone, as before: a search through them takes seconds, and
    would fall on a test that measures its time."""
    yield
    gc.freeze()


@pytest.mark.usefixtures("frozen_again")
async def test_states_that_were_thrown_away_leave_memory(tmp_path: Path) -> None:
    """Each doubt about an append builds another state, and so does each ownership of a shard; a process that meets many
    of them must not keep them all."""
    log, clock = GatedLog(tmp_path), SystemClock()
    store = KeeperStore(log, clock)
    await store.open()
    make = Factory(await store.now(), seed="memory", namespace="memory")
    await store.jobs.add([make.job() for _ in range(10)])
    await store.jobs.add([make.job(due=make.now + 60) for _ in range(10)])
    for _ in range(3):
        log.fails = StoreUnavailable("no answer")
        with pytest.raises(InDoubt):
            await store.jobs.add([make.job()])
        log.fails = None
        await eventually(partial(getattr, store, "answers"), what="the log is owned again")
    assert (10, 20) == records_in_memory("memory")
    await store.close()
    store.forget()
    assert (0, 0) == records_in_memory("memory")
