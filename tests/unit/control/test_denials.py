"""Refusals for the audit log under a flood: bounded entries, bounded memory, and each refusal in a count."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import Bell
from tests.support.buffered import Severed
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.control.audit.denials import GATHER_SECONDS, NOTES_MAX, STRANGERS_MAX, Denials
from tickwise.control.context import ControlContext
from tickwise.domain.model import Origin, Principal
from tickwise.ports.audit import AuditQuery, AuditRow

OTHERS = 10
"""Shared entries of what exceeds the bounds: one for each action and status."""


@dataclass
class Flooded:
    """Refusals in front of a store that can be away."""

    denials: Denials
    store: Severed
    clock: VirtualClock

    async def log(self) -> list[AuditRow]:
        return list(await self.store.audit.find(AuditQuery(namespace=None, ascending=True, limit=100_000)))

    async def told(self) -> int:
        """The refusals that the log tells of."""
        return sum(json.loads(row.detail or "{}")["count"] for row in await self.log())


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Flooded]:
    clock = VirtualClock(1_800_000_000.0)
    store = Severed(MemoryStore(clock))
    await store.open()
    context = ControlContext(store=store, blobs=open_blobs("memory://"), signals=Bell(), clock=clock)
    yield Flooded(Denials(context), store, clock)


def key(number: int) -> Principal:
    """One of many keys."""
    who = Principal(f"key {number}", f"team-{number}", frozenset(), key_id=UUID(int=number))
    return who.with_origin(f"192.0.2.{number % 250}", f"r{number}")


async def test_each_refusal_of_a_flood_is_counted_and_few_are_entries(here: Flooded) -> None:
    """20,000 strangers from as many addresses, 20,000 failed sign-ins, 20,000 requests of 4,000 keys; then a minute."""
    for number in range(20_000):
        here.denials.stranger(Origin(f"10.0.{number // 250}.{number % 250}", f"r{number}"), 401)
        here.denials.sign_in_failed("", Origin(f"10.1.{number // 250}.{number % 250}", f"r{number}"))
        here.denials.denied(key(number % 4_000), "/api/v1/jobs", 403)
        assert len(here.denials._gathered) <= NOTES_MAX + OTHERS
        if number == 10_000:
            await here.denials.write()
    await here.denials.write()
    first = await here.log()
    assert len(first) <= NOTES_MAX + OTHERS
    await here.clock.advance(GATHER_SECONDS)
    await here.denials.write()
    assert await here.told() == 60_000
    assert len(await here.log()) <= 2 * (NOTES_MAX + OTHERS)
    assert here.denials._gathered == {}
    strangers = [row for row in first if row.action == "auth.denied" and row.source.address.startswith("10.0.")]
    assert 0 < len(strangers) <= STRANGERS_MAX


async def test_a_flood_of_strangers_leaves_room_for_callers_that_are_known(here: Flooded) -> None:
    """A refusal of a key is an entry with its name, address and request, however many strangers there are."""
    for number in range(5_000):
        here.denials.stranger(Origin(f"10.0.{number // 250}.{number % 250}", ""), 401)
    here.denials.denied(key(7), "/api/v1/jobs", 403)
    await here.denials.write()
    [row] = [row for row in await here.log() if row.namespace == "team-7"]
    assert ("key 7", "192.0.2.7", "r7") == (row.source.name, row.source.address, row.source.request_id)
    assert {"status": 403, "count": 1, "route": "/api/v1/jobs"} == json.loads(row.detail or "")


@pytest.mark.parametrize("last", [False, True], ids=["later", "at the end"])
async def test_what_could_not_be_written_is_written_once_the_store_is_back(here: Flooded, last: bool) -> None:
    """Minutes of an outage cost no memory beyond the bounds, and no count."""
    here.store.away = True
    for minute in range(5):
        for number in range(3_000):
            here.denials.denied(key(number), f"/route/{minute}", 403)
            assert len(here.denials._gathered) <= NOTES_MAX + OTHERS
        await here.denials.write()
        await here.clock.advance(GATHER_SECONDS)
    here.store.away = False
    assert await here.told() == 0
    await here.denials.write(last=last)
    assert await here.told() == 15_000
    await here.denials.write(last=last)
    assert await here.told() == 15_000
    assert here.denials._gathered == {}
