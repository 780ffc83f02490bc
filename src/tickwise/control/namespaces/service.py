"""Namespaces: add, list, change, close and remove. Schedulers carry out what a removal takes (`bulk.removal`).

An administrator of the installation does everything. One of a namespace sees it and changes its display name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

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
from tickwise.domain.quotas import QUOTA_NAMES, Quotas, QuotaUse
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.identity import NamespaceStore
from tickwise.ports.identity.namespaces import NamespaceLeft, NamespaceRow, NamespaceState, NewNamespace
from tickwise.ports.signals import Topic

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
    state: Literal["active", "closing"] | UnsetType = UNSET
    """`closing`: it takes nothing new, and what is there goes on; `active`: it is open again. Neither can be set once
    `DELETE` has begun to remove it."""
    expected_version: int | UnsetType = UNSET


Count = Annotated[int, Meta(ge=0, le=1_000_000_000_000)]


class QuotasBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The quotas of a namespace; one that is left out or null is none."""

    jobs: Annotated[
        Count | None, Meta(description="Active jobs that last: see `docs/how-to/limits-and-quotas.md`.")
    ] = None
    runs_per_day: Annotated[Count | None, Meta(description="Runs that are asked for in a day of UTC.")] = None
    bytes: Annotated[Count | None, Meta(description="Of the definitions of these jobs, and of stored tasks.")] = None
    lanes: Annotated[
        Annotated[int, Meta(ge=0, le=1_000)] | None, Meta(description="Combinations of queue, priority and labels.")
    ] = None
    calendars: Annotated[int, Meta(ge=0, le=1_000)] | None = None
    windows: Annotated[int, Meta(ge=0, le=200)] | None = None
    concurrent_runs: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None, Meta(description="Runs at once; further ones wait.")
    ] = None
    requests_per_second: Annotated[
        Annotated[float, Meta(ge=0.001, le=1_000_000)] | None,
        Meta(description="In place of the setting `namespace_requests_per_second_most`."),
    ] = None
    min_isolation: Annotated[
        Isolation | None,
        Meta(
            description="sandbox: python and shell tasks must be in a sandbox or in a container; container: in a "
            "container. Other jobs are refused, and runs of those that are there wait until their job is changed."
        ),
    ] = None
    expected_version: int | UnsetType = UNSET

    def quotas(self) -> Quotas:
        """The quotas of this body."""
        said = {name: getattr(self, name) for name in QUOTA_NAMES}
        # The least of all levels is none to demand.
        least = None if self.min_isolation in (None, Isolation.PROCESS) else self.min_isolation.value
        return Quotas(**{**said, "min_isolation": least})


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
        return [] if row is None or (after is not None and row.name <= after) else [_visible(who, row)]

    @requires(Permission.NAMESPACES_READ)
    async def get(self, who: Principal, name: str) -> NamespaceRow:
        """One namespace. Raises `NotFound`, also for one in which the caller has no permission."""
        return _visible(who, await self._row(who, name))

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
            state=row.state if body.state is UNSET else NamespaceState(body.state),
        )
        if wanted == row:
            return _visible(who, row)
        changed = await self._changed(who, row, wanted)
        logger.info("namespace_changed", namespace=name, state=changed.state.value, by=who.name)
        return _visible(who, changed)

    @requires(Permission.NAMESPACES_ADMIN)
    async def quotas(self, who: Principal, name: str) -> NamespaceRow:
        """The namespace, with its quotas. Raises `NotFound`."""
        return await self._row(who, name)

    @requires(Permission.NAMESPACES_ADMIN)
    async def set_quotas(self, who: Principal, name: str, body: QuotasBody) -> NamespaceRow:
        """Replace the quotas of a namespace. Raises `NotFound`, `Forbidden`, `VersionConflict`."""
        _check_everywhere(who)
        row = await self._row(who, name)
        if body.expected_version is not UNSET and body.expected_version != row.version:
            raise VersionConflict(f"the namespace is at version {row.version}, not {body.expected_version}: look again")
        wanted = replace(row, quotas=body.quotas())
        if wanted == row:
            return row
        changed = await self._changed(who, row, wanted)
        self._context.floors.forget(name)
        if wanted.quotas.min_isolation != row.quotas.min_isolation:
            self._context.signals.send(Topic.QUEUES)  # runs below the least isolation may go on
        logger.info("quotas_set", namespace=name, quotas=changed.quotas.said(), by=who.name)
        return changed

    @requires(Permission.NAMESPACES_READ)
    async def usage(self, who: Principal, name: str) -> tuple[NamespaceRow, QuotaUse]:
        """The namespace, and what it uses of its quotas, counted now. Raises `NotFound`."""
        row = await self._row(who, name)
        return row, await self._context.store.quotas.use(name)

    @requires(Permission.NAMESPACES_ADMIN)
    async def remove(self, who: Principal, name: str) -> NamespaceRow:
        """Begin to remove a namespace that is closing, with all that it holds: schedulers carry it out. Again is the
        same. Raises `NotFound`, `Forbidden`, `Conflict`."""
        _check_everywhere(who)
        before = _shown(await self._row(who, name))
        audit = entry(who, AuditAction.NAMESPACE_REMOVED, "namespace", name, namespace=name, before=before)
        row = await self._context.surely(lambda: self._context.store.removals.begin(name, audit=audit))
        if row is None:
            raise _not_found(name)
        self._context.signals.send(Topic.KEYS)  # all: keys, sessions and roles of the namespace are good no longer
        self._context.signals.send(Topic.OPERATIONS)
        logger.info("namespace_removal_asked", namespace=name, by=who.name)
        return row

    @requires(Permission.NAMESPACES_READ)
    async def left(self, who: Principal, row: NamespaceRow) -> NamespaceLeft | None:
        """The rest of a namespace that is being removed; None: it is not. Raises `NotFound`."""
        if row.state is not NamespaceState.REMOVING:
            return None
        if not _is_everywhere(who) and row.name != who.namespace:
            raise _not_found(row.name)
        return await self._context.store.removals.left(row.name)

    async def _changed(self, who: Principal, row: NamespaceRow, wanted: NamespaceRow) -> NamespaceRow:
        """Store a namespace as it is wanted, with the entry of the change."""
        audit = entry(
            who,
            AuditAction.NAMESPACE_CHANGED,
            "namespace",
            row.name,
            namespace=row.name,
            before=_shown(row),
            after=_shown(wanted),
        )
        return await self._context.surely(lambda: self._namespaces.change(wanted, audit=audit))

    async def _row(self, who: Principal, name: str) -> NamespaceRow:
        row = await self._namespaces.get(name) if _is_everywhere(who) or name == who.namespace else None
        if row is None:
            raise _not_found(name)
        return row


def _shown(row: NamespaceRow) -> Mapping[str, Any]:
    """The fields of a namespace in the audit log."""
    return {"display_name": row.display_name, "state": row.state.value, "quotas": row.quotas.said()}


def _visible(who: Principal, row: NamespaceRow) -> NamespaceRow:
    """The namespace as the caller may see it: administrators of the installation are named to each other alone."""
    return row if _is_everywhere(who) or row.created_by == who.name else replace(row, created_by="")


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no namespace {name[:100]!r}")


def _is_everywhere(who: Principal) -> bool:
    return holds_everywhere(who, Permission.NAMESPACES_ADMIN)


def _check_everywhere(who: Principal) -> None:
    if not _is_everywhere(who):
        raise Forbidden("an administrator of the installation can do this")
