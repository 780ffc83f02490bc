"""Middleware: code before, after and around the tasks of a program.

    class Timing(Middleware):
        def around(self, call):
            ...                      # a context manager

    use_middleware(Timing())         # for every task, the first one outermost
    @task(middleware=[Timing()])     # for one, inside of those

A `before` that raises keeps the function from being called, and the attempt fails with that error. Middleware is plain,
not asynchronous, also around asynchronous tasks: what it does must be quick.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tickwise_sdk.context import Context


@dataclass
class Call:
    """One call of a task."""

    task: str
    """The name of the task."""
    context: Context
    arguments: Mapping[str, Any]
    """The arguments by their names, converted."""
    result: Any = field(default=None)
    """The value that the function returned, once it has."""


class Middleware:
    """Override what you need: `before` and `after`, or `around`."""

    def before(self, call: Call) -> None:
        """Called before the function."""

    def after(self, call: Call, error: BaseException | None) -> None:
        """Called after the function: with the error that it raised, or None and the result in `call.result`."""

    def around(self, call: Call) -> AbstractContextManager[None]:
        """The context manager that the function is called in."""
        return self._around(call)

    @contextmanager
    def _around(self, call: Call) -> Generator[None, None, None]:
        self.before(call)
        try:
            yield
        except BaseException as error:
            self.after(call, error)
            raise
        self.after(call, None)


_for_all: list[Middleware] = []


def use_middleware(*middleware: Middleware) -> None:
    """Have these called around every task of the program, in this order, the first outermost. Call it while modules are
    imported: a worker looks once, when it has loaded them all."""
    _for_all.extend(middleware)


def in_use() -> Sequence[Middleware]:
    """The middleware of every task."""
    return tuple(_for_all)


def forget_middleware() -> None:
    """Take back every `use_middleware`: for tests."""
    _for_all.clear()


def entered(stack: ExitStack, middleware: Sequence[Middleware], call: Call) -> None:
    """Enter the context managers of a call."""
    for each in middleware:
        stack.enter_context(each.around(call))
