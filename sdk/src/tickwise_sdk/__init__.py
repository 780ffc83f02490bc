"""The Python SDK of Tickwise: a client of its API, functions as tasks, schedules beside them.

    from tickwise_sdk import Client, Context, task

Everything is loaded when it is used: a worker that runs tasks never loads the HTTP library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tickwise_sdk.version import __version__

if TYPE_CHECKING:
    from tickwise_sdk.async_client import AsyncClient
    from tickwise_sdk.client import Client
    from tickwise_sdk.context import Context, current_context
    from tickwise_sdk.errors import (
        ClearTextWarning,
        ClientError,
        PayloadError,
        Pending,
        PermanentError,
        ProblemError,
        RegistrationError,
        RetryLater,
        StreamEnded,
        TaskFailed,
        Unreachable,
        Untrusted,
    )
    from tickwise_sdk.exchange import ServerTrust
    from tickwise_sdk.middleware import Call, Middleware, use_middleware
    from tickwise_sdk.schedules import SyncReport, sync
    from tickwise_sdk.submitting import (
        AsyncSubmitted,
        BoundCall,
        Submitted,
        submit_many,
        use_async_client,
        use_client,
    )
    from tickwise_sdk.tasks import Task, task

_PLACES = {
    "async_client": ("AsyncClient",),
    "client": ("Client",),
    "context": ("Context", "current_context"),
    "errors": (
        "ClearTextWarning",
        "ClientError",
        "PayloadError",
        "Pending",
        "PermanentError",
        "ProblemError",
        "RegistrationError",
        "RetryLater",
        "StreamEnded",
        "TaskFailed",
        "Unreachable",
        "Untrusted",
    ),
    "exchange": ("ServerTrust",),
    "middleware": ("Call", "Middleware", "use_middleware"),
    "schedules": ("SyncReport", "sync"),
    "submitting": ("AsyncSubmitted", "BoundCall", "Submitted", "submit_many", "use_async_client", "use_client"),
    "tasks": ("Task", "task"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "AsyncClient",
    "AsyncSubmitted",
    "BoundCall",
    "Call",
    "ClearTextWarning",
    "Client",
    "ClientError",
    "Context",
    "Middleware",
    "PayloadError",
    "Pending",
    "PermanentError",
    "ProblemError",
    "RegistrationError",
    "RetryLater",
    "ServerTrust",
    "StreamEnded",
    "Submitted",
    "SyncReport",
    "Task",
    "TaskFailed",
    "Unreachable",
    "Untrusted",
    "__version__",
    "current_context",
    "submit_many",
    "sync",
    "task",
    "use_async_client",
    "use_client",
    "use_middleware",
]


if not TYPE_CHECKING:  # with it a type checker takes each misspelled name for one that is there

    def __getattr__(name: str) -> Any:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
