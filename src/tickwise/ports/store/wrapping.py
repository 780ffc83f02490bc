"""A store whose calls pass through something else: a stopwatch, a link that breaks, a fault that a test chose."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from tickwise.ports.store import Store

Call: TypeAlias = Callable[..., Awaitable[Any]]

PARTS: Final = tuple(name for name, member in vars(Store).items() if isinstance(member, property))
"""The attributes of a store that are parts of it."""


class WrappedPart:
    """One part of such a store. An attribute that is set on it stands in place of the part's own."""

    def __init__(self, part: object, prefix: str, around: Callable[[str, Call], Call]) -> None:
        self.part = part
        """May be replaced by another one of its kind."""
        self._prefix = prefix
        self._around = around

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.part, name)
        if not inspect.iscoroutinefunction(found):
            return found
        call = self._around(f"{self._prefix}{name}", found)
        # Kept, so that the next call does not come here again.
        self.__dict__[name] = call
        return call


class WrappedStore(WrappedPart):
    """The port `Store` around another one. Subclasses say in `around` what is called in place of what."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "", self.around)
        for name in PARTS:
            setattr(self, name, WrappedPart(getattr(store, name), f"{name}.", self.around))

    def around(self, name: str, call: Call) -> Call:  # noqa: ARG002  # the name is for subclasses
        """Asked once for each coroutine method; `name` is `now`, or `jobs.add` for one of a part."""
        return call
