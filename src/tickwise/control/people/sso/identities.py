"""People tied to identities at the provider by an administrator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec
import structlog
from msgspec import Meta

from tickwise.control.access import holds_everywhere, requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.known_roles import KnownRoles
from tickwise.control.people.sso.accounts import identity_fields
from tickwise.control.people.sso.rules import SsoConfig
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Forbidden, Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.identity.identities import Identity, IdentityStore
from tickwise.ports.identity.users import RoleStore, UserStore
from tickwise.ports.signals import Topic

logger = structlog.get_logger("tickwise.people")


class IdentityBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A person at a provider."""

    subject: Annotated[str, Meta(min_length=1, max_length=255, description="The claim `sub`.")]
    issuer: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    """None: the provider of the settings."""


class IdentityService:
    """Shows, ties and unties identities, for administrators of the installation: one opens all of an account."""

    def __init__(
        self,
        context: ControlContext,
        config: SsoConfig | None,
        *,
        identities: IdentityStore,
        users: UserStore,
        roles: RoleStore,
    ) -> None:
        self._context = context
        self._config = config
        self._identities = identities
        self._users = users
        self._roles = roles

    @requires(Permission.USERS_ADMIN)
    async def of_user(self, who: Principal, user_id: UUID) -> Sequence[Identity]:
        """The identities of a person. Raises `NotFound`, `Forbidden`."""
        await self._check(who, user_id)
        return await self._identities.of_user(user_id)

    @requires(Permission.USERS_ADMIN)
    async def link(self, who: Principal, user_id: UUID, body: IdentityBody) -> Sequence[Identity]:
        """Tie an identity to a person: all that the person has then. Raises `NotFound`, `Forbidden`, `Invalid`,
        `Conflict`."""
        await self._check(who, user_id)
        issuer = body.issuer or (None if self._config is None else self._config.provider.issuer)
        if issuer is None:
            raise Invalid(
                "no provider is set here: name the issuer; for a name that a proxy gives, it is proxy",
                pointer="/issuer",
            )
        identity = Identity(issuer, body.subject)
        audit = entry(
            who, AuditAction.IDENTITY_LINKED, "user", user_id, namespace=INSTALLATION, detail=identity_fields(identity)
        )
        await self._context.surely(lambda: self._identities.link(identity, user_id, audit=audit))
        logger.info("identity_linked", user_id=str(user_id), issuer=issuer, by=who.name)
        return await self._identities.of_user(user_id)

    @requires(Permission.USERS_ADMIN)
    async def unlink(self, who: Principal, user_id: UUID) -> Sequence[Identity]:
        """Take all identities of a person away, and end the browser sessions that came of them: which these were.
        Raises `NotFound`, `Forbidden`."""
        await self._check(who, user_id)
        audit = entry(who, AuditAction.IDENTITY_UNLINKED, "user", user_id, namespace=INSTALLATION)
        gone = await self._context.surely(lambda: self._identities.unlink(user_id, audit=audit))
        self._context.signals.send(Topic.KEYS, (user_id,))
        logger.info("identities_unlinked", user_id=str(user_id), by=who.name)
        return gone

    async def _check(self, who: Principal, user_id: UUID) -> None:
        if not holds_everywhere(who, Permission.USERS_ADMIN):
            raise Forbidden("identities are for administrators of the installation: they open all of an account")
        row = await self._users.get(user_id)
        if row is None:
            raise NotFound(f"there is no user {user_id}")
        known = KnownRoles(await self._roles.all(None))
        if any(known.is_more(each, who) for each in row.roles):
            raise Forbidden("this person may do more than you: an identity of yours would open that")
