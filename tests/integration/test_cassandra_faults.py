"""Faults between an owner and Cassandra, on a real node that stays well: answers that do not come, late copies, owners
that stop in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from tests.chaos.proxy import Proxy
from tests.support.blocks import BLOCK_RUNS, Death, Died, end_runs, judge_next_owner, lived, names_of, store_over
from tests.support.cassandra_owner import REFUSED
from tests.support.cassandras import PATIENT_SECONDS, linked, next_shard
from tests.support.local_up import ROOT
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra import ownership
from tickwise.adapters.store.cassandra.link import CassandraLink, Rows
from tickwise.adapters.store.cassandra.log import CassandraLog, endpoint_is_gone
from tickwise.adapters.store.keeper.log import OwnershipLost
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.errors import InDoubt, Misconfigured, StoreUnavailable
from tickwise.testing.clock import VirtualClock
from tickwise.testing.contracts.effect_log import own, parts_of, read_all
from tickwise.testing.factories import Factory

pytestmark = pytest.mark.thorough
LEASE_SECONDS = 0.5
"""Of owners that are waited for, and renew nothing."""
LONG_LEASE_SECONDS = 60.0
"""Of those that renew it: a renewal that takes longer than the lease is refused."""
UNCOUNTED = {"part_write", "part_delete", "shard_read", "shard_look"}
"""Statements of a checkpoint that are many, and those that change nothing: no process of these tests dies at them."""
Ask = Callable[..., Any]


class Meddled:
    """A link whose answers to one statement are meddled with, so many times."""

    def __init__(
        self, link: CassandraLink, name: str, meddle: Callable[[Ask, tuple[Any, ...]], Any], times: int
    ) -> None:
        self._link = link
        self._name = name
        self._meddle = meddle
        self.left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    async def ask(self, name: str, *values: Any) -> Rows:
        """As `CassandraLink.ask`."""
        if name == self._name and self.left > 0:
            self.left -= 1
            found: Rows = await self._meddle(self._link.ask, (name, *values))
            return found
        return await self._link.ask(name, *values)


def meddled_log(link: Meddled, shard: int, *, lease_seconds: float = LEASE_SECONDS) -> CassandraLog:
    """A log over such a link."""
    return CassandraLog(cast(CassandraLink, link), shard, lease_seconds=lease_seconds)


async def unanswered(ask: Ask, asked: tuple[Any, ...]) -> Rows:
    """It is carried out, and nobody is told."""
    await ask(*asked)
    raise InDoubt("the answer did not come")


async def unsent(_ask: Ask, _asked: tuple[Any, ...]) -> Rows:
    """It never arrives."""
    raise InDoubt("the answer did not come")


class DyingLink:
    """A link of a process that dies."""

    def __init__(self, link: CassandraLink, death: Death) -> None:
        self._link, self.death = link, death

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    async def ask(self, name: str, *values: Any) -> Rows:
        """As `CassandraLink.ask`."""
        if name in UNCOUNTED and self.death.left > 0:
            return await self._link.ask(name, *values)
        found: Rows = await self.death.around(lambda: self._link.ask(name, *values))
        return found


@pytest_asyncio.fixture(scope="module")
async def link(cassandra_url: str) -> AsyncIterator[CassandraLink]:
    """One session for the tests of this module."""
    async with linked(cassandra_url, answer_seconds=PATIENT_SECONDS) as opened:
        yield opened


@asynccontextmanager
async def rival(link: CassandraLink, shard: int) -> AsyncIterator[CassandraLog]:
    """Another owner of the shard, at once."""
    log = CassandraLog(link, shard, lease_seconds=LEASE_SECONDS)
    await log.seize("rival", "")
    yield log
    await log.release()


def bodies(entries: list[Any]) -> list[bytes]:
    """The bodies of entries."""
    return [entry.body for entry in entries]


@pytest.mark.parametrize("meddle", [unanswered, unsent])
@pytest.mark.parametrize("statement", ["shard_append", "entry_write", "shard_seize"])
async def test_an_update_without_an_answer_happens_once(
    link: CassandraLink, statement: str, meddle: Callable[..., Any]
) -> None:
    """Carried out or not: the caller gets its answer, and the entry is there once."""
    how = _as_unavailable(meddle) if statement == "entry_write" else meddle
    meddled = Meddled(link, statement, how, times=1)
    log = meddled_log(meddled, next_shard(), lease_seconds=LEASE_SECONDS)
    tenure = await own(log)
    assert [1, 2, 3] == [await log.append(b"%d" % number) for number in range(3)]
    assert 0 == meddled.left, "nothing was meddled with"
    assert [b"0", b"1", b"2"] == bodies(await read_all(log))
    assert tenure.epoch == (await log.owner()).epoch


def _as_unavailable(meddle: Callable[..., Any]) -> Callable[..., Any]:
    async def meddled(ask: Ask, asked: tuple[Any, ...]) -> Rows:
        try:
            found: Rows = await meddle(ask, asked)
        except InDoubt as failure:
            raise StoreUnavailable(failure.detail) from failure
        return found

    return meddled


@pytest.mark.parametrize("meddle", [unanswered, unsent])
@pytest.mark.parametrize("call", ["renew", "checkpoint", "release"])
async def test_the_other_updates_of_an_owner_survive_a_lost_answer(
    link: CassandraLink, call: str, meddle: Callable[..., Any]
) -> None:
    """They may be carried out twice; that leaves what once leaves."""
    meddled = Meddled(link, f"shard_{call}", meddle, times=1)
    log = meddled_log(meddled, next_shard(), lease_seconds=LONG_LEASE_SECONDS)
    await own(log)
    await log.append(b"one")
    await log.renew()
    await log.keep_checkpoint(1, parts_of(b"state"))
    assert 2 == await log.append(b"two")
    assert [b"state"] == [part async for part in log.checkpoint(1)]
    await log.release()
    assert 0 == meddled.left
    assert "" == (await log.owner()).owner


async def test_after_an_open_doubt_nothing_is_appended_until_the_log_is_acquired_again(
    link: CassandraLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry in doubt may still come late. It must not take the place of another one of the same epoch."""
    monkeypatch.setattr(ownership, "PATIENCE_SECONDS", 0.2)
    late: list[tuple[Any, ...]] = []

    async def delayed(_ask: Ask, asked: tuple[Any, ...]) -> Rows:
        late.append(asked)
        raise InDoubt("the answer did not come")

    meddled = Meddled(link, "shard_append", delayed, times=1_000)
    log = meddled_log(meddled, next_shard(), lease_seconds=60.0)
    await own(log)
    with pytest.raises(StoreUnavailable):
        await log.append(b"in doubt")
    with pytest.raises(StoreUnavailable, match="acquire the log again"):
        await log.append(b"another")
    meddled.left = 0
    tenure = await own(log)  # at once: nobody waits for a lease of one's own
    assert 0 == tenure.last
    applied = [(await link.ask(*asked))[0][0] for asked in late]
    assert {False} == set(applied), "an update of an earlier epoch was applied"
    assert 1 == await log.append(b"after it")
    assert [b"after it"] == bodies(await read_all(log))


async def test_an_owner_in_doubt_whose_shard_was_taken_gives_it_up(
    link: CassandraLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It builds its state once more, and another owner has acquired the log meanwhile. Else it would wait for that
    one's end, and its clients for it."""
    monkeypatch.setattr(ownership, "PATIENCE_SECONDS", 0.2)
    clock, shard, lost = VirtualClock(), next_shard(), list[str]()
    meddled = Meddled(link, "shard_append", unsent, times=0)
    store = KeeperStore(meddled_log(meddled, shard, lease_seconds=LONG_LEASE_SECONDS), clock, lost=lost.append)
    await store.open()
    meddled.left = 1_000
    with pytest.raises(InDoubt):
        await store.jobs.add([Factory(clock.now(), seed="doubt").job()])
    async with rival(link, shard):
        meddled.left = 0

        async def is_told() -> bool:
            await clock.advance(1.0)
            return bool(lost)

        await eventually(is_told, what="the owner gives the shard up")
    await store.close()


async def test_an_owner_that_acquires_again_in_vain_waits_for_no_lease_of_its_own(
    link: CassandraLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a doubt its acquisition does not arrive either: the row still has the tenure of before."""
    monkeypatch.setattr(ownership, "PATIENCE_SECONDS", 0.2)
    meddled = Meddled(link, "shard_seize", unsent, times=0)
    log = meddled_log(meddled, next_shard(), lease_seconds=300.0)
    epoch = (await own(log)).epoch
    meddled.left = 1_000
    with pytest.raises(StoreUnavailable):
        await own(log)
    meddled.left = 0
    assert epoch + 1 == (await own(log)).epoch


async def test_an_append_that_is_cancelled_leaves_a_doubt(link: CassandraLink) -> None:
    """The owner must acquire the log again, and is told then how far it goes."""
    begun = asyncio.Event()

    async def hangs(ask: Ask, asked: tuple[Any, ...]) -> Rows:
        await ask(*asked)
        begun.set()
        return await asyncio.Future()

    log = meddled_log(Meddled(link, "shard_append", hangs, 1), next_shard())
    await own(log)
    appending = asyncio.ensure_future(log.append(b"one"))
    await begun.wait()
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending
    with pytest.raises(StoreUnavailable):
        await log.append(b"two")
    assert 1 == (await own(log)).last
    assert [b"one"] == bodies(await read_all(log))


async def test_a_late_renewal_of_an_earlier_tenure_loses_no_later_one(link: CassandraLink) -> None:
    """An append in doubt ends a tenure while its lease is renewed. The refusal of that renewal is none of the tenure
    that the same process has begun since."""
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def held_back(ask: Ask, asked: tuple[Any, ...]) -> Rows:
        begun.set()
        await may_go_on.wait()
        found: Rows = await ask(*asked)
        return found

    log = meddled_log(Meddled(link, "shard_renew", held_back, 1), next_shard())
    await own(log)
    renewing = asyncio.ensure_future(log.renew())
    await begun.wait()
    appending = asyncio.ensure_future(log.append(b"one"))
    await VirtualClock().settle()
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending
    await own(log)
    may_go_on.set()
    with pytest.raises(StoreUnavailable, match="earlier tenure"):
        await renewing
    assert 1 == await log.append(b"two")


async def test_a_body_without_its_head_is_ignored(link: CassandraLink) -> None:
    """An owner died between the two; the next one writes the position anew, and its entry counts."""
    dead, shard = Meddled(link, "shard_append", unsent, 0), next_shard()
    log = meddled_log(dead, shard, lease_seconds=LEASE_SECONDS)
    await own(log)
    await log.append(b"one")

    async def dies(_ask: Ask, _asked: tuple[Any, ...]) -> Rows:
        raise asyncio.CancelledError

    dead._meddle, dead.left = dies, 1
    with pytest.raises(asyncio.CancelledError):
        await log.append(b"never answered")
    stored = await link.ask("entries_read", shard, 0, 1, 2)
    assert [b"never answered"] == [row[-1] for row in stored], "the body was to be there"
    async with rival(link, shard) as next_owner:
        assert [b"one"] == bodies(await read_all(next_owner))
        assert 2 == await next_owner.append(b"two")
        assert [b"one", b"two"] == bodies(await read_all(next_owner))


async def test_an_owner_that_lost_the_shard_deletes_no_part_of_the_next_checkpoint(link: CassandraLink) -> None:
    """It stood still after its own checkpoint counted, and goes on while its successor writes one."""
    shard = next_shard()
    successor = CassandraLog(link, shard)
    is_begun, may_end = asyncio.Event(), asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        is_begun.set()
        await may_end.wait()
        yield b"second"

    async def stands_still(ask: Ask, asked: tuple[Any, ...]) -> Rows:
        await successor.seize("successor", "")
        writing.append(asyncio.ensure_future(successor.keep_checkpoint(1, parts())))
        await is_begun.wait()
        found: Rows = await ask(*asked)
        return found

    writing: list[asyncio.Future[None]] = []
    log = meddled_log(Meddled(link, "drafts_read", stands_still, 1), shard)
    await own(log)
    await log.append(b"one")
    await log.keep_checkpoint(1, parts_of(b"state"))
    may_end.set()
    await writing[0]
    assert [b"first", b"second"] == [part async for part in successor.checkpoint(1)]


async def test_the_next_owner_is_told_of_the_newest_checkpoint(link: CassandraLink) -> None:
    """Also of one that counted after the row was seen: the parts of the one before are deleted by then."""
    shard = next_shard()
    log = CassandraLog(link, shard, lease_seconds=LEASE_SECONDS)
    await own(log)
    await log.append(b"one")
    await log.keep_checkpoint(1, parts_of(b"old"))
    await log.append(b"two")

    async def just_before(ask: Ask, asked: tuple[Any, ...]) -> Rows:
        await log.keep_checkpoint(2, parts_of(b"new"))
        found: Rows = await ask(*asked)
        return found

    successor = meddled_log(Meddled(link, "shard_seize", just_before, 1), shard)
    tenure = await own(successor, "successor")
    assert (2, 2) == (tenure.checkpoint, tenure.last)
    assert [b"new"] == [part async for part in successor.checkpoint(2)]


async def test_a_busy_owner_can_be_replaced_by_force(link: CassandraLink) -> None:
    """Also while it appends without a pause: the next owner learns all that was acknowledged."""
    shard = next_shard()
    log, successor = CassandraLog(link, shard), CassandraLog(link, shard)
    await own(log)
    told: list[int] = []

    async def appends() -> None:
        with contextlib.suppress(OwnershipLost):
            while True:
                told.append(await log.append(b"%d" % len(told)))

    appending = asyncio.ensure_future(appends())
    await eventually(lambda: len(told) > 10)
    tenure = await successor.seize("successor", "")
    await appending
    assert [*range(1, len(told) + 1)] == told
    assert len(told) <= tenure.last <= len(told) + 1
    assert tenure.last + 1 == await successor.append(b"next")
    assert tenure.last + 1 == len(await read_all(successor))


async def test_a_late_body_of_an_earlier_owner_changes_nothing(link: CassandraLink) -> None:
    """Also if it comes after the entry of the next owner, and is longer."""
    shard = next_shard()
    log = CassandraLog(link, shard, lease_seconds=LEASE_SECONDS)
    stale = (await own(log)).epoch
    async with rival(link, shard) as owner:
        await owner.append(b"good")
        await link.ask("entry_write", shard, 0, 1, stale, 0, 1, b"zzzzzzzz")
        await link.ask("entry_write", shard, 0, 1, stale, 1, 2, b"zzzzzzzz")
        assert [b"good"] == bodies(await read_all(owner))


async def test_a_missing_entry_is_no_end_of_the_log(link: CassandraLink) -> None:
    """A log with a hole is refused as damaged: what follows must not be taken for all there is."""
    shard = next_shard()

    async def lost(ask: Ask, asked: tuple[Any, ...]) -> Rows:
        name, *values = asked
        found: Rows = await ask(name, *values[:2], 1_000, *values[3:])  # it goes to a place where nobody looks for it
        return found

    meddled = Meddled(link, "entry_write", lost, times=0)
    log = meddled_log(meddled, shard)
    await own(log)
    for number in range(3):
        meddled.left = number == 1
        await log.append(b"%d" % number)
    with pytest.raises(Misconfigured, match=f"entry 2 of the log of shard {shard} is missing"):
        await read_all(log)


async def test_the_time_of_a_shard_never_goes_back(link: CassandraLink) -> None:
    """A next owner begins at the time that the log was told, whatever the clocks of the nodes say by then."""
    shard = next_shard()
    log = CassandraLog(link, shard)
    await own(log)
    log.time.begin_at(log.time.now() + 3_600.0)  # as if the nodes had been an hour ahead
    told = log.time.now()
    await log.append(b"an hour ahead")
    async with rival(link, shard) as owner:
        first = owner.time.now()
        assert told <= first < told + 60.0
        assert first <= owner.time.now()


async def test_a_frozen_owner_is_refused_when_it_goes_on(cassandra_url: str, link: CassandraLink) -> None:
    """A process that stood still past its lease: all that it was told of is there, in its place, and nothing after."""
    shard = next_shard()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.cassandra_owner", cassandra_url, str(shard), str(LEASE_SECONDS),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        told = [await asyncio.wait_for(process.stdout.readline(), 90.0) for _ in range(20)]
        os.kill(process.pid, signal.SIGSTOP)
        log = CassandraLog(link, shard, lease_seconds=30.0)
        tenure = await own(log, "next")
        mine = await log.append(b"after the freeze")
        os.kill(process.pid, signal.SIGCONT)
        rest, _ = await asyncio.wait_for(process.communicate(), 90.0)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = [line.split() for line in (b"".join(told) + rest).decode().splitlines()]
    assert [REFUSED] == lines.pop()
    entries = {entry.position: entry.body.decode() for entry in await read_all(log)}
    assert {int(position): body for position, body in lines} == {
        position: entries[position] for position in range(1, len(lines) + 1)
    }
    assert len(lines) <= tenure.last <= len(lines) + 1, "the entry under way may exist, and no other"
    assert (tenure.last + 1, "after the freeze") == (mine, entries[mine])
    assert [*range(1, mine + 1)] == sorted(entries)


async def test_an_owner_whose_process_has_ended_is_replaced_before_its_lease_ends(link: CassandraLink) -> None:
    """Nobody listens at its endpoint any more, and the machine says so."""
    shard = next_shard()
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    dead = CassandraLog(link, shard, lease_seconds=300.0)
    await dead.acquire("dead", endpoint)
    await dead.append(b"one")
    log = CassandraLog(link, shard, is_gone=endpoint_is_gone)
    waiting = asyncio.ensure_future(log.acquire("next", ""))
    looked = eventually(lambda: waiting.done(), within_seconds=1.0)
    with pytest.raises(AssertionError, match="not within"):
        await looked
    server.close()
    await server.wait_closed()
    tenure = await asyncio.wait_for(waiting, 90.0)  # its lease is more than three times as long
    assert 1 == tenure.last
    with pytest.raises(OwnershipLost):
        await dead.append(b"two")


async def test_an_acquisition_that_is_given_up_leaves_no_owner(link: CassandraLink) -> None:
    """It was carried out, and the keeper no longer waited when the answer came: nobody would renew it."""
    shard, hang = next_shard(), asyncio.Event()

    async def carried_out(ask: Ask, asked: tuple[Any, ...]) -> Rows:
        await ask(*asked)
        hang.set()
        await asyncio.Event().wait()
        raise AssertionError

    log = meddled_log(Meddled(link, "shard_seize", carried_out, 1), shard, lease_seconds=300.0)
    waiting = asyncio.ensure_future(log.acquire("given up", ""))
    await hang.wait()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert "given up" == (await log.owner()).owner
    await log.release()
    assert "" == (await log.owner()).owner
    await asyncio.wait_for(CassandraLog(link, shard).acquire("next", ""), 90.0)


async def test_a_link_that_swallows_answers_loses_nothing(
    cassandra_server_url: str, cassandra_url: str, link: CassandraLink
) -> None:
    """Real time-outs of real updates: the requests arrive, and the answers go nowhere for a while."""
    proxy = Proxy(cassandra_server_url)
    through = await proxy.start()
    keyspace = cassandra_url.rpartition("/")[2]
    address = f"cassandra://{through.rpartition('@')[2]}/{keyspace}"
    try:
        async with linked(address, answer_seconds=0.4) as swallowing:
            log = CassandraLog(swallowing, next_shard(), lease_seconds=LEASE_SECONDS)
            await _owned_at_last(log)
            await log.append(b"0")
            for number in range(1, 4):
                proxy.swallow(up=False)
                appending = asyncio.ensure_future(log.append(b"%d" % number))
                before = proxy.swallowed
                await eventually(lambda before=before: proxy.swallowed > before)  # type: ignore[misc]  # bound early
                proxy.heal()
                assert number + 1 == await asyncio.wait_for(appending, 60.0)
            # By the link of the others, which waits longer for its answers.
            assert [b"%d" % number for number in range(4)] == bodies(await read_all(CassandraLog(link, log.shard)))
    finally:
        await proxy.stop()


async def _owned_at_last(log: CassandraLog) -> None:
    """Own a log by a link that waits for no slow answer: not each call of an acquisition is repeated."""

    async def is_owned() -> bool:
        with contextlib.suppress(StoreUnavailable):
            await own(log)
            return True
        return False

    await eventually(is_owned, what="the log is owned")


@pytest.mark.takes_up_to(360)
@pytest.mark.parametrize("after", [False, True])
async def test_a_death_between_any_two_statements_loses_no_ended_run(
    link: CassandraLink, tmp_path: Path, *, after: bool
) -> None:
    """Of two checkpoints with blocks: no run that was acknowledged is lost, none that went comes back, and the next
    checkpoint leaves no block that nobody names."""
    clock = VirtualClock()
    for step in count(1):
        shard, death = next_shard(), Death(step, after=after)
        dying = CassandraLog(cast(CassandraLink, DyingLink(link, death)), shard)
        store = store_over(dying, tmp_path, clock)
        await store.open()
        came_to_end, there, open_ones = await lived(store, death)
        with contextlib.suppress(Died):
            await store.close()
        log = CassandraLog(link, shard)
        if not came_to_end:
            await log.seize("the next one", "")  # whose lease need not be waited for
        again = store_over(log, tmp_path, clock)
        await judge_next_owner(again, there, open_ones)
        await again.close()
        if came_to_end:
            break
    assert step > 15


async def test_a_block_of_an_owner_that_lost_the_shard_is_named_by_nobody(link: CassandraLink, tmp_path: Path) -> None:
    """It is written late, beside those of the next owner, and goes with the first checkpoint of the one after it."""
    clock, shard = VirtualClock(), next_shard()
    old = CassandraLog(link, shard)
    store = store_over(old, tmp_path, clock)
    await store.open()
    runs = await end_runs(store, 2 * BLOCK_RUNS)
    new = CassandraLog(link, shard)
    await new.seize("the next one", "")
    again = store_over(new, tmp_path, clock)
    await again.open()
    await again.keep_checkpoint()
    with pytest.raises(OwnershipLost):
        await store.keep_checkpoint()  # its blocks are written before it is refused
    assert 4 == len(await new.blocks())
    named = {each.name for each in await names_of(new, again.position)}
    assert 2 == len(named)
    await again.close()
    last = store_over(CassandraLog(link, shard), tmp_path, clock)
    await last.open()
    assert set(runs) == set(last.memory.state.ended)
    await last.keep_checkpoint()
    assert named == set(await last.log.blocks())
    await last.close()
    await store.close()


def _kept(name: str) -> tuple[list[tuple[Any, ...]], Callable[[Ask, tuple[Any, ...]], Any]]:
    """The copies of one statement, as a node has them that stands still before it carries them out."""
    copies: list[tuple[Any, ...]] = []

    async def keep(ask: Ask, asked: tuple[Any, ...]) -> Rows:
        copies.append(asked)
        found: Rows = await ask(*asked)
        return found

    return copies, keep


async def _carried_out_late(link: CassandraLink, copies: list[tuple[Any, ...]]) -> list[bool]:
    """Of each copy whether it was applied."""
    return [(await link.ask(*asked))[0][0] for asked in copies]


async def test_a_late_renewal_of_the_tenure_changes_nothing(link: CassandraLink) -> None:
    """A node that stood still carries out a renewal of before, in the epoch of the owner that goes on. The number would
    go back to one that a rival has seen, which then takes the lease for over; and the time would go back, too."""
    copies, keep = _kept("shard_renew")
    log = meddled_log(Meddled(link, "shard_renew", keep, 1), next_shard(), lease_seconds=60.0)
    await own(log)
    await log.renew()
    await log.append(b"one")
    await log.renew()
    before = await log.owner()
    assert [False] == await _carried_out_late(link, copies)
    assert before == await log.owner()


async def test_a_renewal_that_was_given_up_does_not_turn_time_back(
    link: CassandraLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was never applied, and an entry with a later time came since."""
    monkeypatch.setattr(ownership, "PATIENCE_SECONDS", 0.2)
    copies: list[tuple[Any, ...]] = []

    async def held_back(_ask: Ask, asked: tuple[Any, ...]) -> Rows:
        copies.append(asked)
        raise InDoubt("the answer did not come")

    meddled = Meddled(link, "shard_renew", held_back, 1_000)
    log = meddled_log(meddled, next_shard(), lease_seconds=60.0)
    await own(log)
    with pytest.raises(StoreUnavailable):
        await log.renew()
    meddled.left = 0
    while (await log.append(b"later")) and (await log.owner()).told_at <= copies[-1][3]:
        pass
    before = await log.owner()
    assert {False} == set(await _carried_out_late(link, copies))
    assert before == await log.owner()
    await log.renew()
    assert before.renewed + 2 == (await log.owner()).renewed, "a number of a renewal was given twice"


async def test_a_late_checkpoint_of_the_tenure_names_no_deleted_parts(link: CassandraLink) -> None:
    """Else the next owner would look for parts and entries that are gone, and the shard could not be opened."""
    copies, keep = _kept("shard_checkpoint")
    log = meddled_log(Meddled(link, "shard_checkpoint", keep, 1), next_shard(), lease_seconds=60.0)
    await own(log)
    await log.append(b"one")
    await log.keep_checkpoint(1, parts_of(b"first"))
    await log.append(b"two")
    await log.keep_checkpoint(2, parts_of(b"second"))
    assert [False] == await _carried_out_late(link, copies)
    assert [b"second"] == [part async for part in log.checkpoint(2)]
    await log.keep_checkpoint(2, parts_of(b"third"))
    assert [False] == await _carried_out_late(link, copies)
    assert [b"third"] == [part async for part in log.checkpoint(2)]


async def test_a_late_note_of_dropped_segments_and_a_late_release_change_nothing(link: CassandraLink) -> None:
    """The first one would say that entries are there which were deleted; the second one is of an earlier epoch."""
    dropped, keep_dropped = _kept("shard_drop")
    released, keep_released = _kept("shard_release")
    meddled = Meddled(link, "shard_drop", keep_dropped, 2)
    log = meddled_log(meddled, next_shard(), lease_seconds=60.0)
    await own(log)
    for last in (256, 512):
        while await log.append(b"entry") < last:
            pass
        await log.keep_checkpoint(last, parts_of(b"state"))
        await log.drop(last + 1)
    before = await log.owner()
    assert (513, 2) == (before.first, before.swept)
    assert [False, False] == await _carried_out_late(link, dropped)
    assert before == await log.owner()
    earlier = meddled_log(Meddled(link, "shard_release", keep_released, 1), log.shard)
    await earlier.seize("earlier", "")
    await earlier.release()
    await own(log)
    before = await log.owner()
    assert [False] == await _carried_out_late(link, released)
    assert before == await log.owner()


async def test_what_was_not_sent_since_the_node_reads_slowly_is_sent_later(link: CassandraLink) -> None:
    """The driver refuses while its connection is full, so nothing of it is in doubt; once it has room all goes on."""
    await link.ask("shard_read", 999)  # it is prepared
    connections = [pool._connection for pool in link._session.get_pools()]
    assert connections
    refused = asyncio.Event()
    for each in connections:
        each._socket_writable = False

    async def empties() -> None:
        await link.clock.sleep(0.3)
        refused.set()
        for each in connections:
            each._socket_writable = True

    emptying = asyncio.create_task(empties())
    row = await link.ask("shard_read", 999)
    assert refused.is_set()
    assert [] == [*row]
    await emptying


async def test_a_condition_that_was_never_sent_is_not_in_doubt(cassandra_url: str) -> None:
    """Connections that stay full for as long as an answer may take: nothing was applied, so nobody need find out."""
    async with linked(cassandra_url, answer_seconds=PATIENT_SECONDS) as link:
        shard = next_shard()
        await link.ask("shard_read", shard)  # it connects
        await link.prepared("shard_make")
        link._answer_seconds = 0.3  # nothing is sent from here on, so no answer can be too late for it
        for pool in link._session.get_pools():
            pool._connection._socket_writable = False
        with pytest.raises(StoreUnavailable) as refused:  # `InDoubt` is none
            await link.ask("shard_make", shard)
        assert "ConnectionBusy" in refused.value.detail
