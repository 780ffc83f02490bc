"""Objectives by priority and labels, and the counts of the runs that they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import pytest

from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane, time_id
from tickwise.domain.observing.objectives import HOUR, MINUTE, WINDOW_SECONDS, GroupObjective, StartCount
from tickwise.ports.store import MAX_OBJECTIVES, NewJob, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory, outcome

WINDOWS: Final = (WINDOW_SECONDS, HOUR, 5 * MINUTE)
TEAM: Final = {"team": "data"}


class GroupObjectivesContract(StoreContract):
    """`objectives`."""

    def objective(self, make: Factory, number: int = 0, **fields: Any) -> GroupObjective:
        """An objective that each run of the namespace begins within 30 s."""
        given: dict[str, Any] = {
            "objective_id": time_id(int(make.now * 1000) + number, bytes([number] * 10)),
            "namespace": "default",
            "name": f"objective {number}",
            "within_seconds": 30.0,
            "ratio": 0.99,
            "priority": None,
            "labels": {},
            "created_at": make.now,
            "created_by": "ada",
        }
        return GroupObjective(**{**given, **fields})

    async def counted(self, store: Store, objective: GroupObjective) -> list[tuple[int, int]]:
        """Good and late runs in each window, the same before and after a fold."""
        before = await store.objectives.counts([objective.objective_id], WINDOWS)
        while await store.objectives.fold():
            pass
        after = await store.objectives.counts([objective.objective_id], WINDOWS)
        assert before == after
        found = after[objective.objective_id]
        return [(found[window].good, found[window].late) for window in WINDOWS]

    async def ended(self, store: Store, executor: int, job: NewJob, *, late: float = 0.0, **fields: Any) -> None:
        """A run of the job that began so many seconds after it was due, and ended."""
        claimed = await self.held(store, executor, job)
        times = {"started": claimed.due + late, "ended": claimed.due + late + 1.0, **fields}
        assert await self.finish(store, executor, outcome(claimed, **times)) == []

    async def test_objectives_are_kept_by_id(self, store: Store, make: Factory) -> None:
        """In pages, of one namespace or of all; a second one of an id changes nothing, and one name is for one."""
        first = self.objective(make, 1, priority=9, labels=TEAM)
        second, other = self.objective(make, 2), self.objective(make, 3, namespace="elsewhere")
        for each in (first, second, other):
            stored = await store.objectives.add(each)
            assert replace(stored, created_at=each.created_at) == each
        again = await store.objectives.add(replace(first, name="another"))
        assert again.name == first.name

        async def found(namespace: str | None, **said: Any) -> list[UUID]:
            return [each.objective_id for each in await store.objectives.find(namespace, **said)]

        assert await found("default") == [first.objective_id, second.objective_id]
        assert await found(None) == [first.objective_id, second.objective_id, other.objective_id]
        assert await found(None, after=first.objective_id, limit=1) == [second.objective_id]
        with pytest.raises(Conflict) as taken:
            await store.objectives.add(self.objective(make, 4, name=first.name))
        assert taken.value.code == "name_taken"
        assert await store.objectives.remove("elsewhere", first.objective_id) is False
        assert await store.objectives.remove("default", first.objective_id) is True
        assert await store.objectives.remove("default", first.objective_id) is False
        assert await found("default") == [second.objective_id]
        assert await store.objectives.counts([first.objective_id], WINDOWS) == {}

    async def test_a_namespace_has_a_bounded_number_of_objectives(self, store: Store, make: Factory) -> None:
        """One more is refused."""
        for number in range(MAX_OBJECTIVES):
            await store.objectives.add(self.objective(make, number))
        with pytest.raises(Conflict) as full:
            await store.objectives.add(self.objective(make, MAX_OBJECTIVES))
        assert full.value.code == "objectives_exhausted"
        await store.objectives.add(self.objective(make, MAX_OBJECTIVES, namespace="elsewhere"))

    async def test_ends_count_from_the_making_of_the_objective_on(self, store: Store, make: Factory) -> None:
        """By the start of the first attempt; also in the windows that they are in, and not beyond."""
        executor = await self.register(store, lease_seconds=10_000.0)
        await self.ended(store, executor, make.job())
        await self.shift(store, 1.0)
        objective = await store.objectives.add(self.objective(make))
        assert await self.counted(store, objective) == [(0, 0)] * 3
        await self.ended(store, executor, make.job(), late=29.0)
        await self.ended(store, executor, make.job(), late=31.0, state=RunState.FAILED, reason="error")
        assert await self.counted(store, objective) == [(1, 1)] * 3
        await self.shift(store, 10 * MINUTE)
        assert await self.counted(store, objective) == [(1, 1), (1, 1), (0, 0)]
        await self.shift(store, 3 * HOUR)
        assert await self.counted(store, objective) == [(1, 1), (0, 0), (0, 0)]
        assert await self.counted(store, await store.objectives.add(self.objective(make, 2))) == [(0, 0)] * 3

    async def test_a_run_counts_where_its_priority_and_labels_are_asked_for(self, store: Store, make: Factory) -> None:
        """Those of the job as it is at the end."""
        executor = await self.register(store, lease_seconds=10_000.0)
        asked: list[dict[str, Any]] = [
            {"priority": 9},
            {"labels": TEAM},
            {"priority": 9, "labels": TEAM},
            {"namespace": "elsewhere"},
        ]
        objectives = [
            await store.objectives.add(self.objective(make, number, **said)) for number, said in enumerate(asked)
        ]
        urgent = Lane(priority=9)
        for job in (make.job(), make.job(lane=urgent), make.job(labels={**TEAM, "a": "b"})):
            await self.ended(store, executor, job)
        await self.ended(store, executor, make.job(lane=urgent, labels=TEAM), late=60.0)
        found = [(await self.counted(store, each))[0] for each in objectives]
        assert found == [(1, 1), (1, 1), (0, 1), (0, 0)]

    async def test_a_retried_run_counts_by_its_first_attempt(self, store: Store, make: Factory) -> None:
        """However late the second one begins."""
        executor = await self.register(store, lease_seconds=10_000.0)
        objective = await store.objectives.add(self.objective(make))
        claimed = await self.held(store, executor, make.job())
        again = outcome(claimed, RunState.RETRYING, retry_at=claimed.now)
        assert await self.finish(store, executor, again) == []
        await self.shift(store, 105.0)
        [second] = await self.claim(store, executor)
        assert await self.counted(store, objective) == [(0, 0)] * 3
        assert await self.finish(store, executor, outcome(second)) == []
        assert await self.counted(store, objective) == [(1, 0)] * 3

    async def test_a_run_that_waits_too_long_is_late_before_it_ends(self, store: Store, make: Factory) -> None:
        """Nobody claims it, or it began late and runs still; of those with the labels alone."""
        executor = await self.register(store, lease_seconds=10_000.0)
        objective = await store.objectives.add(self.objective(make))
        of_team = await store.objectives.add(self.objective(make, 1, labels=TEAM))
        await self.add(store, make.job(), make.job(labels=TEAM))
        assert await self.counted(store, objective) == [(0, 0)] * 3
        await self.shift(store, 31.0)
        assert await self.counted(store, objective) == [(0, 2)] * 3
        assert await self.counted(store, of_team) == [(0, 1)] * 3
        for claimed in await self.claim(store, executor):
            await self.begin(store, executor, claimed)
        assert await self.counted(store, objective) == [(0, 2)] * 3

    async def test_only_skips_that_nobody_chose_are_late(self, store: Store, make: Factory) -> None:
        """Those for which nothing could start the run in time."""
        executor = await self.register(store, lease_seconds=10_000.0)
        objective = await store.objectives.add(self.objective(make))
        for reason in ("expired", "overlap"):
            await self.ended(store, executor, make.job(), state=RunState.SKIPPED, reason=reason, started=0.0)
        found = await store.objectives.counts([objective.objective_id], [HOUR])
        assert found[objective.objective_id] == {HOUR: StartCount(0, 1)}
