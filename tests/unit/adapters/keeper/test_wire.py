"""The way to a keeper: who is let in, what breaks, what is full, and what an attacker sends."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self, cast
from uuid import UUID

import msgspec
import pytest

from tests.support.keepers import CLOCK, KEY, SHARD, GatedServedStore, served
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.log import OwnershipLost
from tickwise.adapters.store.keeper.wire import forms
from tickwise.adapters.store.keeper.wire import link as link_module
from tickwise.adapters.store.keeper.wire import server as server_module
from tickwise.adapters.store.keeper.wire.forms import FORMS, Refusal, encoded, error_of, reader, refusal
from tickwise.adapters.store.keeper.wire.frames import HELLO_MAX_BYTES, REQUEST
from tickwise.adapters.store.keeper.wire.greeting import CALLS_MOST, HELLO, Hello
from tickwise.adapters.store.keeper.wire.pinning import Endpoint, client_context, make_certificate
from tickwise.adapters.store.keeper.wire.remote import RemoteStore
from tickwise.adapters.store.keeper.wire.server import KeeperServer
from tickwise.adapters.store.keeper.wire.standby import StandbyLink
from tickwise.domain import errors
from tickwise.domain.errors import (
    Bug,
    CassandraAway,
    Conflict,
    InDoubt,
    Misconfigured,
    NamespaceMoved,
    StoreUnavailable,
    TickwiseError,
)
from tickwise.observability.tasks import end_tasks
from tickwise.ports.shards import ShardMap
from tickwise.ports.store import Added, FireRequest, Handover, Store
from tickwise.ports.store.wrapping import PARTS
from tickwise.testing.contracts.store.dispatch.handovers import HandoverContract
from tickwise.testing.factories import Factory, outcome

WRONG_KEY = "a guess"
LARGE = '{"x":"' + "y" * 900_000 + '"}'
"""A definition as large as the API takes."""


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[GatedServedStore]:
    """A keeper on this machine's clock."""
    async with served(tmp_path / "store", CLOCK) as made:
        yield made


class SteppedClock(SystemClock):
    """One whose seconds pass when a test says so: a busy machine makes no keeper silent."""

    seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


class Caller:
    """An attacker, who speaks TLS and sends what they like."""

    def __init__(self, keeper: GatedServedStore) -> None:
        self.endpoint = Endpoint.read(keeper.endpoint)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def connect(self) -> None:
        """Raises `OSError` if the keeper ends the connection before its handshake is over."""
        self.reader, self.writer = await asyncio.open_connection(
            self.endpoint.host, self.endpoint.port, ssl=client_context()
        )

    def send(self, body: bytes) -> None:
        """One message."""
        self.writer.write(struct.pack("!I", len(body)) + body)

    async def is_ended(self) -> bool:
        """Whether the keeper has ended the connection; what it said before does not matter."""
        try:
            while await asyncio.wait_for(self.reader.read(1 << 16), 60.0):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


def hello(key: str = KEY, shard: int = SHARD) -> bytes:
    """The first message of a client."""
    return encoded((REQUEST, 1, HELLO, Hello(key, shard, "0")))


# ------------------------------------------------------------------------------------------ the forms


def test_each_method_of_the_port_has_a_form() -> None:
    """And of the map of shards, and nothing else: `cluster_id` is in the welcome, listeners and files stay where they
    are."""
    shard_map = {
        f"shard_map.{name}" for name, method in inspect.getmembers(ShardMap) if inspect.iscoroutinefunction(method)
    }
    port = {
        f"{part}.{name}"
        for part in PARTS
        for name, method in inspect.getmembers(
            inspect.get_annotations(getattr(Store, part).fget, eval_str=True)["return"]
        )
        if inspect.iscoroutinefunction(method)
    }
    assert port | shard_map | {"now"} == FORMS.keys()


def _leaves(root: type[TickwiseError]) -> list[type[TickwiseError]]:
    return [
        root,
        *(leaf for each in root.__subclasses__() if each.__module__ == errors.__name__ for leaf in _leaves(each)),
    ]


@pytest.mark.parametrize("kind", _leaves(TickwiseError), ids=lambda kind: kind.__name__)
def test_an_error_arrives_as_it_was(kind: type[TickwiseError]) -> None:
    """Its class, its sentence, and all that it has beside them."""
    failure = kind.__new__(kind)
    Exception.__init__(failure, "why")
    failure.detail = "why"
    attributes = {
        "job_id": UUID(int=7), "shards": frozenset({1, 2}), "factors": ("totp", "passkey"), "pointer": "/name",
        "retry_after_seconds": 2.5, "code": "narrowed",
    }  # fmt: skip
    for name, value in attributes.items():
        setattr(failure, name, value)
    there = error_of(reader(Refusal)(encoded(refusal(failure))))
    assert (kind, vars(failure), str(failure)) == (type(there), vars(there), str(there))


@pytest.mark.parametrize("near", [StoreUnavailable, NamespaceMoved, InDoubt, Conflict])
def test_an_error_of_a_later_release_arrives_as_the_nearest_that_is_known(
    near: type[TickwiseError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keepers are upgraded before roles: an older role must see what to do, such as to ask again."""
    between: type[TickwiseError] = type("BetweenError", (near,), {})
    later: type[TickwiseError] = type("LaterError", (between,), {})
    failure: TickwiseError = later.__new__(later)
    Exception.__init__(failure, "why")
    for name, value in {"detail": "why", "retry_after_seconds": 2.5, "novelty": [7]}.items():
        setattr(failure, name, value)
    with monkeypatch.context() as upgraded:
        upgraded.setattr(forms, "_ERRORS", {**forms._ERRORS, "BetweenError": between, "LaterError": later})
        body = encoded(refusal(failure))
        assert later is type(error_of(reader(Refusal)(body)))
    there = error_of(reader(Refusal)(body))
    assert (near, vars(failure), "why") == (type(there), vars(there), str(there))


def test_an_error_of_no_known_class_is_an_error() -> None:
    """Also where the other end names no class beside its own."""
    there = error_of(reader(Refusal)(encoded(("LaterError", "why", {}))))
    assert (TickwiseError, "why") == (type(there), there.detail)


def test_who_lost_the_shard_tells_its_callers_that_they_are_in_doubt() -> None:
    """The port names no other error for it."""
    assert isinstance(error_of(reader(Refusal)(encoded(refusal(OwnershipLost("elsewhere"))))), InDoubt)


def test_arguments_that_the_port_does_not_have_are_refused() -> None:
    """At the caller, before anything is sent."""
    form = FORMS["jobs.get"]
    for given, named in (((), {}), (("a", UUID(int=1), 3), {}), (("a", UUID(int=1)), {"other": 1})):
        with pytest.raises(TypeError):
            form.call(given, named)


# ------------------------------------------------------------------------------------------ who is let in


async def test_a_wrong_key_is_let_in_nowhere(keeper: GatedServedStore) -> None:
    """And the operator is told what is wrong."""
    with pytest.raises(Misconfigured, match="the key is not that of this keyspace"):
        await keeper.client(key=WRONG_KEY)


async def test_another_process_at_the_endpoint_hears_nothing(keeper: GatedServedStore) -> None:
    """Its certificate is compared before the key is sent."""
    heard: list[bytes] = []

    async def listen(found: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await found.read(100))
        writer.close()

    context: ssl.SSLContext = make_certificate(CLOCK.now()).context
    impostor = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    true = Endpoint.read(keeper.endpoint)
    port = impostor.sockets[0].getsockname()[1]
    keeper.endpoint = str(Endpoint("127.0.0.1", port, true.fingerprint))
    with pytest.raises(StoreUnavailable, match="another process answers"):
        await keeper.client(patience_seconds=0.1)
    impostor.close()
    await impostor.wait_closed()
    assert set(heard) <= {b""}


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1",
        b"\xc1" * 100,
        encoded((REQUEST, 1, HELLO, {"key": KEY})),
        encoded((REQUEST, 1, "now", [])),
        encoded((REQUEST, 1, "now", Hello(KEY, SHARD, "0"))),
        encoded((1, 1, None, None)),
        hello(WRONG_KEY),
        hello(shard=99),
        b"x" * (HELLO_MAX_BYTES + 1),
    ],
    ids=["nothing", "http", "no-msgpack", "half-a-hello", "a-call", "no-hello", "an-answer", "key", "shard", "large"],
)
async def test_who_does_not_begin_with_the_key_is_turned_away(keeper: GatedServedStore, sent: bytes) -> None:
    """They send what they like; who was let in is answered all the while."""
    client = await keeper.client()
    async with Caller(keeper) as caller:
        caller.send(sent)
        assert await caller.is_ended()
    assert 0 < await client.now()


async def test_who_says_nothing_is_not_waited_for(keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it take a place from then on."""
    caller = Caller(keeper)
    for seconds in (0.2, 3.0, 30.0):
        monkeypatch.setattr(server_module, "HELLO_SECONDS", seconds)
        with contextlib.suppress(OSError):  # the handshake took longer: this machine stood still
            await caller.connect()
            break
    assert await caller.is_ended()
    caller.writer.close()
    monkeypatch.undo()
    assert 0 < await (await keeper.client()).now()
    assert 0 == len(keeper.server.strangers)


async def test_who_begins_no_handshake_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has said who they are by then."""
    monkeypatch.setattr(server_module, "HELLO_SECONDS", 0.2)
    server = KeeperServer(make_certificate(CLOCK.now()), KEY, CLOCK)
    endpoint = await server.start("127.0.0.1")
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    assert b"" == await asyncio.wait_for(reader.read(), 60.0)
    writer.close()
    await server.stop()


@pytest.mark.parametrize(
    "name", ["open", "close", "__class__", "jobs.__init__", "on_handover", "memory", "log.append", "jobs", ""]
)
async def test_what_is_no_call_of_the_port_is_none(keeper: GatedServedStore, name: str) -> None:
    """Also for who has the key."""
    client = await keeper.client()
    assert client._link is not None
    with pytest.raises(Bug, match="knows no call"):
        await client._link.call(name, encoded([]))
    assert 0 < await client.now()


async def test_arguments_that_cannot_be_read_are_refused(keeper: GatedServedStore) -> None:
    """Of another release, or forged: nothing is carried out, and the connection goes on."""
    client = await keeper.client()
    assert client._link is not None
    for body in (encoded(["default"]), encoded([7, UUID(int=1)]), encoded({"namespace": "default"})):
        with pytest.raises(Bug, match="cannot read jobs.get"):
            await client._link.call("jobs.get", body)
    assert 0 < await client.now()


# ------------------------------------------------------------------------------------------ what breaks


async def test_a_write_whose_answer_is_lost_is_in_doubt_and_may_be_repeated(keeper: GatedServedStore) -> None:
    """Twice is once, as the port says."""
    client = await keeper.client()
    job = Factory(await client.now(), seed="doubt").job()
    keeper.log.gate.clear()
    adding = asyncio.create_task(client.jobs.add([job]))
    await eventually(lambda: keeper.log.waiting)
    assert client._link is not None
    client._link.abort()
    with pytest.raises(InDoubt):
        await adding
    keeper.log.gate.set()
    assert [Added.REPEATED] == await client.jobs.add([job])


READS: Mapping[str, Callable[[RemoteStore], Awaitable[Any]]] = {
    "the clock": lambda store: store.now(),
    "a key": lambda store: store.keys.find(b"no such key"),
    "a job": lambda store: store.jobs.get("default", UUID(int=1)),
    "a run": lambda store: store.runs.get("default", UUID(int=1)),
    "namespaces": lambda store: store.namespaces.page(after=None, limit=5),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_a_read_whose_answer_is_lost_is_made_again(
    keeper: GatedServedStore, read: Callable[[RemoteStore], Awaitable[Any]]
) -> None:
    """Its caller does not notice."""
    client = await keeper.client()
    writer = await keeper.client()
    expected = await read(writer)
    keeper.log.gate.clear()
    adding = asyncio.create_task(writer.jobs.add([Factory(CLOCK.now(), seed="read").job()]))
    await eventually(lambda: keeper.log.waiting)
    reading = asyncio.ensure_future(read(client))  # waits for what it may have seen
    await eventually(lambda: client._link is not None and client._link._waiting)
    assert client._link is not None
    client._link.abort()
    keeper.log.gate.set()
    found = await reading
    assert isinstance(found, float) or expected == found
    await adding


async def test_a_read_that_gets_no_answer_at_all_is_not_in_doubt(keeper: GatedServedStore) -> None:
    """It changed nothing: the caller may ask again, and need not look for what became of it."""
    client = await keeper.client(patience_seconds=0.0)
    writer = await keeper.client()
    keeper.log.gate.clear()
    adding = asyncio.create_task(writer.jobs.add([Factory(CLOCK.now(), seed="no answer").job()]))
    await eventually(lambda: keeper.log.waiting)
    reading = asyncio.ensure_future(client.jobs.get("default", UUID(int=1)))
    await eventually(lambda: client._link is not None and client._link._waiting)
    assert client._link is not None
    client._link.abort()
    with pytest.raises(StoreUnavailable):
        await reading
    keeper.log.gate.set()
    await adding


async def test_a_shard_that_moves_is_found_again(keeper: GatedServedStore, tmp_path: Path) -> None:
    """By a call that comes meanwhile, which waits, and is carried out once."""
    client = await keeper.client()
    job = Factory(await client.now(), seed="moves").job()
    await keeper.server.withdraw(SHARD)
    adding = asyncio.create_task(client.jobs.add([job]))
    other = KeeperServer(make_certificate(CLOCK.now()), KEY, CLOCK)
    keeper.endpoint = str(await other.start("127.0.0.1"))
    other.serve(SHARD, keeper.store)
    assert [Added.CREATED] == await adding
    assert client.served_at == Endpoint.read(keeper.endpoint).address
    await other.stop()


async def test_a_call_that_finds_no_keeper_says_so_in_time(keeper: GatedServedStore) -> None:
    """Nothing was carried out."""
    client = await keeper.client(patience_seconds=0.2)
    await keeper.server.withdraw(SHARD)
    await eventually(lambda: client._link is None or not client._link.is_open, what="it has left the keeper")
    keeper.endpoint = ""
    with pytest.raises(StoreUnavailable, match="no keeper owns shard 1: start `tickwise keeper`"):
        await client.jobs.get("default", UUID(int=1))
    keeper.endpoint = "nonsense"
    with pytest.raises(StoreUnavailable, match="has published no endpoint"):
        await client.jobs.get("default", UUID(int=1))


async def test_a_keeper_that_says_nothing_is_given_up(
    keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be frozen, and another one may have the shard; one that works answers while its log takes long."""
    monkeypatch.setattr(link_module, "LOOK_SECONDS", 0.05)
    client, looks = await keeper.client(), 0
    look = link_module.KeeperLink._look

    def counted(link: link_module.KeeperLink) -> None:
        nonlocal looks
        looks += 1
        look(link)

    monkeypatch.setattr(link_module.KeeperLink, "_look", counted)
    make = Factory(await client.now(), seed="silent")
    keeper.log.gate.clear()
    adding = asyncio.create_task(client.jobs.add([make.job()]))
    await eventually(lambda: looks > 4 * link_module.SILENT_LOOKS or adding.done())
    assert not adding.done()
    monkeypatch.setattr(server_module._ServerConnection, "heard", lambda *_: None)
    with pytest.raises(InDoubt, match="nothing came for"):
        await adding


async def test_a_client_that_was_held_up_does_not_take_its_keeper_for_silent(
    keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process computed for a while, or its machine was frozen: what the keeper said meanwhile is still unread."""
    monkeypatch.setattr(link_module, "LOOK_SECONDS", 0.05)
    clock = SteppedClock()
    client = await keeper.client(clock=clock)
    make = Factory(await client.now(), seed="held up")
    keeper.log.gate.clear()
    adding = asyncio.create_task(client.jobs.add([make.job()]))
    await eventually(lambda: keeper.log.waiting)
    looks = asyncio.Event()
    look = link_module.KeeperLink._look

    def noted(link: link_module.KeeperLink) -> None:
        look(link)
        looks.set()

    monkeypatch.setattr(link_module.KeeperLink, "_look", noted)
    await eventually(looks.is_set)
    clock.seconds += 1_000.0
    looks.clear()
    await eventually(looks.is_set)
    keeper.log.gate.set()
    assert [Added.CREATED] == await adding


# ------------------------------------------------------------------------------------------ what is full


async def test_no_more_calls_are_under_way_than_there_is_room_for(
    keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait at their client, and all are answered."""
    client = await keeper.client()
    make = Factory(await client.now(), seed="many")
    monkeypatch.setattr(link_module, "CALLS_MOST", 10 * CALLS_MOST)
    eager = await keeper.client()  # a client that does not wait
    keeper.log.gate.clear()
    calls = [
        asyncio.create_task(each.jobs.add([make.job()])) for each in (client, eager) for _ in range(3 * CALLS_MOST)
    ]

    def under_way() -> list[int]:
        return [len(each._tasks) for each in keeper.server._connections]

    await eventually(lambda: min(under_way()) >= CALLS_MOST)
    for _ in range(20):
        await CLOCK.sleep(0.01)
        assert [CALLS_MOST, CALLS_MOST] == under_way()
    keeper.log.gate.set()
    assert [[Added.CREATED]] * len(calls) == await asyncio.gather(*calls)


async def test_what_a_call_hands_over_is_told_to_its_caller_alone(keeper: GatedServedStore) -> None:
    """After its effects are durable."""
    mine, others = await keeper.client(), await keeper.client()
    crowd = HandoverContract()
    store = cast("Store", mine)
    executor, [first, second] = await crowd.taken(store, Factory(await mine.now(), seed="handover"))
    told: dict[str, list[Handover]] = {"mine": [], "others": []}
    mine.on_handover(told["mine"].append)
    others.on_handover(told["others"].append)
    keeper.log.gate.clear()
    ending = asyncio.create_task(crowd.finish(store, executor, outcome(first)))
    await eventually(lambda: keeper.log.waiting)
    assert {"mine": [], "others": []} == told
    keeper.log.gate.set()
    await ending
    assert [second.run_id] == [run.run_id for each in told["mine"] for run in each.claimable]
    assert not told["others"]


async def test_what_a_call_hands_over_is_told_also_if_its_caller_went_away(keeper: GatedServedStore) -> None:
    """The call is carried out all the same, and an executor waits for what it handed over."""
    client, crowd = await keeper.client(), HandoverContract()
    store = cast("Store", client)
    executor, [first, second] = await crowd.taken(store, Factory(await client.now(), seed="gone"))
    told: list[Handover] = []
    client.on_handover(told.append)
    keeper.log.gate.clear()
    ending = asyncio.create_task(crowd.finish(store, executor, outcome(first)))
    await eventually(lambda: keeper.log.waiting)
    await end_tasks([ending])
    keeper.log.gate.set()
    await eventually(lambda: bool(told), what="the handover is told")
    assert [second.run_id] == [run.run_id for each in told for run in each.claimable]


async def test_an_answer_that_is_too_large_is_an_error_of_its_call(
    keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes on."""
    client = await keeper.client()
    make = Factory(await client.now(), seed="large")
    job = make.job(definition='{"x":"' + "y" * 5_000 + '"}')
    await client.jobs.add([job])
    monkeypatch.setattr("tickwise.adapters.store.keeper.wire.frames.FRAME_MAX_BYTES", 3_000)
    with pytest.raises(TickwiseError, match="64 MB"):
        await client.jobs.get("default", job.job_id)
    assert 0 < await client.now()


async def test_a_claim_of_large_runs_gets_its_answer(keeper: GatedServedStore) -> None:
    """Eighty runs of 900 kB each are more than a message holds: the executor gets some, and the others later. A claim
    without its answer would be carried out again and again, and none of them would ever start."""
    client = await keeper.client()
    make, crowd = Factory(await client.now(), seed="large"), HandoverContract()
    store = cast("Store", client)
    for _ in range(4):
        await client.jobs.add([make.job(make.now, definition=LARGE) for _ in range(20)])
    executor = await crowd.register(store, lease_seconds=600.0)
    found: list[UUID] = []
    while rows := await crowd.claim(store, executor, limit=100):
        found += [row.run_id for row in rows]
    assert (80, 80) == (len(found), len(set(found)))


async def test_timers_of_large_jobs_get_their_answer(keeper: GatedServedStore) -> None:
    """Eighty recurring jobs of 900 kB each that are due at once: else no timer of the shard would fire any more."""
    client = await keeper.client()
    make = Factory(await client.now(), seed="large")
    for _ in range(4):
        await client.jobs.add([make.recurring(make.now, definition=LARGE) for _ in range(20)])
    found: list[UUID] = []
    while timers := (await client.timers.take(FireRequest(horizon_seconds=60.0, limit=500))).timers:
        found += [timer.job_id for timer in timers]
    assert (80, 80) == (len(found), len(set(found)))


def test_the_key_of_the_keyspace_is_not_shown() -> None:
    """In no representation that a log could have."""
    assert "secret" not in repr(Hello("secret", 1, "0"))
    assert msgspec.msgpack.decode(hello())[3]["key"] == KEY


async def test_a_frozen_owner_is_left_when_the_shard_moves(
    keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine takes the connection, and nobody says a word: a client looks who owns the shard meanwhile."""
    monkeypatch.setattr(link_module, "CONNECT_SECONDS", 600.0)
    taken, over = asyncio.Event(), asyncio.Event()

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.set()
        await over.wait()
        writer.close()

    frozen = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    here, port = keeper.endpoint, frozen.sockets[0].getsockname()[1]
    keeper.endpoint = f"127.0.0.1:{port}/{here.partition('/')[2]}"
    try:
        opening = asyncio.create_task(keeper.client())
        await taken.wait()
        keeper.endpoint = here
        # Made anew as each call is: the first try says that the shard has moved.
        with pytest.raises(StoreUnavailable, match="not at .* any more"):
            await asyncio.wait_for(opening, 30.0)
        assert await (await keeper.client()).now() > 0.0
    finally:
        over.set()
        frozen.close()


async def test_an_owner_that_lost_the_database_is_left_when_the_shard_moves(
    keeper: GatedServedStore, tmp_path: Path
) -> None:
    """It refuses each call, and its connection stays: its own node may be away while those of the next owner answer."""
    client = await keeper.client(patience_seconds=0.2)
    job = Factory(await client.now(), seed="moves").job()
    keeper.log.fails = CassandraAway("no node answers")
    with pytest.raises(InDoubt):
        await client.jobs.add([job])
    with pytest.raises(CassandraAway):
        await client.jobs.add([job])
    client._patience = 60.0
    async with served(tmp_path / "next", CLOCK) as following:
        following.store.memory.state.cluster_id = keeper.store.upkeep.cluster_id
        keeper.endpoint = following.endpoint
        assert [Added.CREATED] == await client.jobs.add([job])
        assert following.store.memory.state.jobs.get(job.job_id) is not None
        await client.close()


async def test_a_keeper_that_waits_tells_the_owner_how_far_it_has_read(keeper: GatedServedStore) -> None:
    """Each time that it has looked; when its link ends, nobody waits any more."""

    async def find() -> str:
        return keeper.endpoint

    standby = StandbyLink(find, key=KEY, shard=SHARD, clock=CLOCK)
    assert keeper.server.standby(SHARD) is None
    running = asyncio.create_task(standby.run())
    standby.caught_up(3)
    await eventually(lambda: keeper.server.standby(SHARD) == 3, what="the owner knows")
    standby.caught_up(7)
    await eventually(lambda: keeper.server.standby(SHARD) == 7, what="the owner knows the next position")
    assert keeper.server.standby(SHARD + 1) is None
    await end_tasks([running])
    await eventually(lambda: keeper.server.standby(SHARD) is None, what="nobody waits")


@pytest.mark.parametrize("is_heard", [True, False], ids=["a keeper that is well", "a keeper that hears nothing"])
async def test_nothing_is_left_of_a_connection_that_was_closed(
    keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    """TLS says farewell in several turns of the event loop, and a command's loop ends right after its store."""
    monkeypatch.setattr(link_module, "CLOSE_SECONDS", 60.0 if is_heard else 0.1)
    client = await keeper.client()
    link = client._link
    assert link is not None
    [theirs] = keeper.server._connections
    theirs.read_on(wanted=is_heard)
    await client.close()
    assert (True, None) == (link.has_ended, link.transport)
    theirs.read_on(wanted=True)


async def test_a_connection_that_comes_about_when_nobody_wants_it_is_ended(
    keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made in the very moment in which the shard is found to be elsewhere."""
    made: list[link_module.KeeperLink] = []
    connect = link_module.KeeperLink.connect

    async def slow(*given: Any, **named: Any) -> link_module.KeeperLink:
        looked.clear()
        await looked.wait()
        made.append(await connect(*given, **named))
        return made[-1]

    looked, here = asyncio.Event(), keeper.endpoint

    async def find() -> str:
        if not looks:
            looks.append(here)
            return here
        looked.set()
        await eventually(lambda: made and not made[0]._waiting)
        return "elsewhere"

    looks: list[str] = []
    monkeypatch.setattr(link_module.KeeperLink, "connect", slow)
    client = RemoteStore(find, key=lambda: KEY, shard=SHARD, clock=CLOCK, patience_seconds=0.0)
    with pytest.raises(StoreUnavailable, match="not at .* any more"):
        await client.open()
    await eventually(lambda: made[0].has_ended)
