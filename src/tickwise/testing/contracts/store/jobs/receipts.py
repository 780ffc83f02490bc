"""Records beside jobs and runs: answers under an Idempotency-Key, stored tasks, requested runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest

from tickwise.domain.errors import NotFound, VersionConflict
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.ports.store import Added, JobAction, Receipt, Replay, Store, StoredTask
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract, added, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
ODD_BODY = bytes(range(256))


def replay_of(receipt: Receipt) -> Replay:
    """The answer to a repeated request."""
    return Replay(body_digest=receipt.body_digest, status=receipt.status, body=receipt.body)


class ReceiptsContract(StoreContract):
    """`receipts.find`, `receipts.keep`, and the receipts of `jobs.add` and `runs.add`."""

    async def test_an_answer_is_kept_with_the_jobs_that_it_tells_of(self, store: Store, make: Factory) -> None:
        """Byte for byte."""
        receipt = make.receipt(body=ODD_BODY, body_digest=b"d" * 32, status=201)
        assert list(added(await store.jobs.add([make.job()], receipt))) == [Added.CREATED]
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) == replay_of(receipt)

    @pytest.mark.parametrize("atomic", [False, True])
    async def test_a_used_key_answers_again_and_stores_nothing(self, store: Store, make: Factory, atomic: bool) -> None:
        """With any second body: the caller compares them."""
        add = partial(store.jobs.add, whole=atomic)
        receipt = make.receipt()
        first = make.job()
        assert list(added(await add([first], receipt))) == [Added.CREATED]
        second = make.job()
        other_body = make.receipt(key=receipt.key, body_digest=b"x" * 32, body=b"other", status=200)
        assert await add([second], other_body) == replay_of(receipt)
        assert await store.jobs.get("default", second.job_id) is None
        assert (await store.upkeep.stats()).queued == 1

    async def test_requests_under_one_key_at_the_same_time_have_one_effect(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """One is carried out, the others hear its answer."""
        receipt = make.receipt()
        answers = await asyncio.gather(*(client.jobs.add([make.job()], receipt) for client in [store, other] * 4))
        assert Counter(isinstance(answer, Replay) for answer in answers) == {True: 7, False: 1}
        assert (await store.upkeep.stats()).queued == 1

    async def test_an_answer_is_not_kept_if_a_job_was_refused(self, store: Store, make: Factory) -> None:
        """It would tell of what is not there; the true one is for `receipts.keep`."""
        await self.add(store, make.job(key="k"))
        for add in (store.jobs.add, partial(store.jobs.add, whole=True)):
            receipt = make.receipt()
            answers = added(await add([make.job(), make.job(key="k")], receipt))
            assert answers[1] is Added.KEY_TAKEN
            assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) is None

    async def test_an_answer_is_kept_for_a_repeated_job(self, store: Store, make: Factory) -> None:
        """A repeat has its effect, so it has its answer."""
        job, receipt = make.job(), make.receipt()
        await self.add(store, job)
        assert list(added(await store.jobs.add([job], receipt))) == [Added.REPEATED]
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) == replay_of(receipt)

    async def test_an_answer_expires(self, store: Store, make: Factory) -> None:
        """After a day, or what it says; then the key is as new."""
        receipt, longer = make.receipt(), make.receipt(keep_seconds=3 * DAY_SECONDS)
        await store.jobs.add([make.job()], receipt)
        await store.jobs.add([make.job()], longer)
        await self.shift(store, DAY_SECONDS - 10.0)
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) is not None
        await self.shift(store, 11.0)
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) is None
        assert await store.receipts.find(longer.principal, longer.route, longer.key) is not None
        assert list(added(await store.jobs.add([make.job()], receipt))) == [Added.CREATED]
        assert await store.receipts.keep(receipt) == replay_of(receipt)

    async def test_answers_are_each_principals_and_each_routes_own(self, store: Store, make: Factory) -> None:
        """A key of another principal or route is another key."""
        mine = make.receipt(key="k")
        await store.receipts.keep(mine)
        assert await store.receipts.find("grace", mine.route, "k") is None
        assert await store.receipts.find(mine.principal, "POST /tasks", "k") is None
        assert await store.receipts.keep(make.receipt(key="k", principal="grace")) is None
        assert await store.receipts.keep(make.receipt(key="k", route="POST /tasks")) is None

    async def test_the_first_answer_that_is_kept_stays(self, store: Store, make: Factory) -> None:
        """`receipts.keep` returns it to the second caller."""
        first = make.receipt(body=b"first")
        second = make.receipt(key=first.key, body=b"second")
        assert await store.receipts.keep(first) is None
        assert await store.receipts.keep(second) == replay_of(first)
        assert await store.receipts.find(first.principal, first.route, first.key) == replay_of(first)

    async def test_an_expired_answer_makes_room_for_a_new_one(self, store: Store, make: Factory) -> None:
        """The expired answer may be deleted by then, or not."""
        first = make.receipt(body=b"first", keep_seconds=60.0)
        second = make.receipt(key=first.key, body=b"second")
        await store.receipts.keep(first)
        await self.shift(store, 61.0)
        assert await store.receipts.keep(second) is None
        assert await store.receipts.find(first.principal, first.route, first.key) == replay_of(second)

    async def test_a_requested_run_is_made_once_under_one_key(self, store: Store, make: Factory) -> None:
        """`runs.add` with its receipt."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        receipt = make.receipt(route="POST /jobs/{id}/runNow", status=202)
        assert await store.runs.add("default", job.job_id, [make.run(job.job_id)], receipt=receipt) is True
        answer = await store.runs.add("default", job.job_id, [make.run(job.job_id)], receipt=receipt)
        assert answer == replay_of(receipt)
        assert (await store.upkeep.stats()).queued == 1

    async def test_no_answer_is_kept_for_a_run_that_was_not_made(self, store: Store, make: Factory) -> None:
        """Of a job that is cancelled, or not there."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        receipt = make.receipt()
        assert await store.runs.add("default", job.job_id, [make.run(job.job_id)], receipt=receipt) is False
        with pytest.raises(NotFound):
            await store.runs.add("default", make.identifier(), [make.run(job.job_id)], receipt=receipt)
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) is None


class RequestedRunsContract(StoreContract):
    """`runs.add`."""

    async def test_a_requested_run_waits_at_once(self, store: Store, make: Factory) -> None:
        """With its trigger and, for a retry, the run that it repeats."""
        job, executor = make.job(), await self.register(store)
        claimed = await self.held(store, executor, job)
        await self.finish(store, executor, outcome(claimed, RunState.FAILED))
        retry = make.run(job.job_id, trigger=Trigger.RETRY, origin=claimed.run_id)
        assert await store.runs.add("default", job.job_id, [retry]) is True
        row = await self.run_row(store, retry.run_id)
        assert (row.state, row.trigger, row.origin) == (RunState.QUEUED, Trigger.RETRY, claimed.run_id)
        [again] = await self.claim_freed(store, executor)
        assert (again.run_id, again.attempt, again.trigger) == (retry.run_id, 1, Trigger.RETRY)

    async def test_a_requested_run_is_due_no_earlier_than_now(self, store: Store, make: Factory) -> None:
        """By the store's clock, so that its lateness is not the caller's."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await self.shift(store, 60.0)
        early, later = make.run(job.job_id, make.now), make.run(job.job_id, make.now + 600.0)
        for run in (early, later):
            assert await store.runs.add("default", job.job_id, [run]) is True
        due = (await self.run_row(store, early.run_id)).due_at
        assert make.now + 60.0 <= due <= await store.now()
        assert microseconds((await self.run_row(store, later.run_id)).due_at) == microseconds(make.now + 600.0)

    async def test_a_requested_run_goes_where_its_job_goes(self, store: Store, make: Factory) -> None:
        """By the job's lane."""
        lane = make.job().lane._replace(queue="heavy", requires=("gpu",))
        job, executor = make.recurring(make.now + HOUR, lane=lane), await self.register(store)
        await self.add(store, job)
        await store.runs.add("default", job.job_id, [make.run(job.job_id)])
        assert list(await self.claim_freed(store, executor)) == []
        assert len(await self.claim(store, executor, queues=("heavy",), labels=("gpu",))) == 1

    async def test_a_run_that_was_requested_before_is_there_once(self, store: Store, make: Factory) -> None:
        """A commit in doubt, before and after the run has ended."""
        job, executor = make.recurring(make.now + HOUR), await self.register(store)
        await self.add(store, job)
        run = make.run(job.job_id)
        assert await store.runs.add("default", job.job_id, [run]) is True
        assert await store.runs.add("default", job.job_id, [run]) is True
        [claimed] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(claimed))
        assert await store.runs.add("default", job.job_id, [run]) is True
        assert await self.run_state(store, run.run_id) is RunState.SUCCESS
        assert list(await self.claim_freed(store, executor)) == []

    async def test_a_cancelled_job_is_not_run(self, store: Store, make: Factory) -> None:
        """False, and no run."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        run = make.run(job.job_id)
        assert await store.runs.add("default", job.job_id, [run]) is False
        assert await self.run_state(store, run.run_id) is None

    async def test_a_job_that_is_not_there_is_not_run(self, store: Store, make: Factory) -> None:
        """Nor another's."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        with pytest.raises(NotFound):
            await store.runs.add("default", make.identifier(), [make.run(job.job_id)])
        with pytest.raises(NotFound):
            await store.runs.add("elsewhere", job.job_id, [make.run(job.job_id)])
        assert (await store.upkeep.stats()).queued == 0


class TasksContract(StoreContract):
    """`tasks.put`, `tasks.get`, `tasks.page`."""

    async def test_a_stored_task_is_kept_byte_for_byte(self, store: Store, make: Factory) -> None:
        """With its version and creation given by the store."""
        put = make.task(task='{ "kind":"shell",\t"command": "echo \\u0000 😀" }', digest="a" * 64, name="Ünïcode")
        kept = await store.tasks.put(put)
        assert await store.tasks.get("default", put.task_id) == kept
        assert (kept.task, kept.digest, kept.name, kept.created_by) == (put.task, put.digest, put.name, "ada")
        assert (kept.version, kept.namespace, kept.task_id) == (1, "default", "clean-up")
        assert abs(kept.created_at - await store.now()) < 60.0

    async def test_who_has_stored_which_script_is_known(self, store: Store, make: Factory) -> None:
        """Of all versions of all namespaces, each once; also beside tasks that hold what a database finds odd."""
        file = '{"kind": "python", "file": "sha256:%s"}'
        await store.tasks.put(make.task(task='{"kind":"shell","command":"echo \\u0000 😀"}', digest="1" * 64))
        deeper = '{"kind": "http", "url": "http://a", "body": %s}' % (file % ("c" * 64))
        await store.tasks.put(make.task(task=deeper, digest="6" * 64))
        await store.tasks.put(make.task(task=file % ("a" * 64), digest="2" * 64))
        await store.tasks.put(make.task(task=file % ("b" * 64), digest="3" * 64))
        await store.tasks.put(make.task(task=file % ("a" * 64), digest="4" * 64, task_id="other"))
        await store.tasks.put(make.task(task=file % ("a" * 64), digest="5" * 64, namespace="elsewhere"))
        wanted = [("default", "a" * 64), ("default", "b" * 64), ("elsewhere", "a" * 64)]
        assert sorted(await store.tasks.scripts()) == wanted

    async def test_other_content_is_another_version(self, store: Store, make: Factory) -> None:
        """Each can be had; without a number, the newest."""
        tasks = [await store.tasks.put(make.task(digest=letter * 64, task=f'"{letter}"')) for letter in "aba"]
        assert [task.version for task in tasks] == [1, 2, 3]
        for task in tasks:
            assert await store.tasks.get("default", task.task_id, task.version) == task
        assert await store.tasks.get("default", "clean-up") == tasks[-1]
        assert await store.tasks.get("default", "clean-up", 4) is None
        assert await store.tasks.get("default", "nothing") is None

    async def test_the_same_content_as_the_newest_is_that_one(self, store: Store, make: Factory) -> None:
        """Putting twice is putting once."""
        first = await store.tasks.put(make.task(digest="a" * 64, name="first"))
        assert await store.tasks.put(make.task(digest="a" * 64, name="second")) == first
        assert await store.tasks.get("default", "clean-up", 2) is None

    async def test_versions_that_are_put_together_each_get_a_number(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Without gaps and without losing one."""
        puts: list[StoredTask] = [make.task(digest=f"{number:064}", task=str(number)) for number in range(8)]
        kept = await asyncio.gather(
            *(client.tasks.put(task) for client, task in zip([store, other] * 4, puts, strict=True))
        )
        assert sorted(task.version for task in kept) == list(range(1, 9))
        assert {task.digest for task in kept} == {task.digest for task in puts}

    async def test_a_task_can_be_put_only_as_it_was_read(self, store: Store, make: Factory) -> None:
        """Only created, or only in place of one version; a repeat of what is in doubt is answered as it was."""
        first = await store.tasks.put(make.task(digest="a" * 64), 0)
        assert await store.tasks.put(make.task(digest="a" * 64), 0, again=True) == first
        for expected in (0, 2):
            with pytest.raises(VersionConflict):
                await store.tasks.put(make.task(digest="a" * 64), expected)
        second = await store.tasks.put(make.task(digest="b" * 64), 1)
        assert (second.version, await store.tasks.put(make.task(digest="b" * 64), 1, again=True)) == (2, second)
        for expected in (0, 1, 3):
            with pytest.raises(VersionConflict):
                await store.tasks.put(make.task(digest="c" * 64), expected)
        with pytest.raises(VersionConflict):
            await store.tasks.put(make.task(digest="c" * 64, task_id="other"), 1)
        assert await store.tasks.get("default", "other") is None

    async def test_of_many_who_put_in_place_of_one_version_one_does(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """The others hear of it, also if they put the same."""
        await store.tasks.put(make.task(digest="a" * 64))
        puts = [client.tasks.put(make.task(digest="b" * 64), 1) for client in [store, other] * 3]
        answers = await asyncio.gather(*puts, return_exceptions=True)
        assert sum(isinstance(answer, VersionConflict) for answer in answers) == 5
        assert [row.version for row in await store.tasks.versions("default", "clean-up", before=None, limit=10)] == [
            2,
            1,
        ]

    async def test_the_versions_of_a_task_are_listed_newest_first_in_pages(self, store: Store, make: Factory) -> None:
        """Of that task alone."""
        for letter in "abc":
            await store.tasks.put(make.task(digest=letter * 64))
        await store.tasks.put(make.task(digest="d" * 64, namespace="elsewhere"))
        await store.tasks.put(make.task(digest="d" * 64, task_id="other"))
        first = await store.tasks.versions("default", "clean-up", before=None, limit=2)
        rest = await store.tasks.versions("default", "clean-up", before=first[-1].version, limit=2)
        assert [(row.version, row.digest[0]) for row in (*first, *rest)] == [(3, "c"), (2, "b"), (1, "a")]
        assert list(await store.tasks.versions("default", "none", before=None, limit=2)) == []

    async def test_tasks_are_listed_newest_version_each_in_pages(self, store: Store, make: Factory) -> None:
        """By id, from after the last one of the page before."""
        for task_id in ("delta", "alpha", "charlie", "bravo"):
            await store.tasks.put(make.task(task_id=task_id, digest="a" * 64))
        await store.tasks.put(make.task(task_id="bravo", digest="b" * 64))
        await store.tasks.put(make.task(task_id="aardvark", namespace="elsewhere"))
        first = await store.tasks.page("default", None, 3)
        assert [(task.task_id, task.version) for task in first] == [("alpha", 1), ("bravo", 2), ("charlie", 1)]
        rest = await store.tasks.page("default", first[-1].task_id, 3)
        assert [task.task_id for task in rest] == ["delta"]

    async def test_tasks_are_each_namespaces_own(self, store: Store, make: Factory) -> None:
        """Equal ids in two namespaces are two tasks."""
        await store.tasks.put(make.task(digest="a" * 64))
        elsewhere = await store.tasks.put(make.task(namespace="elsewhere", digest="b" * 64))
        assert elsewhere.version == 1
        assert await store.tasks.get("nowhere", "clean-up") is None
        mine = await store.tasks.get("default", "clean-up")
        assert mine is not None
        assert mine.digest == "a" * 64
