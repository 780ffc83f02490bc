"""Searches for a part of a job's name: the few jobs that have it first, then the newest rows, so many at a time.

    name ──► index of names ──► recurring jobs, those on demand ─┐
         ──► the newest jobs, looked at one by one ──────────────┴─► few: the rows of these jobs, then a pause
                                                                 └─► many: the newest rows in turn, and a pause

Invariant: a call looks at `LOOKED_JOBS` or `LOOKED_RUNS` rows one by one, however many are stored. The index is
of trigrams (pg_trgm) and leaves out one-time jobs, which pay nothing for it. Without the index, and for a text without
three letters or digits of ASCII in a row, the newest rows are looked at in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.records.searches import LAST_ID, indexed, like, planned_once, searched
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.clock import Clock
from tickwise.ports.paging import Item, Page, SearchPlace

LOOKED_JOBS: Final = 10_000
LOOKED_RUNS: Final = 4_000
"""Each needs a look for its job."""
FEW_NAMED: Final = 2_000
"""The most jobs with a name that are looked up by their ids."""
NAMED_ANYWHERE: Final = 10_000
"""The most jobs with a name, of all namespaces, that the index is asked for."""
_ELSEWHERE: Final = {"jobs_reach": "jobs_reach_of", "runs_reach": "runs_reach_of"}
"""The statements for namespaces other than the default one."""
_TRIGRAM: Final = re.compile(r"[A-Za-z0-9]{3}")


class NameSearch(NamedTuple):
    """A part of the name of jobs, and the other conditions on them."""

    namespace: str
    text: str
    labels: Sequence[str] | None
    """See `labels_asked`."""
    queue: str | None = None


class NamedJobs(NamedTuple):
    """The jobs that have a name, as far as one look tells."""

    few: Sequence[UUID] | None
    """None: they are many, or there is no index for the text."""
    floor: UUID | None
    """All jobs at this place or above were looked at. None: there are no others."""


async def named_jobs(connection: asyncpg.Connection, asked: NameSearch, clock: Clock, most: int) -> NamedJobs:
    """Look for the jobs with a text in their name; more than `most` are many."""
    floor = await reach(connection, "jobs_reach", asked.namespace, LAST_ID, LOOKED_JOBS, clock)
    pattern = like(asked.text)
    since = await searched(
        connection,
        "jobs_named_since",
        [asked.namespace, pattern, floor, most + 1, asked.labels, asked.queue],
        clock,
    )
    found = {row["job_id"] for row in since}
    if floor is not None and len(found) <= most:
        if _TRIGRAM.search(asked.text) is None:
            return NamedJobs(None, floor)
        arguments = [asked.namespace, pattern, NAMED_ANYWHERE + 1, asked.labels, asked.queue]
        [row] = await indexed(connection, "jobs_named", arguments, clock)
        if row["indexed"] is None or row["looked"] > NAMED_ANYWHERE:
            return NamedJobs(None, floor)
        found.update(row["jobs"] or ())
    return NamedJobs(sorted(found) if len(found) <= most else None, floor)


async def reach(
    connection: asyncpg.Connection, name: str, namespace: str, before: UUID, count: int, clock: Clock
) -> UUID | None:
    """The place down to which a look at so many rows below `before` goes. None: to the oldest."""
    name = name if namespace == DEFAULT_NAMESPACE else _ELSEWHERE[name]
    rows = await planned_once(connection, name, [namespace, before, count], clock)
    return rows[0][0] if rows else None


def without(page: Page[Item], limit: int, known: Callable[[Item], bool], place: Callable[[Item], UUID]) -> Page[Item]:
    """The page of a rest without the rows that were found first. It pauses behind its last row if more may follow."""
    rows = [row for row in page if not known(row)]
    is_full = page.is_full(limit)
    paused_at = SearchPlace(place(page[-1]), is_rest=True) if is_full and len(rows) < len(page) else page.paused_at
    return Page(rows, cut=page.cut and len(rows) == len(page), paused_at=paused_at)
