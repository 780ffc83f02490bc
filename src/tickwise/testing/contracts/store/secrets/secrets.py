"""Secrets of a store: sealed bytes by namespace and name, versions in order, keys that are replaced in steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.errors import Refused, VersionConflict
from tickwise.ports.audit import AuditQuery
from tickwise.ports.sealing import SealedParts
from tickwise.ports.store import Store
from tickwise.ports.store import secrets as port
from tickwise.ports.store.secrets import (
    VERSIONS_KEPT,
    NewSecret,
    Rewrapped,
    SealedKey,
    SealedSecret,
    SecretPlace,
    SecretQuery,
)
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.removals import TEAM, begin_removal, close, open_namespace

FIRST_KEY, NEXT_KEY = b"\x01" * 8, b"\x02" * 8


def sealed_key(text: str = "", key_id: bytes = FIRST_KEY) -> bytes:
    """A data key as it is stored: the id of the key that wraps it stands behind the first byte."""
    return b"\x01" + key_id + b"\x00\xff" + text.encode()


def secret(name: str = "db", version: int = 1, *, namespace: str = "default", key_id: bytes = FIRST_KEY) -> NewSecret:
    """A version of a secret."""
    parts = SealedParts(sealed_key(f"{namespace}/{name}/{version}", key_id), f"{name} {version}".encode() + b"\x00\xff")
    return NewSecret(namespace=namespace, name=name, version=version, sealed=parts, by="ada")


def entry(target: str) -> AuditEntry:
    """An entry of the audit log."""
    return AuditEntry("default", AuditAction.SECRET_SET, Source(CallerKind.KEY, None, "ada"), "secret", target)


async def code_of(call: Awaitable[object]) -> str:
    """The code with which a call is refused."""
    with pytest.raises(Refused) as refusal:
        await call
    return refusal.value.code


class SecretsContract(StoreContract):
    """`SecretStore`."""

    async def test_a_secret_is_found_by_its_name_in_its_namespace(self, store: Store, other: Store) -> None:
        """By code point, in pages, without a value; another client sees it too."""
        await open_namespace(store)
        for name in ("b", "B", "a-1", "a.1"):
            await store.secrets.put(secret(name))
        await store.secrets.put(secret("b", namespace=TEAM))
        rows = await other.secrets.find(SecretQuery(namespace="default"))
        assert ["B", "a-1", "a.1", "b"] == [row.name for row in rows]
        assert {(1, FIRST_KEY, "ada", "ada")} == {(r.version, r.key_id, r.created_by, r.changed_by) for r in rows}
        now = await store.now()
        assert all(row.created_at == row.changed_at and abs(row.created_at - now) < 60 for row in rows)
        after = SecretPlace("default", "a-1")
        assert ["a.1"] == [
            row.name for row in await store.secrets.find(SecretQuery(namespace="default", after=after, limit=1))
        ]
        every = await store.secrets.find(SecretQuery(namespace=None, after=after))
        assert [("default", "a.1"), ("default", "b"), (TEAM, "b")] == [(row.namespace, row.name) for row in every]
        assert [] == await store.secrets.find(SecretQuery(namespace=TEAM, name="a.1"))

    async def test_a_version_takes_the_place_of_the_one_before(self, store: Store) -> None:
        """Its value is gone, its record stays; so many records are kept."""
        first = await store.secrets.put(secret())
        await self.shift(store, 5.0)
        second = await store.secrets.put(secret(version=2))
        assert (2, first.created_at) == (second.version, second.created_at)
        assert 4.0 < second.changed_at - first.changed_at < 60.0
        place = SecretPlace("default", "db")
        [found] = await store.secrets.sealed([place])
        assert SealedSecret(place, 2, secret(version=2).sealed) == found
        assert secret().sealed.value not in (await store.secrets.sealed([place]))[0].sealed
        versions = await store.secrets.versions(place)
        assert [(2, second.changed_at, "ada"), (1, first.created_at, "ada")] == [tuple(each) for each in versions]
        for version in range(3, VERSIONS_KEPT + 3):
            await store.secrets.put(secret(version=version))
        kept = [each.version for each in await store.secrets.versions(place)]
        assert list(range(VERSIONS_KEPT + 2, 2, -1)) == kept
        assert [] == list(await store.secrets.versions(SecretPlace(TEAM, "db")))

    async def test_a_version_follows_on_the_newest_one(self, store: Store, other: Store) -> None:
        """Of several at once one is stored; the same one again is no other."""
        with pytest.raises(VersionConflict):
            await store.secrets.put(secret(version=2))
        made = await store.secrets.put(secret())
        assert made == await store.secrets.put(secret())
        with pytest.raises(VersionConflict):
            await store.secrets.put(secret(key_id=NEXT_KEY))
        writes = [
            client.secrets.put(secret(version=2, key_id=bytes([at]) * 8))
            for at, client in enumerate([store, other] * 3)
        ]
        found = await asyncio.gather(*writes, return_exceptions=True)
        assert 1 == sum(not isinstance(each, BaseException) for each in found)
        assert 5 == sum(isinstance(each, VersionConflict) for each in found)

    async def test_a_new_name_is_made_once(self, store: Store, other: Store) -> None:
        """By one of several who ask at once."""
        writes = [client.secrets.put(secret(key_id=bytes([at]) * 8)) for at, client in enumerate([store, other] * 3)]
        found = await asyncio.gather(*writes, return_exceptions=True)
        assert 5 == sum(isinstance(each, VersionConflict) for each in found), found

    async def test_a_secret_is_removed_whole(self, store: Store) -> None:
        """One of another version stays; a later one of the name begins anew."""
        place = SecretPlace("default", "db")
        assert not await store.secrets.remove(place, None)
        await store.secrets.put(secret())
        await store.secrets.put(secret(version=2))
        with pytest.raises(VersionConflict):
            await store.secrets.remove(place, 1)
        assert await store.secrets.remove(place, 2)
        assert [] == list(await store.secrets.sealed([place]))
        assert [] == list(await store.secrets.versions(place))
        assert 1 == (await store.secrets.put(secret())).version
        assert await store.secrets.remove(place, None)

    async def test_values_of_many_are_read_at_once(self, store: Store) -> None:
        """Of the namespaces that are named, of those that are there."""
        await open_namespace(store)
        for each in (secret("a"), secret("b"), secret("a", namespace=TEAM)):
            await store.secrets.put(each)
        asked = [
            SecretPlace("default", "a"),
            SecretPlace(TEAM, "a"),
            SecretPlace(TEAM, "b"),
            SecretPlace("default", "a"),
        ]
        found = {each.place: each.sealed for each in await store.secrets.sealed(asked)}
        assert {
            SecretPlace("default", "a"): secret("a").sealed, SecretPlace(TEAM, "a"): secret("a", namespace=TEAM).sealed
        } == found  # fmt: skip
        assert [] == list(await store.secrets.sealed([]))

    async def test_keys_are_replaced_in_steps(self, store: Store) -> None:
        """What was set or replaced meanwhile stays as it is; the values stay all the same."""
        for name in ("a", "b", "c"):
            await store.secrets.put(secret(name))
        await store.secrets.put(secret("d", key_id=NEXT_KEY))
        assert {FIRST_KEY: 3, NEXT_KEY: 1} == dict(await store.secrets.keys_used())
        query = SecretQuery(namespace=None, not_under=[NEXT_KEY], limit=2)
        page = await store.secrets.sealed_keys(query)
        assert [SealedKey(SecretPlace("default", name), secret(name).sealed.key) for name in ("a", "b")] == list(page)
        await store.secrets.put(secret("b", 2))
        new = [Rewrapped(each.place, each.key, sealed_key("new", NEXT_KEY)) for each in page]
        assert 1 == await store.secrets.rewrap(new, audit=entry("rewrapped"))
        assert 0 == await store.secrets.rewrap(new, audit=entry("again"))
        assert {FIRST_KEY: 2, NEXT_KEY: 2} == dict(await store.secrets.keys_used())
        [a, b] = sorted(await store.secrets.sealed([SecretPlace("default", name) for name in ("a", "b")]))
        assert SealedParts(sealed_key("new", NEXT_KEY), secret("a").sealed.value) == a.sealed
        assert secret("b", 2).sealed == b.sealed
        left = await store.secrets.find(SecretQuery(namespace=None, not_under=[NEXT_KEY]))
        assert ["b", "c"] == [row.name for row in left]
        assert [1] == [row.version for row in await store.secrets.find(SecretQuery(namespace="default", name="a"))]
        assert ["rewrapped"] == [row.target for row in await store.audit.find(AuditQuery(namespace="default"))]

    async def test_each_change_writes_its_entry(self, store: Store) -> None:
        """In its transaction: what is refused or changes nothing leaves none."""
        for target in ("made", "again"):
            await store.secrets.put(secret(), audit=entry(target))
        with pytest.raises(VersionConflict):
            await store.secrets.put(secret(version=3), audit=entry("refused"))
        place = SecretPlace("default", "db")
        with pytest.raises(VersionConflict):
            await store.secrets.remove(place, 7, audit=entry("refused"))
        for target in ("removed", "gone"):
            await store.secrets.remove(place, None, audit=entry(target))
        rows = await store.audit.find(AuditQuery(namespace="default", limit=20))
        assert ["made", "removed"] == [row.target for row in reversed(rows)]

    async def test_no_namespace_has_too_many(self, store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also if they are made at once; one that is there is set anew all the same. A bound of few is as one of
        many."""
        monkeypatch.setattr(port, "MAX_SECRETS", 20)
        for number in range(19):
            await store.secrets.put(secret(f"s{number}"))
        asked = [client.secrets.put(secret(f"last{at}")) for at, client in enumerate([store, other] * 2)]
        failed = [each for each in await asyncio.gather(*asked, return_exceptions=True) if isinstance(each, Exception)]
        assert ["secrets_exhausted"] * 3 == [getattr(each, "code", "") for each in failed]
        await store.secrets.put(secret("s0", 2))

    async def test_all_that_is_stored_of_one_can_be_looked_at(self, store: Store) -> None:
        """And nothing of it stays."""
        trace = await store.secrets.trace_of(secret("probe"))
        value = secret("probe").sealed.value
        assert value.hex() in trace or repr(value) in trace
        assert "probe" in trace
        assert [] == await store.secrets.find(SecretQuery(namespace=None))

    async def test_a_closing_namespace_gets_no_secret_and_a_removed_one_leaves_none(self, store: Store) -> None:
        """Those that are there can be set anew while it closes; a later namespace of the name has nothing of it."""
        await open_namespace(store)
        await store.secrets.put(secret(namespace=TEAM))
        await store.secrets.put(secret())
        await close(store)
        assert "namespace_closing" == await code_of(store.secrets.put(secret("late", namespace=TEAM)))
        assert 2 == (await store.secrets.put(secret(version=2, namespace=TEAM))).version
        await begin_removal(store)
        assert "namespace_closing" == await code_of(store.secrets.put(secret(version=3, namespace=TEAM)))
        while await store.removals.drop(TEAM, 2):
            pass
        assert ["default"] == [row.namespace for row in await store.secrets.find(SecretQuery(namespace=None))]
