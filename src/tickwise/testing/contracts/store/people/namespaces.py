"""Tenants: their names and their end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.identity.namespaces import NamespaceState, NewNamespace
from tickwise.ports.store import Store


def new(name: str, display_name: str = "") -> NewNamespace:
    """A namespace to add."""
    return NewNamespace(name=name, display_name=display_name or name, created_by="ada")


class NamespacesContract:
    """Namespaces are added, changed, listed and removed."""

    async def test_the_namespace_default_is_there(self, store: Store) -> None:
        """From the first start, and for good."""
        found = await store.namespaces.get(DEFAULT_NAMESPACE)
        assert found is not None
        assert found.state is NamespaceState.ACTIVE
        with pytest.raises(Conflict) as refusal:
            await store.namespaces.change(replace(found, state=NamespaceState.CLOSING))
        assert refusal.value.code == "namespace_needed"
        with pytest.raises(Conflict):
            await store.removals.begin(DEFAULT_NAMESPACE)

    async def test_a_namespace_is_added_once(self, store: Store) -> None:
        """A repeat changes nothing; another namespace of the name is refused."""
        row = await store.namespaces.add(new("team-a", "Team A"))
        assert row == await store.namespaces.add(new("team-a", "Team A"))
        assert row == await store.namespaces.get("team-a")
        assert (row.name, row.display_name, row.version) == ("team-a", "Team A", 1)
        with pytest.raises(Conflict) as refusal:
            await store.namespaces.add(new("team-a", "Another"))
        assert refusal.value.code == "namespace_exists"

    async def test_namespaces_are_listed_by_name(self, store: Store) -> None:
        """In pages."""
        for name in ("beta", "alpha", "z-1"):
            await store.namespaces.add(new(name))
        names = [row.name for row in await store.namespaces.page(after=None, limit=100)]
        assert names == sorted(names)
        assert {"alpha", "beta", "z-1", DEFAULT_NAMESPACE} <= set(names)
        rest = await store.namespaces.page(after="alpha", limit=1)
        assert [row.name for row in rest] == ["beta"]

    async def test_a_change_is_of_the_version_that_was_seen(self, store: Store) -> None:
        """A repeat after a lost answer changes nothing more."""
        row = await store.namespaces.add(new("team-a"))
        wanted = replace(row, display_name="A")
        changed = await store.namespaces.change(wanted)
        assert (changed.display_name, changed.version) == ("A", 2)
        assert changed == await store.namespaces.change(wanted)
        with pytest.raises(VersionConflict):
            await store.namespaces.change(replace(row, display_name="B"))
        with pytest.raises(NotFound):
            await store.namespaces.change(replace(row, name="team-b"))
