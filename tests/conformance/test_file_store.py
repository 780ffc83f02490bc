"""The store over a log in a folder keeps every promise of the store's port, and its log every effect.

Each test of the contract runs with the oracle of `tests/support/effects.py`: after each call the state that the log
gives is the live one, with a checkpoint in between, and at its end the state that the files on disk give. No ended run
and no job at rest is in memory: each is moved to a file as it ends, and three runs are a block.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from tests.conformance import test_memory as plain
from tests.support.effects import SEEN_EFFECTS, WatchedStore
from tests.support.walks import WALKS_SECONDS, walked_seeds
from tickwise.adapters.store.keeper.block_places import BlockPlaces
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.wire.forms import FORMS, READING
from tickwise.adapters.store.memory.ended.job_table import may_rest
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.notices.rules import Notice
from tickwise.ports.store import Check, Store
from tickwise.testing.clock import VirtualClock
from tickwise.testing.contracts.store.walks.standstill import StandstillWalksContract

BLOCK_RUNS = 3
UNCALLED = {name for name in FORMS if name.startswith("shard_map.")} | {"notification_rules.watch"}
"""Not called by the suites of the store: the map has a suite of its own, and the last one is called by other suites
past the store that is watched here."""
LENT = {"timers.take", "timers.restore", "objectives.fold", "users.complete_looks"}
"""Calls that change no log here and must not be made again unasked: the first lends timers in memory, the second mends
what tests damage past all calls, so its effects count as theirs, and the others write in other stores."""


class Backend(plain.Backend):
    """A store whose log is in a folder of the test."""

    @pytest.fixture
    async def store(self, clock: VirtualClock, tmp_path: Path) -> AsyncIterator[Store]:
        self.virtual_clock = clock
        store = WatchedStore(
            tmp_path / "store",
            clock,
            make_ended=lambda: SpilledRuns(tmp_path / "store", 0, BlockPlaces(runs_most=BLOCK_RUNS)),
        )
        await store.open()
        yield store
        assert not store.memory.state.ended.in_memory
        if store.watched:
            assert [] == [job for job in store.memory.state.jobs.awake if may_rest(job) and not job.runs]
        await store.check_log()
        await store.close()

    async def add_channel(self, store: Store, namespace: str, name: str) -> UUID:
        return await super().add_channel(self._memory(store), namespace, name)

    async def notices(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Notice]:
        return await super().notices(self._memory(store), namespace)

    async def take_notices(self, store: Store) -> None:
        await super().take_notices(self._memory(store))

    async def damage(self, store: Store, check: Check, subject: UUID) -> None:
        await super().damage(self._memory(store), check, subject)
        # A run without its job, and one that is active and ended, is nothing that a call can leave.
        assert isinstance(store, WatchedStore)
        store.watched = check not in (Check.HAS_A_JOB, Check.ENDED_ONCE)

    def module_of_groups(self, store: Store) -> str:
        return type(self._memory(store).error_groups).__module__

    def _memory(self, store: Store) -> Store:
        assert isinstance(store, WatchedStore)
        store.is_touched = True
        return store.memory


def _suites() -> dict[str, type]:
    """The suites that the memory store runs, over this backend."""
    made = {}
    for name, suite in vars(plain).items():
        if name.startswith("Test") and isinstance(suite, type):
            bases = tuple(Backend if each is plain.Backend else each for each in suite.__bases__)
            made[name] = type(name, bases, {"__doc__": suite.__doc__, "__module__": __name__})
    return made


globals().update(_suites())


@pytest.mark.takes_up_to(WALKS_SECONDS)
class TestStandstillWalks(Backend, StandstillWalksContract):
    seeds = walked_seeds(3)


def test_calls_that_change_nothing_are_those_that_are_made_again(request: pytest.FixtureRequest) -> None:
    """After all suites: no call of `READING` has ever changed the log, and each other one has, at least once. A new
    read of the port that is in no list fails here; a write in the list fails at its first call, too."""
    assert [] == [name for name in sorted(READING) if any(SEEN_EFFECTS.get(name, ()))]
    suites = {name for name in globals() if name.startswith("Test")}
    ran = {item.cls.__name__ for item in request.session.items if isinstance(item, pytest.Function) and item.cls}
    if suites <= ran:
        assert UNCALLED == FORMS.keys() - SEEN_EFFECTS.keys(), "a method of the port is called by no suite"
        silent = {name for name, seen in SEEN_EFFECTS.items() if name and not any(seen)}
        assert LENT == silent - READING, "add these reads to READING (keeper/wire/forms.py)"
