"""Signals, board and limits inside one process."""

from tickwise.adapters.signals.local.board import LocalBoard
from tickwise.adapters.signals.local.limits import LocalLimits
from tickwise.adapters.signals.local.signals import LocalSignals

__all__ = ["LocalBoard", "LocalLimits", "LocalSignals"]
