"""Saved views: the filters of a list of pages under a name, of the caller alone or for all of the namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_text
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Forbidden, Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import SHARED, SavedView

NAME_CHARACTERS: Final = 60
QUERY_CHARACTERS: Final = 2_000
FILTERS_MAX: Final = 50
LISTS: Final[Mapping[str, Sequence[str]]] = {
    "/jobs": ("name", "key", "label", "status", "schedule_type", "task_kind", "owner"),
    "/runs": (
        *("job_id", "job_name", "label", "status", "reason", "queue", "executor_id", "due_after", "due_before", "col"),
    ),
}
"""The lists whose filters can be saved, and the names of these."""
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
        """Save a view, in place of the one of its name; its owner is the caller unless it is shared. The values of its
        filters are judged by the list when it is shown. Raises `Invalid`; `Forbidden`; `Conflict`, code
        `views_exhausted`."""
        name = " ".join(clean_text(view.name, "/name").split())
        if not name or len(name) > NAME_CHARACTERS or not name.isprintable():
            raise Invalid(f"a name has 1 to {NAME_CHARACTERS} characters that can be seen", pointer="/name")
        _check_filters(view)
        saved = SavedView(
            namespace=who.namespace,
            owner=self._owner(who, shared=view.owner == SHARED),
            path=view.path,
            name=name,
            query=clean_text(view.query, "/query"),
            by=who.name,
        )
        detail = {"path": saved.path, "shared": saved.owner == SHARED, "query": saved.query}
        audit = entry(who, AuditAction.VIEW_SAVED, "view", saved.name, detail=detail)
        await self._context.surely(lambda: self._context.store.saved_views.put(saved, audit=audit))
        return saved

    @requires(Permission.JOBS_READ, Permission.RUNS_READ, by_labels=True)
    async def remove(self, who: Principal, path: str, name: str, *, shared: bool) -> None:
        """Remove a view of the caller, or a shared one. Raises `NotFound`, `Forbidden`."""
        owner = self._owner(who, shared=shared)
        audit = entry(who, AuditAction.VIEW_REMOVED, "view", name, detail={"path": path, "shared": shared})
        views = self._context.store.saved_views
        if not await self._context.surely(
            lambda: views.remove(who.namespace, owner, path=path, name=name, audit=audit)
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


def _check_filters(view: SavedView) -> None:
    """Raise `Invalid` for a list or filters that are not there."""
    if view.path not in LISTS:
        raise Invalid(f"views are of {' and '.join(LISTS)}", pointer="/list")
    if len(view.query) > QUERY_CHARACTERS:
        raise Invalid(f"the filters have at most {QUERY_CHARACTERS} characters", pointer="/query")
    try:
        names = {name for name, _ in parse_qsl(view.query, keep_blank_values=True, max_num_fields=FILTERS_MAX)}
    except ValueError:
        raise Invalid(f"the filters are at most {FILTERS_MAX}", pointer="/query") from None
    if unknown := sorted(names.difference(LISTS[view.path])):
        known = ", ".join(LISTS[view.path])
        raise Invalid(f"{view.path} has no filter {unknown[0][:40]!r}; it has {known}", pointer="/query")
    if not names:
        raise Invalid("there is no filter to save: write them as the address of the list has them", pointer="/query")
