"""Searches: planned for each call's own values, and bounded in time.

A search is one statement with all that may be asked; what is not asked is NULL, falls away when it is planned, and the
rest finds its index. A plan that was made for all values at once would read a table from end to end, so none is kept.
The exception are pages of what is newest, with nothing else asked: each has a statement of its own, whose plan is kept,
by sessions whose settings it needs (`connected`). So it is one exchange with the server.

A search of people looks at so many rows in one call and pauses (`job_walks`, `run_walks`). One that does not pause
looks at all rows, from the newest on where there is no index. Invariant: it ends, with its page or with an error that
says what would narrow it, and takes nobody's connection for longer. What ends for another reason (a lock that is not to
be had, an operator who cancels it) is the store's to answer for: it is `StoreUnavailable`, and nothing about the search
is at fault.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.connection.link import PAGE_SECONDS, Links
from tickwise.adapters.store.postgres.large_sets import LargeSets
from tickwise.adapters.store.postgres.records.paging import bounded
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Invalid
from tickwise.domain.model import time_id
from tickwise.domain.selectors import Selector, alternatives
from tickwise.ports.clock import Clock
from tickwise.ports.store import JobQuery, RunQuery

SEARCH_SECONDS: Final = PAGE_SECONDS
"""About ten million jobs, or forty million runs, that are read and do not match."""


NEARLY: Final = 0.95
"""Of that time: our clock and the server's do not tick quite alike."""


LAST_ID: Final = UUID(int=(1 << 128) - 1)
"""Above every id: a page that begins with the newest."""

ID_SLACK_SECONDS: Final = 600.0
"""The distance that a search by due time assumes between a run's due time and the nominal time in its id. What is due
longer after it (snoozed, deferred, asked for long before it was made) has its nominal time on record and is found by
that: `late` and `history_late` say the same. What is due before it is so by clocks only: ids of immediate runs are made
by nodes' clocks, due times by the store's."""

KEPT: Final = frozenset(
    {
        "job_get", "jobs_newest", "jobs_newest_of", "runs_newest", "runs_newest_of", "runs_newest_of_job",
        "runs_newest_failed", "runs_latest", "jobs_of", "jobs_coming",
    }
)  # fmt: skip
"""Pages and looks that are asked for all the time, and whose plan is the same for all values. To plan one took
three quarters of what it cost: a view of runs is a view of each day's partition."""

_NO_CONDITIONS: Final = frozenset({"namespace", "before", "limit", "bytes_most", "texts", "may_pause", "brief"})
"""Fields of a query that say which part of a list is asked for, and nothing about its rows."""

_OWN: Final = "search_terms"
"""The terms of a statement that is planned for each call's own values."""
OF_A_SET: Final = "search_terms_of_a_set"
"""The terms of a statement that reads rows by the values of an index, in no order, and up to a limit."""
KEPT_PLAN: Final = None
"""No terms: the statement is planned once for all values, by a session for that (`Links.search_line`)."""

FEW_LABELLED: Final = 500
"""The most jobs with a label that are looked up one by one."""


def first_id(instant: float) -> UUID:
    """Below every id of that instant or later."""
    return UUID(int=time_id(int(instant * 1000), bytes(10)).int >> 80 << 80)


def labels_asked(labels: Mapping[str, str], within: Selector | None) -> list[str] | None:
    """The parameter for the labels of a search within a selector: jobs have all labels of one of these JSON texts.
    None: any job. Empty: no job."""
    found = alternatives(labels, within)
    return None if found is None else [json.dumps(dict(each)) for each in found]


async def labelled_jobs(
    connection: asyncpg.Connection, namespace: str, labels: Sequence[str], clock: Clock, large_sets: LargeSets
) -> list[UUID] | None:
    """The jobs that have all labels of one of the JSON texts, if they are few. None: they are many."""
    asked = ("jobs_labelled", namespace, *labels)
    if large_sets.has_more_than(FEW_LABELLED, asked):
        return None
    rows = await searched(connection, "jobs_labelled", [namespace, labels, FEW_LABELLED + 1], clock)
    if len(rows) > FEW_LABELLED:
        large_sets.note(FEW_LABELLED, asked)
        return None
    return [row["job_id"] for row in rows]


def conditions_of(query: JobQuery | RunQuery) -> frozenset[str]:
    """The names of the conditions on rows that a query has, beside its namespace. No values are no condition, whether
    they come as a list or as a tuple."""
    return frozenset(
        name
        for name, unset in _unset(type(query))  # type: ignore[arg-type]  # a frozen dataclass's class is hashable
        if (value := getattr(query, name)) != unset and not (isinstance(unset, tuple) and len(value) == 0)
    )


@cache
def _unset(query: type[JobQuery | RunQuery]) -> tuple[tuple[str, Any], ...]:
    """The fields that may be conditions, each with the value that it has where it is none."""
    plain = query(namespace="")
    return tuple((each.name, getattr(plain, each.name)) for each in fields(query) if each.name not in _NO_CONDITIONS)


def like(text: str) -> str:
    """The pattern of LIKE for what holds this text, in which nothing stands for anything else."""
    literal = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{literal}%"


@contextlib.asynccontextmanager
async def connected(links: Links, name: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection for the statement `name` and what belongs to its answer."""
    if name in KEPT:
        async with links.page_line().use(writes=False) as connection:
            yield connection
    else:
        async with links.pooled(writes=False) as connection:
            yield connection


async def search(links: Links, name: str, arguments: Sequence[Any], clock: Clock) -> list[asyncpg.Record]:
    """The rows of the statement `name`. Raises `Invalid` if it takes too long, `StoreUnavailable`."""
    async with connected(links, name) as connection:
        return await searched(connection, name, arguments, clock)


async def searched(
    connection: asyncpg.Connection, name: str, arguments: Sequence[Any], clock: Clock
) -> list[asyncpg.Record]:
    """Search on a connection of the caller (`connected`), who translates other errors."""
    return await fetched(connection, statement(name), arguments, clock, None if name in KEPT else _OWN)


async def searched_page(
    connection: asyncpg.Connection, name: str, arguments: Sequence[Any], bytes_most: int | None, clock: Clock
) -> list[asyncpg.Record]:
    """Search for a page that is cut before it holds more than `bytes_most`, on such a connection."""
    terms = None if name in KEPT else _OWN
    return await fetched(connection, bounded(name), [*arguments, bytes_most], clock, terms)


async def fetched(
    connection: asyncpg.Connection, text: str, arguments: Sequence[Any], clock: Clock, terms: str | None
) -> list[asyncpg.Record]:
    """The rows of a statement. `terms`: the one that sets what the search needs; None: the session has it. Raises
    `Invalid` if it takes too long; other errors are the caller's to translate."""
    begun = clock.monotonic()
    try:
        if terms is None:
            rows: list[asyncpg.Record] = await connection.fetch(text, *arguments)
            return rows
        async with connection.transaction(readonly=True):
            await connection.fetchrow(statement(terms), str(int(SEARCH_SECONDS * 1000)))
            rows = await connection.fetch(text, *arguments)
    except asyncpg.QueryCanceledError as error:
        if clock.monotonic() - begun < NEARLY * SEARCH_SECONDS:
            raise
        raise Invalid(
            f"nothing more was found within {SEARCH_SECONDS:g} s: narrow the search, for example by a time window, "
            "job, status or schedule type"
        ) from error
    return rows
