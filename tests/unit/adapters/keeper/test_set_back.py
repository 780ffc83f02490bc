"""A log that was set back, by a backup or a disk that forgot: no token is given twice, though nothing tells."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.keepers import CLOCK, served
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.shards import ShardIdentity
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.fencing import TICK_SECONDS, TIME_BEGINS, epoch_of, first_token, shard_bits
from tickwise.domain.model import Claimed
from tickwise.ports.store import ClaimRequest
from tickwise.testing import factories
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import Factory

LEASE = 86_400.0
SHARD = ShardIdentity.of(3, str(UUID(int=1)), 4)


class SetBack:
    """A log in a folder, two executors that claim by it, and a copy of it. `identity`: of one shard of several."""

    def __init__(self, folder: Path, identity: ShardIdentity | None) -> None:
        self.folder = folder
        self.clock = ShiftedClock()
        self.identity = identity
        self.make = Factory(self.clock.now(), seed="set back")
        self.store: Any
        self.executors: list[int] = []

    async def open(self) -> None:
        """Begin a tenure."""
        log = FileLog(self.folder / "store", sync=lambda _file: None)
        self.store = KeeperStore(log, self.clock, identity=self.identity)
        await self.store.open()

    async def join(self) -> None:
        """Two of them are on record."""
        for name in ("one", "other"):
            self.executors.append(await self.store.executors.join(factories.executor(name, lease_seconds=LEASE)))

    async def claim(self, count: int, executor: int = 0) -> list[int]:
        """The tokens of so many new runs."""
        await self.store.jobs.add([self.make.job() for _ in range(count)])
        request = ClaimRequest(
            executor=self.executors[executor], queues=("default",), labels=(), limit=count, ahead_seconds=0.0
        )
        found: Sequence[Claimed] = await self.store.attempts.claim(request)
        assert count == len(found)
        return [each.token for each in found]

    async def remember(self) -> None:
        """A backup, in the middle of a tenure: a snapshot of the disk."""
        await asyncio.to_thread(shutil.copytree, self.folder / "store", self.folder / "copy")

    async def set_back(self) -> None:
        """Restore it, and open what it has."""
        await self.store.close()
        await asyncio.to_thread(shutil.rmtree, self.folder / "store")
        await asyncio.to_thread(shutil.copytree, self.folder / "copy", self.folder / "store")
        await self.open()


@pytest.fixture(params=[None, SHARD], ids=["alone", "one of four"])
async def rig(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[SetBack]:
    made = SetBack(tmp_path, request.param)
    await made.open()
    await made.join()
    yield made
    await made.store.close()


async def test_no_token_is_given_twice_after_a_restore(rig: SetBack) -> None:
    """Whoever claims first, and however many: what was lost was drawn earlier."""
    before = await rig.claim(1)
    await rig.remember()
    lost = await rig.claim(3)
    await rig.set_back()
    after = [*await rig.claim(1, executor=1), *await rig.claim(20), *await rig.claim(1)]
    assert max(before) < min(lost) < max(lost) < min(after)
    assert sorted(set(after)) == after


async def test_one_backup_may_be_restored_again_and_again(rig: SetBack) -> None:
    """Each time others are lost. An operator may say so each time, once or more often, or not at all: a lost epoch may
    have had the same number, and its tokens are lower."""
    await rig.claim(1)
    await rig.remember()
    given: list[int] = []
    for said in (0, 1, 1, 3, 1):
        await rig.set_back()
        epochs = [await rig.store.epochs.begin() for _ in range(said)]
        now = await rig.claim(5)
        if said:
            assert {epochs[-1]} == {epoch_of(each) for each in now}
            assert first_token(epochs[-1]) < min(now)
        assert not {*given}.intersection(now)
        given += now


@pytest.mark.parametrize("rig", [SHARD], indirect=True)
async def test_tokens_of_a_shard_name_it_in_each_tenure(rig: SetBack) -> None:
    """By their last bits: a report finds its shard by them."""
    found = await rig.claim(2)
    await rig.store.close()
    await rig.open()
    found += await rig.claim(2)
    assert {3} == {shard_bits(each) for each in found}


async def test_a_shard_that_drew_more_than_the_time_says_goes_on_where_it_was(rig: SetBack) -> None:
    """Or one whose clock was ahead and is right again."""
    rig.clock.shift(3_600.0)
    await rig.store.close()
    await rig.open()
    before = await rig.claim(2)
    rig.clock.shift(-3_600.0)
    await rig.store.close()
    await rig.open()
    after = await rig.claim(2)
    assert max(before) < min(after) <= max(before) + 2 * 64


async def test_the_time_is_in_the_first_token(rig: SetBack) -> None:
    """With the numbers of `domain.fencing`: people who look at a token can tell when its keeper began."""
    [token] = await rig.claim(1)
    ticks = token if rig.identity is None else token >> 6
    assert abs(ticks * TICK_SECONDS + TIME_BEGINS - rig.clock.now()) < 1.0


async def test_a_client_of_a_keeper_is_given_such_tokens(tmp_path: Path) -> None:
    """On the clock of this machine, through the wire."""
    async with served(tmp_path / "store", CLOCK) as keeper:
        client: Any = await keeper.client()
        executor = await client.executors.join(factories.executor(lease_seconds=LEASE))
        await client.jobs.add([Factory(CLOCK.now(), seed="wire").job()])
        [claimed] = await client.attempts.claim(
            ClaimRequest(executor=executor, queues=("default",), labels=(), limit=1, ahead_seconds=0.0)
        )
    assert abs(claimed.token * TICK_SECONDS + TIME_BEGINS - CLOCK.now()) < 60.0
