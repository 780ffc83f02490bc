"""What was really run, as the tasks themselves wrote it down, beside what the system says of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

SQL = {file.stem: file.read_text() for file in (Path(__file__).parent / "sql").glob("*.sql")}


class Execution(NamedTuple):
    """One line of the witness."""

    run_id: str
    job_id: str
    token: int
    began: float
    due: float


@dataclass(slots=True)
class Witness:
    """A file that `tests.witness` appends to."""

    file: Path
    payload: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.payload = {"witness": str(self.file)}

    def executions(self) -> list[Execution]:
        """All that began."""
        if not self.file.exists():
            return []
        rows = [line.split() for line in self.file.read_text().splitlines()]
        return [Execution(row[0], row[1], int(row[2]), float(row[3]), float(row[4])) for row in rows]


async def judge(connection: asyncpg.Connection, witness: Witness) -> Sequence[Any]:
    """The ended runs, after all that must hold whatever happened has been held against the witness.

    Nothing is left over, every run ended once with success (or was skipped, and then it never ran), none began before
    its due time, and none ran more often than attempts are counted; what was accepted of a run was said by an
    execution that really was.
    """
    assert 0 == await connection.fetchval(SQL["active"])
    ended: Sequence[Any] = await connection.fetch(SQL["ended"])
    by_run: dict[str, list[Execution]] = defaultdict(list)
    for execution in witness.executions():
        by_run[execution.run_id].append(execution)
    ran = [row for row in ended if row["state"] != "SKIPPED"]
    assert {str(row["run_id"]) for row in ran} == by_run.keys(), "run and not recorded, or recorded and not run"
    assert len(ran) == len(by_run), "a run is on record twice"
    for row in ran:
        executions = by_run[str(row["run_id"])]
        assert "SUCCESS" == row["state"], dict(row)
        assert row["due"] <= row["started"] <= row["ended"], dict(row)
        assert all(each.due <= each.began for each in executions), f"{executions} began early"
        assert len(executions) <= row["attempt"], f"{dict(row)} ran as {executions}"
        assert row["token"] in {each.token for each in executions}, f"a stale result was taken: {dict(row)}"
    return ended


async def nothing_lives(connection: asyncpg.Connection) -> bool:
    """Whether every run has ended."""
    return bool(await connection.fetchval(SQL["active"]) == 0)
