"""Namespaces: the tenants of an installation, and their end in steps.

    add ──► active ◄──► closing ──begin──► removing ──drop, page by page──► end: gone, its name is free
             takes new     takes nothing new,    nobody has access to it,
             things        what is there goes on  what is there ends and goes

Invariants: the namespace `default` is always there and active. Whether a namespace takes new things is decided by the
store, with the write that would add one: nothing is added after the answer that it is closing. A later namespace of the
same name has nothing of a former one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.quotas import NO_QUOTAS, Quotas

QUOTAS_FRESH_SECONDS: Final = 4.0
"""The greatest age of the quotas that a process goes by."""

SETTLE_SECONDS: Final = 6.0
"""A removal takes so long at least: more than the time for which a process remembers who has access to a namespace."""
MAX_LEFT: Final = 10_000
"""The highest count of the rest of a namespace."""
REMOVED_SECONDS: Final = 30 * 86_400.0
"""A namespace that is gone is remembered for so long: requests that were accepted for it are refused."""


class NamespaceState(StrEnum):
    """The state of a namespace."""

    ACTIVE = "active"
    CLOSING = "closing"
    """The namespace takes nothing new; what is there goes on. It can be opened again."""
    REMOVING = "removing"
    """The namespace is being removed, for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRow:
    """A namespace."""

    name: str
    display_name: str
    state: NamespaceState
    created_at: float
    created_by: str
    version: int
    quotas: Quotas = NO_QUOTAS
    """In force everywhere `QUOTAS_FRESH_SECONDS` after they were changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNamespace:
    """A namespace to add."""

    name: str
    display_name: str
    created_by: str

    def is_same(self, row: NamespaceRow) -> bool:
        """Check whether the row is the one that this adds: a repeat changes nothing."""
        return (row.display_name, row.state) == (self.display_name, NamespaceState.ACTIVE)

    def refusal(self, row: NamespaceRow) -> Conflict | None:
        """The reason why it cannot be added beside the row of its name; None: the row is the one that this adds."""
        if row.state is NamespaceState.REMOVING:
            return namespace_removing(self.name)
        return None if self.is_same(row) else namespace_exists(self.name)


class NamespaceLeft(NamedTuple):
    """The rest of a namespace, each number up to `MAX_LEFT`."""

    jobs: int
    unfinished_runs: int
    ended_runs: int


def namespace_exists(name: str) -> Conflict:
    """The error of another namespace with this name."""
    return Conflict(
        f"there is a namespace {name} with other settings: change it, or take another name", code="namespace_exists"
    )


def namespace_removing(name: str) -> Conflict:
    """The error of a change of a namespace that is being removed."""
    return Conflict(
        f"the namespace {name} is being removed, which cannot be undone. A namespace of this name can be added once "
        f"that is over: GET /api/v1/namespaces/{name} shows what is left, and then 404",
        code="namespace_removing",
    )


def namespace_not_closing(name: str) -> Conflict:
    """The error of a removal that comes too early."""
    return Conflict(
        f'the namespace {name} is not closing: close it first, with PATCH and {{"state": "closing"}}',
        code="namespace_not_closing",
    )


def namespace_closing(name: str) -> Conflict:
    """The error of something new in a namespace that is closing."""
    return Conflict(
        f"the namespace {name} is closing, or was removed, and takes nothing new; open it again, or use another one",
        code="namespace_closing",
    )


def check_closing(row: NamespaceRow) -> None:
    """Raises `Conflict`, code `namespace_needed`, for closing the namespace `default`."""
    if row.name == DEFAULT_NAMESPACE and row.state is not NamespaceState.ACTIVE:
        raise Conflict(f"the namespace {DEFAULT_NAMESPACE} is always there", code="namespace_needed")


def check_removal(row: NamespaceRow) -> None:
    """Raises `Conflict` unless a namespace may be removed: codes `namespace_needed`, `namespace_not_closing`."""
    if row.name == DEFAULT_NAMESPACE:
        raise Conflict(f"the namespace {DEFAULT_NAMESPACE} is always there", code="namespace_needed")
    if row.state is NamespaceState.ACTIVE:
        raise namespace_not_closing(row.name)


class NamespaceStore(Protocol):
    """Namespaces. All methods may be called again after an `InDoubt`."""

    async def add(self, namespace: NewNamespace, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """Keep it. One of this name that is the same in all fields is returned as it is; another one raises
        `Conflict`, code `namespace_exists`, and one that is being removed, code `namespace_removing`."""
        ...

    async def get(self, name: str) -> NamespaceRow | None:
        """One namespace."""
        ...

    async def page(self, *, after: str | None, limit: int) -> Sequence[NamespaceRow]:
        """Namespaces by name; those after `after`."""
        ...

    async def change(self, row: NamespaceRow, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """Replace display name, state and quotas of the version that `row` says; the version grows by one. Raises
        `VersionConflict`, `NotFound`, and `Conflict` for closing `default` and for one that is being removed.

        When it returns a closed namespace, every call that found it open has ended, and every later one finds it
        closed. The calls that add: `JobStore.add`, `RunStore.add`, `RuleStore.put` and `TaskStore.put`,
        `LetterStore.settle` with new runs, `Keys.add`, and `UserStore` for roles that a person did not have."""
        ...

    async def removed(self, names: Collection[str]) -> Mapping[str, float]:
        """The times at which the last namespaces of these names went, within `REMOVED_SECONDS`. There may be a
        namespace of the name again."""
        ...


class RemovalStore(Protocol):
    """Removals of namespaces. All methods may be called again after an `InDoubt`."""

    async def begin(self, name: str, *, audit: AuditEntry | None = None) -> NamespaceRow | None:
        """Begin to remove a namespace that is closing: from now on it is REMOVING, and holds and roles, changes of
        calendars and windows, and new operations are refused, too.

        In the same transaction its custom roles and memberships go, the sessions that are bound to it end, and so do
        the keys that work in it alone; keys of several namespaces lose this one. Tokens of the people who were members
        are refused from then on. Again is the same. None: there is no such namespace. Raises `Conflict`, codes
        `namespace_not_closing`, `namespace_needed`."""
        ...

    async def take(self, hold_seconds: float) -> str | None:
        """Take in hand, for `hold_seconds`, the removal that waits longest and that nobody has. None: there is none."""
        ...

    async def put_back(self, name: str, seconds: float) -> None:
        """The removal of this namespace may be taken again `seconds` from now."""
        ...

    async def left(self, name: str) -> NamespaceLeft:
        """The rest of a namespace."""
        ...

    async def jobs(self, name: str, *, after: UUID | None, limit: int) -> Sequence[UUID]:
        """The jobs of a namespace that go on by themselves or on demand: with a plan, a pause, an unfinished run or
        without a schedule, and not cancelled. By id, those above `after`."""
        ...

    async def drop_runs(self, name: str, run_ids: Collection[UUID]) -> int:
        """Delete these ended runs of a namespace that is being removed, with their attempts and letters; how many there
        were."""
        ...

    async def drop(self, name: str, limit: int) -> int:
        """Delete up to `limit` things of each sort that a namespace that is being removed holds, besides runs: jobs
        without unfinished runs, calendars and windows, tasks, operations, receipts, counts. How many were deleted; 0:
        none is left, or it is not being removed."""
        ...

    async def end(self, name: str) -> bool:
        """The namespace is gone, and its name is free; True also if it was gone already. False, and nothing changes:
        a job or a run is left, or its removal began less than `SETTLE_SECONDS` ago."""
        ...
