"""Searches with any conditions that may pause: followed to their end, they find each row once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Final
from uuid import UUID

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Lane, Trigger
from tickwise.ports.store import JobAction, JobQuery, LetterQuery, LetterStatus, RunQuery, RunRow, Settlement, Store
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract
from tickwise.testing.contracts.store.observing.names import jobs_found, letters_found, runs_found
from tickwise.testing.factories import Factory, outcome

JOBS: Final = 20
TYPES: Final = ("IMMEDIATE", "CRON", "FUTURE", "ON_DEMAND", "IMMEDIATE")
TEAM: Final = {"team": "data"}


async def various_jobs(contract: StoreContract, store: Store, make: Factory) -> None:
    """Jobs of all schedule types, owners, kinds of task, labels and statuses; some under ids that clients chose."""
    executor = await contract.register(store)
    moved: dict[UUID, JobAction] = {}
    for number in range(JOBS):
        kind = TYPES[number % len(TYPES)]
        due = None if kind in ("IMMEDIATE", "ON_DEMAND") else make.now + DAY_SECONDS * (1 + number)
        job_id = make.identifier(10.0 * number)
        fields: dict[str, Any] = {
            "job_id": job_id, "name": f"{('report', 'import')[number % 2]} {number}", "schedule_type": kind,
            "created_by": "ada", "owner": (None, "bob", "ada")[number % 3], "lane": Lane("kept"),
            "task_kind": ("shell", "http")[number % 4 // 3], "labels": TEAM if number % 3 == 1 else None,
        }  # fmt: skip
        if number % 7 == 3:
            chosen = UUID(int=(0xFF - number << 120) + number)
            fields |= {"job_id": chosen, "named": True, "digest": chosen.bytes}
        if kind in ("CRON", "ON_DEMAND"):
            await contract.add(store, make.recurring(due or make.now, never=due is None, **fields))
        elif due is None and number % 4:
            claimed = await contract.held(store, executor, make.job(due, **fields | {"lane": Lane()}))
            end = RunState.FAILED if number % 4 == 1 else RunState.SUCCESS
            await contract.finish(store, executor, outcome(claimed, end, reason="why"))
        else:
            await contract.add(store, make.job(due, **fields))
        if number % 6 in (1, 4):
            moved[fields["job_id"]] = JobAction.PAUSE if number % 6 == 1 else JobAction.CANCEL
    for job_id, action in moved.items():
        await store.jobs.move(make.move(job_id, action))


CONDITIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "name": {"name": "REPORT"},
    "labels": {"labels": TEAM},
    "owner": {"owner": "ada"},
    "kind": {"task_kind": "http"},
    **{kind: {"schedule_type": kind} for kind in {*TYPES}},
    **{status.value: {"statuses": (status,)} for status in JobStatus},
    "of two statuses": {"statuses": (JobStatus.PAUSED, JobStatus.SCHEDULED)},
    "of one status or none": {"statuses": (JobStatus.COMPLETED, JobStatus.FAILED)},
}


def _in_brief(row: RunRow) -> tuple[Any, ...]:
    """The fields that a brief search tells."""
    times = (row.due_at, row.nominal_at, row.started_at, row.ended_at)
    return row.run_id, row.job_id, row.namespace, row.state, row.reason, times


class PausingSearchesContract(StoreContract):
    """`JobQuery.may_pause`, `RunQuery.may_pause`."""

    async def test_a_search_that_may_pause_finds_each_job_once(self, store: Store, make: Factory) -> None:
        """Those that the same search finds without a pause, by each condition and by any two, in pages of any size."""
        await various_jobs(self, store, make)
        soon, late = make.now + 2.5 * DAY_SECONDS, make.now + 9.5 * DAY_SECONDS
        conditions = dict(CONDITIONS) | {
            "due in a window": {"next_run_after": soon, "next_run_before": soon + DAY_SECONDS},
            "due in a wide window": {"next_run_after": soon, "next_run_before": late},
            "due from then on": {"next_run_after": late},
        }
        asked = [{}, *conditions.values()]
        asked += [
            {**one, **other} for one, other in combinations(conditions.values(), 2) if one.keys().isdisjoint(other)
        ]
        found = 0
        for each in asked:
            whole = JobQuery(namespace="default", limit=500, **each)
            expected = sorted(row.job_id for row in await store.searches.jobs(whole))
            found += bool(expected)
            for size in (1, 6) if len(each) == 1 else (4,):
                pages = await jobs_found(store, replace(whole, may_pause=True, limit=size))
                assert sorted(pages) == expected, (each, size)
        assert found > len(asked) / 3

    async def test_the_newest_come_first_up_to_a_pause(self, store: Store, make: Factory) -> None:
        """In each page."""
        await various_jobs(self, store, make)
        for each in CONDITIONS.values():
            page = await store.searches.jobs(JobQuery(namespace="default", may_pause=True, limit=50, **each))
            assert [row.listed for row in page] == sorted((row.listed for row in page), reverse=True), each

    async def test_a_search_that_may_pause_finds_each_run_once(self, store: Store, make: Factory) -> None:
        """In the same way, by what runs and their jobs are; also runs that are due long after the time in their id."""
        await various_jobs(self, store, make)
        job, other, *_ = await store.searches.jobs(JobQuery(namespace="default", schedule_type="CRON"))
        early, begin = make.now - 5 * DAY_SECONDS, make.now - 600.0
        late = [make.scheduled(job.job_id, make.now + 7.0 * each, nominal=early + 60.0 * each) for each in range(5)]
        asked_for = [make.run(other.job_id, make.now, origin=UUID(int=9)) for _ in range(5)]
        await store.runs.add("default", job.job_id, late)
        await store.runs.add("default", other.job_id, asked_for)
        conditions: list[Mapping[str, Any]] = [
            {"job_name": "REPORT"}, {"labels": TEAM}, {"queue": "kept"}, {"queue": "none"}, {"job_id": job.job_id},
            {"states": (RunState.FAILED,)}, {"states": (RunState.SUCCESS, RunState.QUEUED)},
            {"states": (RunState.QUEUED, RunState.CANCELLED)}, {"reason": "why"}, {"origin": UUID(int=9)},
            {"triggers": (int(Trigger.RUN_NOW),)}, {"executor": 1}, {"due_after": begin},
            {"due_before": make.now + 15.0}, {"due_after": make.now - 1.0, "due_before": make.now + 15.0},
        ]  # fmt: skip
        asked: list[Mapping[str, Any]] = [{}, *conditions]
        asked += [{**one, **other} for one, other in combinations(conditions, 2) if one.keys().isdisjoint(other)]
        found = 0
        for each in asked:
            whole = RunQuery(namespace="default", limit=500, **each)
            expected = sorted(row.run_id for row in await store.searches.runs(whole))
            found += bool(expected)
            for size in (1, 6) if len(each) == 1 else (4,):
                pages = await runs_found(store, replace(whole, may_pause=True, limit=size))
                assert sorted(pages) == expected, (each, size)
        assert found > len(asked) / 3

    async def test_a_brief_search_tells_when_each_run_was_and_what_came_of_it(
        self, store: Store, make: Factory
    ) -> None:
        """As the search that tells all: of all runs, of a job, and of jobs with a label."""
        await various_jobs(self, store, make)
        job, *_ = await store.searches.jobs(JobQuery(namespace="default", schedule_type="CRON"))
        await store.runs.add("default", job.job_id, [make.run(job.job_id, make.now, origin=UUID(int=9))])
        conditions: list[Mapping[str, Any]] = [{}, {"job_id": job.job_id}, {"labels": TEAM}, {"queue": "kept"}]
        found = 0
        for each in conditions:
            query = RunQuery(namespace="default", states=tuple(RunState), may_pause=True, limit=500, **each)
            told, brief = [await store.searches.runs(one) for one in (query, replace(query, brief=True))]
            found += len(told)
            assert [_in_brief(row) for row in brief] == [_in_brief(row) for row in told], each
            assert brief.paused_at == told.paused_at
        assert found > 2

    async def test_a_search_among_the_runs_of_a_job_goes_to_its_end(self, store: Store, make: Factory) -> None:
        """By states and triggers, and from an id on: each run that matches, newest first, up to the limit."""
        job = make.recurring(make.now + DAY_SECONDS)
        await self.add(store, job)
        triggers = (Trigger.RUN_NOW, Trigger.BACKFILL)
        made = [make.run(job.job_id, make.now + each, trigger=triggers[each % 2]) for each in range(9)]
        await store.runs.add("default", job.job_id, made)
        newest = sorted((run.run_id for run in made), reverse=True)
        asked_for = sorted((run.run_id for run in made if run.trigger == Trigger.BACKFILL), reverse=True)
        of_job = RunQuery(namespace="default", job_id=job.job_id, limit=500)
        conditions: list[tuple[Mapping[str, Any], Sequence[UUID]]] = [
            ({"states": (RunState.QUEUED, RunState.RUNNING)}, newest),
            ({"states": (RunState.SUCCESS, RunState.QUEUED)}, newest),
            ({"states": (RunState.SUCCESS,)}, []),
            ({"states": (RunState.SKIPPED,)}, []),
            ({"triggers": (int(Trigger.BACKFILL),)}, asked_for),
            ({"triggers": (int(Trigger.BACKFILL),), "limit": 2}, asked_for[:2]),
            ({"after": newest[3]}, newest[:3]),
            ({"after": newest[6], "before": newest[2], "triggers": (int(Trigger.BACKFILL),)}, [
                each for each in asked_for if newest[6] < each < newest[2]]),
        ]  # fmt: skip
        for said, expected in conditions:
            assert [row.run_id for row in await store.searches.runs(replace(of_job, **said))] == expected, said

    async def test_a_search_that_may_pause_finds_each_dead_letter_once(self, store: Store, make: Factory) -> None:
        """Also behind others that are settled, and by what their runs and jobs are."""
        executor = await self.register(store)
        failed: list[UUID] = []
        for number in range(12):
            fields: dict[str, Any] = {
                "labels": TEAM if number % 2 else None,
                "task_kind": ("shell", "http")[number % 3 // 2],
            }
            claimed = await self.held(store, executor, make.job(job_id=make.identifier(number), **fields))
            reason = ("exit_code", "timeout")[number % 4 // 3]
            await self.finish(store, executor, outcome(claimed, RunState.FAILED, reason=reason))
            failed.append(claimed.run_id)
        settled = [Settlement(run_id, LetterStatus.DISCARDED) for run_id in failed[4:]]
        await store.letters.settle("default", settled, by="ada")
        conditions: list[Mapping[str, Any]] = [
            {"statuses": (LetterStatus.OPEN,)}, {"statuses": (LetterStatus.DISCARDED,)}, {"task_kind": "http"},
            {"reason": "timeout"}, {"within": ((("team", "data"),),)}, {"ended_before": make.now - DAY_SECONDS},
        ]  # fmt: skip
        asked: list[Mapping[str, Any]] = [{}, *conditions]
        asked += [{**one, **other} for one, other in combinations(conditions, 2) if one.keys().isdisjoint(other)]
        for each in asked:
            whole = LetterQuery(namespace="default", expire_seconds=30 * DAY_SECONDS, limit=500, **each)
            expected = [row.run.run_id for row in await store.searches.letters(whole)]
            for size in (1, 5):
                pages = await letters_found(store, replace(whole, may_pause=True, limit=size))
                assert pages == expected, (each, size)
        assert len(await letters_found(store, replace(whole, within=None, ended_before=None))) == len(failed)

    async def test_jobs_that_come_during_a_search_move_nothing(self, store: Store, make: Factory) -> None:
        """A caller that goes on after others have made jobs sees the same jobs as before, each once."""
        await various_jobs(self, store, make)
        query = JobQuery(namespace="default", owner="ada", may_pause=True, limit=2)
        expected = sorted(await jobs_found(store, query))
        number = 0

        async def one_more() -> None:
            nonlocal number
            number += 1
            await self.add(store, make.job(job_id=make.identifier(1_000.0 + number), owner="bob"))

        assert sorted(await jobs_found(store, query, between=one_more)) == expected
