"""The check that a namespace takes new things, made within the transaction that adds one.

A transaction that found a namespace open holds it open until it ends, and a transaction that closes a namespace waits
for it. So nothing is added after the answer that the namespace is closing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.identity.namespaces import namespace_closing

ALWAYS_OPEN: Final = frozenset({DEFAULT_NAMESPACE, INSTALLATION})


async def closed_among(
    connection: asyncpg.Connection, names: Collection[str], *, or_closing: bool = True
) -> frozenset[str]:
    """The namespaces that take nothing new, of these. Without `or_closing`: only those that are being removed, or
    gone."""
    asked = sorted(set(names) - ALWAYS_OPEN)
    return (
        frozenset(await connection.fetchval(statement("namespaces_closed"), asked, or_closing))
        if asked
        else frozenset()
    )


async def check_open(connection: asyncpg.Connection, *names: str, or_closing: bool = True) -> None:
    """Raise `Conflict`, code `namespace_closing`, if one of these namespaces takes nothing new."""
    for name in sorted(await closed_among(connection, names, or_closing=or_closing)):
        raise namespace_closing(name)
