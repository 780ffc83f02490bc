"""A client of server-sent events, as a browser reads them: ids, names, data, and the id to come back with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.support.waiting import eventually

SECONDS = 90.0
"""The most that a test waits for. A stream that is over is not waited for."""


@dataclass(slots=True)
class Sent:
    """One event."""

    name: str
    data: dict[str, Any]
    id: str


@dataclass(slots=True)
class Ear:
    """The events of one stream."""

    status: int = 0
    headers: httpx2.Headers = field(default_factory=httpx2.Headers)
    events: list[Sent] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    last_id: str = ""
    """Counts also where it came without an event."""
    retry: int | None = None
    over: bool = False

    def of(self, name: str) -> list[Sent]:
        """Events of this name."""
        return [event for event in self.events if event.name == name]

    def states(self, job_id: str) -> list[str]:
        """The states of a job's runs, as they came."""
        return [event.data["status"] for event in self.of("run") if event.data["job_id"] == job_id]

    async def until(self, look: Callable[[Ear], object], what: str) -> None:
        """Wait until it heard something. Raises `AssertionError` with what it heard, at once if the stream is over."""

        def heard() -> object:
            found = look(self)
            assert found or not self.over, f"the stream is over: {what}; {self._last()}"
            return found

        try:
            await eventually(heard, within_seconds=SECONDS, what=what)
        except AssertionError as failure:
            raise AssertionError(f"{failure}; {self._last()}") from None

    def _last(self) -> str:
        return f"heard {self.events[-5:]}, {self.comments[-3:]}, over: {self.over}"

    async def read(self, lines: AsyncIterator[str]) -> None:
        """Take in a stream, to its end or until it breaks."""
        try:
            await self._read(lines)
        except httpx2.TransportError:
            pass
        finally:
            self.over = True

    async def _read(self, lines: AsyncIterator[str]) -> None:
        name, data = "message", ""
        async for line in lines:
            kind, _, value = line.partition(": ")
            if line.startswith(":"):
                self.comments.append(value)
            elif kind == "id":
                self.last_id = value
            elif kind == "event":
                name = value
            elif kind == "data":
                data = value
            elif kind == "retry":
                self.retry = int(value)
            elif not line:
                if data:
                    self.events.append(Sent(name, json.loads(data), self.last_id))
                name, data = "message", ""


@asynccontextmanager
async def listening(
    client: httpx2.AsyncClient, path: str = "/events", *, last_id: str | None = None, **headers: str
) -> AsyncIterator[Ear]:
    """A stream that is open: what happens from now on is heard, or from the id on."""
    ear = Ear()
    sent = {**headers, **({} if last_id is None else {"Last-Event-ID": last_id})}
    async with client.stream("GET", path, headers=sent, timeout=None) as response:
        ear.status, ear.headers = response.status_code, response.headers
        assert 200 == response.status_code, await response.aread()
        reading = asyncio.create_task(ear.read(response.aiter_lines()))
        try:
            await ear.until(lambda heard: heard.comments or heard.over, "the stream is open")
            yield ear
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()
