"""Functions as tasks: `@task` gives one a name, under which jobs call it.

    from tickwise_sdk import Context, task

    @task("reports.nightly")
    def nightly(context: Context, day: date, region: str = "eu") -> int:
        return export(day, region)

    nightly.submit(date(2026, 1, 31), at=tonight, key="nightly-2026-01-31")
    nightly.schedule(cron="0 2 * * *", arguments=nightly.bind(...))

The function stays callable as it was. `submit`, `bind` and `schedule` take its arguments without the context, converted
and checked (`payloads.py`). Async functions run beside each other in one worker, others one after another. The output
of a function becomes the run's log, the value that it returns the run's result.

Executors know a task by its attribute `__tickwise_task__`, so they need not import this module.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast, overload

from tickwise_sdk.context import Context, current
from tickwise_sdk.conversion import FREE, Conversion, Mismatch, conversion_of, hints_of
from tickwise_sdk.errors import PermanentError, RegistrationError
from tickwise_sdk.middleware import Call, Middleware, entered, in_use
from tickwise_sdk.payloads import OPTIONS, Payload, payload_of
from tickwise_sdk.schedules import DeclaredSchedule, declare
from tickwise_sdk.submitting import AsyncSubmitted, AsyncSubmitter, Bound, BoundCall, Submitted, Submitter

if TYPE_CHECKING:
    from tickwise_sdk import types

_C = ParamSpec("_C")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_V = TypeVar("_V")


class Registration(NamedTuple):
    """The description of a task for an executor; the value of its attribute `__tickwise_task__`."""

    name: str
    function: Callable[..., Any]
    parameters: int
    """0: it takes nothing; 1: the payload; 2: the context and the payload."""
    is_async: bool
    context: type[Context] = Context


registry: dict[str, Task[..., ..., Any, Any]] = {}
"""Every task declared in this process, by name."""


class Task(Generic[_C, _P, _R, _V]):
    """A function with a name. `_C` are its parameters, `_P` those without the context, `_R` what a call of it gives,
    and `_V` what a run of it results in."""

    __name__: str
    __qualname__: str

    def __init__(
        self,
        function: Callable[_C, _R],
        name: str,
        *,
        job: types.JobChangeBody | None,
        middleware: Sequence[Middleware],
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.job: types.JobChangeBody = job or {}
        """Fields of each job that is made of it: queue, retry, priority."""
        self.middleware = tuple(middleware)
        self._payload: Payload = payload_of(function)
        self._result = _result_of(function)

    def __call__(self, *args: _C.args, **kwargs: _C.kwargs) -> _R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    # ---------------------------------------------------------------------------------- submitting

    def bind(self, *args: _P.args, **kwargs: _P.kwargs) -> BoundCall[_V]:
        """The task with its arguments, without the context. Raises `TypeError` for arguments that it does not take, and
        `PayloadError` for a value of another type."""
        return self._bound(args, kwargs)

    @overload
    def submit(self, *args: _P.args, **kwargs: _P.kwargs) -> Submitted[_V]: ...

    @overload
    def submit(
        self, *args: Any, at: datetime | str, key: str | None = ..., client: Submitter | None = ..., **kwargs: Any
    ) -> Submitted[_V]: ...

    @overload
    def submit(self, *args: Any, key: str, client: Submitter | None = ..., **kwargs: Any) -> Submitted[_V]: ...

    @overload
    def submit(self, *args: Any, client: Submitter, **kwargs: Any) -> Submitted[_V]: ...

    def submit(self, *args: Any, **kwargs: Any) -> Submitted[_V]:
        """Make a job that calls the task with these arguments now, or at a time. With a `key`, submitting it again
        gives the job that is there.

        Type checkers compare the arguments with those of the function where no option is named; else
        `bind(…).submit(at=…)` says the same and is compared. Raises as `bind`, and `ClientError`."""
        options = _taken(kwargs)
        return self._bound(args, kwargs).submit(**options)

    @overload
    async def submit_async(self, *args: _P.args, **kwargs: _P.kwargs) -> AsyncSubmitted[_V]: ...

    @overload
    async def submit_async(
        self, *args: Any, at: datetime | str, key: str | None = ..., client: AsyncSubmitter | None = ..., **kwargs: Any
    ) -> AsyncSubmitted[_V]: ...

    @overload
    async def submit_async(
        self, *args: Any, key: str, client: AsyncSubmitter | None = ..., **kwargs: Any
    ) -> AsyncSubmitted[_V]: ...

    @overload
    async def submit_async(self, *args: Any, client: AsyncSubmitter, **kwargs: Any) -> AsyncSubmitted[_V]: ...

    async def submit_async(self, *args: Any, **kwargs: Any) -> AsyncSubmitted[_V]:
        """As `submit`, with an `AsyncClient`."""
        options = _taken(kwargs)
        return await self._bound(args, kwargs).submit_async(**options)

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> BoundCall[_V]:
        fields = cast("dict[str, Any]", self.job)
        return BoundCall(Bound(self.name, self._payload.write(args, kwargs), fields), self._result)

    # ---------------------------------------------------------------------------------- schedules

    def schedule(
        self,
        name: str | None = None,
        *,
        cron: str | None = None,
        every: str | None = None,
        timezone: str | None = None,
        arguments: BoundCall[_V] | None = None,
        fields: types.JobChangeBody | None = None,
    ) -> DeclaredSchedule:
        """Declare a schedule of the task: `cron` in `timezone` (UTC if none is given), or `every` so often ("5m").
        `tickwise_sdk.sync` brings it to a server; until then nothing happens. A second schedule of a task needs a
        `name`.

        Raises `RegistrationError` for a schedule that says no time, or two, or that lacks an argument of the task."""
        if arguments is None:
            try:
                arguments = self._bound((), {})
            except TypeError as error:
                raise RegistrationError(
                    f"the schedule of {self.name} lacks arguments ({error}); give arguments={self.name}.bind(…)"
                ) from None
        if arguments.task != self.name:
            raise RegistrationError(f"the arguments of the schedule of {self.name} are those of {arguments.task}")
        times = {"cron": cron, "every": every, "timezone": timezone}
        body = arguments.body(fields=cast("types.JobChangeBody", {**(fields or {}), **_given(times)}))
        return declare(self.name, name, body)

    # ---------------------------------------------------------------------------------- running

    @property
    def __tickwise_task__(self) -> Registration:
        """The description for an executor, with the middleware that is in use by now."""
        middleware = (*in_use(), *self.middleware)
        payload = self._payload
        if payload.is_raw and self._result.is_native and not middleware:
            count = int(payload.takes_context) + (payload.whole is not None)
            return Registration(self.name, self.function, count, self.is_async)
        runner = _Runner(self.name, self.function, payload, self._result, middleware)
        called = runner.run_async if self.is_async else runner.run
        return Registration(self.name, called, 2, self.is_async)


def _taken(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Take the options of `submit` out of the arguments of a task, which has none of these names."""
    return {name: kwargs.pop(name) for name in OPTIONS & kwargs.keys()}


def _given(values: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


class _Runner(NamedTuple):
    """A task as a worker calls it, with the context and the payload."""

    name: str
    function: Callable[..., Any]
    payload: Payload
    result: Conversion
    middleware: Sequence[Middleware]

    def run(self, context: Context, payload: Any) -> Any:
        args, kwargs = self.payload.read(payload)
        place = current.set(context)
        try:
            with ExitStack() as stack:
                call = self._begun(stack, context, args, kwargs)
                call.result = self.function(*self._with_context(context, args), **kwargs)
            return self._returned(call.result)
        finally:
            current.reset(place)

    async def run_async(self, context: Context, payload: Any) -> Any:
        args, kwargs = self.payload.read(payload)
        place = current.set(context)
        try:
            with ExitStack() as stack:
                call = self._begun(stack, context, args, kwargs)
                call.result = await self.function(*self._with_context(context, args), **kwargs)
            return self._returned(call.result)
        finally:
            current.reset(place)

    def _begun(self, stack: ExitStack, context: Context, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        arguments = self.payload.signature.bind(*args, **kwargs).arguments if self.middleware else {}
        call = Call(self.name, context, arguments)
        entered(stack, self.middleware, call)
        return call

    def _with_context(self, context: Context, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (context, *args) if self.payload.takes_context else args

    def _returned(self, value: Any) -> Any:
        try:
            return self.result.to_json(value)
        except Mismatch as wrong:
            raise PermanentError(f"{self.name} returned something else than it says: {wrong}") from None


def _result_of(function: Callable[..., Any]) -> Conversion:
    """The conversion of what a function returns. A type that is no JSON is left to the worker, which tries."""
    if "return" not in function.__annotations__:
        return FREE
    subject = f"the result of {function.__qualname__}"
    try:
        return conversion_of(hints_of(function, subject=subject).get("return", Any), subject=subject)
    except RegistrationError:
        return FREE


# ------------------------------------------------------------------------------------------ the decorator


class Decorator(Protocol):
    """`@task("a name")`: makes a task of a function."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, _P], Coroutine[Any, Any, _V]], /
    ) -> Task[Concatenate[Context, _P], _P, Coroutine[Any, Any, _V], _V]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, _P], _V], /
    ) -> Task[Concatenate[Context, _P], _P, _V, _V]: ...

    @overload
    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _V]], /
    ) -> Task[_P, _P, Coroutine[Any, Any, _V], _V]: ...

    @overload
    def __call__(self, function: Callable[_P, _V], /) -> Task[_P, _P, _V, _V]: ...

    def __call__(self, function: Any, /) -> Any: ...


@overload
def task(
    name: Callable[Concatenate[Context, _P], Coroutine[Any, Any, _V]], /
) -> Task[Concatenate[Context, _P], _P, Coroutine[Any, Any, _V], _V]: ...


@overload
def task(name: Callable[Concatenate[Context, _P], _V], /) -> Task[Concatenate[Context, _P], _P, _V, _V]: ...


@overload
def task(name: Callable[_P, Coroutine[Any, Any, _V]], /) -> Task[_P, _P, Coroutine[Any, Any, _V], _V]: ...


@overload
def task(name: Callable[_P, _V], /) -> Task[_P, _P, _V, _V]: ...


@overload
def task(
    name: str | None = None,
    /,
    *,
    job: types.JobChangeBody | None = None,
    resources: Mapping[str, int] | None = None,
    middleware: Sequence[Middleware] = (),
) -> Decorator: ...


def task(
    name: Any = None,
    /,
    *,
    job: types.JobChangeBody | None = None,
    resources: Mapping[str, int] | None = None,
    middleware: Sequence[Middleware] = (),
) -> Any:
    """Make a task of a function, under `name`, or under its dotted path if none is given. `job` has fields of each job
    that is made of it. `resources`: counted capacities of its executor that each run holds, such as `{"gpu": 1}`;
    `job` may name them, too. A function runs in a warm worker, so it has no isolation, network or user of its own.

    Raises `RegistrationError` for parameters that no payload can have, and for a name that another function has."""
    if callable(name):
        return _register(name, None, None, ())
    fields: types.JobChangeBody | None = job
    if resources is not None:
        fields = cast("types.JobChangeBody", {**(job or {}), "resources": dict(resources)})

    def decorate(function: Callable[..., Any]) -> Task[..., ..., Any, Any]:
        return _register(function, name, fields, middleware)

    return decorate


def _register(
    function: Callable[..., Any],
    name: str | None,
    job: types.JobChangeBody | None,
    middleware: Sequence[Middleware],
) -> Task[..., ..., Any, Any]:
    path = _path(function)
    made: Task[..., ..., Any, Any] = Task(function, name or path, job=job, middleware=middleware)
    known = registry.get(made.name)
    if known is not None and _path(known.function) != path:
        raise RegistrationError(
            f"two functions are registered as {made.name!r}: {_path(known.function)} and {path}; give one of them "
            "another name"
        )
    registry[made.name] = made
    return made


def _path(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
