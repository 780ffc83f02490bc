"""Searches for a part of a job's name that may pause: followed to their end, they find each row once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Lane
from tickwise.ports.paging import Item, Page, place_after
from tickwise.ports.store import Added, JobQuery, LetterQuery, NewJob, RunQuery, Store
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract
from tickwise.testing.factories import Factory

Query = TypeVar("Query", JobQuery, RunQuery, LetterQuery)

PAUSES_MOST = 100
"""More of them, among as few rows, would be a search that does not come to its end."""


async def jobs_found(store: Store, query: JobQuery, between: Callable[[], Awaitable[None]] | None = None) -> list[UUID]:
    """The jobs of all pages, followed as a caller does who shows `limit` rows and asks for one more. `between`: done
    after each page."""
    return await _followed(query, store.searches.jobs, lambda row: row.job_id, lambda row: row.listed, between)


async def runs_found(store: Store, query: RunQuery) -> list[UUID]:
    """The runs of all pages, in the same way."""
    return await _followed(query, store.searches.runs, lambda row: row.run_id, lambda row: row.run_id)


async def letters_found(store: Store, query: LetterQuery) -> list[UUID]:
    """The runs of the dead letters of all pages."""
    return await _followed(query, store.searches.letters, lambda row: row.run.run_id, lambda row: row.run.run_id)


async def _followed(
    query: Query,
    search: Callable[[Query], Awaitable[Page[Item]]],
    id_of: Callable[[Item], UUID],
    place_of: Callable[[Item], UUID],
    between: Callable[[], Awaitable[None]] | None = None,
) -> list[UUID]:
    """The ids of all rows that a search finds, page by page."""
    found: list[UUID] = []
    for _ in range(PAUSES_MOST):
        page = await search(replace(query, limit=query.limit + 1))
        found += [id_of(row) for row in page[: query.limit]]
        place = place_after(page, query.limit, place_of, is_rest=not isinstance(query, LetterQuery) and query.is_rest)
        if place is None:
            return found
        query = replace(query, before=place.before)
        if isinstance(query, JobQuery):
            query = replace(query, is_rest=place.is_rest, rest_from=place.rest_from)
        elif isinstance(query, RunQuery):
            query = replace(query, is_rest=place.is_rest)
        if between is not None:
            await between()
    raise AssertionError(f"the search has no end: {query}")


async def named_jobs(store: Store, make: Factory) -> list[NewJob]:
    """Jobs of several names and kinds, some of them with runs that wait, the oldest first."""
    jobs: list[NewJob] = []
    for number in range(18):
        fields: dict[str, Any] = {"name": f"{('Nightly report', 'import', 'report of 100%')[number % 3]} {number}"}
        if number % 2:
            fields |= {"labels": {"team": "data"}, "lane": Lane("reports")}
        job_id = make.identifier(60.0 * number)
        if number % 5 == 0:
            jobs.append(make.recurring(make.now + DAY_SECONDS, job_id=job_id, **fields))
        else:
            jobs.append(make.job(job_id=job_id, run_id=make.identifier(60.0 * number), **fields))
    assert await store.jobs.add(jobs) == [Added.CREATED] * len(jobs)
    return jobs


class NamedSearchesContract(StoreContract):
    """`JobQuery.may_pause`, `RunQuery.may_pause`."""

    async def test_a_search_by_name_that_may_pause_finds_each_job_once(self, store: Store, make: Factory) -> None:
        """In pages of any size, with what else is asked; before the first pause the newest first."""
        jobs = await named_jobs(store, make)
        for asked, chosen in (
            ({"name": "report"}, [job for job in jobs if "report" in job.name]),
            ({"name": "NIGHTLY"}, [job for job in jobs if "Nightly" in job.name]),
            ({"name": "100%"}, [job for job in jobs if "100%" in job.name]),
            ({"name": "%"}, [job for job in jobs if "100%" in job.name]),
            ({"name": "report", "labels": {"team": "data"}},
             [job for job in jobs if "report" in job.name and job.labels]),
            ({"name": "report", "statuses": (JobStatus.PAUSED,)}, []),
            ({"name": "report", "schedule_type": jobs[0].schedule_type},
             [job for job in jobs if "report" in job.name and job.schedule_type == jobs[0].schedule_type]),
            ({"name": "nobody's"}, []),
        ):  # fmt: skip
            for size in (1, 2, 5, 50):
                query = JobQuery(namespace="default", may_pause=True, limit=size, **asked)
                found = await jobs_found(store, query)
                assert sorted(found) == sorted(job.job_id for job in chosen), (asked, size)
            first = [row.listed for row in await store.searches.jobs(replace(query, limit=50))]
            assert first == sorted(first, reverse=True), asked
        assert await jobs_found(store, JobQuery(namespace="elsewhere", name="report", may_pause=True)) == []

    async def test_a_search_by_name_that_may_pause_finds_each_run_once(self, store: Store, make: Factory) -> None:
        """Also by what their jobs are, and within a window."""
        jobs = [job for job in await named_jobs(store, make) if job.run_id is not None]
        for asked, chosen in (
            ({"job_name": "report"}, [job for job in jobs if "report" in job.name]),
            ({"job_name": "%"}, [job for job in jobs if "100%" in job.name]),
            ({"job_name": "report", "labels": {"team": "data"}},
             [job for job in jobs if "report" in job.name and job.labels]),
            ({"job_name": "report", "queue": "reports"},
             [job for job in jobs if "report" in job.name and job.lane.queue == "reports"]),
            ({"job_name": "report", "states": (RunState.QUEUED,)}, [job for job in jobs if "report" in job.name]),
            ({"job_name": "report", "states": (RunState.FAILED,)}, []),
            ({"job_name": "report", "due_after": make.now - DAY_SECONDS},
             [job for job in jobs if "report" in job.name]),
            ({"job_name": "report", "due_before": make.now - DAY_SECONDS}, []),
            ({"job_name": "nobody's"}, []),
        ):  # fmt: skip
            for size in (1, 2, 5, 50):
                query = RunQuery(namespace="default", may_pause=True, limit=size, **asked)
                found = await runs_found(store, query)
                assert sorted(found) == sorted(job.run_id for job in chosen if job.run_id), (asked, size)
        assert await runs_found(store, RunQuery(namespace="elsewhere", job_name="report", may_pause=True)) == []
