"""Namespaces: the tenants of an installation. Their removal has a part of its own, `removals`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import NotFound, VersionConflict
from tickwise.ports.identity.namespaces import (
    NamespaceRow,
    NamespaceState,
    NewNamespace,
    check_closing,
    namespace_removing,
)

K = TypeVar("K")
V = TypeVar("V")


class Namespaces(Duty):
    """`NamespaceStore` of the port."""

    async def add(self, namespace: NewNamespace, *, audit: AuditEntry | None = None) -> NamespaceRow:
        name = namespace.name
        found = self._state.namespaces.get(name)
        if found is None:
            if name in self._state.namespaces_removed:
                drop_late(self._state, name, len(self._state.operations) + len(self._state.receipts))
            found = self._state.namespaces[name] = NamespaceRow(
                name=name,
                display_name=namespace.display_name,
                state=NamespaceState.ACTIVE,
                created_at=self._state.now(),
                created_by=namespace.created_by,
                version=1,
            )
            self._state.audit.write(audit)
        elif (refusal := namespace.refusal(found)) is not None:
            raise refusal
        return found

    async def get(self, name: str) -> NamespaceRow | None:
        return self._state.namespaces.get(name)

    async def page(self, *, after: str | None, limit: int) -> Sequence[NamespaceRow]:
        names = sorted(name for name in self._state.namespaces if after is None or name > after)
        return [self._state.namespaces[name] for name in names[:limit]]

    async def change(self, row: NamespaceRow, *, audit: AuditEntry | None = None) -> NamespaceRow:
        check_closing(row)
        found = self._state.namespaces.get(row.name)
        if found is None:
            raise NotFound(f"there is no namespace {row.name}")
        if found.state is NamespaceState.REMOVING:
            raise namespace_removing(row.name)
        wanted = replace(row, version=row.version + 1, created_at=found.created_at, created_by=found.created_by)
        if wanted == found:
            return found
        if found.version != row.version:
            raise VersionConflict(f"the namespace is at version {found.version}, not {row.version}: look again")
        self._state.namespaces[row.name] = wanted
        self._state.audit.write(audit)
        return wanted

    async def removed(self, names: Collection[str]) -> Mapping[str, float]:
        return {name: at for name, at in self._state.namespaces_removed.items() if name in names}


def drop_late(state: State, name: str, limit: int) -> int:
    """Delete operations of a namespace, and answers to requests in it; how many."""
    operations = [each for each, record in state.operations.items() if record.row.namespace == name]
    receipts = [each for each in state.receipts if each[0].startswith(f"{name}/")]
    return drop(state.operations, operations, limit) + drop(state.receipts, receipts, limit)


def drop(things: MutableMapping[K, V], keys: Collection[K], limit: int) -> int:
    """Delete up to so many of these; how many."""
    dropped = list(islice(keys, limit))
    for key in dropped:
        del things[key]
    return len(dropped)
