"""The rights of roles of the database that do not own the schema.

executor   the tables for running tasks, and no keys
service    API, scheduler, recorder: all they do; of the audit log, entries are added and never changed
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.schema import current
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Misconfigured


async def grant_executor(dsn: str, role: str) -> None:
    """Give the role what an executor needs. Raises `Misconfigured` if there is no such role, the schema is too old, or
    the role of `dsn` does not own it."""
    await _grant(dsn, role, "grant_executor")


async def grant_service(dsn: str, role: str) -> None:
    """Give the role what API, scheduler and recorder need. Raises as `grant_executor`."""
    await _grant(dsn, role, "grant_service")


async def grant_all(connection: asyncpg.Connection, *, executor_role: str | None, service_roles: Sequence[str]) -> None:
    """Give each role what its kind needs, in the caller's transaction. Raises as `grant`."""
    for role in service_roles:
        await grant(connection, role, "grant_service")
    if executor_role is not None:
        await grant(connection, executor_role)


async def _grant(dsn: str, role: str, rights: str) -> None:
    with translated(writes=True):
        connection = await asyncpg.connect(dsn)
        try:
            found = await current(connection)
            if found is None or not found.fits:
                raise Misconfigured("the schema of this database is older than this program; run `tickwise db upgrade`")
            await grant(connection, role, rights)
        finally:
            await connection.close()


async def grant(connection: asyncpg.Connection, role: str, rights: str = "grant_executor") -> None:
    """Give the role these rights, an executor's unless others are named, in the caller's transaction.

    Raises `Misconfigured` if there is no such
    role, or the caller does not own the schema."""
    try:
        await connection.execute(statement(rights), role)
    except asyncpg.UndefinedObjectError:
        raise Misconfigured(
            f"the database has no role {role}; make it first, as its administrator: createuser --pwprompt {role}"
        ) from None
    except asyncpg.InsufficientPrivilegeError as error:
        raise Misconfigured(
            f"rights can be given by the owner of the schema alone ({error}); connect as the role that made it"
        ) from None
