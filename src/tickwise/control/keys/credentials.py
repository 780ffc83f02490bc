"""Authentication: the key of a digest, and news of keys that are good no longer. No principal is known yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from tickwise.control.circuit_breaker import STALE_SECONDS, StoreCircuitBreaker
from tickwise.control.context import ControlContext
from tickwise.control.keys.forms import SecretForms, SecretKind
from tickwise.domain.errors import Unavailable
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.identity import FoundKey, Keys
from tickwise.ports.signals import Topic

USES_SECONDS: Final = 60.0
"""Uses of keys are written together, so often: a column that people read costs one statement a minute."""

Find = Callable[[bytes], Awaitable[FoundKey | None]]


class Credentials:
    """Finds the principals of keys."""

    def __init__(
        self,
        context: ControlContext,
        keys: Keys,
        find: Find,
        forms: SecretForms,
        breaker: StoreCircuitBreaker | None = None,
    ) -> None:
        """`find` finds the good key of a digest, with what it may do now. `breaker` bounds the wait for a store that is
        away; None: each look-up waits for the store."""
        self._forms = forms
        self._signals = context.signals
        self._find = find
        self._breaker = breaker
        self._uses = KeyUses(keys, context.clock)

    async def stop(self) -> None:
        """Write which keys were used."""
        await self._uses.stop()

    @property
    def stale_seconds(self) -> float:
        """The time for which a known key counts while the store is away."""
        return 0.0 if self._breaker is None else STALE_SECONDS

    async def find(self, digest: bytes) -> FoundKey | None:
        """The good key with this digest, and its caller. Raises `StoreUnavailable`."""
        if self._breaker is None:
            return self._uses.note(await self._find(digest))
        return self._uses.note(await self._breaker.ask(lambda: self._find(digest)))

    def fault(self, secret: str) -> str | None:
        """The sentence that says why this text cannot be a key, by its form alone; None: it has to be looked up."""
        return self._forms.fault(secret, SecretKind.KEY)

    def news(self, concerns: Callable[[UUID], bool]) -> asyncio.Event:
        """An event that is set when a key that `concerns` the listener may be good no longer."""
        return self._signals.listen(Topic.KEYS, concerns)


class KeyUses:
    """The used keys, written together every `USES_SECONDS`. A crash loses a minute of a column."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._used: dict[UUID, float] = {}
        """The last use of each key, on our monotonic clock."""
        self._task: asyncio.Task[None] | None = None

    def note(self, found: FoundKey | None) -> FoundKey | None:
        """Note the use of a key by a request."""
        if found is not None and found.caller.key_id is not None:
            self._used[found.caller.key_id] = self._clock.monotonic()
            if self._task is None:
                self._task = asyncio.create_task(self._later(), name="key uses")
        return found

    async def stop(self) -> None:
        """Write the waiting uses."""
        if self._task is not None:
            await end_tasks([self._task])
        await self._write()

    async def _later(self) -> None:
        try:
            while self._used:
                await self._clock.sleep(USES_SECONDS)
                await self._write()
        finally:
            self._task = None

    async def _write(self) -> None:
        used, self._used = self._used, {}
        if not used:
            return
        now = self._clock.monotonic()
        try:
            await self._keys.used({key_id: now - at for key_id, at in sorted(used.items())})
        except Unavailable:
            self._used = used | self._used  # with the next ones
