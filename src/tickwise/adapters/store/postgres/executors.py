"""Executors: born, beating, leaving in order, or buried; and what they held, set free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.link import BEAT
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store import Beat, CancelKind, CancelRequest, ExecutorRow, Expired, NewExecutor

EXECUTORS_MOST: Final = 1_000


class Executors(Part):
    """`executor_*`, `executors_list`, `executors_between`, `attempts_keep` and `leases_expire` of the port."""

    async def executor_join(self, executor: NewExecutor) -> int:
        """See the port."""
        async with self._links.line(BEAT).use(writes=True) as connection:
            number: int = await connection.fetchval(
                statement("executor_join"),
                executor.lease_seconds,
                executor.slots,
                executor.name,
                executor.queues,
                executor.labels,
                executor.functions,
            )
        return number

    async def executor_beat(self, executor: int, lease_seconds: float, functions: Sequence[str] | None = None) -> Beat:
        """See the port."""
        async with self._links.line(BEAT).use(writes=True) as connection:
            rows = await connection.fetch(statement("executor_beat"), executor, lease_seconds, functions)
            alive, now = rows[0][0], rows[0][1]
            self._hear(now)
            asked = [(run, kind, held) for _, _, run, kind, held in rows if run is not None]
            over = [run for run, _, held in asked if not held]
            if over:
                await connection.execute(statement("requests_clear"), executor, over)
        cancels = [CancelRequest(run, CancelKind(kind)) for run, kind, held in asked if held and alive]
        return Beat(alive=alive, now=now, cancels=cancels)

    async def executor_leave(self, executor: int) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            # As with a burial: gone first, so that no claim of its can follow what is freed.
            await connection.execute(statement("executor_gone"), executor)
            async with connection.transaction():
                rows = await connection.fetch(statement("executor_free"), executor)
                if rows:
                    begun = [run for run, begun in rows if begun]
                    await connection.execute(statement("settle_requests"), [row[0] for row in rows], begun)
                await connection.execute(statement("executors_settled"), [executor])

    async def attempts_keep(self, executor: int, tokens: Sequence[int]) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("claims_wait"), executor)
            rows = await connection.fetch(statement("attempts_keep"), executor, tokens)
            if not rows:
                return 0
            settled: int = await connection.fetchval(statement("settle_requests"), [row[0] for row in rows], [])
        return len(rows) - settled

    async def executors_list(self) -> Sequence[ExecutorRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("executors_list"))
        return [ExecutorRow(**dict(row)) for row in rows]

    async def executors_between(self, since: float, until: float) -> Sequence[ExecutorRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("executors_between"), since, until, EXECUTORS_MOST)
        return [ExecutorRow(**dict(row)) for row in rows]

    async def leases_expire(self, crashes_max: int) -> Expired:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            buried = [row[0] for row in await connection.fetch(statement("executors_bury"))]
            async with connection.transaction():
                gone = [row[0] for row in await connection.fetch(statement("executors_unsettled"))]
                if not gone:
                    return Expired(executors=buried)
                rows = await connection.fetch(statement("leases_free"), gone, crashes_max)
                freed = [run for run, poison, _ in rows if not poison]
                if freed:
                    begun = [run for run, _, begun in rows if begun]
                    await connection.execute(statement("settle_requests"), freed, begun)
                await connection.execute(statement("executors_settled"), gone)
        quarantined = [run for run, poison, _ in rows if poison]
        return Expired(executors=buried, freed=len(freed), quarantined=quarantined)
