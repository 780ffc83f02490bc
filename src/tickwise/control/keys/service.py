"""API keys: make, list, revoke, and note when each was used.

Invariant: a key gives what its maker has, at most: scopes, namespace and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import requires
from tickwise.control.bodies import TEXT_MAX, Name, Time
from tickwise.control.context import ControlContext
from tickwise.control.keys.secrets import ADMIN, key_of, new_secret
from tickwise.control.texts import clean_text
from tickwise.control.times import instant_within, written
from tickwise.domain.errors import Forbidden, Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, Permission
from tickwise.ports.identity import KeyOrigin, KeyRow, Keys
from tickwise.ports.signals import Topic

_KNOWN: Final = frozenset(Permission)

logger = structlog.get_logger("tickwise.keys")


class KeyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A key to make."""

    name: Name
    scopes: Annotated[
        list[Annotated[str, Meta(max_length=TEXT_MAX)]],
        Meta(
            min_length=1,
            max_length=100,
            description="The permissions of the key, such as `jobs:write`; `*` is everything.",
        ),
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

    def __init__(self, context: ControlContext, keys: Keys) -> None:
        self._context = context
        self._keys = keys

    @requires(Permission.KEYS_ADMIN)
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
        await self._context.surely(lambda: self._keys.add(key))
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

    @requires(Permission.KEYS_ADMIN)
    async def page(self, who: Principal, before: UUID | None, limit: int) -> Sequence[KeyRow]:
        """The newest first, also those that are over."""
        return await self._keys.page(who.namespace, before=before, limit=limit)

    @requires(Permission.KEYS_ADMIN)
    async def revoke(self, who: Principal, key_id: UUID) -> KeyRow:
        """From now on it is refused. Raises `NotFound`."""
        row = await self._context.surely(lambda: self._keys.revoke(who.namespace, key_id))
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
            raise Invalid("expires_at is in the past; give a later time", pointer="/expires_at")
        if who.expires_at is not None and (expires_at is None or expires_at > who.expires_at):
            raise Forbidden(
                f"the key that asks expires at {written(who.expires_at)}, and makes none that is good for longer",
                pointer="/expires_at",
            )
        return expires_at


def _scopes(who: Principal, wanted: Sequence[str]) -> frozenset[str]:
    """The scopes of a new key, if they are some and the one that asks has them all."""
    for number, scope in enumerate(wanted):
        if scope != EVERYTHING and scope not in _KNOWN:
            known = ", ".join(Permission)
            raise Invalid(f"there is no scope {scope[:50]!r}; there are {known}, and *", pointer=f"/scopes/{number}")
        if not who.may(scope):
            raise Forbidden(
                f"this key cannot give the scope {scope}: it does not have it itself", pointer=f"/scopes/{number}"
            )
    return frozenset(wanted)


def _text(key_id: UUID | None) -> str | None:
    return None if key_id is None else str(key_id)
