"""The port that the world sees: what it costs while nobody asks, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from tickwise.wiring import serving as module
from tickwise.wiring.serving import address_of, listen, serving

HOUR_SECONDS = 3600.0


class Slow:
    """An application whose answer waits until it may go."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.asked.set()
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def fetch(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.get(url)


async def test_an_idle_server_looks_at_nothing_between_two_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at the beginning and one at the end, which does not wait for its hour: only an event tells it."""
    monkeypatch.setattr(module, "TICK_SECONDS", HOUR_SECONDS)
    looks: list[int] = []
    tick = module._Server.on_tick

    async def counted(self: Any, counter: int) -> bool:
        looks.append(counter)
        return await tick(self, counter)

    monkeypatch.setattr(module._Server, "on_tick", counted)
    app = Slow()
    app.go.set()
    sock = listen("127.0.0.1", 0)
    async with serving(app, [sock]):
        answer = await fetch(address_of(sock))
    assert 200 == answer.status_code
    assert "date" in answer.headers
    assert 2 == len(looks)


async def test_what_is_under_way_is_answered_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block is left while a request waits: it gets its answer."""
    monkeypatch.setattr(module, "TICK_SECONDS", HOUR_SECONDS)
    app = Slow()
    sock = listen("127.0.0.1", 0)
    async with serving(app, [sock]):
        asking = asyncio.create_task(fetch(address_of(sock)))
        await app.asked.wait()
        asyncio.get_running_loop().call_soon(app.go.set)
    assert 200 == (await asking).status_code
