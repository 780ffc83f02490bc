"""The http runner against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tickwise.adapters.blobs import StoredBlobs, open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.outgoing import client
from tickwise.adapters.runner import output
from tickwise.adapters.runner.http.circuit_breakers import Breakers
from tickwise.adapters.runner.http.runner import HttpRunner, retry_after_seconds
from tickwise.adapters.runner.output import OutputSink
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.ports.runner import Assignment, Ending, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of


class Shop:
    """A runner, its listener, and a server that answers as its path says."""

    def __init__(self, folder: Path, breakers: Breakers | None = None) -> None:
        self.blobs: StoredBlobs = open_blobs("memory://")
        settings = RunnerSettings(
            blobs=self.blobs,
            clock=SystemClock(),
            work_root=folder,
            result_limit_bytes=1 << 10,
            slots=4,
            http_allow=("127.0.0.0/8",),
        )
        self.runner = HttpRunner(settings, breakers=breakers)
        self.listener = Listener()
        self.door = asyncio.Event()
        """Opens what `/wait` waits for."""
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self._servers: list[web.AppRunner] = []

    async def serve(self) -> str:
        """Start a server; its address."""
        application = web.Application()
        application.router.add_route("*", "/status/{status}", self._status)
        application.router.add_route("*", "/redirect/{status}", self._redirect)
        application.router.add_route("*", "/large", self._large)
        application.router.add_route("*", "/wait", self._wait)
        server = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await server.setup()
        await web.TCPSite(server, "127.0.0.1", 0).start()
        self._servers.append(server)
        return f"http://127.0.0.1:{server.addresses[0][1]}"

    async def close(self) -> None:
        await self.runner.close()
        self.door.set()
        for server in self._servers:
            await server.cleanup()

    async def _keep(self, request: web.Request) -> None:
        self.requests.append((request.method, request.path, dict(request.headers), await request.read()))

    async def _status(self, request: web.Request) -> web.Response:
        await self._keep(request)
        headers = {"Retry-After": request.query["after"]} if "after" in request.query else {}
        return web.json_response({"said": "hello"}, status=int(request.match_info["status"]), headers=headers)

    async def _redirect(self, request: web.Request) -> web.Response:
        await self._keep(request)
        return web.Response(status=int(request.match_info["status"]), headers={"Location": request.query["to"]})

    async def _wait(self, request: web.Request) -> web.Response:
        await self._keep(request)
        await self.door.wait()
        return web.Response()

    async def _large(self, request: web.Request) -> web.Response:
        return web.json_response("x" * 100_000)

    def launch(
        self, url: str, payload: Any = None, /, *, changes: dict[str, Any] | None = None, **task: Any
    ) -> Assignment:
        checked = self.runner.kinds[0].check({"kind": "http", "url": url, **task})
        given = assignment(checked, payload, **(changes or {}))
        self.runner.launch([given])
        return given

    async def run(self, url: str, payload: Any = None, /, **task: Any) -> Ending:
        return await self.listener.ending_of(self.launch(url, payload, **task))


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    made = Shop(tmp_path)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.close()


async def test_the_answer_is_the_result_and_the_log(shop: Shop) -> None:
    """Status and JSON body; the raw body is the output."""
    given = shop.launch(f"{await shop.serve()}/status/200")
    ending = await shop.listener.ending_of(given)
    assert ending.verdict is Verdict.OK
    assert json.loads(ending.result or "") == {"status": 200, "body": {"said": "hello"}}
    assert await log_of(shop.blobs, given) == '{"said": "hello"}'


async def test_a_request_carries_the_context_and_its_own_headers(shop: Shop) -> None:
    """As `Tickwise-…`."""
    given = shop.launch(f"{await shop.serve()}/status/200", headers={"X-Own": "yes"}, changes={"token": 12})
    await shop.listener.ending_of(given)
    ((method, _, headers, body),) = shop.requests
    assert (method, body, headers["X-Own"]) == ("GET", b"", "yes")
    assert headers["Tickwise-Run-Id"] == headers["Tickwise-Idempotency-Key"] == str(given.run_id)
    assert headers["Tickwise-Job-Id"] == str(given.job_id)
    assert (headers["Tickwise-Attempt"], headers["Tickwise-Fencing-Token"]) == ("1", "12")
    assert headers["Tickwise-Due-Time"].endswith("Z")


async def test_a_post_sends_the_payload(shop: Shop) -> None:
    """As JSON, if the task has no body of its own."""
    await shop.run(f"{await shop.serve()}/status/201", {"a": 1}, method="POST")
    ((_, _, headers, body),) = shop.requests
    assert (json.loads(body), headers["Content-Type"]) == ({"a": 1}, "application/json")


@pytest.mark.parametrize(
    ("body", "sent", "media_type"),
    [("plain", b"plain", None), ({"b": [2]}, b'{"b":[2]}', "application/json")],
    ids=["text", "JSON"],
)
async def test_a_body_is_sent_as_it_is_given(shop: Shop, body: Any, sent: bytes, media_type: str | None) -> None:
    """A text as text, anything else as JSON."""
    await shop.run(f"{await shop.serve()}/status/200", {"a": 1}, method="PUT", body=body)
    ((_, _, headers, received),) = shop.requests
    assert received == sent
    assert media_type is None or headers["Content-Type"] == media_type


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (204, Verdict.OK),
        (400, Verdict.INVALID),
        (404, Verdict.INVALID),
        (408, Verdict.FAILED),
        (409, Verdict.FAILED),
        (425, Verdict.FAILED),
        (429, Verdict.FAILED),
        (500, Verdict.FAILED),
        (503, Verdict.FAILED),
    ],
)
async def test_the_status_decides(shop: Shop, status: int, verdict: Verdict) -> None:
    """A request that is wrong is not repeated; a server in trouble is asked again."""
    ending = await shop.run(f"{await shop.serve()}/status/{status}")
    assert ending.verdict is verdict
    if verdict is not Verdict.OK:
        assert ending.reason == "http_status"
        assert (ending.error or "").startswith(f'status {status}: {{"said"')


async def test_a_task_says_which_statuses_it_expects(shop: Shop) -> None:
    """Those and no others."""
    address = await shop.serve()
    assert (await shop.run(f"{address}/status/404", expect=[404])).verdict is Verdict.OK
    assert (await shop.run(f"{address}/status/503", expect=["5xx"])).verdict is Verdict.OK
    assert (await shop.run(f"{address}/status/200", expect=[204])).verdict is Verdict.FAILED


async def test_retry_after_is_honoured(shop: Shop) -> None:
    """In seconds."""
    ending = await shop.run(f"{await shop.serve()}/status/503?after=17")
    assert ending.retry_after_seconds == 17.0


def test_retry_after_may_be_a_date() -> None:
    """As RFC 9110 allows; what cannot be read is nothing, what has passed is now."""
    moment = datetime(2027, 1, 1, tzinfo=UTC)
    later = format_datetime(moment + timedelta(seconds=90), usegmt=True)
    assert retry_after_seconds(later, moment.timestamp()) == 90.0
    assert retry_after_seconds(later, moment.timestamp() + 1_000) == 0.0
    assert retry_after_seconds("soon", 0.0) is None
    assert retry_after_seconds("²", 0.0) is None


def test_retry_after_is_a_day_at_most() -> None:
    """What is no finite number says nothing."""
    assert retry_after_seconds("90000", 0.0) == 86_400.0
    assert retry_after_seconds("9" * 400, 0.0) is None
    assert retry_after_seconds("-5", 0.0) is None


async def test_nobody_there_is_a_failure_to_try_again(shop: Shop) -> None:
    """With what the network said."""
    ending = await shop.run("http://127.0.0.1:1/")
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "http_error")


async def test_redirects_are_followed_without_credentials_for_others(shop: Shop) -> None:
    """They belong to the origin that they were written for."""
    first, second = await shop.serve(), await shop.serve()
    secret = {"Authorization": "Bearer secret", "X-Own": "yes"}
    assert (await shop.run(f"{first}/redirect/302?to=/status/200", headers=secret)).verdict is Verdict.OK
    assert (await shop.run(f"{first}/redirect/307?to={second}/status/200", headers=secret)).verdict is Verdict.OK
    assert [headers.get("Authorization") for _, _, headers, _ in shop.requests] == ["Bearer secret"] * 3 + [None]
    assert [headers.get("X-Own") for _, _, headers, _ in shop.requests] == ["yes"] * 3 + [None]


@pytest.mark.parametrize(("status", "method", "body"), [(303, "GET", b""), (307, "POST", b'{"a": 1}')])
async def test_a_redirect_changes_the_method_as_the_rules_say(
    shop: Shop, status: int, method: str, body: bytes
) -> None:
    """303 asks for a GET, 307 for the same again."""
    await shop.run(f"{await shop.serve()}/redirect/{status}?to=/status/200", {"a": 1}, method="POST")
    assert (shop.requests[-1][0], shop.requests[-1][3]) == (method, body)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/", "http://:80/"])
async def test_a_redirect_leads_nowhere_that_a_task_could_not_name(shop: Shop, target: str) -> None:
    """The rules for the address hold for every one of the chain."""
    ending = await shop.run(f"{await shop.serve()}/redirect/302?to={target}")
    assert (ending.verdict, ending.reason) == (Verdict.INVALID, "invalid")


async def test_redirects_in_a_circle_end(shop: Shop) -> None:
    """After five."""
    ending = await shop.run(f"{await shop.serve()}/redirect/302?to=/redirect/302%3Fto%3D/status/200")
    assert ending.verdict is Verdict.OK
    address = await shop.serve()
    shop.requests.clear()
    ending = await shop.run(f"{address}/redirect/302?to=")
    assert ending.verdict is Verdict.INVALID
    assert len(shop.requests) == 6


async def test_a_large_answer_is_logged_and_not_stored_with_the_run(shop: Shop) -> None:
    """The result keeps the status."""
    given = shop.launch(f"{await shop.serve()}/large")
    ending = await shop.listener.ending_of(given)
    assert json.loads(ending.result or "") == {"status": 200}
    assert len(await log_of(shop.blobs, given)) == 100_002


async def test_an_answer_is_read_no_faster_than_it_is_stored(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is lost, and only a little is in memory at once."""
    monkeypatch.setattr(output, "MAX_PENDING_BYTES", 10_000)
    monkeypatch.setattr(output, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(client, "READ_BYTES", 1_000)
    waited: list[int] = []
    write = OutputSink.write

    def watched(sink: OutputSink, content: bytes) -> bool:
        waited.append(len(sink._pending))
        return write(sink, content)

    monkeypatch.setattr(OutputSink, "write", watched)
    given = shop.launch(f"{await shop.serve()}/large")
    assert (await shop.listener.ending_of(given)).verdict is Verdict.OK
    assert max(waited) <= 10_000
    assert len(await log_of(shop.blobs, given)) == 100_002


# ---------------------------------------------------------------------------------------------- circuit breaker


@pytest_asyncio.fixture
async def broken(tmp_path: Path) -> AsyncIterator[Shop]:
    """A runner that has enough after two failures, and tries again at once: one probe at a time."""
    made = Shop(tmp_path, Breakers(failures=2, open_seconds=0.0, probe_seconds=7.0))
    await made.runner.start(made.listener, time.time)
    yield made
    await made.close()


async def test_a_status_is_told_as_what_it_failed_of(shop: Shop) -> None:
    """Whether it may be tried again or not."""
    base = await shop.serve()
    endings = [await shop.run(f"{base}/status/{status}") for status in (404, 429, 503)]
    assert [ending.symptoms for ending in endings] == [("404",), ("429",), ("503",)]


async def test_tasks_of_a_host_that_keeps_failing_are_given_back(shop: Shop) -> None:
    """Nothing is sent, no attempt began, and it is said when to come again; other hosts go on."""
    base, other = await shop.serve(), await shop.serve()
    for _ in range(5):
        assert (await shop.run(f"{base}/status/500")).reason == "http_status"
    given = shop.launch(f"{base}/status/200")
    ending = await shop.listener.ending_of(given)
    assert (ending.verdict, ending.reason) == (Verdict.UNOFFERED, "circuit_open")
    assert 0 < (ending.retry_after_seconds or 0) <= 30
    assert (len(shop.requests), given.run_id in shop.listener.begun) == (5, False)
    assert (await shop.run(f"{other}/status/200")).verdict is Verdict.OK


async def test_a_namespace_whose_tasks_fail_stops_no_task_of_another(shop: Shop) -> None:
    """Both call one host: the tasks of the one are given back, those of the other are sent."""
    base = await shop.serve()
    for _ in range(5):
        given = shop.launch(f"{base}/status/500", changes={"namespace": "a"})
        assert (await shop.listener.ending_of(given)).reason == "http_status"
    endings = {
        name: await shop.listener.ending_of(shop.launch(f"{base}/status/200", changes={"namespace": name}))
        for name in ("a", "b")
    }
    assert {name: ending.verdict for name, ending in endings.items()} == {"a": Verdict.UNOFFERED, "b": Verdict.OK}


@pytest.mark.parametrize(("status", "expect"), [(429, ["2xx"]), (404, ["2xx"]), (503, [503])])
async def test_an_answer_that_is_no_failure_of_the_host_opens_nothing(
    shop: Shop, status: int, expect: list[int | str]
) -> None:
    """429 says itself when to come again, other 4xx are about the request, and what is expected is no failure."""
    base = await shop.serve()
    for _ in range(6):
        await shop.run(f"{base}/status/{status}", expect=expect)
    assert (await shop.run(f"{base}/status/200")).verdict is Verdict.OK


async def test_no_answer_and_none_in_time_are_failures_of_the_host(broken: Shop) -> None:
    """Nobody listens, and nobody answers: the next task is a probe, and the one beside it is given back."""
    base = await broken.serve()
    for _ in range(2):
        ending = await broken.listener.ending_of(broken.launch(f"{base}/wait", changes={"timeout_seconds": 0.05}))
        assert ending.reason == "timeout"
    await _probes_alone(broken, base)
    nobody = "http://127.0.0.1:1"
    for _ in range(2):
        assert (await broken.run(f"{nobody}/")).reason == "http_error"
    probe, beside = broken.launch(f"{nobody}/"), broken.launch(f"{nobody}/")
    assert (await broken.listener.ending_of(beside)).reason == "circuit_open"
    assert (await broken.listener.ending_of(probe)).reason == "http_error"


async def _probes_alone(broken: Shop, base: str) -> None:
    """A probe, which ends well; what came beside it was given back, what comes after it is sent."""
    probe = broken.launch(f"{base}/wait")
    beside = await broken.run(f"{base}/status/200")
    assert (beside.verdict, beside.retry_after_seconds) == (Verdict.UNOFFERED, 7.0)
    broken.door.set()
    assert (await broken.listener.ending_of(probe)).verdict is Verdict.OK
    assert (await broken.run(f"{base}/status/200")).verdict is Verdict.OK


async def test_a_probe_that_is_cancelled_makes_room_for_the_next(broken: Shop) -> None:
    """It told nothing of the host."""
    base = await broken.serve()
    for _ in range(2):
        await broken.run(f"{base}/status/500")
    cancelled = broken.launch(f"{base}/wait")
    await broken.listener.until_begun(cancelled)
    broken.runner.stop(cancelled.run_id, grace_seconds=0.0)
    assert (await broken.listener.ending_of(cancelled)).verdict is Verdict.CANCELLED
    await _probes_alone(broken, base)
