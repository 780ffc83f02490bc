"""Executors: registered, beating, leaving in order, or expired; and the release of their runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import BEAT, translated
from tickwise.adapters.store.postgres.jobs.flow import COUNTED_PAGES, ask_back
from tickwise.adapters.store.postgres.queue.releases import (
    BAD,
    FREE,
    HELD,
    POISON,
    UNKNOWN,
    Freed,
    FreeTerms,
    free_runs,
)
from tickwise.adapters.store.postgres.queue.wakeups import Ended, Woken, wake
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import CancelKind
from tickwise.domain.retry import CRASHES_MAX
from tickwise.domain.rules.capacities import Capacity
from tickwise.ports.store import Beat, CancelRequest, ExecutorRow, Expired, NewExecutor, number_taken

_COLUMNS: Final = ("capacity_names", "capacity_wholes", "capacity_takens")

MAX_EXECUTORS: Final = 1_000
MAX_HELD: Final = 100_000
"""Runs that one call frees; what is left is for the next."""


class Executors(Part):
    """`ExecutorStore` of the port."""

    async def join(self, executor: NewExecutor) -> int:
        """See the port."""
        async with self._links.line(BEAT).use(writes=True) as connection:
            if executor.returns and await connection.fetchval(
                statement("executor_return"),
                executor.number,
                executor.lease_seconds,
                executor.functions,
                *_columns(executor.capacities),
            ):
                return executor.number
            number: int | None = await connection.fetchval(
                statement("executor_join"),
                executor.lease_seconds,
                executor.slots,
                executor.name,
                executor.queues,
                executor.labels,
                executor.functions,
                executor.results_key,
                executor.number,
                None if executor.namespaces is None else list(executor.namespaces),
                *_columns(executor.capacities),
            )
        if number is None:
            raise number_taken(executor.number)
        return number

    async def beat(
        self,
        executor: int,
        lease_seconds: float,
        functions: Sequence[str] | None = None,
        *,
        differs: int | None = None,
        held: int | None = None,
        capacities: Mapping[str, Capacity] | None = None,
    ) -> Beat:
        """See the port."""
        counted = (None, None, None) if capacities is None else _columns(capacities)
        said = executor, lease_seconds, functions, differs, self._links.token, held, *counted
        async with self._links.line(BEAT).use(writes=True) as connection:
            rows = await connection.fetch(statement("executor_beat"), *said)
            if rows[0]["untold"]:
                with contextlib.suppress(Unavailable), translated(writes=True):
                    await ask_back(connection)  # if it cannot be now, another beat does it
                rows = await connection.fetch(statement("executor_beat"), *said)
            alive, now, epoch = rows[0][0], rows[0][1], rows[0]["epoch"]
            self._links.heard_epoch(epoch)  # a connection through a pooler may lead to another server by now
            self._shared.hear(now)
            asked = [(run, kind, held) for _, _, run, kind, held, *_ in rows if run is not None]
            over = [run for run, _, held in asked if not held]
            if over:
                await connection.execute(statement("requests_clear"), executor, over)
        cancels = [CancelRequest(run, CancelKind(kind)) for run, kind, held in asked if held and alive]
        return Beat(alive=alive, now=now, cancels=cancels, epoch=epoch)

    async def leave(self, executor: int) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            # As with an expiry: gone first, so that no claim of its can follow what is freed.
            await connection.execute(statement("executor_gone"), executor)
            _, woken = await self._free(connection, [executor], in_order=True)
        await self._shared.report_handover(woken)

    async def release_unknown(self, executor: int, tokens: Sequence[int], asked: float) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("claims_wait"), executor)
            rows = await connection.fetch(statement("attempts_release_unknown"), executor, tokens, asked)
            if not rows:
                return 0
            settled, *left = await connection.fetchrow(statement("settle_requests"), [row[0] for row in rows], [])
            over = Ended()
            over.add(*left)
            woken = await wake(connection, over)
        await self._shared.report_handover(woken)
        return len(rows) - int(settled)

    async def all(self, between: tuple[float, float] | None = None) -> Sequence[ExecutorRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            if between is None:
                rows = await connection.fetch(statement("executors_list"), COUNTED_PAGES)
            else:
                rows = await connection.fetch(statement("executors_between"), COUNTED_PAGES, *between, MAX_EXECUTORS)
        return [_row(row) for row in rows]

    async def expire(self, crashes_max: int) -> Expired:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            expired = [row[0] for row in await connection.fetch(statement("executors_expire"))]
            gone = [row[0] for row in await connection.fetch(statement("executors_unsettled"))]
            freed, woken = await self._free(connection, gone, crashes_max=crashes_max) if gone else ([], [])
        await self._shared.report_handover(woken)
        return Expired(
            executors=expired,
            freed=len([one for one in freed if one.verdict == FREE]),
            quarantined=[one.run_id for one in freed if one.verdict == POISON],
            unknown=[one.run_id for one in freed if one.verdict in (UNKNOWN, HELD)],
            held=[one.run_id for one in freed if one.verdict == HELD],
        )

    async def keys(self, executors: Sequence[int]) -> Mapping[int, bytes | None]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("results_keys"), executors)
        return {row["executor"]: row["results_key"] for row in rows}

    async def _free(
        self,
        connection: asyncpg.Connection,
        gone: Sequence[int],
        *,
        crashes_max: int = CRASHES_MAX,
        in_order: bool = False,
    ) -> tuple[list[Freed], list[Woken]]:
        """Free the runs of these executors, and mark the executors as settled that hold none any more. Also, what
        waited for one of them and is claimable by it."""
        rows = await connection.fetch(statement("runs_held"), gone, MAX_HELD)
        terms = FreeTerms(crashes_max, in_order)
        freed, woken = await free_runs(
            connection, self._shared.stuck.waiting([row[0] for row in rows], self._clock), terms
        )
        bad = {one.run_id: one.verdict for one in freed if one.verdict.startswith(BAD)}
        self._shared.stuck.note(bad, self._clock)
        if len(freed) - len(bad) < len(rows) or len(rows) == MAX_HELD:
            holders = {row[1] for row in await connection.fetch(statement("runs_held"), gone, MAX_HELD)}
            gone = [executor for executor in gone if executor not in holders]
        await connection.execute(statement("executors_settled"), gone)
        return [one for one in freed if one.run_id not in bad], woken


def _columns(capacities: Mapping[str, Capacity]) -> tuple[list[str], list[int], list[int]]:
    """Names, whole amounts and taken amounts, in one order."""
    return (
        list(capacities),
        [capacity.whole for capacity in capacities.values()],
        [capacity.taken for capacity in capacities.values()],
    )


def _row(row: asyncpg.Record) -> ExecutorRow:
    fields = dict(row)
    counted = zip(*(fields.pop(column) for column in _COLUMNS), strict=True)
    return ExecutorRow(**fields, capacities={name: Capacity(whole, taken) for name, whole, taken in counted})
