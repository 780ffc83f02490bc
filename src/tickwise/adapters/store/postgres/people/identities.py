"""Identities of people at providers, sign-ins under way, and logouts."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import NotFound
from tickwise.ports.identity.identities import (
    MAX_TRANSACTIONS,
    EndedSessions,
    Identity,
    SessionLogout,
    SignInTransaction,
    TakenTransaction,
    identity_taken,
)


class Identities(Part):
    """`IdentityStore` of the port."""

    async def find(self, identity: Identity) -> UUID | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            found: UUID | None = await connection.fetchval(statement("identity_find"), *identity)
        return found

    async def of_user(self, user_id: UUID) -> Sequence[Identity]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("identities_of_user"), user_id)
        return [Identity(*row) for row in rows]

    async def link(self, identity: Identity, user_id: UUID, *, audit: AuditEntry | None = None) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if await link_identity(connection, identity, user_id):
                await write_audit(connection, audit)

    async def unlink(self, user_id: UUID, *, audit: AuditEntry | None = None) -> Sequence[Identity]:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            rows = await connection.fetch(statement("identities_unlink"), user_id)
            if rows:
                await connection.execute(statement("provider_sessions_end_of_user"), user_id)
                await write_audit(connection, audit)
        return sorted(Identity(*row) for row in rows)

    async def begin(self, transaction: SignInTransaction) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("sign_ins_forget"))
            kept = await connection.fetchval(
                statement("sign_in_begin"), transaction.digest, transaction.browser, transaction.back,
                transaction.seconds, MAX_TRANSACTIONS,
            )  # fmt: skip
        return kept is not None

    async def take(self, digest: bytes) -> TakenTransaction | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            row = await connection.fetchrow(statement("sign_in_take"), digest)
        return None if row is None or not row["is_good"] else TakenTransaction(row["browser"], row["back"])

    async def log_out(self, logout: SessionLogout, *, audit: AuditEntry | None = None) -> EndedSessions | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("logout_tokens_forget"))
            if await connection.fetchval(statement("logout_token_use"), logout.digest, logout.seconds) is None:
                return None
            rows = await connection.fetch(
                statement("provider_sessions_end"), logout.issuer, logout.subject, logout.session
            )
            user_id: UUID | None = next((row["user_id"] for row in rows), None)
            if user_id is None and logout.subject is not None:
                user_id = await connection.fetchval(statement("identity_find"), logout.issuer, logout.subject)
            ended = [row["session_id"] for row in rows]
            if user_id is not None:
                families = await connection.fetch(statement("sessions_revoke"), None, user_id, None)
                ended += [row["family"] for row in families]
            if audit is not None and ended:
                await write_audit(connection, audit._replace(targets=ended))
        return EndedSessions(user_id, ended)


async def link_identity(connection: asyncpg.Connection, identity: Identity, user_id: UUID) -> bool:
    """Tie an identity to a person; False if it is so already. Raises `Conflict`, `NotFound`."""
    if await connection.fetchval(statement("identity_link"), *identity, user_id) is not None:
        return True
    holder = await connection.fetchval(statement("identity_find"), *identity)
    if holder is None:
        raise NotFound(f"there is no user {user_id}")
    if holder != user_id:
        raise identity_taken()
    return False
