"""Whose listener hears what a call hands over: a server tells the client whose call it was."""

from __future__ import annotations

from contextvars import ContextVar

from tickwise.ports.store import Handover

HEARD: ContextVar[list[Handover] | None] = ContextVar("heard", default=None)
"""What the calls of this context hand over is put here, in place of the store's listener."""
