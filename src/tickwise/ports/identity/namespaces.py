"""Namespaces: the tenants of an installation, and their end in steps.

    add ──► active ──close──► closing: nothing new, jobs are cancelled ──► empty ──remove──► gone, its audit log stays

Invariant: the namespace `default` is always there and active.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict
from tickwise.domain.model import DEFAULT_NAMESPACE


class NamespaceState(StrEnum):
    """The state of a namespace."""

    ACTIVE = "active"
    CLOSING = "closing"
    """Nothing new is taken; what is there ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRow:
    """A namespace."""

    name: str
    display_name: str
    state: NamespaceState
    created_at: float
    created_by: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNamespace:
    """A namespace to add."""

    name: str
    display_name: str
    created_by: str

    def is_same(self, row: NamespaceRow) -> bool:
        """Check whether the row is the one that this adds: a repeat changes nothing."""
        return (row.display_name, row.state) == (self.display_name, NamespaceState.ACTIVE)


def namespace_exists(name: str) -> Conflict:
    """The error of another namespace with this name."""
    return Conflict(
        f"there is a namespace {name} with other settings: change it, or take another name", code="namespace_exists"
    )


def namespace_not_empty(name: str) -> Conflict:
    """The error of a removal that comes too early."""
    return Conflict(
        f"the namespace {name} still has jobs, keys or members, or is not closing: close it, then remove them",
        code="namespace_not_empty",
    )


def namespace_closing(name: str) -> Conflict:
    """The error of a new job in a namespace that is closing."""
    return Conflict(
        f"the namespace {name} is closing and takes no new jobs; open it again, or use another one",
        code="namespace_closing",
    )


def check_closing(row: NamespaceRow) -> None:
    """Raises `Conflict`, code `namespace_needed`, for closing the namespace `default`."""
    if row.name == DEFAULT_NAMESPACE and row.state is NamespaceState.CLOSING:
        raise Conflict(f"the namespace {DEFAULT_NAMESPACE} is always there", code="namespace_needed")


class NamespaceStore(Protocol):
    """Namespaces. All methods may be called again after an `InDoubt`."""

    async def add(self, namespace: NewNamespace, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """Keep it. One of this name that is the same in all fields is returned as it is; another one raises
        `Conflict`, code `namespace_exists`."""
        ...

    async def get(self, name: str) -> NamespaceRow | None:
        """One namespace."""
        ...

    async def page(self, *, after: str | None, limit: int) -> Sequence[NamespaceRow]:
        """Namespaces by name; those after `after`."""
        ...

    async def change(self, row: NamespaceRow, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """Replace display name and state of the version that `row` says; the version grows by one. Raises
        `VersionConflict`, `NotFound`, and `Conflict` for closing `default`."""
        ...

    async def remove(self, name: str, *, audit: AuditEntry | None = None) -> bool:
        """Remove a namespace that is closing and has no job, run, key or member; False if it is gone already. Raises
        `Conflict`, code `namespace_not_empty`."""
        ...
