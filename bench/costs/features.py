"""What single parts of the schema and of the statements cost: the same stage with and without one, in turn.

A part is left out by a change of the table that is undone afterwards, or by a statement whose text lacks it. A part
that its statement no longer has is reported as such: nothing is measured then, and nothing is made up.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from unittest.mock import patch

import asyncpg

from bench.harness import SQL
from tickwise.adapters.store.postgres.statements import statement

Change = Callable[[str], str]

_MODULES = ("attempts", "submits", "timers")


class NoSuchPart(Exception):
    """The statement does not have the part that was to be left out."""


def replaced(text: str, old: str, new: str) -> str:
    """Raises `NoSuchPart` unless `old` stands in the text."""
    if old not in text:
        raise NoSuchPart(old)
    return text.replace(old, new)


def between(text: str, begin: str, end: str, new: str) -> str:
    """The text from `begin` up to `end`, which stays, replaced. Raises `NoSuchPart`."""
    if begin not in text or end not in text.split(begin, 1)[1]:
        raise NoSuchPart(f"{begin} … {end}")
    before, rest = text.split(begin, 1)
    return before + new + end + rest.split(end, 1)[1]


@contextlib.contextmanager
def varied(changes: Mapping[str, Change]) -> Iterator[None]:
    """Meanwhile the store of this process uses changed statements. Raises `NoSuchPart`."""
    texts = {name: change(statement(name)) for name, change in changes.items()}

    def varying(name: str) -> str:
        return texts.get(name) or statement(name)

    with contextlib.ExitStack() as stack:
        for module in _MODULES:
            stack.enter_context(patch(f"tickwise.adapters.store.postgres.{module}.statement", varying))
        yield


def without_history(text: str) -> str:
    """`finish` that leaves no record; what was returned to be recorded stays."""
    return between(text, "h AS (", ")\nSELECT count(*)", "h AS (SELECT ")


@dataclass(frozen=True)
class Feature:
    """A part that can be left out of a stage."""

    name: str
    buys: str
    statements: Mapping[str, Change] = field(default_factory=dict)
    """By name, how its text is changed."""
    indexes: Sequence[str] = ()
    constraint: tuple[str, str] | None = None
    """Table and name."""
    trigger: tuple[str, str] | None = None
    """Table and name."""

    @contextlib.asynccontextmanager
    async def left_out(self, connection: asyncpg.Connection) -> AsyncIterator[None]:
        """Meanwhile it is not there. Raises `NoSuchPart`. The tables are empty before and afterwards."""
        undo = []
        with varied(self.statements):
            for index in self.indexes:
                undo.append(await _known(connection, SQL["costs_index"], f"tickwise.{index}"))
                await connection.execute(f"DROP INDEX tickwise.{index}")
            if self.constraint is not None:
                table, name = self.constraint
                demands = await _known(connection, SQL["costs_constraint"], f"tickwise.{table}", name)
                undo.append(f"ALTER TABLE tickwise.{table} ADD CONSTRAINT {name} {demands}")
                await connection.execute(f"ALTER TABLE tickwise.{table} DROP CONSTRAINT {name}")
            if self.trigger is not None:
                table, name = self.trigger
                undo.append(f"ALTER TABLE tickwise.{table} ENABLE TRIGGER {name}")
                await connection.execute(f"ALTER TABLE tickwise.{table} DISABLE TRIGGER {name}")
            try:
                yield
            finally:
                await connection.execute(SQL["reset"])
                for statement_text in undo:
                    await connection.execute(statement_text)


async def _known(connection: asyncpg.Connection, query: str, *arguments: str) -> str:
    """The one value that a query finds. Raises `NoSuchPart`."""
    try:
        found = await connection.fetchval(query, *arguments)
    except asyncpg.UndefinedTableError:
        found = None
    if found is None:
        raise NoSuchPart(" ".join(arguments))
    return str(found)


def _straight_into(parent: str) -> Change:
    """Rows go into today's partition by its name, and not by way of its parent."""
    return lambda text: replaced(
        text, f"INSERT INTO tickwise.{parent} (", f"INSERT INTO tickwise.{parent}_{datetime.now(UTC):%Y%m%d} ("
    )


def _without(part: str, instead: str = "") -> Change:
    return lambda text: replaced(text, part, instead)


FEATURES: Mapping[str, Sequence[Feature]] = {
    "submit": (
        Feature("index of runs by job", "overlap, cancel and pages of a job find its runs", indexes=["runs_job"]),
        Feature(
            "partial indexes of runs that wait",
            "limits, rates and overlap find who waits; common runs are in none of them",
            indexes=["runs_blocked", "runs_limited", "runs_paced"],
        ),
        Feature("partial indexes of jobs", "search by label and standing", indexes=["jobs_standing", "jobs_labels"]),
        Feature("check of a run's state", "no program can leave a run half held", constraint=("runs", "runs_held")),
        Feature(
            "partitions of jobs",
            "a day of definitions is dropped, not deleted",
            {"jobs_add": _straight_into("jobs")},
        ),
        Feature(
            "definition copied into the run",
            "a claim reads one small table, and an edit changes no run that is due",
            {"jobs_add": _without("CASE WHEN octet_length(definition) <= 8192 THEN definition END", "NULL")},
        ),
    ),
    "claim": (
        Feature("check of a run's state", "no program can leave a run half held", constraint=("runs", "runs_held")),
        Feature("trigger of legal moves", "no program can make an illegal move", trigger=("runs", "runs_moves")),
        Feature(
            "lease looked at, and its row shared",
            "an executor that was buried gets nothing",
            {
                "claim": lambda text: between(
                    text, "me AS MATERIALIZED (", "),\nheads", "me AS MATERIALIZED (SELECT true AS alive"
                )
            },
        ),
        Feature(
            "queues on hold",
            "a queue stands still at once",
            {"claim": _without(" NOT IN (SELECT namespace, queue FROM tickwise.queues_held)", " IS NOT NULL")},
        ),
    ),
    "finish": (
        Feature("index of history by job", "the runs of a job, the latest first", indexes=["history_job"]),
        Feature("index of troubles", "what failed, found at once; success is not in it", indexes=["history_troubles"]),
        Feature(
            "check of the last move", "no program can record an illegal end", constraint=("history", "history_moves")
        ),
        Feature(
            "partitions of history",
            "a day of history is dropped, not deleted",
            {"finish": _straight_into("history")},
        ),
        Feature(
            "the fence by token",
            "a stale result is refused, also of the same executor",
            {"finish": _without(" AND (run_id, token) IN (SELECT run_id, token FROM f OFFSET 0)")},
        ),
        Feature(
            "when a cancel was asked and heard",
            "on record with the run that it ended",
            {"finish": lambda text: between(text, "CASE f.state WHEN 7", "\n  FROM d JOIN f", "NULL, NULL, NULL")},
        ),
    ),
}
"""By stage."""
