"""API keys, by the digests of their secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.records import EarlierSecret, KeyRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry, key_used_first
from tickwise.domain.callers import Caller
from tickwise.ports.identity import (
    MAX_KEYS,
    FoundKey,
    KeyOrigin,
    KeyRotation,
    KeyRow,
    NewKey,
    check_keys_room,
    key_kept,
    key_replaced,
)


class ApiKeys(Duty):
    """The port `Keys` over a `State`."""

    async def add(self, key: NewKey, *, audit: Sequence[AuditEntry] = ()) -> bool:
        if key.origin is KeyOrigin.MADE:
            self._state.check_open(key.principal.namespace, *(key.namespaces or ()))
            self._make_room(key.principal.namespace)
        added = self._add(key)
        if added:
            self._state.audit.write(*audit)
        return added

    async def first(self, key: NewKey) -> bool:
        is_first = not self._state.api_keys and self._add(key)
        if is_first:
            self._state.audit.write(key_kept(key))
        return is_first

    async def of_setting(self, key: NewKey) -> Sequence[UUID] | None:
        there = self._state.api_keys.get(key.digest)
        if (there is not None and there.revoked_at is not None) or self._was(key.digest) is not None:
            return None
        if self._add(key):
            self._state.audit.write(key_kept(key))
        replaced = [
            record
            for digest, record in self._state.api_keys.items()
            if record.key.origin is KeyOrigin.SETTING and record.revoked_at is None and digest != key.digest
        ]
        for record in replaced:
            record.revoked_at = self._state.now()
            principal = record.key.principal
            self._state.audit.write(key_replaced(record.key.key_id, principal.name, principal.namespace))
        return [record.key.key_id for record in replaced]

    async def find(self, digest: bytes) -> FoundKey | None:
        found = self._state.api_keys.get(digest)
        if found is None and (had := self._was(digest)) is not None:
            return self._good(had, had.earlier[digest])
        return self._good(found)

    async def of_id(self, key_id: UUID, secret: int | None = None) -> FoundKey | None:
        found = next((each for each in self._state.api_keys.values() if each.key.key_id == key_id), None)
        if found is None or secret in (None, found.rotations):
            return self._good(found)
        earlier = next((each for each in found.earlier.values() if each.number == secret), None)
        return None if earlier is None else self._good(found, earlier)

    def _was(self, digest: bytes) -> KeyRecord | None:
        """The key of which this is an earlier secret."""
        return next((each for each in self._state.api_keys.values() if digest in each.earlier), None)

    def _good(self, found: KeyRecord | None, earlier: EarlierSecret | None = None) -> FoundKey | None:
        now = self._state.now()
        if found is None or not found.good(now) or (earlier is not None and earlier.until <= now):
            return None
        principal, secret = found.key.principal, found.rotations
        if earlier is not None:
            until = earlier.until if principal.expires_at is None else min(principal.expires_at, earlier.until)
            principal, secret = principal._replace(expires_at=until), earlier.number
        left = None if principal.expires_at is None else principal.expires_at - now
        caller = Caller.of_key(
            principal._replace(key_id=found.key.key_id),
            found.key.namespaces,
            found.key.labels,
            secret=secret,
        )
        return FoundKey(caller, left)

    async def rotate(self, rotation: KeyRotation, *, audit: AuditEntry | None = None) -> KeyRow | None:
        found = next((each for each in self._of(rotation.namespace) if each.key.key_id == rotation.key_id), None)
        if found is None or found.key.digest == rotation.digest:
            return None if found is None else self._row(found)
        now = self._state.now()
        rotation.check(self._row(found), now)
        for digest, each in found.earlier.items():
            found.earlier[digest] = each._replace(until=min(each.until, now))
        found.earlier[found.key.digest] = EarlierSecret(found.rotations, now + rotation.overlap_seconds)
        del self._state.api_keys[found.key.digest]
        found.key = replace(found.key, digest=rotation.digest, prefix=rotation.prefix)
        found.rotations, found.rotated_at = found.rotations + 1, now
        self._state.api_keys[rotation.digest] = found
        self._state.audit.write(audit)
        return self._row(found)

    async def page(self, namespace: str | None, *, before: UUID | None, limit: int) -> Sequence[KeyRow]:
        mine = [
            record
            for record in self._state.api_keys.values()
            if (before is None or record.key.key_id < before)
            and (namespace is None or namespace in (record.key.principal.namespace, *(record.key.namespaces or ())))
        ]
        mine.sort(key=lambda record: record.key.key_id, reverse=True)
        return [self._row(record) for record in mine[:limit]]

    def _leave(self, namespace: str, key_id: UUID, audit: Sequence[AuditEntry]) -> KeyRow | None:
        found = next((record for record in self._of(None) if record.key.key_id == key_id), None)
        if found is None:
            return None
        places = found.key.namespaces or frozenset()
        if namespace in places and len(places) > 1 and found.revoked_at is None:
            rest = places - {namespace}
            principal = found.key.principal
            if principal.namespace == namespace:
                principal = principal._replace(namespace=min(rest))
            found.key = replace(found.key, namespaces=rest, principal=principal)
            self._state.audit.write(*audit)
        return self._row(found)

    async def revoke(
        self, namespace: str | None, key_id: UUID, *, only_there: bool = False, audit: Sequence[AuditEntry] = ()
    ) -> KeyRow | None:
        if only_there and namespace is not None:
            return self._leave(namespace, key_id, audit)
        found = next((record for record in self._of(namespace) if record.key.key_id == key_id), None)
        if found is None:
            return None
        if found.revoked_at is None:
            found.revoked_at = self._state.now()
            self._state.audit.write(*audit)
        return self._row(found)

    async def used(self, ages: Mapping[UUID, float]) -> None:
        for record in self._state.api_keys.values():
            age = ages.get(record.key.key_id)
            if age is not None:
                if record.last_used_at is None:
                    principal = record.key.principal
                    self._state.audit.write(key_used_first(record.key.key_id, principal.name, principal.namespace))
                record.last_used_at = max(record.last_used_at or 0.0, self._state.now() - age)

    async def count(self) -> int:
        return len(self._state.api_keys)

    def row(self, key_id: UUID) -> KeyRow | None:
        """A key as it is listed."""
        found = next((record for record in self._of(None) if record.key.key_id == key_id), None)
        return None if found is None else self._row(found)

    def _of(self, namespace: str | None) -> list[KeyRecord]:
        every = self._state.api_keys.values()
        return [record for record in every if namespace is None or record.key.principal.namespace == namespace]

    def _add(self, key: NewKey) -> bool:
        if key.digest in self._state.api_keys or self._was(key.digest) is not None:
            return False
        self._state.api_keys[key.digest] = KeyRecord(key=key, created_at=self._state.now())
        return True

    def _make_room(self, namespace: str) -> None:
        """Forget keys that are over, the oldest first, but `MAX_KEYS`. Raises `Conflict` if too many are good."""
        now = self._state.now()
        made = [record for record in self._of(namespace) if record.key.origin is KeyOrigin.MADE]
        over = sorted((record for record in made if not record.good(now)), key=lambda record: record.over_at)
        for record in over[: max(0, len(over) - MAX_KEYS)]:
            del self._state.api_keys[record.key.digest]
        check_keys_room(len(made) - len(over))

    def _row(self, record: KeyRecord) -> KeyRow:
        now = self._state.now()
        return _row(record, max((each.until for each in record.earlier.values() if each.until > now), default=None))


def _row(record: KeyRecord, earlier_secret_until: float | None) -> KeyRow:
    key, principal = record.key, record.key.principal
    return KeyRow(
        key_id=key.key_id,
        name=principal.name,
        namespace=principal.namespace,
        namespaces=key.namespaces or frozenset({principal.namespace}),
        scopes=principal.scopes,
        labels=key.labels,
        origin=key.origin,
        prefix=key.prefix,
        created_by=key.created_by,
        owner_id=principal.owner_id,
        created_at=record.created_at,
        expires_at=principal.expires_at,
        last_used_at=record.last_used_at,
        revoked_at=record.revoked_at,
        rotations=record.rotations,
        rotated_at=record.rotated_at,
        earlier_secret_until=earlier_secret_until,
    )
