"""The log of a shard: what must hold of each, for an owner alone and for owners that follow each other.

`EffectLogContract` is for every log. `SharedLogContract` is, beside it, for logs that several processes may reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tickwise.adapters.store.keeper.log import BlockName, EffectLog, LogEntry, OwnershipLost, Tenure
from tickwise.domain.errors import Misconfigured, StoreUnavailable
from tickwise.testing.contracts.base import Contract

WITHIN_SECONDS = 90.0
"""The limit for each wait, also for the leases of several owners that follow each other on a busy machine."""

OpenLog = Callable[[], Awaitable[EffectLog]]


async def parts_of(*parts: bytes) -> AsyncIterator[bytes]:
    """The parts of a checkpoint."""
    for part in parts:
        yield part


async def broken_parts(*parts: bytes) -> AsyncIterator[bytes]:
    """Parts that end in a failure, as a process ends that dies at its checkpoint."""
    for part in parts:
        yield part
    raise RuntimeError("the process died here")


async def read_all(log: EffectLog, after: int = 0) -> list[LogEntry]:
    """The entries behind a position."""
    return [entry async for entry in log.entries(after)]


async def read_checkpoint(log: EffectLog, position: int) -> list[bytes]:
    """The parts of a checkpoint."""
    return [part async for part in log.checkpoint(position)]


async def own(log: EffectLog, name: str = "first", endpoint: str = "") -> Tenure:
    """Acquire the log; a lease that somebody left must end first."""
    return await asyncio.wait_for(log.acquire(name, endpoint), WITHIN_SECONDS)


async def renewed_in_time(owner: EffectLog, other: EffectLog) -> bool:
    """Have a log renewed for the time of two leases while another process waits for it, then given back. False: a
    renewal came too late, so the other was free to acquire it."""
    clock = asyncio.get_running_loop().time
    renewed, left = clock(), 0.0
    await own(owner, "owner")
    waiting = asyncio.ensure_future(own(other, "other"))
    until = clock() + WITHIN_SECONDS
    while clock() < until:
        began = clock()
        try:
            left = await owner.renew()
        except (StoreUnavailable, OwnershipLost):
            if clock() - renewed < left:
                raise
        if clock() - renewed >= left:
            await waiting
            await other.release()
            return False
        assert not waiting.done(), "the log was acquired while its owner renewed the lease"
        renewed, until = began, min(until, began + 2 * left)
    try:
        last = await owner.append(b"ours")
    except (StoreUnavailable, OwnershipLost):
        if clock() - renewed < left:
            raise
        await waiting
        await other.release()
        return False
    await owner.release()
    assert last == (await waiting).last
    await other.release()
    return True


class EffectLogContract(Contract):
    """The promises of all logs. The adapter's class provides the fixture `open_log`: each call gives one more object
    for the same log, which is empty at first. A test uses one of them at a time."""

    async def test_an_empty_log_has_nothing(self, open_log: OpenLog) -> None:
        """Its first owner begins at position 0, without a checkpoint."""
        log = await open_log()
        tenure = await own(log)
        assert (0, 0) == (tenure.checkpoint, tenure.last)
        assert [] == await read_all(log)

    async def test_entries_are_numbered_without_gaps(self, open_log: OpenLog) -> None:
        """From 1; each append says its position, and they are read in order, as they were written."""
        log = await open_log()
        await own(log)
        bodies = [b"%d" % number * (number + 1) for number in range(30)]
        assert list(range(1, 31)) == [await log.append(body) for body in bodies]
        assert [LogEntry(place + 1, body) for place, body in enumerate(bodies)] == await read_all(log)

    async def test_entries_behind_a_position_are_read(self, open_log: OpenLog) -> None:
        """That position itself is not among them."""
        log = await open_log()
        await own(log)
        for number in range(5):
            await log.append(b"%d" % number)
        assert [4, 5] == [entry.position for entry in await read_all(log, after=3)]
        assert [] == await read_all(log, after=5)

    @pytest.mark.parametrize("size", [0, 1, 4_096, 70_000, 3_000_000])
    async def test_bodies_of_any_size_come_back_whole(self, open_log: OpenLog, size: int) -> None:
        """Byte for byte, in however many pieces a log keeps them."""
        log = await open_log()
        await own(log)
        body = bytes(number % 251 for number in range(size))
        await log.append(b"before")
        await log.append(body)
        await log.append(b"after")
        assert [b"before", body, b"after"] == [entry.body for entry in await read_all(log)]

    async def test_the_next_owner_finds_what_was_appended(self, open_log: OpenLog) -> None:
        """With a higher epoch, and it goes on at the next position."""
        log = await open_log()
        before = await own(log)
        await log.append(b"one")
        await log.append(b"two")
        await log.release()
        log = await open_log()
        after = await own(log, "second")
        assert after.epoch > before.epoch
        assert (0, 2) == (after.checkpoint, after.last)
        assert 3 == await log.append(b"three")
        assert [b"one", b"two", b"three"] == [entry.body for entry in await read_all(log)]

    async def test_nobody_appends_after_a_release(self, open_log: OpenLog) -> None:
        """A process that gave the log back does not own it."""
        log = await open_log()
        await own(log)
        await log.release()
        with pytest.raises(OwnershipLost):
            await log.append(b"late")
        await own(log, "second")
        assert [] == await read_all(log)

    async def test_a_renewed_lease_is_worth_some_time(self, open_log: OpenLog) -> None:
        """Reads may be answered for a while."""
        log = await open_log()
        await own(log)
        assert await log.renew() > 0.0

    async def test_a_checkpoint_comes_back_as_it_was_kept(self, open_log: OpenLog) -> None:
        """Part by part, empty and large ones too; the next owner is told its position."""
        log = await open_log()
        await own(log)
        for number in range(3):
            await log.append(b"%d" % number)
        parts = [b"first", b"", b"x" * 2_000_000, b"last"]
        await log.keep_checkpoint(2, parts_of(*parts))
        assert parts == await read_checkpoint(log, 2)
        await log.release()
        log = await open_log()
        tenure = await own(log, "second")
        assert (2, 3) == (tenure.checkpoint, tenure.last)
        assert parts == await read_checkpoint(log, 2)
        assert [b"2"] == [entry.body for entry in await read_all(log, after=2)]

    async def test_a_half_written_checkpoint_is_ignored(self, open_log: OpenLog) -> None:
        """The one before counts, whole, and a later one takes its place."""
        log = await open_log()
        await own(log)
        await log.append(b"one")
        await log.keep_checkpoint(1, parts_of(b"old"))
        await log.append(b"two")
        with pytest.raises(RuntimeError, match="died here"):
            await log.keep_checkpoint(2, broken_parts(b"new", b"x" * 1_000_000))
        await log.release()
        log = await open_log()
        tenure = await own(log, "second")
        assert (1, 2) == (tenure.checkpoint, tenure.last)
        assert [b"old"] == await read_checkpoint(log, 1)
        await log.keep_checkpoint(2, parts_of(b"newest"))
        assert [b"newest"] == await read_checkpoint(log, 2)

    async def test_an_empty_checkpoint_counts(self, open_log: OpenLog) -> None:
        """A state may have no parts."""
        log = await open_log()
        await own(log)
        await log.append(b"one")
        await log.keep_checkpoint(1, parts_of())
        assert [] == await read_checkpoint(log, 1)
        await log.release()
        log = await open_log()
        assert 1 == (await own(log, "second")).checkpoint

    async def test_a_drop_keeps_what_a_checkpoint_needs(self, open_log: OpenLog) -> None:
        """Entries behind the checkpoint stay, also if it is told to forget them; and positions never come back."""
        log = await open_log()
        await own(log)
        for number in range(300):
            await log.append(b"%d" % number)
        await log.keep_checkpoint(290, parts_of(b"state"))
        await log.drop(301)
        assert list(range(291, 301)) == [entry.position for entry in await read_all(log, after=290)]
        assert 301 == await log.append(b"next")
        await log.release()
        log = await open_log()
        tenure = await own(log, "second")
        assert (290, 301) == (tenure.checkpoint, tenure.last)
        assert [b"state"] == await read_checkpoint(log, 290)
        assert list(range(291, 302)) == [entry.position for entry in await read_all(log, after=290)]

    async def test_without_a_checkpoint_a_drop_takes_nothing(self, open_log: OpenLog) -> None:
        """The state can be had from the entries alone."""
        log = await open_log()
        await own(log)
        for number in range(300):
            await log.append(b"%d" % number)
        await log.drop(300)
        assert list(range(1, 301)) == [entry.position for entry in await read_all(log)]

    @pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
    async def test_a_block_comes_back_as_it_was_kept(self, open_log: OpenLog, size: int) -> None:
        """Byte for byte, for its owner and for the next one, by the name that was answered."""
        log = await open_log()
        tenure = await own(log)
        body = bytes(number % 251 for number in range(size))
        name = await log.keep_block(1, body)
        assert BlockName(tenure.epoch, 1) == name
        assert body == await log.block(name)
        await log.release()
        log = await open_log()
        later = await own(log, "second")
        assert BlockName(later.epoch, 1) == await log.keep_block(1, b"of the second")
        assert body == await log.block(name)
        assert {name, BlockName(later.epoch, 1)} == set(await log.blocks())

    async def test_a_block_that_was_dropped_is_not_there(self, open_log: OpenLog) -> None:
        """To drop it once more changes nothing. The others stay."""
        log = await open_log()
        await own(log)
        names = [await log.keep_block(number, b"%d" % number) for number in range(1, 5)]
        for _ in range(2):
            await log.drop_blocks(names[:2])
        assert set(names[2:]) == set(await log.blocks())
        assert [b"3", b"4"] == [await log.block(name) for name in names[2:]]
        with pytest.raises(Misconfigured):
            await log.block(names[0])


class SharedLogContract(Contract):
    """The promises of logs that several processes may reach at once: the objects of `open_log` are used side by side,
    and a lease of theirs ends within a few seconds."""

    async def test_who_waits_sees_what_is_there(self, open_log: OpenLog) -> None:
        """The end and the newest checkpoint, and the entries behind it, while another one owns the log."""
        log, waiting = await open_log(), await open_log()
        tenure = await own(log)
        for number in range(3):
            await log.append(b"%d" % number)
        await log.keep_checkpoint(2, parts_of(b"state"))
        assert Tenure(tenure.epoch, 2, 3) == await waiting.peek()
        assert [b"state"] == await read_checkpoint(waiting, 2)
        assert [3] == [entry.position for entry in await read_all(waiting, after=2)]
        assert 4 == await log.append(b"3")

    async def test_an_owner_that_lost_its_epoch_is_refused(self, open_log: OpenLog) -> None:
        """Its append, its renewal and its checkpoint; and nothing of them is there."""
        old, new = await open_log(), await open_log()
        await own(old, "old")
        await old.append(b"one")
        await own(new, "new")
        with pytest.raises(OwnershipLost):
            await old.append(b"stale")
        with pytest.raises(OwnershipLost):
            await old.renew()
        with pytest.raises(OwnershipLost):
            await old.keep_checkpoint(1, parts_of(b"stale"))
        assert 2 == await new.append(b"two")
        assert [b"one", b"two"] == [entry.body for entry in await read_all(new)]

    @pytest.mark.parametrize("call", ["renew", "checkpoint", "drop"])
    async def test_each_call_of_a_lost_owner_is_refused_by_itself(self, open_log: OpenLog, call: str) -> None:
        """Each by the log, not because another call has noticed it before."""
        old, new = await open_log(), await open_log()
        await own(old, "old")
        for number in range(3):
            await old.append(b"%d" % number)
        await old.keep_checkpoint(1, parts_of(b"state"))
        await own(new, "new")
        last = 300 if call == "drop" else 4
        for number in range(3, last):
            await new.append(b"%d" % number)
        await new.keep_checkpoint(last, parts_of(b"newer"))
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "renew": old.renew,
            "checkpoint": lambda: old.keep_checkpoint(3, parts_of(b"stale")),
            "drop": lambda: old.drop(last),
        }
        with pytest.raises(OwnershipLost):
            await calls[call]()
        assert [b"newer"] == await read_checkpoint(new, last)

    async def test_a_late_block_of_an_owner_that_lost_its_epoch_is_another_one(self, open_log: OpenLog) -> None:
        """It has the lost epoch in its name, so it takes no other's place."""
        old, new = await open_log(), await open_log()
        before = await own(old, "old")
        tenure = await own(new, "new")
        name = await new.keep_block(1, b"of the owner")
        assert BlockName(before.epoch, 1) == await old.keep_block(1, b"late")
        assert BlockName(tenure.epoch, 1) == name
        assert b"of the owner" == await new.block(name)
        await new.drop_blocks({*await new.blocks()} - {name})
        assert [name] == list(await new.blocks())

    async def test_two_that_acquire_at_once_have_two_epochs(self, open_log: OpenLog) -> None:
        """The one with the higher epoch owns the log; the other is refused."""
        logs = [await open_log(), await open_log()]
        tenures = await asyncio.gather(*(own(log, f"rival {number}") for number, log in enumerate(logs)))
        assert 2 == len({tenure.epoch for tenure in tenures})
        (_, stale), (_, owner) = sorted(
            zip([tenure.epoch for tenure in tenures], logs, strict=True), key=lambda it: it[0]
        )
        with pytest.raises(OwnershipLost):
            await stale.append(b"stale")
        assert 1 == await owner.append(b"good")
        assert [b"good"] == [entry.body for entry in await read_all(owner)]

    async def test_many_rivals_write_one_history(self, open_log: OpenLog) -> None:
        """Each appends until it is refused, then acquires again: positions have no gap, and no entry that was
        acknowledged is missing or there twice."""
        acknowledged: list[tuple[int, bytes]] = []

        async def rival(name: str) -> None:
            log = await open_log()
            for turn in range(2):
                tenure = await own(log, name)
                try:
                    for number in range(10):
                        body = f"{name} {turn} {number} {tenure.epoch}".encode()
                        acknowledged.append((await log.append(body), body))
                except OwnershipLost:
                    continue
                await log.release()

        await asyncio.gather(*(rival(f"rival {number}") for number in range(4)))
        log = await open_log()
        await own(log, "judge")
        entries = await read_all(log)
        assert list(range(1, len(entries) + 1)) == [entry.position for entry in entries]
        assert sorted(acknowledged) == [(entry.position, entry.body) for entry in entries]

    async def test_a_renewed_lease_is_waited_for(self, open_log: OpenLog) -> None:
        """A log whose owner renews in time cannot be acquired; once it is released it can, at once."""
        while not await renewed_in_time(await open_log(), await open_log()):
            pass  # the machine held the owner up until its lease was over: that shows nothing
