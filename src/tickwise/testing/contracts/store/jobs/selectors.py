"""Searches within a selector: jobs, runs and dead letters of the jobs that have certain labels, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.selectors import Selector
from tickwise.ports.store import JobQuery, LetterQuery, RunQuery, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory, outcome

EXPIRE_SECONDS = 30 * 86_400.0
BILLING: Selector = ((("team", "billing"),),)
PROD: Selector = ((("env", "prod"), ("team", "billing")),)
EITHER: Selector = ((("env", "test"),), (("team", "ops"),))
NOBODY: Selector = ()

LABELS: dict[str, dict[str, str] | None] = {
    "billing": {"team": "billing"},
    "billing prod": {"team": "billing", "env": "prod"},
    "ops": {"team": "ops"},
    "ops test": {"team": "ops", "env": "test"},
    "web test": {"team": "web", "env": "test"},
    "none": None,
}
FOUND: dict[str, tuple[Selector | None, set[str]]] = {
    "unrestricted": (None, set(LABELS)),
    "one label": (BILLING, {"billing", "billing prod"}),
    "two labels": (PROD, {"billing prod"}),
    "several": (EITHER, {"ops", "ops test", "web test"}),
    "of no job": (((("team", "nobody"),),), set()),
    "empty": (NOBODY, set()),
}


class SelectorsContract(StoreContract):
    """`within` of the queries for jobs, runs and letters."""

    async def jobs(self, store: Store, **query: Any) -> set[str]:
        """The names of the jobs that a search finds; it counts as many."""
        asked = JobQuery(**{"namespace": "default", **query})
        rows = await store.searches.jobs(asked)
        assert await store.searches.count(asked) == len(rows)
        return {row.name for row in rows}

    async def failed(self, store: Store, make: Factory) -> dict[UUID, str]:
        """A failed run of a job for each of `LABELS`: the names of the jobs by their runs."""
        executor = await self.register(store)
        found = {}
        for name, labels in LABELS.items():
            claimed = await self.held(store, executor, make.job(name=name, labels=labels))
            await self.finish(store, executor, outcome(claimed, RunState.FAILED, reason="error"))
            found[claimed.run_id] = name
        return found

    @pytest.mark.parametrize("case", FOUND)
    async def test_jobs_of_a_selector_are_found(self, store: Store, make: Factory, case: str) -> None:
        """Alone, and with each other condition: a selector takes away, and never adds."""
        within, wanted = FOUND[case]
        jobs = [make.job(make.now + 3_600.0, name=name, labels=labels) for name, labels in LABELS.items()]
        await self.add(store, *jobs, Factory(make.now, namespace="other").job(name="elsewhere", labels={"team": "ops"}))
        assert await self.jobs(store, within=within) == wanted
        for fields, names in (
            ({"labels": {"env": "test"}}, {"ops test", "web test"}),
            ({"labels": {"team": "billing"}}, {"billing", "billing prod"}),
            ({"name": "PROD"}, {"billing prod"}),
            ({"statuses": (JobStatus.SCHEDULED,)}, set(LABELS)),
            ({"statuses": (JobStatus.SCHEDULED,), "next_run_after": make.now}, set(LABELS)),
            ({"statuses": (JobStatus.FAILED,)}, set()),
        ):
            assert await self.jobs(store, within=within, **fields) == wanted & names, fields

    @pytest.mark.parametrize("case", FOUND)
    async def test_runs_and_letters_of_a_selector_are_found(self, store: Store, make: Factory, case: str) -> None:
        """They have the labels of their job."""
        within, wanted = FOUND[case]
        names = await self.failed(store, make)
        runs = RunQuery(namespace="default", within=within)
        letters = LetterQuery(namespace="default", expire_seconds=EXPIRE_SECONDS, within=within)
        assert {names[row.run_id] for row in await store.searches.runs(runs)} == wanted
        assert {names[row.run.run_id] for row in await store.searches.letters(letters)} == wanted
        assert await store.searches.count(runs) == await store.searches.count(letters) == len(wanted)
        some = replace(runs, labels={"env": "test"}, states=(RunState.FAILED,))
        assert {names[row.run_id] for row in await store.searches.runs(some)} == wanted & {"ops test", "web test"}

    async def test_a_run_goes_by_the_labels_that_its_job_has_now(self, store: Store, make: Factory) -> None:
        """A job that is given other labels takes its past along."""
        names = await self.failed(store, make)
        query = RunQuery(namespace="default", within=BILLING)
        for row in await store.searches.runs(query):
            job = await self.job_row(store, row.job_id)
            if names[row.run_id] == "billing":
                await store.jobs.change(make.change(job, labels={"team": "ops"}))
        assert {names[row.run_id] for row in await store.searches.runs(query)} == {"billing prod"}
        both = replace(query, within=EITHER)
        assert {names[row.run_id] for row in await store.searches.runs(both)} == {
            "billing", "ops", "ops test", "web test",
        }  # fmt: skip

    async def test_pages_within_a_selector_leave_nothing_out(self, store: Store, make: Factory) -> None:
        """Each job once, though most rows between two of a page are of others."""
        mine = [make.job(job_id=make.identifier(10.0 * each), labels={"team": "billing"}) for each in range(7)]
        others = [make.job(job_id=make.identifier(each), labels={"team": "ops"}) for each in range(60)]
        await self.add(store, *mine, *others)
        seen: list[UUID] = []
        while page := await store.searches.jobs(
            JobQuery(namespace="default", within=BILLING, limit=2, before=seen[-1] if seen else None)
        ):
            seen += [row.job_id for row in page]
        assert seen == [job.job_id for job in reversed(mine)]
