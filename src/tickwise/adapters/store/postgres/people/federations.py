"""Trust in tokens of other issuers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.jobs.keys import key_insert, key_row
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.accounts.federations import Federation
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.federations import FederationRow
from tickwise.ports.identity.keys import NewKey

_FIELDS = ("key_id", "issuer", "audience", "conditions", "key_set", "lifetime_seconds", "single_use")


class Federations(Part):
    """`FederationStore` of the port."""

    async def add(self, federation: Federation, key: NewKey, *, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if not await key_insert(connection, key):
                return
            await connection.execute(
                statement("federation_add"),
                federation.key_id, federation.issuer, federation.audience, json.dumps(dict(federation.conditions)),
                federation.key_set, federation.lifetime_seconds, federation.single_use,
            )  # fmt: skip
            await write_audit(connection, *audit)

    async def of_issuer(self, issuer: str) -> Sequence[Federation]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return [_federation(row) for row in await connection.fetch(statement("federations_of_issuer"), issuer)]

    async def get(self, key_id: UUID) -> FederationRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("federation_get"), key_id)
            key = None if row is None else await key_row(connection, None, key_id)
        return None if row is None or key is None else FederationRow(_federation(row), key)

    async def page(self, namespace: str | None, *, before: UUID | None, limit: int) -> Sequence[FederationRow]:
        """See the port."""
        found = []
        async with self._links.pooled(writes=False) as connection:
            for row in await connection.fetch(statement("federations_list"), namespace, before, limit):
                key = await key_row(connection, None, row["key_id"])
                if key is not None:
                    found.append(FederationRow(_federation(row), key))
        return found

    async def use(self, digest: bytes, *, exchange_id: UUID, seconds: float) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("used_assertions_forget"))
            await connection.execute(statement("used_assertion_keep"), digest, exchange_id, seconds)
            taken: UUID = await connection.fetchval(statement("used_assertion_by"), digest)
        return taken == exchange_id


def _federation(row: Mapping[str, Any]) -> Federation:
    fields = {name: row[name] for name in _FIELDS}
    return Federation(**{**fields, "conditions": json.loads(row["conditions"])})
