"""What only a server of SQS does: it forgets all, loses a queue, hands a message out again; and roles over it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from operator import sub
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Fleet, api_client
from tests.services.elasticmq import CREDENTIALS, ElasticMq
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.broker.sqs import SqsBroker
from tickwise.adapters.broker.sqs.inspection import inspect_queues
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import upgrade
from tickwise.domain.errors import BrokerUnavailable, Misconfigured, TooLarge
from tickwise.ports.broker import REQUESTS, RESULTS, Message
from tickwise.testing.contracts.broker import CLUSTER, member, open_patiently, take_all, values

VISIBLE_SECONDS: Final = 3
LARGE: Final = b"\x80" * 300_000


@pytest_asyncio.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ElasticMq]:
    """One that a test may harm."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    async with ElasticMq() as running:
        yield running


@pytest_asyncio.fixture
async def broker(server: ElasticMq, tmp_path: Path) -> AsyncIterator[SqsBroker]:
    """An open one."""
    made = SqsBroker(address(server), SystemClock(), open_blobs(tmp_path.as_uri()))
    await open_patiently(made)
    yield made
    await made.close()


def address(server: ElasticMq, prefix: str = "here") -> str:
    """The queues of a prefix, with short times."""
    return f"sqs://eu-central-1/{prefix}?endpoint={server.url}&buckets=2&wait_seconds=1&visibility_seconds={VISIBLE_SECONDS}"


async def test_a_server_that_was_killed_and_forgot_all_serves_again(server: ElasticMq, broker: SqsBroker) -> None:
    """What was in its queues is gone, as after a deletion. Nobody has to help: the queues are made again, marked for
    the same store, and consumers go on."""
    async with member(broker, [REQUESTS]) as consumer:
        await broker.send(REQUESTS, [Message(b"before", b"key")])
        await take_all(consumer, 1, and_done=True)
        server.kill()
        with pytest.raises(BrokerUnavailable):
            await broker.send(REQUESTS, [Message(b"lost", b"key")])
        assert not broker.state().reachable
        await server.start()
        await eventually(lambda: broker.state().reachable, what="its keeper made the queues again")
        await broker.send(REQUESTS, [Message(b"after", b"key")])
        found: set[bytes] = set()
        while b"after" not in found:
            found |= values(await consumer.take(10, 1.0))
    stranger = SqsBroker(address(server), SystemClock())
    with pytest.raises(Misconfigured, match=CLUSTER):
        await open_patiently(stranger, "another store")
    await stranger.close()


async def test_a_queue_that_was_deleted_is_made_again(broker: SqsBroker) -> None:
    """The messages of the others stay."""
    await broker.send(RESULTS, [Message(b"stays", b"key")])
    assert broker._queues is not None
    await broker._client.delete_queue(QueueUrl=broker._queues.fixed[REQUESTS])
    async with member(broker, [REQUESTS, RESULTS]) as consumer:
        await broker.send(REQUESTS, [Message(b"goes on", b"key")])
        assert {b"stays", b"goes on"} == values(await take_all(consumer, 2))


async def test_what_a_silent_consumer_took_comes_to_another_one(server: ElasticMq, broker: SqsBroker) -> None:
    """After `visibility_seconds`; what the silent one says then changes nothing. One that lives keeps what it took for
    longer than that."""
    other = SqsBroker(address(server), SystemClock())
    await open_patiently(other)
    silent = other.consumer([REQUESTS], "group")
    await silent.start()
    renewals = noted_renewals(other)
    while True:
        await broker.send(REQUESTS, [Message(b"one", b"key")])
        renewals[:] = [time.monotonic()]
        taken = await take_all(silent, 1)
        async with member(broker, [REQUESTS]) as consumer:
            found = await consumer.take(1, VISIBLE_SECONDS + 2.0)
            renewals.append(time.monotonic())
            if found and max(map(sub, renewals[1:], renewals)) > VISIBLE_SECONDS / 2:
                await consumer.done(found)  # something held the renewals up, and rightly it came here: once more
                await silent.done(taken)
                continue
            assert [] == list(found)
            for task in silent._receivers[0]._tasks:
                task.cancel()  # nobody renews it any more
            assert [b"one"] == [each.value for each in await take_all(consumer, 1, and_done=True)]
            await silent.done(taken)
            break
    await other.close()


def noted_renewals(broker: SqsBroker) -> list[float]:
    """When the messages of its consumers were renewed."""
    times: list[float] = []
    real = broker._client.change_message_visibility_batch

    async def renew(**given: Any) -> Any:
        answer = await real(**given)
        times.append(time.monotonic())
        return answer

    broker._client.change_message_visibility_batch = renew
    return times


async def test_a_large_message_goes_by_a_blob_that_ends_with_it(broker: SqsBroker, tmp_path: Path) -> None:
    """It arrives as it was sent; where there are no blobs it is refused with what to do."""
    await broker.send(REQUESTS, [Message(LARGE, b"key", [("h", b"\x00")])])
    async with member(broker, [REQUESTS]) as consumer:
        found = await take_all(consumer, 1)
        assert (LARGE, b"key", [("h", b"\x00")]) == (found[0].value, found[0].key, list(found[0].headers))
        assert 1 == len([*tmp_path.rglob("broker/*/*")])
        await consumer.done(found)
        await eventually(lambda: not [*tmp_path.rglob("broker/*/*")], what="its blob is removed")
    broker._blobs = None
    with pytest.raises(TooLarge, match="no blobs"):
        await broker.send(REQUESTS, [Message(LARGE)])


async def test_a_look_says_what_is_missing_and_whose_it_is(server: ElasticMq, broker: SqsBroker) -> None:
    """For `tickwise doctor`. It makes nothing."""
    assert ((), CLUSTER) == tuple(await inspect_queues(address(server)))
    found = await inspect_queues(address(server, "nothing"))
    assert (3, None) == (len(found.missing), found.owner)
    assert found == await inspect_queues(address(server, "nothing"))
    server.kill()
    with pytest.raises(BrokerUnavailable):
        await inspect_queues(address(server))
    assert broker.lanes == 3


async def test_jobs_run_over_it_from_request_to_result(server: ElasticMq, database_url: str, tmp_path: Path) -> None:
    """Requests, hints and results all go through its queues, between roles that run apart."""
    await upgrade(database_url)
    fleet = Fleet(
        database_url, tmp_path, TICKWISE_BROKER_URL=address(server, "roles"), TICKWISE_INGEST="buffered",
        TICKWISE_RESULTS="broker", **CREDENTIALS,
    )  # fmt: skip
    try:
        roles = [fleet.start("api", "--port", "0"), fleet.start("scheduler"), fleet.start("executor")]
        roles += [fleet.start("recorder")]
        url = str(await roles[0].ready())
        for role in roles[1:]:
            await role.ready()
        async with api_client(url, timeout=60) as client:
            for number in range(20):
                body = {
                    "name": f"job {number}",
                    "schedule_type": "IMMEDIATE",
                    "task": {"kind": "shell", "command": f"echo {number}"},
                }
                answer = await client.post("/jobs", json=body)
                assert 202 == answer.status_code, answer.text

            async def ended() -> list[Any] | None:
                runs = (await client.get("/runs", params={"status": "SUCCESS", "limit": 50})).json()
                return runs if len(runs) == 20 else None

            await eventually(ended, within_seconds=90, what="all have run")
    except AssertionError:
        print(fleet.logs())  # noqa: T201 - what the roles said, beside the failure
        raise
    finally:
        fleet.stop()
