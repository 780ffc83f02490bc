"""What only a real Kafka does: it dies, stands still, loses its topics, asks for a password."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from confluent_kafka import admin

from tests.services.kafka import Access, Kafka
from tests.support.kafka import HINTS, PASSWORD, Make, goes_on, send_for_ever, take_for_ever, under_load
from tickwise.domain.errors import BrokerUnavailable, Misconfigured
from tickwise.ports.broker import REQUESTS, Message
from tickwise.testing.contracts.broker import CLUSTER, WITHIN_SECONDS, member, open_patiently, take_all, until, values


@pytest_asyncio.fixture(scope="module")
async def kafka() -> AsyncIterator[Kafka]:
    """One that these tests may harm."""
    async with Kafka(access=Access(tls=True, users={"ann": PASSWORD})) as running:
        yield running


@pytest_asyncio.fixture
async def make(kafka: Kafka) -> AsyncIterator[Make]:
    """Clients of topics that are this test's alone."""
    make = Make(kafka)
    yield make
    for broker in make.made:
        await broker.close()


# ---------------------------------------------------------------------------------------------- it is away


async def test_a_broker_that_was_killed_has_all_that_it_confirmed(make: Make) -> None:
    """And who waited for a confirmation gets it once it is back: nobody has to ask again."""
    broker = await make.opened(confirm_seconds=int(WITHIN_SECONDS))
    async with under_load(broker) as (sent, taken):
        make.kafka.kill()
        await until(lambda: not broker.state().reachable)
        await make.kafka.start()
        await until(goes_on(sent, taken))
        await until(lambda: broker.state().reachable)


async def test_topics_that_were_deleted_are_made_again(make: Make) -> None:
    """Within seconds; what was in them is gone, what is sent from then on arrives."""
    broker = await make.opened(confirm_seconds=2)
    cluster = admin.AdminClient({"bootstrap.servers": make.kafka.address})
    sent: list[bytes] = []
    taken: list[bytes] = []
    async with member(broker, [REQUESTS]) as consumer:
        tasks = [asyncio.create_task(send_for_ever(broker, sent))]
        tasks.append(asyncio.create_task(take_for_ever(consumer, taken)))
        await until(lambda: len(taken) > 10)
        identity = broker._found[REQUESTS].identity
        names = [f"{make.prefix}.{name}" for name in ("requests", "runs.p0", "results", "dead", "cluster")]
        for deleted in cluster.delete_topics(names).values():
            await asyncio.to_thread(deleted.result)
        await until(lambda: broker._found[REQUESTS].identity != identity)
        before = len(sent)
        await until(goes_on(sent, taken))
        tasks[0].cancel()
        await until(lambda: set(sent[before + 1 :]) <= set(taken))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(Misconfigured, match=CLUSTER):
        await open_patiently(make.client(), "another store")


async def test_topics_that_became_somebody_elses_are_left_alone(make: Make) -> None:
    """They were deleted, and another store's roles were faster: nothing of ours goes there."""
    broker, stranger = await make.opened(), make.client()
    cluster = admin.AdminClient({"bootstrap.servers": make.kafka.address})
    # The keeper of the first must not make them again before the second does.
    keeper, broker._keeper = broker._keeper, None
    assert keeper is not None
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    names = [f"{make.prefix}.{name}" for name in ("requests", "cluster")]
    for deleted in cluster.delete_topics(names).values():
        await asyncio.to_thread(deleted.result)
    await open_patiently(stranger, "another store")
    broker._keeper = asyncio.create_task(broker._keep())
    await until(lambda: not broker.state().reachable)
    assert "another store" in broker.state().detail
    with pytest.raises(BrokerUnavailable, match="another store"):
        await broker.send(REQUESTS, [Message(b"one")])
    broker.send_nowait(HINTS, [Message(b"one")])
    assert (1, 1) == (broker.state().thrown, broker.state().lost)


async def test_a_session_is_set_for_the_group(make: Make) -> None:
    """By the newer protocol it is the broker's; and where it does not allow it, the group works all the same."""
    broker = await make.opened(session_seconds=9)
    refused = await make.opened(session_seconds=1800)
    for client, group in ((broker, "nine"), (refused, "too-long")):
        await client.send(REQUESTS, [Message(b"one", b"key")])
        async with member(client, [REQUESTS], group) as consumer:
            assert b"one" in values(await consumer.take(1, WITHIN_SECONDS))
    cluster = admin.AdminClient({"bootstrap.servers": make.kafka.address})
    resource = admin.ConfigResource(admin.ResourceType.GROUP, f"{make.prefix}.nine")  # type: ignore[attr-defined]  # it says so nowhere
    [described] = cluster.describe_configs([resource]).values()
    assert (await asyncio.to_thread(described.result))["consumer.session.timeout.ms"].value == "9000"


async def test_closing_leaves_no_thread_behind(make: Make) -> None:
    """Neither of ours nor of the library's."""
    before = library_threads()
    broker = await make.opened()
    async with member(broker, [REQUESTS]):
        await broker.send(REQUESTS, [Message(b"one")])
        ours = library_threads() - before
        assert ours
    await broker.close()
    await until(lambda: not ours & library_threads())
    assert [] == [thread.name for thread in threading.enumerate() if make.prefix in thread.name]


def library_threads() -> set[str]:
    """The threads of librdkafka that this process has, by number."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            if (task / "comm").read_text().startswith("rdk:"):
                found.add(task.name)
    return found


# ---------------------------------------------------------------------------------------------- it asks who we are


@pytest.mark.parametrize(("mechanism", "protocol"), [("SCRAM-SHA-512", "consumer"), ("PLAIN", "classic")])
async def test_a_user_comes_in_by_password_over_tls(make: Make, mechanism: str, protocol: str) -> None:
    """Whatever signs the password has."""
    broker = make.secure(sasl=mechanism, group_protocol=protocol, ca=make.kafka.authority)
    await open_patiently(broker)
    await broker.send(REQUESTS, [Message(b"one", b"key")])
    async with member(broker, [REQUESTS]) as consumer:
        assert {b"one"} == values(await take_all(consumer, 1))


async def test_a_wrong_password_is_said_and_not_shown(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator must act; trying again would lock the user out."""
    monkeypatch.setattr("tickwise.adapters.broker.kafka.topics.ANSWER_SECONDS", 1.0)  # a refused client asks so long
    broker = make.secure("n0t-that-0ne", sasl="SCRAM-SHA-512", ca=make.kafka.authority)
    with pytest.raises(Misconfigured) as refusal:
        await open_patiently(broker)
    assert "uthentication" in refusal.value.detail
    assert "n0t-that-0ne" not in refusal.value.detail + repr(broker._address)


async def test_a_broker_whose_certificate_is_not_trusted_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is told to whoever may be somebody else."""
    monkeypatch.setattr("tickwise.adapters.broker.kafka.topics.ANSWER_SECONDS", 1.0)  # as above
    with pytest.raises(Misconfigured, match="certificate verify failed"):
        await open_patiently(make.secure(sasl="PLAIN"))


# ---------------------------------------------------------------------------------------------- its topics are others


@pytest.mark.parametrize(
    ("partitions", "config", "said"),
    [
        (1, {}, "1 partitions"),
        (2, {"retention.ms": "60000"}, "retention.ms=60000"),
        (2, {"cleanup.policy": "compact"}, "cleanup.policy=compact"),
        (2, {"max.message.bytes": "1000"}, "max.message.bytes=1000"),
        (2, {"retention.bytes": "1000000"}, "retention.bytes=1000000"),
        (2, {"message.timestamp.type": "CreateTime"}, "set it to LogAppendTime"),
    ],
)
async def test_topics_that_do_not_fit_are_refused(
    make: Make, partitions: int, config: dict[str, str], said: str
) -> None:
    """With what to change: nothing that somebody else made is changed by us."""
    fitting = {"retention.ms": "-1", "max.message.bytes": "10000000", "message.timestamp.type": "LogAppendTime"}
    topic = admin.NewTopic(f"{make.prefix}.requests", partitions, 1, config={**fitting, **config})  # type: ignore[attr-defined]  # it says so nowhere
    cluster = admin.AdminClient({"bootstrap.servers": make.kafka.address})
    [made] = cluster.create_topics([topic]).values()
    await asyncio.to_thread(made.result)
    with pytest.raises(Misconfigured, match=said):
        await open_patiently(make.client())


async def test_more_copies_than_there_are_brokers_are_refused(make: Make) -> None:
    """As a mistake of the set-up, not as an absence to wait for."""
    with pytest.raises(Misconfigured, match="replication|Replication"):
        await open_patiently(make.client(replication=3))
