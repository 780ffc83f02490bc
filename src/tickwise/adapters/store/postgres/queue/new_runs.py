"""New runs, and skips on record, within the transaction of the caller. A run that is there is not made again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.codes import OVERLAPS
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store import NewRun, NewSkip


async def make_runs(
    connection: asyncpg.Connection, runs: Sequence[tuple[UUID, NewRun]], *, not_before_now: bool = False
) -> int:
    """Make runs of these jobs within the caller's transaction; how many there were not yet."""
    if not runs:
        return 0
    made: int = await connection.fetchval(statement("runs_make"), *run_columns(runs), not_before_now)
    return made


def run_columns(runs: Sequence[tuple[UUID, NewRun]]) -> list[Sequence[Any]]:
    """One array for each column of new runs, that of their jobs first."""
    if not runs:
        return [()] * (1 + len(NewRun._fields))
    jobs, made = zip(*runs, strict=True)
    run_ids, dues, triggers, definitions, origins, nominals, overlaps = zip(*made, strict=True)
    return [
        jobs,
        run_ids,
        dues,
        triggers,
        definitions,
        origins,
        nominals,
        [OVERLAPS[overlap] for overlap in overlaps],
    ]


async def make_skips(
    connection: asyncpg.Connection, job_id: UUID, skips: Sequence[NewSkip], origins: Sequence[UUID | None] | None = None
) -> None:
    """Put occurrences of a job that do not run on record within the caller's transaction."""
    if skips:
        origins = origins or [None] * len(skips)
        await connection.execute(statement("skips_make"), job_id, *skip_columns(skips), origins)


def skip_columns(skips: Sequence[NewSkip]) -> list[list[Any]]:
    """One array for each column of skipped occurrences."""
    return [
        [skip.run_id for skip in skips],
        [skip.nominal for skip in skips],
        [skip.until for skip in skips],
        [skip.occurrences for skip in skips],
        [skip.reason for skip in skips],
        [skip.error for skip in skips],
        [skip.trigger for skip in skips],
    ]
