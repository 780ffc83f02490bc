"""Signals, events, board and limits inside one process."""

from tickwise.adapters.signals.local.signals import LocalSignals

__all__ = ["LocalSignals"]
