"""Looks at the time to come: the jobs that fire next, in order and bounded; and the jobs of a calendar."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.domain.lifecycle import JobStatus
from tickwise.ports.store import ComingJobs, JobAction, JobQuery, PlannedQuery, Store
from tickwise.testing.contracts.base import StoreContract, microseconds
from tickwise.testing.factories import Factory

HOUR = 3_600.0


class PlannedContract(StoreContract):
    """`searches.coming` of a `PlannedQuery`, and the calendar of a `JobQuery`."""

    async def look(self, store: Store, make: Factory, **fields: Any) -> ComingJobs:
        """A look at the next 10 hours."""
        given = {"namespace": "default", "due_after": make.now, "due_before": make.now + 10 * HOUR}
        return await store.searches.coming(PlannedQuery(**{**given, **fields}))

    async def names(self, store: Store, make: Factory, **fields: Any) -> list[str]:
        """The names of the jobs of a look that knows all."""
        found = await self.look(store, make, **fields)
        assert found.known_until is None
        return [row.name for row in found.rows]

    async def test_the_earliest_comes_first(self, store: Store, make: Factory) -> None:
        """Of jobs that recur and of those that do not; each as `jobs.get` has it."""
        await self.add(
            store,
            make.recurring(make.now + 3 * HOUR, name="third"),
            make.recurring(make.now + HOUR, name="first"),
            make.job(make.now + 2 * HOUR, name="second"),
        )
        assert await self.names(store, make) == ["first", "second", "third"]
        rows = (await self.look(store, make)).rows
        assert list(rows) == [await self.job_row(store, row.job_id) for row in rows]

    async def test_a_window_begins_with_its_first_instant(self, store: Store, make: Factory) -> None:
        """And ends before its last."""
        for hours in (1, 2, 3):
            await self.add(store, make.recurring(make.now + hours * HOUR, name=f"in {hours} h"))
        begin = (await self.look(store, make)).rows[0].next_run_at
        assert begin is not None
        assert await self.names(store, make, due_after=begin, due_before=begin + 2 * HOUR) == ["in 1 h", "in 2 h"]

    async def test_each_condition_takes_away(self, store: Store, make: Factory) -> None:
        """Job, part of the name, labels, queue, selector; in one namespace alone."""
        nightly = make.recurring(make.now + HOUR, name="Nightly 100%", labels={"team": "a", "env": "prod"})
        await self.add(
            store,
            nightly,
            make.recurring(make.now + 2 * HOUR, name="hourly", labels={"team": "b"}),
            make.recurring(make.now + 3 * HOUR, name="in a queue", lane=nightly.lane._replace(queue="slow")),
        )
        there = Factory(make.now, namespace="team-x", seed="elsewhere")
        await self.add(store, there.recurring(make.now + HOUR, name="elsewhere", labels={"team": "a"}))
        looks: list[tuple[dict[str, Any], list[str]]] = [
            ({}, ["Nightly 100%", "hourly", "in a queue"]),
            ({"job_id": nightly.job_id}, ["Nightly 100%"]),
            ({"name": "NIGHT"}, ["Nightly 100%"]),
            ({"name": "%"}, ["Nightly 100%"]),
            ({"labels": {"team": "b"}}, ["hourly"]),
            ({"labels": {"team": "a", "env": "test"}}, []),
            ({"queue": "slow"}, ["in a queue"]),
            ({"queue": "none"}, []),
            ({"within": ((("team", "a"),), (("team", "b"),))}, ["Nightly 100%", "hourly"]),
            ({"within": ()}, []),
            ({"namespace": "team-x"}, ["elsewhere"]),
            ({"namespace": "team-x", "job_id": nightly.job_id}, []),
            ({"namespace": "nowhere"}, []),
        ]
        for fields, expected in looks:
            assert await self.names(store, make, **fields) == expected, fields

    async def test_a_job_that_stands_still_is_not_planned(self, store: Store, make: Factory) -> None:
        """Paused without an end, or cancelled. With an end, it is looked at again at that time."""
        jobs = [make.recurring(make.now + HOUR, name=name) for name in ("paused", "cancelled", "until", "goes on")]
        await self.add(store, *jobs)
        await store.jobs.move(make.move(jobs[0].job_id, JobAction.PAUSE))
        await store.jobs.move(make.move(jobs[1].job_id, JobAction.CANCEL))
        await store.jobs.move(make.move(jobs[2].job_id, JobAction.PAUSE, until=make.now + 2 * HOUR))
        assert await self.names(store, make) == ["goes on", "until"]

    async def test_a_limit_tells_until_when_all_is_known(self, store: Store, make: Factory) -> None:
        """The time of the first job that was left out."""
        for hours in range(1, 6):
            await self.add(store, make.recurring(make.now + hours * HOUR, name=f"in {hours} h"))
        found = await self.look(store, make, limit=2)
        assert [row.name for row in found.rows] == ["in 1 h", "in 2 h"]
        assert microseconds(found.known_until) == microseconds(make.now + 3 * HOUR)
        assert await self.names(store, make, limit=5) == [f"in {hours} h" for hours in range(1, 6)]

    async def test_a_bound_of_timers_tells_until_when_all_is_known(self, store: Store, make: Factory) -> None:
        """Nothing before that time is missing, also where none of those that were read is wanted."""
        for hours in range(1, 6):
            await self.add(store, make.recurring(make.now + hours * HOUR, name=f"in {hours} h"))
        found = await self.look(store, make, name="in 5 h", looked=3)
        known = found.known_until
        if known is None:
            assert [row.name for row in found.rows] == ["in 5 h"]
        else:
            assert list(found.rows) == []
            assert make.now < known < make.now + 5 * HOUR

    async def test_large_definitions_end_a_look(self, store: Store, make: Factory) -> None:
        """As a limit does; one row comes in any case."""
        text = '{"large":"' + "x" * 9_990 + '"}'
        for hours in (1, 2, 3):
            await self.add(store, make.recurring(make.now + hours * HOUR, definition=text))
        for bytes_most, rows in ((0, 1), (20_010, 2), (1 << 20, 3)):
            found = await self.look(store, make, bytes_most=bytes_most)
            assert len(found.rows) == rows
            known = None if rows == 3 else microseconds(make.now + (rows + 1) * HOUR)
            assert microseconds(found.known_until) == known

    @pytest.mark.parametrize("cancelled", [False, True])
    async def test_a_calendar_names_its_jobs(self, store: Store, make: Factory, *, cancelled: bool) -> None:
        """The newest first; of one namespace, of a selector, of some statuses."""
        jobs = [
            make.recurring(
                make.now + HOUR, name=f"job {number}", job_id=make.identifier(number), calendars=["holidays", "other"],
                labels={"team": "a" if number else "b"},
            )
            for number in range(3)
        ]  # fmt: skip
        there = Factory(make.now, namespace="team-x", seed="elsewhere")
        await self.add(store, *jobs, make.recurring(make.now + HOUR, name="without"))
        await self.add(store, there.recurring(make.now + HOUR, name="elsewhere", calendars=["holidays"]))
        if cancelled:
            await store.jobs.move(make.move(jobs[2].job_id, JobAction.CANCEL))
        wanted = ["job 1", "job 0"] if cancelled else ["job 2", "job 1", "job 0"]

        async def names(calendar: str, **fields: Any) -> list[str]:
            query = JobQuery(**{"namespace": "default", "calendar": calendar, **fields})
            rows = await store.searches.jobs(query)
            assert await store.searches.count(query) == len(rows)
            return [row.name for row in rows if row.status is not JobStatus.CANCELLED]

        assert await names("holidays") == await names("other") == wanted
        assert await names("holidays", limit=3, name="job") == wanted
        assert await names("holidays", within=((("team", "b"),),)) == ["job 0"]
        assert await names("holidays", within=()) == []
        assert await names("holiday") == []
        going_on = [status for status in JobStatus if status is not JobStatus.CANCELLED]
        assert await names("holidays", statuses=going_on) == wanted
