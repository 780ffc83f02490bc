"""Sign-ins of devices: each is decided once, gives one session, and ends with its time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import Any

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.device_sign_ins import (
    KEPT_SECONDS,
    SLOW_DOWN_SECONDS,
    BegunDeviceSignIn,
    NewDeviceSignIn,
    Poll,
    Polled,
)
from tickwise.ports.identity.users import UserRow
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.users import new_user
from tickwise.testing.factories import Factory

SECONDS = 600.0
INTERVAL = 5.0


def new_device_sign_in(make: Factory, code: str = "BCDFGHJK", **fields: Any) -> NewDeviceSignIn:
    """A request as control begins it."""
    whole: dict[str, Any] = {
        "device_id": make.identifier(), "digest": sha256(code.encode()).digest(), "user_code": code,
        "client": "a terminal", "address": "192.0.2.7", "scope": frozenset({"jobs:read"}), "namespace": "default",
        "seconds": SECONDS, "interval_seconds": INTERVAL, **fields,
    }  # fmt: skip
    return NewDeviceSignIn(**whole)


def approval(user: UserRow) -> AuditEntry:
    """The entry of an approval."""
    source = Source(CallerKind.PERSON, user.user_id, user.name)
    return AuditEntry(INSTALLATION, AuditAction.DEVICE_APPROVED, source, "user", target=str(user.user_id))


class DeviceSignInsContract(StoreContract):
    """`DeviceSignInStore`."""

    async def person(self, store: Store, make: Factory) -> UserRow:
        """A person who approves."""
        return await store.users.add(new_user(make, f"user{make.identifier().hex[-6:]}"))

    async def begun(self, store: Store, make: Factory, **fields: Any) -> NewDeviceSignIn:
        """A request that waits."""
        request = new_device_sign_in(make, **fields)
        assert await store.device_sign_ins.begin(request) is BegunDeviceSignIn.BEGUN
        return request

    async def decided(self, store: Store, request: NewDeviceSignIn, user: UserRow, *, approved: bool = True) -> bool:
        """Decide it, with an entry."""
        return await store.device_sign_ins.decide(
            request.device_id,
            user_id=user.user_id,
            generation=user.generation,
            approved=approved,
            audit=approval(user),
        )

    async def test_a_request_is_found_by_its_code_while_it_waits(self, store: Store, make: Factory) -> None:
        """As it was asked for, with the time that is left; also when it is begun twice."""
        request = await self.begun(store, make)
        assert await store.device_sign_ins.begin(request) is BegunDeviceSignIn.BEGUN
        found = await store.device_sign_ins.find(request.user_code)
        assert found is not None
        assert (found.device_id, found.client, found.address, found.scope, found.namespace) == (
            request.device_id, "a terminal", "192.0.2.7", frozenset({"jobs:read"}), "default",
        )  # fmt: skip
        assert SECONDS - 60 < found.seconds_left <= SECONDS
        assert await store.device_sign_ins.find("ZZZZZZZZ") is None

    async def test_two_requests_have_two_codes(self, store: Store, make: Factory) -> None:
        """A code that is taken is told, so that another one is drawn. It is free again once its request is
        forgotten."""
        request = await self.begun(store, make)
        other = replace(new_device_sign_in(make), digest=sha256(b"other").digest())
        assert await store.device_sign_ins.begin(other) is BegunDeviceSignIn.CODE_TAKEN
        await self.shift(store, SECONDS + KEPT_SECONDS + 1)
        assert await store.device_sign_ins.begin(other) is BegunDeviceSignIn.BEGUN
        assert (await store.device_sign_ins.poll(request.digest, family=make.identifier())).poll is Poll.UNKNOWN

    async def test_an_approved_request_gives_one_session(self, store: Store, make: Factory) -> None:
        """A repeat for that session is answered again: its answer may have been lost. Another session gets nothing."""
        request, user = await self.begun(store, make), await self.person(store, make)
        assert await self.decided(store, request, user)
        family = make.identifier()
        for _ in range(2):
            assert await store.device_sign_ins.poll(request.digest, family=family) == Polled(
                Poll.APPROVED, user.user_id, user.generation, frozenset({"jobs:read"}), "default"
            )
        assert await store.device_sign_ins.poll(request.digest, family=make.identifier()) == Polled(Poll.UNKNOWN)
        await self.shift(store, SECONDS + 1)
        assert (await store.device_sign_ins.poll(request.digest, family=make.identifier())).poll is Poll.UNKNOWN

    async def test_of_two_polls_at_once_one_gets_the_session(self, store: Store, make: Factory) -> None:
        """Two holders of one device code."""
        request, user = await self.begun(store, make), await self.person(store, make)
        assert await self.decided(store, request, user)
        polls = [store.device_sign_ins.poll(request.digest, family=make.identifier()) for _ in range(4)]
        found = [each.poll for each in await asyncio.gather(*polls)]
        assert sorted(found) == [Poll.APPROVED, Poll.UNKNOWN, Poll.UNKNOWN, Poll.UNKNOWN]

    async def test_a_request_is_decided_once(self, store: Store, make: Factory) -> None:
        """A repeat of the decision has one entry; a different one, or that of another person, changes nothing."""
        request, user = await self.begun(store, make), await self.person(store, make)
        other = await self.person(store, make)
        assert [await self.decided(store, request, user) for _ in range(2)] == [True, True]
        assert not await self.decided(store, request, user, approved=False)
        assert not await self.decided(store, request, other)
        assert await store.device_sign_ins.find(request.user_code) is None
        polled = await store.device_sign_ins.poll(request.digest, family=make.identifier())
        assert (polled.poll, polled.user_id) == (Poll.APPROVED, user.user_id)
        query = AuditQuery(namespace=None, action=AuditAction.DEVICE_APPROVED, limit=10)
        assert len(await store.audit.find(query)) == 1

    async def test_a_denied_request_gives_nothing(self, store: Store, make: Factory) -> None:
        """At each poll."""
        request, user = await self.begun(store, make), await self.person(store, make)
        assert await self.decided(store, request, user, approved=False)
        found = [await store.device_sign_ins.poll(request.digest, family=make.identifier()) for _ in range(2)]
        assert found == [Polled(Poll.DENIED)] * 2
        assert not await self.decided(store, request, user)

    async def test_a_request_ends_with_its_time(self, store: Store, make: Factory) -> None:
        """It cannot be found or decided, and its device is told; also if it was approved in time and fetched too
        late."""
        request, user = await self.begun(store, make), await self.person(store, make)
        late = await self.begun(store, make, code="LMNPQRST")
        assert await self.decided(store, late, user)
        await self.shift(store, SECONDS + 1)
        assert await store.device_sign_ins.find(request.user_code) is None
        assert not await self.decided(store, request, user)
        for each in (request, late):
            assert (await store.device_sign_ins.poll(each.digest, family=make.identifier())).poll is Poll.EXPIRED

    async def test_a_poll_that_comes_too_early_makes_the_interval_longer(self, store: Store, make: Factory) -> None:
        """By five seconds each time; one that waits is answered as usual."""
        # A machine that stands still until it is time to ask again shows nothing.
        assert any([await self._slowed_in_time(store, make, code) for code in ("BCDFGHJK", "KJHGFDCB", "CBDFGHJK")])

    async def _slowed_in_time(self, store: Store, make: Factory, code: str) -> bool:
        """A request that is asked for too early, twice. False: the polls came late."""
        request = await self.begun(store, make, code=code)

        async def poll() -> Poll:
            return (await store.device_sign_ins.poll(request.digest, family=make.identifier())).poll

        begun = await store.now()
        polls = [await poll(), await poll()]
        await self.shift(store, INTERVAL + 1)
        polls.append(await poll())
        if await store.now() - begun >= INTERVAL + SLOW_DOWN_SECONDS:
            return False
        assert polls == [Poll.PENDING, Poll.SLOW_DOWN, Poll.SLOW_DOWN]
        await self.shift(store, INTERVAL + 2 * SLOW_DOWN_SECONDS + 1)
        assert await poll() is Poll.PENDING
        return True

    async def test_an_unknown_device_code_does_nothing(self, store: Store, make: Factory) -> None:
        """A guess."""
        await self.begun(store, make)
        guess = sha256(b"guess").digest()
        assert await store.device_sign_ins.poll(guess, family=make.identifier()) == Polled(Poll.UNKNOWN)
