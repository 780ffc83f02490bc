"""What a call changes is recorded, all of it: the oracle sees it if one note is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.support.effects import RecordedStore
from tickwise.adapters.store.keeper import tables
from tickwise.adapters.store.keeper.tables import check_complete
from tickwise.adapters.store.keeper.tracking import Change, EffectRecorder, Table, TrackedList
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.memory.ended.job_table import JobTable
from tickwise.adapters.store.memory.state import State
from tickwise.domain.errors import Bug, Misconfigured
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome
from tickwise.ports.store import ClaimRequest, StoredTask
from tickwise.testing import factories
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory


async def life_of_runs(store: Any) -> None:
    """Jobs with runs that end and that are tried again, a timer, a heartbeat, a task in two versions."""
    make = Factory(await store.now(), seed="recording")
    for number in (1, 2):
        task = StoredTask(
            namespace="default", task_id="report", version=0, name="report", task=f"{number}", digest=f"{number}",
            created_by="ada", created_at=0.0,
        )  # fmt: skip
        await store.tasks.put(task)
    await store.jobs.add([make.job(), make.job(), make.job(due=await store.now() + 3_600)])
    executor = await store.executors.join(factories.executor("one"))
    claims = await store.attempts.claim(
        ClaimRequest(executor=executor, queues=("default",), labels=(), limit=2, ahead_seconds=1.0)
    )
    now = await store.now()
    states = RunState.SUCCESS, RunState.RETRYING
    outcomes = [
        Outcome(run_id=each.run_id, token=each.token, state=CODES[state], started=now, ended=now, retry_at=now + 5)
        for each, state in zip(claims, states, strict=True)
    ]
    assert [] == list(await store.attempts.finish(executor, outcomes))
    await store.executors.beat(executor, 30.0)


def without_field(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Take away the note of one field of records."""

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        take = Table.take

        def less(self: Table) -> Iterable[Change]:
            for noted in self.notes.values():
                if isinstance(noted, set):
                    noted.discard(name)
            return take(self)

        monkeypatch.setattr(Table, "take", less)

    return mutate


def without_table(path: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Take away the notes of one table."""

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        note = Table.note
        monkeypatch.setattr(
            Table, "note", lambda self, key, how: None if self.kind.path == path else note(self, key, how)
        )

    return mutate


def without_value(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Take away one single value."""

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        take = EffectRecorder.take

        def less(self: EffectRecorder) -> Any:
            changes, values = take(self)
            return changes, {each: value for each, value in values.items() if each != name}

        monkeypatch.setattr(EffectRecorder, "take", less)

    return mutate


def without_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the note of a list in a table."""
    monkeypatch.setattr(TrackedList, "append", list.append)


MUTANTS = {
    "a run's state": without_field("state"),
    "a run's place in its lane": without_field("place"),
    "a run's attempts": without_field("attempts"),
    "when a run is ready": without_field("ready"),
    "an executor's lease": without_field("lease_until"),
    "ended runs": without_table("ended"),
    "new runs, and those that go": without_table("runs"),
    "jobs": without_table("jobs"),
    "tallies": without_table("tallies"),
    "tokens": without_value("tokens.last"),
    "versions of a task": without_lists,
}


async def test_the_log_of_the_life_of_runs_is_complete() -> None:
    """The oracle is green without a mutant."""
    await life_of_runs(RecordedStore(VirtualClock()))


@pytest.mark.parametrize("mutate", MUTANTS.values(), ids=MUTANTS)
async def test_the_oracle_sees_that_a_note_is_missing(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a field, a table, a single value and a list."""
    mutate(monkeypatch)
    with pytest.raises((AssertionError, Misconfigured), match="the log"):
        await life_of_runs(RecordedStore(VirtualClock()))


def test_a_part_of_the_state_that_is_not_declared_is_a_bug() -> None:
    """A new table cannot be forgotten: the store does not open."""
    state = State(VirtualClock(), 2.0)
    check_complete(state)
    vars(state)["novelty"] = {}
    with pytest.raises(Bug, match="novelty"):
        check_complete(state)


def test_what_is_declared_is_there() -> None:
    """No name of what is derived or passes stands for nothing."""
    assert set() == (tables.DERIVED | tables.PASSING) - vars(State(VirtualClock(), 2.0)).keys()


async def test_a_store_that_records_nothing_has_plain_containers() -> None:
    """The bare memory store pays nothing: neither its tables nor its records note anything."""
    store = MemoryStore(VirtualClock())
    await life_of_runs(store)
    assert (JobTable, dict) == (type(store.state.jobs), type(store.state.runs))
    assert {"RunRecord"} == {type(each).__qualname__ for each in store.state.runs.values()}
    assert all(type(each).__setattr__ is object.__setattr__ for each in store.state.runs.values())
