"""Load over HTTP, keep-alive, one request at a time on each connection: wrk if it is installed, else our client.

A client shares the two cores with the server that it measures: wrk costs about 5 us a request, ours 40, and a general
one in Python more than the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, cast


class Posted(NamedTuple):
    """What a burst of requests came to."""

    rate: float
    requests: int
    p50_ms: float
    p99_ms: float
    bad: int
    """Answers with another status."""
    broken: int
    """Connections that failed."""
    client: str


TOOLS = Path(__file__).with_name(".tools")


def wrk_command() -> tuple[str | None, dict[str, str]]:
    """wrk, installed or brought here by `tools.sh`, and what it needs in its environment; None if it is not there."""
    installed = shutil.which("wrk")
    unpacked = TOOLS / "usr" / "bin" / "wrk"
    if installed or not unpacked.exists():
        return installed, {}
    libraries = sorted({str(file.parent) for file in TOOLS.rglob("libluajit*.so*")})
    return str(unpacked), {"LD_LIBRARY_PATH": ":".join(libraries)}


async def wrk(ports: list[int], path: str, *, key: str, connections: int, seconds: int) -> Posted:
    """One wrk for each port. Percentiles are those of the slower one."""
    script = Path(__file__).with_name("post.lua")
    program, variables = wrk_command()
    assert program is not None
    each = str(connections // len(ports))
    running = [
        await asyncio.create_subprocess_exec(
            *(program, "-t1", f"-c{each}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script)),
            f"http://127.0.0.1:{port}{path}",
            env=os.environ | variables | {"KEY": key},
            stdout=asyncio.subprocess.PIPE,
        )
        for port in ports
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in running))
    told = [json.loads(output.decode().strip().splitlines()[-1]) for output, _ in outputs]
    return Posted(
        rate=sum(one["requests"] / one["seconds"] for one in told),
        requests=sum(one["requests"] for one in told),
        p50_ms=max(one["p50_ms"] for one in told),
        p99_ms=max(one["p99_ms"] for one in told),
        bad=sum(one["bad"] for one in told),
        broken=sum(one["broken"] for one in told),
        client="wrk",
    )


class Connection(asyncio.Protocol):
    """One client: sends the next request when the answer to the last is whole."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._buffer = b""
        self._sent = 0.0
        self._ending = False
        self._transport: asyncio.Transport | None = None
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """The server hung up: counted, never hidden."""
        self.closed.set()
        if not self._ending:
            self._load.broken += 1

    def data_received(self, data: bytes) -> None:
        """Collect until the body is whole, judge the status, go on."""
        buffer = self._buffer + data
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            self._buffer = buffer
            return
        at = buffer.lower().find(b"content-length:", 0, head)
        length = int(buffer[at + 15 : buffer.index(b"\r\n", at)]) if at >= 0 else 0
        if len(buffer) < head + 4 + length:
            self._buffer = buffer
            return
        self._buffer = b""
        self._load.answered(int(buffer[9:12]), perf_counter() - self._sent)
        self._next()

    def _next(self) -> None:
        assert self._transport is not None
        request = self._load.next_request()
        if request is None:
            self._ending = True
            self._transport.close()
            return
        self._sent = perf_counter()
        self._transport.write(request)


class Load:
    """A bounded burst of requests over some connections to some ports."""

    def __init__(self, *, path: str, key: str, body: Callable[[int], bytes], expect: int) -> None:
        self._head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
            "content-type: application/json\r\ncontent-length: "
        ).encode()
        self._body = body
        self._expect = expect
        self._until = 0.0
        self._count = 0
        self.latencies: list[float] = []
        self.unexpected: dict[int, int] = {}
        self.broken = 0

    def next_request(self) -> bytes | None:
        """The next, or None: time is up."""
        if perf_counter() >= self._until:
            return None
        self._count += 1
        body = self._body(self._count)
        return self._head + str(len(body)).encode() + b"\r\n\r\n" + body

    def answered(self, status: int, seconds: float) -> None:
        """One answer."""
        if status == self._expect:
            self.latencies.append(seconds)
        else:
            self.unexpected[status] = self.unexpected.get(status, 0) + 1

    async def run(self, ports: list[int], *, connections: int, seconds: float) -> float:
        """Requests a second over the time that it took."""
        loop = asyncio.get_running_loop()
        begun = perf_counter()
        self._until = begun + seconds
        made = [
            await loop.create_connection(lambda: Connection(self), "127.0.0.1", ports[number % len(ports)])
            for number in range(connections)
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + 10):
                await asyncio.gather(*(client.closed.wait() for _, client in made))
        return len(self.latencies) / (perf_counter() - begun)

    def percentile_ms(self, share: float) -> float:
        """Of the answered requests."""
        ordered = sorted(self.latencies)
        return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 3) if ordered else 0.0
