"""Families of refresh tokens, and public keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.audit import is_effective, write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry, by_person
from tickwise.ports.identity.sessions import MAX_SESSIONS, NewSession, PublicKey, Rotated, Rotation

RETIRED_SECONDS: Final = 3_600.0
"""The time for which a key that signs no more is known: tokens live for ten minutes."""


class Sessions(Part):
    """`SessionStore` of the port."""

    async def begin(self, session: NewSession, *, audit: AuditEntry | None = None) -> None:
        """See the port."""
        scope = None if session.scope is None else sorted(session.scope)
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            begun = await connection.execute(
                statement("session_begin"),
                session.family, session.digest, session.user_id, session.generation, scope, session.namespace,
                session.address, session.seconds, session.most_seconds,
            )  # fmt: skip
            await connection.execute(statement("sessions_forget"), session.user_id, MAX_SESSIONS)
            if is_effective(begun):
                await write_audit(connection, audit)

    async def rotate(self, digest: bytes, next_digest: bytes, *, audit: AuditEntry | None = None) -> Rotated:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            row = await connection.fetchrow(statement("session_rotate"), digest, next_digest)
            if row is not None:
                return Rotated(Rotation.ROTATED, _session(row, next_digest))
            used = await connection.fetchrow(statement("session_used"), digest, next_digest)
            if used is None:
                return Rotated(Rotation.UNKNOWN)
            if used["same"]:
                return Rotated(Rotation.ROTATED, _session(used, next_digest))
            await connection.execute(statement("sessions_revoke"), None, None, used["family"])
            await write_audit(connection, audit and by_person(audit, used["user_id"]))
            return Rotated(Rotation.REUSED, _session(used, digest))

    async def revoke(
        self, *, digest: bytes | None = None, user_id: UUID | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            rows = await connection.fetch(statement("sessions_revoke"), digest, user_id, None)
            families = [row["family"] for row in rows]
            if audit is not None and families:
                await write_audit(connection, audit._replace(targets=families))
        return families

    async def is_good(self, family: UUID) -> bool:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            good: bool = await connection.fetchval(statement("session_is_good"), family)
        return good

    async def publish(self, key: PublicKey) -> Sequence[PublicKey]:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(statement("token_key_publish"), key.key_id, key.public)
        return await self.public_keys()

    async def public_keys(self) -> Sequence[PublicKey]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("token_keys"), RETIRED_SECONDS)
        return [PublicKey(**row) for row in rows]

    async def retire(self, key_id: str) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(statement("token_key_retire"), key_id)


def _session(row: Mapping[str, Any], digest: bytes) -> NewSession:
    scope = row["scope"]
    return NewSession(
        family=row["family"],
        digest=digest,
        user_id=row["user_id"],
        generation=row["generation"],
        scope=None if scope is None else frozenset(scope),
        namespace=row["namespace"],
        address=row["address"],
        seconds=row["seconds"],
        most_seconds=row["most_seconds"],
    )
