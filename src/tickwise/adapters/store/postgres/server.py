"""Findings that an operator should put right at the server: none keeps the store from working today.

    settings   a crash would lose something, or nobody may clean up
    tables     autovacuum is off for one of ours, or far behind: dead rows pile up, plans are made from old statistics
    pins       somebody keeps dead rows from being removed: an old snapshot, a forgotten transaction, an unread slot

Invariant: a sentence names what was found (the process, how old) and ends with what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import asyncpg

from tickwise.adapters.store.postgres.connection.link import UPKEEP, UPKEEP_SECONDS, session_name
from tickwise.adapters.store.postgres.statements import statement

BEHIND_TIMES: Final = 5.0
"""A table is worth a word when so many times as much as calls for autovacuum waits for it."""
PINNED_SECONDS: Final = 60.0
"""A transaction that is open for longer is worth a word: what died since can be read over, and not removed."""
PINNED_TRANSACTIONS: Final = 100_000
"""The number of transactions that counts as pinned where the server does not say since when."""
MAX_TABLES_NAMED: Final = 5

Row = Mapping[str, Any]


async def settings_findings(connection: asyncpg.Connection) -> list[str]:
    """Faults of the role and the settings, and the index that an extension is missing for."""
    row = await connection.fetchrow(statement("server_findings"))
    return [*of_settings(row), *of_searches(row)]


async def upkeep_findings(connection: asyncpg.Connection) -> list[str]:
    """The obstacles to cleaning and analysing the tables."""
    tables = await connection.fetch(statement("server_tables"), BEHIND_TIMES)
    # Our own upkeep may take its time, and ends by itself; it is worth a word once it should have.
    pins = await connection.fetch(
        statement("server_pins"), PINNED_SECONDS, PINNED_TRANSACTIONS, session_name(UPKEEP), UPKEEP_SECONDS
    )
    return [*of_tables(tables), *(of_pin(row) for row in pins)]


def of_settings(row: Row) -> Iterator[str]:
    """The findings about settings: the role, the losses of a crash, timeouts, and autovacuum."""
    if row["superuser"]:
        yield f"the database role {row['role']} is a superuser: give Tickwise a role that only owns its database"
    if row["fsync"] == "off":
        yield "the server runs with fsync=off: a power cut loses or corrupts everything; set it to on"
    if row["synchronous_commit"] == "off":
        yield "the server runs with synchronous_commit=off: a crash loses the last answers given; set it to on"
    if row["statement_timeout"] != "0":
        yield (
            f"statement_timeout is {row['statement_timeout']} for the role {row['role']}, so the upkeep of much "
            "history never ends; set it to 0 for that role"
        )
    if row["track_counts"] == "off":
        yield (
            "the server runs with track_counts=off: it counts no dead rows, so autovacuum never comes and no "
            "statistics are collected; set it to on"
        )
    elif row["autovacuum"] == "off":
        yield (
            "the server runs with autovacuum=off: dead rows pile up until claims read nothing else; "
            "set it to on and reload"
        )


def of_searches(row: Row) -> Iterator[str]:
    """The finding about the index of names."""
    if not row["names_indexed"]:
        yield (
            "the names of jobs have no index, so a search for a part of a name looks at the newest jobs in turn; "
            "let an administrator of the database call CREATE EXTENSION pg_trgm in it, then `tickwise db upgrade`"
        )


def of_tables(rows: Sequence[Row]) -> Iterator[str]:
    """The findings about our tables: no autovacuum, dead rows, no statistics."""
    if off := [row["name"] for row in rows if not row["enabled"]]:
        yield (
            f"autovacuum is switched off for {_names(off)}: dead rows pile up there and statistics grow old; "
            f"reset the option autovacuum_enabled of tickwise.{off[0]}"
        )
    if unclean := [f"{row['name']} ({row['dead']:,} dead rows)" for row in rows if row["unclean"]]:
        yield (
            f"vacuum is far behind on {_names(unclean)}: look for the cause (autovacuum off, its workers busy "
            "elsewhere, an old transaction), then VACUUM by hand once"
        )
    if unread := [f"{row['name']} ({row['changed']:,} changes)" for row in rows if row["unread"]]:
        yield f"no statistics are collected of {_names(unread)}, so plans may go wrong: ANALYZE, and see to autovacuum"


def of_pin(row: Row) -> str:
    """The sessions that keep dead rows, for how long, and how to end that."""
    since = "" if row["seconds"] is None else f" for {row['seconds']:.0f} s"
    reach = "" if row["transactions"] is None else f", {row['transactions']:,} transactions back"
    keeps = "vacuum can remove no row that died since"
    if row["kind"] == "session":
        doing = f" ({row['doing']})" if row["doing"] else ""
        return (
            f"process {row['name']} of {row['who']}{doing} has had a transaction open{since}{reach}: {keeps}; "
            f"end it there, or call pg_terminate_backend({row['name']})"
        )
    if row["kind"] == "prepared":
        return (
            f"the transaction {row['name']!r} of {row['who']} has been prepared{since}{reach}, and was not ended: "
            f"{keeps}; commit it, or roll it back"
        )
    return (
        f"no program reads the replication slot {row['name']} ({row['who']}){since}{reach}: it keeps "
        f"{row['bytes'] / 1e6:,.0f} MB of log on the disk, and dead rows if it has a snapshot; connect its reader, or "
        f"call pg_drop_replication_slot('{row['name']}')"
    )


def _names(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(names[:MAX_TABLES_NAMED])
    return shown if len(names) <= MAX_TABLES_NAMED else f"{shown} and {len(names) - MAX_TABLES_NAMED} more"
