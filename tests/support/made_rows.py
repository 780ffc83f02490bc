"""A row of a namespace in each table that moves, made from the columns of the schema: also of those added later."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.shards.tables import MOVED, MovedTable, Ownership

AT = datetime(2027, 3, 4, 5, 6, 7, 123_456, tzinfo=UTC)
CHOSEN: dict[tuple[str, str], Any] = {
    ("namespaces", "state"): "active",
    ("jobs", "lasting"): True,
    ("jobs", "schedule_type"): "RECURRING",
    ("history", "state"): 5,
    ("history", "before"): 3,
    ("attempts", "state"): 4,
    ("letters", "status"): "discarded",
    ("cancel_requests", "kind"): "cancel",
    ("operations", "status"): "done",
    ("rules", "kind"): "calendar",
    ("alerts", "state"): "open",
    ("notices", "state"): "dead",
}
"""Values that a constraint asks for."""
DEFAULTED = {("jobs", "key"), ("jobs", "labels"), ("history", "error"), ("timers", "run_id"), ("history", "result")}
"""Columns that are given a value although they need none."""


def identity(namespace: str, what: str) -> UUID:
    """The id of a thing of this namespace: rows of several tables name it."""
    return UUID(bytes=hashlib.sha256(f"{namespace}/{what}".encode()).digest()[:16], version=4)


async def make_rows(connection: asyncpg.Connection, namespace: str) -> None:
    """One row in each table. Rows that triggers make of them are removed first, so that each is there once."""
    lane = await connection.fetchval(
        "INSERT INTO tickwise.lanes (namespace, queue, priority, requires) VALUES ($1, $2, 5, '{}') RETURNING lane",
        namespace, f"queue of {namespace}",
    )  # fmt: skip
    for table in MOVED:
        if table.name in ("failures_new", "tallies_new", "notices_events", "objective_starts"):
            await connection.execute(
                f"DELETE FROM tickwise.{table.name} c WHERE {await _scope(connection, table, namespace)}"
            )
        columns = await connection.fetch(
            "SELECT a.attname AS name, format_type(a.atttypid, NULL) AS kind, "
            "a.attnotnull AND NOT a.atthasdef AS needed "
            "FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped",
            f"tickwise.{table.name}",
        )
        row = {
            column["name"]: _value(namespace, table, column["name"], column["kind"], lane)
            for column in columns
            if column["needed"] or (table.name, column["name"]) in DEFAULTED or column["name"] == "entry"
        }
        places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        await connection.execute(
            f"INSERT INTO tickwise.{table.name} ({', '.join(row)}) VALUES ({places})", *row.values()
        )


async def _scope(connection: asyncpg.Connection, table: MovedTable, namespace: str) -> str:
    scope: str = await connection.fetchval("SELECT tickwise.shard_scope($1, $2)", table.ownership, namespace)
    return scope


def _value(namespace: str, table: MovedTable, column: str, kind: str, lane: int) -> Any:
    if (table.name, column) in CHOSEN:
        return CHOSEN[table.name, column]
    if column == "run_id":
        return identity(namespace, "active run" if table.name == "runs" else "run")
    if column == "lane":
        return lane
    if table.ownership is Ownership.PRINCIPAL and column == "principal":
        return f"{namespace}/key"
    if column == "namespace" or (table.ownership is Ownership.NAME and column == "name"):
        return namespace
    if column in ("entries", "targets"):
        return [7] if column == "entries" else None
    values: dict[str, Any] = {
        "uuid": identity(namespace, column),
        "timestamp with time zone": AT,
        "text": f"{column} of {namespace}",
        "bytea": f"{column} of {namespace}".encode(),
        "boolean": False,
        "jsonb": '{"of": "' + namespace + '"}',
        "double precision": 0.25,
        "date": date(2027, 3, 4),
    }
    return values.get(kind, [] if kind.endswith("[]") else 7)
