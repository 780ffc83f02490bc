"""The principal of a request: its caller in the namespace that it names.

    Tickwise-Namespace: team-a ──► a grant of the caller? ──► is there such a namespace? ──► Principal

A namespace that is there is remembered for `KNOWN_SECONDS`; one that is not is looked up each time, by callers of the
whole installation alone, and by those whose own it was. `default` is always there.
"""

from __future__ import annotations

from typing import Final

from tickwise.domain.callers import Caller
from tickwise.domain.errors import NotFound, StoreUnavailable
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal
from tickwise.ports.clock import Clock
from tickwise.ports.identity import NamespaceStore

KNOWN_SECONDS: Final = 4.0
"""A namespace that was removed is refused after this long."""
REMEMBERED_MAX: Final = 10_000


class NamespaceDirectory:
    """Knows which namespaces there are, a few seconds old at most."""

    def __init__(self, namespaces: NamespaceStore, clock: Clock) -> None:
        self._namespaces = namespaces
        self._monotonic = clock.monotonic
        self._known: dict[str, float] = {}
        """Until when each counts as known, on the monotonic clock."""

    async def principal(self, caller: Caller, name: str | None) -> Principal:
        """The caller in the namespace of this name; None: in its own. Raises `Forbidden` if the caller has no
        permission there, `NotFound` if there is no such namespace, `StoreUnavailable`."""
        principal = caller.principal(name)
        if principal.namespace != DEFAULT_NAMESPACE:
            await self.check(principal.namespace)
        return principal

    async def check(self, name: str) -> None:
        """Raises `NotFound` if there is no namespace of this name, `StoreUnavailable`."""
        now = self._monotonic()
        until = self._known.get(name)
        if until is not None and until > now:
            return
        try:
            found = await self._namespaces.get(name)
        except StoreUnavailable:
            if until is None:
                raise
            return  # what it last said counts while the store is away
        if found is None:
            self._known.pop(name, None)
            raise NotFound(f"there is no namespace {name[:100]!r}")
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[name] = now + KNOWN_SECONDS
