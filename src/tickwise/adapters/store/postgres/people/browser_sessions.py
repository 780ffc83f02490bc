"""Sessions of browsers, and the links that open one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.audit import is_effective, write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.browser_sessions import (
    MAX_BROWSER_SESSIONS,
    USE_NOTED_SECONDS,
    BrowserSession,
    NewBrowserSession,
    NewSessionLink,
    SessionSubject,
)
from tickwise.ports.identity.identities import Identity, ProviderSession


class BrowserSessions(Part):
    """`BrowserSessionStore` of the port."""

    async def begin(
        self,
        session: NewBrowserSession,
        *,
        link: bytes | None = None,
        replaces: bytes | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """See the port."""
        user, key, generation = session.subject
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if link is not None:
                opened = await connection.fetchval(statement("browser_link_open"), link, session.session_id)
                if opened is None:
                    return False
            begun = await connection.execute(
                statement("browser_session_begin"), session.session_id, session.digest, user, key, generation,
                session.address, session.idle_seconds, session.most_seconds,
            )  # fmt: skip
            if session.provider is not None:
                (issuer, subject), provider_session = session.provider
                await connection.execute(
                    statement("provider_session_note"), session.session_id, issuer, subject, provider_session
                )
            if replaces is not None:
                await connection.execute(statement("browser_sessions_end"), replaces, None)
            await connection.execute(statement("browser_sessions_forget"), user, key, MAX_BROWSER_SESSIONS)
            await connection.execute(statement("browser_links_forget"), user, key)
            if is_effective(begun):
                await write_audit(connection, audit)
        return True

    async def find(self, digest: bytes, *, used: bool) -> BrowserSession | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("browser_session_find"), digest)
        if row is None or not used:
            return None if row is None else _session(row)
        async with self._links.pooled(writes=True) as connection:
            seconds_left = await connection.fetchval(statement("browser_session_use"), digest, USE_NOTED_SECONDS)
        return _session(row) if seconds_left is None else _session(row)._replace(seconds_left=seconds_left)

    async def end(
        self, *, digest: bytes | None = None, user_id: UUID | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            rows = await connection.fetch(statement("browser_sessions_end"), digest, user_id)
            ended = [row["session_id"] for row in rows]
            if audit is not None and ended:
                await write_audit(connection, audit._replace(targets=ended))
        return ended

    async def end_all(self, *, audit: AuditEntry | None = None) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            ended: int = await connection.fetchval(statement("browser_sessions_end_all"))
            if ended:
                await write_audit(connection, audit)
        return ended

    async def add_link(self, link: NewSessionLink, *, audit: AuditEntry | None = None) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            added = await connection.execute(statement("browser_link_add"), link.digest, *link.subject, link.seconds)
            if is_effective(added):
                await write_audit(connection, audit)

    async def link(self, digest: bytes) -> SessionSubject | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("browser_link_find"), digest)
        return None if row is None else SessionSubject(*row)


def _session(row: Mapping[str, Any]) -> BrowserSession:
    subject = SessionSubject(row["user_id"], row["key_id"], row["generation"])
    provider = None
    if row["issuer"] is not None:
        provider = ProviderSession(Identity(row["issuer"], row["subject"]), row["session"])
    return BrowserSession(row["session_id"], subject, row["seconds_left"], provider)
