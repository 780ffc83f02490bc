"""A keeper whose log was set back, by a backup or a disk that forgot: its clients know what they were given."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.keepers import CLOCK, GatedServedStore, served
from tests.support.waiting import eventually
from tickwise.adapters.store.keeper.wire.forms import CallForm
from tickwise.adapters.store.keeper.wire.remote import CLAIM
from tickwise.domain.errors import InDoubt, Invalid, StoreUnavailable
from tickwise.domain.fencing import LAST_TOKEN
from tickwise.domain.model import Claimed
from tickwise.ports.store import ClaimRequest, EpochCause
from tickwise.testing import factories
from tickwise.testing.factories import Factory

LEASE = 600.0


class SetBack:
    """A keeper, an executor at one of its clients, and a copy of its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.make = Factory(CLOCK.now(), seed="set back")
        self.keeper: GatedServedStore
        self.client: Any
        self.executor = 0

    async def begin(self, keeper: GatedServedStore) -> None:
        """From here on its clients claim."""
        self.keeper = keeper
        self.client = await keeper.client(patience_seconds=2.0)
        self.executor = await self.client.executors.join(factories.executor(lease_seconds=LEASE))

    async def held(self, client: Any = None) -> Claimed:
        """A new job's run, claimed at this client."""
        asking = client or self.client
        await asking.jobs.add([self.make.job()])
        return await self.claim(asking)

    async def claim(self, client: Any = None) -> Claimed:
        """The one run that waits."""
        request = ClaimRequest(executor=self.executor, queues=("default",), labels=(), limit=1, ahead_seconds=0.0)
        found: Sequence[Claimed] = await (client or self.client).attempts.claim(request)
        [claimed] = found
        return claimed

    async def remember(self) -> None:
        """A backup."""
        await self.keeper.store.close()
        await asyncio.to_thread(shutil.copytree, self.folder / "store", self.folder / "copy")
        await self.keeper.store.open()

    async def set_back(self) -> None:
        """Restore the backup. Its clients stay connected."""
        await self.keeper.store.close()
        await asyncio.to_thread(shutil.rmtree, self.folder / "store")
        await asyncio.to_thread(shutil.copytree, self.folder / "copy", self.folder / "store")
        await self.keeper.store.open()

    async def last_epoch(self) -> tuple[EpochCause, bool]:
        """Why the present epoch began, and whether claims are known to be lost."""
        epoch = (await self.client.epochs.all())[0]
        return epoch.cause, epoch.lost_tokens


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SetBack]:
    made = SetBack(tmp_path)
    async with served(tmp_path / "store", CLOCK) as keeper:
        await made.begin(keeper)
        yield made


async def test_no_token_is_given_twice_after_a_restore(rig: SetBack) -> None:
    """Who was given a later one says so with the connection, before anybody claims there."""
    before = await rig.held()
    await rig.remember()
    lost = [await rig.held() for _ in range(3)]
    rig.client._link.abort()  # as the end of the keeper's process does
    await rig.set_back()
    after = await rig.held()
    assert before.token < max(each.token for each in lost) < after.token
    assert (EpochCause.WENT_BACK, True) == await rig.last_epoch()


async def test_a_client_whose_connection_stays_notices_it_with_its_next_claim(rig: SetBack) -> None:
    """The answer does not count; the claim after it does."""
    await rig.remember()
    lost = [await rig.held() for _ in range(2)]
    await rig.set_back()
    with pytest.raises(InDoubt, match="set back"):
        await rig.held()
    await rig.client.jobs.add([rig.make.job()])
    after = await rig.claim()
    assert max(each.token for each in lost) < after.token
    assert (EpochCause.WENT_BACK, True) == await rig.last_epoch()


async def test_a_keeper_that_lost_nothing_begins_no_epoch(rig: SetBack) -> None:
    """However often clients come back to it."""
    tokens = []
    for _ in range(3):
        tokens.append((await rig.held()).token)
        rig.client._link.abort()
        await rig.keeper.store.close()
        await rig.keeper.store.open()
    assert sorted(set(tokens)) == tokens
    assert (EpochCause.FIRST, False) == await rig.last_epoch()
    assert 1 == len(await rig.client.epochs.all())


async def test_claims_that_overlap_are_not_taken_for_a_restore(rig: SetBack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their answers may come in any order."""
    await rig.client.jobs.add([rig.make.job() for _ in range(2)])
    plain, later_came, asked = rig.client._call, asyncio.Event(), []

    async def first_comes_last(form: CallForm, body: bytes) -> Any:
        if form.name != CLAIM:
            return await plain(form, body)
        asked.append(body)
        is_first, answer = len(asked) == 1, await plain(form, body)
        if is_first:
            await later_came.wait()
        return answer

    monkeypatch.setattr(rig.client, "_call", first_comes_last)
    first = asyncio.create_task(rig.claim())
    await eventually(lambda: asked, what="the first one is asked for")
    later = await rig.claim()
    later_came.set()
    assert (await first).token < later.token
    assert 1 == len(await rig.client.epochs.all())


async def test_a_client_that_was_given_nothing_begins_no_epoch(rig: SetBack) -> None:
    """It cannot know; the next one that can tells it."""
    await rig.remember()
    await rig.held()
    rig.client._link.abort()
    await rig.set_back()
    other = await rig.keeper.client()
    await other.now()
    assert 1 == len(await rig.keeper.store.epochs.all())
    await rig.client.now()
    assert EpochCause.WENT_BACK is (await rig.keeper.store.epochs.all())[0].cause


async def test_the_epoch_is_kept_with_the_log(rig: SetBack) -> None:
    """The client is welcome once it cannot be lost any more."""
    await rig.remember()
    lost = await rig.held()
    rig.client._link.abort()
    await rig.set_back()
    await rig.client.now()
    [told, *_] = await rig.keeper.store.epochs.all()
    await rig.keeper.store.close()
    await rig.keeper.store.open()
    assert told == (await rig.keeper.store.epochs.all())[0]
    assert lost.token < (await rig.held()).token


async def test_a_number_that_is_no_token_does_not_use_up_the_epochs(rig: SetBack) -> None:
    """A client that is out of its mind is refused, and others are served."""
    rig.client._token = LAST_TOKEN + 1
    rig.client._link.abort()
    with pytest.raises(Invalid, match="no fencing token"):
        await rig.client.now()
    other = await rig.keeper.client()
    assert 1 == len(await other.epochs.all())


async def test_a_token_of_another_installation_begins_no_epoch(rig: SetBack) -> None:
    """A keyspace was dropped and made anew under a client that runs: it is refused, and the new one lost nothing."""
    await rig.remember()
    await rig.held()
    rig.client._link.abort()
    await rig.set_back()
    rig.keeper.store.memory.state.cluster_id = "another one"
    with pytest.raises(StoreUnavailable, match="another installation"):
        await rig.client.now()
    assert 1 == len(await rig.keeper.store.epochs.all())
