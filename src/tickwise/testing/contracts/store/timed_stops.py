"""Stops of a namespace, of labels, of a queue and of a job: nothing of them is claimed or begun while they are in
force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.decision import Hold, TimerState
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import OnUnknown
from tickwise.domain.stops import MAX_STOPS, STOPS_KEPT_SECONDS, Meanwhile, Stop, StopScope
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import (
    KNOWN_SECONDS,
    CancelRequest,
    Check,
    JobAction,
    NewJob,
    StopQuery,
    Store,
    Successor,
)
from tickwise.testing.contracts.base import LEASE_SECONDS, StoreContract, lane, microseconds
from tickwise.testing.factories import Factory, held, outcome

HOUR = 3600.0
CUSTOMER = {"customer": "x"}
OF_LABELS, OF_QUEUE, OF_NAMESPACE = StopScope(labels=CUSTOMER), StopScope(queue="default"), StopScope()


class TimedStopsContract(StoreContract):
    """`stops`."""

    @pytest.fixture(params=["job", "labels", "queue", "namespace"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        """The kind of a scope."""
        return str(request.param)

    def scope(self, kind: str, job: NewJob) -> StopScope:
        """A scope that a job of the factory with the labels `CUSTOMER` is in."""
        by_job = StopScope(job_id=job.job_id)
        return {"job": by_job, "labels": OF_LABELS, "queue": OF_QUEUE, "namespace": OF_NAMESPACE}[kind]

    def stopped_job(self, make: Factory) -> NewJob:
        """A job that each kind of scope can be about."""
        return make.job(labels={**CUSTOMER, "env": "prod"})

    async def listed(
        self, store: Store, *, standing: bool, before: UUID | None = None, limit: int = 10
    ) -> Sequence[Stop]:
        """Stops of the namespace."""
        since = 0.0 if standing else STOPS_KEPT_SECONDS
        query = StopQuery(namespace="default", over_seconds=since, before=before, limit=limit)
        return await store.stops.find(query)

    async def one(self, store: Store, stop_id: UUID, namespace: str = "default") -> Stop | None:
        """A stop of a namespace."""
        return next(iter(await store.stops.find(StopQuery(namespace=namespace, stop_id=stop_id))), None)

    async def known(self, store: Store, namespace: str | None = None) -> Sequence[Stop]:
        """The stops that schedulers read."""
        return await store.stops.find(StopQuery(namespace=namespace, over_seconds=KNOWN_SECONDS))

    async def claimed_ids(self, store: Store, executor: int, **fields: object) -> set[UUID]:
        """The jobs of what this executor gets."""
        return {claimed.job_id for claimed in await self.claim_freed(store, executor, **fields)}

    async def test_nothing_of_a_stop_is_claimed(self, store: Store, make: Factory, kind: str) -> None:
        """Neither by a scan, nor by name, nor ahead; other jobs are, also those that wait behind it."""
        executor = await self.register(store, queues=("default", "heavy"))
        job, foreign = self.stopped_job(make), make.job(namespace="elsewhere", labels=CUSTOMER)
        beside = make.job(lane=lane(queue="heavy"), labels={"customer": "y"})
        await self.add(store, job, foreign, beside)
        await store.stops.add(make.stop(self.scope(kind, job)))
        queues = ("default", "heavy")
        assert job.run_id is not None
        expected = {foreign.job_id} if kind == "namespace" else {foreign.job_id, beside.job_id}
        assert await self.claim(store, executor, queues=queues, runs=[job.run_id]) == []
        assert await self.claimed_ids(store, executor, queues=queues, ahead_seconds=HOUR) == expected
        assert await self.claimed_ids(store, executor, queues=queues, ahead_seconds=HOUR) == set()

    async def test_what_comes_during_a_stop_waits_too(self, store: Store, make: Factory, kind: str) -> None:
        """Also of a job that is created then."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        await store.stops.add(make.stop(self.scope(kind, job)))
        await self.add(store, job)
        assert await self.claimed_ids(store, executor) == set()
        assert [ready.run_id for ready in await store.runs.waiting(60.0, 0.0, 10)] == []

    async def test_what_a_stop_keeps_is_not_told_as_late(self, store: Store, make: Factory, kind: str) -> None:
        """As of a queue on hold."""
        job = self.stopped_job(make)
        stop = await store.stops.add(make.stop(self.scope(kind, job)))
        await self.add(store, job)
        await self.shift(store, 60.0)
        assert 0.0 == (await store.upkeep.stats()).oldest_ready_seconds
        assert await store.stops.lift("default", stop.stop_id, by="ada") is not None
        assert (await store.upkeep.stats()).oldest_ready_seconds >= 59.0

    async def test_a_stop_ends_by_itself(self, store: Store, make: Factory, kind: str) -> None:
        """Then what waited is claimed, and the stop is listed as over."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        await self.add(store, job)
        stop = await store.stops.add(make.stop(self.scope(kind, job), until=make.now + 100.0))
        assert await self.claimed_ids(store, executor) == set()
        await self.shift(store, 110.0)
        executor = await self.register(store)
        assert await self.claimed_ids(store, executor) == {job.job_id}
        assert await self.listed(store, standing=True, limit=10) == []
        [over] = await self.listed(store, standing=False, limit=10)
        assert (over.stop_id, over.lifted_by) == (stop.stop_id, None)

    async def test_a_lifted_stop_is_over_at_once(self, store: Store, make: Factory, kind: str) -> None:
        """And keeps who lifted it; lifting it again changes nothing."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        await self.add(store, job)
        stop = await store.stops.add(make.stop(self.scope(kind, job)))
        assert await self.claimed_ids(store, executor) == set()
        lifted = await store.stops.lift("default", stop.stop_id, by="grace")
        assert lifted is not None
        assert (lifted.lifted_by, lifted.until <= await store.now()) == ("grace", True)
        assert await store.stops.lift("default", stop.stop_id, by="ada") == lifted
        assert await self.claimed_ids(store, executor) == {job.job_id}

    async def test_a_stop_of_another_namespace_is_not_lifted(self, store: Store, make: Factory) -> None:
        """There is none of this id."""
        stop = await store.stops.add(make.stop())
        assert await store.stops.lift("elsewhere", stop.stop_id, by="ada") is None
        assert await self.one(store, stop.stop_id, "elsewhere") is None
        assert await self.one(store, stop.stop_id, "default") == stop

    async def test_a_stop_begins_at_its_time(self, store: Store, make: Factory, kind: str) -> None:
        """Until then all goes on."""
        executor = await self.register(store, lease_seconds=HOUR)
        before, after = self.stopped_job(make), self.stopped_job(make)
        for job in {"job": (before, after)}.get(kind, (before,)):
            await store.stops.add(make.stop(self.scope(kind, job), begin=make.now + 100.0))
        await self.add(store, before)
        assert await self.claimed_ids(store, executor) == {before.job_id}
        await self.shift(store, 110.0)
        await self.add(store, after)
        executor = await self.register(store, "two")
        assert await self.claimed_ids(store, executor) == set()

    async def test_a_begin_that_has_passed_is_now(self, store: Store, make: Factory) -> None:
        """A stop says nothing of what has run."""
        stop = await store.stops.add(make.stop(begin=make.now - HOUR))
        assert abs(stop.begin - await store.now()) < 60.0

    async def test_what_was_said_of_a_stop_is_told(self, store: Store, make: Factory) -> None:
        """Each field."""
        scope = StopScope(labels={"customer": "ü 😀", "env": "prod"})
        said = make.stop(scope, begin=make.now + 50.5, open_ended=True, meanwhile=Meanwhile.SKIP, reason="ü\n")
        stored = await store.stops.add(said)
        told = await self.one(store, said.stop_id, "default")
        assert told is not None
        assert told == stored
        assert replace(told, asked_at=0.0, begin=0.0, until=0.0) == replace(said, begin=0.0, until=0.0)
        assert (microseconds(told.begin), microseconds(told.until)) == (
            microseconds(said.begin),
            microseconds(said.until),
        )
        assert abs(told.asked_at - await store.now()) < 60.0

    async def test_a_stop_that_is_added_twice_is_added_once(self, store: Store, make: Factory) -> None:
        """A repeat after a doubtful answer has the first one."""
        stop = make.stop()
        first = await store.stops.add(stop)
        assert await store.stops.add(replace(stop, reason="another")) == first
        assert len(await self.listed(store, standing=True, limit=10)) == 1

    async def test_stops_are_listed_by_pages(self, store: Store, make: Factory) -> None:
        """The newest first, those of the namespace alone."""
        stops = [await store.stops.add(make.stop()) for _ in range(5)]
        await store.stops.add(make.stop(namespace="elsewhere"))
        ids = sorted((stop.stop_id for stop in stops), reverse=True)
        first = await self.listed(store, standing=True, limit=3)
        rest = await self.listed(store, standing=True, before=first[-1].stop_id, limit=3)
        assert [stop.stop_id for stop in (*first, *rest)] == ids

    async def test_a_namespace_has_a_bounded_number_of_stops(self, store: Store, make: Factory) -> None:
        """One that is over makes room."""
        stops = [await store.stops.add(make.stop(OF_QUEUE)) for _ in range(MAX_STOPS)]
        with pytest.raises(Conflict) as refused:
            await store.stops.add(make.stop(OF_QUEUE))
        assert refused.value.code == "stops_exhausted"
        await store.stops.add(make.stop(namespace="elsewhere"))
        await store.stops.lift("default", stops[0].stop_id, by="ada")
        await store.stops.add(make.stop(OF_QUEUE))

    async def test_schedulers_know_the_stops_of_now_and_of_yesterday(self, store: Store, make: Factory) -> None:
        """Of all namespaces; and they are told that they are others."""
        async with self.near(store) as batch:
            before = batch.rules_version
        stop = await store.stops.add(make.stop())
        other = await store.stops.add(make.stop(namespace="elsewhere"))
        async with self.near(store) as batch:
            added = batch.rules_version
        lifted = await store.stops.lift("default", stop.stop_id, by="ada")
        async with self.near(store) as batch:
            assert before < added < batch.rules_version
        assert {each.stop_id for each in await self.known(store)} == {stop.stop_id, other.stop_id}
        assert await self.known(store, "default") == [lifted]
        await self.shift(store, KNOWN_SECONDS + HOUR)
        assert await self.known(store, "default") == []

    async def test_old_stops_are_forgotten(self, store: Store, make: Factory) -> None:
        """Once another one is added."""
        old = await store.stops.add(make.stop())
        await self.shift(store, STOPS_KEPT_SECONDS + 2 * HOUR)
        assert await self.listed(store, standing=False, limit=10) == []
        now = await store.now()
        await store.stops.add(make.stop(begin=now, until=now + HOUR))
        assert await self.one(store, old.stop_id, "default") is None

    @pytest.mark.parametrize("change", ["added", "lifted"])
    async def test_a_change_wakes_what_rules_hold_back(self, store: Store, make: Factory, change: str) -> None:
        """It is decided anew at once, from where it stood."""
        stop = await store.stops.add(make.stop()) if change == "lifted" else None
        job = make.recurring(make.now)
        await self.add(store, job)
        async with self.near(store) as batch:
            [timer] = batch.timers
            waits = held(timer.pending.due, make.now + HOUR, Hold.MAINTENANCE)
            await batch.commit([make.fire(job.job_id, timer.pending.due, waits, runs=())])
        if stop is None:
            await store.stops.add(make.stop())
        else:
            await store.stops.lift("default", stop.stop_id, by="ada")
        async with self.near(store, 0.0) as batch:
            assert [timer.job_id for timer in batch.timers] == [job.job_id]

    async def test_the_jobs_that_a_stop_would_hit_are_found(self, store: Store, make: Factory, kind: str) -> None:
        """Those of its scope that are due before its end, the earliest first, with where they stand."""
        first, second, late = (make.recurring(make.now + after, labels=CUSTOMER) for after in (50.0, 100.0, HOUR))
        foreign = make.recurring(make.now + 50.0, namespace="elsewhere", labels=CUSTOMER)
        await self.add(store, second, first, late, foreign)
        scope = self.scope(kind, first)
        expected = [first.job_id] if kind == "job" else [first.job_id, second.job_id]
        found = await store.stops.due("default", scope, until=make.now + HOUR, limit=10)
        assert [each.job_id for each in found] == expected
        assert (found[0].name, found[0].definition) == (first.name, first.definition)
        assert microseconds(found[0].timer.due) == microseconds(make.now + 50.0)
        assert [each.job_id for each in await store.stops.due("default", scope, until=make.now + HOUR, limit=1)] == [
            first.job_id
        ]
        await store.jobs.move(make.move(first.job_id, JobAction.PAUSE))
        found = await store.stops.due("default", scope, until=make.now + HOUR, limit=10)
        assert [each.job_id for each in found] == expected[1:]

    # --------------------------------------------------------------------------------------- what is held, what began

    async def test_what_is_held_unbegun_is_asked_back(self, store: Store, make: Factory, kind: str) -> None:
        """At each heartbeat, until it is given back or the stop is lifted."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        claimed, other = await self.held(store, executor, job), await self.held(store, executor, make.job())
        stop = await store.stops.add(make.stop(self.scope(kind, job)))
        asked = {CancelRequest(claimed.run_id, CancelKind.RETURN)}
        if kind in ("queue", "namespace"):
            asked.add(CancelRequest(other.run_id, CancelKind.RETURN))
        for _ in range(2):
            assert set(await self.cancels(store, executor)) == asked
        await store.stops.lift("default", stop.stop_id, by="ada")
        assert await self.cancels(store, executor) == []
        assert await self.starts(store, executor, claimed, other) == [True, True]

    async def test_what_is_given_back_waits(self, store: Store, make: Factory, kind: str) -> None:
        """Its attempt is not counted."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        claimed = await self.held(store, executor, job)
        await store.stops.add(make.stop(self.scope(kind, job)))
        assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED)) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.attempt) == (RunState.QUEUED, 0)
        assert await self.claimed_ids(store, executor) == set()

    async def test_a_start_that_is_recorded_first_is_refused(self, store: Store, make: Factory, kind: str) -> None:
        """The run is as if it had been given back."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        claimed = await self.held(store, executor, job)
        await store.stops.add(make.stop(self.scope(kind, job)))
        assert await self.starts(store, executor, claimed, on_unknown=OnUnknown.FAIL) == [False]
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.executor, row.attempt) == (RunState.QUEUED, None, 0)

    async def test_what_has_begun_goes_on(self, store: Store, make: Factory, kind: str) -> None:
        """It is not asked back, and ends as it ends."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        claimed = await self.held(store, executor, job)
        await self.begin(store, executor, claimed)
        await store.stops.add(make.stop(self.scope(kind, job)))
        assert await self.cancels(store, executor) == []
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS

    async def test_what_waits_during_a_stop_is_no_fault(self, store: Store, make: Factory, kind: str) -> None:
        """The check that runs are claimed in time passes it over."""
        job = self.stopped_job(make)
        await self.add(store, job)
        stop = await store.stops.add(make.stop(self.scope(kind, job)))
        await self.shift(store, 120.0)
        found = await store.checks.violations(Check.CLAIMED_IN_TIME, after=None, limit=100)
        assert list(found.found) == []
        await store.stops.lift("default", stop.stop_id, by="ada")
        found = await store.checks.violations(Check.CLAIMED_IN_TIME, after=None, limit=100)
        assert [each.subject for each in found.found] == [job.run_id]

    # --------------------------------------------------------------------------------------- together with others

    async def test_a_retry_waits_for_the_end_of_a_stop(self, store: Store, make: Factory, kind: str) -> None:
        """Its own time may be sooner."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        claimed = await self.held(store, executor, job)
        await self.begin(store, executor, claimed)
        stop = await store.stops.add(make.stop(self.scope(kind, job)))
        late = outcome(claimed, RunState.RETRYING, retry_at=make.now)
        assert await self.finish(store, executor, late) == []
        assert await self.claimed_ids(store, executor) == set()
        await store.stops.lift("default", stop.stop_id, by="ada")
        assert await self.claimed_ids(store, executor) == {job.job_id}

    async def test_what_is_lost_in_a_crash_waits_for_the_end_of_a_stop(
        self, store: Store, make: Factory, kind: str
    ) -> None:
        """It goes on elsewhere then."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        claimed = await self.held(store, executor, job)
        await self.begin(store, executor, claimed)
        stop = await store.stops.add(make.stop(self.scope(kind, job)))
        await self.expire(store, executor)
        two = await self.register(store, "two")
        assert await self.claimed_ids(store, two) == set()
        assert await self.cancels(store, two) == []
        await store.stops.lift("default", stop.stop_id, by="ada")
        assert await self.claimed_ids(store, two) == {job.job_id}

    async def test_a_restart_of_the_store_ends_no_stop(self, store: Store, make: Factory, kind: str) -> None:
        """It is on record."""
        job = self.stopped_job(make)
        await self.add(store, job)
        await store.stops.add(make.stop(self.scope(kind, job)))
        await self.restart(store)
        executor = await self.register(store)
        assert await self.claimed_ids(store, executor) == set()

    async def test_a_resumed_job_waits_for_the_end_of_a_stop(self, store: Store, make: Factory, kind: str) -> None:
        """The pause and the stop hold back each for itself."""
        executor = await self.register(store)
        job = make.recurring(make.now, labels=CUSTOMER)
        await self.add(store, job)
        async with self.near(store) as batch:
            [timer] = batch.timers
            runs = (make.run(job.job_id, timer.pending.due, trigger=Trigger.SCHEDULE),)
            await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + HOUR, runs=runs)])
        stop = await store.stops.add(make.stop(self.scope(kind, job)))
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        assert await self.claimed_ids(store, executor) == set()
        plan = make.plan(TimerState(make.now + HOUR))
        await store.jobs.move(make.move(job.job_id, JobAction.RESUME, plan))
        assert await self.claimed_ids(store, executor) == set()
        await store.stops.lift("default", stop.stop_id, by="ada")

    async def test_a_successor_is_made_and_waits(self, store: Store, make: Factory, kind: str) -> None:
        """The end of its predecessor is not forgotten."""
        executor = await self.register(store)
        ended = await self.held(store, executor, make.job(lane=lane(queue="other")), queues=("other",))
        job = make.recurring(make.now, never=True, schedule_type="ON_DEMAND", labels=CUSTOMER)
        await self.add(store, job)
        stop = await store.stops.add(make.stop(self.scope(kind, job)))
        assert await self.finish(store, executor, outcome(ended, follow=True)) == []
        run = make.run(job.job_id, make.now, trigger=Trigger.SEQUENCE, origin=ended.run_id)
        assert await store.completions.commit("default", {ended.run_id: [Successor(job.job_id, run)]}) == 1
        assert await self.claimed_ids(store, executor) == set()
        await store.stops.lift("default", stop.stop_id, by="ada")
        assert await self.claimed_ids(store, executor) == {job.job_id}

    async def test_a_resumed_queue_waits_for_the_end_of_a_stop(self, store: Store, make: Factory, kind: str) -> None:
        """A held run stays asked back."""
        executor = await self.register(store)
        job = self.stopped_job(make)
        claimed = await self.held(store, executor, job)
        await store.stops.add(make.stop(self.scope(kind, job)))
        await self.shift(store, 6.0)
        await self.cancels(store, executor)
        await store.queues.hold(make.hold())
        await store.queues.resume("default", "default")
        assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.RETURN)]
        assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED)) == []
        assert await self.claimed_ids(store, executor) == set()

    async def test_a_lifted_stop_leaves_a_held_queue_held(self, store: Store, make: Factory) -> None:
        """A held run of it stays asked back."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, self.stopped_job(make))
        stop = await store.stops.add(make.stop(OF_LABELS))
        await store.queues.hold(make.hold())
        await store.stops.lift("default", stop.stop_id, by="ada")
        assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.RETURN)]

    async def test_a_job_that_is_given_the_labels_of_a_stop_is_stopped(self, store: Store, make: Factory) -> None:
        """The labels of now count; what is held is asked back, however long the stop has been in force."""
        executor = await self.register(store)
        job = make.job(labels={"customer": "y"})
        claimed = await self.held(store, executor, job)
        await store.stops.add(make.stop(OF_LABELS))
        await self.shift(store, 6.0)
        assert await self.cancels(store, executor) == []
        await store.jobs.change(make.change(await self.job_row(store, job.job_id), labels=CUSTOMER))
        assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.RETURN)]

    # --------------------------------------------------------------------------------------- records

    async def test_a_stop_and_its_lifting_are_audited(self, store: Store, make: Factory) -> None:
        """Each once."""
        stop = make.stop()
        source = Source(CallerKind.PROGRAM, None, "ada")
        made = AuditEntry("default", AuditAction.STOP_MADE, source, "stop", str(stop.stop_id))
        for _ in range(2):
            await store.stops.add(stop, audit=made)
        for _ in range(2):
            await store.stops.lift(
                "default", stop.stop_id, by="ada", audit=made._replace(action=AuditAction.STOP_LIFTED)
            )
        rows = await store.audit.find(AuditQuery(namespace="default", limit=10))
        assert sorted(row.action for row in rows) == [AuditAction.STOP_LIFTED, AuditAction.STOP_MADE]

    async def test_a_stop_beats_on(self, store: Store, make: Factory) -> None:
        """Heartbeats go on for its whole time, and ask for nothing when nothing is held."""
        executor = await self.register(store)
        await store.stops.add(make.stop())
        await self.shift(store, 6.0)
        beat = await store.executors.beat(executor, LEASE_SECONDS)
        assert (beat.alive, list(beat.cancels)) == (True, [])
