"""The principal of a request: its caller in the namespace that it names.

    Tickwise-Namespace: team-a ──► a grant of the caller? ──► is there such a namespace? ──► Principal

A namespace that is there is remembered for `KNOWN_SECONDS`; one that is not is looked up each time, by callers of the
whole installation alone, and by those whose own it was. `default` is always there, so nobody waits for its look-up.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Final

from tickwise.control.circuit_breaker import StoreCircuitBreaker
from tickwise.domain.callers import Caller
from tickwise.domain.errors import InDoubt, NotFound, StoreUnavailable, Unavailable
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal
from tickwise.ports.clock import Clock
from tickwise.ports.identity import NamespaceStore

KNOWN_SECONDS: Final = 4.0
"""A namespace that was removed is refused after this long."""
REMEMBERED_MAX: Final = 10_000


class NamespaceDirectory:
    """Knows which namespaces there are, a few seconds old at most."""

    def __init__(self, namespaces: NamespaceStore, clock: Clock, breaker: StoreCircuitBreaker | None = None) -> None:
        """`breaker` bounds the wait for a store that is away; None: each look-up waits for the store."""
        self._namespaces = namespaces
        self._breaker = breaker
        self._monotonic = clock.monotonic
        self._known: dict[str, float] = {}
        """Until when each counts as known, on the monotonic clock."""
        self._rates: dict[str, float] = {}
        """Requests a second, of those that have a quota of them."""
        self._refreshes: set[asyncio.Task[None]] = set()

    def known(self, caller: Caller, name: str | None) -> Principal | None:
        """`principal`, if its namespace has been looked up of late; None: it has not. Raises `Forbidden`."""
        principal = caller.principal(name)
        until = self._known.get(principal.namespace)
        return principal if until is not None and until > self._monotonic() else None

    async def principal(self, caller: Caller, name: str | None) -> Principal:
        """The caller in the namespace of this name; None: in its own. Raises `Forbidden` if the caller has no
        permission there, `NotFound` if there is no such namespace, `StoreUnavailable`."""
        principal = caller.principal(name)
        if principal.namespace != DEFAULT_NAMESPACE:
            await self.check(principal.namespace)
        elif self._known.get(DEFAULT_NAMESPACE, 0.0) <= self._monotonic():
            self._refresh_default()
        return principal

    def rate(self, name: str) -> float | None:
        """The quota of requests a second of a namespace, as it was last looked up; None: it has none."""
        return self._rates.get(name)

    async def check(self, name: str) -> None:
        """Raises `NotFound` if there is no namespace of this name, `StoreUnavailable`."""
        until = self._known.get(name)
        if until is None or until <= self._monotonic():
            await self._look(name, until)

    def _refresh_default(self) -> None:
        """Look up the quota of the namespace that is always there; no request waits for it."""
        self._known[DEFAULT_NAMESPACE] = self._monotonic() + KNOWN_SECONDS
        task = asyncio.create_task(self._look_quietly(DEFAULT_NAMESPACE), name="default namespace")
        self._refreshes.add(task)
        task.add_done_callback(self._refreshes.discard)

    async def _look_quietly(self, name: str) -> None:
        with contextlib.suppress(Unavailable, NotFound):
            await self._look(name, self._known.get(name))

    async def _look(self, name: str, until: float | None) -> None:
        now = self._monotonic()
        if until is not None:
            self._known[name] = now + KNOWN_SECONDS  # one looks, the others go on by what is known
        try:
            get = partial(self._namespaces.get, name)
            found = await (get() if self._breaker is None else self._breaker.ask(get))
        except (StoreUnavailable, InDoubt):
            if until is None:
                raise
            return  # what it last said counts while the store is away
        if found is None:
            self._known.pop(name, None)
            self._rates.pop(name, None)
            raise NotFound(f"there is no namespace {name[:100]!r}")
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
            self._rates.clear()
        self._known[name] = now + KNOWN_SECONDS
        if found.quotas.requests_per_second is None:
            self._rates.pop(name, None)
        else:
            self._rates[name] = found.quotas.requests_per_second
