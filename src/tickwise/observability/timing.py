"""Measures every call of the store once, from outside, so that adapters stay plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tickwise.ports.store import Store
from tickwise.ports.store.wrapping import Call, WrappedStore


class _TimedStore(WrappedStore):
    def __init__(self, store: Store, record: Callable[[str, float], None], monotonic: Callable[[], float]) -> None:
        self._record = record
        self._monotonic = monotonic
        super().__init__(store)

    def around(self, name: str, call: Call) -> Call:
        record, monotonic, label = self._record, self._monotonic, name.replace(".", "_")

        async def timed_call(*arguments: Any, **named: Any) -> Any:
            begun = monotonic()
            try:
                return await call(*arguments, **named)
            finally:
                record(label, monotonic() - begun)

        return timed_call


def timed(store: Store, record: Callable[[str, float], None], monotonic: Callable[[], float]) -> Store:
    """This store; `record(method, seconds)` is called after each call, failed ones included. `method` is a label of
    metrics: `jobs.add` for `jobs.add`."""
    return cast("Store", _TimedStore(store, record, monotonic))
