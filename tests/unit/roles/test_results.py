"""Outcomes that go to the store through a broker: what is on its way, who applies it, and what if nobody does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest

from tests.unit.roles.rig import Rig, Silent, drive
from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.domain.errors import BrokerUnavailable, Bug, StoreUnavailable, Unavailable
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome
from tickwise.domain.observing.usage import NO_USAGE, UsageByRun
from tickwise.domain.trace_context import TracesByRun
from tickwise.ports.broker import DEAD, RESULTS, Channel, Delivery, Message
from tickwise.ports.runner import Verdict
from tickwise.ports.store import MarkedChannel, NewJob
from tickwise.ports.store.wrapping import WrappedStore
from tickwise.roles.executor import answered_claims, result_publisher
from tickwise.roles.recorder.role import ResultsRecorder
from tickwise.roles.shared.messages import Results, decode, encode

NOISE = b"\xff\x00 no message of ours"


async def register(**settings: Any) -> Rig:
    """An executor that publishes how its attempts end."""
    settings.setdefault("exchange", Exchange(partitions=2))
    rig = Rig(**{"results": "broker", "poll_seconds": 0.1, **settings})
    await drive(rig.clock, rig.executor.prepare())
    return rig


async def recorder(rig: Rig, *, store: Any = None) -> ResultsRecorder:
    """One more recorder of results, at work as far as the test lets it."""
    assert rig.broker is not None
    exchange = rig.broker._exchange
    made = ResultsRecorder(
        store=store or rig.flaky,
        broker=MemoryBroker(exchange, rig.clock),
        signals=rig.signals,
        clock=rig.clock,
        telemetry=Silent(),
    )
    await made._consumer.start()
    return made


async def started(rig: Rig, count: int = 1) -> list[NewJob]:
    """So many jobs whose tasks go on."""
    jobs = [await rig.submit() for _ in range(count)]
    await rig.tick(after_seconds=0.2)
    return jobs


async def ended(rig: Rig, count: int = 1) -> list[NewJob]:
    """So many jobs whose tasks went well, and their outcomes published."""
    jobs = await started(rig, count)
    for run in [*rig.runner.running]:
        rig.runner.end(run)
    await rig.tick()
    return jobs


async def dead(rig: Rig) -> Sequence[Delivery]:
    """What was parked."""
    assert rig.broker is not None
    consumer = rig.broker.consumer([DEAD], "of the test")
    await consumer.start()
    return await consumer.take(1000, 0.0)


async def test_an_outcome_is_recorded_by_a_recorder_and_then_forgotten_by_its_executor() -> None:
    """Until then it is kept."""
    rig = await register()
    (job,) = await ended(rig)
    assert "DISPATCHED" == await rig.state(job)
    assert 1 == len(rig.executor._outbox)
    recording = await recorder(rig)
    await recording.step(0.0)
    assert "SUCCESS" == await rig.state(job)
    await rig.tick(after_seconds=result_publisher.ASK_SECONDS)
    assert 0 == len(rig.executor._outbox)


async def test_what_is_on_its_way_counts_as_known_when_a_claim_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the store would give it to somebody else, and its task would run twice. Also after so many claims that this
    one's token is not remembered."""
    monkeypatch.setattr(answered_claims, "TOKENS_KEPT", 0)
    rig = await register()
    (job,) = await ended(rig)
    rig.flaky.away = {"attempts.claim"}
    with pytest.raises(Unavailable):
        await rig.tick(after_seconds=0.2)
    rig.flaky.away = set()
    await rig.tick(after_seconds=0.2)
    assert "DISPATCHED" == await rig.state(job)
    await (await recorder(rig)).step(0.0)
    assert [(1, "SUCCESS", None)] == await rig.attempts(job)


async def test_a_broker_that_is_away_is_left_out() -> None:
    """The store is told directly, as without a broker."""
    exchange = Exchange()
    rig = await register(exchange=exchange)
    exchange.away = True
    (job,) = await ended(rig)
    assert "SUCCESS" == await rig.state(job)
    assert 0 == len(rig.executor._outbox)


async def test_a_broker_that_goes_away_during_a_send_is_left_out() -> None:
    """What it may have got all the same changes nothing."""
    rig = await register()
    assert rig.broker is not None
    sent: list[Message] = []

    async def send(channel: Channel, messages: Sequence[Message]) -> None:
        assert RESULTS == channel
        sent.extend(messages)
        raise BrokerUnavailable("not confirmed in time")

    real = rig.broker.send
    rig.broker.send = send  # type: ignore[method-assign]  # to fail
    (job,) = await ended(rig)
    assert "SUCCESS" == await rig.state(job)
    await real(RESULTS, sent)
    await (await recorder(rig)).step(0.0)
    assert [(1, "SUCCESS", None)] == await rig.attempts(job)


async def test_a_text_that_no_message_can_carry_goes_to_the_store_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which puts something in its place; nothing that ends later waits behind it. (Executors replace such a text before
    it is told: this is for one that they overlook.)"""
    monkeypatch.setattr("tickwise.roles.executor.outcomes.in_whole_characters", lambda outcome: outcome)
    rig = await register()
    job = await rig.submit(max_retries=0)
    await rig.tick(after_seconds=0.2)
    rig.runner.end(rig.runner.launched[0], Verdict.FAILED, error="half a pair: \udcff")
    await rig.tick()
    assert "FAILED" == await rig.state(job)
    (later,) = await ended(rig)
    await (await recorder(rig)).step(0.0)
    assert "SUCCESS" == await rig.state(later)


async def test_a_store_that_is_away_for_long_does_not_park_a_message_again_and_again() -> None:
    """Once is enough, however often the rest of its batch is tried."""
    rig = await register(exchange=Exchange(partitions=1))
    assert rig.broker is not None
    await rig.broker.send(RESULTS, [Message(NOISE, b"1")])
    (job,) = await ended(rig)
    recording = await recorder(rig)
    rig.flaky.away = {"attempts.finish"}
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await recording.step(0.0)
    rig.flaky.away = set()
    await recording.step(0.0)
    assert "SUCCESS" == await rig.state(job)
    assert [NOISE] == [delivery.value for delivery in await dead(rig)]
    assert 0 == sum(recording._consumer.state().lag.values())


async def test_a_recorder_that_has_a_partition_again_goes_on_from_what_another_one_did() -> None:
    """What it remembers of an executor is old by then."""
    rig = await register()
    first, second = await recorder(rig), await recorder(rig)
    assert rig.broker is not None
    told: list[int] = []
    joined = (await rig.store.executors.all())[0].executor
    for number, recording in ((1, first), (2, second), (3, first)):
        await recording.apply([delivery(message(joined, number))])
        told.append(int((await rig.store.marks.get(MarkedChannel.RESULTS, [joined]))[joined]))
    assert [1, 2, 3] == told


async def test_recorders_that_are_away_cost_their_absence_and_nothing_else() -> None:
    """After `PATIENCE_SECONDS` the store is told directly; what a recorder applies later is applied already."""
    rig = await register()
    (job,) = await ended(rig)
    await rig.tick(after_seconds=result_publisher.PATIENCE_SECONDS / 2)
    assert "DISPATCHED" == await rig.state(job)
    await rig.tick(after_seconds=result_publisher.PATIENCE_SECONDS / 2)
    assert "SUCCESS" == await rig.state(job)
    assert 0 == len(rig.executor._outbox)
    await (await recorder(rig)).step(0.0)
    assert [(1, "SUCCESS", None)] == await rig.attempts(job)


async def test_an_executor_that_leaves_tells_the_store_what_no_recorder_has_applied() -> None:
    """Else the store would take it for runs that never ended."""
    rig = await register()
    (job,) = await ended(rig)
    await drive(rig.clock, rig.executor.stop())
    assert "SUCCESS" == await rig.state(job)
    await (await recorder(rig)).step(0.0)
    assert [(1, "SUCCESS", None)] == await rig.attempts(job)


async def test_what_an_executor_published_before_it_died_is_recorded_all_the_same() -> None:
    """Its attempt does not run again."""
    rig = await register()
    (job,) = await ended(rig)
    recording = await recorder(rig)
    await recording.step(0.0)
    await rig.clock.advance(60.0)
    await rig.store.executors.expire(3)
    assert "SUCCESS" == await rig.state(job)


async def test_what_comes_after_its_executor_was_expired_is_refused() -> None:
    """Somebody else has the run by then, or will."""
    rig = await register()
    (job,) = await ended(rig)
    await rig.clock.advance(60.0)
    await rig.store.executors.expire(3)
    await (await recorder(rig)).step(0.0)
    assert "QUEUED" == await rig.state(job)


async def test_an_expired_executor_forgets_what_it_published_and_counts_anew() -> None:
    """Numbers of its life before say nothing of the next one."""
    rig = await register(lease_seconds=2.0)
    await ended(rig)
    await rig.clock.advance(3.0)
    await rig.store.executors.expire(3)
    await rig.tick()
    assert 0 == len(rig.executor._outbox)
    recording = await recorder(rig)
    await recording.step(0.0)
    (job,) = await ended(rig)
    await recording.step(0.0)
    await rig.tick(after_seconds=result_publisher.ASK_SECONDS)
    assert "SUCCESS" == await rig.state(job)
    assert 0 == len(rig.executor._outbox)


@pytest.mark.parametrize("fails", [True, False])
async def test_a_batch_that_is_under_way_at_an_expiry_is_dropped(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Also if its send ends before the executor has its next number, and however the send ends."""
    rig = Rig()
    await drive(rig.clock, rig.executor.prepare())
    (job,) = await started(rig)
    outbox, writer, number = rig.executor._outbox, rig.executor._outbox._writer, rig.executor._lease.number
    rig.runner.end(rig.runner.launched[0])
    pairs = [*outbox.pairs()]
    assert 1 == len(outbox) == len(pairs)
    real = writer.write

    async def expired_meanwhile(
        executor: int, outcomes: Sequence[Outcome], usage: UsageByRun, traces: TracesByRun
    ) -> Sequence[UUID]:
        outbox.forget()
        if fails:
            raise StoreUnavailable("away")
        return await real(executor, outcomes, usage, traces)

    monkeypatch.setattr(writer, "write", expired_meanwhile)
    with pytest.raises(StoreUnavailable) if fails else nullcontext():
        await drive(rig.clock, outbox.send())
    assert number == rig.executor._lease.number
    assert (0, [0], {}) == (
        len(outbox), [capacity.unrecorded for capacity in outbox._capacities], outbox.remembered(pairs)
    )  # fmt: skip
    assert ("DISPATCHED" if fails else "SUCCESS") == await rig.state(job)


async def test_no_number_of_a_message_is_used_twice_by_one_executor() -> None:
    """A recorder that applied a number takes a second message of that number for applied."""
    rig = await register()
    await ended(rig)
    rig.executor._outbox.forget()
    await ended(rig)
    assert rig.broker is not None
    consumer = rig.broker.consumer([RESULTS], "of the test")
    await consumer.start()
    found = [decode(Results, each.value) for each in await consumer.take(1000, 0.0)]
    assert [1, 2] == sorted(each.number for each in found)


async def test_a_result_that_the_broker_lost_is_told_directly_though_later_ones_were_applied() -> None:
    """What is applied after a gap is not taken for all before it."""
    rig = await register(exchange=(exchange := Exchange()))
    exchange.carry = lambda _channel, _messages: ()
    (lost,) = await ended(rig)
    exchange.carry = lambda _channel, messages: messages
    (later,) = await ended(rig)
    recording = await recorder(rig)
    await recording.step(0.0)
    await rig.tick(after_seconds=result_publisher.ASK_SECONDS)
    assert ["DISPATCHED", "SUCCESS"] == [await rig.state(job) for job in (lost, later)]
    assert 2 == len(rig.executor._outbox)
    await rig.tick(after_seconds=result_publisher.PATIENCE_SECONDS)
    assert "SUCCESS" == await rig.state(lost)
    assert 0 == len(rig.executor._outbox)
    await ended(rig)
    await recording.step(0.0)
    await rig.tick(after_seconds=result_publisher.ASK_SECONDS)
    assert 0 == len(rig.executor._outbox), "what was lost is settled, and holds up nothing that comes after it"


async def test_a_recorder_that_begins_anew_goes_on_from_what_the_store_knows() -> None:
    """Nobody else remembers how far an executor's results were applied."""
    rig = await register()
    for _ in range(3):
        (job,) = await ended(rig)
        recording = await recorder(rig)
        await recording.step(0.0)
        await recording._consumer.stop()
        await rig.tick(after_seconds=result_publisher.ASK_SECONDS)
        assert ("SUCCESS", 0) == (await rig.state(job), len(rig.executor._outbox))


async def test_messages_of_many_executors_are_applied_in_few_writes() -> None:
    """One for each executor, however many messages it sent."""
    rig = await register()
    assert rig.broker is not None
    told: list[tuple[int, int]] = []

    async def finish(executor: int, outcomes: Sequence[Outcome], _: UsageByRun) -> Sequence[UUID]:
        told.append((executor, len(outcomes)))
        return []

    async def put(_: MarkedChannel, marks: dict[int, int]) -> None:
        told.append((0, len(marks)))

    counting = WrappedStore(rig.store)
    counting.attempts.finish, counting.marks.put = finish, put

    for number in (1, 2, 3):
        for executor in (7, 8):
            await rig.broker.send(RESULTS, [message(executor, number, outcome(number))])
    await (await recorder(rig, store=counting)).step(0.0)
    assert [(7, 3), (8, 3), (0, 2)] == sorted(told[:2]) + told[2:]


async def test_recorders_wait_for_a_store_that_is_away_and_lose_nothing() -> None:
    """The same batch again; nothing is said done before it is applied."""
    rig = await register()
    (job,) = await ended(rig)
    recording = await recorder(rig)
    rig.flaky.away = {"attempts.finish"}
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await recording.step(0.0)
    assert 1 == sum(recording._consumer.state().lag.values())
    rig.flaky.away = set()
    await recording.step(0.0)
    assert "SUCCESS" == await rig.state(job)
    assert 0 == sum(recording._consumer.state().lag.values())


async def test_a_recorder_that_stood_still_and_one_that_took_over_record_once() -> None:
    """Both apply the same batch."""
    rig = await register()
    (job,) = await ended(rig)
    stalled = await recorder(rig)
    rig.flaky.away = {"marks.put"}
    with pytest.raises(StoreUnavailable):
        await stalled.step(0.0)
    stalled_broker = stalled._dead_letters._broker
    assert isinstance(stalled_broker, MemoryBroker)
    stalled_broker.expel()
    rig.flaky.away = set()
    await (await recorder(rig)).step(0.0)
    await stalled.step(0.0)
    assert [(1, "SUCCESS", None)] == await rig.attempts(job)


async def test_what_is_no_result_is_parked_with_its_bytes_and_holds_up_nothing() -> None:
    """Before, between and after what can be read."""
    rig = await register(exchange=Exchange(partitions=1))
    assert rig.broker is not None
    await rig.broker.send(RESULTS, [Message(NOISE, b"1")])
    (job,) = await ended(rig)
    await rig.broker.send(RESULTS, [Message(encode(Results(1, 9, (), v=2)), b"1")])
    recording = await recorder(rig)
    await recording.step(0.0)
    assert "SUCCESS" == await rig.state(job)
    assert [NOISE, encode(Results(1, 9, (), v=2))] == [delivery.value for delivery in await dead(rig)]
    assert 0 == sum(recording._consumer.state().lag.values())


async def test_while_nothing_can_be_parked_what_cannot_be_read_waits() -> None:
    """It is not lost, and what comes after it is applied when the channel of dead messages is there again."""
    rig = await register(exchange=(exchange := Exchange(partitions=1)))
    assert rig.broker is not None
    await rig.broker.send(RESULTS, [Message(NOISE, b"1")])
    recording = await recorder(rig)
    recording._batch = await recording._consumer.take(10, 0.0)
    exchange.away = True
    with pytest.raises(Unavailable):
        await recording.step(0.0)
    exchange.away = False
    await recording.step(0.0)
    assert [NOISE] == [delivery.value for delivery in await dead(rig)]


async def test_one_outcome_that_cannot_be_stored_ends_plainly_and_harms_no_other() -> None:
    """As where executors tell the store themselves."""
    rig = await register()
    first, second, third = await ended(rig, 3)

    async def finish(executor: int, outcomes: Sequence[Outcome], usage: UsageByRun = NO_USAGE) -> Sequence[UUID]:
        if any(each.run_id == second.run_id and each.state == CODES[RunState.SUCCESS] for each in outcomes):
            raise Bug("a result that cannot be kept")
        return await rig.store.attempts.finish(executor, outcomes, usage)

    picky = WrappedStore(rig.store)
    picky.attempts.finish = finish
    await (await recorder(rig, store=picky)).step(0.0)
    assert ["SUCCESS", "FAILED", "SUCCESS"] == [await rig.state(job) for job in (first, second, third)]


async def test_more_than_is_kept_goes_to_the_store_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorders that are slower than what ends are helped, and memory is bounded."""
    monkeypatch.setattr(result_publisher, "MAX_KEPT", 2)
    rig = await register()
    jobs = [*await ended(rig, 2), *await ended(rig, 2)]
    assert ["DISPATCHED"] * 2 + ["SUCCESS"] * 2 == [await rig.state(job) for job in jobs]
    assert 2 == len(rig.executor._outbox)


async def test_results_are_split_into_messages_that_a_broker_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what their texts take; one that is too large alone does not go through it."""
    monkeypatch.setattr(result_publisher, "MESSAGE_BYTES", 30)
    monkeypatch.setattr(result_publisher, "OUTCOME_BYTES", 50)
    rig = await register()
    jobs = [await rig.submit() for _ in range(3)]
    await rig.tick(after_seconds=0.2)
    for run in [*rig.runner.running]:
        rig.runner.end(run, result='"' + "x" * 18 + '"')
    await rig.tick()
    recording = await recorder(rig)
    batch = await recording._consumer.take(10, 0.0)
    assert 3 == len(batch)
    await recording.apply(batch)
    large = await rig.submit()
    await rig.tick(after_seconds=0.2)
    assert large.run_id is not None
    rig.runner.end(large.run_id, result='"' + "x" * 60 + '"')
    await rig.tick()
    assert ["SUCCESS"] * 4 == [await rig.state(job) for job in (*jobs, large)]


def outcome(number: int) -> Outcome:
    """One that went well."""
    return Outcome(UUID(int=number), number, CODES[RunState.SUCCESS], 1.0, 2.0)


def delivery(sent: Message) -> Delivery:
    """As it is taken."""
    return Delivery(RESULTS, sent.value, sent.key, (), 0, 0, 0.0)


def message(executor: int, number: int, *outcomes: Outcome) -> Message:
    """As an executor publishes it."""
    return Message(encode(Results(executor, number, outcomes)), b"%d" % executor)
