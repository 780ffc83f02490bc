"""Authorization of what is carried out later: the caller is looked up again, as it is then.

    request ──► Asker, stored with it ──┬─ a scheduler takes the next page ──┐
                                        └─ a recorder applies the message ───┴─► Askers.allow ──► Principal of now
                                                                                   ├─ NoLongerAllowed: nothing more is
                                                                                   │  done, and the reason is on record
                                                                                   └─ Unavailable: later, as it is

What is stored is who asked, not what they were allowed to do. Requests of the release before name no asker, and are
carried out with the permissions that were checked when they were accepted.

Invariant: a store that does not answer is no denial.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.control.callers import Callers
from tickwise.control.context import ControlContext
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.domain.callers import Asker, Caller
from tickwise.domain.errors import Forbidden, NoLongerAllowed, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.selectors import Selector, is_inside


class Askers:
    """Knows what those who asked for something may do now."""

    def __init__(self, context: ControlContext) -> None:
        store = context.store
        self._users = store.users
        self._callers = Callers(store.keys, store.users, store.roles)
        self._directory = NamespaceDirectory(store.namespaces, context.clock)

    async def allow(
        self, asker: Asker, namespace: str, needed: Sequence[Permission], *, within: Selector | None = None
    ) -> Principal:
        """The principal that the asker is in this namespace now. Raises `NoLongerAllowed` without one of the needed
        permissions for all jobs of `within` (None: for all jobs), and `Unavailable` if the store cannot say."""
        caller = await self._caller(asker)
        try:
            principal = await self._directory.principal(caller, namespace)
        except (Forbidden, NotFound) as refusal:
            raise NoLongerAllowed(f"{refusal.detail} any more") from refusal
        is_allowed = any(principal.may(permission) for permission in needed)
        if not is_allowed and (within is None or not is_inside(within, principal.selector(needed))):
            raise NoLongerAllowed(
                f"{caller.name} has no longer the permission {' or '.join(needed)} in the namespace {namespace}"
            )
        return principal

    async def _caller(self, asker: Asker) -> Caller:
        """The person or the key that asked, as they are now."""
        if asker.user_id is not None:
            row = await self._users.get(asker.user_id)
            if row is None or not row.active:
                raise NoLongerAllowed("the person who asked for this was deactivated meanwhile")
            return await self._callers.of_person(row)
        found = None if asker.key_id is None else await self._callers.of_key(asker.key_id)
        if found is None:
            raise NoLongerAllowed(
                "the key that asked for this was revoked or has expired meanwhile, or its owner was deactivated"
            )
        return found.caller
