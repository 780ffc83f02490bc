"""Failures grouped by cause: each counted once, under any number of schedulers, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID, uuid5

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.error_groups import (
    FURTHER_ERRORS,
    HOURS_SECONDS,
    MAX_GROUPS,
    MAX_GROUPS_OF_JOB,
    MAX_SAMPLE,
    READ_CHARACTERS,
    ErrorDecision,
    ErrorStatus,
    further_errors_id,
)
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import (
    ErrorGroupQuery,
    ErrorGroupRow,
    ErrorPlace,
    GroupedFailure,
    LetterQuery,
    NewErrorDecision,
    NewJob,
    PendingFailure,
    Retention,
    Store,
)
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract
from tickwise.testing.contracts.store.people.removals import TEAM, begin_removal, drop_all, open_namespace
from tickwise.testing.factories import Factory, outcome

LONG_SECONDS: Final = 100 * DAY_SECONDS
HOUR_SECONDS: Final = 3_600.0
_GROUPS: Final = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
RETENTION: Final = Retention(runs_seconds=DAY_SECONDS, failed_seconds=3 * DAY_SECONDS)


def group_of(failure: PendingFailure) -> UUID:
    """A group for each namespace and text."""
    return uuid5(_GROUPS, f"{failure.namespace} {failure.error}")


def grouped(failures: Sequence[PendingFailure]) -> list[GroupedFailure]:
    """As a scheduler groups them, but by the whole text."""
    return [
        GroupedFailure(
            each, None if each.namespace is None else group_of(each), "ValueError", each.error or "", "shell", ""
        )
        for each in failures
    ]


def entry(group_id: UUID) -> AuditEntry:
    """An entry about a group."""
    source = Source(CallerKind.KEY, None, "ada")
    return AuditEntry("default", AuditAction.ERROR_RESOLVED, source, "error", target=str(group_id))


class ErrorGroupsContract(StoreContract):
    """Shortcuts for failures."""

    async def failed(
        self,
        store: Store,
        make: Factory,
        error: str = "no!",
        *,
        job: NewJob | None = None,
        state: RunState = RunState.FAILED,
        **fields: Any,
    ) -> Claimed:
        """An attempt that failed, for good or to be tried again."""
        executor = await self.register(store, lease_seconds=LONG_SECONDS)
        claimed = await self.held(store, executor, make.job() if job is None else job)
        ended = outcome(claimed, state, reason="error", error=error, **fields)
        assert await self.finish(store, executor, ended) == []
        return claimed

    async def fold(self, store: Store) -> int:
        """Count all that is pending."""
        return await store.error_groups.fold(grouped((await store.error_groups.pending(1_000)).failures))

    async def groups(self, store: Store, **fields: Any) -> list[ErrorGroupRow]:
        """The groups that a search finds."""
        return list(await store.error_groups.search(ErrorGroupQuery(**{"namespace": "default", **fields})))

    async def group(self, store: Store, **fields: Any) -> ErrorGroupRow:
        """The only one."""
        [row] = await self.groups(store, **fields)
        assert await store.error_groups.get(row.namespace, row.group_id) == row
        return row

    async def decide(
        self, store: Store, group_id: UUID, decision: ErrorDecision | None, **fields: Any
    ) -> ErrorGroupRow:
        """Ada decides."""
        row = await store.error_groups.decide("default", group_id, NewErrorDecision(decision, "ada", **fields))
        assert row is not None
        return row


class PendingFailuresContract(ErrorGroupsContract):
    """`error_groups.pending`: what is a failure."""

    async def test_a_run_that_failed_for_good_is_pending(self, store: Store, make: Factory) -> None:
        """With what it said, and what its job is."""
        job = make.job(name="pay")
        claimed = await self.failed(store, make, "x" * (READ_CHARACTERS + 1), job=job)
        pending = await store.error_groups.pending(10)
        [failure] = pending.failures
        assert failure.failure_id == (claimed.run_id, claimed.token)
        assert (failure.namespace, failure.job_id, failure.attempt) == ("default", job.job_id, 1)
        assert (failure.is_last, failure.reason, failure.error) == (True, "error", "x" * READ_CHARACTERS)
        row = await self.run_row(store, claimed.run_id)
        assert failure.ended_at == pytest.approx(row.ended_at, abs=1e-5)
        assert pending.jobs[job.job_id] == (job.name, job.task_kind, job.definition)

    async def test_a_failure_is_pending_while_somebody_watches(self, store: Store, make: Factory) -> None:
        """Its end is noted for a stream, too, by the same trigger."""
        place = await store.feed.watch()
        claimed = await self.failed(store, make, "boom", job=make.job(name="pay"))
        assert [(claimed.run_id, claimed.token)] == [
            each.failure_id for each in (await store.error_groups.pending(10)).failures
        ]
        page = await store.feed.since(place, limit=100)
        ended = [each for each in page.changes if each.state is RunState.FAILED]
        assert [[claimed.run_id.bytes]] == [each.runs.each() for each in ended]

    async def test_an_attempt_that_is_tried_again_is_pending(self, store: Store, make: Factory) -> None:
        """And so is the next one."""
        claimed = await self.failed(store, make, "once", state=RunState.RETRYING, retry_at=make.now)
        executor = await self.register(store, lease_seconds=LONG_SECONDS)
        [again] = await self.claim_freed(store, executor)
        assert await self.finish(store, executor, outcome(again, RunState.FAILED, reason="error", error="twice")) == []
        failures = (await store.error_groups.pending(10)).failures
        found = [(each.failure_id.run_id, each.attempt, each.is_last, each.error) for each in failures]
        assert sorted(found) == [(claimed.run_id, 1, False, "once"), (claimed.run_id, 2, True, "twice")]

    @pytest.mark.parametrize("end", [RunState.SUCCESS, RunState.CANCELLED, RunState.SKIPPED, RunState.QUEUED])
    async def test_nothing_else_is_pending(self, store: Store, make: Factory, end: RunState) -> None:
        """Neither success nor what was given back."""
        await self.failed(store, make, state=end)
        assert (await store.error_groups.pending(10)).failures == []

    async def test_a_lost_attempt_is_pending(self, store: Store, make: Factory) -> None:
        """Also if nobody reported it: once when it goes on elsewhere, once when the run ends by it."""
        executor = await self.register(store)
        rerun = await self.held(store, executor, make.job())
        await self.begin(store, executor, rerun)
        failing = await self.held(store, executor, make.job())
        await self.begin(store, executor, failing, on_unknown=OnUnknown.FAIL)
        await self.expire(store, executor)
        failures = (await store.error_groups.pending(10)).failures
        found = {each.failure_id.run_id: (each.is_last, each.reason) for each in failures}
        assert found == {rerun.run_id: (False, "lease_lost"), failing.run_id: (True, "executor_lost")}

    async def test_an_attempt_given_back_in_order_is_none(self, store: Store, make: Factory) -> None:
        """Its executor left."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        await store.executors.leave(executor)
        assert (await store.error_groups.pending(10)).failures == []

    async def test_a_report_that_is_repeated_is_one_failure(self, store: Store, make: Factory) -> None:
        """As after an answer that was lost."""
        for state in (RunState.FAILED, RunState.RETRYING):
            executor = await self.register(store, lease_seconds=LONG_SECONDS)
            claimed = await self.held(store, executor, make.job())
            ended = outcome(claimed, state, reason="error", error="no!", retry_at=make.now + DAY_SECONDS)
            assert await self.finish(store, executor, ended) == []
            assert await self.finish(store, executor, ended) == []
        assert await self.fold(store) == 2
        assert (await self.group(store)).failures == 2

    async def test_a_page_has_its_limit(self, store: Store, make: Factory) -> None:
        """And the rest comes after it."""
        for number in range(3):
            await self.failed(store, make, f"error {number}")
        first = (await store.error_groups.pending(2)).failures
        assert len(first) == 2
        assert await store.error_groups.fold(grouped(first)) == 2
        assert len((await store.error_groups.pending(2)).failures) == 1


class CountedFailuresContract(ErrorGroupsContract):
    """`error_groups.fold`: each failure is counted once."""

    def module_of_groups(self, store: Store) -> str:
        """The module whose limits of groups a test lowers."""
        return type(store.error_groups).__module__

    async def test_failures_of_one_cause_are_one_group(self, store: Store, make: Factory) -> None:
        """With the time of the first and the last, the jobs, and the newest as its sample."""
        first = await self.failed(store, make, "no disk")
        await self.failed(store, make, "no net")
        await self.shift(store, 60.0)
        job = make.job()
        newest = await self.failed(store, make, "no disk", job=job, ended=make.now + 50.0)
        assert await self.fold(store) == 3
        row = await self.group(store, text="DISK")
        begun = (await self.run_row(store, first.run_id)).ended_at
        assert (row.failures, row.jobs, row.status) == (2, 2, ErrorStatus.OPEN)
        assert row.first_seen == pytest.approx(begun, abs=1e-5)
        assert row.last_seen == pytest.approx(make.now + 50.0, abs=1e-5)
        assert (row.sample_run, row.sample_attempt, row.sample_error) == (newest.run_id, 1, "no disk")
        assert (row.reason, row.kind, row.message, row.task_kind) == ("error", "ValueError", "no disk", "shell")
        jobs = await store.error_groups.jobs("default", row.group_id, 10)
        assert {each.job_id: each.failures for each in jobs} == {first.job_id: 1, job.job_id: 1}

    async def test_a_group_grows_fold_by_fold(self, store: Store, make: Factory) -> None:
        """Counts add up; the sample is that of the newest failure, in any order."""
        job = make.recurring(make.now + DAY_SECONDS)
        await self.add(store, job)
        ends = [make.now + 20.0, make.now + 30.0, make.now + 10.0]
        runs = []
        for number, ended in enumerate(ends):
            executor = await self.register(store, lease_seconds=LONG_SECONDS)
            await store.runs.add("default", job.job_id, [make.run(job.job_id, make.now - number)])
            [claimed] = await self.claim(store, executor)
            runs.append(claimed.run_id)
            failed = outcome(claimed, RunState.FAILED, reason="error", error="no!", ended=ended)
            assert await self.finish(store, executor, failed) == []
            assert await self.fold(store) == 1
        row = await self.group(store)
        assert (row.failures, row.jobs, row.sample_run) == (3, 1, runs[1])
        assert row.first_seen == pytest.approx(min(ends), abs=1e-5)
        assert row.last_seen == pytest.approx(max(ends), abs=1e-5)

    async def test_a_page_that_is_folded_twice_is_counted_once(self, store: Store, make: Factory) -> None:
        """By one scheduler that did not hear the answer."""
        await self.failed(store, make)
        page = grouped((await store.error_groups.pending(10)).failures)
        assert await store.error_groups.fold(page) == 1
        assert await store.error_groups.fold(page) == 0
        assert (await self.group(store)).failures == 1
        assert (await store.error_groups.pending(10)).failures == []

    async def test_two_schedulers_count_once(self, store: Store, other: Store, make: Factory) -> None:
        """They have read one page at the same moment."""
        for number in range(20):
            await self.failed(store, make, f"error {number % 3}")
        page = grouped((await store.error_groups.pending(100)).failures)
        taken = await asyncio.gather(store.error_groups.fold(page), other.error_groups.fold(page[::-1]))
        left = await self.fold(store)
        assert sum(taken) + left == 20
        assert sum(row.failures for row in await self.groups(store)) == 20

    async def test_an_attempt_of_a_run_that_is_gone_is_folded_without_a_group(
        self, store: Store, make: Factory
    ) -> None:
        """It must not be read for ever."""
        await self.failed(store, make)
        page = [each._replace(group_id=None) for each in grouped((await store.error_groups.pending(10)).failures)]
        assert await store.error_groups.fold(page) == 1
        assert await self.groups(store) == []
        assert (await store.error_groups.pending(10)).failures == []

    async def test_hours_are_counted(self, store: Store, make: Factory) -> None:
        """By the begin of the hour; a failure of long ago has none."""
        await self.failed(store, make)
        await self.failed(store, make)
        await self.failed(store, make, ended=make.now - HOURS_SECONDS - 2 * HOUR_SECONDS)
        await self.fold(store)
        row = await self.group(store)
        assert row.failures == 3
        hours = await store.error_groups.hours("default", [row.group_id], 0.0)
        assert [(each.group_id, each.failures) for each in hours] == [(row.group_id, 2)]
        assert hours[0].hour == row.last_seen // HOUR_SECONDS * HOUR_SECONDS
        assert await store.error_groups.hours("default", [row.group_id], hours[0].hour + 1.0) == []
        assert await store.error_groups.hours("elsewhere", [row.group_id], 0.0) == []

    async def test_a_sample_is_cut(self, store: Store, make: Factory) -> None:
        """Output of a task is as long as it likes."""
        await self.failed(store, make, "x" * READ_CHARACTERS)
        await self.fold(store)
        assert (await self.group(store)).sample_error == "x" * MAX_SAMPLE

    async def test_dead_letters_are_found_by_their_group(self, store: Store, make: Factory) -> None:
        """Those of runs that failed for good, and no attempt of a run that goes on."""
        one = await self.failed(store, make, "no disk")
        two = await self.failed(store, make, "no net")
        later = await self.failed(store, make, "no disk", state=RunState.RETRYING, retry_at=make.now + DAY_SECONDS)
        await self.fold(store)
        row = await self.group(store, text="disk")
        query = LetterQuery(namespace="default", expire_seconds=LONG_SECONDS, error_group=row.group_id)
        assert [each.run.run_id for each in await store.searches.letters(query)] == [one.run_id]
        assert await store.searches.count(query) == 1
        found = await store.error_groups.of_runs("default", [one.run_id, two.run_id, later.run_id])
        assert found == {one.run_id: row.group_id, two.run_id: (await self.group(store, text="net")).group_id}
        assert await store.error_groups.of_runs("elsewhere", [one.run_id]) == {}

    async def test_a_namespace_has_no_more_than_its_groups(
        self, store: Store, make: Factory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The resolved ones go first, then those that were seen least recently."""
        monkeypatch.setattr(f"{self.module_of_groups(store)}.MAX_GROUPS", 3)
        for number in range(3):
            await self.failed(store, make, f"error {number}", ended=make.now + number)
        await self.fold(store)
        await self.shift(store, 60.0)
        await self.decide(store, (await self.group(store, text="error 1")).group_id, ErrorDecision.RESOLVE)
        await self.failed(store, make, "error 3", ended=make.now + 3.0)
        await self.fold(store)
        assert [row.message for row in await self.groups(store)] == ["error 3", "error 2", "error 0"]
        await self.failed(store, make, "error 4", ended=make.now + 4.0)
        await self.fold(store)
        assert [row.message for row in await self.groups(store)] == ["error 4", "error 3", "error 2"]
        assert MAX_GROUPS == 10_000

    async def test_a_job_has_its_share_of_the_groups(
        self, store: Store, make: Factory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rest of its causes are one group, within a fold and from fold to fold; those of other jobs are told
        apart all the same, and a group that is there takes any job."""
        monkeypatch.setattr(f"{self.module_of_groups(store)}.MAX_GROUPS_OF_JOB", 3)
        job = make.recurring(make.now + DAY_SECONDS)
        await self.add(store, job)
        for number in range(8):
            executor = await self.register(store, lease_seconds=LONG_SECONDS)
            await store.runs.add("default", job.job_id, [make.run(job.job_id, make.now - number)])
            [claimed] = await self.claim(store, executor)
            ended = outcome(claimed, RunState.FAILED, reason="error", error=f"cause {number % 7}", ended=make.now)
            assert await self.finish(store, executor, ended) == []
            if number in (1, 5):
                await self.fold(store)
        await self.failed(store, make, "cause of another job")
        await self.failed(store, make, "cause 1")
        await self.fold(store)
        found = {row.message: (row.failures, row.jobs) for row in await self.groups(store)}
        [third] = found.keys() & {f"cause {number}" for number in range(2, 6)}
        assert found == {
            "cause 0": (2, 1), "cause 1": (2, 2), third: (1, 1), FURTHER_ERRORS: (4, 1), "cause of another job": (1, 1),
        }  # fmt: skip
        rest = await self.group(store, text=FURTHER_ERRORS)
        assert (rest.reason, rest.kind, rest.group_id) == ("", "", further_errors_id("default", job.job_id))
        query = LetterQuery(namespace="default", expire_seconds=LONG_SECONDS, error_group=rest.group_id)
        assert await store.searches.count(query) == 4
        assert MAX_GROUPS_OF_JOB == 100


class DecidedErrorsContract(ErrorGroupsContract):
    """`error_groups.decide`: the status follows from the decision and from what came after it."""

    async def counted(self, store: Store, make: Factory, ended: float, error: str = "no!") -> ErrorGroupRow:
        """The group after one failure more."""
        await self.failed(store, make, error, ended=ended)
        await self.fold(store)
        return await self.group(store)

    async def test_a_resolved_group_opens_when_it_fails_again(self, store: Store, make: Factory) -> None:
        """A failure of before, which is counted late, does not open it."""
        row = await self.counted(store, make, make.now + 1.0)
        await self.shift(store, 60.0)
        resolved = await self.decide(store, row.group_id, ErrorDecision.RESOLVE, note="disk added")
        assert (resolved.status, resolved.decided_by, resolved.note) == (ErrorStatus.RESOLVED, "ada", "disk added")
        assert await self.counted(store, make, make.now + 2.0) == replace(
            await self.group(store), status=ErrorStatus.RESOLVED, failures=2
        )
        await self.shift(store, 60.0)
        opened = await self.counted(store, make, await store.now())
        assert (opened.status, opened.decision, opened.note) == (ErrorStatus.OPEN, ErrorDecision.RESOLVE, "disk added")

    async def test_a_group_is_ignored_until_a_time(self, store: Store, make: Factory) -> None:
        """By the store's clock, also if nothing fails then."""
        row = await self.counted(store, make, make.now)
        until = await store.now() + 600.0
        ignored = await self.decide(store, row.group_id, ErrorDecision.IGNORE, until=until)
        assert ignored.status is ErrorStatus.IGNORED
        assert ignored.ignored_until == pytest.approx(until, abs=1e-5)
        assert (await self.counted(store, make, make.now + 5.0)).status is ErrorStatus.IGNORED
        assert [each.status for each in await self.groups(store, statuses=[ErrorStatus.IGNORED])] == ["ignored"]
        await self.shift(store, 601.0)
        assert (await self.group(store)).status is ErrorStatus.OPEN
        assert await self.groups(store, statuses=[ErrorStatus.IGNORED, ErrorStatus.RESOLVED]) == []

    async def test_a_group_is_ignored_until_a_count(self, store: Store, make: Factory) -> None:
        """Of failures from now on."""
        row = await self.counted(store, make, make.now)
        ignored = await self.decide(store, row.group_id, ErrorDecision.IGNORE, more=2)
        assert (ignored.status, ignored.ignored_count) == (ErrorStatus.IGNORED, 3)
        assert (await self.counted(store, make, make.now)).status is ErrorStatus.IGNORED
        assert (await self.counted(store, make, make.now)).status is ErrorStatus.OPEN

    async def test_a_decision_is_taken_back(self, store: Store, make: Factory) -> None:
        """Nothing of it is left but who did it."""
        row = await self.counted(store, make, make.now)
        await self.shift(store, 60.0)
        await self.decide(store, row.group_id, ErrorDecision.IGNORE, note="known", more=9, until=make.now + DAY_SECONDS)
        opened = await self.decide(store, row.group_id, None)
        assert opened == replace(row, decided_by="ada")

    async def test_a_decision_is_on_record(self, store: Store, make: Factory) -> None:
        """In the transaction that keeps it; one about nothing is neither kept nor recorded."""
        row = await self.counted(store, make, make.now)
        decision = NewErrorDecision(ErrorDecision.RESOLVE, "ada")
        missing = make.identifier()
        for namespace, group_id in (("default", missing), ("elsewhere", row.group_id)):
            answer = await store.error_groups.decide(namespace, group_id, decision, audit=entry(group_id))
            assert answer is None
        assert await store.error_groups.decide("default", row.group_id, decision, audit=entry(row.group_id))
        found = await store.audit.find(AuditQuery(namespace="default", limit=10))
        assert [each.target for each in found] == [str(row.group_id)]


class FoundErrorsContract(ErrorGroupsContract):
    """`error_groups.search`."""

    async def test_the_newest_come_first_page_by_page(self, store: Store, make: Factory) -> None:
        """Each once."""
        for number in range(5):
            await self.failed(store, make, f"error {number}", ended=make.now + number // 2)
        await self.fold(store)
        rows = await self.groups(store)
        assert [row.last_seen for row in rows] == sorted((row.last_seen for row in rows), reverse=True)
        seen, beyond = [], None
        while page := await self.groups(store, beyond=beyond, limit=2):
            seen += page
            beyond = ErrorPlace(page[-1].last_seen, page[-1].group_id)
        assert seen == rows

    async def test_a_page_is_cut_by_its_texts(self, store: Store, make: Factory) -> None:
        """One at least."""
        for number in range(3):
            await self.failed(store, make, f"error {number} {'x' * 1_000}")
        await self.fold(store)
        page = await store.error_groups.search(ErrorGroupQuery(namespace="default", bytes_most=1))
        assert (len(page), page.cut) == (1, True)

    async def test_conditions_narrow_it(self, store: Store, make: Factory) -> None:
        """Each by itself; a sign of a pattern stands for itself."""
        job = make.job()
        await self.failed(store, make, "100% of disk", job=job, ended=make.now + 100.0)
        await self.failed(store, make, "no net", ended=make.now)
        await self.fold(store)
        for fields, expected in (
            ({"text": "0% OF"}, ["100% of disk"]),
            ({"text": "valueerror"}, ["100% of disk", "no net"]),
            ({"text": "_"}, []),
            ({"job_id": job.job_id}, ["100% of disk"]),
            ({"reason": "error"}, ["100% of disk", "no net"]),
            ({"reason": "timeout"}, []),
            ({"task_kind": "shell"}, ["100% of disk", "no net"]),
            ({"task_kind": "http"}, []),
            ({"seen_after": make.now + 50.0}, ["100% of disk"]),
            ({"first_seen_after": make.now + 50.0}, ["100% of disk"]),
            ({"statuses": [ErrorStatus.OPEN]}, ["100% of disk", "no net"]),
            ({"statuses": [ErrorStatus.RESOLVED]}, []),
            ({"namespace": "elsewhere"}, []),
        ):  # fmt: skip
            assert [row.message for row in await self.groups(store, **fields)] == expected, fields


class ForgottenErrorsContract(ErrorGroupsContract):
    """Groups end with their time and with their namespace."""

    async def test_an_old_group_is_dropped(self, store: Store, make: Factory) -> None:
        """Its last failure is past the time of failed runs by then."""
        claimed = await self.failed(store, make)
        await self.fold(store)
        row = await self.group(store)
        await self.shift(store, 2 * DAY_SECONDS)
        await store.upkeep.maintain(RETENTION)
        assert await self.groups(store) == [row]
        await self.shift(store, 2 * DAY_SECONDS)
        await store.upkeep.maintain(RETENTION)
        assert await self.groups(store) == []
        assert await store.error_groups.get("default", row.group_id) is None
        assert await store.error_groups.of_runs("default", [claimed.run_id]) == {}

    async def test_old_hours_are_forgotten(self, store: Store, make: Factory) -> None:
        """Although the group goes on."""
        await self.failed(store, make)
        await self.fold(store)
        row = await self.group(store)
        await self.shift(store, HOURS_SECONDS + 2 * HOUR_SECONDS)
        await store.upkeep.maintain(replace(RETENTION, failed_seconds=LONG_SECONDS))
        assert await self.groups(store) == [row]
        assert await store.error_groups.hours("default", [row.group_id], 0.0) == []

    async def test_a_removed_namespace_leaves_no_group(self, store: Store, make: Factory) -> None:
        """Nor a failure that would make one; a later namespace of the name begins with none."""
        await open_namespace(store)
        for error in ("counted", "pending"):
            job = make.job(namespace=TEAM)
            await self.failed(store, make, error, job=job)
            if error == "counted":
                await self.fold(store)
        page = grouped((await store.error_groups.pending(10)).failures)
        row = await self.group(store, namespace=TEAM)
        await begin_removal(store)
        with pytest.raises(Conflict):
            await store.error_groups.decide(TEAM, row.group_id, NewErrorDecision(ErrorDecision.RESOLVE, "ada"))
        # A scheduler that has read the failure before the removal began.
        assert await store.error_groups.fold(page) == 1
        assert await self.groups(store, namespace=TEAM) == [row]
        await drop_all(store)
        assert await self.groups(store, namespace=TEAM) == []
        assert (await store.error_groups.pending(10)).failures == []
