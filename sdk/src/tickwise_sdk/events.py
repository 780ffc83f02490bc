"""Live events: what happens to runs, as it happens, for as long as you ask for more.

    with Client("http://127.0.0.1:8470", key) as tickwise:
        for event in follow(tickwise, job_id=job["job_id"]):
            print(event.data["status"])

A broken connection, and a server that stops, are no end: the stream is opened again after the last event that came, and
nothing is missed within five minutes. What came twice around that moment is passed over.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tickwise_sdk.errors import ClientError, ProblemError, StreamEnded, Unreachable

if TYPE_CHECKING:
    from tickwise_sdk.async_client import AsyncClient
    from tickwise_sdk.plain_client import PlainClient

RUN: Final = "run"
"""A run came into a state: `run_id`, `job_id`, `namespace`, `status`, `attempt`, `time`, `change`."""
COALESCED: Final = "coalesced"
"""There was more than the stream may get: `skipped`, `by_status`."""
GAP: Final = "gap"
"""The stream was left for too long: look the runs up."""
END: Final = "end"
"""The server ended the stream: `reason`."""
LOG: Final = "log"
"""A line of output: `attempt`, `offset`, `next_offset`, `line`."""
PROGRESS: Final = "progress"
"""The progress of a run, among its lines: `attempt`, `share` from 0 to 1, `text`, `time`."""

PAUSE_SECONDS: Final = 2.0
_ENDS: Final = frozenset({"unauthenticated", "forbidden", "not_found", "complete"})
"""After these the stream is not opened again."""
_SEEN_MOST: Final = 10_000


class Event(NamedTuple):
    """One event."""

    name: str
    data: dict[str, Any]
    id: str
    """To go on after it: `last_event_id`."""


__all__ = [
    "COALESCED",
    "END",
    "GAP",
    "LOG",
    "PROGRESS",
    "RUN",
    "Event",
    "StreamEnded",
    "follow",
    "follow_async",
    "follow_log",
]


def follow(
    client: PlainClient,
    *,
    job_id: str | Iterable[str] = (),
    run_id: str | Iterable[str] = (),
    status: str | Iterable[str] = (),
    label: Mapping[str, str] | None = None,
    last_event_id: str | None = None,
) -> Iterator[Event]:
    """Changes of runs, of those that match all that is given; and the markers `COALESCED` and `GAP`. Raises
    `StreamEnded`, and the client's errors: `Unreachable` once the server is away for longer than its patience."""
    seen = _Seen()
    for event in _reopened(client, "/events", _query(job_id, run_id, status, label), last_event_id):
        if seen.is_new(event):
            yield event


async def follow_async(
    client: AsyncClient,
    *,
    job_id: str | Iterable[str] = (),
    run_id: str | Iterable[str] = (),
    status: str | Iterable[str] = (),
    label: Mapping[str, str] | None = None,
    last_event_id: str | None = None,
) -> AsyncIterator[Event]:
    """As `follow`, with an `AsyncClient`."""
    seen = _Seen()
    stream = _Stream(last_event_id, client.patience_seconds)
    query = _query(job_id, run_id, status, label)
    while True:
        try:
            reader = EventReader()
            async with aclosing(client.stream("/events", query=query, headers=stream.headers())) as parts:
                async for part in parts:
                    for event in filter(stream.passes, reader.feed(part)):
                        if seen.is_new(event):
                            yield event
        except (ProblemError, Unreachable) as error:
            stream.broke(error)
        await asyncio.sleep(PAUSE_SECONDS)


def follow_log(client: PlainClient, run_id: str, *, last_event_id: str | None = None) -> Iterator[Event]:
    """The lines that a run writes, each a `LOG`, and each `PROGRESS` of it, until it has ended: then an `END` with its
    `status`. Raises as `follow`."""
    yield from _reopened(client, f"/runs/{run_id}/logs/stream", {}, last_event_id)


def _query(
    job_id: str | Iterable[str],
    run_id: str | Iterable[str],
    status: str | Iterable[str],
    label: Mapping[str, str] | None,
) -> dict[str, Any]:
    query = {
        "job_id": _many(job_id),
        "run_id": _many(run_id),
        "status": _many(status),
        "label": [f"{name}={value}" for name, value in (label or {}).items()],
    }
    return {name: values or None for name, values in query.items()}


def _many(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


class _Seen:
    """The changes that came before: around a broken connection some come twice."""

    def __init__(self) -> None:
        self._changes: dict[str, None] = {}

    def is_new(self, event: Event) -> bool:
        change = event.data.get("change")
        if change is None:
            return True
        if change in self._changes:
            return False
        self._changes[change] = None
        if len(self._changes) > _SEEN_MOST:
            del self._changes[next(iter(self._changes))]
        return True


class _Stream:
    """One stream over several connections: where it is, and for how long the server has been away."""

    def __init__(self, last: str | None, patience_seconds: float) -> None:
        self._last = last
        self._patience_seconds = patience_seconds
        self._away_since: float | None = None
        self.is_complete = False

    def headers(self) -> dict[str, str]:
        return {"Accept": "text/event-stream", **({"Last-Event-ID": self._last} if self._last else {})}

    def passes(self, event: Event) -> bool:
        """Note an event; True: it is for the caller. Raises `StreamEnded`."""
        self._away_since = None
        self._last = event.id or self._last
        reason = event.data.get("reason") if event.name == END else None
        if reason == "complete":
            self.is_complete = True
            return True
        if reason in _ENDS:
            raise StreamEnded(str(reason))
        return bool(event.name) and event.name != END

    def broke(self, error: ClientError) -> None:
        """Note that a connection failed. Raises the error once that is longer than the client's patience, and at once
        if the server refuses."""
        if isinstance(error, ProblemError) and error.status not in (429, 503):
            raise error
        now = time.monotonic()
        if self._away_since is not None and now - self._away_since > self._patience_seconds:
            raise error
        if self._away_since is None:
            self._away_since = now


def _reopened(client: PlainClient, path: str, query: Mapping[str, Any], last: str | None) -> Iterator[Event]:
    """The events of one stream after the other, each from the last id of the one before."""
    stream = _Stream(last, client.patience_seconds)
    while True:
        try:
            for event in filter(stream.passes, read_events(client.stream(path, query=query, headers=stream.headers()))):
                yield event
                if stream.is_complete:
                    return
        except (ProblemError, Unreachable) as error:
            stream.broke(error)
        time.sleep(PAUSE_SECONDS)


def read_events(parts: Iterable[bytes]) -> Iterator[Event]:
    """The events in a stream of bytes."""
    reader = EventReader()
    for part in parts:
        yield from reader.feed(part)


class EventReader:
    """Cuts a stream of bytes into events. A comment with an id is an event without a name and data: the id counts."""

    def __init__(self) -> None:
        self._rest = b""
        self._name, self._data, self._last = "", "", ""

    def feed(self, part: bytes) -> Iterator[Event]:
        """Add bytes, and yield every event that is now complete."""
        *whole, self._rest = (self._rest + part).split(b"\n")
        for raw in whole:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                self._name = value
            elif field == "data":
                self._data = f"{self._data}\n{value}" if self._data else value
            elif field == "id":
                self._last = value
            elif not line:
                if self._data or self._last:
                    data: dict[str, Any] = json.loads(self._data) if self._data else {}
                    yield Event(self._name if data else "", data, self._last)
                self._name, self._data = "", ""
