"""Sessions of browsers: they end unused, in any case, and when they are told to; a link opens one."""

from __future__ import annotations

from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.model import Principal
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity import NewKey
from tickwise.ports.identity.browser_sessions import (
    MAX_BROWSER_SESSIONS,
    NewBrowserSession,
    NewSessionLink,
    SessionSubject,
)
from tickwise.ports.identity.identities import Identity, ProviderSession
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.users import new_user
from tickwise.testing.factories import Factory

DAY = 86_400.0


def digest(number: int) -> bytes:
    """Of a cookie, or of the secret of a link."""
    return sha256(b"browser %d" % number).digest()


def new_session(make: Factory, subject: SessionSubject, number: int = 1, **fields: Any) -> NewBrowserSession:
    """A session as control begins it."""
    whole: dict[str, Any] = {
        "session_id": make.identifier(), "digest": digest(number), "subject": subject, "address": "192.0.2.1",
        "idle_seconds": DAY, "most_seconds": 7 * DAY, **fields,
    }  # fmt: skip
    return NewBrowserSession(**whole)


def entry(action: AuditAction) -> AuditEntry:
    """An entry about a session."""
    return AuditEntry(INSTALLATION, action, Source(CallerKind.STRANGER, None, ""), "session")


class BrowserSessionsContract(StoreContract):
    """`BrowserSessionStore`."""

    async def person(self, store: Store, make: Factory) -> SessionSubject:
        """A person."""
        user = await store.users.add(new_user(make, f"user{make.identifier().hex[-6:]}"))
        return SessionSubject(user.user_id, None, user.generation)

    async def key(self, store: Store, make: Factory) -> SessionSubject:
        """A key."""
        key_id: UUID = make.identifier()
        await store.keys.add(
            NewKey(
                key_id=key_id, digest=sha256(key_id.bytes).digest(), principal=Principal("k", "default", frozenset())
            )
        )
        return SessionSubject(None, key_id, 0)

    async def test_a_session_is_found_by_its_digest(self, store: Store, make: Factory) -> None:
        """Of a person and of a key, also when it is begun twice."""
        for number, subject in enumerate([await self.person(store, make), await self.key(store, make)]):
            session = new_session(make, subject, number)
            assert await store.browser_sessions.begin(session)
            assert await store.browser_sessions.begin(session)
            for used in (False, True):
                found = await store.browser_sessions.find(digest(number), used=used)
                assert found is not None
                assert (found.session_id, found.subject) == (session.session_id, subject)
                assert found.provider is None
                assert DAY - 60 < found.seconds_left <= DAY

    @pytest.mark.parametrize("session", ["s-1", None])
    async def test_a_session_is_found_with_the_one_it_came_from(
        self, store: Store, make: Factory, session: str | None
    ) -> None:
        """At a provider, used or not."""
        subject, provider = await self.person(store, make), ProviderSession(Identity("proxy", "ada"), session)
        await store.browser_sessions.begin(new_session(make, subject, provider=provider))
        for used in (False, True):
            found = await store.browser_sessions.find(digest(1), used=used)
            assert found is not None
            assert provider == found.provider
        assert await store.browser_sessions.find(digest(99), used=True) is None

    async def test_the_use_of_a_session_renews_its_idle_time(self, store: Store, make: Factory) -> None:
        """A look at it does not."""
        subject = await self.person(store, make)
        await store.browser_sessions.begin(new_session(make, subject, 1, idle_seconds=200.0, most_seconds=400.0))
        await store.browser_sessions.begin(new_session(make, subject, 2, idle_seconds=200.0))
        await self.shift(store, 150.0)
        assert await store.browser_sessions.find(digest(1), used=True) is not None
        assert await store.browser_sessions.find(digest(2), used=False) is not None
        await self.shift(store, 150.0)
        assert await store.browser_sessions.find(digest(1), used=True) is not None
        assert await store.browser_sessions.find(digest(2), used=False) is None
        await self.shift(store, 110.0)
        assert await store.browser_sessions.find(digest(1), used=True) is None

    async def test_a_session_ends_unused_and_in_any_case(self, store: Store, make: Factory) -> None:
        """The earlier of the two ends counts."""
        subject = await self.person(store, make)
        await store.browser_sessions.begin(new_session(make, subject, 1, idle_seconds=60.0))
        await store.browser_sessions.begin(new_session(make, subject, 2, most_seconds=60.0))
        await self.shift(store, 61.0)
        assert await store.browser_sessions.find(digest(1), used=True) is None
        assert await store.browser_sessions.find(digest(2), used=True) is None

    async def test_a_session_ends_with_its_epoch(self, store: Store, make: Factory) -> None:
        """A store that was set back may lack that it was ended, so nobody has to say that it was restored."""
        subject = await self.person(store, make)
        await store.browser_sessions.begin(new_session(make, subject, 1))
        await self.shift(store, 1.0)
        await store.epochs.begin()
        await self.shift(store, 1.0)
        await store.browser_sessions.begin(new_session(make, subject, 2))
        for used in (False, True):
            assert await store.browser_sessions.find(digest(1), used=used) is None
            assert await store.browser_sessions.find(digest(2), used=used) is not None

    async def test_a_session_is_ended_by_its_digest_and_by_its_person(self, store: Store, make: Factory) -> None:
        """One, then all others; those of another person go on. What ended is on record."""
        one, other = await self.person(store, make), await self.person(store, make)
        sessions = [new_session(make, one, number) for number in (1, 2, 3)]
        for session in [*sessions, new_session(make, other, 4)]:
            await store.browser_sessions.begin(session)
        ended = await store.browser_sessions.end(digest=digest(1), audit=entry(AuditAction.SIGNED_OUT))
        assert ended == [sessions[0].session_id]
        rest = await store.browser_sessions.end(user_id=one.user_id)
        assert set(rest) == {sessions[1].session_id, sessions[2].session_id}
        assert await store.browser_sessions.end(digest=digest(1), audit=entry(AuditAction.SIGNED_OUT)) == []
        good = [await store.browser_sessions.find(digest(number), used=False) is not None for number in (1, 2, 3, 4)]
        assert good == [False, False, False, True]
        rows = await store.audit.find(AuditQuery(namespace=INSTALLATION, action=AuditAction.SIGNED_OUT, limit=10))
        assert [list(row.targets) for row in rows] == [[sessions[0].session_id]]

    async def test_all_sessions_and_links_end(self, store: Store, make: Factory) -> None:
        """Of people and of keys. The links that were not used open nothing, and one entry is on record."""
        person, key = await self.person(store, make), await self.key(store, make)
        for number, subject in enumerate((person, key)):
            await store.browser_sessions.begin(new_session(make, subject, number))
        await store.browser_sessions.add_link(NewSessionLink(digest(7), key, DAY))
        assert await store.browser_sessions.end_all(audit=entry(AuditAction.SIGNED_OUT)) == 2
        assert [None, None] == [await store.browser_sessions.find(digest(number), used=False) for number in (0, 1)]
        assert await store.browser_sessions.link(digest(7)) is None
        assert await store.browser_sessions.end_all(audit=entry(AuditAction.SIGNED_OUT)) == 0
        rows = await store.audit.find(AuditQuery(namespace=INSTALLATION, action=AuditAction.SIGNED_OUT, limit=10))
        assert len(rows) == 1

    async def test_a_session_takes_the_place_of_another(self, store: Store, make: Factory) -> None:
        """The cookie of before a sign-in is worth nothing after it."""
        subject = await self.person(store, make)
        await store.browser_sessions.begin(new_session(make, subject, 1))
        await store.browser_sessions.begin(new_session(make, subject, 2), replaces=digest(1))
        assert await store.browser_sessions.find(digest(1), used=False) is None
        assert await store.browser_sessions.find(digest(2), used=False) is not None

    async def test_a_link_opens_one_session(self, store: Store, make: Factory) -> None:
        """A repeat with the session is taken; another session is refused."""
        subject = await self.key(store, make)
        link = NewSessionLink(digest(7), subject, DAY)
        for _ in range(2):
            await store.browser_sessions.add_link(link, audit=entry(AuditAction.TOKEN_MADE))
        rows = await store.audit.find(AuditQuery(namespace=INSTALLATION, action=AuditAction.TOKEN_MADE, limit=10))
        assert len(rows) == 1
        assert await store.browser_sessions.link(digest(7)) == subject
        session = new_session(make, subject, 1)
        assert await store.browser_sessions.begin(session, link=digest(7))
        assert await store.browser_sessions.begin(session, link=digest(7))
        assert await store.browser_sessions.link(digest(7)) is None
        assert not await store.browser_sessions.begin(new_session(make, subject, 2), link=digest(7))
        assert not await store.browser_sessions.begin(new_session(make, subject, 3), link=digest(8))
        assert await store.browser_sessions.find(digest(2), used=False) is None

    async def test_a_link_works_for_a_time(self, store: Store, make: Factory) -> None:
        """Then it opens nothing."""
        subject = await self.person(store, make)
        await store.browser_sessions.add_link(NewSessionLink(digest(7), subject, 60.0))
        await self.shift(store, 61.0)
        assert await store.browser_sessions.link(digest(7)) is None
        assert not await store.browser_sessions.begin(new_session(make, subject, 1), link=digest(7))

    async def test_a_person_has_so_many_sessions(self, store: Store, make: Factory) -> None:
        """The one that was used longest ago ends."""
        subject = await self.person(store, make)
        for number in range(MAX_BROWSER_SESSIONS + 1):
            await store.browser_sessions.begin(new_session(make, subject, number))
            if number == 0:
                await self.shift(store, 1.0)
        good = [await store.browser_sessions.find(digest(number), used=False) is not None for number in (0, 1)]
        assert good == [False, True]
