"""The facts that explain the past: times of absence, the executors that were there, and runs by their requesters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.ports.store import Incident, JobAction, NewRun, Retention, RunCancel, RunQuery, Store
from tickwise.testing.contracts.base import DAY_SECONDS, LEASE_SECONDS, StoreContract, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
KEPT = Retention(runs_seconds=30 * DAY_SECONDS, failed_seconds=90 * DAY_SECONDS)


class IncidentsContract(StoreContract):
    """`incidents.add`, `incidents.between`."""

    def incident(self, begin: float, seconds: float = 10.0, **fields: Any) -> Incident:
        """The database was away for a while."""
        given: dict[str, Any] = {"kind": "store_away", "begin": begin, "end": begin + seconds, "who": "executor 1"}
        return Incident(**{**given, **fields})

    async def found(self, store: Store, since: float, until: float) -> list[tuple[str, str, int | None, int | None]]:
        """The incidents of a time, with instants as stores keep them."""
        return [facts_of(incident) for incident in await store.incidents.between(since, until)]

    async def test_an_incident_is_kept_as_it_was_noticed(self, store: Store, make: Factory) -> None:
        """To the microsecond, by whomever."""
        noticed = self.incident(make.now - 60.000001, 10.000003, who="Ünï 😀", kind="scheduler_away")
        await store.incidents.add(noticed)
        assert await self.found(store, make.now - HOUR, make.now) == [facts_of(noticed)]

    async def test_what_is_told_again_is_kept_once(self, store: Store, make: Factory) -> None:
        """The first stays; another kind, beginning or witness is another incident."""
        noticed = self.incident(make.now - 60.0)
        others = [
            self.incident(make.now - 60.0, kind="scheduler_away"),
            self.incident(make.now - 60.0, who="executor 2"),
            self.incident(make.now - 59.0),
        ]
        for incident in (noticed, noticed, self.incident(make.now - 60.0, 20.0), *others):
            await store.incidents.add(incident)
        found = await self.found(store, make.now - HOUR, make.now)
        assert sorted(found) == sorted(map(facts_of, [noticed, *others]))

    async def test_of_many_who_tell_of_one_incident_one_is_heard(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """At the same time, through two clients."""
        noticed = self.incident(make.now - 60.0)
        await asyncio.gather(*(client.incidents.add(noticed) for client in [store, other] * 4))
        assert await self.found(store, make.now - HOUR, make.now) == [facts_of(noticed)]

    async def test_incidents_that_touch_a_time_are_found(self, store: Store, make: Factory) -> None:
        """From before, after, within and around it; the oldest first."""
        now = make.now
        stretches = {
            "before": (-100, -50),
            "into": (-60, -30),
            "within": (-35, -30),
            "around": (-200, 0),
            "out": (-25, 5),
        }
        for who, (begin, end) in stretches.items():
            await store.incidents.add(self.incident(now + begin, float(end - begin), who=who))
        times: list[tuple[tuple[float, float], list[str]]] = [
            ((-40.0, -20.0), ["around", "into", "within", "out"]),
            ((-300.0, -150.0), ["around"]),
            ((-45.0, -40.0), ["around", "into"]),
            ((2.0, 3.0), ["out"]),
            ((-400.0, -300.0), []),
            ((10.0, 20.0), []),
        ]
        for (since, until), expected in times:
            found = await store.incidents.between(now + since, now + until)
            assert [incident.who for incident in found] == expected, (since, until)

    async def test_no_more_than_a_hundred_are_told(self, store: Store, make: Factory) -> None:
        """The oldest of the time that was asked for."""
        for number in range(103):
            await store.incidents.add(self.incident(make.now - 1000.0 + number, 0.5))
        found = await store.incidents.between(make.now - 999.25, make.now)
        begins = [microseconds(incident.begin) for incident in found]
        assert begins == [microseconds(make.now - 999.0 + number) for number in range(100)]

    async def test_incidents_are_kept_as_long_as_runs(self, store: Store, make: Factory) -> None:
        """They explain them."""
        await store.incidents.add(self.incident(make.now))
        for days, expected in ((25, 1), (20, 0)):
            await self.shift(store, days * DAY_SECONDS)
            await store.upkeep.maintain(KEPT)
            assert len(await store.incidents.between(make.now - HOUR, make.now + HOUR)) == expected, days


class WitnessesContract(StoreContract):
    """`executors.all` with `between`."""

    async def test_those_who_lived_in_a_time_are_told(self, store: Store, make: Factory) -> None:
        """Newest first; who left, who was expired, who lives on, and nobody who came later or was gone before."""
        early = await self.register(store, "early")
        await self.shift(store, 100.0)
        await store.executors.leave(early)
        await self.shift(store, 1000.0)
        said: dict[str, Any] = {"queues": ("heavy",), "labels": ("gpu",), "functions": ("send",), "slots": 3}
        middle = await self.register(store, "middle", lease_seconds=10 * LEASE_SECONDS, **said)
        lost = await self.register(store, "lost")
        await self.shift(store, LEASE_SECONDS - 1.0)
        await store.executors.beat(middle, HOUR)
        await self.expire(store, lost)
        await self.shift(store, 1000.0)
        late = await self.register(store, "late")
        now = make.now
        times: list[tuple[tuple[float, float], list[int]]] = [
            ((0.0, 3000.0), [late, lost, middle, early]),
            ((50.0, 60.0), [early]),
            ((300.0, 900.0), []),
            ((500.0, 1300.0), [lost, middle]),
            ((1500.0, 1600.0), [middle]),
            ((1500.0, 3000.0), [late, middle]),
            ((-500.0, -100.0), []),
        ]
        for (since, until), expected in times:
            rows = await store.executors.all(between=(now + since, now + until))
            assert [row.executor for row in rows] == expected, (since, until)
        [row] = await store.executors.all(between=(now + 1500.0, now + 1600.0))
        assert (row.name, list(row.queues), list(row.labels), list(row.functions)) == (
            "middle",
            ["heavy"],
            ["gpu"],
            ["send"],
        )
        assert (row.slots, row.gone_at) == (3, None)

    async def test_the_gone_are_told_as_long_as_runs_are_kept(self, store: Store, make: Factory) -> None:
        """Longer than they are listed."""
        gone = await self.register(store)
        await store.executors.leave(gone)
        for days, expected in ((25, [gone]), (20, [])):
            await self.shift(store, days * DAY_SECONDS)
            await store.upkeep.maintain(KEPT)
            rows = await store.executors.all(between=(make.now - HOUR, make.now + HOUR))
            assert [row.executor for row in rows] == expected, days
            assert list(await store.executors.all()) == []


class TracesContract(StoreContract):
    """`searches.runs` by trigger, origin and id, over what is to come, what goes on, what ended and what never was."""

    async def traces(self, store: Store, make: Factory) -> tuple[UUID, dict[str, UUID]]:
        """A job with a run of each kind, a minute apart; the origin that two of them share."""
        job, origin, executor = make.recurring(make.now), make.identifier(), await self.register(store)
        await self.add(store, job)
        done = make.scheduled(job.job_id, make.now - 240.0)
        skipped = make.skip(job.job_id, make.now - 180.0)
        async with self.near(store) as batch:
            due = batch.timers[0].pending.due
            await batch.commit([make.fire(job.job_id, due, None, runs=[done], skips=[skipped])])
        [claimed] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(claimed))
        asked: dict[str, NewRun] = {
            "filled": self.at(make, job.job_id, -120.0, trigger=Trigger.BACKFILL, origin=origin),
            "cancelled": self.at(make, job.job_id, -60.0, trigger=Trigger.BACKFILL, origin=origin),
            "retried": self.at(make, job.job_id, 0.0, trigger=Trigger.RETRY, origin=done.run_id),
            "now": self.at(make, job.job_id, 60.0, trigger=Trigger.RUN_NOW),
        }
        await store.runs.add("default", job.job_id, list(asked.values()))
        await store.runs.move(RunCancel("default", asked["cancelled"].run_id, "grace"))
        names = {name: run.run_id for name, run in asked.items()}
        return origin, {"done": done.run_id, "skipped": skipped.run_id, **names}

    def at(self, make: Factory, job_id: UUID, ahead: float, **fields: Any) -> NewRun:
        """A run that was asked for, of a nominal time."""
        return make.run(job_id, make.now + ahead, nominal=make.now + ahead, **fields)

    async def test_runs_are_found_by_who_asked_for_them(self, store: Store, make: Factory) -> None:
        """Alone and together with all else that is known of them."""
        origin, runs = await self.traces(store, make)
        searches: list[tuple[dict[str, Any], Sequence[str]]] = [
            ({}, ("now", "retried", "cancelled", "filled", "skipped", "done")),
            ({"triggers": (Trigger.SCHEDULE,)}, ("skipped", "done")),
            ({"triggers": (Trigger.BACKFILL, Trigger.RUN_NOW)}, ("now", "cancelled", "filled")),
            ({"triggers": (Trigger.MISSED,)}, ()),
            ({"origin": origin}, ("cancelled", "filled")),
            ({"origin": runs["done"]}, ("retried",)),
            ({"origin": make.identifier()}, ()),
            ({"origin": origin, "states": (RunState.QUEUED,)}, ("filled",)),
            ({"after": runs["skipped"]}, ("now", "retried", "cancelled", "filled")),
            ({"after": runs["skipped"], "before": runs["retried"]}, ("cancelled", "filled")),
            ({"after": runs["skipped"], "before": runs["retried"], "limit": 1}, ("cancelled",)),
            ({"after": runs["now"]}, ()),
            ({"states": (RunState.SKIPPED,), "triggers": (Trigger.SCHEDULE,)}, ("skipped",)),
        ]
        for query, expected in searches:
            rows = await store.searches.runs(RunQuery(**{"namespace": "default", **query}))
            assert [row.run_id for row in rows] == [runs[name] for name in expected], query
            for row in rows:
                assert row == await self.run_row(store, row.run_id)
        assert list(await store.searches.runs(RunQuery(namespace="elsewhere", origin=origin))) == []

    async def test_what_was_skipped_is_dropped_with_the_runs_of_its_time(self, store: Store, make: Factory) -> None:
        """A record is a record."""
        _, runs = await self.traces(store, make)
        for days, expected in ((25, RunState.SKIPPED), (20, None)):
            await self.shift(store, days * DAY_SECONDS)
            await store.upkeep.maintain(KEPT)
            assert await self.run_state(store, runs["skipped"]) is expected

    async def test_upkeep_drops_nothing_that_is_held_back(self, store: Store, make: Factory) -> None:
        """A one-time job that is paused for good, or waits for a calendar, is unfinished, for years."""
        jobs = [make.job(make.now + HOUR), make.job(make.now + HOUR, run_id=None)]
        await self.add(store, *jobs)
        for job in jobs:
            await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        for _ in range(3):
            await self.shift(store, 400 * DAY_SECONDS)
            await store.upkeep.maintain(KEPT)
        for job in jobs:
            row = await self.job_row(store, job.job_id)
            assert row.timer is not None
            assert microseconds(row.timer.since) == microseconds(make.now + HOUR)


def facts_of(incident: Incident) -> tuple[str, str, int | None, int | None]:
    """An incident with its instants as stores keep them."""
    return incident.kind, incident.who, microseconds(incident.begin), microseconds(incident.end)
