"""The store on PostgreSQL, 15 or later: all in one schema, `tickwise`, and one statement for hundreds of runs."""

from tickwise.adapters.store.postgres.connection.dialer import SharedSessions, check_sessions
from tickwise.adapters.store.postgres.roles import grant, grant_all, grant_executor, grant_service
from tickwise.adapters.store.postgres.schema import schema_status, upgrade
from tickwise.adapters.store.postgres.store import PostgresStore

__all__ = [
    "PostgresStore", "SharedSessions", "check_sessions", "grant", "grant_all", "grant_executor", "grant_service",
    "schema_status", "upgrade",
]  # fmt: skip
