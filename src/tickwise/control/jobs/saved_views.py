"""Saved views: the filters of a list of pages under a name, of the caller alone or for all of the namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.control.access import requires
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_text
from tickwise.domain.errors import Forbidden, Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import SHARED, SavedView

NAME_CHARACTERS: Final = 60
QUERY_CHARACTERS: Final = 2_000
OF_ALL: Final = (Permission.JOBS_WRITE, Permission.JOBS_OPERATE)
"""A caller with one of them, for all jobs of the namespace, may save views for everybody."""


def may_share_views(who: Principal) -> bool:
    """Check whether a caller may save views for everybody of the namespace."""
    return any(who.may(permission) for permission in OF_ALL)


class SavedViewService:
    """Everything about saved views."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.JOBS_READ, Permission.RUNS_READ, by_labels=True)
    async def page(self, who: Principal) -> Sequence[SavedView]:
        """The caller's own views in the namespace, and the shared ones, by list and name."""
        return await self._context.store.saved_views.find(who.namespace, [who.credential_name, SHARED])

    @requires(Permission.JOBS_READ, Permission.RUNS_READ, by_labels=True)
    async def save(self, who: Principal, view: SavedView) -> SavedView:
        """Save a view, in place of the one of its name; its owner is the caller unless it is shared. The query was
        checked by the list that it is about. Raises `Invalid`; `Forbidden`; `Conflict`, code `views_exhausted`."""
        name = " ".join(clean_text(view.name, "/name").split())
        if not name or len(name) > NAME_CHARACTERS or not name.isprintable():
            raise Invalid(f"a name has 1 to {NAME_CHARACTERS} characters that can be seen", pointer="/name")
        if len(view.query) > QUERY_CHARACTERS:
            raise Invalid(f"the filters have at most {QUERY_CHARACTERS} characters", pointer="/query")
        saved = SavedView(
            namespace=who.namespace,
            owner=self._owner(who, shared=view.owner == SHARED),
            path=view.path,
            name=name,
            query=clean_text(view.query, "/query"),
            by=who.name,
        )
        await self._context.surely(lambda: self._context.store.saved_views.put(saved))
        return saved

    @requires(Permission.JOBS_READ, Permission.RUNS_READ, by_labels=True)
    async def remove(self, who: Principal, path: str, name: str, *, shared: bool) -> None:
        """Remove a view of the caller, or a shared one. Raises `NotFound`, `Forbidden`."""
        owner = self._owner(who, shared=shared)
        if not await self._context.surely(
            lambda: self._context.store.saved_views.remove(who.namespace, owner, path=path, name=name)
        ):
            raise NotFound(f"there is no saved view {name[:NAME_CHARACTERS]!r}")

    def _owner(self, who: Principal, *, shared: bool) -> str:
        if not shared:
            return who.credential_name
        if not may_share_views(who):
            raise Forbidden(
                f"a view for everybody needs the permission jobs:write or jobs:operate in the namespace "
                f"{who.namespace}; save it for yourself, or ask an administrator for the permission"
            )
        return SHARED
