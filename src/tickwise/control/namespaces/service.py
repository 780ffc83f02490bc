"""Namespaces: add, list, change, close and remove.

An administrator of the installation does everything. One of a namespace sees it and changes its display name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import holds_everywhere, requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_text
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Forbidden, NotFound, VersionConflict
from tickwise.domain.model import Principal
from tickwise.domain.names import clean_namespace
from tickwise.domain.permissions import Permission
from tickwise.ports.identity import NamespaceStore
from tickwise.ports.identity.namespaces import NamespaceRow, NamespaceState, NewNamespace

DISPLAY_NAME_MAX: Final = 200

DisplayName = Annotated[str, Meta(min_length=1, max_length=DISPLAY_NAME_MAX, description="The name for people.")]

logger = structlog.get_logger("tickwise.people")


class NamespaceBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A namespace to add."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=63, description="Small letters, digits and hyphens, as in a label of DNS."),
    ]
    display_name: DisplayName | UnsetType = UNSET


class NamespaceChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of a namespace to change."""

    display_name: DisplayName | UnsetType = UNSET
    state: NamespaceState | UnsetType = UNSET
    expected_version: int | UnsetType = UNSET


class NamespaceService:
    """Everything about namespaces."""

    def __init__(self, context: ControlContext, namespaces: NamespaceStore) -> None:
        self._context = context
        self._namespaces = namespaces

    @requires(Permission.NAMESPACES_ADMIN)
    async def add(self, who: Principal, body: NamespaceBody) -> NamespaceRow:
        """A new namespace. The same again is the same. Raises `Forbidden`, `Invalid`, `Conflict`."""
        _check_everywhere(who)
        name = clean_namespace(body.name, "/name")
        display_name = name if body.display_name is UNSET else clean_text(body.display_name, "/display_name")
        new = NewNamespace(
            name=name,
            display_name=display_name,
            created_by=who.name,
        )
        after = {"display_name": display_name}
        audit = entry(who, AuditAction.NAMESPACE_ADDED, "namespace", name, namespace=name, after=after)
        row = await self._context.surely(lambda: self._namespaces.add(new, audit=audit))
        logger.info("namespace_added", namespace=name, by=who.name)
        return row

    @requires(Permission.NAMESPACES_READ)
    async def page(self, who: Principal, after: str | None, limit: int) -> Sequence[NamespaceRow]:
        """Namespaces by name: all, for an administrator of the installation; else the caller's."""
        if _is_everywhere(who):
            return await self._namespaces.page(after=after, limit=limit)
        row = await self._namespaces.get(who.namespace)
        return [] if row is None or (after is not None and row.name <= after) else [row]

    @requires(Permission.NAMESPACES_READ)
    async def get(self, who: Principal, name: str) -> NamespaceRow:
        """One namespace. Raises `NotFound`, also for one in which the caller has no permission."""
        return await self._row(who, name)

    @requires(Permission.NAMESPACES_ADMIN)
    async def change(self, who: Principal, name: str, body: NamespaceChangeBody) -> NamespaceRow:
        """Change display name or state. Raises `NotFound`, `Forbidden`, `Invalid`, `Conflict`,
        `VersionConflict`."""
        row = await self._row(who, name)
        if body.state is not UNSET:
            _check_everywhere(who)
        if body.expected_version is not UNSET and body.expected_version != row.version:
            raise VersionConflict(f"the namespace is at version {row.version}, not {body.expected_version}: look again")
        wanted = replace(
            row,
            display_name=(
                row.display_name if body.display_name is UNSET else clean_text(body.display_name, "/display_name")
            ),
            state=row.state if body.state is UNSET else body.state,
        )
        if wanted == row:
            return row
        audit = entry(
            who,
            AuditAction.NAMESPACE_CHANGED,
            "namespace",
            name,
            namespace=name,
            before={"display_name": row.display_name, "state": row.state.value},
            after={"display_name": wanted.display_name, "state": wanted.state.value},
        )
        changed = await self._context.surely(lambda: self._namespaces.change(wanted, audit=audit))
        logger.info("namespace_changed", namespace=name, state=changed.state.value, by=who.name)
        return changed

    @requires(Permission.NAMESPACES_ADMIN)
    async def remove(self, who: Principal, name: str) -> NamespaceRow:
        """Remove a namespace that is closing and holds nothing; the namespace as it was. Raises `NotFound`,
        `Forbidden`, `Conflict`."""
        _check_everywhere(who)
        row = await self._row(who, name)
        before = {"display_name": row.display_name, "state": row.state.value}
        audit = entry(who, AuditAction.NAMESPACE_REMOVED, "namespace", name, namespace=name, before=before)
        await self._context.surely(lambda: self._namespaces.remove(name, audit=audit))
        logger.info("namespace_removed", namespace=name, by=who.name)
        return row

    async def _row(self, who: Principal, name: str) -> NamespaceRow:
        row = await self._namespaces.get(name) if _is_everywhere(who) or name == who.namespace else None
        if row is None:
            raise NotFound(f"there is no namespace {name[:100]!r}")
        return row


def _is_everywhere(who: Principal) -> bool:
    return holds_everywhere(who, Permission.NAMESPACES_ADMIN)


def _check_everywhere(who: Principal) -> None:
    if not _is_everywhere(who):
        raise Forbidden("an administrator of the installation can do this")
