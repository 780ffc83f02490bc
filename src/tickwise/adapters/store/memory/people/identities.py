"""Identities of people at providers, sign-ins under way, and logouts."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tickwise.adapters.store.memory.records import BrowserSessionRecord, SignInRecord
from tickwise.adapters.store.memory.state import Duty
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


class Identities(Duty):
    """`IdentityStore` of the port."""

    async def find(self, identity: Identity) -> UUID | None:
        return self._state.identities.get(identity)

    async def of_user(self, user_id: UUID) -> Sequence[Identity]:
        return sorted(identity for identity, holder in self._state.identities.items() if holder == user_id)

    async def link(self, identity: Identity, user_id: UUID, *, audit: AuditEntry | None = None) -> None:
        if user_id not in self._state.people:
            raise NotFound(f"there is no user {user_id}")
        holder = self._state.identities.get(identity)
        if holder is not None and holder != user_id:
            raise identity_taken()
        if holder is None:
            self._state.identities[identity] = user_id
            self._state.audit.write(audit)

    async def unlink(self, user_id: UUID, *, audit: AuditEntry | None = None) -> Sequence[Identity]:
        found = await self.of_user(user_id)
        for identity in found:
            del self._state.identities[identity]
        if found:
            self._end([each for each in self._of_providers() if each.session.subject.user_id == user_id])
            self._state.audit.write(audit)
        return found

    async def begin(self, transaction: SignInTransaction) -> bool:
        sign_ins, now = self._state.sign_ins, self._state.now()
        for digest in [digest for digest, each in sign_ins.items() if each.expires_at <= now]:
            del sign_ins[digest]
        if len(sign_ins) >= MAX_TRANSACTIONS and transaction.digest not in sign_ins:
            return False
        sign_ins[transaction.digest] = SignInRecord(transaction=transaction, expires_at=now + transaction.seconds)
        return True

    async def take(self, digest: bytes) -> TakenTransaction | None:
        found = self._state.sign_ins.pop(digest, None)
        if found is None or found.expires_at <= self._state.now():
            return None
        return TakenTransaction(found.transaction.browser, found.transaction.back)

    async def log_out(self, logout: SessionLogout, *, audit: AuditEntry | None = None) -> EndedSessions | None:
        used, now = self._state.logout_tokens, self._state.now()
        for digest in [digest for digest, until in used.items() if until <= now]:
            del used[digest]
        if logout.digest in used:
            return None
        used[logout.digest] = now + logout.seconds
        records = [each for each in self._of_providers() if _is_named(each, logout)]
        user_id = next((each.session.subject.user_id for each in records), None)
        if user_id is None and logout.subject is not None:
            user_id = self._state.identities.get(Identity(logout.issuer, logout.subject))
        self._end(records)
        ended = [each.session.session_id for each in records]
        for family in self._state.sessions.values():
            if user_id is not None and family.session.user_id == user_id:
                family.is_revoked = True
                ended.append(family.session.family)
        if audit is not None and ended:
            self._state.audit.write(audit._replace(targets=ended))
        return EndedSessions(user_id, ended)

    def _of_providers(self) -> Sequence[BrowserSessionRecord]:
        return [each for each in self._state.browser_sessions.values() if each.session.provider is not None]

    def _end(self, records: Sequence[BrowserSessionRecord]) -> None:
        for each in records:
            self._state.browser_sessions.pop(each.session.session_id, None)


def _is_named(record: BrowserSessionRecord, logout: SessionLogout) -> bool:
    provider = record.session.provider
    if provider is None or provider.identity.issuer != logout.issuer:
        return False
    if logout.subject is None and logout.session is None:
        return False
    return logout.subject in (None, provider.identity.subject) and logout.session in (None, provider.session)
