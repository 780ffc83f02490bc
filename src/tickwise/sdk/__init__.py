"""For users' programs: stands alone, imports nothing else of Tickwise."""

from __future__ import annotations

from tickwise.sdk.task import Context, PermanentError, RetryLater, task

__all__ = ["Context", "PermanentError", "RetryLater", "task"]
