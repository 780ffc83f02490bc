"""Searches: planned for each call's own values, and bounded in time.

A search is one statement with all that may be asked; what is not asked is NULL, falls away when it is planned, and the
rest finds its index. A plan that was made for all values at once would read a table from end to end, so none is kept.
The exception are pages of what is newest, with nothing else asked: each has a statement of its own, whose plan is kept.

What has no index (a part of a name, an owner, a rare kind of task) is looked for from the newest on. Invariant: such a
search ends, with its page or with an error that says what would narrow it, and takes nobody's connection for longer.
What ends for another reason (a lock that is not to be had, an operator who cancels it) is the store's to answer for: it
is `StoreUnavailable`, and nothing about the search is at fault.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.link import Links
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Invalid
from tickwise.ports.clock import Clock

SEARCH_SECONDS: Final = 10.0
"""About ten million jobs, or forty million runs, that are read and do not match."""


NEARLY: Final = 0.95
"""Of that time: our clock and the server's do not tick quite alike."""


LAST_ID: Final = UUID(int=(1 << 128) - 1)
"""Above every id: a page that begins with the newest."""

KEPT: Final = frozenset(
    {"job_get", "jobs_newest", "jobs_newest_of", "runs_newest", "runs_newest_of", "runs_newest_of_job"}
)
"""Pages, and one job, that are asked for all the time, and whose plan is the same for all values. To plan one took
three quarters of what it cost: a view of runs is a view of each day's partition."""


PARAMETER: Final = re.compile(r"\$(\d+)")
"""Where a statement has a value of its caller."""


def like(text: str) -> str:
    """The pattern of LIKE for what holds this text, in which nothing stands for anything else."""
    literal = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{literal}%"


async def search(links: Links, name: str, arguments: Sequence[Any], clock: Clock) -> list[asyncpg.Record]:
    """The rows of the statement `name`. Raises `Invalid` if it takes too long, `StoreUnavailable`."""
    async with links.pooled(writes=False) as connection:
        return await searched(connection, name, arguments, clock)


async def search_together(
    links: Links, parts: Sequence[tuple[str, Sequence[Any]]], order: str, limit: int, clock: Clock
) -> list[asyncpg.Record]:
    """The rows of several statements, each of which is given with its arguments and has the columns of the others: in
    this order, and so many. They are one search, of one moment, and each has a plan of its own. Raises as `search`."""
    text, arguments = together(parts, order, limit)
    async with links.pooled(writes=False) as connection:
        return await _fetched(connection, "search_terms", text, arguments, clock)


def together(parts: Sequence[tuple[str, Sequence[Any]]], order: str, limit: int) -> tuple[str, list[Any]]:
    """One statement of them, and its arguments. One that is alone is in its order, and so many, by itself."""
    if len(parts) == 1:
        [(name, asked)] = parts
        return statement(name), [*asked]
    texts, arguments = list[str](), list[Any]()
    for name, asked in parts:
        texts.append(f"({_renumbered(statement(name), by=len(arguments))}\n)")
        arguments += asked
    return "\nUNION ALL\n".join(texts) + f"\nORDER BY {order} LIMIT {limit:d}", arguments


def _renumbered(text: str, *, by: int) -> str:
    """Its parameters after those of the statements before it."""
    return PARAMETER.sub(lambda found: f"${int(found[1]) + by}", text)


async def searched(
    connection: asyncpg.Connection, name: str, arguments: Sequence[Any], clock: Clock
) -> list[asyncpg.Record]:
    """What `search` does, on a connection that the caller has, who translates other errors."""
    terms = "search_terms_kept" if name in KEPT else "search_terms"
    return await _fetched(connection, terms, statement(name), arguments, clock)


async def _fetched(
    connection: asyncpg.Connection, terms: str, text: str, arguments: Sequence[Any], clock: Clock
) -> list[asyncpg.Record]:
    begun = clock.monotonic()
    try:
        async with connection.transaction(readonly=True):
            await connection.fetchrow(statement(terms), str(int(SEARCH_SECONDS * 1000)))
            rows: list[asyncpg.Record] = await connection.fetch(text, *arguments)
    except asyncpg.QueryCanceledError as error:
        if clock.monotonic() - begun < NEARLY * SEARCH_SECONDS:
            raise
        raise Invalid(
            f"nothing more was found within {SEARCH_SECONDS:g} s: narrow the search, for example by job, status, "
            "schedule type or a time window"
        ) from error
    return rows
