"""A role that kills itself with SIGKILL, or stands still, at a named point: `CHAOS_POINT=attempts_claim:after`.

It is the product, wired by the product; only the store that its role is given is wrapped. A point is a method of the
store port and a side of it: `before` (the store knows nothing of it), `after` (it is done, and whoever asked never
hears of it); with `paused` it does not die, but stands still before its first call, until somebody lets it go on: then
what it says comes late. `sql/NAME:before` is the same within a method, at a statement of the PostgreSQL adapter.

    python -m tests.chaos.dying executor
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

import asyncpg

from tickwise.adapters.store.postgres.statements import statement
from tickwise.cli.main import main
from tickwise.ports.store import Expired, FireBatch, Store
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.wiring import processes
from tickwise.wiring.runtime import Runtime

VARIABLE: Final = "CHAOS_POINT"
WITH_EFFECT: Final = frozenset({"attempts.claim", "timers.fire", "executors.expire", "timers.take", "timers.commit"})
"""These are called in vain again and again: it dies after one that did something."""


_paused: set[Point] = set()


class Point(NamedTuple):
    """Where it dies."""

    method: str
    side: str

    def reached(self, method: str, side: str, result: object = True) -> None:
        """Die or stand still if this is it."""
        if (method, side, self.side) == (self.method, "before", "paused") and self not in _paused:
            _paused.add(self)
            os.kill(os.getpid(), signal.SIGSTOP)
        if isinstance(result, Expired):
            did = bool(result.executors or result.freed)
        else:
            did = bool(result.timers if isinstance(result, FireBatch) else result)
        if (method, side) == self and (did or side == "before" or method not in WITH_EFFECT):
            os.kill(os.getpid(), signal.SIGKILL)


class DyingStore(WrappedStore):
    """A store whose user dies around one of its methods."""

    def __init__(self, store: Store, point: Point) -> None:
        self._store = store
        self._point = point
        super().__init__(store)

    def around(self, name: str, call: Call) -> Call:
        """Only the one method is deadly."""
        return self._deadly(name, call) if name == self._point.method else call

    def _deadly(self, name: str, found: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            self._point.reached(name, "before")
            result = await found(*arguments, **named)
            self._point.reached(name, "after", result)
            return result

        return call


def _at_statement(name: str) -> None:
    """Die before that statement of the adapter is sent."""
    text = statement(name)
    for method in ("fetch", "fetchrow", "fetchval", "execute"):
        original = getattr(asyncpg.Connection, method)

        async def call(self: Any, query: str, *arguments: Any, _original: Any = original, **named: Any) -> Any:
            if query == text:
                os.kill(os.getpid(), signal.SIGKILL)
            return await _original(self, query, *arguments, **named)

        setattr(asyncpg.Connection, method, call)


def prepare(point: str) -> None:
    """From now on every role that this process starts dies there."""
    method, side = point.split(":")
    if method.startswith("sql/"):
        _at_statement(method.removeprefix("sql/"))
        return
    open_runtime = vars(processes)["open_runtime"]

    @asynccontextmanager
    async def opened(*arguments: Any, **named: Any) -> AsyncIterator[Runtime]:
        async with open_runtime(*arguments, **named) as runtime:
            yield replace(runtime, store=cast("Store", DyingStore(runtime.store, Point(method, side))))

    vars(processes)["open_runtime"] = opened


if __name__ == "__main__":
    prepare(os.environ[VARIABLE])
    sys.exit(main(sys.argv[1:]))
