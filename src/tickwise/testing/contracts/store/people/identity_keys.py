"""Keys of identity tokens: one newest of each algorithm, and none that goes too early."""

from __future__ import annotations

import asyncio

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.tokens import IdentityKey
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract


def key(name: str, algorithm: str = "RS256") -> IdentityKey:
    """A key of this name."""
    return IdentityKey(name, algorithm, f"public {name}".encode(), bytes(range(256)))


class IdentityKeysContract(StoreContract):
    """`identity_keys.find`, `.add`."""

    async def test_keys_are_found_by_algorithm_the_oldest_first(self, store: Store) -> None:
        """With the store's times, and their bytes as they were."""
        keys = store.identity_keys
        assert [] == [*await keys.find()]
        assert await keys.add(key("b"), newest=None, signs_in_seconds=0.0, published_seconds=60.0)
        assert await keys.add(key("z", "EdDSA"), newest=None, signs_in_seconds=0.0, published_seconds=60.0)
        assert await keys.add(key("a"), newest="b", signs_in_seconds=900.0, published_seconds=60.0)
        found = await keys.find()
        assert ["z", "b", "a"] == [each.key_id for each in found]
        now = await store.now()
        for each in found:
            assert key(each.key_id, each.algorithm)[:4] == each[:4]
            assert abs(each.created_at - now) < 60
            assert abs(each.signs_at - each.created_at - (900.0 if each.key_id == "a" else 0.0)) < 0.001

    async def test_a_key_follows_the_newest_that_its_maker_knew(self, store: Store) -> None:
        """Any other is refused; one that is there already was added."""
        keys = store.identity_keys
        assert await keys.add(key("a"), newest=None, signs_in_seconds=0.0, published_seconds=60.0)
        assert not await keys.add(key("b"), newest=None, signs_in_seconds=0.0, published_seconds=60.0)
        assert not await keys.add(key("b"), newest="x", signs_in_seconds=0.0, published_seconds=60.0)
        assert await keys.add(key("a"), newest=None, signs_in_seconds=0.0, published_seconds=60.0)
        assert ["a"] == [each.key_id for each in await keys.find()]

    async def test_of_keys_that_are_added_at_once_one_is(self, store: Store, other: Store) -> None:
        """Two processes find that there is none."""
        added = await asyncio.gather(
            *(
                each.identity_keys.add(key(name), newest=None, signs_in_seconds=0.0, published_seconds=60.0)
                for each, name in ((store, "a"), (other, "b"), (store, "c"), (other, "d"))
            )
        )
        assert [True] == [each for each in added if each]
        assert 1 == len(await store.identity_keys.find())

    async def test_a_key_stays_until_its_last_token_is_over(self, store: Store) -> None:
        """It goes with an addition after that: counted from when another one of its algorithm began to sign."""
        keys = store.identity_keys

        async def add(name: str, newest: str | None, signs_in: float, algorithm: str = "RS256") -> list[str]:
            assert await keys.add(
                key(name, algorithm), newest=newest, signs_in_seconds=signs_in, published_seconds=3_600.0
            )
            return [each.key_id for each in await keys.find() if each.algorithm == algorithm]

        assert ["a"] == await add("a", None, -10_000.0)
        assert ["a", "b"] == await add("b", "a", -100.0)
        assert ["a", "b", "c"] == await add("c", "b", 900.0)
        assert ["x"] == await add("x", None, -10_000.0, "EdDSA")
        assert ["y"] == await add("y", "x", -5_000.0, "EdDSA")
        assert ["y", "z"] == await add("z", "y", 900.0, "EdDSA")

    async def test_without_time_the_others_of_its_algorithm_go_at_once(self, store: Store) -> None:
        """For a key in wrong hands."""
        keys = store.identity_keys
        await keys.add(key("e", "EdDSA"), newest=None, signs_in_seconds=0.0, published_seconds=60.0)
        await keys.add(key("a"), newest=None, signs_in_seconds=0.0, published_seconds=60.0)
        await keys.add(key("b"), newest="a", signs_in_seconds=900.0, published_seconds=60.0)
        await keys.add(key("c"), newest="b", signs_in_seconds=0.0, published_seconds=0.0)
        assert ["e", "c"] == [each.key_id for each in await keys.find()]

    async def test_an_addition_is_in_the_audit_log_if_it_was_one(self, store: Store) -> None:
        """Once."""
        source = Source(CallerKind.PERSON, None, "ada")
        audit = AuditEntry(INSTALLATION, AuditAction.IDENTITY_KEY_ROTATED, source, "identity_key", target="a")
        for newest in (None, None, "x"):
            await store.identity_keys.add(
                key("a"), newest=newest, signs_in_seconds=0.0, published_seconds=60.0, audit=audit
            )
        found = await store.audit.find(AuditQuery(namespace=INSTALLATION))
        assert [AuditAction.IDENTITY_KEY_ROTATED] == [row.action for row in found]
