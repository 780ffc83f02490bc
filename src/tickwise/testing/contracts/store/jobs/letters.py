"""Dead letters: every run that failed for good has one, it is settled once, and what it becomes is linked both ways."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import UNKNOWN_OUTCOME, OnUnknown
from tickwise.ports.store import (
    JobAction,
    LetterQuery,
    LetterResolution,
    LetterRow,
    LetterStatus,
    NewJob,
    NewRun,
    Receipt,
    Replay,
    Retention,
    Settled,
    Settlement,
    Store,
)
from tickwise.testing.contracts.base import DAY_SECONDS, LEASE_SECONDS, StoreContract
from tickwise.testing.factories import Factory, outcome

EXPIRE_SECONDS = 30 * DAY_SECONDS
LONG_SECONDS = 100 * DAY_SECONDS


class LettersContract(StoreContract):
    """Shortcuts for runs that failed for good."""

    async def failed(self, store: Store, make: Factory, job: NewJob | None = None, *, reason: str = "error") -> UUID:
        """A run that ended so."""
        executor = await self.register(store, lease_seconds=LONG_SECONDS)
        claimed = await self.held(store, executor, make.job() if job is None else job)
        assert await self.finish(store, executor, outcome(claimed, RunState.FAILED, reason=reason, error="no!")) == []
        return claimed.run_id

    async def held_letter(self, store: Store, make: Factory, job: NewJob | None = None) -> UUID:
        """A run whose executor was lost, and whose outcome is not known."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job() if job is None else job)
        await self.begin(store, executor, claimed, on_unknown=OnUnknown.HOLD)
        await store.executors.leave(executor)
        return claimed.run_id

    async def letter(self, store: Store, run_id: UUID, expire_seconds: float = EXPIRE_SECONDS) -> LetterRow:
        """A letter that must be there."""
        row = await store.letters.get("default", run_id, expire_seconds)
        assert row is not None
        return row

    async def letters(self, store: Store, **fields: Any) -> list[UUID]:
        """The runs whose letters a search finds; it counts as many."""
        query = LetterQuery(**{"namespace": "default", "expire_seconds": EXPIRE_SECONDS, **fields})
        found = [row.run.run_id for row in await store.searches.letters(query)]
        assert await store.searches.count(query) == len(found)
        return found

    async def settle(
        self, store: Store, *settlements: Settlement, receipt: Receipt | None = None, namespace: str = "default"
    ) -> list[Settled]:
        """Ada settles; the answers."""
        answer = await store.letters.settle(namespace, settlements, by="ada", receipt=receipt)
        assert not isinstance(answer, Replay)
        return list(answer)

    async def again(self, store: Store, make: Factory, run_id: UUID) -> NewRun:
        """The run that a letter is to become."""
        job_id = (await self.run_row(store, run_id)).job_id
        return make.run(job_id, trigger=Trigger.RETRY, origin=run_id)


def discarded(run_id: UUID, note: str | None = None) -> Settlement:
    """Nothing is to be done about it."""
    return Settlement(run_id, LetterStatus.DISCARDED, note=note)


def redriven(run_id: UUID, run: NewRun) -> Settlement:
    """It is tried once more, as this run."""
    return Settlement(run_id, LetterStatus.REDRIVEN, run=run)


def decided(run_id: UUID, resolution: LetterResolution) -> Settlement:
    """A person has found out."""
    return Settlement(run_id, LetterStatus.RESOLVED, resolution=resolution)


class FoundLettersContract(LettersContract):
    """`searches.letters`, `count`, `letters.get`."""

    async def test_a_run_that_failed_for_good_is_a_letter(self, store: Store, make: Factory) -> None:
        """With all that is known of the run, and what its job is."""
        run_id = await self.failed(store, make, make.job(name="pay", task_kind="http"), reason="http_status")
        row = await self.letter(store, run_id)
        assert row.run == await self.run_row(store, run_id)
        assert (row.job_name, row.task_kind, row.status) == ("pay", "http", LetterStatus.OPEN)
        assert (row.settled_at, row.settled_by, row.note, row.redriven_as, row.resolution) == (None,) * 5

    @pytest.mark.parametrize("end", [RunState.SUCCESS, RunState.CANCELLED, RunState.SKIPPED, RunState.RETRYING])
    async def test_nothing_else_is_a_letter(self, store: Store, make: Factory, end: RunState) -> None:
        """Neither what ended otherwise nor what is yet to be tried again."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        assert await self.finish(store, executor, outcome(claimed, end)) == []
        assert await self.letters(store) == []
        assert await store.letters.get("default", claimed.run_id, EXPIRE_SECONDS) is None

    async def test_a_poisoned_run_is_a_letter(self, store: Store, make: Factory) -> None:
        """Also if the store ended it, not an executor."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        await self.shift(store, LEASE_SECONDS + 1.0)
        await store.executors.expire(crashes_max=1)
        row = await self.letter(store, claimed.run_id)
        assert (row.status, row.run.reason) == (LetterStatus.OPEN, "poison")

    async def test_a_letter_whose_outcome_is_unknown_is_held(self, store: Store, make: Factory) -> None:
        """It waits for a person."""
        row = await self.letter(store, await self.held_letter(store, make))
        assert (row.status, row.run.reason) == (LetterStatus.HELD, UNKNOWN_OUTCOME)

    @pytest.mark.parametrize("held", [False, True])
    async def test_what_nobody_settles_in_time_expires(self, store: Store, make: Factory, held: bool) -> None:
        """It expires a time after its end that the reader names; no process has to act."""
        run_id = await (self.held_letter(store, make) if held else self.failed(store, make))
        await self.shift(store, EXPIRE_SECONDS + 10.0)
        assert (await self.letter(store, run_id)).status is LetterStatus.EXPIRED
        before = LetterStatus.HELD if held else LetterStatus.OPEN
        assert (await self.letter(store, run_id, 2 * EXPIRE_SECONDS)).status is before

    async def test_what_was_settled_does_not_expire(self, store: Store, make: Factory) -> None:
        """It tells what became of it."""
        run_id = await self.failed(store, make)
        assert await self.settle(store, discarded(run_id)) == [Settled.SETTLED]
        await self.shift(store, EXPIRE_SECONDS + 10.0)
        assert (await self.letter(store, run_id)).status is LetterStatus.DISCARDED

    async def test_the_newest_comes_first_and_pages_join(self, store: Store, make: Factory) -> None:
        """No letter twice, none left out."""
        runs = [await self.failed(store, make, make.job(make.now - ago)) for ago in range(5)]
        newest_first = sorted(runs, reverse=True)
        assert await self.letters(store) == newest_first
        first = await self.letters(store, limit=2)
        assert first == newest_first[:2]
        assert await self.letters(store, before=first[-1], limit=10) == newest_first[2:]

    async def test_a_count_goes_no_further_than_it_is_asked_to(self, store: Store, make: Factory) -> None:
        """Counting a million letters would take its time."""
        for ago in range(3):
            await self.failed(store, make, make.job(make.now - ago))
        query = LetterQuery(namespace="default", expire_seconds=EXPIRE_SECONDS, limit=2)
        assert await store.searches.count(query) == 2

    async def test_letters_are_found_by_their_standing(self, store: Store, make: Factory) -> None:
        """One, or one of several."""
        opened, held = await self.failed(store, make), await self.held_letter(store, make)
        gone = await self.failed(store, make)
        await self.settle(store, discarded(gone))
        assert await self.letters(store, statuses=(LetterStatus.OPEN,)) == [opened]
        assert await self.letters(store, statuses=(LetterStatus.HELD,)) == [held]
        two = await self.letters(store, statuses=(LetterStatus.HELD, LetterStatus.DISCARDED))
        assert two == sorted([held, gone], reverse=True)
        assert await self.letters(store, statuses=(LetterStatus.EXPIRED, LetterStatus.REDRIVEN)) == []

    async def test_letters_are_found_by_job_kind_and_reason(self, store: Store, make: Factory) -> None:
        """And only if all that is given is so."""
        job = make.job(task_kind="http")
        one = await self.failed(store, make, job, reason="timeout")
        two = await self.failed(store, make, reason="exit_code")
        assert await self.letters(store, job_id=job.job_id) == [one]
        assert await self.letters(store, task_kind="shell") == [two]
        assert await self.letters(store, reason="timeout") == [one]
        assert await self.letters(store, reason="timeout", task_kind="shell") == []
        assert await self.letters(store, job_id=make.identifier()) == []

    async def test_letters_are_found_by_when_they_ended(self, store: Store, make: Factory) -> None:
        """From an instant on, and to before the next."""
        run_id = await self.failed(store, make)
        ended = (await self.run_row(store, run_id)).ended_at
        assert ended is not None
        assert await self.letters(store, ended_after=ended - 1.0, ended_before=ended + 1.0) == [run_id]
        assert await self.letters(store, ended_after=ended) == [run_id]
        assert await self.letters(store, ended_before=ended) == []
        assert await self.letters(store, ended_after=ended + 1.0) == []

    async def test_nobody_sees_letters_of_another_namespace(self, store: Store, make: Factory) -> None:
        """Neither in lists nor one by one."""
        run_id = await self.failed(store, make)
        assert await self.letters(store, namespace="elsewhere") == []
        assert await store.letters.get("elsewhere", run_id, EXPIRE_SECONDS) is None

    async def test_a_letter_goes_with_its_run(self, store: Store, make: Factory) -> None:
        """It goes when failed runs are past their time, and never before."""
        run_id = await self.failed(store, make)
        await self.settle(store, discarded(run_id))
        await self.shift(store, 50 * DAY_SECONDS)
        await store.upkeep.maintain(Retention(runs_seconds=DAY_SECONDS, failed_seconds=90 * DAY_SECONDS))
        assert (await self.letter(store, run_id)).status is LetterStatus.DISCARDED
        await self.shift(store, 50 * DAY_SECONDS)
        await store.upkeep.maintain(Retention(runs_seconds=DAY_SECONDS, failed_seconds=90 * DAY_SECONDS))
        assert await self.letters(store) == []


class SettledLettersContract(LettersContract):
    """`letters.settle`."""

    async def test_a_redrive_is_a_new_run_linked_both_ways(self, store: Store, make: Factory) -> None:
        """Of the same job, claimable at once; the failed one stays as it is."""
        run_id = await self.failed(store, make)
        failed = await self.run_row(store, run_id)
        run = await self.again(store, make, run_id)
        before = await store.now()
        assert await self.settle(store, redriven(run_id, run)) == [Settled.SETTLED]
        row = await self.run_row(store, run.run_id)
        assert (row.state, row.job_id, row.origin, row.trigger) == (
            RunState.QUEUED,
            failed.job_id,
            run_id,
            Trigger.RETRY,
        )
        letter = await self.letter(store, run_id)
        assert (letter.status, letter.redriven_as, letter.settled_by) == (LetterStatus.REDRIVEN, run.run_id, "ada")
        assert letter.settled_at is not None
        assert before - 0.001 <= letter.settled_at <= await store.now() + 0.001
        assert letter.run == failed

    async def test_a_redriven_run_is_run(self, store: Store, make: Factory) -> None:
        """With its own payload, if it was given one."""
        run_id = await self.failed(store, make)
        run = (await self.again(store, make, run_id))._replace(definition='{"payload": 2}')
        await self.settle(store, redriven(run_id, run))
        [claimed] = await self.claim_freed(store, await self.register(store, "two"))
        assert (claimed.run_id, claimed.spec, claimed.attempt) == (run.run_id, '{"payload": 2}', 1)

    async def test_a_discarded_letter_says_why(self, store: Store, make: Factory) -> None:
        """And by whom; no run comes of it."""
        run_id = await self.failed(store, make)
        assert await self.settle(store, discarded(run_id, note="paid by hand")) == [Settled.SETTLED]
        letter = await self.letter(store, run_id)
        assert (letter.status, letter.note, letter.settled_by) == (LetterStatus.DISCARDED, "paid by hand", "ada")
        assert (letter.redriven_as, letter.resolution) == (None, None)
        assert (await store.upkeep.stats()).queued == 0

    @pytest.mark.parametrize("resolution", list(LetterResolution))
    async def test_a_held_letter_is_decided(self, store: Store, make: Factory, resolution: LetterResolution) -> None:
        """A person decides it after finding out the truth; the record of the run stays."""
        run_id = await self.held_letter(store, make)
        assert await self.settle(store, decided(run_id, resolution)) == [Settled.SETTLED]
        letter = await self.letter(store, run_id)
        assert (letter.status, letter.resolution) == (LetterStatus.RESOLVED, resolution)
        assert await self.run_state(store, run_id) is RunState.FAILED

    async def test_only_what_is_unknown_is_decided(self, store: Store, make: Factory) -> None:
        """Of all else it is known: it failed."""
        run_id = await self.failed(store, make)
        assert await self.settle(store, decided(run_id, LetterResolution.SUCCEEDED)) == [Settled.NOT_HELD]
        assert (await self.letter(store, run_id)).status is LetterStatus.OPEN

    async def test_a_held_letter_may_be_redriven_or_discarded_too(self, store: Store, make: Factory) -> None:
        """To run it again is a decision."""
        one, two = await self.held_letter(store, make), await self.held_letter(store, make)
        run = await self.again(store, make, one)
        assert await self.settle(store, redriven(one, run), discarded(two)) == [Settled.SETTLED] * 2
        assert await self.run_state(store, run.run_id) is RunState.QUEUED

    async def test_an_expired_letter_may_be_settled(self, store: Store, make: Factory) -> None:
        """Late is better than never."""
        opened, held = await self.failed(store, make), await self.held_letter(store, make)
        await self.shift(store, EXPIRE_SECONDS + 10.0)
        run = await self.again(store, make, opened)
        answers = await self.settle(store, redriven(opened, run), decided(held, LetterResolution.FAILED))
        assert answers == [Settled.SETTLED] * 2
        assert (await self.letter(store, opened)).status is LetterStatus.REDRIVEN

    async def test_the_same_settlement_again_changes_nothing(self, store: Store, make: Factory) -> None:
        """As after an answer that was lost: no second run, and who did it when stays."""
        one, two = await self.failed(store, make), await self.failed(store, make)
        three = await self.held_letter(store, make)
        run = await self.again(store, make, one)
        same = [redriven(one, run), discarded(two, "x"), decided(three, LetterResolution.SUCCEEDED)]
        assert await self.settle(store, *same) == [Settled.SETTLED] * 3
        before = [await self.letter(store, run_id) for run_id in (one, two, three)]
        await self.shift(store, 5.0)
        assert await self.settle(store, *same) == [Settled.REPEATED] * 3
        assert [await self.letter(store, run_id) for run_id in (one, two, three)] == before
        assert (await store.upkeep.stats()).queued == 1

    async def test_a_redrive_that_is_repeated_after_its_run_ended_makes_no_other(
        self, store: Store, make: Factory
    ) -> None:
        """The run is known by its name, active or ended."""
        run_id = await self.failed(store, make)
        run = await self.again(store, make, run_id)
        await self.settle(store, redriven(run_id, run))
        executor = await self.register(store, "two", lease_seconds=LONG_SECONDS)
        [claimed] = await self.claim_freed(store, executor)
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert await self.settle(store, redriven(run_id, run)) == [Settled.REPEATED]
        assert await self.run_state(store, run.run_id) is RunState.SUCCESS

    async def test_what_was_settled_otherwise_is_taken(self, store: Store, make: Factory) -> None:
        """The first one's word stays, and the second's run is not made."""
        one, two = await self.failed(store, make), await self.failed(store, make)
        three = await self.held_letter(store, make)
        first, second = await self.again(store, make, one), await self.again(store, make, one)
        third = await self.again(store, make, two)
        await self.settle(store, redriven(one, first), discarded(two), decided(three, LetterResolution.SUCCEEDED))
        answers = await self.settle(
            store, redriven(one, second), redriven(two, third), decided(three, LetterResolution.FAILED), discarded(one)
        )
        assert answers == [Settled.TAKEN] * 4
        assert [await self.run_state(store, run.run_id) for run in (second, third)] == [None, None]
        assert (await self.letter(store, one)).redriven_as == first.run_id
        assert (await self.letter(store, three)).resolution is LetterResolution.SUCCEEDED

    async def test_twice_in_one_batch_is_once(self, store: Store, make: Factory) -> None:
        """The first of them settles it."""
        run_id = await self.failed(store, make)
        answers = await self.settle(store, discarded(run_id), discarded(run_id))
        assert answers == [Settled.SETTLED, Settled.REPEATED]

    async def test_only_failed_runs_of_the_namespace_are_settled(self, store: Store, make: Factory) -> None:
        """Active runs, other ends, runs of other namespaces and unknown ids are all the same: no letters."""
        executor = await self.register(store)
        done = await self.held(store, executor, make.job())
        assert await self.finish(store, executor, outcome(done)) == []
        active = await self.held(store, executor, make.job())
        failed = await self.failed(store, make)
        settlements = [discarded(run_id) for run_id in (done.run_id, active.run_id, make.identifier())]
        assert await self.settle(store, *settlements) == [Settled.NOT_FAILED] * 3
        assert await self.settle(store, discarded(failed), namespace="elsewhere") == [Settled.NOT_FAILED]
        assert (await self.letter(store, failed)).status is LetterStatus.OPEN

    async def test_what_a_cancelled_job_failed_at_is_not_redriven(self, store: Store, make: Factory) -> None:
        """A cancelled job never runs again; its letters may be discarded."""
        run_id = await self.failed(store, make)
        run = await self.again(store, make, run_id)
        await store.jobs.move(make.move((await self.run_row(store, run_id)).job_id, JobAction.CANCEL))
        assert await self.settle(store, redriven(run_id, run)) == [Settled.JOB_CANCELLED]
        assert await self.run_state(store, run.run_id) is None
        assert await self.settle(store, discarded(run_id)) == [Settled.SETTLED]

    async def test_a_settlement_that_is_repeated_after_its_job_was_cancelled_is_a_repeat(
        self, store: Store, make: Factory
    ) -> None:
        """It was carried out, whatever came after it. Another settlement comes too late."""
        run_id = await self.failed(store, make)
        run = await self.again(store, make, run_id)
        assert await self.settle(store, redriven(run_id, run)) == [Settled.SETTLED]
        await store.jobs.move(make.move((await self.run_row(store, run_id)).job_id, JobAction.CANCEL))
        assert await self.settle(store, redriven(run_id, run)) == [Settled.REPEATED]
        assert await self.settle(store, discarded(run_id)) == [Settled.TAKEN]

    async def test_each_letter_of_a_batch_is_settled_for_itself(self, store: Store, make: Factory) -> None:
        """A letter that cannot be settled holds up no other; the answers come in the order asked."""
        one, two = await self.failed(store, make), await self.failed(store, make)
        nothing = make.identifier()
        answers = await self.settle(store, discarded(one), discarded(nothing), discarded(two))
        assert answers == [Settled.SETTLED, Settled.NOT_FAILED, Settled.SETTLED]

    async def test_an_answer_is_kept_with_what_it_tells_of(self, store: Store, make: Factory) -> None:
        """A repeat of the Idempotency-Key gets it again."""
        run_id = await self.failed(store, make)
        receipt = make.receipt(route="POST /dead-letters/x/discard")
        assert await self.settle(store, discarded(run_id), receipt=receipt) == [Settled.SETTLED]
        answer = await store.letters.settle("default", [discarded(run_id)], by="eve", receipt=receipt)
        assert answer == Replay(body_digest=receipt.body_digest, status=receipt.status, body=receipt.body)

    async def test_no_answer_is_kept_of_what_was_refused(self, store: Store, make: Factory) -> None:
        """Another try may succeed."""
        run_id = await self.failed(store, make)
        receipt = make.receipt(route="POST /dead-letters/x/decide")
        assert await self.settle(store, decided(run_id, LetterResolution.FAILED), receipt=receipt) == [Settled.NOT_HELD]
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) is None

    async def test_of_many_who_redrive_one_letter_at_once_one_does(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Eight at the same moment, through two clients: one run."""
        run_id = await self.failed(store, make)
        runs = [await self.again(store, make, run_id) for _ in range(8)]
        answers = await asyncio.gather(
            *(self.settle(client, redriven(run_id, run)) for client, run in zip([store, other] * 4, runs, strict=True))
        )
        assert sorted(answer for [answer] in answers) == sorted([Settled.SETTLED] + [Settled.TAKEN] * 7)
        letter = await self.letter(store, run_id)
        made = [run.run_id for run in runs if await self.run_state(store, run.run_id) is not None]
        assert made == [letter.redriven_as]

    async def test_settlements_that_meet_in_another_order_do_not_stop_each_other(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Two batches of the same letters, one backwards: each letter is settled once, and nobody waits for ever."""
        runs = [await self.failed(store, make) for _ in range(6)]
        forth, back = await asyncio.gather(
            self.settle(store, *(discarded(run_id) for run_id in runs)),
            self.settle(other, *(discarded(run_id) for run_id in reversed(runs))),
        )
        assert sorted(forth + back) == sorted([Settled.SETTLED] * 6 + [Settled.REPEATED] * 6)
