"""The composition of a key from what a caller sends: its permissions, its namespaces, its expiry.

Invariant: a key gives what its maker has, at most: permissions, namespaces, labels and time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.bodies import TEXT_MAX, Name, Time
from tickwise.control.context import ControlContext
from tickwise.control.granted_labels import GrantedLabels, granted_labels
from tickwise.control.keys.secrets import ADMIN, key_of
from tickwise.control.names import check_not_reserved
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.texts import clean_text
from tickwise.control.times import instant_within, written
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Bug, Forbidden, Invalid
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, ROLES, Permission, contains
from tickwise.domain.selectors import Labels, in_words
from tickwise.ports.identity import KeyOrigin, KeyRow, NewKey

_KNOWN: Final = frozenset(Permission)

NAMESPACES_MAX: Final = 100
EXPIRY_YEARS_MAX: Final = 10
EXPIRY_SECONDS_MAX: Final = (365 * EXPIRY_YEARS_MAX + 3) * 86_400.0
"""Longer is `--expires 400000d` for `400d`. A key that shall live longer has no expiry, and is rotated."""

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


class ComposedKey(NamedTuple):
    """A key to keep, with what the audit log is told of it."""

    key: NewKey
    told: Mapping[str, Mapping[str, Any]]
    """By namespace: the facts that its entry has. The home sees all; another namespace is told of itself."""

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces in which it works."""
        return self.key.namespaces or frozenset({self.key.principal.namespace})

    def row(self, created_at: float) -> KeyRow:
        """The key as it is listed."""
        key, principal = self.key, self.key.principal
        return KeyRow(
            key_id=key.key_id,
            name=principal.name,
            namespace=principal.namespace,
            namespaces=self.namespaces,
            scopes=principal.scopes,
            labels=key.labels,
            origin=key.origin,
            prefix=key.prefix,
            created_by=key.created_by,
            owner_id=principal.owner_id,
            created_at=created_at,
            expires_at=principal.expires_at,
            last_used_at=None,
            revoked_at=None,
        )


async def composed_key(
    context: ControlContext, directory: NamespaceDirectory, who: Principal, body: KeyBody, secret: str
) -> ComposedKey:
    """The key that a caller asks for. Raises `Forbidden` if it would be stronger than the one that asks; `Invalid`,
    `NotFound`."""
    name = clean_text(body.name, "/name")
    check_not_reserved(name, "/name", (ADMIN,))
    namespaces = _namespaces(who, body)
    permissions, labels = _permissions(body), granted_labels(body.labels, "/labels")
    for place in namespaces:
        _check_given(who, permissions, place, labels, body)
        if place not in (INSTALLATION, who.namespace):
            await directory.check(place)
    home = who.namespace if namespaces[0] == INSTALLATION else namespaces[0]
    expires_at = _expiry(who, body.expires_at, await context.time.now())
    principal = Principal(name, home, permissions, expires_at=expires_at, owner_id=who.user_id or who.owner_id)
    key = replace(
        key_of(context.clock, secret, principal, KeyOrigin.MADE, by=who.name),
        namespaces=frozenset(namespaces),
        labels=labels,
    )
    after = {
        "name": name,
        "permissions": sorted(permissions),
        "labels": dict(labels),
        "expires_at": expires_at,
    }
    told = {place: [place] for place in namespaces if place != INSTALLATION} | {home: sorted(namespaces)}
    return ComposedKey(key, {place: {**after, "namespaces": seen} for place, seen in told.items()})


def _expiry(who: Principal, wanted: datetime | UnsetType | None, now: float) -> float | None:
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
