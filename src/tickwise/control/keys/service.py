"""API keys: make, list, rotate and revoke.

Invariant: a key gives what its maker has, at most: scopes, namespace, labels and time. A key that a person made, and
each that it made in turn, has the person as its owner: it gives what the person may do now, at most
(`control.callers`). Nobody revokes a key that is stronger than their own permissions, and nobody learns the secret of
a key that could do what their own credential cannot: more, for longer, or after its owner was deactivated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
import structlog
from msgspec import Meta

from tickwise.control.access import admitted, check_namespace, requires, requires_none
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.keys.composer import KeyBody, composed_key
from tickwise.control.keys.forms import new_secret
from tickwise.control.keys.rights import check_weaker, guest, scope_of, seen_in
from tickwise.control.keys.secrets import SHOWN_CHARACTERS, secret_digest
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.times import written
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION, Caller
from tickwise.domain.errors import Conflict, Forbidden, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.identity import KeyRotation, KeyRow, Keys
from tickwise.ports.identity.keys import MAX_OVERLAP_SECONDS
from tickwise.ports.signals import Topic

logger = structlog.get_logger("tickwise.keys")


OVERLAP_SECONDS: Final = 86_400.0
"""The overlap of a rotation that names none: programs that are deployed once a day change over in it."""


class KeyRotateBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Another secret for a key."""

    overlap_seconds: Annotated[
        float,
        Meta(
            ge=0.0,
            le=MAX_OVERLAP_SECONDS,
            description="The present secret works for this time beside the new one; 0 ends it, and any earlier one, "
            "at once.",
        ),
    ] = OVERLAP_SECONDS


class MadeKey(NamedTuple):
    """A new key, with what is told of it once."""

    row: KeyRow
    secret: str


class KeyService:
    """Everything about keys."""

    def __init__(self, context: ControlContext, keys: Keys, directory: NamespaceDirectory) -> None:
        self._context = context
        self._keys = keys
        self._directory = directory

    @requires(Permission.KEYS_ADMIN)
    async def make(self, who: Principal, body: KeyBody) -> MadeKey:
        """A new key. Raises `Forbidden` if it would be stronger than the one that asks; `Invalid`; `Conflict`."""
        secret = new_secret(self._context.clock)
        made = await composed_key(self._context, self._directory, who, body, secret)
        key = made.key
        audit = [
            entry(who, AuditAction.KEY_MADE, "key", key.key_id, namespace=place, after=after)
            for place, after in made.told.items()
        ]
        # Again after a commit that may have failed: False then says that it did not.
        await self._context.surely(lambda: self._keys.add(key, audit=audit))
        row = made.row(await self._context.time.now())
        logger.info(
            "key_made",
            key_id=str(row.key_id),
            name=row.name,
            namespace=row.namespace,
            namespaces=sorted(row.namespaces),
            permissions=sorted(row.scopes),
            labels=dict(row.labels),
            by=who.name,
            by_key=_text(who.key_id),
        )
        return MadeKey(row, secret)

    @requires(Permission.KEYS_ADMIN)
    async def page(
        self, who: Principal, before: UUID | None, limit: int, *, namespace: str | None = None
    ) -> Sequence[KeyRow]:
        """Keys that work in the caller's namespace, or those of the installation; the newest first, also those that are
        over. Of a key whose home is another namespace, the caller is told what it is in this one. Raises `Forbidden` if
        `namespace` is not one that the caller sees."""
        mine = scope_of(who)
        if mine is not None and namespace is not None:
            check_namespace(who, namespace)
        rows = await self._keys.page(mine or namespace, before=before, limit=limit)
        return [row if mine is None else seen_in(mine, row) for row in rows]

    @requires(Permission.KEYS_ADMIN)
    async def revoke(self, who: Principal, key_id: UUID) -> KeyRow:
        """From now on it is refused; one that works in other namespaces, too, is refused in the caller's alone. Raises
        `NotFound`, and `Forbidden` for a key with more permissions than the caller's. Every key may revoke itself, and
        the installation each key, everywhere."""
        scope = scope_of(who)
        found = await self._keys.of_id(key_id)
        places = frozenset[str]() if found is None else found.caller.namespaces.keys()
        if found is not None and scope in places and len(places) > 1 and key_id != who.key_id:
            return await self._take_out(who, found.caller, key_id)
        if found is not None and scope in (None, found.caller.home) and key_id != who.key_id:
            check_weaker(who, found.caller)
        told = {who.namespace} if found is None else {found.caller.home, *places} - {INSTALLATION}
        audit = [
            entry(
                who,
                AuditAction.KEY_REVOKED,
                "key",
                key_id,
                namespace=place,
                detail=found and {"name": found.caller.name},
            )
            for place in sorted(told)
        ]
        row = await self._context.surely(lambda: self._keys.revoke(scope, key_id, audit=audit))
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

    async def _take_out(self, who: Principal, key: Caller, key_id: UUID) -> KeyRow:
        """Take the rights of a key in the caller's namespace, and leave it those elsewhere; the key as it is seen here,
        revoked. Raises `NotFound`, `Forbidden`."""
        here = who.namespace
        check_weaker(who, replace(key, grants=tuple(each for each in key.grants if each.namespace == here)))
        detail = {"name": key.name, "namespaces": [here]}
        audit = [
            entry(who, AuditAction.KEY_REVOKED, "key", key_id, namespace=place, detail=detail)
            for place in dict.fromkeys((here, key.home))
        ]
        row = await self._context.surely(lambda: self._keys.revoke(here, key_id, only_there=True, audit=audit))
        if row is None:
            raise NotFound(f"there is no key {key_id}")
        self._context.signals.send(Topic.KEYS, (key_id,))
        logger.info("key_taken_out", key_id=str(key_id), name=row.name, namespace=here, by=who.name)
        return replace(guest(here, row), revoked_at=await self._context.time.now())

    @requires_none("each key may rotate itself; for another one, keys:admin is checked here")
    async def rotate(self, who: Principal, key_id: UUID, body: KeyRotateBody) -> MadeKey:
        """Another secret for the same key; the present one works until the overlap ends. Raises `NotFound`; `Forbidden`
        for a key that could do what the caller's credential cannot; `Conflict`: `key_over`, `key_rotated`,
        `key_rotating`, `key_not_rotated_here`."""
        found = await self._keys.of_id(key_id)
        itself = found is not None and key_id == who.key_id
        if not itself:
            admitted(who, Permission.KEYS_ADMIN)
        scope, number = scope_of(who), 0
        # One that is not found is over, for ever, or not there: the store says which.
        if found is not None and (itself or scope in (None, found.caller.home)):
            scope, number = found.caller.home, found.caller.secret
            if not itself:
                check_weaker(who, found.caller, "rotate")
                _check_outlives_nobody(who, found.caller)
            # By the store, and not by what this process remembers of the key: both may have leaked, or been lent.
            elif who.by_token or who.secret != number:
                raise Forbidden("a key rotates itself by its present secret: send that, no token and no earlier secret")
        if found is not None and await self._context.store.federations.get(key_id) is not None:
            raise Conflict(
                f"{found.caller.name} is a federation: tokens of its issuer stand in place of a secret, and it has "
                f"none",
                code="key_not_rotated_here",
            )
        secret = new_secret(self._context.clock)
        rotation = KeyRotation(
            namespace=scope,
            key_id=key_id,
            digest=secret_digest(secret.encode()),
            prefix=secret[:SHOWN_CHARACTERS],
            overlap_seconds=body.overlap_seconds,
            expected=number,
        )
        audit = entry(
            who,
            AuditAction.KEY_ROTATED,
            "key",
            key_id,
            namespace=who.namespace if found is None else found.caller.home,
            detail={
                **({} if found is None else {"name": found.caller.name}),
                "overlap_seconds": body.overlap_seconds,
            },
        )
        rotated = await self._context.surely(lambda: self._keys.rotate(rotation, audit=audit))
        if rotated is None:
            raise NotFound(f"there is no key {key_id}")
        self._context.signals.send(Topic.KEYS, (key_id,))
        logger.info(
            "key_rotated",
            key_id=str(key_id),
            name=rotated.name,
            namespace=rotated.namespace,
            rotation=rotated.rotations,
            overlap_seconds=body.overlap_seconds,
            by=who.name,
            by_key=_text(who.key_id),
        )
        return MadeKey(rotated, secret)


def _check_outlives_nobody(who: Principal, key: Caller) -> None:
    """Raises `Forbidden` if the key works when the credential of the caller does no more: its secret, once seen, would
    be the way around an expiry or a deactivation."""
    if who.expires_at is not None and (key.expires_at is None or key.expires_at > who.expires_at):
        raise Forbidden(
            f"the key that asks expires at {written(who.expires_at)}, and the key {key.name} is good for longer: let "
            "it rotate itself, or ask with a key that is good for as long"
        )
    person = who.user_id or who.owner_id
    if person is not None and key.owner_id != person:
        raise Forbidden(
            f"the key {key.name} does not depend on your account, so you cannot be told its secret: let it rotate "
            "itself, or ask with a key that belongs to nobody, such as the installation's first one"
        )


def _text(key_id: UUID | None) -> str | None:
    return None if key_id is None else str(key_id)
