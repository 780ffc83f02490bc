"""Functions as tasks: `@task` gives one a name, under which jobs call it.

    from tickwise.sdk import Context, task

    @task("reports.nightly")
    def nightly(context: Context, payload: dict) -> dict:
        return {"rows": export(payload["day"])}

One rule for parameters: none, `(payload)`, or `(context, payload)`. The payload is the job's JSON, decoded; what is
returned is kept as the run's result if JSON can say it. Async functions run beside each other in one worker, others
one after another. The output of a function becomes the run's log.

Executors know a registered function by its attribute `__tickwise_task__`, so they need not import this module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, overload
from uuid import UUID

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Context(NamedTuple):
    """The facts of a run for its function. A NamedTuple, because one is made for every run."""

    job_id: UUID
    run_id: UUID
    attempt: int
    """1 at first; counts up with every retry."""
    nominal_time: datetime
    """The time of the occurrence by the schedule: the period to report on. UTC."""
    due_time: datetime
    """The time at which it was to start. UTC."""
    fencing_token: int
    """Greater for every later attempt: lets another system refuse an attempt that was given up."""
    namespace: str
    traceparent: str | None = None
    """The trace that the function goes on in, in the form of W3C Trace Context; None: there is none."""
    tracestate: str | None = None
    """The notes of systems on the way of the trace; None: there are none."""

    @property
    def idempotency_key(self) -> str:
        """One key for all attempts of a run: hand it to systems that must do a thing once."""
        return str(self.run_id)


class PermanentError(Exception):
    """Raise it when no retry can help: the run fails at once, also with retries left."""

    __tickwise_permanent__ = True


class RetryLater(Exception):
    """Raise it to be tried again no earlier than in `retry_after_seconds`."""

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Registration(NamedTuple):
    """The description of a registered function; the value of its attribute `__tickwise_task__`."""

    name: str
    function: Callable[..., Any]
    parameters: int
    is_async: bool
    context: type[Context] = Context


registry: dict[str, Registration] = {}
"""Every function registered in this process, by name."""


@overload
def task(name: _Function, /) -> _Function: ...


@overload
def task(name: str | None = None, /) -> Callable[[_Function], _Function]: ...


def task(name: str | _Function | None = None, /) -> Any:
    """Register a function under `name`, or under its dotted path if none is given. It stays callable as it was.

    Raises `ValueError` if it takes more than two parameters, or if another function has the name.
    """
    if callable(name):
        return _register(name, None)

    def decorate(function: _Function) -> _Function:
        return _register(function, name)

    return decorate


def _register(function: _Function, name: str | None) -> _Function:
    path = f"{function.__module__}.{function.__qualname__}"
    registration = Registration(name or path, function, _parameters(function), inspect.iscoroutinefunction(function))
    known = registry.get(registration.name)
    if known is not None and f"{known.function.__module__}.{known.function.__qualname__}" != path:
        raise ValueError(
            f"two functions are registered as {registration.name!r}: {known.function.__module__}."
            f"{known.function.__qualname__} and {path}; give one of them another name"
        )
    registry[registration.name] = registration
    function.__tickwise_task__ = registration  # type: ignore[attr-defined]  # functions take any attribute
    return function


def _parameters(function: Callable[..., Any]) -> int:
    """The number of (context, payload) that it takes: the parameters that a caller must or may give by position."""
    positional = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    required_by_name = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind == parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
    if len(positional) > 2 or required_by_name:
        raise ValueError(
            f"{function.__qualname__} must take nothing, (payload) or (context, payload), "
            f"not {inspect.signature(function)}"
        )
    return len(positional)
