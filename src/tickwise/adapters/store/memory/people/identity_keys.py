"""Signing keys of identity tokens."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.tokens import IdentityKey


class IdentityKeys(Duty):
    """`IdentityKeyStore` of the port."""

    async def find(self) -> Sequence[IdentityKey]:
        return sorted(self._state.identity_keys.values(), key=lambda each: (each.algorithm, each.signs_at, each.key_id))

    async def add(
        self,
        key: IdentityKey,
        *,
        newest: str | None,
        signs_in_seconds: float,
        published_seconds: float,
        audit: AuditEntry | None = None,
    ) -> bool:
        keys, now = self._state.identity_keys, self._state.now()
        same = [each for each in await self.find() if each.algorithm == key.algorithm]
        found = same[-1].key_id if same else None
        if found == key.key_id:
            return True
        if found != newest:
            return False
        keys[key.key_id] = key._replace(created_at=now, signs_at=now + signs_in_seconds)
        for each in same:
            later = [other for other in keys.values() if other.algorithm == key.algorithm]
            if published_seconds == 0 or any(
                each.signs_at < other.signs_at < now - published_seconds for other in later
            ):
                del keys[each.key_id]
        self._state.audit.write(audit)
        return True
