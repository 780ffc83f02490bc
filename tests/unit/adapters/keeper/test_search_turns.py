"""Many searches at once stop no shard: between two of them the keeper renews its lease and answers other calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.keepers import GatedLog
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.search_turns import (
    TOGETHER_MOST,
    WAIT_SECONDS,
    WAITING_MOST,
    SearchTurns,
)
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.keeper.wire.greeting import CALLS_MOST
from tickwise.domain.errors import Busy
from tickwise.ports.store import JobQuery
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[KeeperStore]:
    store = KeeperStore(GatedLog(tmp_path), SystemClock())
    await store.open()
    make = Factory(await store.now(), seed="searched")
    await store.jobs.add([make.job(schedule_type="ON_DEMAND", run_id=None, never=True) for _ in range(1_000)])
    yield store
    await store.close()


def search(store: KeeperStore, namespace: str = "default") -> asyncio.Task[Any]:
    """One that looks at each job, and finds none."""
    return asyncio.create_task(store.searches.jobs(JobQuery(namespace=namespace, name="not there")))


async def test_other_work_goes_on_between_any_two_searches(store: KeeperStore) -> None:
    """However many come at once: each pass of the loop has one of them, and so the lease of the shard is renewed."""
    searches, at_once = [search(store) for _ in range(20)], []
    while not all(each.done() for each in searches):
        before = sum(each.done() for each in searches)
        await SystemClock().sleep(0.0)
        at_once.append(sum(each.done() for each in searches) - before)
    assert 1 == max(at_once)


async def test_a_write_is_answered_before_the_searches_that_came_first(store: KeeperStore) -> None:
    """It waits for the one under way at most."""
    searches = [search(store) for _ in range(20)]
    make = Factory(await store.now(), seed="written")
    writing = asyncio.create_task(store.jobs.add([make.job()]))
    await writing
    assert sum(each.done() for each in searches) <= 3
    await asyncio.gather(*searches)


async def test_searches_of_another_namespace_wait_for_one_of_each(store: KeeperStore) -> None:
    """Namespaces take turns: one that asks very often delays itself."""
    many = [search(store) for _ in range(20)]
    await SystemClock().sleep(0.0)
    await search(store, "team-b")
    assert sum(each.done() for each in many) <= 4
    await asyncio.gather(*many)


async def test_a_namespace_with_too_many_searches_is_told_to_wait(store: KeeperStore) -> None:
    """The calls of a link are bounded, and those of others must have room among them."""
    searches = [search(store) for _ in range(WAITING_MOST + 10)]
    answers = await asyncio.gather(*searches, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, BaseException)]
    # Those that wait, the one before them whose turn it is, and perhaps the very first one.
    assert len(answers) - len(refused) in (WAITING_MOST + 1, WAITING_MOST + 2)
    assert {Busy} == {type(each) for each in refused}
    assert "default" in str(refused[0])
    assert [] == await search(store)


async def test_many_namespaces_leave_room_on_a_link() -> None:
    """Together they hold less than the calls that a link may carry, and one that asks once has its place."""
    turns = SearchTurns(clock := VirtualClock())
    held = await turns.turn("default")
    waiting = [asyncio.create_task(turns.turn(f"team-{n}")) for n in range(8) for _ in range(WAITING_MOST)]
    single = asyncio.create_task(turns.turn("one that asks once"))
    await clock.settle()
    refused = [each for each in waiting if each.done()]
    assert {Busy} == {type(each.exception()) for each in refused}
    assert TOGETHER_MOST <= len(waiting) - len(refused) < TOGETHER_MOST + 8 < CALLS_MOST
    assert not single.done()
    held.end()
    for each in (*waiting, single):
        each.cancel()


async def test_a_search_that_waited_for_long_is_not_begun() -> None:
    """Its caller has most likely gone, and those behind it come sooner."""
    turns = SearchTurns(clock := VirtualClock())
    first = await turns.turn("default")
    late, other = (asyncio.create_task(turns.turn("default")) for _ in range(2))
    await clock.settle()
    await clock.advance(WAIT_SECONDS + 1.0)
    first.end()
    for each in (late, other):
        with pytest.raises(Busy):
            await each
    next_one = asyncio.create_task(turns.turn("default"))
    await clock.settle()
    await clock.advance(WAIT_SECONDS + 2.0)  # a pause as long as the first one took
    (await next_one).end()


async def test_callers_that_go_away_leave_their_turns(store: KeeperStore) -> None:
    """In the queue and at its head."""
    searches = [search(store) for _ in range(20)]
    while not searches[0].done():
        await SystemClock().sleep(0.0)
    for each in searches[1:]:
        each.cancel()
    await asyncio.gather(*searches, return_exceptions=True)
    assert [] == await search(store)


async def test_shards_of_one_process_share_the_turns(tmp_path: Path) -> None:
    """Their searches stop the same loop."""
    turns = SearchTurns(SystemClock())
    stores = [KeeperStore(GatedLog(tmp_path / name), SystemClock(), turns=turns) for name in ("one", "two")]
    for each in stores:
        await each.open()
        make = Factory(await each.now(), seed="shared")
        await each.jobs.add([make.job(schedule_type="ON_DEMAND", run_id=None, never=True) for _ in range(1_000)])
    first, second = search(stores[0]), search(stores[1])
    await SystemClock().sleep(0.0)
    assert (True, False) == (first.done(), second.done())
    await asyncio.gather(first, second)
    for each in stores:
        await each.close()
