"""Federations: each is a key without a secret, and the tokens that work once are remembered for their time."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any
from uuid import UUID

from tickwise.domain.accounts.federations import Federation
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.model import Principal
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity import NewKey
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory

ISSUER = "https://issuer.example.com"
SCOPES = frozenset({"jobs:create"})


def new_federation(key_id: UUID, **fields: Any) -> Federation:
    """A federation as control makes it."""
    whole: dict[str, Any] = {
        "key_id": key_id, "issuer": ISSUER, "audience": "https://tickwise.example.com",
        "conditions": {"sub": "repo:acme/app:*", "ref": "refs/heads/main"}, "key_set": None,
        "lifetime_seconds": 300.0, "single_use": True, **fields,
    }  # fmt: skip
    return Federation(**whole)


class FederationsContract(StoreContract):
    """`FederationStore`."""

    async def made(self, store: Store, make: Factory, *, namespace: str = "default", **fields: Any) -> Federation:
        """A federation with its key."""
        key_id = make.identifier()
        expires_at = fields.pop("expires_at", None)
        principal = Principal("pipeline", namespace, SCOPES, expires_at=expires_at)
        key = NewKey(
            key_id=key_id,
            digest=sha256(key_id.bytes).digest(),
            principal=principal,
            namespaces=frozenset({namespace}),
            created_by="ada",
        )
        federation = new_federation(key_id, **fields)
        entry = AuditEntry(
            namespace, AuditAction.FEDERATION_ADDED, Source(CallerKind.PROGRAM, None, "test"), "federation",
            target=str(key_id),
        )  # fmt: skip
        for _ in range(2):
            await store.federations.add(federation, key, audit=[entry])
        return federation

    async def test_a_federation_is_found_by_its_issuer(self, store: Store, make: Factory) -> None:
        """The oldest first, whole, and none of another issuer. Adding it twice is adding it once, with one entry."""
        mine = [await self.made(store, make), await self.made(store, make, key_set='{"keys": []}', single_use=False)]
        first, second = sorted(mine, key=lambda each: each.key_id)
        other = await self.made(store, make, issuer=f"{ISSUER}/other")
        assert list(await store.federations.of_issuer(ISSUER)) == [first, second]
        assert list(await store.federations.of_issuer(f"{ISSUER}/other")) == [other]
        assert list(await store.federations.of_issuer(f"{ISSUER}/")) == []
        query = AuditQuery(namespace=None, action=AuditAction.FEDERATION_ADDED, limit=10)
        assert len(await store.audit.find(query)) == 3

    async def test_a_federation_has_a_key_with_its_permissions(self, store: Store, make: Factory) -> None:
        """It is listed with it, and found by its id."""
        federation = await self.made(store, make)
        found = await store.keys.of_id(federation.key_id)
        assert found is not None
        assert found.caller.grants[0].permissions == SCOPES
        row = await store.federations.get(federation.key_id)
        assert row is not None
        assert (row.federation, row.key.name, row.key.scopes) == (federation, "pipeline", SCOPES)
        assert await store.federations.get(make.identifier()) is None

    async def test_a_key_that_is_over_ends_its_federation(self, store: Store, make: Factory) -> None:
        """Revoked or expired: no token is taken any more. A revoked one is not listed."""
        revoked = await self.made(store, make)
        expiring = await self.made(store, make, expires_at=await store.now() + 60.0)
        await store.keys.revoke(None, revoked.key_id)
        assert list(await store.federations.of_issuer(ISSUER)) == [expiring]
        await self.shift(store, 61.0)
        assert list(await store.federations.of_issuer(ISSUER)) == []
        listed = await store.federations.page(None, before=None, limit=10)
        assert [each.federation for each in listed] == [expiring]

    async def test_a_namespace_lists_those_that_work_there(self, store: Store, make: Factory) -> None:
        """The newest first, page by page."""
        made = sorted([await self.made(store, make) for _ in range(3)], key=lambda each: each.key_id)
        page = await store.federations.page("default", before=None, limit=2)
        assert [each.federation for each in page] == [made[2], made[1]]
        rest = await store.federations.page("default", before=made[1].key_id, limit=2)
        assert [each.federation for each in rest] == [made[0]]
        assert list(await store.federations.page("elsewhere", before=None, limit=2)) == []

    async def test_a_token_is_used_once_until_its_time_is_over(self, store: Store, make: Factory) -> None:
        """A repeat of the exchange has it: its answer may have been lost. Of many at once, one has it."""
        digest = sha256(b"a jti").digest()
        exchanges = [make.identifier() for _ in range(4)]
        used = await asyncio.gather(
            *(store.federations.use(digest, exchange_id=each, seconds=60.0) for each in exchanges)
        )
        assert sum(used) == 1
        winner = exchanges[used.index(True)]
        assert await store.federations.use(digest, exchange_id=winner, seconds=60.0)
        assert not await store.federations.use(digest, exchange_id=make.identifier(), seconds=60.0)
        await self.shift(store, 61.0)
        assert await store.federations.use(digest, exchange_id=make.identifier(), seconds=60.0)
