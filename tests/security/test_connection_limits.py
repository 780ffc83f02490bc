"""What a client may take of a server before its key is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import psutil
import pytest

from tests.security.probes import probe
from tests.security.wire import AUTHORIZED, Answer, Wire, health, port, request
from tests.support.overriding import override
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.api.connections import DRAIN_BYTES, HEADERS_MAX, PIPELINE_MAX, ConnectionLimits
from tickwise.api.key_lookups import AT_ONCE, MAX_NETWORK
from tickwise.ports.identity import FoundKey

LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
SHORT = ConnectionLimits(header_seconds=0.2)
HALF = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Half: "


def head_of(size: int) -> bytes:
    """A request whose headers have this many bytes, in lines of a kilobyte."""
    head = LIVE[:-2]
    lines = (size - len(b"Host: x\r\n")) // 1024
    rest = size - len(b"Host: x\r\n") - lines * 1024
    return (
        head
        + b"".join(b"X-%04d: %s\r\n" % (n, b"a" * (1024 - 10)) for n in range(lines))
        + b"Y: %s\r\n\r\n" % (b"b" * (rest - 5))
    )


async def refused(wire: Wire, status: int, code: str) -> Answer:
    """The problem that ends the connection."""
    answer = await wire.answer()
    assert (status, code) == (answer.status, answer.json["code"]), answer.body
    assert "application/problem+json" == answer.headers["content-type"]
    assert b"" == await wire.ended()
    return answer


@probe(3, stopped_by="431")
async def test_headers_of_64_kb_are_the_limit() -> None:
    """Headers of exactly 64 kB, which are served, and of one byte more."""
    async with port() as served, await served.open() as wire:
        wire.send(head_of(64 << 10))
        assert 200 == (await wire.answer()).status
        wire.send(head_of((64 << 10) + 1))
        await refused(wire, 431, "headers_too_large")


@probe(3, stopped_by="431")
async def test_many_small_headers_are_refused() -> None:
    """More headers than a request may have, each of a few bytes, because each costs far more memory than its bytes."""
    async with port() as served, await served.open() as wire:
        wire.send(LIVE[:-2] + b"A:\r\n" * HEADERS_MAX + b"\r\n")
        await refused(wire, 431, "headers_too_large")


@probe(3, stopped_by="414")
async def test_an_address_of_16_kb_is_the_limit() -> None:
    """An address of exactly 16 kB, which is served, and of one byte more."""
    async with port() as served, await served.open() as wire:
        path = b"/livez?"
        wire.send(b"GET %s%s HTTP/1.1\r\nHost: x\r\n\r\n" % (path, b"a" * ((16 << 10) - len(path))))
        assert 422 == (await wire.answer()).status  # read, and refused by the route: there is no such parameter
        wire.send(b"GET %s%s HTTP/1.1\r\nHost: x\r\n\r\n" % (path, b"a" * ((16 << 10) + 1 - len(path))))
        await refused(wire, 414, "uri_too_long")


@probe(3, stopped_by="431 or 414 after the limit, and the end of the connection")
@pytest.mark.parametrize(
    ("begin", "code"),
    [
        pytest.param(HALF, "headers_too_large", id="a value"),
        pytest.param(LIVE[:-2], "headers_too_large", id="a name"),
        pytest.param(b"GET /", "uri_too_long", id="an address"),
        pytest.param(
            f"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}\r\nTransfer-Encoding: chunked\r\n\r\n2;".encode(),
            "headers_too_large",
            id="an extension of a chunk",
        ),
        pytest.param(
            f"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}\r\nTransfer-Encoding: chunked\r\n\r\n"
            "2\r\n{}\r\n0\r\nX: ".encode(),
            "headers_too_large",
            id="a trailer",
        ),
    ],
)
async def test_what_never_ends_takes_no_memory(begin: bytes, code: str) -> None:
    """A part of a request that goes on for 64 MB."""
    before = psutil.Process().memory_info().rss
    async with port() as served, await served.open() as wire:
        wire.send(begin)
        sending = asyncio.create_task(flood(wire, 64 << 20))
        answer = await wire.answer()
        grown = psutil.Process().memory_info().rss - before
        sending.cancel()
        await asyncio.wait([sending])
        assert code == answer.json["code"]
    assert grown < 32 << 20


async def flood(wire: Wire, count: int, piece: bytes = b"a" * (1 << 16)) -> None:
    """As many bytes as the other side takes."""
    for _ in range(count // len(piece)):
        wire.send(piece)
        await wire.drain()


@probe(3, stopped_by="408 after `header_seconds`")
@pytest.mark.parametrize("begin", [b"G", b"GET /livez HT", HALF, LIVE[:-2]])
async def test_a_half_open_request_ends(begin: bytes) -> None:
    """A head that stops in the middle."""
    async with port(SHORT) as served, await served.open_with(begin) as wire:
        await refused(wire, 408, "request_timeout")


@probe(3, stopped_by="408: the deadline is for the whole head")
async def test_a_trickling_head_ends() -> None:
    """A head that comes byte by byte, without a pause that any single wait would notice."""
    async with port(SHORT) as served, await served.open_with(HALF) as wire:
        answer = asyncio.create_task(wire.answer())
        async with await served.open_with(LIVE) as other:
            while not answer.done():
                wire.send(b"a")
                await other.answer()
                other.send(LIVE)
            await other.answer()
        assert (408, "request_timeout") == (answer.result().status, answer.result().json["code"])


@probe(3, stopped_by="the end of the connection after `header_seconds`")
@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n"], ids=["nothing", "empty lines"])
async def test_a_silent_connection_ends(sent: bytes) -> None:
    """A connection on which no request ever begins."""
    async with port(SHORT) as served, await served.open() as wire:
        wire.send(sent)
        assert b"" == await wire.ended()


@probe(3, stopped_by="the end of the connection after `keep_alive_seconds`")
async def test_an_idle_connection_ends() -> None:
    """A connection that is kept open after an answer."""
    async with port(ConnectionLimits(keep_alive_seconds=0.2)) as served, await served.open() as wire:
        wire.send(LIVE)
        assert 200 == (await wire.answer()).status
        assert b"" == await wire.ended()


@probe(3, stopped_by="408 below `body_bytes_per_second_least`, and the job is not made")
async def test_a_trickling_body_ends() -> None:
    """A body that comes too slowly to end in a useful time."""
    begin = request("POST", "/api/v1/jobs", "Content-Length: 100000", body=b'{"name":')
    async with port(SHORT) as served, await served.open_with(begin) as wire:
        await refused(wire, 408, "request_timeout")
        assert [] == (await served.here.client.get("/api/v1/jobs")).json()


@probe(3, stopped_by="the connection ends some kilobytes after the answer")
async def test_a_body_behind_a_refusal_is_not_read_to_its_end() -> None:
    """A wrong key, and a body that goes on for as long as the server reads."""
    async with port() as served, await served.open() as wire:
        wire.send(request("POST", "/api/v1/jobs", "Transfer-Encoding: chunked", key="wrong"))
        assert 401 == (await wire.answer()).status
        sent = 0
        reading = asyncio.create_task(wire.ended())
        while not reading.done():
            wire.send(b"10000\r\n%s\r\n" % bytes(1 << 16))
            sent += 1 << 16
            await asyncio.wait([reading, asyncio.ensure_future(wire.drain())], return_when="FIRST_COMPLETED")
        assert b"" == reading.result()
        assert sent < DRAIN_BYTES + (8 << 20)  # the kernel's buffers on both sides


@probe(3, stopped_by="the connection that has waited longest for a request makes room")
async def test_half_open_connections_keep_nobody_out() -> None:
    """More half-open connections than the server may have, and then a good client."""
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(port(ConnectionLimits(connections=16)))
        held = [await stack.enter_async_context(await served.open()) for _ in range(40)]
        for wire in held:
            wire.send(HALF)
        good = await stack.enter_async_context(await served.open())
        good.send(LIVE)
        assert 200 == (await good.answer()).status
        for wire in held[:24]:
            assert b"" == await wire.ended()
        good.send(LIVE)
        assert 200 == (await good.answer()).status


class HeldKeys(MemoryStore):
    """A store that counts the keys it is asked for, and answers when it is let."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.asked = 0
        self.let = asyncio.Event()
        override(self, "keys.find", self._find)

    async def _find(self, call: Callable[[bytes], Awaitable[FoundKey | None]], digest: bytes) -> FoundKey | None:
        self.asked += 1
        await self.let.wait()
        return await call(digest)


@probe(3, stopped_by="the connection that has waited longest makes room, also if it waits for the look-up of its key")
async def test_wrong_keys_keep_nobody_out() -> None:
    """As many connections as the server may have, each with another wrong key, and then a good client."""
    async with AsyncExitStack() as stack:
        store = HeldKeys()
        served = await stack.enter_async_context(port(ConnectionLimits(connections=16), store=store))
        held = [await stack.enter_async_context(await served.open()) for _ in range(16)]
        for number, wire in enumerate(held):
            wire.send(request("GET", "/api/v1/jobs", key=f"wrong {number}"))
        good = await stack.enter_async_context(await served.open())
        good.send(LIVE)
        assert 200 == (await good.answer()).status
        store.let.set()
        answers = await asyncio.gather(*(wire.answer() for wire in held), return_exceptions=True)
        assert 15 == sum(isinstance(answer, Answer) and 401 == answer.status for answer in answers)


@probe(3, stopped_by="503 for keys over the bound, and the look-up ends with its connection")
async def test_wrong_keys_of_closed_connections_take_no_memory() -> None:
    """More wrong keys than may wait, on connections that are closed then, and a good key afterwards."""
    async with AsyncExitStack() as stack:
        store = HeldKeys()
        served = await stack.enter_async_context(port(store=store))
        held = [await served.open() for _ in range(AT_ONCE + MAX_NETWORK + 1)]
        for number, wire in enumerate(held):
            wire.send(request("GET", "/api/v1/jobs", key=f"wrong {number}"))
        answers = [asyncio.create_task(wire.answer()) for wire in held]
        await asyncio.wait(answers, return_when="FIRST_COMPLETED")
        over = next(answer for answer in answers if answer.done()).result()
        assert (503, "keys_waiting", "1") == (over.status, over.json["code"], over.headers["retry-after"])
        for answer in answers:
            answer.cancel()
        await asyncio.wait(answers)
        for wire in held:
            await wire.__aexit__()
        good = await stack.enter_async_context(await served.open())
        good.send(LIVE)
        await good.answer()  # by now the server has seen that the others are closed
        good.send(request("GET", "/api/v1/jobs"))
        store.let.set()
        assert 200 == (await good.answer()).status
        assert store.asked <= AT_ONCE + 1


@probe(3, stopped_by="503 for the new connection; those at work are answered")
async def test_connections_at_work_are_not_dropped_for_new_ones() -> None:
    """A further connection while every one that the server may have has sent its head."""
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(port(ConnectionLimits(connections=2)))
        body = b'{"reason":"a"}'
        begun = [await stack.enter_async_context(await served.open()) for _ in range(2)]
        for wire in begun:
            wire.send(request("POST", "/api/v1/queues/default/hold", "Expect: 100-continue", "Content-Length: 14"))
            assert 100 == (await wire.answer()).status  # it has a head, and waits for the body
        late = await stack.enter_async_context(await served.open())
        answer = await refused(late, 503, "connections_full")
        assert "1" == answer.headers["retry-after"]
        for wire in begun:
            wire.send(body)
            assert 200 == (await wire.answer()).status


@probe(3, stopped_by="429 for the tenth; those before it are answered")
async def test_few_requests_are_read_ahead_of_their_answers() -> None:
    """Sixty requests in one piece of data: each that is read ahead of an answer is served before other callers."""
    async with port() as served, await served.open() as wire:
        wire.send(LIVE * 60)
        for _ in range(1 + PIPELINE_MAX):
            assert 200 == (await wire.answer()).status
        await refused(wire, 429, "pipeline_full")
    assert PIPELINE_MAX <= 8


@probe(3, stopped_by="the connection is cut when nothing was taken for a while")
async def test_a_client_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in a row whose answers nobody reads."""
    monkeypatch.setattr("tickwise.api.connections.STALL_SECONDS", 0.2)
    monkeypatch.setattr("tickwise.api.connections.PIPELINE_MAX", 64)  # so many answers fill what the kernel buffers
    async with port() as served, await served.open() as wire:
        wire.pause()
        sending = asyncio.create_task(flood(wire, 1 << 30, request("GET", "/openapi.json") * 40))
        with pytest.raises(ConnectionError):
            await sending


@probe(3, stopped_by="problems from the health port, too")
async def test_the_health_port_has_the_same_limits() -> None:
    """Headers beyond the limit, a half-open request, and a path that is not there, at `--health-port`."""
    async with health(SHORT) as served, await served.open_with(HALF) as wire:
        await refused(wire, 408, "request_timeout")
    async with health(ConnectionLimits()) as served:
        async with await served.open() as wire:
            wire.send(head_of((64 << 10) + 1))
            await refused(wire, 431, "headers_too_large")
        async with await served.open() as wire:
            wire.send(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" + b"POST /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert "route_unknown" == (await wire.answer()).json["code"]
            answer = await wire.answer()
            assert ("method_not_allowed", "GET, HEAD") == (answer.json["code"], answer.headers["allow"])
