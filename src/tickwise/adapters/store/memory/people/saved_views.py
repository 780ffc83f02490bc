"""Saved views of lists."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.ports.store import SHARED, SavedView, check_views


class SavedViews(Duty):
    """`SavedViewStore` of the port."""

    async def put(self, view: SavedView, *, audit: AuditEntry | None = None) -> None:
        self._state.check_open(view.namespace, or_closing=False)
        views, name = self._state.saved_views, (view.namespace, view.owner, view.path, view.name)
        others = sum(each[:2] == name[:2] and each != name for each in views)
        check_views(others, shared=view.owner == SHARED)
        views[name] = view
        self._state.audit.write(audit)

    async def find(self, namespace: str, owners: Sequence[str]) -> Sequence[SavedView]:
        found = [each for each in self._state.saved_views.values() if each.namespace == namespace]
        return sorted(
            (each for each in found if each.owner in owners), key=lambda each: (each.path, each.name, each.owner)
        )

    async def remove(
        self, namespace: str, owner: str, *, path: str, name: str, audit: AuditEntry | None = None
    ) -> bool:
        if self._state.saved_views.pop((namespace, owner, path, name), None) is None:
            return False
        self._state.audit.write(audit)
        return True
