"""Live events: what happens to runs, as it happens, for as long as you ask for more.

    with Client("http://127.0.0.1:8470", key) as tickwise:
        for event in follow(tickwise, job_id=job["job_id"]):
            print(event.data["status"])

A broken connection, and a server that stops, are no end: the stream is opened again after the last event that came, and
nothing is missed within five minutes. What came twice around that moment is passed over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tickwise.sdk.client import Client, ClientError, ProblemError, Unreachable

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


class StreamEnded(ClientError):
    """The server ended the stream, and would refuse another one: the key was revoked, the thing is gone."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server ended the stream: {reason}")
        self.reason = reason


def follow(
    client: Client,
    *,
    job_id: str | Iterable[str] = (),
    run_id: str | Iterable[str] = (),
    status: str | Iterable[str] = (),
    label: Mapping[str, str] | None = None,
    last_event_id: str | None = None,
) -> Iterator[Event]:
    """Changes of runs, of those that match all that is given; and the markers `COALESCED` and `GAP`. Raises
    `StreamEnded`, and the client's errors: `Unreachable` once the server is away for longer than its patience."""
    query = {
        "job_id": _many(job_id),
        "run_id": _many(run_id),
        "status": _many(status),
        "label": [f"{name}={value}" for name, value in (label or {}).items()],
    }
    seen: dict[str, None] = {}
    for event in _reopened(client, "/events", {name: values or None for name, values in query.items()}, last_event_id):
        change = event.data.get("change")
        if change is not None:
            if change in seen:
                continue
            seen[change] = None
            if len(seen) > _SEEN_MOST:
                del seen[next(iter(seen))]
        yield event


def follow_log(client: Client, run_id: str, *, last_event_id: str | None = None) -> Iterator[Event]:
    """The lines that a run writes, each a `LOG`, until it has ended: then an `END` with its `status`. Raises as
    `follow`."""
    yield from _reopened(client, f"/runs/{run_id}/logs/stream", {}, last_event_id)


def _many(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _reopened(client: Client, path: str, query: Mapping[str, Any], last: str | None) -> Iterator[Event]:
    """The events of one stream after the other, each from the last id of the one before."""
    away_since: float | None = None
    while True:
        try:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
            for event in read_events(client.stream(path, query=query, headers=headers)):
                away_since = None
                last = event.id or last
                reason = event.data.get("reason") if event.name == END else None
                if reason == "complete":
                    yield event
                    return
                if reason in _ENDS:
                    raise StreamEnded(reason)
                if event.name and event.name != END:
                    yield event
        except ProblemError as refused:
            if refused.status not in (429, 503):
                raise
            away_since = _still_away(client, away_since, refused)
        except Unreachable as away:
            away_since = _still_away(client, away_since, away)
        time.sleep(PAUSE_SECONDS)


def _still_away(client: Client, since: float | None, error: ClientError) -> float:
    """Since when the server is away. Raises what it said once that is longer than the client's patience."""
    now = time.monotonic()
    if since is not None and now - since > client.patience_seconds:
        raise error
    return now if since is None else since


def read_events(parts: Iterable[bytes]) -> Iterator[Event]:
    """The events in a stream of bytes. A comment with an id is an event without a name and data: the id counts."""
    name, data, last = "", "", ""
    for line in _lines(parts):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data = f"{data}\n{value}" if data else value
        elif field == "id":
            last = value
        elif not line:
            if data or last:
                yield Event(name if data else "", json.loads(data) if data else {}, last)
            name, data = "", ""


def _lines(parts: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
