"""Readings of what has been used, and the differences between two of them.

CPU is what the scheduler of the kernel says that a process has run, exact to the nanosecond, of all its threads: for
a session of PostgreSQL that is its one process. Nothing here is wall time but `Statement.microseconds`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import psutil

from bench.harness import SQL
from tickwise.adapters.store.postgres.statements import statement

METER = "bench meter"
"""The application name of the meter's own session, which is left out of what it reads."""

ENDED = "vacuum workers and sessions that ended"


class Usage(NamedTuple):
    """What one process used."""

    cpu: float
    """Seconds."""
    wal: int = 0
    """Bytes that it wrote itself."""


class Statement(NamedTuple):
    """What one statement cost, all its calls together."""

    calls: int
    rows: int
    microseconds: float
    """Of wall time within the server, so with other processes' turns on the cores."""
    wal: int
    hits: int
    reads: int
    dirtied: int


class Rows(NamedTuple):
    """What was done to a table."""

    inserted: int
    updated: int
    hot: int
    """Of the updated, those that touched no index."""
    deleted: int


@dataclass(frozen=True)
class Reading:
    """Everything, at one instant."""

    programs: Mapping[str, Usage]
    """Processes of the product, by role."""
    sessions: Mapping[str, Usage]
    """Processes that serve a connection, by its application name."""
    background: Mapping[str, Usage]
    """The server's other processes, by kind."""
    statements: Mapping[str, Statement]
    tables: Mapping[str, Rows]
    wal: int

    def since(self, before: Reading) -> Reading:
        """What was used between the two. A session that ended in between counts as one of the background."""
        return Reading(
            programs=less(self.programs, before.programs),
            sessions=less(self.sessions, before.sessions),
            background=less(self.background, before.background),
            statements=less(self.statements, before.statements),
            tables=less(self.tables, before.tables),
            wal=self.wal - before.wal,
        )


def less(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Field by field; what is zero in all of them is left out."""
    found: dict[str, Any] = {}
    for name, now in after.items():
        then = before.get(name)
        left = now if then is None else type(now)(*(one - other for one, other in zip(now, then, strict=True)))
        if any(left):
            found[name] = left
    return found


def cpu_seconds(pid: int) -> float:
    """What a process has run so far, all its threads; 0 for one that is gone."""
    total = 0
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def reaped_seconds(pid: int) -> float:
    """What the children of a process that have ended had run, to a hundredth of a second; 0 for one that is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def canonical(query: str) -> str:
    """A statement without what PostgreSQL replaces in it: constants, numbers of parameters, blanks, comments."""
    bare = re.sub(r"--[^\n]*", " ", query)
    bare = re.sub(r"'[^']*'|\$\d+|(?<![\w.])\d+(\.\d+)?", "?", bare)
    bare = re.sub(r"\s*/\*, \.\.\. \*/", "", bare)
    bare = re.sub(r"\((\?)(, ?\?)+\)", "(?)", bare)
    return re.sub(r"\s+", " ", bare).strip(" ;").lower()


@cache
def _names() -> dict[str, str]:
    """Canonical statement to its name, of the product and of the benchmarks; parts of a file have its name too."""
    found: dict[str, str] = {}
    for name, text in [*statement.texts.items(), *SQL.items()]:
        bare = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
        for part in (bare, *bare.split(";\n")):
            found.setdefault(canonical(part), name)
    return found


def named(query: str) -> str:
    """The file that a statement stands in, or how it begins."""
    bare = canonical(query)
    return _names().get(bare) or bare[:60]


@dataclass
class Meter:
    """Reads. `programs` names the processes to watch, by role; their children are told apart. Of this
    process, which has all of them for children, only itself is meant."""

    connection: asyncpg.Connection
    programs: dict[str, int] = field(default_factory=dict)

    @classmethod
    async def open(cls, dsn: str) -> Meter:
        """With a session of its own."""
        return cls(await asyncpg.connect(dsn, server_settings={"application_name": METER}))

    async def close(self) -> None:
        """End the session."""
        await self.connection.close()

    async def reset(self) -> None:
        """Forget the statements of before."""
        await self.connection.execute(SQL["costs_reset"])

    async def read(self) -> Reading:
        """Everything, now; but for `tables`, see there."""
        sessions: dict[str, Usage] = {}
        background: dict[str, Usage] = {}
        for row in await self.connection.fetch(SQL["costs_sessions"]):
            kind, name = row["backend_type"], row["application_name"]
            if kind == "client backend" and name in {METER, ""}:
                continue  # the product's sessions have names, the benchmark's own have none
            where, key = (sessions, name) if kind == "client backend" else (background, kind)
            _add(where, key, Usage(cpu_seconds(row["pid"]), row["wal"]))
        server = psutil.Process(self.connection.get_server_pid()).ppid()
        background[ENDED] = Usage(reaped_seconds(server))
        statements: dict[str, Statement] = {}
        for row in await self.connection.fetch(SQL["costs_statements"]):
            _add(statements, named(row["query"]), Statement(*[*row.values()][1:]))
        return Reading(
            programs=self._programs(),
            sessions=sessions,
            background=background,
            statements=statements,
            tables=await self.tables(),
            wal=await self.connection.fetchval(SQL["costs_wal"]),
        )

    async def tables(self) -> dict[str, Rows]:
        """What was done to rows, by sessions that have ended or have idled for 10 s: others have not told yet."""
        return {row["name"]: Rows(*[*row.values()][1:]) for row in await self.connection.fetch(SQL["costs_tables"])}

    def _programs(self) -> dict[str, Usage]:
        used: dict[str, Usage] = {}
        for role, pid in self.programs.items():
            for one in [pid] if pid == os.getpid() else family(pid):
                _add(used, role if one == pid else f"{role}: workers", Usage(cpu_seconds(one)))
        return used


def _add(where: dict[str, Any], key: str, more: Any) -> None:
    there = where.get(key)
    where[key] = more if there is None else type(more)(*(one + other for one, other in zip(there, more, strict=True)))


def total(usages: Iterable[Usage]) -> Usage:
    """All of them together."""
    several = list(usages)
    return Usage(sum(one.cpu for one in several), sum(one.wal for one in several))
