"""Executors that are told by a broker what they can claim: what a hint does, and what its absence costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.unit.roles.rig import LANE, Rig, drive
from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane
from tickwise.observability.metrics import Metrics
from tickwise.ports.broker import DEAD, Channel, ChannelKind, Delivery, Message, lane_of
from tickwise.ports.store import ClaimRequest, NewJob, Ready
from tickwise.roles.executor.claim_hints import REACHABLE_SECONDS
from tickwise.roles.shared.hint_publisher import PACK_QUICK, PACK_SLOTS, SPREAD_SECONDS, HintPublisher, packs
from tickwise.roles.shared.messages import ID_BYTES, MAX_HINTED, Hints, UnreadableMessage, decode, encode

QUICK = Lane(requires=("task:function",))


class Watched:
    """How a store is asked for runs."""

    def __init__(self, rig: Rig) -> None:
        self.looks = 0
        self.named: list[int] = []
        self._store = rig.store
        rig.flaky.attempts.claim = self.claim

    async def claim(self, request: ClaimRequest) -> Any:
        if request.runs is None:
            self.looks += 1
        else:
            self.named.append(len(request.runs))
        return await self._store.attempts.claim(request)


async def register(**settings: Any) -> Rig:
    """An executor with a broker that has looked into the store once, so that only hints bring it something soon."""
    settings.setdefault("exchange", Exchange(lanes=3, partitions=2))
    rig = Rig(**settings)
    await drive(rig.clock, rig.executor.prepare())
    await rig.tick()
    return rig


def announce(rig: Rig, *jobs: NewJob) -> None:
    """As whoever stored them does."""
    assert rig.broker is not None
    HintPublisher(rig.broker).publish([ready(rig, job) for job in jobs])


def ready(rig: Rig, job: NewJob) -> Ready:
    """Its first run, as a hint names it."""
    assert job.run_id is not None
    return Ready(job.run_id, rig.clock.now() if job.due is None else job.due, job.lane, job.namespace)


async def taken(rig: Rig, channel: Channel) -> Sequence[Delivery]:
    """What is in a channel."""
    assert rig.broker is not None
    consumer = rig.broker.consumer([channel], "of the test")
    await consumer.start()
    return await consumer.take(1000, 0.0)


def lag(rig: Rig) -> int:
    """Hints that are there and were not said done."""
    assert rig.executor._hinting is not None
    return sum(rig.executor._hinting._consumer.state().lag.values())


async def test_what_a_hint_names_is_claimed_by_its_name() -> None:
    """Without a look at what else there is, and the hint is done then."""
    rig = await register()
    seen, job = Watched(rig), await rig.submit()
    announce(rig, job)
    await rig.tick()
    assert [job.run_id] == rig.runner.launched
    assert ([1], 0) == (seen.named, seen.looks)
    assert 0 == lag(rig)


async def test_a_lost_hint_costs_no_more_than_the_time_between_two_looks() -> None:
    """The executor looks itself every `poll_seconds`."""
    rig = await register(poll_seconds=0.3)
    job = await rig.submit()
    await rig.tick()
    assert [] == rig.runner.launched
    await rig.tick(after_seconds=0.3)
    assert [job.run_id] == rig.runner.launched


async def test_a_hint_that_comes_again_starts_nothing_twice() -> None:
    """Repeated while its run goes on, and after it has ended."""
    rig = await register()
    job = await rig.submit()
    announce(rig, job, job)
    await rig.tick()
    announce(rig, job)
    await rig.tick()
    rig.runner.end(rig.runner.launched[0])
    await rig.tick()
    announce(rig, job)
    await rig.tick()
    assert [job.run_id] == rig.runner.launched
    assert "SUCCESS" == await rig.state(job)
    assert 0 == lag(rig)


async def test_hints_for_runs_that_were_never_made_harm_nobody() -> None:
    """They cost a look, and what comes with them is claimed."""
    rig = await register()
    job, never = await rig.submit(), rig.make.job(lane=LANE)
    announce(rig, never, job)
    await rig.tick()
    assert [job.run_id] == rig.runner.launched
    assert 0 == lag(rig)


async def test_while_the_broker_is_away_a_bell_is_enough() -> None:
    """As without a broker: each wake-up is a look at whatever there is."""
    rig = await register(exchange=(exchange := Exchange()))
    exchange.away = True
    await rig.clock.advance(REACHABLE_SECONDS)
    seen, job = Watched(rig), await rig.submit()
    assert rig.executor._hinting is not None
    await drive(rig.clock, rig.executor._hinting.heard())
    assert rig.executor._claim_wake.is_set()
    await rig.tick()
    assert [job.run_id] == rig.runner.launched
    assert 1 == seen.looks


async def test_while_hints_come_a_bell_wakes_nobody() -> None:
    """Or each of a hundred executors would ask the store for one run."""
    rig = await register()
    rig.executor._claim_wake.clear()
    assert rig.executor._hinting is not None
    await drive(rig.clock, rig.executor._hinting.heard())
    assert not rig.executor._claim_wake.is_set()


async def test_the_more_urgent_of_two_hints_is_claimed_first() -> None:
    """Whichever came first."""
    rig = await register(slots=1)
    blocking = await rig.submit()
    announce(rig, blocking)
    await rig.tick()
    low, high = rig.make.job(lane=LANE._replace(priority=2)), rig.make.job(lane=LANE._replace(priority=8))
    body = '{"schedule_type":"IMMEDIATE","task":{"kind":"scripted"}}'
    jobs = [job._replace(definition=body, task_kind="scripted") for job in (low, high)]
    await rig.store.jobs.add(jobs)
    announce(rig, *jobs)
    await rig.tick()
    assert blocking.run_id is not None
    rig.runner.end(blocking.run_id)
    seen = Watched(rig)
    await rig.tick()
    assert [blocking.run_id, high.run_id] == rig.runner.launched
    assert ([1], 0) == (seen.named, seen.looks)


async def test_an_executor_without_a_free_slot_lets_hints_go_that_it_has_no_place_for() -> None:
    """Others may have a slot: they find those runs in the store. What it kept for itself is bounded."""
    rig = await register(slots=1)
    jobs = [await rig.submit() for _ in range(20)]
    announce(rig, *jobs)
    await rig.tick()
    await rig.tick()
    hinting = rig.executor._hinting
    assert hinting is not None
    assert 1 == len(rig.runner.launched)
    assert 0 < hinting.size() < 20 - PACK_SLOTS
    assert 0 == lag(rig), "what waits for a slot may wait for hours, and must not hold up what is said done after it"


async def test_what_was_let_go_is_found_by_looking_when_a_slot_is_free() -> None:
    """All of them run, one after the other."""
    rig = await register(slots=1, poll_seconds=0.3)
    jobs = [await rig.submit() for _ in range(20)]
    announce(rig, *jobs)
    await rig.tick()
    for _ in range(40):
        for run in [*rig.runner.running]:
            rig.runner.end(run)
        await rig.tick(after_seconds=0.1)
    assert {job.run_id for job in jobs} == set(rig.runner.launched)
    assert 20 == len(rig.runner.launched)


async def test_a_quick_runner_that_is_full_leaves_the_rest_with_the_broker() -> None:
    """Its buffer is bounded, and what it does not take goes on waiting where others could have it."""
    rig = await register(quick=2, slots=2, claim_batch=10)
    jobs = [await rig.submit() for _ in range(60)]
    for job in jobs:
        announce(rig, job)
    for _ in range(5):
        await rig.tick()
    hinting = rig.executor._hinting
    assert hinting is not None
    assert 20 == hinting.size()
    assert not await hinting.listen(0.0)
    for _ in range(60):
        rig.runner.end_many([*rig.runner.running])
        await rig.tick(after_seconds=0.05)
    assert 60 == len(rig.runner.launched)
    assert 0 == lag(rig)


async def test_a_hint_of_what_needs_a_slot_later_is_kept_until_then() -> None:
    """The slot stays free until shortly before; the start is not late."""
    rig = await register(slots=1, ahead_seconds=2.0, poll_seconds=1000.0)
    due = rig.clock.now() + 1.5
    job = await rig.submit(due)
    announce(rig, job)
    await rig.tick()
    assert "QUEUED" == await rig.state(job)
    await rig.tick(after_seconds=1.0)
    assert "DISPATCHED" == await rig.state(job)
    await rig.tick(after_seconds=0.5)
    assert [job.run_id] == rig.runner.launched


async def test_hints_of_what_nobody_here_can_do_are_done_at_once() -> None:
    """Another queue, a label that is not ours, a kind of task without a runner."""
    rig = await register()
    lanes = (LANE._replace(queue="other"), Lane(requires=("gpu", "task:scripted")), Lane(requires=("task:other",)))
    announce(rig, *[rig.make.job(lane=lane) for lane in lanes])
    seen = Watched(rig)
    await rig.tick()
    assert ([], 0) == (seen.named, lag(rig))


async def test_hints_for_other_namespaces_are_done_at_once() -> None:
    """An executor that is bound claims by name what it may take, also out of one hint for runs of several."""
    rig = await register(namespaces=("team-a",))
    jobs = [rig.make.job(namespace=name, lane=LANE) for name in ("team-a", "team-b", "team-a", "team-b")]
    await rig.store.jobs.add(jobs)
    announce(rig, *jobs)
    announce(rig, rig.make.job(namespace="team-b", lane=LANE))
    seen = Watched(rig)
    await rig.tick()
    assert ([2], 0) == (seen.named, lag(rig))


async def test_what_is_no_hint_is_parked_with_its_bytes_and_holds_up_nothing() -> None:
    """Noise, a later version, half an id: each goes to the channel of dead messages, and the next hint is claimed."""
    rig = await register(exchange=Exchange(lanes=3, partitions=1))
    assert rig.broker is not None
    poison = [
        b"\xff\x00noise",
        encode(Hints("default", 5, (), b"", v=99)),
        encode(Hints("default", 5, (), b"half")),
        encode(Hints("default", 5, (), bytes(ID_BYTES * (MAX_HINTED + 1)))),
    ]
    rig.broker.send_nowait(lane_of(5, 3), [Message(value, b"key", [("own", b"header")]) for value in poison])
    job = await rig.submit()
    announce(rig, job)
    await rig.tick()
    await rig.tick()
    assert [job.run_id] == rig.runner.launched
    assert 0 == lag(rig)
    dead = await taken(rig, DEAD)
    assert poison == [delivery.value for delivery in dead]
    headers = dict(dead[1].headers)
    assert ("key", b"header", b"executor", b"runs.p1") == (
        (dead[1].key or b"").decode(),
        headers["own"],
        headers["role"],
        headers["channel"],
    )
    assert b"it is of version 99, and this program reads up to 1" == headers["error"]


async def test_a_named_claim_that_failed_is_made_again() -> None:
    """The names wait while the store is away."""
    rig = await register(poll_seconds=1000.0, quick=2, slots=2)
    job = await rig.submit()
    announce(rig, job)
    rig.flaky.away = {"attempts.claim"}
    with pytest.raises(Unavailable, match="away"):
        await rig.tick()
    assert 1 == lag(rig)
    rig.flaky.away = set()
    await rig.tick()
    assert [job.run_id] == rig.runner.launched


async def test_what_a_named_claim_took_whose_answer_was_lost_is_given_back() -> None:
    """The store says that it is ours, and we do not know it: it goes back, and is claimed again."""
    rig = await register(poll_seconds=1000.0)
    job = await rig.submit()
    announce(rig, job)
    rig.flaky.answers_lost = {"attempts.claim"}
    with pytest.raises(Unavailable, match="lost"):
        await rig.tick()
    assert "DISPATCHED" == await rig.state(job)
    rig.flaky.answers_lost = set()
    await rig.tick()
    assert [job.run_id] == rig.runner.launched
    assert RunState.DISPATCHED == (await rig.row(job)).state


async def test_what_an_executor_that_ends_has_not_claimed_goes_to_others() -> None:
    """Its hints are taken again by another one of its kind."""
    exchange = Exchange(lanes=3, partitions=2)
    rig = await register(exchange=exchange, slots=1, quick=1, poll_seconds=1000.0)
    jobs = [await rig.submit() for _ in range(3)]
    announce(rig, *jobs)
    await rig.tick()
    assert 1 == len(rig.runner.launched)
    other = MemoryBroker(exchange, rig.clock).consumer(
        [Channel(ChannelKind.RUNS, lane) for lane in (2, 1, 0)],
        rig.executor._hinting._consumer.group,  # type: ignore[union-attr]  # the memory broker's
    )
    await other.start()
    await drive(rig.clock, rig.executor._hinting.stop())  # type: ignore[union-attr]  # it has one
    assert 1 == len(await other.take(10, 0.0))


async def test_runs_are_packed_by_lane_as_many_as_one_executor_can_start() -> None:
    """Quick ones by the hundred, others few; none waits for a run that is ready much later."""
    make = Rig().make
    quick = [Ready(make.identifier(), 100.0, QUICK, "default") for _ in range(PACK_QUICK + 1)]
    slow = [Ready(make.identifier(), 100.0, LANE, "default") for _ in range(PACK_SLOTS + 1)]
    apart = [Ready(make.identifier(), 100.0 + number * 2 * SPREAD_SECONDS, QUICK, "default") for number in (1, 0)]
    assert [PACK_QUICK, 1] == [len(hints.ids()) for hints in packs(QUICK, quick)]
    assert [PACK_SLOTS, 1] == [len(hints.ids()) for hints in packs(LANE, slow)]
    assert [(100.0, 1), (100.5, 1)] == [(hints.ready, len(hints.ids())) for hints in packs(QUICK, apart)]


async def test_what_counts_parked_hints_begins_at_0() -> None:
    """Of each channel that this executor hears: its first message that cannot be read is an increase for Prometheus."""
    rig, metrics = Rig(exchange=Exchange(lanes=2, partitions=1)), Metrics()
    assert rig.executor._hinting is not None
    rig.executor._hinting._dead_letters._telemetry = metrics
    await drive(rig.clock, rig.executor.prepare())
    values = [
        metrics.registry.get_sample_value("tickwise_messages_parked_total", {"channel": f"runs.p{lane}"})
        for lane in range(2)
    ]
    assert [0.0, 0.0] == values


def test_a_hint_says_the_namespace_of_each_run() -> None:
    """One that all runs share is said once."""
    rig = Rig()
    one, two, three = (rig.make.identifier() for _ in range(3))
    shared = Hints.of(LANE, [Ready(run_id, 1.0, LANE, "one") for run_id in (one, two)])
    mixed = Hints.of(LANE, [Ready(one, 1.0, LANE, "one"), Ready(two, 1.0, LANE, "two"), Ready(three, 1.0, LANE, "one")])
    assert decode(Hints, encode(shared)).namespaces == ("one",)
    assert decode(Hints, encode(mixed)).namespaces == ("one", "two", "one")


def test_a_hint_of_the_release_before_is_read() -> None:
    """It says no namespaces."""
    before = {"queue": "default", "priority": 5, "requires": [], "runs": bytes(2 * ID_BYTES), "ready": 1.0}
    assert decode(Hints, msgspec.msgpack.encode(before)).namespaces == ()


def test_a_hint_whose_namespaces_fit_no_run_is_unreadable() -> None:
    """Two for three runs."""
    wrong = Hints("default", 5, (), bytes(3 * ID_BYTES), namespaces=("one", "two"))
    with pytest.raises(UnreadableMessage, match="namespaces"):
        decode(Hints, encode(wrong))
