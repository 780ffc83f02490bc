"""Effects that are large: of many calls at once, and of one call that no entry of the log can hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.keepers import GatedLog, served
from tests.support.waiting import eventually
from tests.unit.roles.rig import Silent
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.keeper.wire import forms as forms_module
from tickwise.domain.errors import Bug, Invalid, StoreUnavailable, TooLarge
from tickwise.ports.store import Added, Store
from tickwise.roles.shared.outcome_writer import OutcomeWriter
from tickwise.testing.clock import VirtualClock
from tickwise.testing.contracts.store.dispatch.handovers import HandoverContract
from tickwise.testing.factories import Factory, outcome

MOST = 100_000


class BoundedLog(GatedLog):
    """A log that takes entries up to `MOST` bytes, as that in Cassandra takes them up to 64 MB."""

    entry_max_bytes = MOST

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sizes: list[int] = []

    async def append(self, body: bytes) -> int:
        if len(body) > MOST:
            raise Bug(f"an entry of {len(body)} bytes")
        self.sizes.append(len(body))
        return await super().append(body)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def log(tmp_path: Path) -> BoundedLog:
    return BoundedLog(tmp_path)


@pytest.fixture
async def store(log: BoundedLog, clock: VirtualClock) -> AsyncIterator[KeeperStore]:
    lost = list[str]()
    made = KeeperStore(log, clock, lost=lost.append)
    await made.open()
    yield made
    assert not lost, "the shard was given up"
    log.gate.set()
    await made.close()


async def is_back(store: KeeperStore, clock: VirtualClock) -> bool:
    """Check whether it answers, a second later."""
    await clock.advance(1.0)
    try:
        return bool(await store.now())
    except StoreUnavailable:
        return False


def large(make: Factory, size: int) -> Any:
    """A job whose definition has so many bytes."""
    return make.job(definition='{"x":"' + "y" * size + '"}')


async def test_calls_that_come_at_once_go_into_several_entries(
    store: KeeperStore, log: BoundedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is larger than the log takes, and nothing starts over."""
    monkeypatch.setattr("tickwise.adapters.store.keeper.store.GROUP_BYTES", MOST // 2, raising=False)
    make = Factory(await store.now(), seed="many")
    log.gate.clear()
    first = asyncio.create_task(store.jobs.add([make.job()]))
    await eventually(lambda: log.waiting)
    jobs = [large(make, MOST // 5) for _ in range(20)]
    adding = [asyncio.create_task(store.jobs.add([each])) for each in jobs]
    log.gate.set()
    assert [[Added.CREATED]] * 21 == await asyncio.gather(first, *adding)
    assert max(log.sizes) <= MOST // 2
    found = [await store.jobs.get("default", each.job_id) for each in jobs]
    assert [each.job_id for each in jobs] == [each.job_id for each in found if each is not None]


async def test_a_read_waits_for_the_last_of_several_entries(
    store: KeeperStore, log: BoundedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have seen the effects of any of them."""
    monkeypatch.setattr("tickwise.adapters.store.keeper.store.GROUP_BYTES", MOST // 2, raising=False)
    make = Factory(await store.now(), seed="read")
    log.gate.clear()
    adding = [asyncio.create_task(store.jobs.add([large(make, MOST // 3)])) for _ in range(4)]
    await eventually(lambda: log.waiting)
    appends = log.appends
    reading = asyncio.create_task(store.jobs.get("default", make.job().job_id))
    await eventually(lambda: len(store.memory.state.jobs) == len(adding))
    log.gate.set()
    await reading
    assert 4 == log.appends - appends
    await asyncio.gather(*adding)


async def test_a_call_with_too_large_effects_is_refused_and_has_not_happened(
    store: KeeperStore, log: BoundedLog, clock: VirtualClock
) -> None:
    """Its caller is told what to do, and is not in doubt. What came before it is there, and the shard goes on."""
    make = Factory(await store.now(), seed="too large")
    before, too_large = make.job(), [large(make, MOST // 5) for _ in range(10)]
    log.gate.clear()
    adding = asyncio.create_task(store.jobs.add([before]))
    await eventually(lambda: log.waiting)
    with pytest.raises(TooLarge, match="jobs.add would change .* ask for less"):
        await store.jobs.add(too_large)
    with pytest.raises(StoreUnavailable):
        await store.jobs.get("default", too_large[0].job_id)
    log.gate.set()
    assert [Added.CREATED] == await adding
    await eventually(lambda: is_back(store, clock))
    assert await store.jobs.get("default", too_large[0].job_id) is None
    assert before.job_id == (await store.jobs.get("default", before.job_id)).job_id
    assert [[Added.CREATED]] * 10 == [await store.jobs.add([each]) for each in too_large]


def nested(levels: int) -> Any:
    """A list in a list in a list."""
    found: Any = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize("value", [1 << 64, nested(5_000)], ids=["number", "depth"])
async def test_a_value_that_no_entry_can_hold_is_refused(store: KeeperStore, clock: VirtualClock, value: Any) -> None:
    """And the shard goes on: no user may stop it by a value."""
    make = Factory(await store.now(), seed="value")
    job = make.job(labels={"size": value})
    with pytest.raises(Invalid, match="jobs.add has a value that cannot be kept"):
        await store.jobs.add([job])
    await eventually(lambda: is_back(store, clock))
    assert [Added.CREATED] == await store.jobs.add([make.job()])


async def test_a_call_that_is_too_large_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before it is carried out: at the client, and at the keeper if that is reached all the same."""
    monkeypatch.setattr(forms_module, "CALL_MAX_BYTES", 20_000, raising=False)
    async with served(tmp_path / "store", VirtualClock()) as keeper:
        client = await keeper.client()
        make = Factory(await client.now(), seed="call")
        with pytest.raises(TooLarge, match="jobs.add has .* send less at a time"):
            await client.jobs.add([large(make, 30_000)])
        monkeypatch.setattr(forms_module, "CALL_MAX_BYTES", 1 << 20)
        body, position = forms_module.FORMS["jobs.add"].call(([large(make, 30_000)],), {}), keeper.store.position
        monkeypatch.setattr(forms_module, "CALL_MAX_BYTES", 20_000)
        assert client._link is not None
        with pytest.raises(TooLarge):
            await client._link.call("jobs.add", body)
        assert (position, 0) == (keeper.store.position, len(keeper.store.memory.state.jobs))


@pytest.mark.parametrize(
    "labels",
    [{"n": 1 << 64}, {"n": 1 << 64, "s": "\ud800"}, {"n": nested(5_000)}, {"n": nested(5_000), "s": "\ud800"}],
    ids=["number", "number-and-half-a-pair", "depth", "depth-and-half-a-pair"],
)
async def test_a_value_that_no_message_can_hold_is_refused_at_its_client(tmp_path: Path, labels: Any) -> None:
    """With a sentence for the user; the connection goes on."""
    async with served(tmp_path / "store", VirtualClock()) as keeper:
        client = await keeper.client()
        make = Factory(await client.now(), seed="value")
        with pytest.raises(Invalid, match="64 bits|nested too deeply"):
            await client.jobs.add([make.job(labels=labels)])
        assert [Added.CREATED] == await client.jobs.add([make.job()])


async def test_outcomes_that_are_too_large_together_are_written_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is too large alone ends its run as failed: an executor must not hold a run for good."""
    async with served(tmp_path / "store", VirtualClock()) as keeper:
        client = await keeper.client()
        store, make = cast("Store", client), Factory(await client.now(), seed="outcomes")
        executor, claims = await HandoverContract().crowd(store, make, 4)
        monkeypatch.setattr(forms_module, "CALL_MAX_BYTES", 4_000)
        sizes = (1_500, 1_500, 1_500, 5_000)
        ended = [outcome(each, result='"' + "r" * size + '"') for each, size in zip(claims, sizes, strict=True)]
        writer = OutcomeWriter(client.attempts, Silent(), LocalSignals())
        assert [] == [*await writer.write(executor, ended)]
        found = [await client.runs.get("default", each.run_id) for each in claims]
        assert ["SUCCESS"] * 3 + ["FAILED"] == [str(each.state) for each in found if each is not None]
