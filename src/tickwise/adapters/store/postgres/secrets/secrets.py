"""Secrets: sealed bytes, their versions, and the keys that wrap them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.ports.sealing import SealedParts, key_id_of
from tickwise.ports.store.definitions import StoredTask
from tickwise.ports.store.secrets import (
    USES_LOOKED_AT,
    VERSIONS_KEPT,
    NewSecret,
    Rewrapped,
    SealedKey,
    SealedSecret,
    SecretPlace,
    SecretQuery,
    SecretRow,
    SecretUse,
    SecretUses,
    SecretVersion,
    check_secret_room,
    secret_changed,
)


class Secrets(Part):
    """`SecretStore` of the port."""

    async def put(self, secret: NewSecret, *, audit: AuditEntry | None = None) -> SecretRow:
        """See the port."""
        place = SecretPlace(secret.namespace, secret.name)
        fields = (*place, secret.by, key_id_of(secret.sealed.key), *secret.sealed)
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if secret.version == 1:
                await check_open(connection, secret.namespace)
                await connection.execute(statement("secrets_lock"), secret.namespace)
            else:
                await check_open(connection, secret.namespace, or_closing=False)
            stored = await connection.fetchrow(statement("secret_lock"), *place)
            newest = 0 if stored is None else stored["version"]
            is_repeated = newest == secret.version and stored["sealed_key"] == secret.sealed.key
            if not is_repeated:
                if newest != secret.version - 1:
                    raise secret_changed(place)
                if stored is None:
                    check_secret_room(await connection.fetchval(statement("secrets_count"), secret.namespace))
                    await connection.execute(statement("secret_add"), *fields)
                else:
                    await connection.execute(statement("secret_replace"), *fields, secret.version, VERSIONS_KEPT)
                await write_audit(connection, audit)
            query = SecretQuery(namespace=place.namespace, name=place.name)
            return _row(await connection.fetchrow(statement("secrets_find"), *_asked(query)))

    async def find(self, query: SecretQuery) -> Sequence[SecretRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return [_row(row) for row in await connection.fetch(statement("secrets_find"), *_asked(query))]

    async def versions(self, place: SecretPlace) -> Sequence[SecretVersion]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("secret_versions"), *place, VERSIONS_KEPT)
        return [SecretVersion(row["version"], row["set_at"], row["set_by"]) for row in rows]

    async def remove(self, place: SecretPlace, version: int | None, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            stored = await connection.fetchrow(statement("secret_lock"), *place)
            if stored is None:
                return False
            if version is not None and stored["version"] != version:
                raise secret_changed(place)
            await connection.execute(statement("secret_remove"), *place)
            await write_audit(connection, audit)
        return True

    async def uses(self, place: SecretPlace, limit: int) -> SecretUses:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("secret_uses"), *place, limit + 1, USES_LOOKED_AT)
            tasks = await connection.fetch(statement("tasks_naming_secrets"), place.namespace, limit + 1)
        found = [
            SecretUse(row["job_id"], row["name"], row["key"], json.loads(row["labels"] or "{}"))
            for row in rows
            if row["job_id"] is not None
        ]
        more = rows[0]["more"] or max(len(found), len(tasks)) > limit
        return SecretUses(found[:limit], [StoredTask(**dict(row)) for row in tasks[:limit]], more)

    async def sealed(self, places: Sequence[SecretPlace]) -> Sequence[SealedSecret]:
        """See the port."""
        asked = sorted(set(places))
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(
                statement("secrets_sealed"), [each.namespace for each in asked], [each.name for each in asked]
            )
        return [
            SealedSecret(
                SecretPlace(row["namespace"], row["name"]),
                row["version"],
                SealedParts(row["sealed_key"], row["sealed_value"]),
            )
            for row in rows
        ]

    async def keys_used(self) -> Mapping[bytes, int]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("secrets_keys_used"))
        return {row["key_id"]: row["secrets"] for row in rows}

    async def sealed_keys(self, query: SecretQuery) -> Sequence[SealedKey]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("secrets_sealed_keys"), *_asked(query)[:-1])
        return [SealedKey(SecretPlace(row["namespace"], row["name"]), row["sealed_key"]) for row in rows]

    async def rewrap(self, keys: Sequence[Rewrapped], *, audit: AuditEntry | None = None) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            rows = await connection.fetch(
                statement("secrets_rewrap"),
                [each.place.namespace for each in keys],
                [each.place.name for each in keys],
                [each.old for each in keys],
                [each.new for each in keys],
                [key_id_of(each.new) for each in keys],
            )
            if rows:
                await write_audit(connection, audit)
        return len(rows)

    async def trace_of(self, secret: NewSecret) -> str:
        """See the port."""
        place = SecretPlace(secret.namespace, secret.name)
        async with self._links.pooled(writes=True) as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                key_id = key_id_of(secret.sealed.key)
                await connection.execute(statement("secret_add"), *place, secret.by, key_id, *secret.sealed)
                found: str = await connection.fetchval(statement("secret_trace"), *place)
            finally:
                await transaction.rollback()
        return found


def _asked(query: SecretQuery) -> tuple[Any, ...]:
    """The parameters of `secrets_find`."""
    after = query.after or (None, None)
    return (query.namespace, query.name, *after, list(query.not_under), query.limit, query.jobs_most)


def _row(row: Any) -> SecretRow:
    return SecretRow(
        namespace=row["namespace"],
        name=row["name"],
        version=row["version"],
        key_id=row["key_id"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        changed_at=row["changed_at"],
        changed_by=row["changed_by"],
        jobs=row["jobs"],
    )
