"""W1 measures every page, also where one is refused."""

from __future__ import annotations

import asyncio
import gzip
import os

from bench.cases.pages import CASE, Visitor, looked_at
from bench.harness import Round
from bench.record import judged


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server with one page, which is compressed; it refuses all others."""
    try:
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
            status, body = (b"200 OK", b"fine") if path == b"/good" else (b"422 No", b"narrow the search")
            packed = gzip.compress(body)
            head = b"HTTP/1.1 %b\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (status, len(packed))
            writer.write(head + packed)
    except asyncio.IncompleteReadError:
        writer.close()


async def test_a_page_that_is_refused_hides_no_other() -> None:
    """Its time counts, its answer is told, and the case is not met."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        visitor = Visitor(*await asyncio.open_connection(*server.sockets[0].getsockname()))
        found = await looked_at(visitor, {"bad": "/bad", "good": "/good"}, 3, os.getpid(), warm=1)
        visitor.close()
    assert (4, 0) == (found["bad"]["refused"], found["good"]["refused"])
    assert "GET /bad: 422 narrow the search" == found["bad"]["why"]
    assert found["bad"]["p95_ms"] > 0
    for refused, is_met in ((4, False), (0, True)):
        more = {"kb_most": 1.0, "refused": refused}
        checks = judged(CASE, [Round(50.0, more)])
        assert is_met == checks["answers that refuse a page"]["met"]
