"""Status pages: one of a slug, looks that are counted once, days by state, announcements."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.observing.status_pages import (
    COUNTED_SECONDS,
    HISTORY_DAYS,
    MAX_ANNOUNCEMENTS,
    MAX_PAGES,
    Announcement,
    AnnouncementKind,
    AnnouncementState,
    AnnouncementUpdate,
    ComponentState,
    StateSeconds,
    StatusComponent,
    StatusPage,
)
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import StatusPageQuery, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.removals import TEAM, begin_removal, close, open_namespace
from tickwise.testing.factories import Factory

DAY = 86_400.0


def entry(action: AuditAction, target: str) -> AuditEntry:
    """An entry of the audit log."""
    return AuditEntry("default", action, Source(CallerKind.KEY, None, "ada"), "status_page", target)


def page(make: Factory, slug: str = "acme", **fields: Any) -> StatusPage:
    """A page that is public."""
    given: dict[str, Any] = {
        "page_id": make.identifier(), "namespace": "default", "slug": slug, "title": "Acme", "enabled": True,
        "components": (
            StatusComponent(name="Nightly exports", jobs=(make.identifier(),)),
            StatusComponent(name="Mail", labels={"team": "mail"}),
        ),
        "created_at": make.now, "created_by": "ada",
    }  # fmt: skip
    return StatusPage(**{**given, **fields})


def incident(make: Factory, of: StatusPage, **fields: Any) -> Announcement:
    """An incident on a page."""
    given: dict[str, Any] = {
        "announcement_id": make.identifier(), "page_id": of.page_id, "kind": AnnouncementKind.INCIDENT,
        "title": "Exports are late", "components": ("Nightly exports",), "starts_at": 1_790_000_000.0,
        "updates": (AnnouncementUpdate(1_790_000_000.0, AnnouncementState.INVESTIGATING, "We look at it."),),
        "created_by": "ada",
    }  # fmt: skip
    return Announcement(**{**given, **fields})


async def due(store: Store, limit: int) -> Sequence[StatusPage]:
    """The pages at which nobody has looked for a minute."""
    query = StatusPageQuery(namespace=None, unseen_seconds=60.0, limit=limit)
    return await store.status_pages.find(query)


async def refused(call: Awaitable[object]) -> str:
    """The code with which a call is refused."""
    with pytest.raises(Conflict) as refusal:
        await call
    return refusal.value.code


class StatusPagesContract(StoreContract):
    """`StatusPageStore`."""

    async def test_a_page_is_found_as_it_was_stored(self, store: Store, make: Factory) -> None:
        """In its namespace alone; twice is once; the first that was made comes first."""
        made = page(make, intro="What we run for you", shows_uptime=True, shows_punctuality=True, history_days=30)
        stored = await store.status_pages.add(made)
        assert stored == replace(made, created_at=stored.created_at)
        assert abs(stored.created_at - make.now) < 60
        assert await store.status_pages.add(replace(made, title="other")) == stored
        await self.shift(store, 1.0)
        second = await store.status_pages.add(page(make, "internal", enabled=False, components=()))
        assert [stored, second] == await store.status_pages.find(StatusPageQuery(namespace="default"))
        assert [stored] == await store.status_pages.find(StatusPageQuery(namespace=None, limit=1))
        assert [second] == await store.status_pages.find(StatusPageQuery(namespace=None, enabled=False))
        assert [second] == await store.status_pages.find(StatusPageQuery(namespace="default", page_id=second.page_id))
        assert [] == await store.status_pages.find(StatusPageQuery(namespace=TEAM))

    async def test_a_slug_is_taken_once_in_the_installation(self, store: Store, make: Factory) -> None:
        """Also by a change, and by another namespace."""
        await open_namespace(store)
        await store.status_pages.add(page(make))
        assert "slug_taken" == await refused(store.status_pages.add(page(make, namespace=TEAM)))
        other = await store.status_pages.add(page(make, "other", namespace=TEAM))
        assert "slug_taken" == await refused(store.status_pages.change(replace(other, slug="acme")))

    async def test_a_change_names_the_version_that_it_replaces(self, store: Store, make: Factory) -> None:
        """The findings of looks stay for the components that are left, and go with the others."""
        first = await store.status_pages.add(page(make))
        states = {"Nightly exports": ComponentState.DOWN, "Mail": ComponentState.OPERATIONAL}
        assert await store.status_pages.look(first.page_id, 0, states)
        await self.shift(store, 30.0)
        assert await store.status_pages.look(first.page_id, 1, states)
        wanted = replace(first, title="Acme Inc.", slug="acme-inc", enabled=False, components=first.components[1:])
        second = await store.status_pages.change(wanted)
        assert second is not None
        assert (2, 2, "acme-inc", "Acme Inc.", False) == (
            second.version, second.looks, second.slug, second.title, second.enabled,
        )  # fmt: skip
        assert second.states == {"Mail": ComponentState.OPERATIONAL}
        assert ["Mail"] == [each.component for each in await store.status_pages.days([first.page_id])]
        assert "version_changed" == await refused(store.status_pages.change(wanted))
        assert await store.status_pages.change(replace(second, namespace=TEAM)) is None
        assert await store.status_pages.change(page(make, "nowhere")) is None

    async def test_each_change_writes_its_entry(self, store: Store, make: Factory) -> None:
        """In its transaction: what is refused leaves none."""
        made, pages = page(make), store.status_pages
        stored = await pages.add(made, audit=entry(AuditAction.STATUS_PAGE_ADDED, "added"))
        with pytest.raises(Conflict):
            await pages.add(page(make), audit=entry(AuditAction.STATUS_PAGE_ADDED, "refused"))
        assert await pages.change(stored, audit=entry(AuditAction.STATUS_PAGE_CHANGED, "changed"))
        told = await pages.announce(
            "default", incident(make, made), audit=entry(AuditAction.ANNOUNCEMENT_ADDED, "told")
        )
        assert await pages.update("default", told, audit=entry(AuditAction.ANNOUNCEMENT_CHANGED, "updated"))
        gone = entry(AuditAction.ANNOUNCEMENT_REMOVED, "gone")
        assert await pages.retract("default", made.page_id, told.announcement_id, audit=gone)
        assert not await pages.retract("default", made.page_id, told.announcement_id, audit=gone)
        assert await pages.remove("default", made.page_id, audit=entry(AuditAction.STATUS_PAGE_REMOVED, "removed"))
        rows = await store.audit.find(AuditQuery(namespace="default", limit=20))
        assert ["added", "changed", "told", "updated", "gone", "removed"] == [row.target for row in reversed(rows)]

    async def test_a_page_goes_with_all_that_it_has(self, store: Store, make: Factory) -> None:
        """Only in its namespace; its slug is free then."""
        made = await store.status_pages.add(page(make))
        await store.status_pages.announce("default", incident(make, made))
        await store.status_pages.look(made.page_id, 0, {"Mail": ComponentState.DOWN})
        await self.shift(store, 5.0)
        await store.status_pages.look(made.page_id, 1, {"Mail": ComponentState.DOWN})
        assert not await store.status_pages.remove(TEAM, made.page_id)
        assert await store.status_pages.remove("default", made.page_id)
        assert not await store.status_pages.remove("default", made.page_id)
        assert [] == await store.status_pages.days([made.page_id])
        assert [] == await store.status_pages.announcements([made.page_id])
        await store.status_pages.add(page(make))

    async def test_no_namespace_has_too_many(self, store: Store, other: Store, make: Factory) -> None:
        """Also if they are added at once."""
        for number in range(MAX_PAGES - 1):
            await store.status_pages.add(page(make, f"p{number}", components=()))
        asked = [client.status_pages.add(page(make, f"last{at}")) for at, client in enumerate([store, other] * 2)]
        failed = [each for each in await asyncio.gather(*asked, return_exceptions=True) if isinstance(each, Exception)]
        assert ["status_pages_exhausted"] * 3 == [getattr(each, "code", "") for each in failed]

    async def test_the_page_that_waits_longest_is_due_first(self, store: Store, make: Factory) -> None:
        """One that nobody has looked at before all others; one that is not public never."""
        first = await store.status_pages.add(page(make, "a"))
        await store.status_pages.add(page(make, "hidden", enabled=False))
        assert await store.status_pages.look(first.page_id, 0, {})
        assert [] == await due(store, 10)
        await self.shift(store, 61.0)
        second = await store.status_pages.add(page(make, "b"))
        assert ["b", "a"] == [each.slug for each in await due(store, 10)]
        assert ["b"] == [each.slug for each in await due(store, 1)]
        assert await store.status_pages.look(second.page_id, 0, {})
        assert ["a"] == [each.slug for each in await due(store, 10)]

    async def test_of_two_looks_at_once_one_counts(self, store: Store, other: Store, make: Factory) -> None:
        """The other one is told so, and changes nothing."""
        made = await store.status_pages.add(page(make))
        assert await store.status_pages.look(made.page_id, 0, {})
        await self.shift(store, 50.0)
        down = {"Mail": ComponentState.DOWN}
        looks = [client.status_pages.look(made.page_id, 1, down) for client in (store, other) * 3]
        assert [False] * 5 + [True] == sorted(await asyncio.gather(*looks))
        [day] = await store.status_pages.days([made.page_id])
        assert 50.0 <= day.seconds.down < 99.0
        assert not await store.status_pages.look(make.identifier(), 0, down)
        await store.status_pages.change(replace(made, enabled=False))
        assert not await store.status_pages.look(made.page_id, 2, down)

    async def test_a_state_counts_for_the_time_since_the_look_before(self, store: Store, make: Factory) -> None:
        """Not for the time before the first one, not for a gap in which nobody looked, and not if it is unknown."""
        made = await store.status_pages.add(page(make))
        found = {
            "a": ComponentState.OPERATIONAL, "b": ComponentState.LATE, "c": ComponentState.DEGRADED,
            "d": ComponentState.DOWN, "e": ComponentState.UNKNOWN,
        }  # fmt: skip
        assert await store.status_pages.look(made.page_id, 0, found)
        assert [] == await store.status_pages.days([made.page_id])
        await self.shift(store, COUNTED_SECONDS + 3_600.0)
        before = await store.now()
        assert await store.status_pages.look(made.page_id, 1, found)
        days = await store.status_pages.days([made.page_id])
        most = COUNTED_SECONDS
        assert [
            ("a", StateSeconds(operational=most)), ("b", StateSeconds(late=most)), ("c", StateSeconds(degraded=most)),
            ("d", StateSeconds(down=most)),
        ] == [(each.component, each.seconds) for each in days]  # fmt: skip
        assert {day.day for day in days} <= {
            datetime.fromtimestamp(at, UTC).date() for at in (before, await store.now())
        }
        [now] = await store.status_pages.find(StatusPageQuery(namespace="default"))
        assert (2, found) == (now.looks, now.states)
        assert now.looked_at is not None
        assert now.looked_at >= before - 1.0
        await self.shift(store, DAY)
        assert await store.status_pages.look(made.page_id, 2, {"a": ComponentState.DOWN})
        two = [each for each in await store.status_pages.days([made.page_id]) if each.component == "a"]
        assert [StateSeconds(operational=most), StateSeconds(down=most)] == [each.seconds for each in two]
        assert two[0].day + timedelta(days=1) == two[1].day

    async def test_days_before_the_history_are_dropped(self, store: Store, make: Factory) -> None:
        """By the next look at the page."""
        made = await store.status_pages.add(page(make))
        waits = (0.0, 60.0, (HISTORY_DAYS - 1) * DAY, DAY)
        for looks, (wait, left) in enumerate(zip(waits, (0, 1, 2, 2), strict=True)):
            await self.shift(store, wait)
            assert await store.status_pages.look(made.page_id, looks, {"Mail": ComponentState.DOWN})
            days = await store.status_pages.days([made.page_id])
            assert left == len(days)
        assert timedelta(days=1) == days[1].day - days[0].day

    async def test_announcements_are_told_and_updated(self, store: Store, make: Factory) -> None:
        """The newest first; an update names the version that it replaces."""
        made = await store.status_pages.add(page(make))
        first = await store.status_pages.announce("default", incident(make, made))
        assert await store.status_pages.announce("default", replace(first, title="other")) == first
        await self.shift(store, 1.0)
        planned = incident(
            make, made, kind=AnnouncementKind.MAINTENANCE, ends_at=1_790_003_600.0, components=(),
            updates=(AnnouncementUpdate(1_790_000_000.5, AnnouncementState.ANNOUNCED, "The database moves."),),
        )  # fmt: skip
        second = await store.status_pages.announce("default", planned)
        assert second == planned
        both = {first.announcement_id: first, second.announcement_id: second}
        assert [both[each] for each in sorted(both, reverse=True)] == await store.status_pages.announcements(
            [made.page_id]
        )
        more = (*first.updates, AnnouncementUpdate(1_790_000_060.0, AnnouncementState.RESOLVED, "It is over."))
        changed = await store.status_pages.update("default", replace(first, updates=more, title="Exports were late"))
        assert changed == replace(first, updates=more, title="Exports were late", version=2)
        assert changed.is_over
        assert "version_changed" == await refused(store.status_pages.update("default", first))
        assert await store.status_pages.update(TEAM, changed) is None
        assert await store.status_pages.update("default", incident(make, made)) is None
        assert not await store.status_pages.retract(TEAM, made.page_id, first.announcement_id)
        assert await store.status_pages.retract("default", made.page_id, first.announcement_id)
        assert [second] == await store.status_pages.announcements([made.page_id])
        with pytest.raises(NotFound):
            await store.status_pages.announce(TEAM, incident(make, made))

    async def test_no_page_has_too_many_announcements(self, store: Store, make: Factory) -> None:
        """One that is over leaves room when it is removed."""
        made = await store.status_pages.add(page(make))
        told = [await store.status_pages.announce("default", incident(make, made)) for _ in range(MAX_ANNOUNCEMENTS)]
        assert "announcements_exhausted" == await refused(store.status_pages.announce("default", incident(make, made)))
        await store.status_pages.retract("default", made.page_id, told[0].announcement_id)
        await store.status_pages.announce("default", incident(make, made))

    async def test_a_closing_namespace_gets_no_page_and_a_removed_one_leaves_none(
        self, store: Store, make: Factory
    ) -> None:
        """People go on to announce while it closes; a later namespace of the name has nothing of it."""
        await open_namespace(store)
        made = await store.status_pages.add(page(make, namespace=TEAM))
        await close(store)
        assert "namespace_closing" == await refused(store.status_pages.add(page(make, "late", namespace=TEAM)))
        assert await store.status_pages.change(made) is not None
        await store.status_pages.announce(TEAM, incident(make, made))
        await begin_removal(store)
        assert "namespace_closing" == await refused(store.status_pages.announce(TEAM, incident(make, made)))
        while await store.removals.drop(TEAM, 2):
            pass
        assert [] == await store.status_pages.find(StatusPageQuery(namespace=TEAM))
        assert [] == await store.status_pages.announcements([made.page_id])
