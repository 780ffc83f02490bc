"""Signing keys of identity tokens."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.tokens import IdentityKey


class IdentityKeys(Part):
    """`IdentityKeyStore` of the port."""

    async def find(self) -> Sequence[IdentityKey]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("identity_keys_find"))
        return [IdentityKey(**row) for row in rows]

    async def add(
        self,
        key: IdentityKey,
        *,
        newest: str | None,
        signs_in_seconds: float,
        published_seconds: float,
        audit: AuditEntry | None = None,
    ) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("identity_keys_lock"))
            found = await connection.fetchval(statement("identity_key_newest"), key.algorithm)
            if found == key.key_id:
                return True
            if found != newest:
                return False
            await connection.execute(
                statement("identity_key_add"), key.key_id, key.algorithm, key.public, key.sealed, signs_in_seconds
            )
            await connection.execute(statement("identity_keys_forget"), key.algorithm, key.key_id, published_seconds)
            await write_audit(connection, audit)
        return True
