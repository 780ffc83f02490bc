"""Machines come up in any order: what a process waits for, and what it says meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from tests.support.waiting import eventually
from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.domain.errors import BrokerUnavailable, Misconfigured, StoreUnavailable
from tickwise.ports.broker import RESULTS, Message
from tickwise.wiring import link, processes
from tickwise.wiring import startup_wait as module
from tickwise.wiring.health_port import check_of, health_port
from tickwise.wiring.runtime import open_runtime
from tickwise.wiring.startup_wait import StartupWait, StoppedEarly


class Later:
    """Something that is there from its third look on."""

    def __init__(self) -> None:
        self.looks = 0

    async def __call__(self) -> str:
        self.looks += 1
        if self.looks < 3:
            raise StoreUnavailable("not yet")
        return "there"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks again at once."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)


@pytest.mark.usefixtures("quick")
async def test_what_comes_later_is_waited_for() -> None:
    """And what it gives is given on; meanwhile the process knows what it waits for, and what keeps it waiting."""
    patience, later = StartupWait(asyncio.Event()), Later()
    assert "there" == await patience.until("store", later)
    assert (3, "it waits for the store: not yet") == (later.looks, patience.awaited)


@pytest.mark.usefixtures("quick")
async def test_a_person_is_told_what_does_not_come() -> None:
    """`up` gives up, with the reason; an address that is wrong must not look like a machine that is slow."""

    async def never() -> None:
        raise StoreUnavailable("the database could not be reached")

    with pytest.raises(Misconfigured, match=r"could not be reached. It was tried for 0 s; check the address"):
        await StartupWait(asyncio.Event(), most_seconds=0.0).until("store", never)


async def test_who_waits_can_be_stopped() -> None:
    """At once, and that is no error of anybody's."""
    stop = asyncio.Event()

    async def never() -> None:
        stop.set()
        raise StoreUnavailable("away")

    with pytest.raises(StoppedEarly):
        await StartupWait(stop).until("store", never)


async def test_the_health_port_answers_while_the_process_waits() -> None:
    """Alive from the first moment, ready when it can work, and unready again when what it needs goes away."""
    settings, waiting = Settings(health_port=0), StartupWait(asyncio.Event())
    waiting.awaited = "it waits for the store"
    async with (
        health_port(settings, waiting) as health,
        httpx2.AsyncClient(base_url=str(health.url), trust_env=False, timeout=60) as client,
    ):
        assert 200 == (await client.get("/livez")).status_code
        before = await client.get("/readyz")
        assert (503, "not ready: it waits for the store\n") == (before.status_code, before.text)
        assert 200 == (await client.get("/metrics")).status_code
        async with open_runtime(Settings(blobs_url="memory://"), "memory://", waiting) as runtime:
            health.at_work(runtime, check_of(runtime))
            assert 200 == (await client.get("/readyz")).status_code
            assert "tickwise_timers 0.0" in (await client.get("/metrics")).text

            async def gone() -> None:
                raise StoreUnavailable("away")

            health.at_work(runtime, gone)
            assert 503 == (await client.get("/readyz")).status_code


class Absent(MemoryBroker):
    """A broker that refuses to be opened as long as there are refusals."""

    def __init__(self, *refusals: Exception) -> None:
        super().__init__(Exchange(), SystemClock(), opened=False)
        self.refusals = list(refusals)
        self.closed = False

    async def open(self, cluster: str) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        await super().open(cluster)

    async def close(self) -> None:
        self.closed = True
        await super().close()


SETTINGS = Settings(blobs_url="memory://", broker_url="kafka://nobody:9092")


@pytest.fixture
def with_broker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Absent], None]:
    """Lets the settings above lead to this broker, which is looked for again at once."""
    monkeypatch.setattr(link, "AGAIN_SECONDS", 0.0)

    def given(broker: Absent) -> None:
        monkeypatch.setattr(link, "make_broker", lambda _url, _clock, _blobs: broker)

    return given


@pytest.mark.usefixtures("quick")
async def test_who_needs_the_broker_waits_for_it(with_broker: Callable[[Absent], None]) -> None:
    """It is open before anything begins, and closed after it."""
    broker, patience = Absent(*[BrokerUnavailable("not yet")] * 3), StartupWait(asyncio.Event())
    with_broker(broker)
    async with open_runtime(SETTINGS, "memory://", patience, needs_broker=True) as runtime:
        assert runtime.broker is not None
        assert runtime.broker.state().reachable
        assert "it waits for the broker: not yet" == patience.awaited
    assert broker.closed


async def test_all_others_work_without_it_and_have_it_when_it_is_there(with_broker: Callable[[Absent], None]) -> None:
    """A scheduler that starts while Kafka is away schedules."""
    broker = Absent(*[BrokerUnavailable("not yet")] * 3)
    with_broker(broker)
    async with open_runtime(SETTINGS, "memory://", StartupWait(asyncio.Event())) as runtime:
        assert runtime.broker is not None
        assert not runtime.broker.state().reachable
        await eventually(lambda: runtime.broker is not None and runtime.broker.state().reachable, what="it is open")
    assert broker.closed


async def test_a_broker_of_another_cluster_ends_the_process(with_broker: Callable[[Absent], None]) -> None:
    """Also when it is found out beside the work: the process is told to stop, and says why at its end."""
    stop = asyncio.Event()
    with_broker(Absent(Misconfigured("the topics belong to the store other")))
    with pytest.raises(Misconfigured, match="belong to the store other"):
        async with open_runtime(SETTINGS, "memory://", StartupWait(stop)):
            await stop.wait()


async def test_an_end_before_the_broker_came_is_in_order(with_broker: Callable[[Absent], None]) -> None:
    """Nothing is left behind, and nothing is raised."""
    broker = Absent(*[BrokerUnavailable("not yet")] * 1_000_000)
    with_broker(broker)
    async with open_runtime(SETTINGS, "memory://", StartupWait(asyncio.Event())):
        pass
    assert broker.closed


async def test_what_is_wrong_with_the_brokers_address_is_said_before_anything_is_waited_for() -> None:
    """A store that is away does not hide it."""
    settings = Settings(blobs_url="memory://", broker_url="kafka://nobody:9092?prefx=s")
    with pytest.raises(Misconfigured, match="prefx"):
        async with open_runtime(settings, "postgresql://nobody@127.0.0.1:1/nothing", StartupWait(asyncio.Event())):
            pass


def test_a_recorder_without_a_broker_is_refused() -> None:
    """Before it does anything else, with what to set."""
    with pytest.raises(Misconfigured, match="set TICKWISE_BROKER_URL"):
        processes.run_recorder(Settings(database_url="memory://"))


async def test_what_goes_through_the_broker_is_in_the_metrics(with_broker: Callable[[Absent], None]) -> None:
    """Whether it answers, what was sent, what waits, and how far behind this process is with its partitions; what it
    had is forgotten when it leaves its group."""
    with_broker(Absent())
    async with open_runtime(SETTINGS, "memory://", StartupWait(asyncio.Event()), needs_broker=True) as runtime:
        assert runtime.broker is not None
        consumer = runtime.broker.consumer([RESULTS], "recorders")
        await consumer.start()
        await runtime.broker.send(RESULTS, [Message(b"a"), Message(b"b")])
        runtime.broker.send_nowait(RESULTS, [Message(b"c")])
        taken = await consumer.take(10, 5.0)
        await consumer.done(taken[:1])
        text = runtime.metrics.render().decode()
        await consumer.stop()
        after = runtime.metrics.render().decode()
    assert len(taken) == 3
    for line in (
        "tickwise_broker_reachable 1.0",
        'tickwise_broker_sent_total{channel="results"} 2.0',
        "tickwise_broker_thrown_total 1.0",
        'tickwise_broker_lag{channel="results"} 2.0',
        'tickwise_buffer_items{buffer="broker_sending"} 0.0',
    ):
        assert line in text.splitlines()
    assert "tickwise_broker_lag{" not in after
