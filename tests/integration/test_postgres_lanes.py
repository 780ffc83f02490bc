"""Lanes that were freed while a process slept: the run that it leaves there is found and goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.model import Lane
from tickwise.ports.store import Added, ClaimRequest, Retention
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import Factory, executor

RETENTION = Retention(runs_seconds=86_400.0, failed_seconds=86_400.0)
PLACE = Lane("reports")
FREE = """
WITH gone AS (DELETE FROM tickwise.lanes WHERE queue = 'reports' RETURNING *)
INSERT INTO tickwise.lanes_freed SELECT now(), lane, priority, namespace, queue, requires FROM gone"""


@pytest_asyncio.fixture
async def stores(database_url: str) -> AsyncIterator[list[PostgresStore]]:
    await upgrade(database_url)
    found = [PostgresStore(database_url, clock=ShiftedClock()) for _ in range(2)]
    for store in found:
        await store.open()
    yield found
    for store in found:
        await store.close()


@pytest.mark.parametrize("is_taken", [False, True], ids=["its number comes back", "another has its place"])
async def test_a_run_in_a_freed_lane_goes_on(stores: list[PostgresStore], database_url: str, is_taken: bool) -> None:
    """Its job can be read and changed again, and it is claimed, whether the lane was made anew or not."""
    slept, other = stores
    make = Factory(await slept.now(), seed="lanes")
    assert [Added.CREATED] == await slept.jobs.add([make.job(lane=PLACE)])
    connection = await asyncpg.connect(database_url)
    await connection.execute("DELETE FROM tickwise.runs; DELETE FROM tickwise.jobs")
    assert await connection.execute(FREE) == "INSERT 0 1"
    late = make.job(lane=PLACE)
    assert [Added.CREATED] == await slept.jobs.add([late])
    if is_taken:
        assert [Added.CREATED] == await other.jobs.add([make.job(lane=PLACE)])
    assert await other.jobs.get("default", late.job_id) is None
    await other.upkeep.maintain(RETENTION)
    await connection.close()
    row = await other.jobs.get("default", late.job_id)
    assert row is not None
    assert row.lane == PLACE
    number = await other.executors.join(executor("one", lease_seconds=600.0))
    request = ClaimRequest(executor=number, queues=("reports",), labels=(), limit=9, ahead_seconds=0.0)
    claimed = await other.attempts.claim(request)
    assert late.job_id in {each.job_id for each in claimed}
    assert len(claimed) == 1 + is_taken


async def test_what_a_freed_number_stood_for_is_known(stores: list[PostgresStore], database_url: str) -> None:
    """A timer whose job was left in a freed lane fires, and stops no other."""
    slept, other = stores
    make = Factory(await slept.now(), seed="lanes")
    await slept.jobs.add([make.job(make.now + 3600.0, lane=PLACE)])
    connection = await asyncpg.connect(database_url)
    await connection.execute(FREE)
    number = await connection.fetchval("SELECT lane FROM tickwise.lanes_freed")
    await connection.close()
    assert (await other._shared.lanes.place(number)).lane == PLACE


@pytest.mark.parametrize("is_taken", [False, True], ids=["its number comes back", "another has its place"])
async def test_a_job_without_a_run_in_a_freed_lane_keeps_its_lane(
    stores: list[PostgresStore], database_url: str, is_taken: bool
) -> None:
    """Its first run may come long after what the freed number stood for would be forgotten."""
    slept, other = stores
    make = Factory(await slept.now(), seed="lanes")
    late = make.recurring(make.now + 40 * 86_400.0, lane=PLACE)
    assert [Added.CREATED] == await slept.jobs.add([late])
    connection = await asyncpg.connect(database_url)
    await connection.execute(FREE)
    await connection.execute("UPDATE tickwise.lanes_freed SET freed = freed - interval '30 days'")
    if is_taken:
        assert [Added.CREATED] == await other.jobs.add([make.job(lane=PLACE)])
    for _ in range(2):  # a number that an earlier test left in this place comes back first
        await other.upkeep.maintain(RETENTION)
    number = await connection.fetchval("SELECT lane FROM tickwise.jobs WHERE job_id = $1", late.job_id)
    known = await connection.fetchval("SELECT queue FROM tickwise.lanes WHERE lane = $1", number)
    await connection.close()
    assert known == PLACE.queue
    row = await other.jobs.get("default", late.job_id)
    assert row is not None
    assert row.lane == PLACE
