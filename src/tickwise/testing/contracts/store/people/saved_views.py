"""Saved views: one of a name, for their owner or for the namespace, and never too many."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.errors import Conflict
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import MAX_VIEWS, SHARED, SavedView, Store
from tickwise.testing.contracts.base import StoreContract

ADA, BOB = "@user/ada", "@user/bob"


class SavedViewsContract(StoreContract):
    """`saved_views.put`, `.find`, `.remove`."""

    def view(self, name: str = "failed", **fields: Any) -> SavedView:
        """One of Ada's."""
        given: dict[str, Any] = {
            "namespace": "default", "owner": ADA, "path": "/runs", "name": name, "query": "status=FAILED", "by": "ada",
        }  # fmt: skip
        return SavedView(**{**given, **fields})

    async def test_a_view_is_found_by_its_owner_alone(self, store: Store) -> None:
        """A shared one by all who ask for the shared ones."""
        own, shared = self.view(), self.view("all of acme", owner=SHARED, query="label=customer%3Dacme")
        for each in (own, shared):
            await store.saved_views.put(each)
        assert await store.saved_views.find("default", [ADA, SHARED]) == [shared, own]
        assert await store.saved_views.find("default", [BOB, SHARED]) == [shared]
        assert await store.saved_views.find("default", []) == []
        assert await store.saved_views.find("elsewhere", [ADA, SHARED]) == []

    async def test_a_view_takes_the_place_of_the_one_of_its_name(self, store: Store) -> None:
        """On the same list; on another one it is another."""
        first, again = self.view(), self.view(query="status=CANCELLED", by="bob")
        other = self.view(path="/jobs")
        for each in (first, other, again):
            await store.saved_views.put(each)
        assert await store.saved_views.find("default", [ADA]) == [other, again]

    async def test_views_are_told_by_list_and_name(self, store: Store) -> None:
        """By code point, in each store."""
        for path, name in (("/runs", "b"), ("/runs", "B"), ("/jobs", "Ü"), ("/jobs", "z"), ("/runs", "a")):
            await store.saved_views.put(self.view(name, path=path))
        found = [(each.path, each.name) for each in await store.saved_views.find("default", [ADA])]
        assert found == [("/jobs", "z"), ("/jobs", "Ü"), ("/runs", "B"), ("/runs", "a"), ("/runs", "b")]

    async def test_a_view_is_removed_once(self, store: Store) -> None:
        """And that of another owner stays."""
        await store.saved_views.put(self.view())
        await store.saved_views.put(self.view(owner=BOB))
        assert await store.saved_views.remove("default", ADA, path="/runs", name="failed") is True
        assert await store.saved_views.remove("default", ADA, path="/runs", name="failed") is False
        assert [each.owner for each in await store.saved_views.find("default", [ADA, BOB])] == [BOB]

    async def test_a_change_of_a_view_is_in_the_audit_log(self, store: Store) -> None:
        """In its transaction: what was refused, and what was not there, has no entry."""
        source = Source(CallerKind.PERSON, None, "ada")
        saved = AuditEntry("default", AuditAction.VIEW_SAVED, source, "view", target="failed")
        removed = AuditEntry("default", AuditAction.VIEW_REMOVED, source, "view", target="failed")
        await store.saved_views.put(self.view(), audit=saved)
        for _ in range(2):
            await store.saved_views.remove("default", ADA, path="/runs", name="failed", audit=removed)
        for number in range(MAX_VIEWS):
            await store.saved_views.put(self.view(f"{number:03}"))
        with pytest.raises(Conflict):
            await store.saved_views.put(self.view("one more"), audit=saved)
        found = [row.action for row in await store.audit.find(AuditQuery(namespace="default"))]
        assert found == [AuditAction.VIEW_REMOVED, AuditAction.VIEW_SAVED]

    async def test_no_owner_has_too_many(self, store: Store, other: Store) -> None:
        """Also if they are saved at once; a view can be saved anew all the same."""
        for number in range(MAX_VIEWS - 1):
            await store.saved_views.put(self.view(f"{number:03}"))
        asked = [client.saved_views.put(self.view(f"last {at}")) for at, client in enumerate([store, other] * 3)]
        refused = [each for each in await asyncio.gather(*asked, return_exceptions=True) if each is not None]
        assert len(refused) == len(asked) - 1
        assert all(isinstance(each, Conflict) and each.code == "views_exhausted" for each in refused)
        assert len(await store.saved_views.find("default", [ADA])) == MAX_VIEWS
        await store.saved_views.put(self.view("000", query="changed=yes"))
        await store.saved_views.put(self.view(owner=BOB))
        with pytest.raises(Conflict):
            await store.saved_views.put(self.view("one more"))
