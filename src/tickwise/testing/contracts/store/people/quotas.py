"""Quotas of namespaces: kept by all that adds to one, by all processes together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tickwise.domain.errors import Conflict, StoreUnavailable
from tickwise.domain.quotas import NO_QUOTAS, Quotas
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.store import Added, JobAction, JobTransfer, NewJob, Replay, RuleKind, Store
from tickwise.ports.store.quotas import CROWDED_SECONDS
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract, added, lane
from tickwise.testing.factories import Factory

HOUR = 3600.0
TEAM = "team-q"


class QuotasContract(StoreContract):
    """`quotas`, and the quotas in `jobs.add`, `jobs.change`, `runs.add`, `tasks.put`, `rules.put` and
    `quotas.take_runs`."""

    async def limited(self, store: Store, **quotas: float) -> None:
        """The team has these quotas now, in the eyes of every client."""
        await store.namespaces.add(NewNamespace(name=TEAM, display_name=TEAM, created_by="ada"))
        row = await store.namespaces.get(TEAM)
        assert row is not None
        wanted = Quotas(**quotas)  # type: ignore[arg-type]  # counts are whole
        changed = await store.namespaces.change(replace(row, quotas=wanted))
        assert changed.quotas == wanted

    def recurring(self, make: Factory, count: int, **fields: object) -> list[NewJob]:
        """Jobs of the team that last."""
        return [make.recurring(make.now + HOUR, namespace=TEAM, **fields) for _ in range(count)]

    async def results(self, store: Store, jobs: Sequence[NewJob], *, whole: bool = False) -> list[Added]:
        """The answer to each."""
        return list(added(await store.jobs.add(jobs, whole=whole)))

    async def test_quotas_are_kept_with_the_namespace(self, store: Store, other: Store) -> None:
        """All of them, and none again; another client sees them."""
        await self.limited(store, jobs=1, runs_per_day=2, bytes=3, lanes=4, calendars=5, windows=6)
        row = await other.namespaces.get(TEAM)
        assert row is not None
        assert row.quotas == Quotas(jobs=1, runs_per_day=2, bytes=3, lanes=4, calendars=5, windows=6)
        assert (await store.namespaces.change(replace(row, quotas=NO_QUOTAS))).quotas == NO_QUOTAS

    async def test_as_many_jobs_are_stored_as_there_is_room_for(self, store: Store, make: Factory) -> None:
        """The first ones; jobs of other namespaces are stored."""
        await self.limited(store, jobs=3)
        mine, theirs = self.recurring(make, 5), make.recurring(make.now + HOUR)
        answers = await self.results(store, [*mine[:2], theirs, *mine[2:]])
        assert answers == [Added.CREATED] * 4 + [Added.NO_QUOTA_JOBS] * 2
        assert await store.jobs.get(TEAM, mine[3].job_id) is None
        assert (await store.quotas.use(TEAM)).jobs == 3

    async def test_a_whole_batch_is_stored_only_if_there_is_room_for_all(self, store: Store, make: Factory) -> None:
        """And leaves no receipt if there is not."""
        await self.limited(store, jobs=3)
        jobs = self.recurring(make, 4)
        assert Added.NO_QUOTA_JOBS in await self.results(store, jobs, whole=True)
        assert (await store.quotas.use(TEAM)).jobs == 0
        receipt = make.receipt()
        answers = added(await store.jobs.add(jobs, receipt))
        assert list(answers) == [Added.CREATED] * 3 + [Added.NO_QUOTA_JOBS]
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) is None

    async def test_a_repeat_takes_no_room_and_needs_none(self, store: Store, make: Factory) -> None:
        """A client repeats what it has no answer to."""
        await self.limited(store, jobs=2, runs_per_day=1)
        jobs = [*self.recurring(make, 1), make.job(namespace=TEAM)]
        for expected in (Added.CREATED, Added.REPEATED, Added.REPEATED):
            assert await self.results(store, jobs) == [expected] * 2
        assert (await store.quotas.use(TEAM)).runs_today == 1
        assert await self.results(store, self.recurring(make, 1)) == [Added.CREATED]
        receipt = make.receipt()
        other = self.recurring(make, 1)
        assert await self.results(store, other) == [Added.NO_QUOTA_JOBS]
        assert list(added(await store.jobs.add(jobs, receipt))) == [Added.REPEATED] * 2
        assert isinstance(await store.jobs.add(jobs, receipt), Replay)

    async def test_what_ends_makes_room(self, store: Store, make: Factory) -> None:
        """After a moment in which it is not counted anew."""
        await self.limited(store, jobs=2)
        jobs = self.recurring(make, 2)
        await self.add(store, *jobs)
        [more] = self.recurring(make, 1)
        assert await self.results(store, [more]) == [Added.NO_QUOTA_JOBS]
        await store.jobs.move(make.move(jobs[0].job_id, JobAction.CANCEL, namespace=TEAM))
        await self.shift(store, CROWDED_SECONDS + 1.0)
        assert await self.results(store, [more]) == [Added.CREATED]
        assert await self.results(store, self.recurring(make, 1)) == [Added.NO_QUOTA_JOBS]

    async def test_a_job_that_comes_from_elsewhere_needs_room(self, store: Store, make: Factory) -> None:
        """No quota is passed by a job that was made in another namespace."""
        await self.limited(store, jobs=1)
        jobs = [make.recurring(make.now + HOUR) for _ in range(2)]
        await self.add(store, *jobs)
        transfers = [
            JobTransfer(namespace=job.namespace, job_id=job.job_id, to=TEAM, expected_version=1) for job in jobs
        ]
        assert (await store.jobs.move(transfers[0])).namespace == TEAM
        with pytest.raises(Conflict) as refusal:
            await store.jobs.move(transfers[1])
        assert refusal.value.code == "quota_jobs"
        assert await store.jobs.get(jobs[1].namespace, jobs[1].job_id) is not None
        assert (await store.jobs.move(transfers[0])).namespace == TEAM

    async def test_what_was_there_before_the_quota_counts(self, store: Store, make: Factory) -> None:
        """It stays, and leaves that much less room."""
        await self.add(store, *self.recurring(make, 3))
        await self.limited(store, jobs=4)
        assert await self.results(store, self.recurring(make, 2)) == [Added.CREATED, Added.NO_QUOTA_JOBS]
        await self.limited(store, jobs=1)
        assert await self.results(store, self.recurring(make, 1)) == [Added.NO_QUOTA_JOBS]

    async def test_two_processes_together_do_not_pass_a_quota(self, store: Store, other: Store, make: Factory) -> None:
        """Jobs and runs are added at the same time."""
        await self.limited(store, jobs=10, runs_per_day=10)
        batches = [[*self.recurring(make, 2), make.job(namespace=TEAM)] for _ in range(20)]
        found = await asyncio.gather(
            *(each.jobs.add(batch) for batch, each in zip(batches, [store, other] * 10, strict=True))
        )
        answers = Counter(answer for each in found for answer in added(each))
        assert answers == {Added.CREATED: 20, Added.NO_QUOTA_JOBS: 30, Added.NO_QUOTA_RUNS: 10}
        use = await store.quotas.use(TEAM)
        assert (use.jobs, use.runs_today) == (10, 10)

    async def test_runs_that_people_ask_for_count(self, store: Store, other: Store, make: Factory) -> None:
        """All of a request, or nothing of it; what was asked for before is not counted again."""
        await self.limited(store, runs_per_day=5)
        [job] = self.recurring(make, 1)
        await self.add(store, job)
        runs = [make.run(job.job_id) for _ in range(8)]
        for _ in range(2):
            assert await store.runs.add(TEAM, job.job_id, runs[:3]) is True
        with pytest.raises(Conflict) as refusal:
            await other.runs.add(TEAM, job.job_id, runs[3:6])
        assert (refusal.value.code, refusal.value.pointer) == ("quota_runs", "")
        assert await self.run_state(store, runs[3].run_id) is None
        assert await other.runs.add(TEAM, job.job_id, runs[3:5]) is True
        with pytest.raises(Conflict):
            await store.runs.add(TEAM, job.job_id, runs[5:6])
        await self.shift(store, DAY_SECONDS)
        assert await store.runs.add(TEAM, job.job_id, runs[5:]) is True
        assert (await store.quotas.use(TEAM)).runs_today == 3

    async def test_fires_are_counted_as_far_as_there_is_room(self, store: Store, other: Store, make: Factory) -> None:
        """They share a quota with all other runs, and count if their batch is committed. A namespace without a quota
        counts nothing."""
        await self.limited(store, runs_per_day=10)
        await self.add(store, *[make.recurring(make.now, namespace=TEAM) for _ in range(4)])
        for client, wanted, lacking in ((store, 6, 0), (other, 6, 2), (store, 3, 3)):
            async with self.near(client, limit=1) as batch:
                found = await client.quotas.take_runs(batch.batch_id, {TEAM: wanted, "default": 100})
                assert found == ({TEAM: lacking} if lacking else {})
                due = batch.timers[0].pending.due
                await batch.commit([make.fire(batch.timers[0].job_id, due, make.now + HOUR)])
        assert (await other.quotas.use(TEAM)).runs_today == 10
        assert await self.results(store, [make.job(namespace=TEAM)]) == [Added.NO_QUOTA_RUNS]
        with pytest.raises(StoreUnavailable):
            await store.quotas.take_runs(batch.batch_id, {TEAM: 1})

    async def test_fires_that_are_not_committed_do_not_count(self, store: Store, other: Store, make: Factory) -> None:
        """Their batch is released, and another scheduler decides them."""
        await self.limited(store, runs_per_day=3)
        await self.add(store, make.recurring(make.now, namespace=TEAM))
        for client in (store, other, store):
            async with self.near(client) as batch:
                assert await client.quotas.take_runs(batch.batch_id, {TEAM: 2}) == {}
        assert await self.results(store, [make.job(namespace=TEAM) for _ in range(4)]) == [
            Added.CREATED, Added.CREATED, Added.CREATED, Added.NO_QUOTA_RUNS,
        ]  # fmt: skip

    async def test_fires_of_many_schedulers_do_not_pass_a_quota(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Ten batches at the same time; one that finds the quota in use counts nothing and is decided again."""
        await self.limited(store, runs_per_day=4)
        await self.add(store, *[make.recurring(make.now, namespace=TEAM) for _ in range(10)])

        async def fire(client: Store) -> int | None:
            async with self.near(client, limit=1) as batch:
                lacking = (await client.quotas.take_runs(batch.batch_id, {TEAM: 1})).get(TEAM, 0)
                [timer] = batch.timers
                runs = [make.scheduled(timer.job_id, timer.pending.due)][: 1 - (lacking or 0)]
                if lacking is not None:
                    fire = make.fire(timer.job_id, timer.pending.due, make.now + HOUR, runs=runs)
                    assert await batch.commit([fire]) == len(runs)
                return lacking

        found: list[int] = []
        while len(found) < 10:
            answers = await asyncio.gather(
                *(fire(each) for _, each in zip(range(10 - len(found)), [store, other] * 5, strict=False))
            )
            found += [answer for answer in answers if answer is not None]
        assert sum(found) == 6
        assert (await store.quotas.use(TEAM)).runs_today == 4

    async def test_a_job_that_is_not_stored_takes_no_room(self, store: Store, make: Factory) -> None:
        """Its key or its id is taken; a later one of the same batch has that room. Two of a batch are no exception."""
        await self.limited(store, jobs=2, runs_per_day=3)
        [keyed] = self.recurring(make, 1, key="nightly")
        theirs = make.job(named=True, digest=b"theirs")
        await self.add(store, keyed, theirs)
        taken = [
            *self.recurring(make, 1, key="nightly"),
            make.job(namespace=TEAM, job_id=theirs.job_id, named=True, digest=b"mine"),
        ]
        good = self.recurring(make, 2)
        answers = await self.results(store, [*taken, *good])
        assert answers == [Added.KEY_TAKEN, Added.ID_TAKEN, Added.CREATED, Added.NO_QUOTA_JOBS]
        once = [make.job(namespace=TEAM) for _ in range(2)]
        answers = await self.results(store, [once[0], *once, *[make.job(namespace=TEAM) for _ in range(2)]])
        assert answers == [
            Added.CREATED, Added.REPEATED, Added.CREATED, Added.CREATED, Added.NO_QUOTA_RUNS,
        ]  # fmt: skip
        use = await store.quotas.use(TEAM)
        assert (use.jobs, use.runs_today) == (2, 3)

    async def test_two_of_a_batch_with_one_key_need_the_room_of_one(self, store: Store, make: Factory) -> None:
        """The first is stored; the next job has the room that the second does not take."""
        await self.limited(store, jobs=2)
        answers = await self.results(store, [*self.recurring(make, 2, key="nightly"), *self.recurring(make, 2)])
        assert answers == [Added.CREATED, Added.KEY_TAKEN, Added.CREATED, Added.NO_QUOTA_JOBS]

    async def test_an_edit_that_makes_a_job_count_needs_room(self, store: Store, make: Factory) -> None:
        """A job that passes becomes one that lasts: by its schedule, its key or a calendar. A refused edit changes
        nothing."""
        await self.limited(store, jobs=2)
        jobs = [make.job(make.now + HOUR, namespace=TEAM) for _ in range(5)]
        await self.add(store, *jobs)
        edits: tuple[dict[str, Any], ...] = (
            {"schedule_type": "INTERVAL", "replan": make.plan(make.now + 60.0)},
            {"key": "nightly"},
            {"calendars": ("holidays",)},
            {"replan": make.plan(make.now + 3 * DAY_SECONDS, recurring=False)},
        )
        for number, (job, edit) in enumerate(zip(jobs, edits, strict=False)):
            row = await self.job_row(store, job.job_id, TEAM)
            if number < 2:
                assert (await store.jobs.change(make.change(row, **edit))).version == 2
                continue
            with pytest.raises(Conflict) as refusal:
                await store.jobs.change(make.change(row, **edit))
            assert refusal.value.code == "quota_jobs"
            assert await self.job_row(store, job.job_id, TEAM) == row
        assert (await store.quotas.use(TEAM)).jobs == 2
        assert await self.results(store, self.recurring(make, 1)) == [Added.NO_QUOTA_JOBS]
        row = await self.job_row(store, jobs[4].job_id, TEAM)
        assert (await store.jobs.change(make.change(row, name="another"))).name == "another"

    async def test_an_edit_that_grows_needs_room_for_the_bytes(self, store: Store, make: Factory) -> None:
        """Of a job that counts, for those that it has more; of one that begins to count, for all. A repeated edit needs
        none."""
        await self.limited(store, bytes=1_000)
        [job] = self.recurring(make, 1, definition='"' + "x" * 398 + '"')
        passing = make.job(make.now + HOUR, namespace=TEAM, definition='"' + "x" * 398 + '"')
        await self.add(store, job, passing)
        row = await self.job_row(store, job.job_id, TEAM)
        grows = make.change(row, definition='"' + "ü" * 300 + '"')
        for _ in range(2):
            assert (await store.jobs.change(grows)).version == 2
        row = await self.job_row(store, passing.job_id, TEAM)
        lasts: dict[str, Any] = {"schedule_type": "INTERVAL", "replan": make.plan(make.now + 60.0)}
        with pytest.raises(Conflict) as refusal:
            await store.jobs.change(make.change(row, definition='"' + "x" * 397 + '"', **lasts))
        assert refusal.value.code == "quota_bytes"
        assert (await store.jobs.change(make.change(row, definition='"' + "x" * 396 + '"', **lasts))).version == 2
        assert (await store.quotas.use(TEAM)).bytes == 1_000
        row = await self.job_row(store, job.job_id, TEAM)
        with pytest.raises(Conflict):
            await store.jobs.change(make.change(row, definition='"' + "ü" * 300 + 'x"'))

    async def test_an_edit_that_shrinks_or_keeps_is_never_refused(self, store: Store, make: Factory) -> None:
        """Also where the namespace has more than its quotas, by what was there before them."""
        jobs = self.recurring(make, 2)
        await self.limited(store)
        await self.add(store, *jobs)
        row = await self.job_row(store, jobs[0].job_id, TEAM)
        await self.limited(store, jobs=1, bytes=10)
        text = row.definition
        edits: list[dict[str, Any]] = [
            {"definition": text[:-10] + text[-1:]},
            {"name": "another"},
            {"replan": make.plan(make.now + 60)},
        ]
        for edit in edits:
            row = await store.jobs.change(make.change(row, **edit))
        assert row.version == 4

    async def test_an_edit_that_asks_for_a_run_needs_room_for_it(self, store: Store, make: Factory) -> None:
        """Jobs that run by a schedule or on demand, and become jobs that run once, ask as a submit does. A run that was
        counted and is put off asks for nothing; one that was counted and has ended is asked for anew."""
        await self.limited(store, runs_per_day=3)
        jobs = self.recurring(make, 3)
        once = make.job(make.now + HOUR, namespace=TEAM)
        await self.add(store, *jobs, once)
        edit: dict[str, Any] = {
            "schedule_type": "FUTURE",
            "replan": make.plan(make.now + 2 * HOUR, recurring=False),
        }
        row = await self.job_row(store, once.job_id, TEAM)
        assert (await store.jobs.change(make.change(row, **edit))).version == 2
        for job in jobs[:2]:
            change = make.change(await self.job_row(store, job.job_id, TEAM), **edit)
            for _ in range(2):
                assert (await store.jobs.change(change)).version == 2
        row = await self.job_row(store, jobs[2].job_id, TEAM)
        with pytest.raises(Conflict) as refusal:
            await store.jobs.change(make.change(row, **edit))
        assert refusal.value.code == "quota_runs"
        assert await self.job_row(store, row.job_id, TEAM) == row
        assert (await store.quotas.use(TEAM)).runs_today == 3
        assert await self.results(store, [make.job(namespace=TEAM)]) == [Added.NO_QUOTA_RUNS]

    async def test_definitions_and_stored_tasks_have_so_many_bytes(self, store: Store, make: Factory) -> None:
        """Together; jobs that pass within a day, and a task that is stored just so, take none."""
        await self.limited(store, bytes=1_000)
        [job] = self.recurring(make, 1, definition='"' + "ü" * 200 + '"')
        assert await self.results(store, [job]) == [Added.CREATED]
        task = make.task(namespace=TEAM, task='"' + "x" * 498 + '"')
        await store.tasks.put(task)
        await store.tasks.put(task)
        assert (await store.quotas.use(TEAM)).bytes == 902
        with pytest.raises(Conflict) as refusal:
            await store.tasks.put(replace(task, digest="1" * 64))
        assert refusal.value.code == "quota_bytes"
        long = make.recurring(make.now + HOUR, namespace=TEAM, definition='"' + "x" * 97 + '"')
        passing = make.job(namespace=TEAM, definition='"' + "x" * 5_000 + '"')
        assert await self.results(store, [long, passing]) == [Added.NO_QUOTA_BYTES, Added.CREATED]
        short = make.recurring(make.now + HOUR, namespace=TEAM, definition='"' + "x" * 96 + '"')
        assert await self.results(store, [short]) == [Added.CREATED]

    async def test_lanes_have_a_quota_beside_the_one_of_all(self, store: Store, other: Store, make: Factory) -> None:
        """The default queue without labels is always there."""
        await self.limited(store, lanes=2)
        jobs = self.recurring(make, 4)
        named = [job._replace(lane=lane(queue=f"q-{number}")) for number, job in enumerate(jobs)]
        assert await self.results(store, named) == [Added.CREATED] * 2 + [Added.NO_LANE] * 2
        assert await self.results(other, self.recurring(make, 1)) == [Added.CREATED]
        elsewhere = [make.job(lane=lane(queue=f"q-{number}")) for number in range(4)]
        assert await self.results(store, elsewhere) == [Added.CREATED] * 4

    async def test_default_lanes_count_for_the_quota_of_lanes_and_are_never_refused(
        self, store: Store, make: Factory
    ) -> None:
        """The one that is there takes room; one that comes later passes the quota."""
        await self.limited(store, lanes=2)
        plain, named, over = self.recurring(make, 3)
        jobs = [plain, named._replace(lane=lane(queue="q-1")), over._replace(lane=lane(queue="q-2"))]
        for job, answer in zip(jobs, (Added.CREATED, Added.CREATED, Added.NO_LANE), strict=True):
            assert await self.results(store, [job]) == [answer]
        assert (await store.quotas.use(TEAM)).lanes == 2
        await self.limited(store, lanes=0)
        [bound] = self.recurring(make, 1, lane=lane(requires=("executor:7",)))
        assert await self.results(store, [bound]) == [Added.CREATED]
        assert (await store.quotas.use(TEAM)).lanes == 3

    async def test_calendars_and_windows_have_quotas(self, store: Store, make: Factory) -> None:
        """Each its own; one that is there can be replaced."""
        await self.limited(store, calendars=1, windows=0)
        await store.rules.put(make.rule("one", namespace=TEAM))
        await store.rules.put(make.rule("one", namespace=TEAM, body='{"other": 1}'))
        for refused in (make.rule("two", namespace=TEAM), make.rule("w", namespace=TEAM, kind=RuleKind.WINDOW)):
            with pytest.raises(Conflict) as refusal:
                await store.rules.put(refused)
            assert refusal.value.code == "rules_exhausted"
        await store.rules.put(make.rule("two"))
        use = await store.quotas.use(TEAM)
        assert (use.calendars, use.windows) == (1, 0)
