"""API keys: make, list, rotate and revoke.

Invariant: a key gives what its maker has, at most: scopes, namespace, labels and time. A key that a person made, and
each that it made in turn, has the person as its owner: it gives what the person may do now, at most
(`control.callers`). Nobody revokes a key that is stronger than their own permissions, and nobody learns the secret of
a key that could do what their own credential cannot: more, for longer, or after its owner was deactivated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import admitted, check_namespace, holds_everywhere, requires, requires_none
from tickwise.control.audit.entries import entry
from tickwise.control.bodies import TEXT_MAX, Name, Time
from tickwise.control.context import ControlContext
from tickwise.control.granted_labels import GrantedLabels, granted_labels
from tickwise.control.keys.forms import new_secret
from tickwise.control.keys.secrets import ADMIN, SHOWN_CHARACTERS, key_of, secret_digest
from tickwise.control.names import check_not_reserved
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.texts import clean_text
from tickwise.control.times import instant_within, written
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION, Caller
from tickwise.domain.errors import Bug, Forbidden, Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, ROLES, Permission, contains
from tickwise.domain.selectors import Labels, in_words
from tickwise.ports.identity import KeyOrigin, KeyRotation, KeyRow, Keys
from tickwise.ports.identity.keys import MAX_OVERLAP_SECONDS
from tickwise.ports.signals import Topic

_KNOWN: Final = frozenset(Permission)

logger = structlog.get_logger("tickwise.keys")


NAMESPACES_MAX: Final = 100
EXPIRY_YEARS_MAX: Final = 10
EXPIRY_SECONDS_MAX: Final = (365 * EXPIRY_YEARS_MAX + 3) * 86_400.0
"""Longer is `--expires 400000d` for `400d`. A key that shall live longer has no expiry, and is rotated."""
OVERLAP_SECONDS: Final = 86_400.0
"""The overlap of a rotation that names none: programs that are deployed once a day change over in it."""

Permissions = Annotated[list[Annotated[str, Meta(max_length=TEXT_MAX)]], Meta(min_length=1, max_length=100)]
NamespaceName = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]


class KeyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A key to make."""

    name: Annotated[Name, Meta(description="The name for people. Keys of one name share nothing.")]
    role: (
        Annotated[
            str,
            Meta(
                max_length=TEXT_MAX, description="`viewer`, `operator`, `developer` or `admin`: short for permissions."
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    permissions: (
        Annotated[Permissions, Meta(description="The permissions of the key, such as `jobs:write`; `*` is everything.")]
        | UnsetType
        | None
    ) = UNSET
    scopes: Annotated[Permissions, Meta(description="The earlier name of `permissions`.")] | UnsetType | None = UNSET
    namespaces: (
        Annotated[
            list[NamespaceName],
            Meta(
                min_length=1,
                max_length=NAMESPACES_MAX,
                description="The namespaces in which the key works; requests that name none are about the first. `*` "
                "is each one, and the installation itself. Left out: the namespace of the request.",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    namespace: (
        Annotated[NamespaceName, Meta(description="Short for `namespaces` with this one.")] | UnsetType | None
    ) = UNSET
    labels: GrantedLabels | UnsetType | None = UNSET
    expires_at: Time | UnsetType | None = UNSET


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
        name = clean_text(body.name, "/name")
        check_not_reserved(name, "/name", (ADMIN,))
        namespaces = _namespaces(who, body)
        permissions, labels = _permissions(body), granted_labels(body.labels, "/labels")
        for place in namespaces:
            _check_given(who, permissions, place, labels, body)
            if place not in (INSTALLATION, who.namespace):
                await self._directory.check(place)
        home = who.namespace if namespaces[0] == INSTALLATION else namespaces[0]
        expires_at = self._expiry(who, body.expires_at, await self._context.time.now())
        principal = Principal(name, home, permissions, expires_at=expires_at, owner_id=who.user_id or who.owner_id)
        secret = new_secret(self._context.clock)
        key = replace(
            key_of(self._context.clock, secret, principal, KeyOrigin.MADE, by=who.name),
            namespaces=frozenset(namespaces),
            labels=labels,
        )
        after = {
            "name": name,
            "permissions": sorted(permissions),
            "labels": dict(labels),
            "expires_at": expires_at,
        }
        # The home sees all; another namespace is told of itself.
        told = {place: [place] for place in namespaces if place != INSTALLATION} | {home: sorted(namespaces)}
        audit = [
            entry(who, AuditAction.KEY_MADE, "key", key.key_id, namespace=place, after={**after, "namespaces": seen})
            for place, seen in told.items()
        ]
        # Again after a commit that may have failed: False then says that it did not.
        await self._context.surely(lambda: self._keys.add(key, audit=audit))
        row = KeyRow(
            key_id=key.key_id,
            name=name,
            namespace=home,
            namespaces=frozenset(namespaces),
            scopes=permissions,
            labels=labels,
            origin=key.origin,
            prefix=key.prefix,
            created_by=key.created_by,
            owner_id=principal.owner_id,
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
            namespaces=sorted(namespaces),
            permissions=sorted(permissions),
            labels=dict(labels),
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
        mine = _scope_of(who)
        if mine is not None and namespace is not None:
            check_namespace(who, namespace)
        rows = await self._keys.page(mine or namespace, before=before, limit=limit)
        return [row if mine is None else _seen_in(mine, row) for row in rows]

    @requires(Permission.KEYS_ADMIN)
    async def revoke(self, who: Principal, key_id: UUID) -> KeyRow:
        """From now on it is refused; one that works in other namespaces, too, is refused in the caller's alone. Raises
        `NotFound`, and `Forbidden` for a key with more permissions than the caller's. Every key may revoke itself, and
        the installation each key, everywhere."""
        scope = _scope_of(who)
        found = await self._keys.of_id(key_id)
        places = frozenset[str]() if found is None else found.caller.namespaces.keys()
        if found is not None and scope in places and len(places) > 1 and key_id != who.key_id:
            return await self._take_out(who, found.caller, key_id)
        if found is not None and scope in (None, found.caller.home) and key_id != who.key_id:
            _check_weaker(who, found.caller)
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
        _check_weaker(who, replace(key, grants=tuple(each for each in key.grants if each.namespace == here)))
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
        return replace(_guest(here, row), revoked_at=await self._context.time.now())

    @requires_none("each key may rotate itself; for another one, keys:admin is checked here")
    async def rotate(self, who: Principal, key_id: UUID, body: KeyRotateBody) -> MadeKey:
        """Another secret for the same key; the present one works until the overlap ends. Raises `NotFound`; `Forbidden`
        for a key that could do what the caller's credential cannot; `Conflict`: `key_over`, `key_rotated`,
        `key_rotating`, `key_not_rotated_here`."""
        found = await self._keys.of_id(key_id)
        itself = found is not None and key_id == who.key_id
        if not itself:
            admitted(who, Permission.KEYS_ADMIN)
        scope, number = _scope_of(who), 0
        # One that is not found is over, for ever, or not there: the store says which.
        if found is not None and (itself or scope in (None, found.caller.home)):
            scope, number = found.caller.home, found.caller.secret
            if not itself:
                _check_weaker(who, found.caller, "rotate")
                _check_outlives_nobody(who, found.caller)
            # By the store, and not by what this process remembers of the key: both may have leaked, or been lent.
            elif who.by_token or who.secret != number:
                raise Forbidden("a key rotates itself by its present secret: send that, no token and no earlier secret")
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

    def _expiry(self, who: Principal, wanted: datetime | UnsetType | None, now: float) -> float | None:
        """The expiry of the new key: as requested, else that of the requesting key."""
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
        if expires_at is not None and expires_at > now + EXPIRY_SECONDS_MAX:
            raise Invalid(
                f"expires_at is more than {EXPIRY_YEARS_MAX} years away, which is probably a mistake: give an earlier "
                "time, such as one in 90 days, or none for a key that does not expire",
                pointer="/expires_at",
            )
        return expires_at


def _scope_of(who: Principal) -> str | None:
    """The namespace whose keys the caller sees; None: those of all namespaces."""
    return None if holds_everywhere(who, Permission.KEYS_ADMIN) else who.namespace


def _seen_in(namespace: str, row: KeyRow) -> KeyRow:
    """The key as the administrators of a namespace see it: whole, if the namespace is its home."""
    return row if row.namespace == namespace else _guest(namespace, row)


def _guest(namespace: str, row: KeyRow) -> KeyRow:
    """The part of a key that concerns one of its namespaces: nothing tells of the others."""
    return replace(
        row, namespace=namespace, namespaces=frozenset({namespace}), prefix=None, created_by=None, owner_id=None
    )


def _namespaces(who: Principal, body: KeyBody) -> Sequence[str]:
    """The namespaces of a new key, the home first. Raises `Invalid`."""
    if not body.namespaces:
        return [body.namespace or who.namespace]
    if body.namespace:
        raise Invalid("namespace and namespaces contradict each other; send one of them", pointer="/namespace")
    return [INSTALLATION] if INSTALLATION in body.namespaces else list(dict.fromkeys(body.namespaces))


def _permissions(body: KeyBody) -> frozenset[str]:
    """The permissions that a body names. Raises `Invalid`."""
    sent = [field for field in ("role", "permissions", "scopes") if getattr(body, field)]
    if len(sent) != 1:
        raise Invalid(
            "send a role or permissions, and only one of them", pointer=f"/{sent[0] if sent else 'permissions'}"
        )
    if body.role:
        if body.role not in ROLES:
            raise Invalid(f"there is no role {body.role[:50]!r}; there are {', '.join(ROLES)}", pointer="/role")
        return ROLES[body.role]
    wanted = body.permissions or body.scopes
    if not wanted:
        raise Bug("a body without permissions came through")
    for number, permission in enumerate(wanted):
        if permission != EVERYTHING and permission not in _KNOWN:
            raise Invalid(
                f"there is no permission {permission[:50]!r}; there are {', '.join(Permission)}, and *",
                pointer=f"/{sent[0]}/{number}",
            )
    return frozenset(wanted)


def _check_given(who: Principal, permissions: frozenset[str], namespace: str, labels: Labels, body: KeyBody) -> None:
    """Raises `Forbidden` unless the caller has the permissions in that namespace, for jobs with these labels: no
    principal makes a key with more permissions than its own."""
    mine = who.permissions_in(namespace, labels)
    if contains(mine, permissions):
        return
    if not mine:
        pointer = "/namespaces" if body.namespaces else "/namespace"
        raise Forbidden(f"this key makes keys of its own namespace alone, {who.namespace}", pointer=pointer)
    missing = sorted(each for each in permissions if not contains(mine, (each,)))
    field = next(name for name in ("role", "permissions", "scopes") if getattr(body, name))
    pointer = f"/{field}"
    if field != "role":
        pointer += f"/{getattr(body, field).index(missing[0])}"
    selector = who.selector(missing[:1])
    has = f" but for jobs with the labels {in_words(selector)}" if selector else ""
    raise Forbidden(
        f"this key cannot give the permission {missing[0]}: it does not have it itself{has}", pointer=pointer
    )


def _check_weaker(who: Principal, key: Caller, action: str = "revoke") -> None:
    """Raises `Forbidden` if the key may do more than the caller: an administrator of the keys of one namespace does not
    stop the programs of others, nor their administrators, and does not become one of them."""
    for grant in key.grants:
        if not contains(who.permissions_in(grant.namespace, grant.labels), grant.permissions):
            place = "all namespaces" if grant.namespace == INSTALLATION else grant.namespace
            raise Forbidden(
                f"the key {key.name} may do more than you in {place}: ask an administrator "
                f"{'of the installation' if grant.namespace != who.namespace else f'of {place}'} to {action} it"
            )


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
