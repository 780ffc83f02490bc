"""Namespaces over several shards: a row in the first, beside people and keys, and one beside the jobs.

    add     placed ──► row beside the jobs, with the audit entry ──► row in the first
    change  first ──► its shard
    remove  begun in both ──► what it holds goes from its shard ──► gone there ──► gone in the first

Invariants: each write may be repeated after any error, and completes what was left half done. A namespace is closed for
a caller only when both rows say so. Whether something may be added to a namespace is decided where it is added.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from tickwise.adapters.store.sharded.fleet import Fleet
from tickwise.adapters.store.sharded.placing import FIRST
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import NotFound, VersionConflict
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.identity.namespaces import NamespaceLeft, NamespaceRow, NamespaceState, NewNamespace
from tickwise.ports.store import Store

T = TypeVar("T")


class Namespaces:
    """`NamespaceStore` of the port."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def add(self, namespace: NewNamespace, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """See the port."""
        number = await self._fleet.places.settle(namespace.name)
        if number == FIRST:
            return await self._first(lambda store: store.namespaces.add(namespace, audit=audit))
        # The first one knows whether the name is free: it may be that of a namespace that is being removed there.
        row = await self._first(lambda store: store.namespaces.get(namespace.name))
        if row is not None and (refusal := namespace.refusal(row)) is not None:
            raise refusal
        await self._fleet.of(namespace.name, lambda store: store.namespaces.add(namespace, audit=audit))
        return await self._first(lambda store: store.namespaces.add(namespace))

    async def get(self, name: str) -> NamespaceRow | None:
        """See the port."""
        return await self._first(lambda store: store.namespaces.get(name))

    async def page(self, *, after: str | None, limit: int) -> Sequence[NamespaceRow]:
        """See the port."""
        return await self._first(lambda store: store.namespaces.page(after=after, limit=limit))

    async def change(self, row: NamespaceRow, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """See the port."""
        changed = await self._first(lambda store: store.namespaces.change(row, audit=audit))
        if self._fleet.places.of(row.name) != FIRST:
            await self._fleet.of(row.name, lambda store: _follow(store, changed))
        return changed

    async def removed(self, names: Collection[str]) -> Mapping[str, float]:
        """See the port."""
        return await self._first(lambda store: store.namespaces.removed(names))

    async def _first(self, call: Callable[[Store], Awaitable[T]]) -> T:
        return await self._fleet.on(FIRST, call)


async def _follow(store: Store, wanted: NamespaceRow) -> None:
    """Bring the row of a namespace to what the first shard has. Its own version there is of no meaning outside."""
    for _ in range(8):
        there = await store.namespaces.get(wanted.name)
        if there is None:
            raise NotFound(f"there is no namespace {wanted.name}")
        if (there.display_name, there.state, there.quotas) == (wanted.display_name, wanted.state, wanted.quotas):
            return
        try:
            await store.namespaces.change(replace(wanted, version=there.version))
        except VersionConflict:
            continue  # another change of the namespace follows the first shard at the same time
        return


class Removals:
    """`RemovalStore` of the port."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def begin(self, name: str, *, audit: AuditEntry | None = None) -> NamespaceRow | None:
        """See the port."""
        row = await self._on(FIRST, lambda store: store.removals.begin(name, audit=audit))
        if row is not None and self._number(name) != FIRST:
            await self._fleet.of(name, lambda store: _begin(store, row))
        return row

    async def take(self, hold_seconds: float) -> str | None:
        """See the port. The first shard has them all."""
        return await self._on(FIRST, lambda store: store.removals.take(hold_seconds))

    async def put_back(self, name: str, seconds: float) -> None:
        """See the port."""
        await self._on(FIRST, lambda store: store.removals.put_back(name, seconds))

    async def left(self, name: str) -> NamespaceLeft:
        """See the port."""
        return await self._fleet.of(name, lambda store: store.removals.left(name))

    async def jobs(self, name: str, *, after: UUID | None, limit: int) -> Sequence[UUID]:
        """See the port."""
        return await self._fleet.of(name, lambda store: store.removals.jobs(name, after=after, limit=limit))

    async def drop_runs(self, name: str, run_ids: Collection[UUID]) -> int:
        """See the port."""
        return await self._fleet.of(name, lambda store: store.removals.drop_runs(name, run_ids))

    async def drop(self, name: str, limit: int) -> int:
        """See the port."""
        if self._number(name) != FIRST:
            row = await self._on(FIRST, lambda store: store.namespaces.get(name))
            if row is not None:
                await self._fleet.of(name, lambda store: _begin(store, row))
        dropped = await self._fleet.of(name, lambda store: store.removals.drop(name, limit))
        if self._number(name) != FIRST:
            dropped += await self._on(FIRST, lambda store: store.removals.drop(name, limit))
        return dropped

    async def end(self, name: str) -> bool:
        """See the port."""
        if self._number(name) == FIRST:
            return await self._on(FIRST, lambda store: store.removals.end(name))
        if not await self._fleet.of(name, lambda store: store.removals.end(name)):
            return False
        return await self._on(FIRST, lambda store: store.removals.end(name))

    def _number(self, name: str) -> int:
        return FIRST if name == DEFAULT_NAMESPACE else self._fleet.places.of(name)

    async def _on(self, number: int, call: Callable[[Store], Awaitable[T]]) -> T:
        return await self._fleet.on(number, call)


async def _begin(store: Store, row: NamespaceRow) -> None:
    """Begin the removal beside the jobs too, also where a change has not followed yet."""
    there = await store.namespaces.get(row.name)
    if there is not None and there.state is not row.state:
        if there.state is NamespaceState.ACTIVE:
            await _follow(store, replace(row, state=NamespaceState.CLOSING))
        await store.removals.begin(row.name)
