"""The callers that keys and people are now.

    person ──roles──────────────────────► grants
    key ──owner──► active? ──roles──────► grants of the key, cut to those of its owner
    key without an owner ───────────────► grants of the key

A person who makes a key lends it their own permissions. What they lose, the key loses: the person is asked for at each
look-up, as for an access token. Who has no owner: the installation's own keys, those that were made by these, and keys
from before owners were kept.

Invariant: no key gives what its owner may not do now, and none whose owner was deactivated is good.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tickwise.control.known_roles import KnownRoles
from tickwise.domain.callers import INSTALLATION, Caller, Grant
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.permissions import ROLES
from tickwise.ports.identity import FoundKey, Keys
from tickwise.ports.identity.users import Member, RoleStore, UserRow, UserStore


class Callers:
    """Finds callers."""

    def __init__(self, keys: Keys, users: UserStore, roles: RoleStore) -> None:
        self._keys = keys
        self._users = users
        self._roles = roles

    async def of_digest(self, digest: bytes) -> FoundKey | None:
        """The good key with this digest. Raises `StoreUnavailable`."""
        return await self._owned(await self._keys.find(digest))

    async def of_key(self, key_id: UUID, secret: int | None = None) -> FoundKey | None:
        """The good key with this id; with `secret`, only while its secret of this number works. Raises
        `StoreUnavailable`."""
        return await self._owned(await self._keys.of_id(key_id, secret))

    async def of_person(self, row: UserRow) -> Caller:
        """The caller that a person is, by all of the roles. Raises `StoreUnavailable`."""
        return Caller(name=row.name, home=_home(row.roles), grants=await self._grants(row.roles), user_id=row.user_id)

    async def _owned(self, found: FoundKey | None) -> FoundKey | None:
        if found is None or found.caller.owner_id is None:
            return found
        owner = await self._users.get(found.caller.owner_id)
        if owner is None or not owner.active:
            return None
        return found._replace(caller=found.caller.cut_to(await self._grants(owner.roles)))

    async def _grants(self, roles: Sequence[Member]) -> tuple[Grant, ...]:
        has_custom = any(each.role not in ROLES for each in roles)
        known = KnownRoles(await self._roles.all(None) if has_custom else ())
        return known.grants(roles)


def _home(roles: Sequence[Member]) -> str:
    """The namespace of requests that name none: `default` if the person has a role there, or everywhere."""
    places = [each.namespace for each in roles]
    if not places or INSTALLATION in places or DEFAULT_NAMESPACE in places:
        return DEFAULT_NAMESPACE
    return min(places)
