"""Kept answers of requests: the answer under an idempotency key, and operations that are recorded when they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store import EndedOperation, Receipt, Replay

_ENDED_COLUMNS: Final = (
    "operation_id",
    "namespace",
    "kind",
    "request",
    "created_by",
    "created_at",
    "status",
    "problems",
)
"""As `operations_record` has its parameters."""


async def record_ended(connection: asyncpg.Connection, operations: Sequence[EndedOperation]) -> None:
    """Put on record what is over already, within the caller's transaction."""
    columns = [[getattr(operation, name) for operation in operations] for name in _ENDED_COLUMNS]
    new = {row[0] for row in await connection.fetch(statement("operations_record"), *columns)}
    await write_audit(connection, *(each.audit for each in operations if each.operation_id in new))


async def take_receipt(connection: asyncpg.Connection, receipt: Receipt) -> Replay | None:
    """Keep the answer; or the one that was kept before."""
    kept = await connection.fetchval(
        statement("receipt_take"),
        receipt.principal,
        receipt.route,
        receipt.key,
        receipt.body_digest,
        receipt.status,
        receipt.body,
        receipt.keep_seconds,
    )
    if kept:
        return None
    return await find_receipt(connection, receipt.principal, receipt.route, receipt.key)


async def find_receipt(connection: asyncpg.Connection, principal: str, route: str, key: str) -> Replay | None:
    """The answer that was kept."""
    row = await connection.fetchrow(statement("receipt_find"), principal, route, key)
    return None if row is None else Replay(body_digest=row["body_digest"], status=row["status"], body=row["body"])
