"""The reports of executors: fenced, applied once, whole batches at a time, and every outcome with its consequence."""

from __future__ import annotations

import pytest

from tickwise.domain.errors import Bug
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Outcome
from tickwise.ports.store import Began, RunCancel, RunQuery, RunSkip, Store
from tickwise.testing.contracts.base import StoreContract, microseconds
from tickwise.testing.factories import Factory, outcome, outcomes

LATEST = 4e9
"""Later than whatever was dispatched."""

ENDS = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED)
ODD_RESULT = '{ "ok" :true,\n "n": 1.0e+2, "s": "\\u0000 😀" }'


class FinishesContract(StoreContract):
    """`attempts.start` and `attempts.finish`."""

    async def finish_illegally(self, store: Store, executor: int, broken: Outcome, *rest: Outcome) -> None:
        """Report a move that is not in the table: the store calls it a bug, or refuses that one."""
        try:
            refused = await store.attempts.finish(executor, [broken, *rest])
        except Bug:
            return
        assert list(refused) == [broken.run_id]

    @pytest.mark.parametrize("state", ENDS)
    async def test_an_ended_run_leaves_a_record_and_no_run(self, store: Store, make: Factory, state: RunState) -> None:
        """With all that was reported, to the microsecond and the byte."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        started, ended = claimed.now + 0.000001, claimed.now + 0.123457
        report = outcome(
            claimed, state, started=started, ended=ended, reason="exit_code", error="it ended 😀", result=ODD_RESULT
        )
        assert await self.finish(store, executor, report) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.reason, row.error, row.result) == (state, "exit_code", "it ended 😀", ODD_RESULT)
        failed = int(state is RunState.FAILED)
        assert (row.attempt, row.failures, row.crashes, row.executor) == (1, failed, 0, executor)
        assert microseconds(row.dispatched_at) == microseconds(claimed.now)
        assert (microseconds(row.started_at), microseconds(row.ended_at)) == (
            microseconds(started),
            microseconds(ended),
        )
        assert microseconds(row.due_at) == microseconds(claimed.due)
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.held, stats.retrying) == (0, 0, 0)

    async def test_finishing_twice_is_the_same_as_once(self, store: Store, make: Factory) -> None:
        """A commit in doubt is repeated with the same token, and accepted again."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        report = outcome(claimed, RunState.FAILED, error="first")
        assert await self.finish(store, executor, report) == []
        assert await self.finish(store, executor, report) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.error) == (RunState.FAILED, "first")
        assert len(await store.searches.runs(RunQuery(namespace="default"))) == 1

    async def test_a_second_opinion_on_an_ended_run_changes_nothing(self, store: Store, make: Factory) -> None:
        """The first record stays, and every other outcome of the same attempt is refused."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(claimed, RunState.SUCCESS))
        for state in (RunState.FAILED, RunState.RETRYING, RunState.QUEUED, RunState.CANCELLED, RunState.SKIPPED):
            late = outcome(claimed, state, error="late", retry_at=claimed.now)
            assert [claimed.run_id] == await self.finish(store, executor, late), state
        assert [] == await self.finish(store, executor, outcome(claimed, RunState.SUCCESS))
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.error) == (RunState.SUCCESS, None)
        assert list(await self.claim_freed(store, executor)) == []

    async def test_a_failure_with_another_reason_is_another_outcome(self, store: Store, make: Factory) -> None:
        """A repeat has the reason that is on record."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        first = outcome(claimed, RunState.FAILED, reason="timeout")
        assert [] == await self.finish(store, executor, first)
        assert [claimed.run_id] == await self.finish(
            store, executor, outcome(claimed, RunState.FAILED, reason="exit_code")
        )
        assert [] == await self.finish(store, executor, first)
        assert "timeout" == (await self.run_row(store, claimed.run_id)).reason

    async def test_a_retry_reported_twice_counts_one_failure(self, store: Store, make: Factory) -> None:
        """And keeps one attempt on record."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        report = outcome(claimed, RunState.RETRYING, retry_at=claimed.now + 60.0)
        assert await self.finish(store, executor, report) == []
        assert await self.finish(store, executor, report) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.failures) == (RunState.RETRYING, 1)
        assert len(await store.runs.attempts(claimed.run_id)) == 1

    async def test_a_retry_reported_again_after_the_next_claim_changes_nothing(
        self, store: Store, make: Factory
    ) -> None:
        """It is on record, so it is accepted; the new attempt goes on."""
        executor = await self.register(store)
        first = await self.held(store, executor, make.job())
        report = outcome(first, RunState.RETRYING, retry_at=first.now)
        await self.finish(store, executor, report)
        [second] = await self.claim_freed(store, executor)
        assert await self.finish(store, executor, report) == []
        row = await self.run_row(store, first.run_id)
        assert (row.state, row.failures, row.attempt) == (RunState.DISPATCHED, 1, 2)
        assert await self.finish(store, executor, outcome(second)) == []

    async def test_a_finish_with_another_token_is_refused(self, store: Store, make: Factory) -> None:
        """Never fenced on state alone."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        for token in (claimed.token - 1, claimed.token + 1, 0):
            assert await self.finish(store, executor, outcome(claimed, token=token)) == [claimed.run_id]
        assert await self.run_state(store, claimed.run_id) is RunState.DISPATCHED

    async def test_a_finish_by_another_executor_is_refused(self, store: Store, make: Factory) -> None:
        """Even with the right token, before and after the run ended."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        claimed = await self.held(store, one, make.job())
        assert await self.finish(store, two, outcome(claimed)) == [claimed.run_id]
        assert await self.run_state(store, claimed.run_id) is RunState.DISPATCHED
        await self.finish(store, one, outcome(claimed))
        assert await self.finish(store, two, outcome(claimed)) == [claimed.run_id]

    async def test_a_finish_of_a_run_that_never_was_is_refused(self, store: Store, make: Factory) -> None:
        """No record comes from nowhere."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        unknown = make.identifier()
        assert await self.finish(store, executor, outcome(claimed, run_id=unknown)) == [unknown]
        assert await self.run_state(store, unknown) is None

    async def test_a_batch_is_told_which_of_it_were_refused(self, store: Store, make: Factory) -> None:
        """The others are recorded all the same."""
        executor = await self.register(store)
        await self.add(store, *(make.job() for _ in range(6)))
        claims = list(await self.claim(store, executor))
        stale = {claimed.run_id for claimed in claims[::2]}
        reports = [
            report._replace(token=report.token + 1_000) if report.run_id in stale else report
            for report in outcomes(claims)
        ]
        assert set(await self.finish(store, executor, *reports)) == stale
        states = {claimed.run_id: await self.run_state(store, claimed.run_id) for claimed in claims}
        assert {run for run, state in states.items() if state is RunState.SUCCESS} == set(states) - stale

    async def test_one_batch_may_hold_every_kind_of_outcome(self, store: Store, make: Factory) -> None:
        """Executors report whatever ended since they last did."""
        executor = await self.register(store)
        kinds = [*ENDS, RunState.RETRYING, RunState.QUEUED]
        await self.add(store, *(make.job() for _ in kinds))
        claims = list(await self.claim(store, executor))
        later = claims[0].now + 60.0
        reports = [outcome(claimed, kind, retry_at=later) for claimed, kind in zip(claims, kinds, strict=True)]
        assert await self.finish(store, executor, *reports) == []
        assert kinds == [await self.run_state(store, claimed.run_id) for claimed in claims]

    async def test_an_empty_report_is_no_report(self, store: Store) -> None:
        """Nothing to record, nothing refused."""
        executor = await self.register(store)
        assert await self.finish(store, executor) == []
        assert list(await store.attempts.start(executor, [])) == []

    async def test_a_failed_attempt_is_claimable_when_its_backoff_is_over(self, store: Store, make: Factory) -> None:
        """Not before, and then with the failure counted and the next attempt number."""
        executor = await self.register(store, lease_seconds=600.0)
        first = await self.held(store, executor, make.job())
        report = outcome(first, RunState.RETRYING, retry_at=first.now + 60.0, reason="error", error="boom")
        await self.finish(store, executor, report)
        row = await self.run_row(store, first.run_id)
        assert (row.state, microseconds(row.ready_at)) == (RunState.RETRYING, microseconds(first.now + 60.0))
        assert (row.executor, row.ended_at) == (None, None)
        await self.shift(store, 30.0)
        assert list(await self.claim(store, executor)) == []
        await self.shift(store, 31.0)
        [second] = await self.claim_freed(store, executor)
        assert (second.run_id, second.attempt, second.failures) == (first.run_id, 2, 1)
        assert (second.crashes, second.guarded) == (0, False)
        assert microseconds(second.due) == microseconds(first.due)

    async def test_a_failed_attempt_stays_on_record(self, store: Store, make: Factory) -> None:
        """First to last, the final one included."""
        executor = await self.register(store)
        first = await self.held(store, executor, make.job())
        started, ended = first.now + 0.000001, first.now + 0.250003
        report = outcome(first, RunState.RETRYING, started=started, ended=ended, reason="error", error="boom")
        await self.finish(store, executor, report._replace(retry_at=first.now))
        [second] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(second))
        one, two = await store.runs.attempts(first.run_id)
        assert (one.attempt, one.token, one.executor, one.state) == (1, first.token, executor, RunState.RETRYING)
        assert (one.reason, one.error) == ("error", "boom")
        assert microseconds(one.dispatched_at) == microseconds(first.now)
        assert (microseconds(one.started_at), microseconds(one.ended_at)) == (
            microseconds(started),
            microseconds(ended),
        )
        assert (two.attempt, two.token, two.executor, two.state) == (2, second.token, executor, RunState.SUCCESS)
        assert (await self.run_row(store, first.run_id)).failures == 1

    async def test_the_failure_that_ends_a_run_is_counted_too(self, store: Store, make: Factory) -> None:
        """After two failed attempts people read "failures: 2"; told again, it is still the same two."""
        executor = await self.register(store)
        first = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(first, RunState.RETRYING, retry_at=first.now))
        [second] = await self.claim_freed(store, executor)
        for _ in range(2):
            assert await self.finish(store, executor, outcome(second, RunState.FAILED)) == []
            row = await self.run_row(store, first.run_id)
            assert (row.state, row.attempt, row.failures) == (RunState.FAILED, 2, 2)

    async def test_what_is_given_back_is_claimable_at_once_and_not_counted(self, store: Store, make: Factory) -> None:
        """It never began and nobody is to blame."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first = await self.held(store, one, make.job())
        assert await self.finish(store, one, outcome(first, RunState.QUEUED)) == []
        row = await self.run_row(store, first.run_id)
        assert (row.state, row.executor, row.attempt) == (RunState.QUEUED, None, 0)
        assert row.dispatched_at is None
        assert list(await store.runs.attempts(first.run_id)) == []
        [again] = await self.claim_freed(store, two)
        assert (again.run_id, again.attempt, again.failures) == (first.run_id, 1, 0)
        assert (again.crashes, again.guarded) == (0, False)

    async def test_what_is_given_back_for_later_waits_until_then(self, store: Store, make: Factory) -> None:
        """`retry_at` with QUEUED: nobody here can run it now."""
        executor = await self.register(store, lease_seconds=600.0)
        first = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(first, RunState.QUEUED, retry_at=first.now + 60.0))
        await self.shift(store, 3.0)
        assert list(await self.claim(store, executor)) == []
        await self.shift(store, 61.0)
        assert len(await self.claim_freed(store, executor)) == 1

    async def test_what_was_given_back_is_no_longer_the_givers(self, store: Store, make: Factory) -> None:
        """Its token is refused after any later claim."""
        executor = await self.register(store)
        first = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(first, RunState.QUEUED))
        assert await self.finish(store, executor, outcome(first)) == [first.run_id]
        [second] = await self.claim_freed(store, executor)
        assert await self.finish(store, executor, outcome(first)) == [first.run_id]
        await self.finish(store, executor, outcome(first, RunState.QUEUED))
        assert await self.run_state(store, first.run_id) is RunState.DISPATCHED
        assert await self.finish(store, executor, outcome(second)) == []

    async def test_a_recorded_start_makes_a_run_running(self, store: Store, make: Factory) -> None:
        """With the instant that was reported."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        started = claimed.now + 0.000001
        assert list(await store.attempts.start(executor, [Began(claimed.run_id, claimed.token, started)])) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, microseconds(row.started_at)) == (RunState.RUNNING, microseconds(started))
        assert (await store.upkeep.stats()).held == 1

    async def test_a_start_recorded_twice_is_recorded_once(self, store: Store, make: Factory) -> None:
        """The first one stays."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        for seconds in (1.0, 2.0):
            began = Began(claimed.run_id, claimed.token, claimed.now + seconds)
            assert list(await store.attempts.start(executor, [began])) == []
        row = await self.run_row(store, claimed.run_id)
        assert microseconds(row.started_at) == microseconds(claimed.now + 1.0)

    async def test_a_start_that_does_not_match_is_refused(self, store: Store, make: Factory) -> None:
        """By executor, run and token; those of the batch that match are recorded."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        await self.add(store, make.job(), make.job())
        mine, mixed_up = await self.claim(store, one)
        unknown = make.identifier()
        starts = [
            Began(mine.run_id, mine.token, mine.now),
            Began(mixed_up.run_id, mixed_up.token + 1_000, mine.now),
            Began(unknown, mine.token, mine.now),
        ]
        assert set(await store.attempts.start(one, starts)) == {mixed_up.run_id, unknown}
        assert list(await store.attempts.start(two, [Began(mixed_up.run_id, mixed_up.token, mine.now)])) == [
            mixed_up.run_id
        ]
        assert await self.run_state(store, mine.run_id) is RunState.RUNNING
        assert await self.run_state(store, mixed_up.run_id) is RunState.DISPATCHED

    async def test_a_start_after_the_end_is_refused(self, store: Store, make: Factory) -> None:
        """A final state has no way out."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(claimed))
        began = Began(claimed.run_id, claimed.token, claimed.now)
        assert list(await store.attempts.start(executor, [began])) == [claimed.run_id]
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS

    @pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED])
    async def test_a_run_whose_start_was_recorded_can_end(self, store: Store, make: Factory, state: RunState) -> None:
        """Each way."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        assert await self.finish(store, executor, outcome(claimed, state)) == []
        assert await self.run_state(store, claimed.run_id) is state

    async def test_a_run_that_its_executor_skips_has_no_start(self, store: Store, make: Factory) -> None:
        """It waited too long and never began: a record with the reason, without a start."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        report = outcome(claimed, RunState.SKIPPED, started=0.0, reason="expired", error="it waited 61 s")
        assert await self.finish(store, executor, report) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.reason, row.started_at) == (RunState.SKIPPED, "expired", None)

    async def test_what_began_cannot_be_skipped(self, store: Store, make: Factory) -> None:
        """Only the moves of the table are legal; the caller has a bug, and the run stays as it is."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        await self.finish_illegally(store, executor, outcome(claimed, RunState.SKIPPED, reason="overlap"))
        assert await self.run_state(store, claimed.run_id) is RunState.RUNNING

    async def test_what_began_and_is_given_back_stays_on_record_and_counts_against_nobody(
        self, store: Store, make: Factory
    ) -> None:
        """Its number is used up; neither a failure nor a crash is counted, however often it is reported."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first = await self.held(store, one, make.job())
        await self.begin(store, one, first)
        report = outcome(first, RunState.QUEUED, reason="interrupted", error="the host went down")
        for _ in range(2):
            assert await self.finish(store, one, report) == []
            row = await self.run_row(store, first.run_id)
            assert (row.state, row.executor, row.attempt) == (RunState.QUEUED, None, 1)
            assert (row.failures, row.crashes) == (0, 0)
        [second] = await self.claim_freed(store, two)
        assert (second.attempt, second.failures, second.crashes, second.guarded) == (2, 0, 0, False)
        assert await self.finish(store, one, report) == []
        assert await self.finish(store, two, outcome(second)) == []
        given_back, ended = await store.runs.attempts(first.run_id)
        assert (given_back.attempt, given_back.token, given_back.executor) == (1, first.token, one)
        assert (given_back.state, given_back.reason) == (RunState.QUEUED, "interrupted")
        assert given_back.error == "the host went down"
        assert microseconds(given_back.started_at) == microseconds(report.started)
        assert microseconds(given_back.ended_at) == microseconds(report.ended)
        assert (ended.attempt, ended.state) == (2, RunState.SUCCESS)

    async def test_what_never_began_is_not_counted_though_its_start_was_recorded(
        self, store: Store, make: Factory
    ) -> None:
        """A guarded start is recorded before anybody knows whether its task can begin here: no number is used up and
        nothing stays on record, however often that happens and is reported."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        for _ in range(2):
            await self.begin(store, executor, claimed)
            report = outcome(claimed, RunState.QUEUED, started=0.0, reason="circuit_open")
            assert await self.finish(store, executor, report) == []
            for _ in range(2):
                await self.finish(store, executor, report)
                row = await self.run_row(store, claimed.run_id)
                assert (row.state, row.executor, row.attempt) == (RunState.QUEUED, None, 0)
                assert (row.started_at, row.failures, row.crashes) == (None, 0, 0)
            assert list(await store.runs.attempts(claimed.run_id)) == []
            [claimed] = await self.claim_freed(store, executor)
            assert claimed.attempt == 1
        assert await self.finish(store, executor, outcome(claimed)) == []

    @pytest.mark.parametrize(("kind", "state"), [("cancel", RunState.CANCELLED), ("revoke", RunState.SKIPPED)])
    async def test_what_was_asked_of_a_run_is_done_when_it_comes_back_and_never_began(
        self, store: Store, make: Factory, kind: str, state: RunState
    ) -> None:
        """Nothing is said of the attempt that was none."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        if kind == "revoke":
            await store.runs.move(RunSkip("default", claimed.run_id, "skipped by ada"))
        else:
            await store.runs.move(RunCancel("default", claimed.run_id, "ada"))
        await self.begin(store, executor, claimed)
        assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED, started=0.0)) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.attempt, row.started_at) == (state, 0, None)
        assert list(await store.runs.attempts(claimed.run_id)) == []

    @pytest.mark.parametrize("state", [RunState.DISPATCHED, RunState.RUNNING])
    async def test_a_state_that_is_no_outcome_is_refused_as_a_bug(
        self, store: Store, make: Factory, state: RunState
    ) -> None:
        """Nobody finishes an attempt by beginning it."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.finish_illegally(store, executor, outcome(claimed, state))
        assert await self.run_state(store, claimed.run_id) is RunState.DISPATCHED

    async def test_an_illegal_outcome_does_not_lose_the_rest_of_its_batch(self, store: Store, make: Factory) -> None:
        """The batch was recorded without the illegal outcome, or not at all: the other outcomes can be sent again."""
        executor = await self.register(store)
        await self.add(store, make.job(), make.job())
        fine, broken = await self.claim(store, executor)
        await self.begin(store, executor, broken)
        await self.finish_illegally(store, executor, outcome(broken, RunState.SKIPPED), outcome(fine))
        assert await self.finish(store, executor, outcome(fine), outcome(broken)) == []
        assert await self.run_state(store, fine.run_id) is RunState.SUCCESS

    async def test_an_error_text_that_cannot_be_kept_stops_nothing(self, store: Store, make: Factory) -> None:
        """Tasks print what they like: NUL and lone surrogates are replaced, the rest is readable."""
        executor = await self.register(store)
        await self.add(store, make.job(), make.job())
        ended, failed = await self.claim(store, executor)
        odd = "before\x00\ud800after"
        reports = [outcome(ended, RunState.FAILED, error=odd), outcome(failed, RunState.RETRYING, error=odd)]
        assert await self.finish(store, executor, reports[0], reports[1]._replace(retry_at=failed.now)) == []
        row = await self.run_row(store, ended.run_id)
        [attempt] = await store.runs.attempts(failed.run_id)
        for error in (row.error, attempt.error):
            assert error is not None
            assert error.startswith("before")
            assert error.endswith("after")

    @pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan"), 1e18])
    @pytest.mark.parametrize("field", ["started", "ended", "retry_at"])
    async def test_an_instant_that_cannot_be_kept_is_refused_as_a_bug(
        self, store: Store, make: Factory, field: str, odd: float
    ) -> None:
        """And nothing else: the run stays as it is, and the rest of the batch can be sent again."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        given = {"retry_at": claimed.now, field: odd}
        with pytest.raises(Bug):
            await store.attempts.finish(executor, [outcome(claimed, RunState.RETRYING, **given)])
        assert await self.run_state(store, claimed.run_id) is RunState.DISPATCHED
        assert await self.finish(store, executor, outcome(claimed)) == []


class KeepsContract(StoreContract):
    """`executors.release_unknown`: after a claim whose answer was lost."""

    async def test_what_its_holder_does_not_know_of_goes_back(self, store: Store, make: Factory) -> None:
        """As if it had never been claimed: the attempt is not counted, and anybody may have it."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        lost = await self.held(store, one, make.job())
        assert await store.executors.release_unknown(one, [], LATEST) == 1
        row = await self.run_row(store, lost.run_id)
        assert (row.state, row.executor, row.attempt, row.dispatched_at) == (RunState.QUEUED, None, 0, None)
        assert list(await store.runs.attempts(lost.run_id)) == []
        [again] = await self.claim_freed(store, two)
        assert (again.run_id, again.attempt, again.failures) == (lost.run_id, 1, 0)
        assert (again.crashes, again.guarded) == (0, False)
        assert await self.finish(store, one, outcome(lost)) == [lost.run_id]
        assert await self.finish(store, two, outcome(again)) == []

    async def test_what_is_to_be_kept_is_kept(self, store: Store, make: Factory) -> None:
        """By its token; and what others hold is none of this executor's business."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        known, theirs = await self.held(store, one, make.job()), await self.held(store, two, make.job())
        lost = await self.held(store, one, make.job())
        assert await store.executors.release_unknown(one, [known.token, *range(10**9, 10**9 + 5_000)], LATEST) == 1
        assert await self.run_state(store, lost.run_id) is RunState.QUEUED
        assert await self.finish(store, one, outcome(known)) == []
        assert await self.finish(store, two, outcome(theirs)) == []

    async def test_what_was_claimed_after_it_was_asked_is_kept(self, store: Store, make: Factory) -> None:
        """A request that a server carries out long after its caller gave it up knows nothing of later claims."""
        executor = await self.register(store, lease_seconds=600.0)
        lost = await self.held(store, executor, make.job())
        await self.shift(store, 1.0)
        asked = await store.now()
        await self.shift(store, 1.0)
        later = await self.held(store, executor, make.job())
        assert await store.executors.release_unknown(executor, [], asked) == 1
        assert await self.run_state(store, lost.run_id) is RunState.QUEUED
        assert await self.run_state(store, later.run_id) is RunState.DISPATCHED
        assert await self.finish(store, executor, outcome(later)) == []

    async def test_what_began_is_kept_too(self, store: Store, make: Factory) -> None:
        """An executor that recorded a start knows of the run."""
        executor = await self.register(store)
        begun = await self.held(store, executor, make.job())
        await self.begin(store, executor, begun)
        assert await store.executors.release_unknown(executor, [], LATEST) == 0
        assert await self.run_state(store, begun.run_id) is RunState.RUNNING
        assert await self.finish(store, executor, outcome(begun)) == []

    async def test_a_cancel_ends_what_would_go_back(self, store: Store, make: Factory) -> None:
        """As in every give-back."""
        executor = await self.register(store)
        lost, cancelled = await self.held(store, executor, make.job()), await self.held(store, executor, make.job())
        await store.runs.move(RunCancel("default", cancelled.run_id, "grace"))
        assert await store.executors.release_unknown(executor, [], LATEST) == 1
        row = await self.run_row(store, cancelled.run_id)
        assert (row.state, row.reason, row.error) == (RunState.CANCELLED, "cancelled", "cancelled by grace")
        assert list(await store.runs.attempts(cancelled.run_id)) == []
        assert await self.run_state(store, lost.run_id) is RunState.QUEUED

    async def test_an_executor_that_holds_nothing_gives_nothing_back(self, store: Store) -> None:
        """Nor one that was never registered."""
        assert await store.executors.release_unknown(await self.register(store), [1, 2, 3], LATEST) == 0
        assert await store.executors.release_unknown(999_999, [], LATEST) == 0
