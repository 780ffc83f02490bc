"""Entries that are merged before they are read say what they say one by one, and a new run waits for its end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.readable import ModelTables, rows_of, wrong_rows
from tests.support.table_rows import end_claimed, end_runs
from tests.unit.adapters.keeper.test_recording import life_of_runs
from tickwise.adapters.store.keeper.images import Reader, entry_body
from tickwise.adapters.store.keeper.readable import window as module
from tickwise.adapters.store.keeper.readable.pending import PendingRows
from tickwise.adapters.store.keeper.readable.shadow import Shadow
from tickwise.adapters.store.keeper.readable.window import ENDED_PATH, JOBS_PATH, RUNS_PATH, Change, ChangeWindow
from tickwise.adapters.store.keeper.tracking import FRESH, WHOLE, EffectRecorder
from tickwise.adapters.store.memory import MemoryStore
from tickwise.ports.store import Retention
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory


class EntryStore(WrappedStore):
    """A memory store that leaves an entry after each call."""

    def __init__(self) -> None:
        self.memory = MemoryStore(VirtualClock())
        self._recorder = EffectRecorder(self.memory.state)
        self.bodies = [entry_body(*self._recorder.everything(), with_schema=True)]
        super().__init__(self.memory)

    def around(self, name: str, call: Call) -> Call:  # all calls alike
        async def recorded(*given: Any, **named: Any) -> Any:
            try:
                return await call(*given, **named)
            finally:
                changes, values = self._recorder.take()
                if changes or values:
                    self.bodies.append(entry_body(changes, values))

        return recorded


@pytest.fixture
async def store() -> EntryStore:
    return EntryStore()


def merged(bodies: Sequence[bytes], *, came: Sequence[float] = ()) -> ChangeWindow:
    """All entries in one window."""
    window, reader = ChangeWindow(), Reader()
    for position, body in enumerate(bodies, start=1):
        window.add(reader, reader.entry(body), position, came[position - 1] if came else 0.0)
    return window


def taken(window: ChangeWindow, came_before: float = 1.0) -> dict[str, dict[Any, Change]]:
    """All that the window does not hold back, by table, where there is something."""
    found: dict[str, dict[Any, Change]] = {}
    for portion in window.take(came_before):
        for path, changes in portion.items():
            assert found.setdefault(path, {}).keys().isdisjoint(changes)
            found[path].update(changes)
    return found


async def test_a_short_run_is_its_end(store: EntryStore) -> None:
    """Of its coming and its claim nothing is handed over; its job is, once."""
    await end_runs(store, 3, "short")
    found = taken(merged(store.bodies))
    assert {JOBS_PATH, ENDED_PATH} == found.keys()
    assert [FRESH] * 3 == [how for how, _ in found[JOBS_PATH].values()]
    assert [FRESH] * 3 == [how for how, _ in found[ENDED_PATH].values()]


async def test_a_new_run_waits_for_its_end_and_its_job_with_it(store: EntryStore) -> None:
    """The place stays before it. When it is old enough both are handed over as they are then."""
    make = Factory(await store.now(), seed="waits")
    first = len(store.bodies)
    await store.jobs.add([make.job()])
    window = merged(store.bodies, came=[0.0] * first + [5.0])
    assert {} == taken(window, came_before=4.0)
    assert first == window.done
    assert 2 == len(window)
    found = taken(window, came_before=5.0)
    assert {JOBS_PATH, RUNS_PATH} == found.keys()
    assert first + 1 == window.done
    assert 0 == len(window)


async def test_a_run_that_is_held_back_ends_as_one_change(store: EntryStore) -> None:
    """Also after the window was asked in between: its job comes with its end."""
    make = Factory(await store.now(), seed="held")
    await store.jobs.add([make.job(), make.job()])
    window, reader = ChangeWindow(), Reader()
    for position, body in enumerate(store.bodies, start=1):
        window.add(reader, reader.entry(body), position, 5.0)
    assert {} == taken(window, came_before=4.0)
    known = len(store.bodies)
    await end_claimed(store)
    for position, body in enumerate(store.bodies[known:], start=known + 1):
        window.add(reader, reader.entry(body), position, 6.0)
    found = taken(window, came_before=4.0)
    assert {JOBS_PATH: 2, ENDED_PATH: 2} == {path: len(changes) for path, changes in found.items()}
    assert 0 == len(window)


async def test_a_job_with_a_timer_is_not_held_back(store: EntryStore) -> None:
    """What is due is to be read soon."""
    make = Factory(await store.now(), seed="due")
    await store.jobs.add([make.job(make.now + 3_600)])
    found = taken(merged(store.bodies, came=[5.0] * len(store.bodies)), came_before=4.0)
    assert [JOBS_PATH] == [*found]


async def test_a_row_that_went_and_came_again_is_written_whole(store: EntryStore) -> None:
    """What it had before and has no more must be emptied."""
    make = Factory(await store.now(), seed="again")
    job = make.job(make.now + 3_600)
    await store.jobs.add([job])
    jobs, known = store.memory.state.jobs, len(store.bodies)
    record = jobs.pop(job.job_id)
    store.bodies.append(entry_body(*store._recorder.take()))
    jobs[job.job_id] = record
    store.bodies.append(entry_body(*store._recorder.take()))
    found = taken(merged(store.bodies[known:]))
    assert [WHOLE] == [how for how, _ in found[JOBS_PATH].values()]
    assert {} == taken(merged(store.bodies[known - 1 : known + 1])), "it never was"


async def test_an_entry_with_a_job_that_moves_stands_apart(store: EntryStore) -> None:
    """The rows of its later runs have another namespace in their key."""
    make = Factory(await store.now(), seed="moves")
    job = make.job(make.now + 3_600)
    await store.jobs.add([job])
    reader = Reader()
    (*_, before) = store.bodies
    assert not ChangeWindow().is_apart(reader.entry(before))
    assert ChangeWindow().is_apart(reader.entry(store.bodies[0])), "it has the schema"
    state = store.memory.state
    state.jobs[job.job_id].namespace = "other"
    changes, values = store._recorder.take()
    assert [WHOLE] == [change.how for change in changes]
    assert ChangeWindow().is_apart(reader.entry(entry_body(changes, values)))


async def test_rows_are_the_same_however_entries_are_merged(store: EntryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut anywhere, also within what is handed over, with new runs held back for any time, they end as the state is."""
    await life_of_runs(store)
    make = Factory(await store.now(), seed="cuts")
    job = make.recurring(make.now + 86_400)
    await store.jobs.add([job, *(make.job() for _ in range(4))])
    for _ in range(3):
        await store.runs.add("default", job.job_id, [make.run(job.job_id, make.now) for _ in range(2)])
        await end_claimed(store)
    await end_runs(store, 5, "more")
    await store.upkeep.maintain(Retention(runs_seconds=86_400.0, failed_seconds=-10.0))
    await store.jobs.add([make.job(), make.job(make.now + 7_200)])
    draw = random.Random(23)
    for _ in range(60):
        monkeypatch.setattr(module, "PORTION_KEYS", draw.choice([1, 2, 50]))
        tables = projected(store.bodies, draw, cuts=draw.choice([0.1, 0.3, 0.6, 1.0]))
        assert {} == wrong_rows(rows_of(tables), store.memory.state)


def projected(bodies: Sequence[bytes], draw: random.Random, *, cuts: float) -> ModelTables:
    """The rows of these entries, of which some are merged. `cuts`: the chance of a write after each."""
    tables, shadow, window, reader = ModelTables(), Shadow(0), ChangeWindow(), Reader()
    shadow.pending = PendingRows(0)

    def store() -> None:
        pending, shadow.pending = shadow.pending, PendingRows(0)
        assert pending is not None
        for rows, drop in pending.writes():
            tables.store(rows, drop)

    def write(came_before: float) -> None:
        for portion in window.take(came_before):
            shadow.take(portion, window.position)
            if draw.random() < cuts / 2:
                store()
        store()

    for position, body in enumerate(bodies, start=1):
        window.add(reader, reader.entry(body), position, position)
        if draw.random() < cuts:
            write(position - draw.choice([0, 1, 3]))
    write(len(bodies))
    return tables
