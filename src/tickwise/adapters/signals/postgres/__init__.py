"""Signals, board and limits through the database."""

from tickwise.adapters.signals.postgres.board import PostgresBoard
from tickwise.adapters.signals.postgres.limits import postgres_limits
from tickwise.adapters.signals.postgres.link import PostgresLink
from tickwise.adapters.signals.postgres.signals import PostgresSignals

__all__ = ["PostgresBoard", "PostgresLink", "PostgresSignals", "postgres_limits"]
