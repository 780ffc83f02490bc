"""Trust in tokens of other issuers."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tickwise.adapters.store.memory.people.keys import ApiKeys
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.accounts.federations import Federation
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.federations import FederationRow
from tickwise.ports.identity.keys import KeyRow, NewKey


class Federations(Duty):
    """`FederationStore` of the port."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._keys = ApiKeys(state)

    async def add(self, federation: Federation, key: NewKey, *, audit: Sequence[AuditEntry] = ()) -> None:
        if await self._keys.add(key, audit=audit):
            self._state.federations[federation.key_id] = federation

    async def of_issuer(self, issuer: str) -> Sequence[Federation]:
        found = [each for each in self._state.federations.values() if each.issuer == issuer]
        good = [each for each in found if await self._keys.of_id(each.key_id) is not None]
        return sorted(good, key=lambda each: each.key_id)

    async def get(self, key_id: UUID) -> FederationRow | None:
        federation, key = self._state.federations.get(key_id), self._key(key_id)
        return None if federation is None or key is None else FederationRow(federation, key)

    async def page(self, namespace: str | None, *, before: UUID | None, limit: int) -> Sequence[FederationRow]:
        keys = await self._keys.page(namespace, before=before, limit=len(self._state.api_keys))
        federations = self._state.federations
        return [
            FederationRow(federations[key.key_id], key)
            for key in keys
            if key.key_id in federations and key.revoked_at is None
        ][:limit]

    async def use(self, digest: bytes, *, exchange_id: UUID, seconds: float) -> bool:
        used, now = self._state.used_assertions, self._state.now()
        for each, (expires_at, _) in [*used.items()]:
            if expires_at <= now:
                del used[each]
        return used.setdefault(digest, (now + seconds, exchange_id))[1] == exchange_id

    def _key(self, key_id: UUID) -> KeyRow | None:
        return self._keys.row(key_id)
