"""Upkeep: partitions made ahead, and old ones dropped.

history_20261121        runs whose time id lies in that day (UTC); dropped when all have been over for long enough
history_20261121_kept   what outlived it: failed runs, and runs that ended late
jobs_20261121           one-time jobs by the day in their id; those that still matter move to `jobs_lasting` first
history_rest, jobs_rest ids of days that have no partition
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import UPKEEP, UniqueBroken, translated
from tickwise.adapters.store.postgres.queue.lanes import FREED_SECONDS
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.error_groups import HOURS_SECONDS
from tickwise.domain.errors import TickwiseError
from tickwise.domain.model import time_id
from tickwise.ports.store import (
    ALERTS_KEPT_SECONDS,
    LANE_IDLE_SECONDS,
    MAX_LANES,
    MAX_LANES_OF_NAMESPACE,
    NOTED_SECONDS,
    TALLIES_SECONDS,
    Maintained,
    Retention,
)

DAY_SECONDS: Final = 86_400
BEHIND_SECONDS: Final = 86_400.0
"""Partitions are made for the day before as well: ids of runs that were due then are still being ended."""
ROWS_A_TRIM: Final = 10_000
LOOKED_A_STEP: Final = 2_000
BEFORE_ALL: Final = UUID(int=0)
MAKE_TRIES: Final = 2
"""Rows that came in between its look and its lock, and have to move into the new partition, are seen by the second."""
MAX_TRIMS: Final = 1_000
"""Ten million rows a round, so that what comes in a day also goes in one; each transaction holds few rows for long."""

log = logging.getLogger(__name__)

_NAME = re.compile(r"(history|jobs)_(\d{8})(_kept)?")


class Partition(NamedTuple):
    """A table that holds one day."""

    name: str
    kind: str
    day: int
    """Days since the epoch."""

    @property
    def end(self) -> float:
        """The instant after its last."""
        return (self.day + 1.0) * DAY_SECONDS

    @property
    def bounds(self) -> tuple[UUID, UUID]:
        """Its first id, and the first one after it."""
        return _first_id(self.day * DAY_SECONDS), _first_id((self.day + 1) * DAY_SECONDS)


class Maintenance(Part):
    """`maintain` of the port."""

    async def maintain(self, retention: Retention) -> Maintained:
        """See the port."""
        line = self._links.line(UPKEEP)
        try:
            async with line.use(writes=True) as connection:
                if not await connection.fetchval(statement("upkeep_lock")):
                    return Maintained()
                return await _maintain(connection, retention)
        finally:
            # The lock ends with the session, and the connection is not needed until the next round.
            await line.close()


async def _maintain(connection: asyncpg.Connection, retention: Retention) -> Maintained:
    now: float = await connection.fetchval(statement("now"))
    since, failed_since = now - retention.runs_seconds, now - retention.failed_seconds
    there = [found for row in await connection.fetch(statement("partitions")) if (found := _partition(row[0]))]
    days = range(int((now - BEHIND_SECONDS) // DAY_SECONDS), int((now + retention.ahead_seconds) // DAY_SECONDS) + 1)
    steps = Steps(connection)
    made = await _make(steps, there, days)
    made += [name for day in days if (name := await steps.run("audit_make", day)) is not None]
    # History before jobs: a job goes when nothing of it is on record any more.
    dropped = await _retire_history(steps, there, since, failed_since)
    await steps.trim("history_rest_trim", since, failed_since)
    dropped += await _retire_jobs(steps, there, since)
    dropped += await _retire_audit(steps, int((now - retention.audit_seconds) // DAY_SECONDS))
    await steps.walk("jobs_trim", since)
    await steps.trim("attempts_trim", _first_id(failed_since))
    await steps.trim("letters_trim", _first_id(failed_since))
    await steps.trim("error_letters_trim", _first_id(failed_since))
    await steps.trim("error_groups_trim", failed_since)
    await steps.trim("error_hours_trim", HOURS_SECONDS)
    await steps.trim("alerts_trim", ALERTS_KEPT_SECONDS)
    await steps.trim("notices_trim", ALERTS_KEPT_SECONDS)
    await steps.trim("notices_noted_trim", NOTED_SECONDS)
    await steps.trim("gates_trim")
    await _free_lanes(steps)
    await steps.trim("tallies_fold")
    await steps.trim("tallies_trim", now - TALLIES_SECONDS)
    await steps.run("operations_trim", since)
    await steps.run("executors_trim", since)
    await steps.run("incidents_trim", since)
    await steps.run("fires_trim")
    return Maintained(made=made, dropped=dropped, receipts=await steps.trim("receipts_trim"))


async def _free_lanes(steps: Steps) -> None:
    """Free lanes that nothing uses, where there is little room left: half of what there is."""
    await steps.run("lanes_heal")
    await steps.run("lanes_trim", FREED_SECONDS)
    tight = await steps.run("lanes_tight", MAX_LANES // 2, MAX_LANES_OF_NAMESPACE // 2)
    if tight:
        await steps.run("lanes_idle", tight)
        await steps.run("lanes_free", LANE_IDLE_SECONDS, tight)


class Steps:
    """Each step is a transaction of its own; one that fails, or would make others wait, stops no other."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def run(self, name: str, *arguments: object) -> Any:
        """The answer of a step; None if it was not done: the next round tries again. Raises only if the link is
        lost."""
        try:
            with translated(writes=True):
                return await self._connection.fetchval(statement(name), *arguments)
        except (TickwiseError, UniqueBroken) as error:
            if self._connection.is_closed():
                raise
            log.warning("the upkeep's step %s waits for its next round: %s", (name, *arguments), error)
            return None

    async def trim(self, name: str, *arguments: object) -> int:
        """Delete expired rows, a bounded number for each transaction and each round; their number."""
        count = 0
        for _ in range(MAX_TRIMS):
            trimmed = await self.run(name, *arguments, ROWS_A_TRIM)
            count += trimmed or 0
            if trimmed is None or trimmed < ROWS_A_TRIM:
                break
        return count

    async def walk(self, name: str, *arguments: object) -> None:
        """Look at all rows of a kind in the order of their ids, a bounded number in each transaction, and delete those
        that are expired."""
        after: UUID | None = BEFORE_ALL
        while after is not None:
            after = await self.run(name, *arguments, LOOKED_A_STEP, after)


async def _make(steps: Steps, there: list[Partition], days: range) -> list[str]:
    made = []
    for kind, parent in (("history", "history"), ("jobs", "jobs_passing")):
        existing = {partition.day for partition in there if partition.kind == kind}
        for day in days:
            if day in existing:
                continue
            new = Partition(f"{kind}_{datetime.fromtimestamp(day * DAY_SECONDS, UTC):%Y%m%d}", kind, day)
            for _ in range(MAKE_TRIES):
                if await steps.run("partition_make", parent, new.name, *new.bounds) is not None:
                    made.append(new.name)
                    break
    return made


async def _retire_history(steps: Steps, there: list[Partition], since: float, failed_since: float) -> list[str]:
    return [
        partition.name
        for partition in there
        if partition.kind == "history"
        and partition.end < since
        and await steps.run("history_retire", partition.name, *partition.bounds, since, failed_since)
        in ("dropped", "replaced")
    ]


async def _retire_audit(steps: Steps, day: int) -> list[str]:
    """Each call drops a few partitions, so that writers never wait for long; the last one drops none."""
    dropped: list[str] = []
    while names := await steps.run("audit_retire", day):
        dropped += names
    await steps.trim("audit_trim")
    return dropped


async def _retire_jobs(steps: Steps, there: list[Partition], since: float) -> list[str]:
    return [
        partition.name
        for partition in there
        if partition.kind == "jobs"
        and partition.end < since
        and await steps.run("jobs_retire", partition.name, *partition.bounds) is not None
    ]


def _partition(name: str) -> Partition | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    midnight = datetime.strptime(match[2], "%Y%m%d").replace(tzinfo=UTC)
    return Partition(name, match[1], int(midnight.timestamp()) // DAY_SECONDS)


def _first_id(instant: float) -> UUID:
    """Below every id of that instant or later: such an id without its version, which sorts before all that have one."""
    return UUID(int=time_id(int(instant * 1000), bytes(10)).int >> 80 << 80)
