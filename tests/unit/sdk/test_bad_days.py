"""Both clients on bad days of a server: it restarts, hangs, breaks off, is busy. Nothing is done twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from email.utils import formatdate
from typing import Any

import pytest

from tests.services.server import free_port
from tests.support.waiting import eventually
from tests.unit.cli.loopback import Reply, serving
from tickwise_sdk import AsyncClient, Client, ProblemError, ServerTrust, Unreachable
from tickwise_sdk.exchange import Exchange

MADE = Reply(201, {"job_id": "j"})
IN_FLIGHT = Reply(409, {"detail": "under way", "code": "idempotency_key_in_flight"})

Creates = Callable[..., Awaitable[Any]]


async def _by_the_plain_client(url: str, **options: Any) -> Any:
    with Client(url, "key", **options) as client:
        return client.create_job({"name": "x"})


async def _by_the_asynchronous_client(url: str, **options: Any) -> Any:
    async with AsyncClient(url, "key", **options) as client:
        return await client.create_job({"name": "x"})


@pytest.fixture(params=[_by_the_plain_client, _by_the_asynchronous_client])
def create(request: pytest.FixtureRequest) -> Creates:
    """Creates a job by one of the clients."""
    made: Creates = request.param
    return made


async def test_a_server_that_starts_is_waited_for(create: Creates, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is refused is tried again: the server may restart."""
    port = free_port()
    with ExitStack() as stack:
        pauses: list[float] = []

        def start(exchange: Exchange) -> float:
            pauses.append(exchange._pause_seconds)
            if len(pauses) == 2:
                stack.enter_context(serving(MADE, port=port))
            return 0.0

        monkeypatch.setattr(Exchange, "pause_seconds", start)
        assert {"job_id": "j"} == await create(f"http://127.0.0.1:{port}")
        assert 2 == len(pauses)


async def test_a_server_that_stays_away_is_given_up(create: Creates) -> None:
    """Once patience ends, with the key under which it may be sent again."""
    with pytest.raises(Unreachable, match="nothing answers") as failed:
        await create(f"http://127.0.0.1:{free_port()}", patience_seconds=0.0)
    assert failed.value.idempotency_key is not None


@pytest.mark.parametrize("lost", [Reply(broken=True), MADE._replace(cut=True)])
async def test_an_answer_that_breaks_off_is_asked_for_again(create: Creates, lost: Reply) -> None:
    """Under the same key, so that the server does it once; while it still works on the first, it is waited for."""
    with serving(lost, IN_FLIGHT, MADE) as server:
        assert {"job_id": "j"} == await create(server.url)
    assert 3 == len(server.received)
    assert 1 == len({each.headers["Idempotency-Key"] for each in server.received})


async def test_a_request_that_stays_under_way_is_told(create: Creates) -> None:
    """As the server said it."""
    with serving(IN_FLIGHT) as server, pytest.raises(ProblemError, match="under way"):
        await create(server.url, patience_seconds=0.0)


async def test_a_server_that_hangs_is_asked_again(create: Creates) -> None:
    """By another connection, while there is patience; then it is told that it did not answer."""
    with serving(Reply(hangs=True), MADE) as server:
        assert {"job_id": "j"} == await create(server.url, timeout_seconds=0.1, patience_seconds=60.0)
        # Another answer may come late, too, on a machine that stood still.
        assert 2 <= len(server.received)
        assert 1 == len({each.headers["Idempotency-Key"] for each in server.received})
    with serving(Reply(hangs=True)) as server:
        with pytest.raises(Unreachable, match="did not answer in time") as failed:
            await create(server.url, timeout_seconds=0.1, patience_seconds=0.1)
        await eventually(lambda: server.received, what="the server has read the request")
        assert [failed.value.idempotency_key] == [each.headers["Idempotency-Key"] for each in server.received]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_a_connection_that_the_server_has_closed_is_replaced(kind: Any) -> None:
    """As servers and proxies do with those that are idle."""
    with serving(MADE._replace(hangs_up=True)) as server:
        client = kind(server.url, "key")
        for _ in range(5):
            answer = client.create_job({"name": "x"})
            assert {"job_id": "j"} == (answer if kind is Client else await answer)
        closed = client.close()
        if kind is AsyncClient:
            await closed
    assert 5 == len({each.headers["Idempotency-Key"] for each in server.received})


async def test_the_wait_that_a_server_asks_for_may_be_a_date(create: Creates) -> None:
    """As proxies write it; it counts from the date of the answer, whatever our clock says."""
    busy = Reply(503, {"detail": "later"}, {"Date": formatdate(0, usegmt=True)})
    soon = busy._replace(headers={**busy.headers, "Retry-After": formatdate(1, usegmt=True)})
    with serving(soon, MADE) as server:
        assert {"job_id": "j"} == await create(server.url)
    late = busy._replace(headers={**busy.headers, "Retry-After": formatdate(3_600, usegmt=True)})
    with serving(late) as server, pytest.raises(Unreachable, match="later") as failed:
        await create(server.url)
    assert 1 == len(server.received)
    assert 3_600.0 == failed.value.retry_after_seconds


@pytest.mark.parametrize("word", ["soon", "nan", "-1", "Thu, 99 Foo 1970"])
async def test_a_wait_that_cannot_be_read_is_none(create: Creates, word: str) -> None:
    """The pause is our own then."""
    with serving(Reply(429, {"detail": "later"}, {"Retry-After": word}), MADE) as server:
        assert {"job_id": "j"} == await create(server.url)


async def test_a_long_request_that_breaks_is_sent_again(create: Creates, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience begins with the first failure."""
    begin = Exchange.__init__

    def long_ago(exchange: Exchange, *given: Any) -> None:
        begin(exchange, *given)
        exchange._began -= 3_600.0

    monkeypatch.setattr(Exchange, "__init__", long_ago)
    with serving(Reply(broken=True), MADE) as server:
        assert {"job_id": "j"} == await create(server.url)


async def test_a_proxy_of_the_environment_is_used_and_named(create: Creates, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is away may be the proxy; its password is not told."""
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    url, trust = "http://tickwise.example", ServerTrust(insecure=True)
    with serving(MADE) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert {"job_id": "j"} == await create(url, trust=trust)
    assert ["http://tickwise.example/api/v1/jobs"] == [each.path for each in proxy.received]
    port = free_port()
    monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{port}")
    with pytest.raises(Unreachable, match=rf"tickwise\.example by the proxy 127\.0\.0\.1:{port} of") as failed:
        await create(url, trust=trust, patience_seconds=0.0)
    assert "secret" not in failed.value.detail


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_the_server_of_the_environment_may_be_waited_for_longer(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a program that nobody watches."""
    monkeypatch.setenv("TICKWISE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TICKWISE_API_KEY", "key")
    assert 10.0 == kind.from_environment().patience_seconds
    assert 60.0 == kind.from_environment(patience_seconds=60.0).patience_seconds
