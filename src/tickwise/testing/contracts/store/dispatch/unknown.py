"""Runs whose executor is lost after their start was recorded: again, failed, or held until a person decides."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import EXECUTOR_LOST, UNKNOWN_OUTCOME, OnUnknown
from tickwise.ports.store import Expired, RunCancel, Store
from tickwise.testing.contracts.base import LEASE_SECONDS
from tickwise.testing.contracts.store.dispatch.overlap import LineContract
from tickwise.testing.factories import Factory, outcome

CRASHES_MAX = 3
ENDS = [(OnUnknown.FAIL, EXECUTOR_LOST), (OnUnknown.HOLD, UNKNOWN_OUTCOME)]
"""The `on_unknown` of a recorded start, and the reason of the run's end if its executor is lost then."""


class UnknownContract(LineContract):
    """`Began.on_unknown`, in `executors.expire` and `executors.leave`."""

    async def begun(self, store: Store, make: Factory, on_unknown: OnUnknown, **fields: Any) -> tuple[int, Claimed]:
        """An executor with a run whose recorded start says this."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job(**fields))
        await self.begin(store, executor, claimed, on_unknown=on_unknown)
        return executor, claimed

    async def lose(self, store: Store) -> Expired:
        """All leases run out, and that is found."""
        await self.shift(store, LEASE_SECONDS + 1.0)
        return await store.executors.expire(crashes_max=CRASHES_MAX)

    @pytest.mark.parametrize(("on_unknown", "reason"), ENDS)
    async def test_what_must_not_run_twice_fails_when_its_lease_is_lost(
        self, store: Store, make: Factory, on_unknown: OnUnknown, reason: str
    ) -> None:
        """At once, at the first crash, and the caller is told which."""
        executor, claimed = await self.begun(store, make, on_unknown)
        expired = await self.lose(store)
        assert (list(expired.executors), list(expired.unknown)) == ([executor], [claimed.run_id])
        assert (expired.freed, list(expired.quarantined)) == (0, [])
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.reason, row.crashes, row.failures) == (RunState.FAILED, reason, 1, 0)
        assert row.ended_at is not None
        assert row.error

    @pytest.mark.parametrize(("on_unknown", "reason"), ENDS)
    async def test_what_must_not_run_twice_fails_when_its_executor_leaves(
        self, store: Store, make: Factory, on_unknown: OnUnknown, reason: str
    ) -> None:
        """In good order too: it was let down all the same."""
        executor, claimed = await self.begun(store, make, on_unknown)
        await store.executors.leave(executor)
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.reason) == (RunState.FAILED, reason)

    @pytest.mark.parametrize(("on_unknown", "reason"), ENDS)
    async def test_a_late_report_of_a_run_that_the_store_ended_is_refused(
        self, store: Store, make: Factory, on_unknown: OnUnknown, reason: str
    ) -> None:
        """Its lease was lost, so its executor no longer decides the end, even if both say FAILED."""
        executor, claimed = await self.begun(store, make, on_unknown)
        await self.lose(store)
        for state in (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED):
            late = outcome(claimed, state, reason="exit_code")
            assert [claimed.run_id] == await self.finish(store, executor, late), state
        assert reason == (await self.run_row(store, claimed.run_id)).reason

    @pytest.mark.parametrize(("on_unknown", "reason"), ENDS)
    async def test_the_attempt_that_was_lost_is_on_record(
        self, store: Store, make: Factory, on_unknown: OnUnknown, reason: str
    ) -> None:
        """As the last one, with its start and its executor."""
        executor, claimed = await self.begun(store, make, on_unknown)
        await self.lose(store)
        [attempt] = await store.runs.attempts(claimed.run_id)
        assert (attempt.state, attempt.reason, attempt.executor) == (RunState.FAILED, reason, executor)
        assert attempt.started_at is not None

    @pytest.mark.parametrize(("on_unknown", "_reason"), ENDS)
    async def test_it_is_never_claimed_again(
        self, store: Store, make: Factory, on_unknown: OnUnknown, _reason: str
    ) -> None:
        """By nobody, however often leases are looked at."""
        await self.begun(store, make, on_unknown)
        await self.lose(store)
        assert list((await store.executors.expire(crashes_max=CRASHES_MAX)).unknown) == []
        assert list(await self.claim_freed(store, await self.register(store, "two"))) == []

    @pytest.mark.parametrize(("on_unknown", "reason"), ENDS)
    async def test_the_lost_executor_cannot_report_it_any_more(
        self, store: Store, make: Factory, on_unknown: OnUnknown, reason: str
    ) -> None:
        """Its word is refused, and what is on record stays."""
        executor, claimed = await self.begun(store, make, on_unknown)
        await self.lose(store)
        assert await self.finish(store, executor, outcome(claimed)) == [claimed.run_id]
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.reason) == (RunState.FAILED, reason)

    async def test_what_may_run_again_does(self, store: Store, make: Factory) -> None:
        """Elsewhere, guarded, with its crash counted."""
        _, claimed = await self.begun(store, make, OnUnknown.RERUN)
        expired = await self.lose(store)
        assert (expired.freed, list(expired.unknown)) == (1, [])
        [again] = await self.claim_freed(store, await self.register(store, "two"))
        assert (again.run_id, again.attempt, again.crashes, again.guarded) == (claimed.run_id, 2, 1, True)

    async def test_what_was_merely_held_goes_to_another_one(self, store: Store, make: Factory) -> None:
        """Only a recorded start tells what is to become of a run."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        expired = await self.lose(store)
        assert (expired.freed, list(expired.unknown)) == (1, [])
        assert await self.run_state(store, claimed.run_id) is RunState.QUEUED

    async def test_a_start_speaks_for_its_own_attempt_alone(self, store: Store, make: Factory) -> None:
        """After a retry, what the start before said is forgotten."""
        executor, claimed = await self.begun(store, make, OnUnknown.FAIL)
        assert await self.finish(store, executor, outcome(claimed, RunState.RETRYING, retry_at=claimed.now)) == []
        [again] = await self.claim_freed(store, executor)
        await self.begin(store, executor, again)
        expired = await self.lose(store)
        assert (expired.freed, list(expired.unknown)) == (1, [])

    async def test_the_last_start_is_the_one_that_counts(self, store: Store, make: Factory) -> None:
        """A further attempt may say what the first did not."""
        executor, claimed = await self.begun(store, make, OnUnknown.RERUN)
        assert await self.finish(store, executor, outcome(claimed, RunState.RETRYING, retry_at=claimed.now)) == []
        [again] = await self.claim_freed(store, executor)
        await self.begin(store, executor, again, on_unknown=OnUnknown.FAIL)
        assert list((await self.lose(store)).unknown) == [claimed.run_id]
        assert [attempt.attempt for attempt in await store.runs.attempts(claimed.run_id)] == [1, 2]

    @pytest.mark.parametrize(("on_unknown", "reason"), ENDS)
    async def test_its_own_word_goes_before_poison(
        self, store: Store, make: Factory, on_unknown: OnUnknown, reason: str
    ) -> None:
        """Even if this crash is one too many in any case."""
        _, claimed = await self.begun(store, make, on_unknown)
        await self.shift(store, LEASE_SECONDS + 1.0)
        expired = await store.executors.expire(crashes_max=1)
        assert (list(expired.quarantined), list(expired.unknown)) == ([], [claimed.run_id])
        assert (await self.run_row(store, claimed.run_id)).reason == reason

    @pytest.mark.parametrize(("on_unknown", "_reason"), ENDS)
    @pytest.mark.parametrize("leaves", [False, True])
    async def test_what_was_asked_to_stop_ends_cancelled(
        self, store: Store, make: Factory, on_unknown: OnUnknown, _reason: str, leaves: bool
    ) -> None:
        """Nobody waits for its outcome any more."""
        executor, claimed = await self.begun(store, make, on_unknown)
        await store.runs.move(RunCancel("default", claimed.run_id, "ada"))
        if leaves:
            await store.executors.leave(executor)
        else:
            assert list((await self.lose(store)).unknown) == []
        assert await self.run_state(store, claimed.run_id) is RunState.CANCELLED

    async def test_it_holds_up_nobody_else(self, store: Store, make: Factory) -> None:
        """One executor held one of each kind; each goes its way."""
        executor = await self.register(store)
        await self.add(store, *(make.job(make.now - ago) for ago in range(4)))
        claims = await self.claim(store, executor)
        for claimed, on_unknown in zip(claims, [*OnUnknown, None], strict=True):
            if on_unknown is not None:
                await self.begin(store, executor, claimed, on_unknown=on_unknown)
        expired = await self.lose(store)
        rerun, failed, held, merely = claims
        assert (expired.freed, set(expired.unknown)) == (2, {failed.run_id, held.run_id})
        assert list(expired.held) == [held.run_id]
        states = [await self.run_state(store, each.run_id) for each in (rerun, failed, held, merely)]
        assert states == [RunState.QUEUED, RunState.FAILED, RunState.FAILED, RunState.QUEUED]

    @pytest.mark.parametrize("on_unknown", list(OnUnknown))
    @pytest.mark.parametrize("leaves", [False, True])
    async def test_what_waits_for_it_goes_on(
        self, store: Store, make: Factory, *, on_unknown: OnUnknown, leaves: bool
    ) -> None:
        """The next run of the job waits for one that runs again, and no longer for one that failed."""
        job_id = await self.job_with(store, make, Overlap.QUEUE_ALL, Overlap.QUEUE_ALL)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        await self.begin(store, one, first, on_unknown=on_unknown)
        assert await self.starts(store, two, second) == [False]
        await (store.executors.leave(one) if leaves else self.lose(store))
        if on_unknown is OnUnknown.RERUN:
            assert await store.runs.unblock() == 0
            assert await self.waits(store, second.run_id)
        else:
            assert await self.goes_on(store, second.run_id)
        assert (await self.job_row(store, job_id)).status == "SCHEDULED"
