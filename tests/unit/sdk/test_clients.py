"""Both clients keep the same promises: the synchronous one's are tested in `tests/unit/cli/test_client.py`, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.services.server import free_port
from tests.unit.cli.loopback import Reply, serving
from tickwise_sdk import (
    AsyncClient,
    ClearTextWarning,
    Client,
    ClientError,
    ProblemError,
    ServerTrust,
    Unreachable,
    events,
)
from tickwise_sdk.errors import StreamEnded
from tickwise_sdk.surroundings import find_server

STREAM = {"Content-Type": "text/event-stream"}


async def test_a_post_whose_answer_was_lost_is_sent_again_under_the_same_key() -> None:
    """Busy servers are waited for; what the server says is the answer."""
    busy = Reply(503, {"detail": "later"}, {"Retry-After": "0"})
    with serving(Reply(broken=True), busy, Reply(201, {"job_id": "j"})) as server:
        async with AsyncClient(server.url, "key", patience_seconds=60.0) as client:
            assert {"job_id": "j"} == await client.create_job({"name": "x"})
    assert 1 == len({each.headers["Idempotency-Key"] for each in server.received})
    assert 3 == len(server.received)


def test_a_key_of_the_program_is_sent_as_it_is() -> None:
    """So that a program that starts again does not do a thing twice."""
    with serving(Reply(201, {"job_id": "j"})) as server, Client(server.url, "key") as client:
        client.create_job({"name": "x"}, idempotency_key="mine")
        client.upsert_job("k", {"name": "x"}, if_match='"tag"')
    assert "mine" == server.received[0].headers["Idempotency-Key"]
    assert '"tag"' == server.received[1].headers["If-Match"]


async def test_refusals_and_absent_servers_have_their_errors() -> None:
    """The same ones as of the synchronous client."""
    with serving(Reply(422, {"detail": "no", "code": "cron_invalid"})) as server:
        async with AsyncClient(server.url, "key") as client:
            with pytest.raises(ProblemError, match="no"):
                await client.get_job("j")
    async with AsyncClient(f"http://127.0.0.1:{free_port()}", "key", patience_seconds=0.0) as client:
        with pytest.raises(Unreachable, match="nothing answers"):
            await client.get_job("j")
        assert not await client.is_ready()


async def test_a_listing_asks_for_a_page_when_it_is_needed() -> None:
    """Both clients, with the filters in the first request and the server's link in the next."""
    link = {"Link": '</api/v1/jobs?cursor=abc>; rel="next"'}
    pages = Reply(200, [{"name": "a"}, {"name": "b"}], link), Reply(200, [{"name": "c"}])
    with serving(*pages) as server, Client(server.url, "key") as client:
        listed = client.list_jobs(label=["team=a", "env=b"], limit=2)
        assert [] == server.received
        assert ["a", "b"] == [next(listed)["name"], next(listed)["name"]]
        assert ["/api/v1/jobs?label=team%3Da&label=env%3Db&limit=2"] == [each.path for each in server.received]
        assert ["c"] == [job["name"] for job in listed]
    with serving(*pages) as server:
        async with AsyncClient(server.url, "key") as client:
            assert ["a", "b", "c"] == [job["name"] async for job in client.list_jobs(limit=2)]


async def test_events_are_followed_by_both_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that breaks is opened again after its last event; what comes twice is told once."""
    monkeypatch.setattr(events, "PAUSE_SECONDS", 0.0)
    first = b'id: a\nevent: run\ndata: {"change": "1"}\n\n'
    second = first + b'id: b\nevent: run\ndata: {"change": "2"}\n\nevent: end\ndata: {"reason": "forbidden"}\n\n'
    with serving(Reply(body=first, headers=STREAM), Reply(body=second, headers=STREAM)) as server:
        seen = []
        async with AsyncClient(server.url, "key") as client:
            with pytest.raises(StreamEnded, match="forbidden"):  # noqa: PT012 - it is followed until it ends
                async for event in events.follow_async(client, job_id="j"):
                    seen.append(event.data["change"])  # noqa: PERF401 - it ends by an error
    assert ["1", "2"] == seen
    assert [None, "a"] == [each.headers.get("Last-Event-ID") for each in server.received]


def test_a_key_that_travels_unencrypted_is_warned_of_by_both() -> None:
    """But not on this machine, and not where that is meant."""
    for kind in (Client, AsyncClient):
        with pytest.warns(ClearTextWarning, match=r"tickwise\.example unencrypted"):
            kind("http://tickwise.example", "key")
        kind("http://tickwise.example", "key", trust=ServerTrust(insecure=True))
        kind("http://127.0.0.1:8470", "key")


# ------------------------------------------------------------------------------------------ which server


def _record(folder: Path, **more: str) -> dict[str, str]:
    (folder / "client.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "key": "local", **more}))
    return {"TICKWISE_DATA_DIR": str(folder)}


def test_the_environment_names_the_server(tmp_path: Path) -> None:
    """Address, key, namespace and authority; the local server is not looked for."""
    environ = _record(tmp_path) | {
        "TICKWISE_URL": "https://a", "TICKWISE_API_KEY": "k", "TICKWISE_NAMESPACE": "n", "TICKWISE_CA_FILE": "f",
    }  # fmt: skip
    assert ("https://a", "k", "n", ServerTrust("f")) == find_server(environ)


def test_without_a_name_the_server_of_this_machine_is_found(tmp_path: Path) -> None:
    """With its key and its certificate."""
    environ = _record(tmp_path, ca_file="c", server_name="s")
    assert ("http://127.0.0.1:1", "local", None, ServerTrust("c", "s")) == find_server(environ)


def test_the_local_key_is_for_the_local_server_alone(tmp_path: Path) -> None:
    """Another server must not even see it."""
    environ = _record(tmp_path) | {"TICKWISE_URL": "https://elsewhere"}
    assert ("https://elsewhere", None) == find_server(environ)[:2]


def test_no_server_is_told_with_the_way_to_one(tmp_path: Path) -> None:
    """And so is a record that is broken."""
    (tmp_path / "client.json").write_text("[")
    with pytest.raises(ClientError, match=r"set TICKWISE_URL and TICKWISE_API_KEY, or start one .* `tickwise up`"):
        find_server({"TICKWISE_DATA_DIR": str(tmp_path)})
