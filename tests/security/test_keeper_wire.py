"""Whoever reaches the port of a keeper, without its key and with it, and a keeper that is hostile to its clients.

SEED=7 pytest tests/security/test_keeper_wire.py -k Fuzz      the messages that a failure names, once more
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
import pytest
import structlog.testing

from tests.security.probes import probe
from tests.support.keepers import CLOCK, KEY, SHARD, GatedServedStore, certificate, served
from tests.support.waiting import eventually
from tickwise.adapters.store.keeper.wire import server as server_module
from tickwise.adapters.store.keeper.wire.forms import FORMS, encoded, error_of, reader
from tickwise.adapters.store.keeper.wire.forms import Refusal as WireRefusal
from tickwise.adapters.store.keeper.wire.frames import REQUEST, RESPONSE
from tickwise.adapters.store.keeper.wire.greeting import HELLO, Hello, Welcome
from tickwise.adapters.store.keeper.wire.pinning import Endpoint, client_context
from tickwise.adapters.store.keeper.wire.remote import RemoteStore
from tickwise.adapters.store.keeper.wire.strangers import MOST_OF_NETWORK
from tickwise.domain.errors import TickwiseError
from tickwise.ports.store import Added
from tickwise.testing.factories import Factory

SEED: Final = int(os.environ.get("SEED", "1"))
CASES: Final = int(os.environ.get("CASES", "150"))
NO_UTF8: Final = b"\xa4\xff\xfe\xfd\xfc"
DEEP: Final = b"\x91" * 3_900
HUGE_NUMBER: Final = b"\xcf" + b"\xff" * 8
CLAIMS: Final = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01")
"""Arrays, maps, texts and extensions that say that they have 2^32 parts."""


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[GatedServedStore]:
    """A keeper on this machine's clock. Nothing that others send may reach its event loop as an error."""
    leaked = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: leaked.append(context))
    async with served(tmp_path / "store", CLOCK) as made:
        yield made
    assert not leaked, leaked


def framed(body: bytes) -> bytes:
    """One message."""
    return struct.pack("!I", len(body)) + body


def hello(key: str = KEY) -> bytes:
    """The first message of a client."""
    return encoded((REQUEST, 1, HELLO, Hello(key, SHARD, "0")))


async def connected(keeper: GatedServedStore) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has spoken TLS, and nothing else."""
    endpoint = Endpoint.read(keeper.endpoint)
    return await asyncio.open_connection(endpoint.host, endpoint.port, ssl=client_context())


async def rest_of(reading: asyncio.StreamReader) -> bytes:
    """All that comes until the other side has ended the connection."""
    found = b""
    try:
        while came := await asyncio.wait_for(reading.read(1 << 16), 60.0):
            found += came
    except ConnectionError:
        pass
    return found


async def answers_to(keeper: GatedServedStore, *messages: bytes) -> bytes:
    """The answers of the keeper to somebody who sends this, until it ends the connection."""
    reading, writing = await connected(keeper)
    writing.write(b"".join(messages))
    found = await rest_of(reading)
    writing.close()
    return found


async def sent_alone(keeper: GatedServedStore, *messages: bytes) -> None:
    """Send this on a connection of its own and leave, before or after the keeper ends it."""
    others = len(keeper.server._connections)
    _, writing = await connected(keeper)
    writing.write(b"".join(messages))
    writing.close()
    await eventually(lambda: len(keeper.server._connections) == others and not keeper.server.strangers)


def raw_connections(keeper: GatedServedStore, count: int) -> list[socket.socket]:
    """Connections of one address that say nothing, not even TLS."""
    endpoint = Endpoint.read(keeper.endpoint)
    return [socket.create_connection((endpoint.host, endpoint.port)) for _ in range(count)]


# ------------------------------------------------------------------------------------------ places


@probe(3, stopped_by="a silent connection gives its place to the next; known clients have theirs")
async def test_silent_connections_keep_no_client_of_a_keeper_out(keeper: GatedServedStore) -> None:
    """Many times more connections to a keeper than it has places for strangers, silent, held open, before TLS."""
    known = await keeper.client()
    held = raw_connections(keeper, 600)
    try:
        await eventually(lambda: len(keeper.server.strangers) >= MOST_OF_NETWORK)
        new = await keeper.client()
        assert 0 < await new.now()
        assert 0 < await known.now()
        assert len(keeper.server.strangers) <= MOST_OF_NETWORK
    finally:
        for each in held:
            each.close()
    await eventually(lambda: not keeper.server.strangers)


@probe(3, stopped_by="one time for TLS and the key together")
@pytest.mark.parametrize(
    "begin", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n"], ids=["nothing", "half", "http"]
)
async def test_a_slow_handshake_with_a_keeper_ends(
    keeper: GatedServedStore, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    """A handshake with a keeper that begins and goes on byte by byte, or never."""
    monkeypatch.setattr(server_module, "HELLO_SECONDS", 0.5)
    endpoint = Endpoint.read(keeper.endpoint)
    reading, writing = await asyncio.open_connection(endpoint.host, endpoint.port)
    writing.write(begin)
    dripping = asyncio.create_task(drip(writing))
    await rest_of(reading)
    dripping.cancel()
    await asyncio.wait([dripping])
    writing.close()
    await eventually(lambda: not keeper.server.strangers)


async def drip(writing: asyncio.StreamWriter) -> None:
    """A byte now and then."""
    while True:
        await CLOCK.sleep(0.05)
        writing.write(b"\x01")


@probe(3, stopped_by="a line in 10 s, with their number")
async def test_wrong_keys_fill_no_log_of_a_keeper(keeper: GatedServedStore) -> None:
    """Wrong keys on many connections, and many of them at once on each."""
    begun = CLOCK.monotonic()
    with structlog.testing.capture_logs() as logged:
        for _ in range(20):
            answered = await answers_to(keeper, *[framed(hello("a guess"))] * 50)
            assert 1 == answered.count(b"Unauthenticated"), "one connection tries one key"
    lines = [each for each in logged if each["event"] == "keeper_client_refused"]
    assert 1 <= len(lines) <= 1 + (CLOCK.monotonic() - begun) // 10, lines


# ------------------------------------------------------------------------------------------ what was heard before


class Wiretap:
    """Passes the bytes of a client on to a keeper, and keeps them."""

    def __init__(self, keeper: GatedServedStore) -> None:
        self.heard = b""
        self._keeper = Endpoint.read(keeper.endpoint)

    async def pass_on(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        """One connection."""
        there, to = await asyncio.open_connection(self._keeper.host, self._keeper.port)

        async def pump(source: asyncio.StreamReader, goal: asyncio.StreamWriter, *, is_kept: bool) -> None:
            with contextlib.suppress(OSError):
                while came := await source.read(1 << 16):
                    self.heard += came if is_kept else b""
                    goal.write(came)
                    await goal.drain()
            goal.close()

        await asyncio.gather(pump(reading, to, is_kept=True), pump(there, writing, is_kept=False))


@probe(11, stopped_by="TLS 1.3: other keys for each connection")
async def test_a_handshake_that_was_recorded_is_none_when_it_is_sent_again(keeper: GatedServedStore) -> None:
    """All bytes that a client sent to a keeper, its key and a call among them, sent once more."""
    tap = Wiretap(keeper)
    listening = await asyncio.start_server(tap.pass_on, "127.0.0.1", 0)
    true = Endpoint.read(keeper.endpoint)
    keeper.endpoint = str(Endpoint("127.0.0.1", listening.sockets[0].getsockname()[1], true.fingerprint))
    client = await keeper.client()
    await client.jobs.add([Factory(await client.now(), seed="tapped").job()])
    await client.close()
    listening.close()
    keeper.endpoint, position = str(true), keeper.store.position
    assert KEY.encode() not in tap.heard
    assert len(tap.heard) > 500
    reading, writing = await asyncio.open_connection(true.host, true.port)
    writing.write(tap.heard)
    answer = await rest_of(reading)
    assert b"cluster" not in answer
    writing.close()
    assert position == keeper.store.position


# ------------------------------------------------------------------------------------------ messages that are none


def bad_messages() -> Iterator[tuple[str, bytes]]:
    """Messages that are none, each for a reason of its own; `P` is where the parameters of a call are."""
    for name, part in {"no-utf8": NO_UTF8, "deep": DEEP, **{f"claim-{each[0]:x}": each for each in CLAIMS}}.items():
        yield name, part
        yield f"{name}-as-method", b"\x94\x00\x01" + part + b"\x90"
        yield f"{name}-as-number", b"\x94\x00" + part + b"\xa3now\x90"
        yield f"{name}-as-parameters", b"\x94\x00\x01\xa5hello" + part
        yield f"{name}-as-key", b"\x94\x00\x01\xa5hello\x83\xa3key" + part + b"\xa5shard\x01\xa7release\xa10"
        yield f"{name}-as-more", b"\x95\x00\x01\xa5hello\x90" + part
    yield "huge-shard", b"\x94\x00\x01\xa5hello\x83\xa3key\xa1x\xa5shard" + HUGE_NUMBER + b"\xa7release\xa10"
    yield "huge-number", b"\x94\x00" + HUGE_NUMBER + b"\xa3now\x90"


BAD: Final = dict(bad_messages())


@probe(3, stopped_by="the connection ends")
@pytest.mark.parametrize("known", [False, True], ids=["without-the-key", "with-the-key"])
async def test_messages_that_are_none_end_their_own_connection(keeper: GatedServedStore, known: bool) -> None:
    """Texts that are no UTF-8, 4,000 levels, numbers and lengths of more than 64 bits, at each place of a message to a
    keeper."""
    client = await keeper.client()
    begun = CLOCK.monotonic()
    with structlog.testing.capture_logs() as logged:
        for name, body in BAD.items():
            await sent_alone(keeper, *([framed(hello())] if known else []), framed(body))
            assert 0 < await client.now(), name
        await sent_alone(keeper, b"\xff\xff\xff\xff")
    lines = [each for each in logged if each["event"] == "keeper_connection_ended"]
    assert 1 <= len(lines) <= 1 + (CLOCK.monotonic() - begun) // 10, lines
    assert "unreadable" == lines[0]["why"]


class TestFuzz:
    """Messages that are nearly right, from a seed."""

    @probe(3, stopped_by="the connection ends, or the call is refused")
    @pytest.mark.parametrize("known", [False, True], ids=["without-the-key", "with-the-key"])
    async def test_a_keeper_survives_messages_that_are_nearly_right(
        self, keeper: GatedServedStore, known: bool
    ) -> None:
        """Calls to a keeper with some bytes changed, cut out or doubled."""
        dice, client = random.Random(SEED), await keeper.client()
        make = Factory(await client.now(), seed="fuzz")
        good = [hello(), *(encoded((REQUEST, number, *each)) for number, each in enumerate(_calls(make), 2))]
        for case in range(CASES):
            messages = [framed(changed(dice, dice.choice(good))) for _ in range(5)]
            if dice.random() < 0.2:
                messages[-1] = changed(dice, messages[-1])
            await sent_alone(keeper, *([framed(hello())] if known else []), *messages)
            assert 0 < await client.now(), f"SEED={SEED}, case {case}"
        assert [Added.CREATED] == await client.jobs.add([make.job()])

    @probe(11, stopped_by="an error of the store, for the one call")
    async def test_a_client_survives_a_keeper_that_answers_nearly_right(self) -> None:
        """Answers of a keeper with some bytes changed, cut out or doubled."""
        dice = random.Random(SEED)
        hostile = HostileKeeper(dice)
        async with hostile.serving() as client:
            for case in range(CASES):
                hostile.changes_welcome = case % 10 == 0
                try:
                    await asyncio.wait_for(client.namespaces.page(after=None, limit=5), 60.0)
                except TickwiseError:
                    pass
                except BaseException as failure:
                    failure.add_note(f"SEED={SEED}, case {case}: {hostile.last!r}")
                    raise


def _calls(make: Factory) -> Iterator[tuple[str, msgspec.Raw]]:
    yield "now", msgspec.Raw(FORMS["now"].call((), {}))
    yield "jobs.add", msgspec.Raw(FORMS["jobs.add"].call(([make.job(), make.job()],), {}))
    yield "jobs.get", msgspec.Raw(FORMS["jobs.get"].call(("default", UUID(int=1)), {}))
    yield "namespaces.page", msgspec.Raw(FORMS["namespaces.page"].call((), {"after": None, "limit": 5}))


def changed(dice: random.Random, body: bytes) -> bytes:
    """The message with some places changed."""
    found = bytearray(body)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(found) + 1)
        match dice.randrange(6):
            case 0 if at < len(found):
                found[at] ^= 1 << dice.randrange(8)
            case 1:
                del found[at : at + dice.randint(1, 8)]
            case 2:
                found[at:at] = dice.randbytes(dice.randint(1, 8))
            case 3:
                found[at:at] = dice.choice((NO_UTF8, DEEP[:2_000], HUGE_NUMBER, *CLAIMS))
            case 4:
                found[at : at + 5] = dice.choice((NO_UTF8, HUGE_NUMBER, *CLAIMS))
            case _:
                found[at:at] = found[at : at + dice.randint(1, 40)]
    return bytes(found)


class HostileKeeper:
    """A process that has published its certificate and answers as no keeper does. It ends the connection then."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.changes_welcome = False
        self.last = b""

    def serving(self) -> _Hosting:
        """A client of it, as a context."""
        return _Hosting(self)

    async def answer(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        """One connection: the welcome, then an answer to the first call."""
        welcome = encoded((RESPONSE, 1, None, Welcome("cluster", "0")))
        answers = (
            encoded((RESPONSE, 2, None, (([], (False, None, None), None), []))),
            encoded((RESPONSE, 2, ("Invalid", "why", {"pointer": "/a", "__class__": 1, "args": 3}), (None, []))),
            encoded((RESPONSE, 2, ("NoSuchError", "why", {"job_id": b"1"}), (None, []))),
        )
        try:
            for number in range(2):
                (length,) = struct.unpack("!I", await reading.readexactly(4))
                await reading.readexactly(length)
                said = self.dice.choice(answers) if number else welcome
                if number or self.changes_welcome:
                    said = self.last = changed(self.dice, said)
                writing.write(framed(said))
                await writing.drain()
        except (OSError, EOFError):
            pass
        writing.close()


class _Hosting:
    def __init__(self, keeper: HostileKeeper) -> None:
        self._keeper = keeper

    async def __aenter__(self) -> RemoteStore:
        self.leaked = list[dict[str, Any]]()
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: self.leaked.append(context))
        self.server = await asyncio.start_server(self._keeper.answer, "127.0.0.1", 0, ssl=certificate().context)
        port = self.server.sockets[0].getsockname()[1]
        endpoint = str(Endpoint("127.0.0.1", port, certificate().fingerprint))

        async def find() -> str:
            return endpoint

        self.client = RemoteStore(find, key=lambda: KEY, shard=SHARD, clock=CLOCK, patience_seconds=0.0)
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        self.server.close()
        await self.server.wait_closed()
        assert not self.leaked, self.leaked


@probe(11, stopped_by="an error says that the shard has no endpoint")
@pytest.mark.parametrize(
    "row",
    ["host:99999/" + "a" * 64, "host:" + "9" * 5_000 + "/" + "a" * 64, "h" * 70 + ":1/" + "a" * 64,
     "127.0.0.1:1/é", "host:\uff11/" + "a" * 64, "\udcff:1/" + "a" * 64, "a..b:1/" + "a" * 64],
    ids=["port", "digits", "label", "fingerprint", "wide-digit", "half-a-pair", "empty-label"],
)  # fmt: skip
async def test_an_endpoint_that_is_none_is_an_error_of_the_store(row: str) -> None:
    """An endpoint in the row of a shard that no keeper publishes."""

    async def find() -> str:
        return row

    client = RemoteStore(find, key=lambda: KEY, shard=SHARD, clock=CLOCK, patience_seconds=0.0)
    with pytest.raises(TickwiseError):
        await client.now()
    await client.close()


@probe(11, stopped_by="names that each exception has are passed over")
def test_an_error_from_a_keeper_reaches_no_part_of_python() -> None:
    """An error whose attributes are `__class__`, `args` and `with_traceback`."""
    sent = encoded(("Invalid", "why", {"__class__": 1, "args": 2, "with_traceback": 3, "pointer": "/a", "a b": 4}))
    found = error_of(reader(WireRefusal)(sent))
    assert {"detail": "why", "pointer": "/a"} == vars(found)
    assert ("why",) == found.args
