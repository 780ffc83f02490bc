"""Identities at providers: of one person each; sign-ins that are taken once; logouts that count once."""

from __future__ import annotations

from hashlib import sha256

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, NotFound
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.browser_sessions import SessionSubject
from tickwise.ports.identity.identities import (
    EndedSessions,
    Identity,
    ProviderSession,
    SessionLogout,
    SignInTransaction,
    TakenTransaction,
)
from tickwise.ports.identity.users import UserRow
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.browser_sessions import digest, new_session
from tickwise.testing.contracts.store.people.sessions import new_session as new_family
from tickwise.testing.contracts.store.people.users import new_user
from tickwise.testing.factories import Factory

ISSUER = "https://sso.example.com"
ADA, BOB = Identity(ISSUER, "u-1"), Identity(ISSUER, "u-2")


def entry(action: AuditAction) -> AuditEntry:
    """An entry about a person."""
    return AuditEntry(INSTALLATION, action, Source(CallerKind.STRANGER, None, ""), "user")


def transaction(number: int, seconds: float = 600.0) -> SignInTransaction:
    """A sign-in as control begins it."""
    return SignInTransaction(digest=digest(number), browser=b"browser", back=f"/jobs?n={number}", seconds=seconds)


def logout(number: int, subject: str | None, session: str | None, issuer: str = ISSUER) -> SessionLogout:
    """A logout that a provider tells."""
    return SessionLogout(
        issuer=issuer, subject=subject, session=session, digest=sha256(b"logout %d" % number).digest(), seconds=300.0
    )


class IdentitiesContract(StoreContract):
    """`IdentityStore`."""

    async def person(self, store: Store, make: Factory) -> UserRow:
        """A person."""
        return await store.users.add(new_user(make, f"user{make.identifier().hex[-6:]}"))

    async def test_an_identity_is_of_one_person(self, store: Store, make: Factory) -> None:
        """A second link changes nothing, and is on record once; for another person it is refused."""
        one, other = await self.person(store, make), await self.person(store, make)
        for _ in range(2):
            await store.identities.link(ADA, one.user_id, audit=entry(AuditAction.IDENTITY_LINKED))
        with pytest.raises(Conflict) as refused:
            await store.identities.link(ADA, other.user_id)
        assert "identity_taken" == refused.value.code
        with pytest.raises(NotFound):
            await store.identities.link(BOB, make.identifier())
        assert (one.user_id, None) == (await store.identities.find(ADA), await store.identities.find(BOB))
        assert None is await store.identities.find(Identity("https://other.example.com", ADA.subject))
        assert [ADA] == [*await store.identities.of_user(one.user_id)]
        rows = await store.audit.find(AuditQuery(namespace=None, action=AuditAction.IDENTITY_LINKED))
        assert 1 == len(rows)

    async def test_a_person_is_added_with_an_identity_or_not_at_all(self, store: Store, make: Factory) -> None:
        """One transaction, also when it is repeated."""
        user = new_user(make, "grace", identity=ADA)
        for _ in range(2):
            assert user.user_id == (await store.users.add(user)).user_id
        assert user.user_id == await store.identities.find(ADA)
        again = new_user(make, "heidi", identity=ADA)
        with pytest.raises(Conflict) as refused:
            await store.users.add(again)
        assert "identity_taken" == refused.value.code
        assert None is await store.users.get(again.user_id)

    async def test_identities_are_taken_away_with_the_sessions_that_came_of_them(
        self, store: Store, make: Factory
    ) -> None:
        """A session by password goes on."""
        user = await self.person(store, make)
        subject = SessionSubject(user.user_id, None, user.generation)
        await store.identities.link(ADA, user.user_id)
        await store.browser_sessions.begin(new_session(make, subject, 1, provider=ProviderSession(ADA, "s-1")))
        await store.browser_sessions.begin(new_session(make, subject, 2))
        assert [ADA] == [*await store.identities.unlink(user.user_id, audit=entry(AuditAction.IDENTITY_UNLINKED))]
        assert [] == [*await store.identities.unlink(user.user_id, audit=entry(AuditAction.IDENTITY_UNLINKED))]
        found = [await store.browser_sessions.find(digest(number), used=False) for number in (1, 2)]
        assert [True, False] == [each is None for each in found]
        assert None is await store.identities.find(ADA)
        rows = await store.audit.find(AuditQuery(namespace=None, action=AuditAction.IDENTITY_UNLINKED))
        assert 1 == len(rows)

    async def test_a_sign_in_is_taken_once_and_in_its_time(self, store: Store) -> None:
        """A sign-in that is over is nobody's."""
        for number, seconds in ((1, 600.0), (2, 600.0), (3, 5.0)):
            assert await store.identities.begin(transaction(number, seconds))
        assert TakenTransaction(b"browser", "/jobs?n=1") == await store.identities.take(digest(1))
        assert None is await store.identities.take(digest(1))
        await self.shift(store, 6.0)
        assert None is await store.identities.take(digest(3))
        assert None is await store.identities.take(digest(4))
        assert TakenTransaction(b"browser", "/jobs?n=2") == await store.identities.take(digest(2))

    async def test_a_logout_ends_the_sessions_that_it_names(self, store: Store, make: Factory) -> None:
        """Those of the provider's session; of a subject alone, all of the person. Refresh tokens end in any case."""
        one, other = await self.person(store, make), await self.person(store, make)
        for user, identity in ((one, ADA), (other, BOB)):
            await store.identities.link(identity, user.user_id)
            await store.sessions.begin(new_family(make, user, user.user_id.bytes[-1]))
        for number, (user, provider) in enumerate(
            (
                (one, ProviderSession(ADA, "s-1")), (one, ProviderSession(ADA, "s-2")), (one, None),
                (other, ProviderSession(BOB, "s-3")),
            )
        ):  # fmt: skip
            subject = SessionSubject(user.user_id, None, user.generation)
            await store.browser_sessions.begin(new_session(make, subject, number, provider=provider))

        async def good() -> list[int]:
            return [
                number
                for number in range(4)
                if await store.browser_sessions.find(digest(number), used=False) is not None
            ]

        ended = await store.identities.log_out(logout(1, None, "s-1"), audit=entry(AuditAction.SIGNED_OUT))
        assert ended is not None
        assert (one.user_id, 2) == (ended.user_id, len(ended.sessions))
        assert [1, 2, 3] == await good()
        assert EndedSessions(None, []) == await store.identities.log_out(logout(2, None, "s-2", "https://x.example"))
        assert [1, 2, 3] == await good()
        await store.identities.log_out(logout(4, ADA.subject, None))
        assert [2, 3] == await good()
        (row,) = await store.audit.find(AuditQuery(namespace=None, action=AuditAction.SIGNED_OUT))
        assert {*ended.sessions} == {*row.targets}

    async def test_a_logout_token_counts_once_while_it_could_be_replayed(self, store: Store, make: Factory) -> None:
        """A replay is told by the answer."""
        user = await self.person(store, make)
        await store.identities.link(ADA, user.user_id)
        assert EndedSessions(user.user_id, []) == await store.identities.log_out(logout(1, ADA.subject, None))
        assert None is await store.identities.log_out(logout(1, ADA.subject, None))
        await self.shift(store, 301.0)
        assert None is not await store.identities.log_out(logout(1, ADA.subject, None))
