"""Refresh tokens: one of a family works at a time, and a token that comes back ends its family."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from tickwise.ports.identity.sessions import MAX_SESSIONS, NewSession, PublicKey, Rotation
from tickwise.ports.identity.users import UserRow
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.users import changed, new_user
from tickwise.testing.factories import Factory

DAY = 86_400.0


def digest(number: int) -> bytes:
    """Of a refresh token."""
    return sha256(b"%d" % number).digest()


def new_session(make: Factory, user: UserRow, number: int = 1, **fields: Any) -> NewSession:
    """A session as control begins it."""
    whole: dict[str, Any] = {
        "family": make.identifier(), "digest": digest(number), "user_id": user.user_id,
        "generation": user.generation, "scope": frozenset({"jobs:read"}), "namespace": "default",
        "address": "192.0.2.1", "seconds": DAY, "most_seconds": 30 * DAY, **fields,
    }  # fmt: skip
    return NewSession(**whole)


def public_key(name: str) -> PublicKey:
    """A key as a process publishes it."""
    return PublicKey(key_id=name, public=sha256(name.encode()).digest(), created_at=0.0, retired_at=None)


class SessionsContract(StoreContract):
    """`SessionStore`."""

    async def begun(self, store: Store, make: Factory, **fields: Any) -> NewSession:
        """A session of a person."""
        user = await store.users.add(new_user(make, f"user{make.identifier().hex[-6:]}"))
        session = new_session(make, user, **fields)
        await store.sessions.begin(session)
        return session

    async def test_a_refresh_token_gives_way_to_the_next(self, store: Store, make: Factory) -> None:
        """The family stays as it was begun. A repeat whose answer was lost is answered again."""
        session = await self.begun(store, make)
        await store.sessions.begin(session)
        for _ in range(2):
            assert await store.sessions.rotate(digest(1), digest(2)) == (
                Rotation.ROTATED, replace(session, digest=digest(2)),
            )  # fmt: skip
        assert (await store.sessions.rotate(digest(2), digest(3))).rotation is Rotation.ROTATED
        assert await store.sessions.is_good(session.family)

    async def test_a_token_that_comes_back_ends_its_family(self, store: Store, make: Factory) -> None:
        """One of two has a stolen token."""
        session = await self.begun(store, make)
        other = await self.begun(store, make, digest=digest(10))
        await store.sessions.rotate(digest(1), digest(2))
        await store.sessions.rotate(digest(2), digest(3))
        reused = await store.sessions.rotate(digest(1), digest(4))
        assert reused.rotation is Rotation.REUSED
        assert reused.session is not None
        assert reused.session.family == session.family
        assert (await store.sessions.rotate(digest(3), digest(5))).rotation is Rotation.UNKNOWN
        assert not await store.sessions.is_good(session.family)
        assert await store.sessions.is_good(other.family)

    async def test_an_unknown_token_does_nothing(self, store: Store, make: Factory) -> None:
        """A guess."""
        session = await self.begun(store, make)
        assert await store.sessions.rotate(digest(7), digest(8)) == (Rotation.UNKNOWN, None)
        assert await store.sessions.is_good(session.family)
        assert not await store.sessions.is_good(make.identifier())

    async def test_a_session_ends_unused_and_in_the_end(self, store: Store, make: Factory) -> None:
        """A rotation begins the first time anew, and not the second."""
        unused = await self.begun(store, make, digest=digest(20), seconds=100.0, most_seconds=250.0)
        used = await self.begun(store, make, digest=digest(30), seconds=100.0, most_seconds=250.0)
        for number in range(30, 32):
            await self.shift(store, 90.0)
            rotated = await store.sessions.rotate(digest(number), digest(number + 1))
            assert rotated.rotation is Rotation.ROTATED
        assert (await store.sessions.rotate(digest(20), digest(21))).rotation is Rotation.UNKNOWN
        await self.shift(store, 90.0)
        assert (await store.sessions.rotate(digest(32), digest(33))).rotation is Rotation.UNKNOWN
        assert not await store.sessions.is_good(used.family)
        assert not await store.sessions.is_good(unused.family)

    async def test_a_session_ends_with_its_person(self, store: Store, make: Factory) -> None:
        """Another password ends all that were begun before."""
        user = await store.users.add(new_user(make))
        session = new_session(make, user)
        await store.sessions.begin(session)
        after = await store.users.change(changed(user, password="another"))
        assert (await store.sessions.rotate(digest(1), digest(2))).rotation is Rotation.UNKNOWN
        fresh = new_session(make, after, 5)
        await store.sessions.begin(fresh)
        assert (await store.sessions.rotate(digest(5), digest(6))).rotation is Rotation.ROTATED
        await store.users.change(changed(after, active=False))
        assert (await store.sessions.rotate(digest(6), digest(7))).rotation is Rotation.UNKNOWN

    async def test_sessions_are_revoked(self, store: Store, make: Factory) -> None:
        """By a token, also by one that was rotated, or all of a person."""
        one = await self.begun(store, make, digest=digest(1))
        two = await self.begun(store, make, digest=digest(11))
        await store.sessions.rotate(digest(1), digest(2))
        assert await store.sessions.revoke(digest=digest(1)) == [one.family]
        assert not await store.sessions.is_good(one.family)
        assert (await store.sessions.rotate(digest(2), digest(3))).rotation is not Rotation.ROTATED
        assert await store.sessions.is_good(two.family)
        assert await store.sessions.revoke(user_id=two.user_id) == [two.family]
        assert await store.sessions.revoke(digest=digest(99)) == []
        assert not await store.sessions.is_good(two.family)

    async def test_a_person_has_so_many_sessions(self, store: Store, make: Factory) -> None:
        """The one that was used longest ago ends."""
        user = await store.users.add(new_user(make))
        families: list[UUID] = []
        for number in range(MAX_SESSIONS + 1):
            session = new_session(make, user, 100 + number)
            families.append(session.family)
            await store.sessions.begin(session)
            await self.shift(store, 0.001)
        good = [await store.sessions.is_good(family) for family in (families[0], families[1], families[-1])]
        assert good == [False, True, True]

    async def test_public_keys_are_known_until_their_tokens_are_over(self, store: Store, make: Factory) -> None:
        """Two processes that publish one key keep it once."""
        await store.sessions.publish(public_key("a"))
        await self.shift(store, 1.0)
        both = await store.sessions.publish(public_key("b"))
        assert [key.key_id for key in both] == ["a", "b"]
        assert await store.sessions.publish(public_key("a")) == both
        assert both[0].public == public_key("a").public
        await store.sessions.retire("a")
        assert [key.retired_at is None for key in await store.sessions.public_keys()] == [False, True]
        await self.shift(store, DAY)
        assert [key.key_id for key in await store.sessions.public_keys()] == ["b"]
        assert make.now
