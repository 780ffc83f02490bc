"""Refusals in the audit log: a flood of them makes a bounded number of entries, and hides nobody else's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.app import World, world
from tickwise.control.audit.denials import STRANGERS_MAX, STRANGERS_OF_NETWORK_MAX
from tickwise.domain.audit import AuditAction
from tickwise.domain.model import Origin
from tickwise.ports.audit import AuditQuery, AuditRow
from tickwise.testing.clock import ShiftedClock


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=ShiftedClock()) as made:
        yield made


async def entries(here: World, action: AuditAction) -> list[AuditRow]:
    """The entries of refusals, once all that is gathered is written."""
    await here.control.denials.write(last=True)
    return list(await here.store.audit.find(AuditQuery(namespace=None, action=action, ascending=True, limit=1_000)))


def counted(rows: list[AuditRow]) -> int:
    """The refusals that these entries are about."""
    return sum(json.loads(row.detail or "{}")["count"] for row in rows)


async def test_one_customer_of_ipv6_is_one_stranger(here: World) -> None:
    """Whatever address of its network it uses; the entry of several names the network."""
    for number in range(200):
        here.control.denials.stranger(Origin(f"2001:db8::{number:x}", f"r{number}"), 401)
    rows = await entries(here, AuditAction.DENIED)
    assert [(row.source.address, row.source.request_id) for row in rows] == [("2001:db8::/64", "")]
    assert 200 == counted(rows)


async def test_a_stranger_leaves_room_for_the_sign_ins_of_others(here: World) -> None:
    """One network has a few entries of an action, and one for all others of it; everything is counted."""
    denials = here.control.denials
    for number in range(300):
        denials.sign_in_failed(f"name {number}", Origin(f"2001:db8::{number:x}", ""))
    denials.sign_in_failed("Ada", Origin("192.0.2.7", "r"))
    rows = await entries(here, AuditAction.SIGN_IN_FAILED)
    assert ("Ada", "192.0.2.7") in {(row.source.name, row.source.address) for row in rows}
    assert STRANGERS_OF_NETWORK_MAX + 2 == len(rows)
    assert 301 == counted(rows)
    [others] = [row for row in rows if json.loads(row.detail or "{}").get("route") == "others"]
    assert "2001:db8::/64" == others.source.address


async def test_unknown_keys_leave_room_for_failed_sign_ins(here: World) -> None:
    """Of however many networks they come; those beyond the bound share one entry with their count."""
    denials = here.control.denials
    for number in range(500):
        denials.stranger(Origin(f"2001:db8:{number:x}::1", ""), 401)
    denials.sign_in_failed("Ada", Origin("192.0.2.7", "r"))
    [failed] = await entries(here, AuditAction.SIGN_IN_FAILED)
    assert ("Ada", "192.0.2.7") == (failed.source.name, failed.source.address)
    rows = await entries(here, AuditAction.DENIED)
    assert (STRANGERS_MAX + 1, 500) == (len(rows), counted(rows))


async def test_a_minute_that_is_over_gives_its_room_back(here: World) -> None:
    """The next flood has entries of its own."""
    denials = here.control.denials
    for _ in range(2):
        for number in range(100):
            denials.stranger(Origin(f"198.51.100.{number}", ""), 401)
        await denials.write()
        assert isinstance(here.clock, ShiftedClock)
        here.clock.shift(61.0)
        await denials.write()
    rows = await entries(here, AuditAction.DENIED)
    named = [row for row in rows if row.source.address]
    assert (2 * STRANGERS_MAX, 200) == (len(named), counted(rows))
