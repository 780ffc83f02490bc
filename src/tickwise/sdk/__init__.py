"""The client of the command line. The names of functions as tasks are in `tickwise_sdk`; here they are deprecated."""

from __future__ import annotations

import warnings
from typing import Any

_MOVED = ("Context", "PermanentError", "RetryLater", "task")


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"tickwise.sdk.{name} has moved: from tickwise_sdk import {name}", DeprecationWarning, stacklevel=2)
    import tickwise_sdk

    return getattr(tickwise_sdk, name)
