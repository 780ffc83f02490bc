"""Keys that get another secret: the same key, an overlap that ends, and one winner of several."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any

import pytest

from tickwise.domain.errors import Conflict
from tickwise.ports.identity import FoundKey, KeyOrigin, KeyRotation, KeyRow, NewKey
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.keys import ADA, as_found, new_key
from tickwise.testing.factories import Factory

OVERLAP: float = 60.0


def rotation(key: NewKey, secret: bytes, **fields: Any) -> KeyRotation:
    """Another secret for a key that has its first."""
    said = {"overlap_seconds": OVERLAP, "expected": 0, **fields}
    return KeyRotation(
        namespace="default", key_id=key.key_id, digest=sha256(secret).digest(), prefix=secret.decode()[:8], **said
    )


async def kept(store: Store, make: Factory, **fields: Any) -> NewKey:
    """A key that the store has."""
    key = new_key(make, b"one", **fields)
    assert await store.keys.add(key) is True
    return key


async def found(store: Store, secret: bytes) -> FoundKey | None:
    """The good key of a secret."""
    return await store.keys.find(sha256(secret).digest())


async def rotated(store: Store, key: NewKey, secret: bytes, **fields: Any) -> KeyRow:
    """Give the key this secret."""
    row = await store.keys.rotate(rotation(key, secret, **fields))
    assert row is not None
    return row


async def listed(store: Store, key: NewKey) -> KeyRow | None:
    """The key as it is listed."""
    rows = await store.keys.page("default", before=None, limit=10)
    return next((row for row in rows if row.key_id == key.key_id), None)


async def refused(store: Store, key: NewKey, secret: bytes, **fields: Any) -> str:
    """The code with which a rotation is refused; the secret is no key then."""
    with pytest.raises(Conflict) as refusal:
        await store.keys.rotate(rotation(key, secret, **fields))
    assert await found(store, secret) is None
    return refusal.value.code


class KeyRotationContract(StoreContract):
    """`Keys.rotate`, and what is found of a key afterwards."""

    async def test_an_earlier_secret_gives_no_more_by_its_number_than_by_itself(
        self, store: Store, make: Factory
    ) -> None:
        """A token of it is looked up by number: it ends with the overlap, and so does what it makes."""
        key = await kept(store, make)
        await rotated(store, key, b"two")
        by_secret, by_number = await found(store, b"one"), await store.keys.of_id(key.key_id, 0)
        assert by_secret is not None
        assert by_number is not None
        assert by_number.caller.secret == by_secret.caller.secret == 0
        assert by_number.caller.expires_at == by_secret.caller.expires_at
        assert by_number.seconds_left == pytest.approx(OVERLAP, abs=60.0)
        present = await store.keys.of_id(key.key_id, 1)
        assert present is not None
        assert (present.caller.secret, present.caller.expires_at) == (1, None)
        await self.shift(store, OVERLAP + 1.0)
        assert await store.keys.of_id(key.key_id, 0) is None

    async def test_a_rotated_key_is_the_same_key(self, store: Store, other: Store, make: Factory) -> None:
        """Id, principal, namespaces and owner stay; the list shows the new beginning, and the end of the overlap."""
        owner = make.identifier()
        key = await kept(store, make, principal=ADA._replace(owner_id=owner), namespaces=frozenset({"default", "a"}))
        before = await listed(store, key)
        assert before is not None
        assert (before.rotations, before.rotated_at, before.earlier_secret_until) == (0, None, None)
        row = await rotated(store, key, b"two")
        assert (row.key_id, row.owner_id, row.prefix, row.rotations) == (key.key_id, owner, "two", 1)
        assert row.rotated_at is not None
        assert row.earlier_secret_until == pytest.approx(row.rotated_at + OVERLAP, abs=0.01)
        assert await listed(other, key) == row
        assert [row] == list(await other.keys.page("default", before=None, limit=10))
        new = await found(other, b"two")
        assert new is not None
        assert (new.caller.key_id, new.caller.owner_id, new.seconds_left) == (key.key_id, owner, None)
        assert (new.caller.secret, new.caller.grants) == (1, as_found(key).grants)

    async def test_the_secret_before_works_until_its_overlap_ends(self, store: Store, make: Factory) -> None:
        """It says which one it is, and what it makes is good for no longer than itself."""
        key = await kept(store, make)
        row = await rotated(store, key, b"two")
        old = await found(store, b"one")
        assert old is not None
        assert (old.caller.key_id, old.caller.secret) == (key.key_id, 0)
        assert old.caller.expires_at == pytest.approx(row.earlier_secret_until, abs=0.01)
        assert old.seconds_left is not None
        assert 0.0 < old.seconds_left <= OVERLAP
        await self.shift(store, OVERLAP + 0.5)
        assert await found(store, b"one") is None
        assert await found(store, b"two") is not None
        after = await listed(store, key)
        assert after is not None
        assert after.earlier_secret_until is None

    async def test_without_an_overlap_the_secret_before_ends_at_once(self, store: Store, make: Factory) -> None:
        """Also one that was in an overlap."""
        key = await kept(store, make)
        await rotated(store, key, b"two", overlap_seconds=0.0)
        assert (await found(store, b"one"), (await found(store, b"two")) is None) == (None, False)
        await rotated(store, key, b"three", expected=1)
        row = await rotated(store, key, b"four", expected=2, overlap_seconds=0.0)
        assert row.earlier_secret_until is None
        assert [await found(store, each) for each in (b"one", b"two", b"three")] == [None] * 3
        assert await found(store, b"four") is not None

    async def test_an_overlap_is_not_cut_short_by_another(self, store: Store, make: Factory) -> None:
        """While an earlier secret works, a rotation with an overlap is refused; afterwards it is taken."""
        key = await kept(store, make)
        await rotated(store, key, b"two")
        assert "key_rotating" == await refused(store, key, b"three", expected=1)
        assert await found(store, b"one") is not None
        await self.shift(store, OVERLAP + 0.5)
        await rotated(store, key, b"three", expected=1)
        assert [(await found(store, each)) is None for each in (b"one", b"two", b"three")] == [True, False, False]

    async def test_of_several_that_rotate_at_once_one_does(self, store: Store, other: Store, make: Factory) -> None:
        """The others hear it, and their secrets are none."""
        key = await kept(store, make)
        secrets = [b"secret %d" % number for number in range(6)]
        ends = await asyncio.gather(
            *(
                client.keys.rotate(rotation(key, secret, overlap_seconds=0.0))
                for client, secret in zip([store, other] * 3, secrets, strict=True)
            ),
            return_exceptions=True,
        )
        won = [secret for secret, end in zip(secrets, ends, strict=True) if isinstance(end, KeyRow)]
        assert 1 == len(won)
        assert {"key_rotated"} == {end.code for end in ends if isinstance(end, Conflict)}
        assert won == [secret for secret in secrets if await found(store, secret) is not None]

    async def test_the_same_rotation_again_changes_nothing(self, store: Store, make: Factory) -> None:
        """Its answer was lost: the second call hears what the first did."""
        key = await kept(store, make)
        row = await rotated(store, key, b"two")
        assert await rotated(store, key, b"two") == row
        assert await found(store, b"one") is not None

    async def test_a_key_that_is_over_is_not_rotated(self, store: Store, make: Factory) -> None:
        """Revoked, expired, of another namespace, or not there."""
        key = await kept(store, make, principal=ADA._replace(expires_at=make.now + 30.0))
        assert await store.keys.rotate(rotation(new_key(make, b"x"), b"two")) is None
        gone = new_key(make, b"gone")
        await store.keys.add(gone)
        await store.keys.revoke("default", gone.key_id)
        assert "key_over" == await refused(store, gone, b"two")
        await self.shift(store, 30.5)
        assert "key_over" == await refused(store, key, b"two")

    async def test_a_key_whose_secret_is_kept_elsewhere_is_not_rotated(self, store: Store, make: Factory) -> None:
        """A setting, or a file, would bring the old secret back."""
        setting, local = (
            new_key(make, b"kept %r" % each, origin=each) for each in (KeyOrigin.SETTING, KeyOrigin.LOCAL)
        )
        assert await store.keys.of_setting(setting) == []
        assert await store.keys.add(local) is True
        for key in (setting, local):
            assert "key_not_rotated_here" == await refused(store, key, b"two")

    async def test_a_revoked_key_has_no_secret(self, store: Store, make: Factory) -> None:
        """Neither the present one, nor the one in its overlap."""
        key = await kept(store, make)
        await rotated(store, key, b"two")
        await store.keys.revoke("default", key.key_id)
        assert [await found(store, each) for each in (b"one", b"two")] == [None, None]

    async def test_an_expiry_ends_both_secrets(self, store: Store, make: Factory) -> None:
        """An overlap is no longer life."""
        key = await kept(store, make, principal=ADA._replace(expires_at=make.now + 30.0))
        await rotated(store, key, b"two")
        old = await found(store, b"one")
        assert old is not None
        assert old.caller.expires_at == pytest.approx(make.now + 30.0, abs=0.001)
        await self.shift(store, 30.5)
        assert [await found(store, each) for each in (b"one", b"two")] == [None, None]

    async def test_an_ended_secret_never_comes_back(self, store: Store, make: Factory) -> None:
        """Neither as a key that is added, nor as the setting's, also in its overlap."""
        key = await kept(store, make)
        await rotated(store, key, b"two")
        for _ in range(2):
            assert await store.keys.add(new_key(make, b"one")) is False
            assert await store.keys.of_setting(new_key(make, b"one", origin=KeyOrigin.SETTING)) is None
            await self.shift(store, OVERLAP + 0.5)
        assert await found(store, b"one") is None

    async def test_a_number_names_a_secret_while_it_works(self, store: Store, make: Factory) -> None:
        """A token that was made from a secret ends with it."""
        key = await kept(store, make)
        await rotated(store, key, b"two")

        async def works() -> list[bool]:
            return [await store.keys.of_id(key.key_id, number) is not None for number in range(3)]

        assert [True, True, False] == await works()
        await self.shift(store, OVERLAP + 0.5)
        assert [False, True, False] == await works()
        await rotated(store, key, b"three", expected=1, overlap_seconds=0.0)
        assert [False, False, True] == await works()
        assert await store.keys.of_id(key.key_id) is not None
