"""Handovers go to the listener of the call that made them: a server tells the client whose call it was."""

from __future__ import annotations

from contextvars import ContextVar

from tickwise.ports.store import Handover

HEARD: ContextVar[list[Handover] | None] = ContextVar("heard", default=None)
"""The list for the handovers of calls in this context; None: the store's listener hears of them."""
