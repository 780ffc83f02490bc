"""Signals, events, board and limits through the database."""

from tickwise.adapters.signals.postgres.signals import PostgresSignals

__all__ = ["PostgresSignals"]
