"""What single parts of the schema and of the statements cost: the same stage with and without one, in turn.

A part is left out by a change of the table that is undone afterwards, or by a statement whose text lacks it: the files
of `left_out/`, named by statement and part, say from where, until where, and what stands there instead. A part that is
no longer there is reported as such: nothing is measured then, and nothing is made up.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import asyncpg

from bench.harness import SQL
from tickwise.adapters.store.postgres.statements import statement

FOLDER = Path(__file__).with_name("left_out")
MARKS = ("-- from", "-- until", "-- instead")
_MODULES = ("dispatch.attempts", "jobs.submits")


class NoSuchPart(Exception):
    """What was to be left out is not there."""


class Cut(NamedTuple):
    """A piece of a text, from where it begins up to where the next one does, and what takes its place."""

    begin: str
    end: str
    """It stays. Empty: the piece is `begin` itself."""
    instead: str

    def __call__(self, text: str) -> str:
        """The text without it. Raises `NoSuchPart`."""
        before, found, rest = text.partition(self.begin)
        if not found:
            raise NoSuchPart(self.begin)
        if not self.end:
            return before + self.instead + rest
        _, found, after = rest.partition(self.end)
        if not found:
            raise NoSuchPart(self.end)
        return f"{before}{self.instead}\n{self.end}{after}"


def read_cut(text: str) -> Cut:
    """Of a file of `left_out/`. `{day}` in it is today, as partitions are named."""
    pieces: dict[str, list[str]] = {mark: [] for mark in MARKS}
    at = ""
    for line in text.replace("{day}", f"{datetime.now(UTC):%Y%m%d}").splitlines():
        if line in pieces:
            at = line
        elif at:
            pieces[at].append(line)
    return Cut(*("\n".join(pieces[mark]) for mark in MARKS))


def shortened(name: str) -> tuple[str, str]:
    """The statement that a file of `left_out/` is about, and its text without that part. Raises `NoSuchPart`."""
    of = name.partition(".")[0]
    return of, read_cut((FOLDER / f"{name}.sql").read_text())(statement(of))


@contextlib.contextmanager
def without(names: Sequence[str]) -> Iterator[None]:
    """Meanwhile the store of this process uses statements without these parts. Raises `NoSuchPart`."""
    texts = dict(shortened(name) for name in names)

    def varying(name: str) -> str:
        return texts.get(name) or statement(name)

    with contextlib.ExitStack() as stack:
        for module in _MODULES:
            stack.enter_context(patch(f"tickwise.adapters.store.postgres.{module}.statement", varying))
        yield


@dataclass(frozen=True)
class Feature:
    """A part that can be left out of a stage."""

    name: str
    buys: str
    cuts: Sequence[str] = ()
    """Files of `left_out/`."""
    indexes: Sequence[str] = ()
    constraint: tuple[str, str] | None = None
    """Table and name."""
    trigger: tuple[str, str] | None = None
    """Table and name."""

    @contextlib.asynccontextmanager
    async def left_out(self, connection: asyncpg.Connection) -> AsyncIterator[None]:
        """Meanwhile it is not there. Raises `NoSuchPart`. The tables are empty before and afterwards."""
        undo: list[str] = []
        with without(self.cuts):
            try:
                await self._leave_out(connection, undo)
                yield
            finally:
                await connection.execute(SQL["reset"])
                for back in undo:
                    await connection.execute(back)

    async def _leave_out(self, connection: asyncpg.Connection, undo: list[str]) -> None:
        """Change the tables; what undoes each change is added to `undo`."""
        for index in self.indexes:
            made = await _known(connection, SQL["costs_index"], f"tickwise.{index}")
            await connection.execute(SQL["costs_drop_index"].format(index=index))
            undo.append(made)
        if self.constraint is not None:
            table, name = self.constraint
            demands = await _known(connection, SQL["costs_constraint"], f"tickwise.{table}", name)
            await connection.execute(SQL["costs_drop_constraint"].format(table=table, name=name))
            undo.append(SQL["costs_add_constraint"].format(table=table, name=name, demands=demands))
        if self.trigger is not None:
            table, name = self.trigger
            try:
                await connection.execute(SQL["costs_disable_trigger"].format(table=table, name=name))
            except asyncpg.UndefinedObjectError as error:
                raise NoSuchPart(name) from error
            undo.append(SQL["costs_enable_trigger"].format(table=table, name=name))


async def _known(connection: asyncpg.Connection, query: str, *arguments: str) -> str:
    """The one value that a query finds. Raises `NoSuchPart`."""
    try:
        found = await connection.fetchval(query, *arguments)
    except asyncpg.UndefinedTableError:
        found = None
    if found is None:
        raise NoSuchPart(" ".join(arguments))
    return str(found)


STATE_CHECK = Feature(
    "check of a run's state", "no program can leave a run half held", constraint=("runs", "runs_held")
)
FEATURES: Mapping[str, Sequence[Feature]] = {
    "submit": (
        Feature("index of runs by job", "overlap, cancel and pages of a job find its runs", indexes=["runs_of_job"]),
        Feature(
            "partial indexes of runs that wait",
            "limits, rates and overlap find who waits; common runs are in none of them",
            indexes=["runs_blocked", "runs_limited", "runs_paced"],
        ),
        Feature("partial indexes of jobs", "search by label and standing", indexes=["jobs_standing", "jobs_labels"]),
        STATE_CHECK,
        Feature("partitions of jobs", "a day of definitions is dropped, not deleted", ["jobs_add.partition"]),
        Feature(
            "definition copied into the run",
            "a claim reads one small table, and an edit changes no run that is due",
            ["jobs_add.copy"],
        ),
    ),
    "claim": (
        STATE_CHECK,
        Feature("trigger of legal moves", "no program can make an illegal move", trigger=("runs", "runs_moves")),
        Feature(
            "the executor's lease, looked at and its row shared",
            "an executor that was expired gets nothing",
            ["claim.lease"],
        ),
        Feature("queues on hold", "a queue stands still at once", ["claim.holds"]),
    ),
    "finish": (
        Feature("index of history by job", "the runs of a job, the latest first", indexes=["history_job"]),
        Feature(
            "check of the last move", "no program can record an illegal end", constraint=("history", "history_moves")
        ),
        Feature("partitions of history", "a day of history is dropped, not deleted", ["finish.partition"]),
        Feature("the fence by token", "a stale result is refused, also of the same executor", ["finish.fence"]),
        Feature("when a cancel was asked and heard", "on record with the run that it ended", ["finish.cancel"]),
    ),
}
"""By stage."""
