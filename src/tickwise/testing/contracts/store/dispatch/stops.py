"""Requests to stop: who asked when, when it was heard, and who wins when a request meets an end."""

from __future__ import annotations

import asyncio

import pytest

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import CancelRow, JobAction, RunCancel, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0


class StopsContract(StoreContract):
    """`RunRow.cancel`, and what `executors.beat` marks."""

    async def asked(self, store: Store, make: Factory) -> tuple[int, Claimed]:
        """An executor whose run Ada wants stopped."""
        executor = await self.register(store, lease_seconds=HOUR)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        assert await store.runs.move(RunCancel("default", claimed.run_id, "ada")) is RunState.RUNNING
        return executor, claimed

    async def request(self, store: Store, claimed: Claimed) -> CancelRow:
        """The stop request as the store shows it."""
        cancel = (await self.run_row(store, claimed.run_id)).cancel
        assert cancel is not None
        return cancel

    async def test_who_asked_and_when_is_told(self, store: Store, make: Factory) -> None:
        """From the request on; nobody has heard it yet."""
        before = await store.now()
        _, claimed = await self.asked(store, make)
        cancel = await self.request(store, claimed)
        assert before - 0.001 <= cancel.asked_at <= await store.now() + 0.001
        assert (cancel.error, cancel.heard_at) == ("cancelled by ada", None)

    async def test_when_it_was_heard_is_told(self, store: Store, make: Factory) -> None:
        """At its holder's next heartbeat; further ones hear it again, and that changes nothing."""
        executor, claimed = await self.asked(store, make)
        await self.shift(store, 1.0)
        assert len(await self.cancels(store, executor)) == 1
        first = await self.request(store, claimed)
        assert first.heard_at is not None
        assert first.heard_at >= first.asked_at + 0.9
        await self.shift(store, 1.0)
        assert len(await self.cancels(store, executor)) == 1
        assert await self.request(store, claimed) == first

    async def test_another_ones_heartbeat_hears_nothing(self, store: Store, make: Factory) -> None:
        """Only the holder's counts."""
        _, claimed = await self.asked(store, make)
        assert await self.cancels(store, await self.register(store, "two")) == []
        assert (await self.request(store, claimed)).heard_at is None

    @pytest.mark.parametrize("state", [RunState.CANCELLED, RunState.RETRYING, RunState.QUEUED])
    async def test_a_run_that_ended_so_tells_of_its_request(self, store: Store, make: Factory, state: RunState) -> None:
        """Its holder ended the run, or returned it and the store ended it."""
        executor, claimed = await self.asked(store, make)
        await self.cancels(store, executor)
        asked = await self.request(store, claimed)
        assert asked.heard_at is not None
        assert await self.finish(store, executor, outcome(claimed, state)) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.cancel) == (RunState.CANCELLED, asked)

    async def test_a_run_whose_holder_was_lost_tells_that_it_never_heard(self, store: Store, make: Factory) -> None:
        """It ends CANCELLED all the same."""
        _, claimed = await self.asked(store, make)
        await self.shift(store, HOUR + 10.0)
        await store.executors.expire(crashes_max=3)
        row = await self.run_row(store, claimed.run_id)
        assert row.state is RunState.CANCELLED
        assert row.cancel is not None
        assert (row.cancel.error, row.cancel.heard_at) == ("cancelled by ada", None)

    async def test_a_run_that_ended_before_it_was_stopped_tells_of_none(self, store: Store, make: Factory) -> None:
        """It ended as it ended."""
        executor, claimed = await self.asked(store, make)
        assert await self.finish(store, executor, outcome(claimed)) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.cancel) == (RunState.SUCCESS, None)

    async def test_a_free_run_is_cancelled_without_a_request(self, store: Store, make: Factory) -> None:
        """There was nobody to ask."""
        job = make.job()
        await self.add(store, job)
        assert job.run_id is not None
        await store.runs.move(RunCancel("default", job.run_id, "ada"))
        assert (await self.run_row(store, job.run_id)).cancel is None

    async def test_a_run_that_nobody_asked_to_stop_tells_of_none(self, store: Store, make: Factory) -> None:
        """Its own executor stopped it."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        assert (await self.run_row(store, claimed.run_id)).cancel is None
        assert await self.finish(store, executor, outcome(claimed, RunState.CANCELLED)) == []
        assert (await self.run_row(store, claimed.run_id)).cancel is None

    async def test_cancelling_a_job_asks_the_holders_of_its_runs(self, store: Store, make: Factory) -> None:
        """With the reason that was given."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.jobs.move(make.move(claimed.job_id, JobAction.CANCEL, reason="cancelled by ada"))
        assert (await self.request(store, claimed)).error == "cancelled by ada"

    async def test_a_cancel_and_an_end_at_the_same_moment_agree(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Twenty times: the report is accepted, and the run ended as it said; the cancel is told that, or was too
        early to know."""
        executor = await self.register(store, lease_seconds=HOUR)
        for _ in range(20):
            claimed = await self.held(store, executor, make.job())
            told, refused = await asyncio.gather(
                other.runs.move(RunCancel("default", claimed.run_id, "ada")),
                self.finish(store, executor, outcome(claimed)),
            )
            assert refused == []
            assert told in {RunState.DISPATCHED, RunState.SUCCESS}
            assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS
            assert await self.cancels(store, executor) == []

    async def test_a_cancel_and_a_give_back_at_the_same_moment_end_it(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Twenty times: whichever came first, nobody runs it any more."""
        executor = await self.register(store, lease_seconds=HOUR)
        for _ in range(20):
            claimed = await self.held(store, executor, make.job())
            _, refused = await asyncio.gather(
                other.runs.move(RunCancel("default", claimed.run_id, "ada")),
                self.finish(store, executor, outcome(claimed, RunState.QUEUED)),
            )
            assert refused == []
            assert await self.run_state(store, claimed.run_id) is RunState.CANCELLED

    async def test_a_cancel_and_a_claim_at_the_same_moment_agree(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Twenty times: it was cancelled free and nobody has it, or somebody has it and is asked to stop."""
        executor = await self.register(store, lease_seconds=HOUR)
        for _ in range(20):
            job = make.job()
            await self.add(store, job)
            assert job.run_id is not None
            told, claims = await asyncio.gather(
                other.runs.move(RunCancel("default", job.run_id, "ada")), self.claim(store, executor)
            )
            if told is RunState.CANCELLED:
                assert list(claims) == []
                assert await self.cancels(store, executor) == []
                continue
            [claimed] = claims
            assert [request.run_id for request in await self.cancels(store, executor)] == [claimed.run_id]
            assert await self.finish(store, executor, outcome(claimed, RunState.CANCELLED)) == []

    @pytest.mark.parametrize("on_unknown", list(OnUnknown))
    async def test_a_cancel_and_an_expiry_at_the_same_moment_agree(
        self, store: Store, other: Store, make: Factory, on_unknown: OnUnknown
    ) -> None:
        """Ten times: it ends CANCELLED, unless it had failed with its executor before; and the cancel is told so."""
        for _ in range(10):
            executor = await self.register(store, lease_seconds=60.0)
            claimed = await self.held(store, executor, make.job())
            await self.begin(store, executor, claimed, on_unknown=on_unknown)
            await self.shift(store, 61.0)
            told, expired = await asyncio.gather(
                other.runs.move(RunCancel("default", claimed.run_id, "ada")), store.executors.expire(crashes_max=3)
            )
            # A run that somebody has in hand at that moment is freed by the next look at leases.
            again = await store.executors.expire(crashes_max=3)
            failed = [*expired.unknown, *again.unknown] == [claimed.run_id]
            assert told in ({RunState.FAILED} if failed else {RunState.RUNNING, RunState.CANCELLED})
            ended = await self.run_state(store, claimed.run_id)
            assert ended is (RunState.FAILED if failed else RunState.CANCELLED)
