"""Signals, shared state and limits inside one process."""

from tickwise.adapters.signals.local.limits import LocalLimits
from tickwise.adapters.signals.local.shared_state import LocalSharedState
from tickwise.adapters.signals.local.signals import LocalSignals

__all__ = ["LocalLimits", "LocalSharedState", "LocalSignals"]
