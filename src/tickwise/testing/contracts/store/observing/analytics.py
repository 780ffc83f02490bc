"""Analytics: ended runs by groups, with their totals, spreads and remainder."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane, Trigger
from tickwise.domain.observing.analytics import Analysis, Coverage, GroupBy, GroupKind, GroupSort, RunGroup
from tickwise.domain.selectors import Selector
from tickwise.ports.store import AnalyticsQuery, NewJob, RunQuery, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory, outcome

HOUR: Final = 3_600.0
DATA: Final[Selector] = ((("team", "data"),),)


class AnalyticsContract(StoreContract):
    """`searches.analyse`."""

    async def ended(
        self,
        store: Store,
        executor: int,
        job: NewJob,
        seconds: float,
        *,
        state: RunState = RunState.SUCCESS,
        **fields: Any,
    ) -> None:
        """A run of a new job that took so long and started 2 s late."""
        claimed = await self.held(store, executor, job)
        began = claimed.due + 2.0
        times = {"started": began, "ended": began + seconds}
        assert await self.finish(store, executor, outcome(claimed, state, **{**times, **fields})) == []

    async def analysed(self, store: Store, make: Factory, group_by: GroupBy = GroupBy.JOB, **said: Any) -> Analysis:
        """An analysis of the day around the beginning of the test."""
        own = {name: said.pop(name) for name in ("label", "sort", "top", "everywhere") if name in said}
        window: dict[str, Any] = {"due_after": make.now - 12 * HOUR, "due_before": make.now + 12 * HOUR}
        query = RunQuery(**{"namespace": "default", **window, **said})
        return await store.searches.analyse(AnalyticsQuery(runs=query, group_by=group_by, **own))

    async def some_runs(self, store: Store, make: Factory) -> dict[str, NewJob]:
        """Jobs with one run each: three that succeeded after 1, 2 and 4 s, one that failed after 8 s, and one
        elsewhere."""
        executor = await self.register(store, "first")
        jobs = {
            "a": make.job(name="a", labels={"team": "data"}),
            "b": make.job(name="b", labels={"team": "web"}),
            "c": make.job(name="c", labels={"team": "data"}),
            "d": make.job(name="d"),
        }
        for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 4.0)):
            await self.ended(store, executor, jobs[name], seconds)
        await self.ended(store, executor, jobs["d"], 8.0, state=RunState.FAILED, reason="exit_code")
        elsewhere = make.job(namespace="elsewhere", name="e")
        await self.ended(store, executor, elsewhere, 16.0)
        return {**jobs, "e": elsewhere}

    async def test_runs_are_counted_and_measured(self, store: Store, make: Factory) -> None:
        """By status, with the spread of durations and of lateness; all that matches is read."""
        await self.some_runs(store, make)
        found = await self.analysed(store, make)
        assert (found.coverage, found.rows, found.distinct, found.share) == (Coverage.EXACT, 4, 4, 1.0)
        total = found.total
        assert (total.runs, total.retries) == (4, 0)
        assert total.seconds == pytest.approx(15.0)
        assert total.states == {RunState.SUCCESS: 3, RunState.FAILED: 1}
        assert total.success_ratio == 0.75
        assert total.duration == pytest.approx((4, 3.0, 7.4, 7.88, 3.75, 8.0))
        assert total.lateness == pytest.approx((4, 2.0, 2.0, 2.0, 2.0, 2.0), abs=0.01)

    async def test_groups_stand_by_the_order_and_the_rest_is_one_row(self, store: Store, make: Factory) -> None:
        """The first ones have rows of their own; with the remainder they come to the total."""
        jobs = await self.some_runs(store, make)
        found = await self.analysed(store, make, sort=GroupSort.SECONDS, top=2)
        assert _brief(found) == [("group", str(jobs["d"].job_id), "d", 1), ("group", str(jobs["c"].job_id), "c", 1),
                                 ("rest", None, None, 2)]  # fmt: skip
        assert (found.distinct, sum(row.runs for row in found.groups)) == (4, found.total.runs)
        rest = found.groups[-1]
        assert rest.seconds == pytest.approx(3.0)
        assert rest.duration == pytest.approx((2, 1.5, 1.95, 1.99, 1.5, 2.0))
        worst = await self.analysed(store, make, sort=GroupSort.FAILED, top=1)
        assert [row.name for row in worst.groups] == ["d", None]

    async def test_runs_are_grouped_by_what_is_asked(self, store: Store, make: Factory) -> None:
        """By a label, a reason, an executor, the namespace and the hour; runs without such a thing are a row of their
        own."""
        await self.some_runs(store, make)
        by_label = await self.analysed(store, make, GroupBy.LABEL, label="team")
        assert _brief(by_label) == [("group", "data", None, 2), ("group", "web", None, 1), ("none", None, None, 1)]
        by_reason = await self.analysed(store, make, GroupBy.REASON)
        assert _brief(by_reason) == [("group", "exit_code", None, 1), ("none", None, None, 3)]
        [by_executor] = (await self.analysed(store, make, GroupBy.EXECUTOR)).groups
        assert (by_executor.name, by_executor.runs) == ("first", 4)
        [here] = (await self.analysed(store, make, GroupBy.NAMESPACE)).groups
        assert (here.key, here.runs) == ("default", 4)
        everywhere = await self.analysed(store, make, GroupBy.NAMESPACE, everywhere=True)
        assert _brief(everywhere) == [("group", "default", None, 4), ("group", "elsewhere", None, 1)]
        hours = (await self.analysed(store, make, GroupBy.HOUR)).groups
        keys = [float(row.key or 0) for row in hours]
        assert (sum(row.runs for row in hours), keys) == (4, sorted(keys))
        assert all(key % HOUR == 0 and abs(key - make.now) < 2 * HOUR for key in keys)

    async def test_each_hour_has_a_row(self, store: Store, make: Factory) -> None:
        """In the order of time, also where more hours are asked for than groups have rows."""
        executor = await self.register(store)
        for job, more in ((make.job(), 2 * HOUR), (make.job(), 0.0)):
            await self.shift(store, 60.0)
            await store.executors.beat(executor, 10.0 * HOUR)
            await self.ended(store, executor, job, 1.0)
            await self.shift(store, more)
        found = await self.analysed(store, make, GroupBy.HOUR, top=1)
        [first, second] = [float(row.key or 0) for row in found.groups]
        assert second - first in (2 * HOUR, 3 * HOUR)

    @pytest.mark.parametrize(
        ("asked", "names"),
        [
            ({"states": (RunState.FAILED,)}, "d"),
            ({"states": (RunState.SUCCESS, RunState.FAILED)}, "abcd"),
            ({"reason": "exit_code"}, "d"),
            ({"job_name": "B"}, "b"),
            ({"labels": {"team": "data"}}, "ac"),
            ({"within": DATA}, "ac"),
            ({"within": DATA, "labels": {"team": "web"}}, ""),
            ({"queue": "default"}, "abcd"),
            ({"queue": "reports"}, ""),
            ({"namespace": "elsewhere"}, "e"),
            ({"triggers": (Trigger.BACKFILL,)}, ""),
            ({"executor": 1}, ""),
            ({"everywhere": True, "labels": {"team": "data"}}, "ac"),
            ({"everywhere": True}, "abcde"),
        ],
    )
    async def test_filters_are_those_of_runs(
        self, store: Store, make: Factory, asked: dict[str, Any], names: str
    ) -> None:
        """A filter counts the runs that a list with it finds."""
        await self.some_runs(store, make)
        found = await self.analysed(store, make, **asked)
        assert sorted(names) == sorted(row.name or "" for row in found.groups)
        assert found.total.runs == len(names)

    async def test_a_window_has_its_begin_and_not_its_end(self, store: Store, make: Factory) -> None:
        """By the time at which runs were due; a run that was put off counts by the later one."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        assert await self.finish(store, executor, outcome(claimed)) == []
        for after, before, runs in (
            (claimed.due, claimed.due + 1.0, 1),
            (claimed.due - 1.0, claimed.due, 0),
            (claimed.due + 0.001, claimed.due + HOUR, 0),
        ):
            found = await self.analysed(store, make, due_after=after, due_before=before)
            assert found.total.runs == runs, (after, before)

    async def test_active_runs_are_not_counted_and_nothing_has_a_total_too(self, store: Store, make: Factory) -> None:
        """Without an ended run there are no groups, and no quantity has a spread."""
        await self.add(store, make.job(lane=Lane("reports")))
        found = await self.analysed(store, make)
        assert (list(found.groups), found.total.runs, found.distinct, found.since) == ([], 0, 0, None)
        assert (found.total.duration, found.total.lateness, found.total.success_ratio) == (None, None, None)

    async def test_retried_runs_have_no_lateness_on_record(self, store: Store, make: Factory) -> None:
        """The record has the start of the last attempt; the earlier ones are counted as retries."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        again = outcome(claimed, RunState.RETRYING, retry_at=claimed.now)
        assert await self.finish(store, executor, again) == []
        [second] = await self.claim_freed(store, executor)
        assert await self.finish(store, executor, outcome(second)) == []
        total = (await self.analysed(store, make)).total
        assert (total.runs, total.retries, total.lateness) == (1, 1, None)
        assert total.duration is not None


def _brief(found: Analysis) -> list[tuple[str, str | None, str | None, int]]:
    def brief(row: RunGroup) -> tuple[str, str | None, str | None, int]:
        return row.kind.value, row.key, row.name, row.runs

    assert all(isinstance(row.kind, GroupKind) for row in found.groups)
    return [brief(row) for row in found.groups]
