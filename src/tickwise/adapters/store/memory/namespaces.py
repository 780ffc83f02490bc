"""Namespaces: the tenants of an installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import NotFound, VersionConflict
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.identity.namespaces import (
    NamespaceRow,
    NamespaceState,
    NewNamespace,
    check_closing,
    namespace_exists,
    namespace_not_empty,
)


class Namespaces(Duty):
    """`NamespaceStore` of the port."""

    async def add(self, namespace: NewNamespace, *, audit: AuditEntry | None = None) -> NamespaceRow:
        found = self._state.namespaces.get(namespace.name)
        if found is None:
            found = self._state.namespaces[namespace.name] = NamespaceRow(
                name=namespace.name,
                display_name=namespace.display_name,
                state=NamespaceState.ACTIVE,
                created_at=self._state.now(),
                created_by=namespace.created_by,
                version=1,
            )
            self._state.audit.write(audit)
        elif not namespace.is_same(found):
            raise namespace_exists(namespace.name)
        return found

    async def get(self, name: str) -> NamespaceRow | None:
        return self._state.namespaces.get(name)

    async def page(self, *, after: str | None, limit: int) -> Sequence[NamespaceRow]:
        names = sorted(name for name in self._state.namespaces if after is None or name > after)
        return [self._state.namespaces[name] for name in names[:limit]]

    async def change(self, row: NamespaceRow, *, audit: AuditEntry | None = None) -> NamespaceRow:
        found = self._state.namespaces.get(row.name)
        if found is None:
            raise NotFound(f"there is no namespace {row.name}")
        wanted = replace(row, version=row.version + 1, created_at=found.created_at, created_by=found.created_by)
        if wanted == found:
            return found
        if found.version != row.version:
            raise VersionConflict(f"the namespace is at version {found.version}, not {row.version}: look again")
        check_closing(row)
        self._state.namespaces[row.name] = wanted
        self._state.audit.write(audit)
        return wanted

    async def remove(self, name: str, *, audit: AuditEntry | None = None) -> bool:
        found = self._state.namespaces.get(name)
        if found is None:
            return False
        if found.state is not NamespaceState.CLOSING or self._holds(name):
            raise namespace_not_empty(name)
        del self._state.namespaces[name]
        self._state.audit.write(audit)
        return True

    def _holds(self, name: str) -> bool:
        now = self._state.now()
        return (
            name == DEFAULT_NAMESPACE
            or any(job.namespace == name for job in self._state.jobs.values())
            or any(key.good(now) and key.key.principal.namespace == name for key in self._state.api_keys.values())
            or any(member.namespace == name for each in self._state.people.values() for member in each.row.roles)
        )
