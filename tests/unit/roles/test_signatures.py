"""Messages through a broker are believed by their signature: not by the right to write a topic."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from tests.support.buffered import Buffered, buffered
from tests.unit.roles.rig import Rig, Silent, drive
from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.signing import Ed25519Key, Ed25519Keys, SharedSecrets
from tickwise.control.bodies import JobBody
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome, Principal
from tickwise.ports.broker import (
    DEAD,
    MAX_ERROR_HEADERS_BYTES,
    MAX_MESSAGE_BYTES,
    REQUESTS,
    RESULTS,
    Channel,
    Delivery,
    Message,
)
from tickwise.ports.store import JobQuery, MarkedChannel, NewExecutor, NewJob
from tickwise.roles.recorder.role import ResultsRecorder
from tickwise.roles.shared.messages import Request as ApiRequest
from tickwise.roles.shared.messages import Results, decode, encode
from tickwise.roles.shared.signatures import (
    HEADER,
    LATE_SECONDS,
    RefusalReason,
    ResultCheck,
    ResultsSigning,
    Unsigned,
    signed,
)

OLD, NEW, FOREIGN = ("o" * 31 + "1", "n" * 31 + "2", "f" * 31 + "3")
WHO = Principal("someone", "default", frozenset({"*"}))
CLUSTER = "a-cluster"


def body(name: str = "a", **said: Any) -> JobBody:
    text = msgspec.json.encode({"name": name, "task": {"kind": "shell", "command": "date"}, "every": "1h", **said})
    return msgspec.json.decode(text, type=JobBody)


async def names(here: Buffered) -> list[str]:
    return sorted(row.name for row in await here.link.store.searches.jobs(JobQuery(namespace="default", limit=50)))


async def dead(here: Buffered) -> Sequence[Delivery]:
    """What was put aside."""
    consumer = here.broker.consumer([DEAD], "of the test")
    await consumer.start()
    return await consumer.take(1000, 0.0)


def count(here: Buffered, name: str, **labels: str) -> float:
    """The value of one of the recorder's counters."""
    return here.metrics.registry.get_sample_value(name, labels) or 0.0


# ------------------------------------------------------------------ requests


async def test_a_request_of_an_api_is_applied() -> None:
    """It bears a signature, and the recorder holds the same secret."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body("mine"))
        (sent,) = await here.batch()
        assert [HEADER] == [name for name, _ in sent.headers]
        await here.recorder.apply([sent])
        assert ["mine"] == await names(here)


async def test_a_mark_needs_no_signature() -> None:
    """It says nothing but that it came after what came before it."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body("mine"))
        await here.mark()
        assert ["mine"] == await names(here)
        assert {0, 1, 2} == set(await here.link.store.marks.get(MarkedChannel.REQUESTS, range(3)))
        assert [] == list(await dead(here))


class Forgery(NamedTuple):
    """What somebody sends who may write the topic, and read what is in it."""

    made: Any
    """Of a message that an API sent, and the test's stage."""
    reason: str


def _unsigned(here: Buffered, real: Message) -> Message:
    return Message(real.value, real.key)


def _by_a_guess(here: Buffered, real: Message) -> Message:
    return signed(
        Message(real.value, real.key), SharedSecrets([FOREIGN]), broker=here.broker, channel=REQUESTS, cluster=CLUSTER
    )


def _altered(here: Buffered, real: Message) -> Message:
    request = msgspec.structs.replace(decode(ApiRequest, real.value), namespace="payroll")
    return real._replace(value=encode(request))


def _other_key(here: Buffered, real: Message) -> Message:
    return real._replace(key=UUID(int=7).bytes)


def _other_partition(here: Buffered, real: Message) -> Message:
    assert real.partition is not None
    return real._replace(partition=(real.partition + 1) % 3)


def _two_signatures(here: Buffered, real: Message) -> Message:
    return real._replace(headers=[*real.headers, (HEADER, b"another")])


def _empty_signature(here: Buffered, real: Message) -> Message:
    return real._replace(headers=[(HEADER, b"")])


@pytest.mark.parametrize(
    "forgery",
    [
        Forgery(_unsigned, "unsigned"),
        Forgery(_by_a_guess, "forged"),
        Forgery(_altered, "forged"),
        Forgery(_other_key, "forged"),
        Forgery(_other_partition, "forged"),
        Forgery(_two_signatures, "forged"),
        Forgery(_empty_signature, "forged"),
    ],
    ids=lambda forgery: forgery.made.__name__.strip("_"),
)
async def test_a_forged_request_is_put_aside_and_stops_nobody(forgery: Forgery) -> None:
    """With its bytes, counted by why; the requests before and behind it are applied."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body("taken back"))
        (sent,) = await here.batch()
        await here.consumer.done([sent])
        forged = forgery.made(here, Message(sent.value, sent.key, sent.headers, sent.partition))
        await here.ingest.accept(WHO, body("before"))
        await here.broker.send(REQUESTS, [forged])
        await here.ingest.accept(WHO, body("behind"))
        await here.apply()
        assert ["before", "behind"] == await names(here)
        assert [forged.value] == [each.value for each in await dead(here)]
        assert 1 == count(here, "tickwise_messages_unverified_total", channel="requests", reason=forgery.reason)


async def test_what_counts_refused_messages_begins_at_0() -> None:
    """From nothing to 1 is no increase for Prometheus: the first forged message would raise no alarm."""
    async with buffered(recorder_keys=[NEW]) as here:
        await here.recorder.start()
        registry = here.metrics.registry
        found = {
            reason: registry.get_sample_value(
                "tickwise_messages_unverified_total", {"channel": "requests", "reason": reason}
            )
            for reason in RefusalReason
        }
        parked = registry.get_sample_value("tickwise_messages_parked_total", {"channel": "requests"})
        await here.recorder.stop()
        assert (dict.fromkeys(RefusalReason, 0.0), 0.0) == (found, parked)


async def test_a_request_of_another_cluster_is_refused() -> None:
    """Both installations may have been given the same secret, and their topics be copied."""
    async with (
        buffered(api_keys=[NEW], recorder_keys=[NEW]) as here,
        buffered(recorder_keys=[NEW], cluster="another") as other,
    ):
        await here.ingest.accept(WHO, body())
        await other.recorder.apply(await here.batch())
        assert [] == await names(other)
        assert 1 == count(other, "tickwise_messages_unverified_total", channel="requests", reason="forged")


async def test_a_request_that_is_sent_again_changes_nothing() -> None:
    """A create, a change and a cancel, each again after all of them, and in another order."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW], partitions=1) as here:
        ingest, job = here.ingest, UUID(int=(0x019B << 112) | (0x8 << 76) | (0b10 << 62) | 1)
        await ingest.accept(WHO, body("first", job_id=str(job)))
        renamed = msgspec.json.decode(b'{"name":"second"}', type=JobBody)
        await ingest.accept_change(WHO, job, renamed, b'{"name":"second"}')
        await ingest.accept_change(
            WHO, job, msgspec.json.decode(b'{"name":"third"}', type=JobBody), b'{"name":"third"}'
        )
        sent = await here.batch()
        await here.recorder.apply(sent)
        before = await here.link.store.jobs.get("default", job)
        copies = [Message(each.value, each.key, each.headers, each.partition) for each in reversed(sent)]
        await here.broker.send(REQUESTS, copies)
        await here.apply()
        assert before == await here.link.store.jobs.get("default", job)
        assert [] == list(await dead(here))


async def test_a_request_that_is_sent_again_long_after_is_refused() -> None:
    """The store may have forgotten by then that it was applied, and would apply it anew."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body("mine"))
        sent = await here.batch()
        await here.clock.advance(LATE_SECONDS + 1)
        await here.broker.send(REQUESTS, [Message(each.value, each.key, each.headers, each.partition) for each in sent])
        await here.apply()
        assert [] == await names(here)
        assert 1 == count(here, "tickwise_messages_unverified_total", channel="requests", reason="late")


async def test_an_outage_of_the_store_makes_no_request_late() -> None:
    """What counts is when it reached the broker."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body("mine"))
        await here.clock.advance(2 * LATE_SECONDS)
        await here.apply()
        assert ["mine"] == await names(here)


async def test_a_secret_is_changed_without_a_pause() -> None:
    """Recorders accept both, then APIs sign by the new one; in each step what either signed is applied."""
    steps = [([OLD], [OLD]), ([OLD], [OLD, NEW]), ([NEW, OLD], [OLD, NEW]), ([NEW], [NEW, OLD]), ([NEW], [NEW])]
    for api, recorder in steps:
        async with buffered(api_keys=api, recorder_keys=recorder) as here:
            await here.ingest.accept(WHO, body("mine"))
            await here.apply()
            assert ["mine"] == await names(here)
    async with buffered(api_keys=[OLD], recorder_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body("of an old secret"))
        await here.apply()
        assert [] == await names(here)


async def test_a_secret_is_introduced_without_a_pause() -> None:
    """APIs sign first, whose recorders hold no secret; then recorders verify, and accept what was not signed yet."""
    async with buffered(api_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body("signed"))
        await here.apply()
        assert ["signed"] == await names(here)
    async with buffered(recorder_keys=[NEW], unsigned=Unsigned.ACCEPTED) as here:
        await here.ingest.accept(WHO, body("unsigned"))
        await here.apply()
        assert ["unsigned"] == await names(here)
        assert 1 == count(here, "tickwise_messages_unsigned_total", channel="requests")


ROOM = MAX_MESSAGE_BYTES + MAX_ERROR_HEADERS_BYTES


@pytest.mark.parametrize(
    ("large", "kept"),
    [
        pytest.param(Message(b"x" * ROOM), b"x" * MAX_MESSAGE_BYTES, id="value"),
        pytest.param(Message(b"x", b"k", [("h", b"y" * (ROOM - 3))]), b"x", id="headers"),
        pytest.param(Message(b"x", b"k" * (ROOM - 1)), b"x", id="key"),
    ],
)
async def test_a_message_that_fills_the_broker_s_limit_is_put_aside_all_the_same(large: Message, kept: bytes) -> None:
    """It has no room for what is said of it, and would come again for ever."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW]) as here:
        await here.broker.send(REQUESTS, [large])
        await here.ingest.accept(WHO, body("behind"))
        await here.apply()
        assert ["behind"] == await names(here)
        (put_aside,) = await dead(here)
        assert (kept, b"requests") == (put_aside.value, dict(put_aside.headers)["channel"])


async def test_a_flood_of_forged_requests_is_put_aside_in_few_sends() -> None:
    """One for each would hold up what is behind it for long."""
    async with buffered(recorder_keys=[NEW], api_keys=[NEW]) as here:
        await here.broker.send(REQUESTS, [Message(b"noise %d" % number, b"k") for number in range(500)])
        sends: list[int] = []
        send = here.broker.send

        async def counted(channel: Channel, messages: Sequence[Message]) -> None:
            sends.append(len(messages))
            await send(channel, messages)

        here.broker.send = counted  # type: ignore[method-assign]  # to count
        await here.recorder.apply(await here.batch())
        assert [500] == sends


# ------------------------------------------------------------------ results


class Stage(NamedTuple):
    """An executor that signs, and the recorder of its results."""

    rig: Rig
    recorder: ResultsRecorder

    async def publish(self, message: Message) -> None:
        """As somebody who may write the topic."""
        assert self.rig.broker is not None
        await self.rig.broker.send(RESULTS, [message])

    async def dead(self) -> list[bytes]:
        """What was put aside, and why."""
        assert self.rig.broker is not None
        consumer = self.rig.broker.consumer([DEAD], "of the test")
        await consumer.start()
        return [dict(each.headers)["error"] for each in await consumer.take(1000, 0.0)]


@asynccontextmanager
async def staged(*, signing: bool = True, unsigned: Unsigned = Unsigned.OLDER) -> AsyncIterator[Stage]:
    exchange = Exchange(partitions=2)
    keys = Ed25519Keys()
    rig = Rig(
        exchange=exchange,
        results="broker",
        poll_seconds=0.1,
        signing=ResultsSigning(keys, CLUSTER) if signing else None,
    )
    await drive(rig.clock, rig.executor.prepare())
    recorder = ResultsRecorder(
        store=rig.store,
        broker=MemoryBroker(exchange, rig.clock),
        signals=rig.signals,
        clock=rig.clock,
        telemetry=Silent(),
        check=ResultCheck(keys, rig.store.executors, cluster=CLUSTER, unsigned=unsigned),
    )
    await recorder._consumer.start()
    yield Stage(rig, recorder)


async def running(rig: Rig) -> NewJob:
    """A job whose run this executor has begun."""
    job = await rig.submit()
    await rig.tick(after_seconds=0.2)
    return job


async def finished(rig: Rig) -> NewJob:
    """A job whose run has ended well, and its outcome published."""
    job = await running(rig)
    for run in [*rig.runner.running]:
        rig.runner.end(run)
    await rig.tick()
    return job


async def success_of(rig: Rig, job: NewJob) -> Outcome:
    """The outcome that somebody invents for its run; whoever reads the topics or the database knows its token."""
    assert job.run_id is not None
    token = next(
        held.claimed.token for held in rig.executor._held_runs.live.values() if held.claimed.run_id == job.run_id
    )
    now = rig.clock.now()
    return Outcome(job.run_id, token, CODES[RunState.SUCCESS], now, now)


def invented(executor: int, *outcomes: Outcome, number: int = 1) -> Message:
    return Message(encode(Results(executor, number, outcomes)), b"%d" % executor)


async def number_of(rig: Rig) -> int:
    """The number of the executor that joined last."""
    return (await rig.store.executors.all())[0].executor


async def test_results_of_an_executor_are_applied() -> None:
    """Signed by the key that it joined with."""
    async with staged() as stage:
        job = await finished(stage.rig)
        await stage.recorder.step(0.0)
        assert "SUCCESS" == await stage.rig.state(job)
        assert [] == await stage.dead()


async def test_an_unsigned_result_of_an_executor_that_signs_is_put_aside() -> None:
    """The run that it names goes on."""
    async with staged() as stage:
        job = await running(stage.rig)
        number = await number_of(stage.rig)
        await stage.publish(invented(number, await success_of(stage.rig, job)))
        await stage.recorder.step(0.0)
        assert "DISPATCHED" == await stage.rig.state(job)
        assert [b"it is not signed, and executor %d signs what it publishes" % number] == await stage.dead()


async def test_an_executor_cannot_speak_for_another_one() -> None:
    """Neither under the other's number with its own key, nor under its own number of the other's run, nor with a
    message that bears one number outside and another one inside."""
    async with staged() as stage:
        rig = stage.rig
        assert rig.broker is not None
        job = await running(rig)
        outcome, mine = await success_of(rig, job), Ed25519Key()
        one = await number_of(rig)
        terms = NewExecutor(number=1, name="two", queues=(), labels=(), functions=(), slots=1, lease_seconds=600.0)
        two = await rig.store.executors.join(replace(terms, number=2, results_key=mine.public))
        for message in (
            invented(one, outcome),
            invented(two, outcome),
            Message(encode(Results(one, 2, (outcome,))), b"%d" % two),
        ):
            await stage.publish(signed(message, mine, broker=rig.broker, channel=RESULTS, cluster=CLUSTER))
        await stage.recorder.step(0.0)
        assert "DISPATCHED" == await rig.state(job)
        assert [b"its signature is not", b"executor 2 speaks of"] == [error[:20] for error in await stage.dead()]


@pytest.mark.parametrize("key", [b"", b"0", b"-1", b"01", b"77", b"9" * 30, b"\xff", None])
async def test_results_of_nobody_are_put_aside(key: bytes | None) -> None:
    """Whatever the key says, it names no executor that is there; what comes behind is applied."""
    async with staged() as stage:
        await stage.publish(Message(b"anything", key, [(HEADER, b"any")]))
        job = await finished(stage.rig)
        await stage.recorder.step(0.0)
        await stage.recorder.step(0.0)
        assert "SUCCESS" == await stage.rig.state(job)
        assert [b"its key names no executor that the store knows"] == await stage.dead()


async def test_a_result_that_is_copied_is_refused_elsewhere_and_changes_nothing_here() -> None:
    """In another partition or another cluster it is forged; in its own place it is told a second time."""
    async with staged() as stage:
        rig = stage.rig
        assert rig.broker is not None
        job = await finished(rig)
        taker = rig.broker.consumer([RESULTS], "a reader")
        await taker.start()
        (sent,) = await taker.take(10, 0.0)
        await stage.recorder.step(0.0)
        before = await rig.attempts(job)
        copy = Message(sent.value, sent.key, sent.headers, sent.partition)
        await stage.publish(copy)
        await stage.publish(copy._replace(partition=1 - sent.partition))
        await stage.recorder.step(0.0)
        assert before == await rig.attempts(job)
        assert [b"its signature is not"] == [error[:20] for error in await stage.dead()]


async def test_results_of_an_executor_of_an_older_version_are_applied_until_that_is_refused() -> None:
    """It registered no key. Nobody can pretend that of one that did."""
    async with staged(signing=False) as stage:
        job = await finished(stage.rig)
        await stage.recorder.step(0.0)
        assert "SUCCESS" == await stage.rig.state(job)
    async with staged(signing=False, unsigned=Unsigned.REFUSED) as stage:
        job = await finished(stage.rig)
        await stage.recorder.step(0.0)
        assert "DISPATCHED" == await stage.rig.state(job)
        assert 1 == len(await stage.dead())


async def test_nobody_speaks_for_an_executor_that_tells_the_store_directly() -> None:
    """It registered that it publishes nothing."""
    exchange = Exchange(partitions=2)
    rig = Rig(exchange=exchange, results="direct", poll_seconds=0.1)
    await drive(rig.clock, rig.executor.prepare())
    async with staged() as other:
        job = await running(rig)
        check = ResultCheck(Ed25519Keys(), rig.store.executors, cluster=CLUSTER, unsigned=Unsigned.OLDER)
        recorder = ResultsRecorder(
            store=rig.store,
            broker=MemoryBroker(exchange, rig.clock),
            signals=other.rig.signals,
            clock=rig.clock,
            telemetry=Silent(),
            check=check,
        )
        await recorder._consumer.start()
        assert rig.broker is not None
        await rig.broker.send(RESULTS, [invented(await number_of(rig), await success_of(rig, job))])
        await recorder.step(0.0)
        assert "DISPATCHED" == await rig.state(job)


async def test_an_executor_that_joins_again_signs_with_another_key() -> None:
    """Its numbers are never used again, and neither are its keys; both lives are verified by their own."""
    async with staged() as stage:
        rig = stage.rig
        number = await number_of(rig)
        first = (await rig.store.executors.keys([number]))[number]
        await rig.clock.advance(60.0)
        await rig.store.executors.expire(3)
        await rig.tick()
        number = await number_of(rig)
        second = (await rig.store.executors.keys([number]))[number]
        assert first
        assert second
        assert first != second
        job = await finished(rig)
        await stage.recorder.step(0.0)
        assert "SUCCESS" == await rig.state(job)


async def test_the_store_is_asked_for_the_key_of_an_executor_once() -> None:
    """And not again with each of its messages."""
    async with staged() as stage:
        asked: list[Sequence[int]] = []
        known = stage.rig.store.executors.keys

        async def counted(executors: Sequence[int]) -> Any:
            asked.append(executors)
            return await known(executors)

        stage.rig.store.executors.keys = counted  # type: ignore[method-assign]  # to count
        for _ in range(3):
            await finished(stage.rig)
            await stage.recorder.step(0.0)
        assert [[await number_of(stage.rig)]] == [list(each) for each in asked]
