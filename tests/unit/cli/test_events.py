"""Following events by the client: streams that break, end, or say the same twice."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.sdk.client import Client, ProblemError
from tickwise_sdk import events
from tickwise_sdk.events import LOG, Event, StreamEnded, follow, follow_log, read_events

STREAM = {"Content-Type": "text/event-stream"}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PAUSE_SECONDS", 0.0)


def change(number: int, place: str) -> bytes:
    return f'id: {place}\nevent: run\ndata: {{"change": "{number}", "status": "QUEUED"}}\n\n'.encode()


def test_events_are_read_from_any_pieces() -> None:
    """Cut anywhere, with comments and either end of line."""
    whole = b": open\r\nretry: 2000\r\nid: a\r\n\r\n" + change(1, "b") + b": heartbeat\nid: c\n\n"
    expected = [Event("", {}, "a"), Event("run", {"change": "1", "status": "QUEUED"}, "b"), Event("", {}, "c")]
    for size in (1, 3, 7, 1_000):
        assert expected == list(read_events(whole[at : at + size] for at in range(0, len(whole), size)))


def test_a_stream_that_ends_is_opened_again_after_its_last_event() -> None:
    """What comes twice is told once; the id of a heartbeat counts too."""
    first = change(1, "a") + change(2, "b") + b": heartbeat\nid: c\n\n"
    second = change(2, "b") + change(3, "d") + b'event: end\ndata: {"reason": "stopping"}\n\n'
    third = change(4, "e") + b'event: end\ndata: {"reason": "unauthenticated"}\n\n'
    replies = [Reply(body=body, headers=STREAM) for body in (first, second, third)]
    with serving(*replies) as server, Client(server.url, "key", patience_seconds=60.0) as client:
        stream = follow(client, job_id="j", status=["FAILED", "SUCCESS"], label={"team": "a"})
        assert ["1", "2", "3", "4"] == [event.data["change"] for event in islice(stream, 4)]
        with pytest.raises(StreamEnded, match="unauthenticated"):
            next(stream)
        assert [None, "c", "d"] == [each.headers.get("Last-Event-ID") for each in server.received]
        assert "job_id=j&status=FAILED&status=SUCCESS&label=team%3Da" in server.received[0].path


def test_a_full_server_is_waited_for_and_a_refusal_is_not() -> None:
    """429 and 503 are for now."""
    busy = Reply(429, {"status": 429, "title": "busy", "detail": "later"})
    refused = Reply(403, {"status": 403, "title": "no", "detail": "no", "code": "forbidden"})
    replies = busy, Reply(body=change(1, "a"), headers=STREAM), refused
    with serving(*replies) as server, Client(server.url, "key", patience_seconds=60.0) as client:
        stream = follow(client)
        assert "1" == next(stream).data["change"]
        with pytest.raises(ProblemError):
            next(stream)


def test_a_log_ends_with_its_run() -> None:
    """The last event has the state."""
    body = b'id: 1.3\nevent: log\ndata: {"line": "hi"}\n\n'
    body += b'event: end\ndata: {"reason": "complete", "status": "SUCCESS"}\n\n'
    with serving(Reply(body=body, headers=STREAM)) as server, Client(server.url, "key") as client:
        assert [(LOG, "hi"), ("end", None)] == [
            (event.name, event.data.get("line")) for event in follow_log(client, "r")
        ]
