"""API keys: a small table, found by the digests of its secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry, key_used_first
from tickwise.domain.callers import INSTALLATION, Caller
from tickwise.domain.model import Principal
from tickwise.domain.selectors import Labels, labels_from
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

LABELS: Final[Mapping[KeyOrigin, str]] = {
    KeyOrigin.MADE: "",
    KeyOrigin.SETTING: "TICKWISE_BOOTSTRAP_KEY",
    KeyOrigin.FIRST: "made at the first start",
    KeyOrigin.LOCAL: "the command line of this machine",
}
"""From which the database computes `origin`. Programs of the release before write the same."""


class ApiKeys(Part):
    """The port `Keys`."""

    async def add(self, key: NewKey, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            added = await key_insert(connection, key)
            if added:
                await write_audit(connection, *audit)
            return added

    async def first(self, key: NewKey) -> bool:
        """See the port."""
        if await self.count():
            return False
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("keys_lock"))
            is_first = not await connection.fetchval(statement("keys_count")) and await _add(connection, key)
            if is_first:
                await write_audit(connection, key_kept(key))
            return is_first

    async def of_setting(self, key: NewKey) -> Sequence[UUID] | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("keys_lock"))
            if await connection.fetchval(statement("key_was"), key.digest):
                return None
            added = await _add(connection, key)
            replaced = await connection.fetch(statement("keys_replace"), key.digest)
            await write_audit(connection, key_kept(key) if added else None, *(key_replaced(*row) for row in replaced))
            return [row["key_id"] for row in replaced]

    async def find(self, digest: bytes) -> FoundKey | None:
        """See the port."""
        return await self._find("key_find", digest)

    async def of_id(self, key_id: UUID, secret: int | None = None) -> FoundKey | None:
        """See the port."""
        return await self._find("key_of_id", key_id, secret)

    async def _find(self, name: str, *named: Any) -> FoundKey | None:
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement(name), *named)
        if row is None:
            return None
        principal = Principal(
            row["name"],
            row["namespace"],
            frozenset(row["scopes"]),
            key_id=row["key_id"],
            expires_at=row["expires_at"],
            owner_id=row["owner_id"],
        )
        caller = Caller.of_key(principal, _namespaces(row), _labels(row), secret=row["secret"])
        return FoundKey(caller, row["seconds_left"])

    async def rotate(self, rotation: KeyRotation, *, audit: AuditEntry | None = None) -> KeyRow | None:
        """See the port."""
        place = rotation.namespace, rotation.key_id
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            locked = await connection.fetchrow(statement("key_to_rotate"), *place)
            row = None if locked is None else await key_row(connection, *place)
            if row is None or locked["digest"] == rotation.digest:
                return row
            rotation.check(row, locked["now"])
            await connection.execute(statement("key_secrets_end"), rotation.key_id)
            await connection.execute(statement("key_secret_keep"), rotation.key_id, rotation.overlap_seconds)
            await connection.execute(statement("key_rotate"), rotation.key_id, rotation.digest, rotation.prefix)
            await write_audit(connection, audit)
            return await key_row(connection, *place)

    async def page(self, namespace: str | None, *, before: UUID | None, limit: int) -> Sequence[KeyRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("keys_list"), namespace, before, limit)
        return [_key(row) for row in rows]

    async def revoke(
        self, namespace: str | None, key_id: UUID, *, only_there: bool = False, audit: Sequence[AuditEntry] = ()
    ) -> KeyRow | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if only_there:
                if await connection.fetchval(statement("key_leave"), namespace, key_id):
                    await write_audit(connection, *audit)
                return await key_row(connection, None, key_id)
            stands = await connection.fetchval(statement("key_stands"), namespace, key_id)
            await connection.execute(statement("key_revoke"), namespace, [key_id])
            if stands:
                await write_audit(connection, *audit)
            return await key_row(connection, namespace, key_id)

    async def used(self, ages: Mapping[UUID, float]) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            unused = await connection.fetch(statement("keys_unused"), [*ages.keys()])
            await connection.execute(statement("keys_used"), [*ages.keys()], [*ages.values()])
            await write_audit(connection, *(key_used_first(*row) for row in unused))

    async def count(self) -> int:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            count: int = await connection.fetchval(statement("keys_count"))
        return count


async def key_insert(connection: asyncpg.Connection, key: NewKey) -> bool:
    """Keep a key within a transaction: see `Keys.add`."""
    if key.origin is KeyOrigin.MADE:
        await check_open(connection, key.principal.namespace, *(key.namespaces or ()))
        count = await connection.fetchval(statement("keys_room"), key.principal.namespace, MAX_KEYS)
        check_keys_room(count)
    return await _add(connection, key)


async def _add(connection: asyncpg.Connection, key: NewKey) -> bool:
    principal = key.principal
    added = await connection.fetchval(
        statement("key_add"),
        key.key_id,
        key.digest,
        principal.name,
        principal.namespace,
        [] if key.labels else sorted(principal.scopes),
        LABELS[key.origin],
        key.prefix,
        key.created_by,
        principal.expires_at,
        None if key.namespaces is None else sorted(key.namespaces),
        principal.owner_id,
        json.dumps(dict(key.labels)) if key.labels else None,
        sorted(principal.scopes) if key.labels else None,
    )
    return added is not None


async def key_row(connection: asyncpg.Connection, namespace: str | None, key_id: UUID) -> KeyRow | None:
    """A key as it is listed, of a namespace or of any (None)."""
    row = await connection.fetchrow(statement("key_get"), namespace, key_id)
    return None if row is None else _key(row)


def _namespaces(row: Mapping[str, Any]) -> frozenset[str]:
    """The namespaces of a key. Programs of the release before write none: their keys of the installation are good in
    each one, the others in their own."""
    if row["namespaces"] is not None:
        return frozenset(row["namespaces"])
    return frozenset({row["namespace"] if row["origin"] == KeyOrigin.MADE else INSTALLATION})


def _labels(row: Mapping[str, Any]) -> Labels:
    return () if row["labels"] is None else labels_from(json.loads(row["labels"]))


def _key(row: Mapping[str, Any]) -> KeyRow:
    fields = dict(row)
    return KeyRow(
        **{
            **fields,
            "namespaces": _namespaces(row),
            "scopes": frozenset(fields["scopes"]),
            "labels": _labels(row),
            "origin": KeyOrigin(fields["origin"]),
        }
    )
