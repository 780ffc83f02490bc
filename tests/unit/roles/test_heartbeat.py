"""The heartbeat of schedulers to a receiver elsewhere, over real HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.http_receiver import Heard, HttpReceiver, Manner
from tests.unit.roles.rig import Flaky, Silent
from tests.unit.roles.scheduler_rig import RETENTION
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock, VirtualClock
from tickwise.adapters.heartbeat import HttpPinger
from tickwise.adapters.signals.local import LocalSharedState, LocalSignals
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import Misconfigured
from tickwise.roles.scheduler.heartbeat import AGAIN_SHARE, NOTE_SHARE, HeartbeatSettings, OutboundHeartbeat
from tickwise.roles.scheduler.role import Receiver, Scheduler, SchedulerSettings
from tickwise.roles.shared.health import InvariantPass
from tickwise.testing.factories import Factory

WELL, FAIL = "/ping/token-5309", "/ping/token-5309/fail"
CLEAN = InvariantPass(1_800_000_000.0, 0, 0)


class Told(Silent):
    """What the metrics say."""

    def __init__(self) -> None:
        self.pings: Counter[str] = Counter()

    def pinged(self, result: str) -> None:
        self.pings[result] += 1


class Bench:
    """Schedulers' heartbeats on one store, one clock and one receiver."""

    def __init__(self, receiver: HttpReceiver) -> None:
        self.receiver = receiver
        self.clock = VirtualClock(start=1_800_000_000.0)
        self.store = MemoryStore(self.clock, near_seconds=2.0)
        self.shared_state = LocalSharedState(self.clock)
        self.make = Factory(self.clock.now())
        self.last_pass: InvariantPass | None = CLEAN
        self.told = Told()

    def beat(
        self, name: str = "a:1", *, store: Any = None, fail: bool = False, ping_seconds: float = 20.0
    ) -> OutboundHeartbeat:
        return OutboundHeartbeat(
            (store or self.store).upkeep,
            self.shared_state,
            self.clock,
            HttpPinger(self.receiver.url(WELL), self.receiver.url(FAIL) if fail else None),
            last_pass=lambda: self.last_pass,
            telemetry=self.told,
            settings=HeartbeatSettings(name, 60.0, ping_seconds),
        )


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with HttpReceiver() as receiver:
        yield Bench(receiver)


async def test_the_receiver_is_asked_once_in_an_interval(bench: Bench) -> None:
    """By a GET, while all is well."""
    beat = bench.beat()
    for _ in range(2):
        assert 60.0 == await beat.step()
        await bench.clock.advance(60.0)
    assert [Heard("GET", WELL, "")] * 2 == bench.receiver.heard
    assert {"well": 2} == bench.told.pings


async def test_schedulers_share_one_heartbeat(bench: Bench) -> None:
    """One pings and the others watch it; when it is gone, another one goes on within the interval that comes next."""
    first, second = bench.beat("a:1"), bench.beat("b:2")
    assert (60.0, 60.0 * AGAIN_SHARE) == (await first.step(), await second.step())
    await bench.clock.advance(59.0)
    await second.step()
    assert 1 == len(bench.receiver.heard)
    await bench.clock.advance(60.0 * NOTE_SHARE - 58.0)
    await second.step()
    assert 2 == len(bench.receiver.heard)
    assert 60.0 * AGAIN_SHARE == await first.step()


async def test_a_late_timer_silences_the_heartbeat(bench: Bench) -> None:
    """Until timers fire in time again. The receiver alarms by itself when it hears nothing for long."""
    beat = bench.beat()
    await bench.store.jobs.add([bench.make.recurring(bench.make.now + 10.0)])
    await bench.clock.advance(75.0)
    with capture_logs() as logs:
        await beat.step()
        await beat.step()
    assert [] == bench.receiver.heard
    assert ["heartbeat_withheld"] == [line["event"] for line in logs]
    assert "65 s late" in logs[0]["detail"]


@pytest.mark.parametrize("last", [InvariantPass(1_800_000_000.0, 3, 0), InvariantPass(1_800_000_000.0, 0, 1)])
async def test_a_pass_that_was_not_clean_is_told_as_a_failure(bench: Bench, last: InvariantPass) -> None:
    """With its reason, to the address for that; the next clean pass ends it."""
    beat = bench.beat(fail=True)
    bench.last_pass = last
    await beat.step()
    bench.last_pass = CLEAN
    await beat.step()
    (failure, success) = bench.receiver.heard
    assert ("POST", FAIL, Heard("GET", WELL, "")) == (failure.method, failure.path, success)
    assert failure.body.startswith("The pass of 2027-01-15T08:00:00Z ")
    assert {"unwell": 1, "well": 1} == bench.told.pings


async def test_before_the_first_pass_nothing_was_found(bench: Bench) -> None:
    """A scheduler that just began is no trouble."""
    bench.last_pass = None
    await bench.beat().step()
    assert [Heard("GET", WELL, "")] == bench.receiver.heard


async def test_without_the_store_the_failure_is_told(bench: Bench) -> None:
    """The receiver is elsewhere, and hears of it."""
    flaky = Flaky(bench.store)
    flaky.gone = True
    await bench.beat(store=flaky, fail=True).step()
    assert [Heard("POST", FAIL, "The store does not answer this scheduler.")] == bench.receiver.heard


async def test_a_scheduler_that_is_cut_off_alone_says_nothing(bench: Bench) -> None:
    """Another one just said that all is well."""
    flaky = Flaky(bench.store)
    flaky.gone = True
    await bench.beat("a:1").step()
    await bench.beat("b:2", store=flaky, fail=True).step()
    assert [Heard("GET", WELL, "")] == bench.receiver.heard


@pytest.mark.parametrize("manner", [Manner.REFUSES, Manner.REDIRECTS, Manner.HANGS, Manner.HANGS_UP])
async def test_an_outage_of_the_receiver_is_told_once_and_without_the_token(bench: Bench, manner: Manner) -> None:
    """Tried again sooner than after a whole interval, and the end of the outage is told too."""
    # The one that never answers is given up; all others answer, however busy the machine is.
    beat = bench.beat(ping_seconds=0.5 if manner is Manner.HANGS else 20.0)
    bench.receiver.manner = manner
    with capture_logs() as logs:
        for _ in range(3):
            assert 60.0 * AGAIN_SHARE == await beat.step()
        bench.receiver.manner = Manner.WELL
        beat._settings = beat._settings._replace(ping_seconds=20.0)
        assert 60.0 == await beat.step()
    assert ["heartbeat_lost", "heartbeat_came_through"] == [line["event"] for line in logs]
    assert f"127.0.0.1:{bench.receiver.port}" == logs[0]["receiver"]
    assert "token" not in str(logs)
    assert {"lost": 3, "well": 1} == bench.told.pings


async def test_an_answer_without_an_end_is_not_read(bench: Bench) -> None:
    """Its status says all."""
    bench.receiver.manner = Manner.FLOODS
    assert 60.0 == await bench.beat().step()


async def test_an_address_that_leads_nowhere_is_an_outage(bench: Bench) -> None:
    """Nobody listens there, or there is no such name: said without the address."""
    for url in ("http://127.0.0.1:1/secret-path", "http://user:pw@no-such-host.invalid/secret-path"):
        beat = bench.beat()
        beat._pinger = HttpPinger(url)
        with capture_logs() as logs:
            await beat.step()
        assert ["heartbeat_lost"] == [line["event"] for line in logs]
        assert "secret" not in str(logs)
        assert "pw@" not in str(logs)


@pytest.mark.parametrize("url", ["http://[/secret", "https:///secret", "https://host:secret/"])
def test_an_address_that_is_none_is_refused_at_the_start(url: str) -> None:
    """By the name of its setting, for the address may hold a token."""
    for place, said in (((url, None), "heartbeat_url"), (("https://here/", url), "heartbeat_fail_url")):
        with pytest.raises(Misconfigured) as refused:
            HttpPinger(*place)
        assert said in refused.value.detail
        assert "secret" not in refused.value.detail


async def test_a_receiver_that_hangs_holds_up_no_scheduler() -> None:
    """Timers fire while a ping waits for its answer."""
    clock = SystemClock()
    store = MemoryStore(clock, near_seconds=2.0)
    make = Factory(clock.now())
    async with HttpReceiver(Manner.HANGS) as receiver:
        scheduler = Scheduler(
            store=store,
            blobs=open_blobs("memory://"),
            signals=LocalSignals(),
            clock=clock,
            settings=SchedulerSettings(retention=RETENTION, heartbeat_seconds=60.0),
            telemetry=Silent(),
            receiver=Receiver(HttpPinger(receiver.url(WELL)), LocalSharedState(clock)),
        )
        await scheduler.start()
        await receiver.until(1)
        definition = '{"schedule_type":"CRON","cron_expression":"* * * * *","task":{"kind":"shell","command":"true"}}'
        await store.jobs.add([make.recurring(clock.now() + 0.05, definition=definition)])
        fired = 0
        while not fired:
            fired = (await store.upkeep.stats()).queued
            await clock.sleep(0.01)
        await scheduler.stop()
