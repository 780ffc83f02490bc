"""Measures every call of a port once, from outside, so that adapters stay plain."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

Port = TypeVar("Port")


class _Timed:
    """Forwards everything; coroutine methods are timed."""

    def __init__(self, port: object, record: Callable[[str, float], None], monotonic: Callable[[], float]) -> None:
        self._port = port
        self._record = record
        self._monotonic = monotonic

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not inspect.iscoroutinefunction(found):
            return found
        record, monotonic = self._record, self._monotonic

        async def timed(*arguments: Any, **named: Any) -> Any:
            begun = monotonic()
            try:
                return await found(*arguments, **named)
            finally:
                record(name, monotonic() - begun)

        # Kept, so that the next call does not come here again.
        self.__dict__[name] = timed
        return timed


def timed(port: Port, record: Callable[[str, float], None], monotonic: Callable[[], float]) -> Port:
    """The same port; `record(method, seconds)` is called after each call, failed ones included."""
    return cast("Port", _Timed(port, record, monotonic))
