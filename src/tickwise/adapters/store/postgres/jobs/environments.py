"""Environments that jobs declare."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import closed_among
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure
from tickwise.ports.store.environments import (
    DECLARED_SECONDS,
    MAX_DECLARED_OF_NAMESPACE,
    MAX_FAULT_CHARACTERS,
    MAX_LOOKED_AT,
    DeclaredEnvironment,
    EnvironmentFault,
    WantedEnvironment,
    WantedQuery,
)


class DeclaredEnvironments(Part):
    """`EnvironmentStore` of the port."""

    async def declare(self, environments: Sequence[DeclaredEnvironment]) -> None:
        """See the port."""
        rows = {(each.demand, each.queue, each.requires): each for each in environments}
        for namespace in sorted({demand.namespace for demand, _, _ in rows}):
            await self._declare(namespace, [each for each in rows.values() if each.demand.namespace == namespace])

    async def _declare(self, namespace: str, rows: Sequence[DeclaredEnvironment]) -> None:
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if await closed_among(connection, [namespace], or_closing=False):
                return
            await connection.execute(
                statement("environments_declare"),
                [namespace] * len(rows),
                [each.demand.digest for each in rows],
                [each.queue for each in rows],
                [json.dumps(each.requires) for each in rows],
                [_written(each.demand) for each in rows],
                [each.job_id for each in rows],
            )
            await connection.execute(statement("environments_trim"), namespace, MAX_DECLARED_OF_NAMESPACE)

    async def wanted(self, query: WantedQuery) -> Sequence[WantedEnvironment]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(
                statement("environments_wanted"),
                list(query.queues),
                list(query.labels),
                None if query.namespaces is None else list(query.namespaces),
                query.limit,
                MAX_LOOKED_AT,
            )
        return [WantedEnvironment(_read(row["namespace"], row["declaration"]), row["failed"]) for row in rows]

    async def report(self, demand: EnvironmentDemand, failure: EnvironmentFailure | None, executor: str) -> None:
        """See the port."""
        said: tuple[str | None, str | None, str | None] = (None, None, None)
        if failure is not None:
            said = (failure.reason, failure.detail.replace("\0", "")[:MAX_FAULT_CHARACTERS], executor)
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(statement("environments_report"), demand.namespace, demand.digest, *said)

    async def fault(self, demand: EnvironmentDemand) -> EnvironmentFault | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("environments_fault"), demand.namespace, demand.digest)
        return None if row is None else EnvironmentFault(*row)

    async def forget(self) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            dropped: int = await connection.fetchval(statement("environments_forget"), DECLARED_SECONDS)
        return dropped


def _written(demand: EnvironmentDemand) -> str:
    """The declaration without its namespace. By names: a later release may add some."""
    fields = demand._asdict()
    del fields["namespace"]
    return json.dumps(fields)


def _read(namespace: str, text: str) -> EnvironmentDemand:
    fields = json.loads(text)
    return EnvironmentDemand(namespace, **{name: fields[name] for name in EnvironmentDemand._fields if name in fields})
