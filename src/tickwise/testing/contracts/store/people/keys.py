"""API keys: who they stand for, until when they are good, and that a revoked one stays revoked."""

from __future__ import annotations

import asyncio
from collections import Counter
from hashlib import sha256
from typing import Any

import pytest

from tickwise.domain.callers import Caller
from tickwise.domain.errors import Conflict
from tickwise.domain.model import Principal
from tickwise.ports.identity import MAX_KEYS, KeyOrigin, NewKey
from tickwise.ports.store import EndingKey, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory

ADA = Principal("ada", "default", frozenset({"jobs:read", "jobs:write"}))


def new_key(make: Factory, secret: bytes = b"secret", principal: Principal = ADA, **fields: Any) -> NewKey:
    """A key as identity makes it."""
    return NewKey(key_id=make.identifier(), digest=sha256(secret).digest(), principal=principal, **fields)


def as_found(key: NewKey) -> Caller:
    """The caller of a request with the key."""
    return Caller.of_key(key.principal._replace(key_id=key.key_id), key.namespaces, key.labels)


async def finds(store: Store, key: NewKey) -> bool:
    """Check whether the key is accepted."""
    return await store.keys.find(key.digest) is not None


class KeysContract(StoreContract):
    """The port `Keys`, which stores keep."""

    async def test_a_key_is_found_by_its_digest(self, store: Store, make: Factory) -> None:
        """It stands for its principal, with namespace and scopes, and says which key it is."""
        key = new_key(make)
        assert await store.keys.add(key) is True
        assert await store.keys.find(key.digest) == (as_found(key), None)

    async def test_a_key_says_in_which_namespaces_it_works(self, store: Store, make: Factory) -> None:
        """Those that it was made for; `*` is each one. It is found by its id, too."""
        for number, namespaces in enumerate([frozenset({"default", "team-a"}), frozenset({"*"}), None]):
            key = new_key(make, b"secret %d" % number, namespaces=namespaces)
            assert await store.keys.add(key) is True
            assert await store.keys.find(key.digest) == (as_found(key), None)
            assert await store.keys.of_id(key.key_id) == (as_found(key), None)
            rows = {row.key_id: row for row in await store.keys.page("default", before=None, limit=10)}
            assert rows[key.key_id].namespaces == (namespaces or {"default"})
        await store.keys.revoke("default", key.key_id)
        assert await store.keys.of_id(key.key_id) is None

    async def test_a_key_says_for_which_jobs_it_is(self, store: Store, make: Factory) -> None:
        """A key with labels has its permissions for jobs that have them, and none beside; it is listed with both."""
        labels = (("env", "prod"), ("team", "billing"))
        key = new_key(make, labels=labels)
        assert await store.keys.add(key) is True
        for found in (await store.keys.find(key.digest), await store.keys.of_id(key.key_id)):
            assert found is not None
            assert found.caller == as_found(key)
            principal = found.caller.principal()
            assert (principal.scopes, principal.selector(["jobs:read"])) == (frozenset(), (labels,))
        [row] = await store.keys.page("default", before=None, limit=10)
        assert (row.scopes, row.labels) == (ADA.scopes, labels)
        gone = await store.keys.revoke("default", key.key_id)
        assert gone is not None
        assert (gone.scopes, gone.labels) == (ADA.scopes, labels)

    async def test_keys_that_end_soon_are_found_page_by_page(self, store: Store, make: Factory) -> None:
        """Those that end first before others, revoked ones among them; not one that has ended, ends later or lasts."""
        now = await store.now()
        ends = {b"second": 500.0, b"first": 100.0, b"later": 5_000.0, b"over": -10.0, b"lasts": None, b"third": 900.0}
        keys = {}
        for secret, seconds in ends.items():
            until = None if seconds is None else now + seconds
            keys[secret] = new_key(make, secret, ADA._replace(expires_at=until))
            await store.keys.add(keys[secret])
        await store.keys.revoke("default", keys[b"second"].key_id)
        found, after = list[EndingKey](), None
        while rows := await store.delays.keys_ending(1_000.0, after=after, limit=2):
            found += rows
            after = (rows[-1].ends_at, rows[-1].key_id)
        assert [keys[each].key_id for each in (b"first", b"second", b"third")] == [row.key_id for row in found]
        assert [True, False, True] == [not row.is_revoked for row in found]

    async def test_a_key_says_who_owns_it(self, store: Store, make: Factory) -> None:
        """A key that is found, listed or revoked names its owner, of whom the store has to know nothing else."""
        owner = make.identifier()
        key = new_key(make, principal=ADA._replace(owner_id=owner))
        nobodys = new_key(make, b"nobody's")
        for each in (key, nobodys):
            assert await store.keys.add(each) is True
        assert await store.keys.find(key.digest) == await store.keys.of_id(key.key_id) == (as_found(key), None)
        assert as_found(key).owner_id == owner
        listed = {row.key_id: row.owner_id for row in await store.keys.page("default", before=None, limit=10)}
        assert listed == {key.key_id: owner, nobodys.key_id: None}
        gone = await store.keys.revoke("default", key.key_id)
        assert gone is not None
        assert gone.owner_id == owner

    async def test_an_unknown_key_is_nobodys(self, store: Store, make: Factory) -> None:
        """Not even nearly."""
        key = new_key(make)
        await store.keys.add(key)
        assert await store.keys.find(sha256(b"guess").digest()) is None
        assert await store.keys.find(key.digest[:-1]) is None
        assert await store.keys.find(b"") is None

    async def test_a_digest_is_kept_once(self, store: Store, make: Factory) -> None:
        """A second key with the same digest changes nothing."""
        key = new_key(make)
        await store.keys.add(key)
        rival = new_key(make, principal=Principal("eve", "elsewhere", frozenset({"*"})))
        assert await store.keys.add(rival) is False
        assert await store.keys.find(key.digest) == (as_found(key), None)
        assert await store.keys.count() == 1

    async def test_of_many_who_add_one_key_one_does(self, store: Store, other: Store, make: Factory) -> None:
        """Several processes add the same secret at once."""
        keys = [new_key(make) for _ in range(6)]
        answers = await asyncio.gather(
            *(client.keys.add(key) for client, key in zip([store, other] * 3, keys, strict=True))
        )
        assert Counter(answers) == {True: 1, False: 5}

    async def test_keys_are_counted(self, store: Store, make: Factory) -> None:
        """None means that nobody was ever let in, so revoked ones count."""
        assert await store.keys.count() == 0
        for secret in (b"one", b"two", b"three"):
            await store.keys.add(new_key(make, secret))
        await store.keys.revoke("default", (await store.keys.page("default", before=None, limit=1))[0].key_id)
        assert await store.keys.count() == 3

    async def test_a_principal_without_scopes_has_none(self, store: Store, make: Factory) -> None:
        """No scope is not every scope."""
        nobody = Principal("nobody", "default", frozenset())
        await store.keys.add(new_key(make, principal=nobody))
        found = await store.keys.find(new_key(make).digest)
        assert found is not None
        assert not found.caller.principal().may("jobs:read")

    async def test_an_expired_key_lets_nobody_in(self, store: Store, make: Factory) -> None:
        """By the store's clock; before that, the store says how long the key is good."""
        key = new_key(make, principal=ADA._replace(expires_at=make.now + 60.0))
        await store.keys.add(key)
        found = await store.keys.find(key.digest)
        assert found is not None
        assert found.caller.expires_at == pytest.approx(make.now + 60.0, abs=0.001)
        assert found.seconds_left is not None
        assert 0.0 < found.seconds_left <= 60.0
        await self.shift(store, 60.5)
        assert not await finds(store, key)

    async def test_a_revoked_key_lets_nobody_in(self, store: Store, other: Store, make: Factory) -> None:
        """No other client of the store either; the keys beside it stay good."""
        gone, stays = new_key(make, b"one"), new_key(make, b"two")
        await store.keys.add(gone)
        await store.keys.add(stays)
        row = await other.keys.revoke("default", gone.key_id)
        assert row is not None
        assert row.revoked_at is not None
        assert (await finds(store, gone), await finds(store, stays)) == (False, True)

    async def test_revoking_again_changes_nothing(self, store: Store, make: Factory) -> None:
        """The first time stays on record."""
        key = new_key(make)
        await store.keys.add(key)
        first = await store.keys.revoke("default", key.key_id)
        await self.shift(store, 5.0)
        assert await store.keys.revoke("default", key.key_id) == first
        assert not await finds(store, key)

    async def test_a_revoked_secret_never_comes_back(self, store: Store, make: Factory) -> None:
        """Neither as a key that is added, nor as the setting's."""
        key = new_key(make, origin=KeyOrigin.SETTING)
        assert await store.keys.of_setting(key) == []
        await store.keys.revoke("default", key.key_id)
        assert await store.keys.add(new_key(make)) is False
        assert await store.keys.of_setting(new_key(make, origin=KeyOrigin.SETTING)) is None
        assert not await finds(store, key)

    async def test_a_namespace_revokes_its_own_keys_only(self, store: Store, make: Factory) -> None:
        """Another namespace's key is not there for it, in lists neither."""
        key = new_key(make)
        await store.keys.add(key)
        assert await store.keys.revoke("elsewhere", key.key_id) is None
        assert await store.keys.page("elsewhere", before=None, limit=10) == []
        assert await finds(store, key)

    async def test_the_installation_lists_and_revokes_keys_of_each_namespace(self, store: Store, make: Factory) -> None:
        """Without a namespace, all keys are there."""
        mine, theirs = new_key(make, b"mine"), new_key(make, b"theirs", ADA._replace(namespace="elsewhere"))
        for key in (mine, theirs):
            await store.keys.add(key)
        ids = sorted((mine.key_id, theirs.key_id), reverse=True)
        assert ids == [row.key_id for row in await store.keys.page(None, before=None, limit=10)]
        assert ids[1:] == [row.key_id for row in await store.keys.page(None, before=ids[0], limit=10)]
        gone = await store.keys.revoke(None, theirs.key_id)
        assert gone is not None
        assert gone.namespace == "elsewhere"
        assert [True, False] == [await finds(store, key) for key in (mine, theirs)]
        assert await store.keys.revoke(None, make.identifier()) is None

    async def test_a_key_is_listed_in_each_of_its_namespaces(self, store: Store, make: Factory) -> None:
        """Not one that works in all of them: it is a key of the installation."""
        guest = new_key(make, b"guest", namespaces=frozenset({"default", "team-a"}))
        everywhere = new_key(make, b"everywhere", namespaces=frozenset({"*"}))
        for key in (guest, everywhere):
            await store.keys.add(key)
        [row] = await store.keys.page("team-a", before=None, limit=10)
        assert (row.key_id, row.namespace, row.namespaces) == (guest.key_id, "default", guest.namespaces)
        assert len(await store.keys.page("default", before=None, limit=10)) == 2

    async def test_a_key_leaves_one_of_its_namespaces(self, store: Store, make: Factory) -> None:
        """It works in the others; if its home goes, another one of them is its home. The last one stays."""
        places = frozenset({"default", "team-a", "team-b"})
        key = new_key(make, namespaces=places)
        await store.keys.add(key)
        await self.shift(store, 1.0)
        for _ in range(2):
            row = await store.keys.revoke("team-b", key.key_id, only_there=True)
            assert row is not None
            assert (row.namespace, row.namespaces) == ("default", places - {"team-b"})
        row = await store.keys.revoke("default", key.key_id, only_there=True)
        assert row is not None
        assert (row.namespace, row.namespaces) == ("team-a", frozenset({"team-a"}))
        found = await store.keys.find(key.digest)
        assert found is not None
        assert (found.caller.home, set(found.caller.namespaces)) == ("team-a", {"team-a"})
        alone = await store.keys.revoke("team-a", key.key_id, only_there=True)
        assert alone is not None
        assert alone.namespaces == {"team-a"}
        assert await store.keys.revoke("team-a", make.identifier(), only_there=True) is None
        everywhere = new_key(make, b"everywhere", namespaces=frozenset({"*"}))
        await store.keys.add(everywhere)
        stays = await store.keys.revoke("default", everywhere.key_id, only_there=True)
        assert stays is not None
        assert stays.namespaces == {"*"}

    async def test_a_list_says_all_of_a_key_but_its_secret(self, store: Store, make: Factory) -> None:
        """Its creator, its permissions, and when it was made, used and revoked."""
        key = new_key(make, prefix="tw_abcdefgh", created_by="admin")
        await store.keys.add(key)
        await self.shift(store, 10.0)
        await store.keys.used({key.key_id: 0.5})
        await store.keys.used({key.key_id: 5.0})
        await self.shift(store, 10.0)
        await store.keys.revoke("default", key.key_id)
        [row] = await store.keys.page("default", before=None, limit=10)
        assert (row.key_id, row.name, row.namespace, row.scopes) == (key.key_id, "ada", "default", ADA.scopes)
        assert (row.origin, row.prefix, row.created_by) == (KeyOrigin.MADE, "tw_abcdefgh", "admin")
        assert row.expires_at is None
        assert row.last_used_at is not None
        assert row.revoked_at is not None
        assert row.created_at + 9.0 < row.last_used_at < row.revoked_at - 10.0

    async def test_a_list_is_read_page_by_page(self, store: Store, make: Factory) -> None:
        """The newest first, none twice, none left out."""
        keys = [new_key(make, f"secret {number}".encode()) for number in range(5)]
        for key in keys:
            await store.keys.add(key)
        ids = sorted((key.key_id for key in keys), reverse=True)
        first = await store.keys.page("default", before=None, limit=3)
        rest = await store.keys.page("default", before=first[-1].key_id, limit=3)
        assert ids == [row.key_id for row in (*first, *rest)]

    async def test_the_settings_key_replaces_the_one_before(self, store: Store, make: Factory) -> None:
        """And no other key. Saying the same again changes nothing."""
        made = new_key(make, b"made")
        old, new = (new_key(make, secret, origin=KeyOrigin.SETTING) for secret in (b"old", b"new"))
        await store.keys.add(made)
        assert await store.keys.of_setting(old) == []
        assert await store.keys.of_setting(new) == [old.key_id]
        assert await store.keys.of_setting(new) == []
        assert [await finds(store, key) for key in (made, old, new)] == [True, False, True]

    async def test_the_first_key_is_made_once(self, store: Store, other: Store, make: Factory) -> None:
        """Several processes start at once on an empty store: one secret becomes good."""
        keys = [new_key(make, f"secret {number}".encode(), origin=KeyOrigin.FIRST) for number in range(8)]
        answers = await asyncio.gather(
            *(client.keys.first(key) for client, key in zip([store, other] * 4, keys, strict=True))
        )
        assert Counter(answers) == {True: 1, False: 7}
        assert answers == [await finds(store, key) for key in keys]

    async def test_no_first_key_is_made_where_one_was(self, store: Store, make: Factory) -> None:
        """Not even after it was revoked: a restart lets nobody in."""
        key = new_key(make)
        await store.keys.add(key)
        await store.keys.revoke("default", key.key_id)
        assert await store.keys.first(new_key(make, b"second", origin=KeyOrigin.FIRST)) is False
        assert await store.keys.count() == 1

    async def test_a_namespace_has_so_many_good_keys(self, store: Store, make: Factory) -> None:
        """One more is refused, there and not elsewhere, until one is revoked. Keys of the installation do not count."""
        keys = [new_key(make, f"secret {number}".encode()) for number in range(MAX_KEYS)]
        for key in keys:
            await store.keys.add(key)
        with pytest.raises(Conflict) as refused:
            await store.keys.add(new_key(make, b"more"))
        assert "keys_exhausted" == refused.value.code
        assert await store.keys.add(new_key(make, b"elsewhere", ADA._replace(namespace="elsewhere")))
        assert await store.keys.of_setting(new_key(make, b"setting", origin=KeyOrigin.SETTING)) == []
        await store.keys.revoke("default", keys[0].key_id)
        assert await store.keys.add(new_key(make, b"more"))
