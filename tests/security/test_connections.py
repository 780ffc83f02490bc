"""Requests that two readers could take apart in two ways, sent as raw bytes to the API as it is served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.security.probes import probe
from tests.security.wire import AUTHORIZED, Port, port, request
from tests.support.app import ADMIN_KEY
from tickwise.api.connections import PIPELINE_MAX

HOLD = "/api/v1/queues/default/hold"
JOBS = "/api/v1/jobs"
REASON = b'{"reason":"a probe"}'
UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
CHUNKED = "Transfer-Encoding: chunked"
LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Port]:
    async with port() as made:
        yield made


async def reason(served: Port) -> str | None:
    """Why the queue is held; None if it is not."""
    answer = await served.here.client.get("/api/v1/queues/default")
    if answer.status_code == 404:
        return None  # nothing was ever said of it
    hold = answer.json()["hold"]
    return None if hold is None else str(hold["reason"])


@probe(1, stopped_by="the upgrade is ignored and the body is read")
@pytest.mark.parametrize(
    "framing",
    [
        pytest.param((f"Content-Length: {len(REASON)}", REASON), id="length"),
        pytest.param((CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(REASON), REASON)), id="chunked"),
    ],
)
@pytest.mark.parametrize("cut", [0, 1], ids=["at once", "head first"])
@pytest.mark.parametrize("asked", [UPGRADE, ("Connection: upgrade", "Upgrade: websocket"), ("Upgrade: h2c, TLS/1.0",)])
async def test_an_upgrade_loses_no_body(
    served: Port, framing: tuple[str, bytes], cut: int, asked: tuple[str, ...]
) -> None:
    """`Upgrade` with a body that changes what is done, with a second request behind it."""
    header, body = framing
    whole = request("POST", HOLD, *asked, "Content-Type: application/json", header, body=body) + LIVE
    async with await served.open() as wire:
        if cut:
            head, rest = whole.split(b"\r\n\r\n", 1)
            wire.send(head + b"\r\n\r\n")
            async with await served.open() as other:
                other.send(LIVE)
                await other.answer()  # by now the server has read the head
            wire.send(rest)
        else:
            wire.send(whole)
        assert 200 == (await wire.answer()).status
        assert {"status": "alive"} == (await wire.answer()).json
    assert "a probe" == await reason(served)


@probe(1, stopped_by="the body of a message is never read as a request")
async def test_a_request_inside_a_body_is_not_served(served: Port) -> None:
    """An upgrade whose body is another request, as it would be smuggled through a proxy."""
    inner = request("POST", HOLD, body=REASON)
    async with await served.open() as wire:
        wire.send(request("POST", "/api/v1/jobs", *UPGRADE, body=inner) + LIVE)
        assert 400 == (await wire.answer()).status
        assert {"status": "alive"} == (await wire.answer()).json
    assert await reason(served) is None


@probe(1, stopped_by="the upgrade is ignored and the body is read")
async def test_a_client_of_java_as_it_is_comes_through(served: Port) -> None:
    """Java's own HttpClient, which asks for `Upgrade: h2c` with its first request."""
    source = Path(__file__).parent / "clients" / "HoldAndRead.java"
    process = await asyncio.create_subprocess_exec(
        "java", str(source), f"http://127.0.0.1:{served.port}", ADMIN_KEY, stdout=-1, stderr=-1
    )
    said, errors = await process.communicate()
    assert 0 == process.returncode, errors.decode()
    held, read = said.decode().splitlines()
    assert ("200", "from Java") == (held[:3], json.loads(held[4:])["hold"]["reason"])
    assert ("200", "from Java") == (read[:3], json.loads(read[4:])["hold"]["reason"])


@probe(1, stopped_by="each request is parsed anew, and the number that waits is bounded")
async def test_many_upgrades_at_once_are_answered_or_refused_in_order(served: Port) -> None:
    """A flood of upgrades in one piece of data, each of which is parsed twice."""
    async with await served.open() as wire:
        wire.send(request("GET", "/livez", *UPGRADE) * 500)
        statuses = [(await wire.answer()).status for _ in range(PIPELINE_MAX + 2)]
        assert [200] * (PIPELINE_MAX + 1) + [429] == statuses
        assert b"" == await wire.ended()


def posted(*headers: str, body: bytes = b"", version: str = "1.1", host: str = "Host: x") -> bytes:
    """A request to hold a queue, framed as `headers` say."""
    lines = [f"POST {HOLD} HTTP/{version}", host, AUTHORIZED, "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def read(*headers: str, target: str = "/livez", version: str = "1.1", method: str = "GET") -> bytes:
    """A request without a body."""
    return "\r\n".join([f"{method} {target} HTTP/{version}", *headers, "", ""]).encode("latin-1")


SENT = {
    "two lengths": (posted("Content-Length: 0", "Content-Length: 20", body=REASON), 400),
    "one length twice": (posted("Content-Length: 20", "Content-Length: 20", body=REASON), 400),
    "a list of lengths": (posted("Content-Length: 20, 20", body=REASON), 400),
    "a signed length": (posted("Content-Length: +20", body=REASON), 400),
    "a negative length": (posted("Content-Length: -1", body=REASON), 400),
    "a hexadecimal length": (posted("Content-Length: 0x14", body=REASON), 400),
    "a length beyond 64 bits": (posted("Content-Length: 99999999999999999999999", body=REASON), 400),
    "an empty length": (posted("Content-Length:", body=REASON), 400),
    "length and chunks": (posted("Content-Length: 4", CHUNKED, body=b"0\r\n\r\n"), 400),
    "chunks and length": (posted(CHUNKED, "Content-Length: 4", body=b"0\r\n\r\n"), 400),
    "chunked twice": (posted(CHUNKED, CHUNKED, body=b"0\r\n\r\n"), 400),
    "chunked, then identity": (posted(CHUNKED, "Transfer-Encoding: identity", body=b"0\r\n\r\n"), 400),
    "chunked, then gzip": (posted("Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"), 400),
    "gzip, then chunked": (posted("Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 501),
    "identity": (posted("Transfer-Encoding: identity", body=b"0\r\n\r\n"), 501),
    "an unknown coding": (posted("Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), 501),
    "a coding after a vertical tab": (posted("Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"), 400),
    "a coding on a folded line": (posted("Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n"), 400),
    "a space before the colon": (posted("Transfer-Encoding : chunked", body=b"0\r\n\r\n"), 400),
    "chunks in HTTP/1.0": (posted(CHUNKED, body=b"0\r\n\r\n", version="1.0"), 400),
    "a chunk of negative size": (posted(CHUNKED, body=b"-2\r\n{}\r\n0\r\n\r\n"), 400),
    "a chunk of size 0x2": (posted(CHUNKED, body=b"0x2\r\n{}\r\n0\r\n\r\n"), 400),
    "a chunk beyond 64 bits": (posted(CHUNKED, body=b"FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n"), 400),
    "bytes after a chunk": (posted(CHUNKED, body=b"2\r\n{}xx\r\n0\r\n\r\n"), 400),
    "chunks with bare line feeds": (posted(CHUNKED, body=b"2\n{}\n0\n\n"), 400),
    "an extension with a bare line feed": (posted(CHUNKED, body=b"2;a\n{}\r\n0\r\n\r\n"), 400),
    "bare line feeds": (LIVE.replace(b"\r\n", b"\n"), 400),
    "one bare line feed": (b"GET /livez HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", 400),
    "a bare carriage return": (b"GET /livez HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", 400),
    "a folded header": (read("Host: x", "X-A: b\r\n c"), 400),
    "a folded first header": (b"GET /livez HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    "a zero byte in a value": (read("Host: x", "X-A: b\0c"), 400),
    "a zero byte in a name": (read("Host: x", "X\0A: b"), 400),
    "a name with a bracket": (read("Host: x", "X(: b"), 400),
    "a header without a colon": (read("Host: x", "XYZ"), 400),
    "a header without a name": (read("Host: x", ": b"), 400),
    "no host": (read(), 400),
    "two hosts": (read("Host: x", "Host: y"), 400),
    "two keys": (read("Host: x", AUTHORIZED, "Authorization: Bearer another", target="/api/v1/jobs"), 400),
    "two namespaces": (read("Host: x", AUTHORIZED, "Tickwise-Namespace: a", "Tickwise-Namespace: b", target=JOBS), 400),
    "two Idempotency-Keys": (posted("Idempotency-Key: a", "Idempotency-Key: b", "Content-Length: 0"), 400),
    "an unknown expectation": (posted("Expect: tea", "Content-Length: 20", body=REASON), 417),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 400),
    "HTTP/2.0 as text": (read("Host: x", version="2.0"), 505),
    "HTTP/0.9": (b"GET /livez\r\n\r\n", 505),
    "HTTP/1.2": (read("Host: x", version="1.2"), 400),
    "a tunnel": (read("Host: x", method="CONNECT", target="x:1"), 501),
    "an unknown method": (read("Host: x", method="BREW"), 400),
    "an address without a path": (read("Host: x", target="http://x"), 400),
    "an address that is no ASCII": (read("Host: x", target="/liv\xe9"), 400),
    "a greeting of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), 400),
    "zero bytes": (bytes(40) + b"\r\n\r\n", 400),
}


@probe(1, stopped_by="a problem, the end of the connection, and nothing behind it is read")
@pytest.mark.parametrize("name", SENT)
async def test_what_can_be_read_in_two_ways_is_refused(served: Port, name: str) -> None:
    """Framing that a proxy and the server could read differently (RFC 9112 §5, §6, §11), with a request behind it."""
    data, status = SENT[name]
    async with await served.open() as wire:
        wire.send(data + request("POST", HOLD, body=REASON))
        answer = await wire.answer()
        assert status == answer.status
        assert "application/problem+json" == answer.headers["content-type"]
        assert (status, True) == (answer.json["status"], answer.json["type"].endswith(answer.json["code"]))
        assert answer.headers["x-request-id"] == answer.json["request_id"]
        assert "close" == answer.headers["connection"]
        assert b"" == await wire.ended()
    assert await reason(served) is None


@probe(1, stopped_by="trailers are read and dropped")
async def test_a_trailer_is_no_header(served: Port) -> None:
    """A key, and an Idempotency-Key, that come behind the body in a trailer."""
    body = b"2\r\n{}\r\n0\r\n" + AUTHORIZED.encode() + b"\r\nIdempotency-Key: a\r\n\r\n"
    async with await served.open() as wire:
        wire.send(posted(CHUNKED, body=body).replace(AUTHORIZED.encode(), b"X: y", 1) + LIVE)
        assert 401 == (await wire.answer()).status
        assert {"status": "alive"} == (await wire.answer()).json
    assert await reason(served) is None


@probe(1, stopped_by="the connection ends with the answer")
async def test_a_refused_expectation_of_100_ends_the_connection(served: Port) -> None:
    """A wrong key with `Expect: 100-continue`, and a request where the body was announced."""
    async with await served.open() as wire:
        head = posted("Expect: 100-continue", f"Content-Length: {len(LIVE)}").replace(ADMIN_KEY.encode(), b"wrong")
        wire.send(head)
        answer = await wire.answer()
        assert (401, "close") == (answer.status, answer.headers["connection"])
        assert b"" == await wire.ended()


@probe(1, stopped_by="100 Continue before the body, as RFC 9110 §10.1.1 says")
async def test_an_expectation_of_100_is_met(served: Port) -> None:
    """A good key with `Expect: 100-continue`."""
    async with await served.open() as wire:
        wire.send(posted("Expect: 100-continue", f"Content-Length: {len(REASON)}"))
        assert 100 == (await wire.answer()).status
        wire.send(REASON)
        assert 200 == (await wire.answer()).status
    assert "a probe" == await reason(served)


@probe(1, stopped_by="the answers come in order, and the refusal after them")
async def test_a_refusal_waits_for_the_answers_before_it(served: Port) -> None:
    """Garbage behind two good requests in one piece, so that its refusal could pass for one of their answers."""
    async with await served.open() as wire:
        wire.send(LIVE + LIVE + b"garbage\r\n\r\n")
        assert [200, 200, 400] == [(await wire.answer()).status for _ in range(3)]
        assert b"" == await wire.ended()


@probe(1, stopped_by="nothing is done for a request that never ends")
async def test_a_body_that_breaks_off_does_nothing(served: Port) -> None:
    """A body whose framing is broken after the data was complete."""
    broken = posted(CHUNKED, body=b"%x\r\n%s\r\n" % (len(REASON), REASON))
    async with await served.open() as wire:
        wire.send(broken)
        wire.send(b"garbage\r\n\r\n")
        assert 400 == (await wire.answer()).status
        assert b"" == await wire.ended()
    assert await reason(served) is None
