"""What http tasks take of an answer, how long they wait for it, and which connections they use again."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.support.http_calls import OK, Caller, RawRequest, Reply, calling, raw_server, replies
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.http.runner import HttpRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Invalid
from tickwise.ports.runner import TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of


@pytest_asyncio.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with calling(tmp_path) as made:
        yield made


def answer(body: bytes, *headers: str) -> bytes:
    head = "".join(f"{each}\r\n" for each in (f"Content-Length: {len(body)}", *headers))
    return f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body


# -------------------------------------------------------------------------------------------------- size


async def test_an_answer_over_its_limit_ends_the_attempt(caller: Caller) -> None:
    """With a reason of its own; one of exactly that size is taken."""
    async with raw_server(replies(answer(b"x" * 1_000))) as server:
        ending = await caller.run(f"{server.url}/", answer_bytes=999)
        assert (Verdict.FAILED, "answer_limit") == (ending.verdict, ending.reason)
        assert "999 bytes" in (ending.error or "")
        assert Verdict.OK is (await caller.run(f"{server.url}/", answer_bytes=1_000)).verdict


async def test_the_beginning_of_a_long_answer_is_kept(caller: Caller) -> None:
    """The rest is read and dropped: it counts for neither the output nor its limit."""
    async with raw_server(replies(answer(b"0123456789" * 100_000))) as server:
        given = caller.launch(f"{server.url}/", None, {"limits": TaskLimits(50)}, kept_bytes=15)
        assert Verdict.OK is (await caller.listener.ending_of(given)).verdict
        assert "012345678901234" == await log_of(caller.blobs, given)
        over = await caller.run(f"{server.url}/", None, {"limits": TaskLimits(50)})
        assert "output_limit" == over.reason


async def test_an_answer_that_grows_when_it_is_unpacked_stays_small(caller: Caller) -> None:
    """64 kB become 64 MiB; the limit counts what is unpacked, and the memory holds a little of it at once."""
    content = answer(gzip.compress(b" " * (64 << 20), 9), "Content-Encoding: gzip")
    async with raw_server(replies(content)) as server:
        await caller.run(f"{server.url}/", answer_bytes=10)  # what is loaded once is loaded
        tracemalloc.start()
        try:
            ending = await caller.run(f"{server.url}/", answer_bytes=1 << 20)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (Verdict.FAILED, "answer_limit") == (ending.verdict, ending.reason)
    assert peak < 16 << 20


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_packed_answer_is_unpacked(caller: Caller, encoding: str) -> None:
    """As it was asked for."""
    said = json.dumps({"a": 1}).encode()
    body = gzip.compress(said) if encoding == "gzip" else zlib.compress(said)
    content = answer(body, f"Content-Encoding: {encoding}", "Content-Type: application/json")
    async with raw_server(replies(content)) as server:
        ending = await caller.run(f"{server.url}/")
    assert {"status": 200, "body": {"a": 1}} == json.loads(ending.result or "")


# ---------------------------------------------------------------------------------------- malformed answers


ENDLESS = b"X-Filler: " + b"x" * 1_000 + b"\r\n"
MALFORMED = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "another version": b"HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokx",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk without a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
    "a header without a colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a NUL in a header": b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "a long header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + ENDLESS * 5_000 + b"\r\n",
    "broken packing": answer(b"not gzip at all", "Content-Encoding: gzip"),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_answer_is_a_failure_of_the_server(caller: Caller, content: bytes) -> None:
    """It ends at once, in words, and the next request is sent over another connection."""

    async def reply(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(content if "/bad" in request.line else OK)
        if "/bad" in request.line:
            writer.close()

    async with raw_server(reply) as server:
        ending = await caller.run(f"{server.url}/bad", None, {"timeout_seconds": 20.0})
        assert (Verdict.FAILED, "http_error") == (ending.verdict, ending.reason), ending
        assert Verdict.OK is (await caller.run(f"{server.url}/")).verdict
        assert 2 == server.connections


async def test_a_body_that_breaks_off_is_no_success(caller: Caller) -> None:
    """Also with the right status."""

    async def reply(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    async with raw_server(reply) as server:
        ending = await caller.run(f"{server.url}/")
    assert (Verdict.FAILED, "http_error") == (ending.verdict, ending.reason)


# -------------------------------------------------------------------------------------------------- time


def forever(content: bytes, pause: asyncio.Event) -> Reply:
    """Sends it again and again, until the client leaves; a step is made when the event is set, which it always is."""

    async def reply(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        while True:
            await pause.wait()
            writer.write(content)
            await writer.drain()

    return reply


async def test_headers_without_an_end_are_given_up(caller: Caller) -> None:
    """By their number, long before a time is over."""
    door = asyncio.Event()
    door.set()

    async def reply(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        await forever(ENDLESS, door)(request, writer)

    async with raw_server(reply) as server:
        ending = await caller.run(f"{server.url}/", None, {"timeout_seconds": 30.0})
    assert "http_error" == ending.reason, ending


async def test_interim_answers_without_an_end_are_given_up(caller: Caller) -> None:
    """The first byte that counts is one of the answer itself."""
    door = asyncio.Event()
    door.set()
    async with raw_server(forever(b"HTTP/1.1 102 Processing\r\n\r\n", door)) as server:
        ending = await caller.run(f"{server.url}/", first_byte_seconds=0.3)
    assert "http_error" == ending.reason
    assert "no status and headers within 0.3 s" in (ending.error or ""), ending


async def test_a_server_that_does_not_begin_is_given_up(caller: Caller) -> None:
    """After the time for the first byte, and before that of the whole."""
    door = asyncio.Event()
    async with raw_server(forever(OK, door)) as server:
        ending = await caller.run(f"{server.url}/", None, {"timeout_seconds": 60.0}, first_byte_seconds=0.1)
        assert (Verdict.FAILED, "http_error") == (ending.verdict, ending.reason)
        assert "no status and headers within 0.1 s" in (ending.error or "")
        door.set()


async def test_a_slow_trickle_ends_with_the_time_of_the_whole(caller: Caller) -> None:
    """A byte now and then keeps no attempt alive."""
    stop = asyncio.Event()

    async def reply(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not stop.is_set():
            writer.write(b"x")
            await writer.drain()
            try:
                await asyncio.wait_for(stop.wait(), 0.02)
            except TimeoutError:
                continue

    async with raw_server(reply) as server:
        limits: dict[str, Any] = {"first_byte_seconds": 60.0, "connect_seconds": 60.0}
        ending = await caller.run(f"{server.url}/", None, {"timeout_seconds": 0.4}, **limits)
        stop.set()
    assert "timeout" == ending.reason


async def test_a_host_that_takes_no_connection_is_given_up(caller: Caller) -> None:
    """A full queue of connections answers nobody."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        others = [socket.socket() for _ in range(4)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        ending = await caller.run(f"http://127.0.0.1:{full.getsockname()[1]}/", connect_seconds=0.2)
        for other in others:
            other.close()
    assert "no connection within 0.2 s" in (ending.error or ""), ending


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"connect_seconds": 0}, "/connect_seconds"),
        ({"connect_seconds": True}, "/connect_seconds"),
        ({"first_byte_seconds": "10"}, "/first_byte_seconds"),
        ({"first_byte_seconds": 1e9}, "/first_byte_seconds"),
        ({"answer_bytes": 1.5}, "/answer_bytes"),
        ({"answer_bytes": 1 << 40}, "/answer_bytes"),
        ({"answer_bytes": 10, "kept_bytes": 11}, "/kept_bytes"),
    ],
)
def test_a_limit_is_checked_when_it_is_stored(tmp_path: Path, said: dict[str, Any], pointer: str) -> None:
    """With a pointer."""
    with pytest.raises(Invalid) as refused:
        Caller(tmp_path).runner.kinds[0].check({"kind": "http", "url": "https://example.com/", **said})
    assert pointer == refused.value.pointer


# ------------------------------------------------------------------------------------------- connections


async def test_a_connection_is_used_again(caller: Caller) -> None:
    """Of one namespace; another one has its own, for a server may remember a caller by it."""
    async with raw_server() as server:
        for _ in range(3):
            await caller.run(f"{server.url}/")
        assert 1 == server.connections
        await caller.run(f"{server.url}/", None, {"namespace": "other"})
        await caller.run(f"{server.url}/", None, {"namespace": "other"})
        await caller.run(f"{server.url}/")
    assert [1, 1, 1, 2, 2, 1] == [request.connection for request in server.requests]


class Changing(AbstractResolver):
    """A name that leads to the server, and from the second look-up on elsewhere."""

    def __init__(self) -> None:
        self.looks = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.looks += 1
        address = "127.0.0.1" if self.looks == 1 else "10.0.0.1"
        return [ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        """Nothing is held."""


async def test_a_kept_connection_leads_where_it_was_judged(tmp_path: Path) -> None:
    """A name that changes after that leads nowhere else: the address is that of the connection."""
    resolver = Changing()
    settings = RunnerSettings(
        blobs=open_blobs("memory://"), clock=SystemClock(), work_root=tmp_path, http_allow=("127.0.0.1",)
    )
    runner, listener = HttpRunner(settings, resolver=resolver), Listener()
    await runner.start(listener, settings.clock.now)
    try:
        async with raw_server() as server:
            for _ in range(3):
                task = runner.kinds[0].check({"kind": "http", "url": f"http://changing.example:{server.port}/"})
                given = assignment(task)
                runner.launch([given])
                assert Verdict.OK is (await listener.ending_of(given)).verdict
            assert (1, 1) == (server.connections, resolver.looks)
    finally:
        await runner.close()


async def test_proxies_of_the_environment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would connect to addresses that were not judged."""
    async with raw_server() as proxy, raw_server() as server:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with calling(tmp_path) as caller:
            assert Verdict.OK is (await caller.run(f"{server.url}/")).verdict
        assert (0, 1) == (proxy.connections, server.connections)


async def test_only_so_many_tasks_call_a_host_at_once(tmp_path: Path) -> None:
    """The others wait without a slot, and their time has not begun; other hosts and namespaces go on."""
    door = asyncio.Event()

    async def reply(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        await door.wait()
        writer.write(OK)

    async with (
        calling(tmp_path, http_per_host=2, slots=4) as caller,
        raw_server(reply) as slow,
        raw_server() as other,
    ):
        waiting = [caller.launch(f"{slow.url}/", None, {"timeout_seconds": 30.0}) for _ in range(5)]
        await eventually(lambda: len(slow.requests) == 2)
        assert Verdict.OK is (await caller.run(f"{other.url}/")).verdict
        elsewhere = caller.launch(f"{slow.url}/", None, {"namespace": "other"})
        await eventually(lambda: len(slow.requests) == 3)
        caller.runner.stop(waiting[-1].run_id, grace_seconds=0.0)
        assert Verdict.RELEASED is (await caller.listener.ending_of(waiting[-1])).verdict
        door.set()
        for each in (*waiting[:-1], elsewhere):
            assert Verdict.OK is (await caller.listener.ending_of(each)).verdict
        assert 5 == len(slow.requests)
