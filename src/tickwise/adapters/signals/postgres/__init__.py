"""Signals, shared state and limits through the database."""

from tickwise.adapters.signals.postgres.limits import postgres_limits
from tickwise.adapters.signals.postgres.link import PostgresLink
from tickwise.adapters.signals.postgres.shared_state import PostgresSharedState
from tickwise.adapters.signals.postgres.signals import PostgresSignals

__all__ = ["PostgresLink", "PostgresSharedState", "PostgresSignals", "postgres_limits"]
