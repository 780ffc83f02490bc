"""Jobs come in: each with its first run or timer, once, whole batches at a time."""

from __future__ import annotations

import asyncio
from collections import Counter

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Trigger, run_id
from tickwise.ports.store import Added, Store
from tickwise.testing.contracts.base import StoreContract, added, lane, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
ODD_TEXT = '{ "task":{"kind":"shell","command":"echo \\u0000 \\ud83d\\ude00 Ünïcode 😀"},\t"n":1.0e+2, "n":1 ,"z":{} }'


class SubmitsContract(StoreContract):
    """`jobs.add`."""

    async def test_a_job_that_is_due_now_has_its_run_at_once(self, store: Store, make: Factory) -> None:
        """No scheduler has to look at it first."""
        job = make.job()
        assert list(added(await store.jobs.add([job]))) == [Added.CREATED]
        assert job.run_id is not None
        row = await self.run_row(store, job.run_id)
        assert row.state is RunState.QUEUED
        assert (row.job_id, row.trigger, row.attempt) == (job.job_id, Trigger.SCHEDULE, 0)
        assert abs(row.due_at - await store.now()) < 60.0
        assert row.due_at == row.queued_at
        assert row.dispatched_at is row.started_at is row.ended_at is row.executor is None

    async def test_jobs_of_a_batch_keep_what_each_of_them_says(self, store: Store, make: Factory) -> None:
        """Most jobs of a batch are alike in a field; a field that differs is kept, too."""
        jobs = [
            make.job(
                None if number % 2 else make.now + HOUR,
                name=f"job {number}",
                task_kind="http" if differs and number else "shell",
                created_by=f"person {number}" if differs else "ada",
                lane=lane(number if differs else 5),
                definition=f'{{"n":{number}}}',
            )
            for differs in (False, True)
            for number in range(3)
        ]
        for batch in (jobs[:3], jobs[3:], [make.recurring(make.now + HOUR), make.job()]):
            await self.add(store, *batch)
        for job in jobs:
            row = await self.job_row(store, job.job_id)
            expected = (job.name, job.schedule_type, job.task_kind, job.created_by, job.lane, job.definition)
            assert (row.name, row.schedule_type, row.task_kind, row.created_by, row.lane, row.definition) == expected

    async def test_a_due_time_within_the_stores_horizon_is_a_run_at_once(self, store: Store, make: Factory) -> None:
        """`near_seconds` is 2 here: the scheduler need not be in time for it."""
        near = make.job(make.now + 1.5)
        await self.add(store, near)
        assert near.run_id is not None
        assert await self.run_state(store, near.run_id) is RunState.QUEUED
        assert (await store.timers.fire(0.0, 10)).timers == 0

    async def test_a_later_due_time_is_a_timer_and_no_run_yet(self, store: Store, make: Factory) -> None:
        """And the job says when it is next."""
        due = make.now + 3600.0
        later = make.job(due)
        await self.add(store, later)
        assert later.run_id is not None
        assert await self.run_state(store, later.run_id) is None
        row = await self.job_row(store, later.job_id)
        assert (microseconds(row.next_run_at), row.status) == (microseconds(due), JobStatus.SCHEDULED)
        assert (await store.upkeep.stats()).timers == 1

    async def test_a_recurring_job_is_a_timer_however_near_it_is(self, store: Store, make: Factory) -> None:
        """Only a scheduler knows its next fire, so only a scheduler makes its runs."""
        await self.add(store, make.recurring(make.now + 0.5), make.recurring(make.now))
        stats = await store.upkeep.stats()
        assert (stats.timers, stats.queued) == (2, 0)

    async def test_a_recurring_job_that_never_fires_has_neither(self, store: Store, make: Factory) -> None:
        """`never`: 30 February is a valid line, and a completed job."""
        never = make.recurring(make.now, never=True)._replace(due=None)
        await self.add(store, never)
        row = await self.job_row(store, never.job_id)
        assert (row.status, row.next_run_at) == (JobStatus.COMPLETED, None)
        assert (await store.timers.fire(10.0, 10)).timers == 0

    async def test_a_due_time_in_the_past_is_kept_as_it_was_said(self, store: Store, make: Factory) -> None:
        """Lateness is measured from what was asked for."""
        job = make.job(make.now - 30.0)
        await self.add(store, job)
        assert job.run_id is not None
        assert microseconds((await self.run_row(store, job.run_id)).due_at) == microseconds(make.now - 30.0)

    async def test_runs_to_make_besides_are_made_with_the_job(self, store: Store, make: Factory) -> None:
        """`missed`."""
        job = make.recurring(make.now + 3600.0)
        missed = make.run(job.job_id, make.now - 60.0, trigger=Trigger.MISSED)
        await self.add(store, job._replace(missed=(missed,)))
        row = await self.run_row(store, missed.run_id)
        assert (row.state, row.trigger) == (RunState.QUEUED, Trigger.MISSED)

    async def test_all_that_was_said_of_a_job_is_kept_byte_for_byte(self, store: Store, make: Factory) -> None:
        """Spacing, repeated keys, escapes and all: the text is the client's, not ours."""
        job = make.job(
            definition=ODD_TEXT,
            name="Ünïcode 😀 'quoted' \"name\" % _ \\",
            labels={"team": "däta", "": "empty"},
            owner="grace",
            key="nightly/1",
            task_kind="http",
            lane=lane(9, queue="heavy", requires=("gpu", "zone=eu")),
        )
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        assert (row.definition, row.name, row.labels) == (ODD_TEXT, job.name, job.labels)
        assert (row.owner, row.created_by, row.key) == ("grace", "ada", "nightly/1")
        assert (row.lane, row.task_kind, row.schedule_type) == (job.lane, "http", "IMMEDIATE")
        assert (row.namespace, row.job_id, row.version) == ("default", job.job_id, 1)
        assert row.created_at == row.updated_at
        assert abs(row.created_at - await store.now()) < 60.0

    async def test_a_job_without_an_owner_belongs_to_its_creator(self, store: Store, make: Factory) -> None:
        """And one without labels has none."""
        job = make.job()
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        assert (row.owner, row.labels, row.key) == ("ada", {}, None)

    async def test_instants_keep_their_microseconds(self, store: Store, make: Factory) -> None:
        """In timers and in runs."""
        far, near = make.now + 4000.123457, make.now + 1.000001
        later, soon = make.job(far), make.job(near)
        await self.add(store, later, soon)
        assert microseconds((await self.job_row(store, later.job_id)).next_run_at) == microseconds(far)
        assert soon.run_id is not None
        assert microseconds((await self.run_row(store, soon.run_id)).due_at) == microseconds(near)

    async def test_a_thousand_jobs_are_stored_at_once(self, store: Store, make: Factory) -> None:
        """Batch first."""
        jobs = [make.job(None if number % 2 else make.now + 3600.0) for number in range(1000)]
        assert Counter(added(await store.jobs.add(jobs))) == {Added.CREATED: 1000}
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.timers) == (500, 500)

    async def test_an_empty_batch_is_answered_by_nothing(self, store: Store) -> None:
        """No job, no answer, no error."""
        assert list(added(await store.jobs.add([]))) == []
        assert list(added(await store.jobs.add([], whole=True))) == []

    async def test_a_repeated_create_with_the_same_body_changes_nothing(self, store: Store, make: Factory) -> None:
        """The client chose the id and asks again: the first answer holds, and there is one run."""
        job = make.job(named=True, digest=b"a" * 32, name="first")
        await self.add(store, job)
        again = job._replace(name="second", run_id=run_id(job.job_id, make.now + 1.0))
        assert list(added(await store.jobs.add([again]))) == [Added.REPEATED]
        assert (await self.job_row(store, job.job_id)).name == "first"
        assert (await store.upkeep.stats()).queued == 1

    async def test_a_named_id_with_another_body_is_taken(self, store: Store, make: Factory) -> None:
        """And what is stored stays as it is."""
        job = make.job(named=True, digest=b"a" * 32, name="first")
        await self.add(store, job)
        other = job._replace(digest=b"b" * 32, name="second", run_id=make.identifier())
        assert list(added(await store.jobs.add([other]))) == [Added.ID_TAKEN]
        assert (await self.job_row(store, job.job_id)).name == "first"
        assert (await store.upkeep.stats()).queued == 1

    async def test_a_named_id_of_a_job_that_was_not_named_is_taken(self, store: Store, make: Factory) -> None:
        """Nobody gets another's job by guessing its id."""
        job = make.job()
        await self.add(store, job)
        guess = job._replace(named=True, digest=b"a" * 32)
        assert list(added(await store.jobs.add([guess]))) == [Added.ID_TAKEN]

    async def test_a_commit_in_doubt_may_be_repeated(self, store: Store, make: Factory) -> None:
        """Ids are repeated, named or not, now or later, near or far: twice is once."""
        jobs = [
            make.job(),
            make.job(make.now + 1.0),
            make.job(make.now + 3600.0),
            make.recurring(make.now + 3600.0),
            make.job(named=True, digest=b"a" * 32, key="one"),
        ]
        await self.add(store, *jobs)
        before = await store.upkeep.stats()
        assert list(added(await store.jobs.add(jobs))) == [Added.REPEATED] * 5
        after = await store.upkeep.stats()
        assert (after.queued, after.timers) == (before.queued, before.timers) == (3, 2)

    async def test_a_repeat_after_the_run_has_ended_does_not_run_it_again(self, store: Store, make: Factory) -> None:
        """The commit was in doubt for long enough."""
        job, executor = make.job(), await self.register(store)
        claimed = await self.held(store, executor, job)
        await self.finish(store, executor, outcome(claimed))
        assert list(added(await store.jobs.add([job]))) == [Added.REPEATED]
        assert list(await self.claim_freed(store, executor)) == []

    async def test_a_repeat_of_half_a_batch_stores_the_other_half(self, store: Store, make: Factory) -> None:
        """The answers stand in the order of the jobs."""
        old = [make.job(), make.job()]
        await self.add(store, *old)
        new = [make.job(), make.job()]
        mixed = [new[0], old[0], new[1], old[1]]
        expected = [Added.CREATED, Added.REPEATED, Added.CREATED, Added.REPEATED]
        assert list(added(await store.jobs.add(mixed))) == expected
        assert (await store.upkeep.stats()).queued == 4

    async def test_a_batch_is_taken_in_the_order_given(self, store: Store, make: Factory) -> None:
        """The first of two with one id or one key is the one that is stored."""
        first = make.job(named=True, digest=b"a" * 32)
        batch = [
            first,
            first,
            first._replace(digest=b"b" * 32),
            make.job(key="k", name="first with the key"),
            make.job(key="k"),
        ]
        expected = [Added.CREATED, Added.REPEATED, Added.ID_TAKEN, Added.CREATED, Added.KEY_TAKEN]
        assert list(added(await store.jobs.add(batch))) == expected
        keyed = await store.jobs.get("default", "k")
        assert keyed is not None
        assert keyed.name == "first with the key"
        assert (await store.upkeep.stats()).queued == 2

    async def test_a_key_is_taken_once_in_a_namespace(self, store: Store, make: Factory) -> None:
        """Another namespace has its own."""
        await self.add(store, make.job(key="k"))
        answers = await store.jobs.add([make.job(key="k"), make.job(key="k", namespace="elsewhere")])
        assert list(added(answers)) == [Added.KEY_TAKEN, Added.CREATED]

    async def test_a_repeated_create_with_its_key_is_a_repeat(self, store: Store, make: Factory) -> None:
        """Its own key does not stand in its way: the id is looked at first."""
        job = make.job(key="k", named=True, digest=b"a" * 32)
        await self.add(store, job)
        assert list(added(await store.jobs.add([job]))) == [Added.REPEATED]

    async def test_the_refused_of_a_batch_do_not_hold_up_the_others(self, store: Store, make: Factory) -> None:
        """`jobs.add` stores all that can be stored."""
        await self.add(store, make.job(key="k"))
        taken, fine = make.job(key="k"), make.job()
        assert list(added(await store.jobs.add([taken, fine]))) == [Added.KEY_TAKEN, Added.CREATED]
        assert await store.jobs.get("default", taken.job_id) is None
        assert await store.jobs.get("default", fine.job_id) is not None

    async def test_all_or_none_stores_none_if_one_is_refused(self, store: Store, make: Factory) -> None:
        """The answer says which."""
        await self.add(store, make.job(key="k"))
        fine, taken, later = make.job(), make.job(key="k"), make.job(make.now + 3600.0)
        answers = added(await store.jobs.add([fine, taken, later], whole=True))
        assert answers[1] is Added.KEY_TAKEN
        assert await store.jobs.get("default", fine.job_id) is None
        assert await store.jobs.get("default", later.job_id) is None
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.timers) == (1, 0)

    async def test_all_or_none_counts_a_repeat_as_stored(self, store: Store, make: Factory) -> None:
        """After a commit in doubt the whole batch is sent again."""
        batch = [make.job(), make.job(make.now + 3600.0), make.job(named=True, digest=b"a" * 32)]
        assert list(added(await store.jobs.add(batch, whole=True))) == [Added.CREATED] * 3
        assert list(added(await store.jobs.add(batch, whole=True))) == [Added.REPEATED] * 3
        assert (await store.upkeep.stats()).queued == 2

    async def test_of_many_who_want_one_key_one_gets_it(self, store: Store, other: Store, make: Factory) -> None:
        """At the same time, through two clients."""
        rivals = [make.job(key="k") for _ in range(10)]
        answers = await asyncio.gather(
            *(client.jobs.add([job]) for client, job in zip([store, other] * 5, rivals, strict=True))
        )
        assert Counter(answer for batch in answers for answer in added(batch)) == {
            Added.CREATED: 1,
            Added.KEY_TAKEN: 9,
        }
        assert (await store.upkeep.stats()).queued == 1

    async def test_of_many_who_create_one_named_job_one_does(self, store: Store, other: Store, make: Factory) -> None:
        """The others hear that it was there; it runs once."""
        job = make.job(named=True, digest=b"a" * 32)
        answers = await asyncio.gather(*(client.jobs.add([job]) for client in [store, other] * 5))
        assert Counter(answer for batch in answers for answer in added(batch)) == {
            Added.CREATED: 1,
            Added.REPEATED: 9,
        }
        assert (await store.upkeep.stats()).queued == 1
