"""API keys: make, list, revoke, and note when each was used.

Invariant: a key gives what its maker has, at most: scopes, namespace and time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.bodies import TEXT_MAX, Name, Time
from tickwise.control.circuit_breaker import STALE_SECONDS, StoreCircuitBreaker
from tickwise.control.context import ControlContext
from tickwise.control.keys.secrets import ADMIN, key_of, new_secret
from tickwise.control.texts import clean_text
from tickwise.control.times import instant_within, written
from tickwise.domain.errors import Forbidden, Invalid, NotFound, Unavailable
from tickwise.domain.model import Principal
from tickwise.domain.scopes import EVERYTHING, SCOPES
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.identity import FoundKey, KeyOrigin, KeyRow, Keys
from tickwise.ports.signals import Topic

USES_SECONDS: Final = 60.0
"""Uses of keys are written together, so often: a column that people read costs one statement a minute."""

logger = structlog.get_logger("tickwise.keys")


class KeyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A key to make."""

    name: Name
    scopes: Annotated[
        list[Annotated[str, Meta(max_length=TEXT_MAX)]],
        Meta(min_length=1, max_length=100, description="What the key may do, such as `jobs:write`; `*` is everything."),
    ]
    namespace: (
        Annotated[str, Meta(min_length=1, max_length=TEXT_MAX, description="That of the key that asks.")] | UnsetType
    ) = UNSET
    expires_at: Time | UnsetType | None = UNSET


class MadeKey(NamedTuple):
    """A new key, with what is told of it once."""

    row: KeyRow
    secret: str


class KeyService:
    """Everything about keys."""

    def __init__(self, context: ControlContext, keys: Keys, breaker: StoreCircuitBreaker | None = None) -> None:
        """`breaker` bounds the wait for a store that is away; None: each look-up waits for the store."""
        self._context = context
        self._keys = keys
        self._breaker = breaker
        self._uses = KeyUses(keys, context.clock)

    async def stop(self) -> None:
        """Write which keys were used."""
        await self._uses.stop()

    @property
    def stale_seconds(self) -> float:
        """How long a key that the store knew counts while the store is away."""
        return 0.0 if self._breaker is None else STALE_SECONDS

    async def find(self, digest: bytes) -> FoundKey | None:
        """The good key with this digest. Raises `StoreUnavailable`."""
        if self._breaker is None:
            return self._uses.note(await self._keys.key_find(digest))
        return self._uses.note(await self._breaker.ask(lambda: self._keys.key_find(digest)))

    def news(self, concerns: Callable[[UUID], bool]) -> asyncio.Event:
        """An event that is set when a key that `concerns` the listener may be good no longer."""
        return self._context.signals.listen(Topic.KEYS, concerns)

    async def make(self, who: Principal, body: KeyBody) -> MadeKey:
        """A new key. Raises `Forbidden` if it would be stronger than the one that asks; `Invalid`; `Conflict`."""
        name = clean_text(body.name, "/name")
        if name == ADMIN:
            raise Invalid(f"the name {ADMIN} is the installation's own; choose another", pointer="/name")
        if body.namespace not in (UNSET, who.namespace):
            raise Forbidden(f"this key makes keys of its own namespace alone, {who.namespace}", pointer="/namespace")
        scopes = _scopes(who, body.scopes)
        expires_at = self._expiry(who, body.expires_at, await self._context.time.now())
        principal = Principal(name, who.namespace, scopes, expires_at=expires_at)
        secret = new_secret(self._context.clock)
        key = key_of(self._context.clock, secret, principal, KeyOrigin.MADE, by=who.name)
        # Again after a commit that may have failed: False then says that it did not.
        await self._context.surely(lambda: self._keys.key_add(key))
        row = KeyRow(
            key_id=key.key_id,
            name=name,
            namespace=who.namespace,
            scopes=scopes,
            origin=key.origin,
            prefix=key.prefix,
            created_by=key.created_by,
            created_at=await self._context.time.now(),
            expires_at=expires_at,
            last_used_at=None,
            revoked_at=None,
        )
        logger.info(
            "key_made",
            key_id=str(row.key_id),
            name=name,
            namespace=row.namespace,
            scopes=sorted(scopes),
            by=who.name,
            by_key=_text(who.key_id),
        )
        return MadeKey(row, secret)

    async def page(self, who: Principal, before: UUID | None, limit: int) -> Sequence[KeyRow]:
        """The newest first, also those that are over."""
        return await self._keys.keys_list(who.namespace, before=before, limit=limit)

    async def revoke(self, who: Principal, key_id: UUID) -> KeyRow:
        """From now on it lets nobody in. Raises `NotFound`."""
        row = await self._context.surely(lambda: self._keys.key_revoke(who.namespace, key_id))
        if row is None:
            raise NotFound(f"there is no key {key_id}")
        self._context.signals.send(Topic.KEYS, (key_id,))
        logger.info(
            "key_revoked",
            key_id=str(row.key_id),
            name=row.name,
            namespace=row.namespace,
            by=who.name,
            by_key=_text(who.key_id),
        )
        return row

    def _expiry(self, who: Principal, wanted: datetime | UnsetType | None, now: float) -> float | None:
        """When the new key expires: when that is said, else with the key that asks."""
        if wanted is UNSET:
            return who.expires_at
        expires_at = None if wanted is None else instant_within(wanted, "/expires_at")
        if expires_at is not None and expires_at <= now:
            raise Invalid("a key that has expired lets nobody in; give a time to come", pointer="/expires_at")
        if who.expires_at is not None and (expires_at is None or expires_at > who.expires_at):
            raise Forbidden(
                f"the key that asks expires at {written(who.expires_at)}, and makes none that is good for longer",
                pointer="/expires_at",
            )
        return expires_at


class KeyUses:
    """Which keys were used, written together every `USES_SECONDS`. What a crash loses is a minute of a column."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._used: dict[UUID, float] = {}
        """When each was used last, on our monotonic clock."""
        self._task: asyncio.Task[None] | None = None

    def note(self, found: FoundKey | None) -> FoundKey | None:
        """This key was asked for by a request."""
        if found is not None and found.principal.key_id is not None:
            self._used[found.principal.key_id] = self._clock.monotonic()
            if self._task is None:
                self._task = asyncio.create_task(self._later(), name="key uses")
        return found

    async def stop(self) -> None:
        """Write what waits."""
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
            await self._keys.keys_used({key_id: now - at for key_id, at in sorted(used.items())})
        except Unavailable:
            self._used = used | self._used  # with the next ones


def _scopes(who: Principal, wanted: Sequence[str]) -> frozenset[str]:
    """The scopes of a new key, if they are some and the one that asks has them all."""
    for number, scope in enumerate(wanted):
        if scope != EVERYTHING and scope not in SCOPES:
            known = ", ".join(SCOPES)
            raise Invalid(f"there is no scope {scope[:50]!r}; there are {known}, and *", pointer=f"/scopes/{number}")
        if not who.may(scope):
            raise Forbidden(
                f"this key cannot give the scope {scope}: it does not have it itself", pointer=f"/scopes/{number}"
            )
    return frozenset(wanted)


def _text(key_id: UUID | None) -> str | None:
    return None if key_id is None else str(key_id)
