"""Bad input gets one shape of answer that says what is wrong, where, and what to do; never a 500."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import httpx2
import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.overriding import override
from tickwise.adapters.clock import SystemClock, VirtualClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.api.endpoint import Endpoint
from tickwise.api.resources import RESOURCES
from tickwise.api.role_health import create_health_app
from tickwise.domain.errors import InDoubt, StoreUnavailable, Unavailable
from tickwise.ports.store import StoreStats
from tickwise.roles.shared.health import HealthCheck, HealthSources


@pytest_asyncio.fixture(scope="module")
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


def problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    """The problem in an answer, its shape checked."""
    assert status == answer.status_code, answer.text
    assert "application/problem+json" == answer.headers["content-type"]
    found: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "code", "detail", "request_id"} <= found.keys()
    assert status == found["status"]
    assert found["request_id"] == answer.headers["x-request-id"]
    assert found["type"] == f"urn:tickwise:problem:{found['code']}"
    return found


async def post(here: World, body: Any, path: str = "/jobs", **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await here.client.post(API + path, content=content, headers={"Content-Type": "application/json", **headers})


WHEN = {"name": "a", "schedule_type": "IMMEDIATE"}


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({**WHEN, "nmae": "x"}, "/nmae", "did you mean name"),
        ({**WHEN, "retry": {"bse_seconds": 1}}, "/retry/bse_seconds", "no field"),
        ({**WHEN, "max_retries": "two"}, "/max_retries", "a whole number"),
        ({**WHEN, "max_retries": 1.5}, "/max_retries", "a whole number"),
        ({**WHEN, "max_retries": -1}, "/max_retries", "at least 0"),
        ({**WHEN, "labels": {"a": 1}}, "/labels/a", "a text"),
        ({**WHEN, "requires": ["ok", 1]}, "/requires/1", "a text"),
        ({**WHEN, "requires": ["task:shell"]}, "/requires/0", "write a"),
        ({**WHEN, "name": ""}, "/name", "character"),
        ({**WHEN, "name": "x" * 201}, "/name", "character"),
        ({"schedule_type": "IMMEDIATE"}, "/name", "needs a name"),
        ({**WHEN, "name": "a\0b"}, "/name", "U+0000"),
        ({**WHEN, "key": "a\0b"}, "/key", "U+0000"),
        ({**WHEN, "labels": {"a": "\0"}}, "/labels/a", "U+0000"),
        ({**WHEN, "priority": 10}, "/priority", "at most 9"),
        ({**WHEN, "timeout_seconds": 0}, "/timeout_seconds", "greater than 0"),
        ({**WHEN, "isolation": "container"}, "/isolation", "process"),
        ({**WHEN, "retry": {"jitter": 2}}, "/retry/jitter", "between 0 and 1"),
        ({**WHEN, "limits": {"output_bytes": 0}}, "/limits/output_bytes", "between"),
        ({**WHEN, "payload": 1, "params": 2}, "/params", "short for"),
        ({**WHEN, "job_id": "no"}, "/job_id", "uuid"),
        ({"name": "a"}, "/schedule_type", "say when"),
        ({"name": "a", "cron": "0 0 * * *", "every": "5m"}, "/every", "contradict"),
        ({"name": "a", "cron": "0 0 * * *", "cron_expression": "0 0 * * *"}, "/cron", "short for"),
        ({"name": "a", "schedule_type": "CRON", "every": "5m"}, "/every", "CRON"),
        ({"name": "a", "schedule_type": "IMMEDIATE", "cron": "0 0 * * *"}, "/cron", "IMMEDIATE"),
        ({"name": "a", "schedule_type": "FUTURE"}, "/schedule_time", "needs schedule_time"),
        ({"name": "a", "at": "2020-01-01T00:00:00Z"}, "/at", "in the past"),
        ({"name": "a", "schedule_time": "2020-01-01T00:00:00Z"}, "/schedule_time", "in the past"),
        ({"name": "a", "schedule_time": "2030-01-01T00:00:00"}, "/schedule_time", "timezone"),
        ({"name": "a", "schedule_time": "tomorrow"}, "/schedule_time", "RFC 3339"),
        ({"name": "a", "cron": "0 0 * * *", "timezone": "Europe/Berln"}, "/timezone", "Europe/Berlin"),
        ({"name": "a", "every": "5 minutes"}, "/every", "such as 30s"),
        ({"name": "a", "interval_seconds": 0.5}, "/interval_seconds", "at least 1"),
        ({**WHEN, "task": {"kind": "shel", "command": "x"}}, "/task/kind", "did you mean shell"),
        ({**WHEN, "task": {"kind": "shell"}}, "/task/command", ""),
        ({**WHEN, "task": {"kind": "shell", "command": "x", "cmd": 1}}, "/task/cmd", ""),
        ({**WHEN, "task": "date"}, "/task", "object"),
        ({**WHEN, "task": {"command": "x"}}, "/task/kind", "kind"),
        ({**WHEN, "task": {"kind": "python", "source": "print("}}, "/task/source", "compile"),
        ({**WHEN, "taskId": "none"}, "/taskId", "no task 'none' is stored"),
        ({**WHEN, "taskId": "none", "task": {"kind": "shell", "command": "x"}}, "/taskId", "contradict"),
        ({**WHEN, "notify": ["pager", "mail"]}, "/notify/0", "there is no channel 'pager', 'mail'; make one first"),
        ([], "", "an object"),
    ],
)
async def test_a_wrong_field_is_pointed_at(here: World, body: Any, pointer: str, says: str) -> None:
    """422 with an RFC 6901 pointer to the field as it was written, and a sentence."""
    found = problem(await post(here, body), 422)
    assert pointer == found["pointer"]
    assert says.lower() in found["detail"].lower()


async def test_a_typo_in_a_cron_line_is_pointed_at_by_its_position(here: World) -> None:
    """The position is that of the field in the line."""
    found = problem(await post(here, {"name": "a", "cron_expression": "0 0 * * bla"}), 422)
    assert ("/cron_expression", "cron_invalid", 8) == (found["pointer"], found["code"], found["position"])


@pytest.mark.parametrize(
    ("body", "position"),
    [
        (b'{"name" "a"}', 8),
        (b'{\n  "name": tomorrow\n}', 16),
        (b"", 0),
        (b'{"name": "a"', 12),
        (b'{"interval_seconds": NaN}', 21),
        (b'{"payload": Infinity}', 12),
        (b'{"name": "\\ud800"}', 18),
    ],
)
async def test_malformed_json_is_400_with_its_position(here: World, body: bytes, position: int) -> None:
    """What is no JSON is told from JSON that is wrong, and where it stops being JSON is said."""
    found = problem(await post(here, body), 400)
    assert ("malformed", position) == (found["code"], found["position"])


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": "\xff"}',
        b'{"name":"a","schedule_type":"IMMEDIATE","payload":"\xff"}',
        b'{"name":"a","schedule_type":"IMMEDIATE","payload":1e400}',
        b'{"name":"a","schedule_type":"IMMEDIATE","payload":' + b"9" * 5_000 + b"}",
        b'{"name":"a","schedule_type":"IMMEDIATE","payload":"\\ud800"}',
        b'{"name":"a","schedule_type":"IMMEDIATE","max_retries":' + b"9" * 5_000 + b"}",
        b'{"payload":' + b"[" * 100_000,
        b'{"name":"a","schedule_type":"IMMEDIATE","payload":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"name":"a","schedule_type":"IMMEDIATE","task":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"name":"a","interval_seconds":1e400}',
        b'{"name":"a","schedule_time":"9999-12-31T23:59:59-23:59"}',
        b'{"name":"a","schedule_time":"0001-01-01T00:00:00+23:59"}',
        b"\xef\xbb\xbf{}",
        b"null",
    ],
)
async def test_hostile_bodies_are_refused_cleanly(here: World, body: bytes) -> None:
    """Broken text, endless numbers, bottomless nesting, the ends of time: 400 or 422, in our shape."""
    answer = await post(here, body)
    assert answer.status_code in (400, 422), answer.text
    problem(answer, answer.status_code)


async def test_a_job_of_two_megabytes_is_413(here: World) -> None:
    """The limit of one job is 1 MB."""
    found = problem(await post(here, {**WHEN, "payload": "x" * 2_000_000}), 413)
    assert "too_large" == found["code"]


async def test_the_limit_holds_while_the_body_still_arrives(here: World) -> None:
    """A body of unknown length is cut off as soon as it is over the limit, not after it was kept whole."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 65_536
            yield b"x" * 65_536

    transport_sends: list[Any] = []
    parts = endless()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": await anext(parts), "more_body": True}

    async def send(message: Any) -> None:
        transport_sends.append(message)

    headers = [(b"authorization", here.client.headers["authorization"].encode())]
    scope = {"type": "http", "method": "POST", "path": f"{API}/jobs", "query_string": b"", "headers": headers}
    await here.app(scope, receive, send)
    assert 413 == transport_sends[0]["status"]
    assert sent <= (1 << 20) + 2 * 65_536


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_other_media_types_are_415(here: World, media: str) -> None:
    """The answer names the type that is read."""
    found = problem(await post(here, WHEN, **{"Content-Type": media}), 415)
    assert "application/json" in found["detail"]


async def test_a_compressed_body_is_415(here: World) -> None:
    """A small body that becomes a huge one is not read at all."""
    problem(await post(here, WHEN, **{"Content-Encoding": "gzip"}), 415)


WITHOUT_BODY = [each for each in RESOURCES if each.method == "POST" and each.body is None]


@pytest.mark.parametrize("endpoint", WITHOUT_BODY, ids=lambda each: each.name)
async def test_a_route_that_takes_no_body_takes_an_empty_object(here: World, endpoint: Endpoint) -> None:
    """Many HTTP clients send one with every POST. What is in it would be ignored, so that is refused."""
    path = re.sub(r"\{.*?\}", "018f0000-0000-8000-8000-000000000001", endpoint.path)
    media = {"Content-Type": "application/json"}
    nothing = await here.client.post(path)
    assert nothing.status_code in (200, 201, 404)
    for content in (b"{}", b"", b" {\n} "):
        assert nothing.status_code == (await here.client.post(path, content=content, headers=media)).status_code
    found = problem(await here.client.post(path, json={"force": True}), 422)
    assert ("/force", "field_unknown") == (found["pointer"], found["code"])
    assert "leave it out" in found["detail"]
    for content, status in ((b"[1]", 422), (b"null", 422), (b"{", 400), (b"\xff", 400), (b"[" * 100_000, 422)):
        problem(await here.client.post(path, content=content, headers=media), status)
    problem(await here.client.post(path, content=b"{}", headers={"Content-Type": "text/plain"}), 415)


async def test_an_empty_object_and_no_body_are_the_same_request(here: World) -> None:
    """Also under one Idempotency-Key: a client that is changed to send one meanwhile gets the same answer."""
    await post(here, WHEN)  # which makes the queue known
    path, headers = f"{API}/queues/default/resume", {"Idempotency-Key": "once"}
    first = await here.client.post(path, headers=headers)
    second = await here.client.post(path, headers=headers, json={})
    assert (200, first.json(), "true") == (second.status_code, second.json(), second.headers["idempotency-replayed"])


async def test_unknown_paths_and_methods_have_the_same_shape(here: World) -> None:
    """404 and 405 come from the framework, and look like ours; 405 names every method of the path."""
    assert "route_unknown" == problem(await here.client.get("/api/v1/nothing"), 404)["code"]
    answer = await here.client.patch(f"{API}/jobs")
    problem(answer, 405)
    assert "GET, HEAD, POST" == answer.headers["allow"]
    problem(await here.client.get(f"{API}/jobs/"), 404)


@pytest.mark.parametrize("job_id", ["x", "01A1FD81", "{01a1fd81-8cdc-82e9-be4e-34f9a5bd159d}", "%00", "a" * 2_000])
async def test_an_id_that_is_none_is_404(here: World, job_id: str) -> None:
    """What cannot be an id names nothing."""
    problem(await here.client.get(f"{API}/jobs/{job_id}"), 404)


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("limit=1&limit=2", "limit"),
        ("lmit=1", "lmit"),
        ("status=null", "status"),
        ("status=NOPE", "status"),
        ("label=x", "label"),
        ("cursor=nope", "cursor"),
        ("cursor=!", "cursor"),
        ("next_run_after=12", "next_run_after"),
        ("name=%00", "name"),
        ("name=%ff", ""),
    ],
)
async def test_a_wrong_parameter_is_named(here: World, query: str, parameter: str) -> None:
    """Unknown ones are refused too: a misspelt filter that is ignored would list everything."""
    found = problem(await here.client.get(f"{API}/jobs?{query}"), 422)
    assert parameter == found["parameter"]


async def test_a_parameter_on_a_route_without_any_is_refused(here: World) -> None:
    """Not ignored."""
    problem(await here.client.get(f"{API}/executors?limit=1"), 422)


async def test_the_request_id_of_the_caller_is_kept_if_it_is_harmless(here: World) -> None:
    """It comes back in the header and in the problem; one that could forge a log line is replaced."""
    answer = await here.client.get(f"{API}/jobs/x", headers={"X-Request-Id": "trace-1"})
    assert "trace-1" == problem(answer, 404)["request_id"]
    answer = await here.client.get(f"{API}/jobs/x", headers={"X-Request-Id": "a b"})
    assert "a b" != problem(answer, 404)["request_id"]


class AwayStore(MemoryStore):
    """A store that is away when told so, and breaks in a way that nobody foresaw when told so."""

    away = False
    broken = False
    failure: Exception | None = None

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        for name in ("jobs.add", "jobs.get", "upkeep.stats"):
            override(self, name, self._ask)

    async def _ask(self, call: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        self._fail()
        return await call(*arguments, **named)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.away:
            raise StoreUnavailable("the store cannot be reached", retry_after_seconds=2.5)
        if self.broken:
            raise RuntimeError("a secret of the inside")


async def test_a_store_that_is_away_is_503_with_retry_after() -> None:
    """On the hot route, on the others, and for readiness; and all is well when it is back."""
    store = AwayStore(SystemClock())
    async with world(store=store) as here:
        store.away = True
        job_id = "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"
        for answer in (
            await post(here, WHEN),
            await here.client.get(f"{API}/jobs/{job_id}"),
            await here.client.get("/readyz"),
        ):
            assert "store_unavailable" == problem(answer, 503)["code"]
            assert "3" == answer.headers["retry-after"]
        assert 200 == (await here.client.get("/livez")).status_code
        assert 200 == (await here.client.get("/metrics")).status_code
        store.away = False
        assert 201 == (await post(here, WHEN)).status_code
        assert 200 == (await here.client.get("/readyz")).status_code


async def test_an_unforeseen_error_is_500_and_tells_nothing_of_the_inside() -> None:
    """In our shape; the details are in the log, under the request's id."""
    store = AwayStore(SystemClock())
    async with world(store=store) as here:
        store.broken = True
        for answer in (
            await post(here, WHEN),
            await here.client.get(f"{API}/jobs/01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"),
        ):
            found = problem(answer, 500)
            assert "internal" == found["code"]
            assert "secret" not in answer.text


class FrozenStore(MemoryStore):
    """A store that takes questions and answers none."""

    looks = 0

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        override(self, "upkeep.stats", self._stats)

    async def _stats(self, _call: object) -> StoreStats:
        self.looks += 1
        never: asyncio.Future[StoreStats] = asyncio.get_running_loop().create_future()
        return await never


async def test_readiness_does_not_wait_for_a_store_that_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 503 after some seconds; and all that ask meanwhile share one look at the store."""
    monkeypatch.setattr("tickwise.api.health.MAX_STATS_SECONDS", 0.01)
    store = FrozenStore(SystemClock())
    async with world(store=store) as here:
        for _ in range(3):
            answer = await here.client.get("/readyz")
            assert "store_unavailable" == problem(answer, 503)["code"]
        assert 200 == (await here.client.get("/metrics")).status_code
        assert 1 == store.looks


async def test_the_metrics_are_rendered_once_a_second_for_all_that_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering keeps the loop from everybody else, so many askers cost what one costs; a second later it is new."""
    clock = VirtualClock(1_800_000_000)
    async with world(clock=clock) as here:
        rendered = Mock(wraps=here.metrics.render)
        monkeypatch.setattr(here.metrics, "render", rendered)
        texts = {answer.text for answer in await asyncio.gather(*[here.client.get("/metrics") for _ in range(30)])}
        texts.add((await here.client.get("/metrics")).text)
        assert (1, 1) == (rendered.call_count, len(texts))
        await clock.advance(1.0)
        again = await here.client.get("/metrics")
        assert (2, False) == (rendered.call_count, again.text in texts)


class LateStore(MemoryStore):
    """A store in which work waits."""

    run_seconds = timer_seconds = 0.0
    active = 0

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        override(self, "upkeep.stats", self._stats)

    async def _stats(self, _call: object) -> StoreStats:
        return StoreStats(
            queued=1, held=0, retrying=0, oldest_ready_seconds=self.run_seconds, timers=1,
            timers_late_seconds=self.timer_seconds, executors=self.active,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("run", "timer", "executors", "says"),
    [
        (59.0, 59.0, 0, None),
        (61.0, 0.0, 0, "the oldest run is late by 61 s, and no executor is active"),
        (1e6, 0.0, 1, None),
        (0.0, 61.0, 1, "the oldest timer is late by 61 s"),
    ],
)
async def test_readiness_fails_when_nobody_works_on_what_is_due(
    run: float, timer: float, executors: int, says: str | None
) -> None:
    """A minute by default; the reason is said. A run that active executors leave alone takes nothing from others."""
    store = LateStore(SystemClock())
    store.run_seconds, store.timer_seconds, store.active = run, timer, executors
    async with world(store=store) as here:
        answer = await here.client.get("/readyz", headers={"Authorization": ""})
        if says is None:
            assert 200 == answer.status_code
        else:
            assert says in problem(answer, 503)["detail"]


async def test_what_drivers_and_systems_say_stays_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """A 503 has a sentence of ours; its cause is logged under the request's id. The same on the port of a role."""
    secret = "[Errno 111] Connect call failed ('10.1.2.3', 5432)"
    store = AwayStore(SystemClock())
    async with world(store=store) as here:
        for failure in (StoreUnavailable(secret), InDoubt(secret), Unavailable(secret)):
            store.failure = failure
            answer = await here.client.get(f"{API}/jobs/01a1fd81-8cdc-82e9-be4e-34f9a5bd159d")
            assert "10.1.2.3" not in answer.text
            assert failure.code == problem(answer, 503)["code"]
            logged = capsys.readouterr().out
            assert "10.1.2.3" in logged
            assert answer.headers["x-request-id"] in logged

        async def check() -> None:
            raise StoreUnavailable(secret)

        async def stats() -> StoreStats:
            raise StoreUnavailable(secret)

        async def render() -> bytes:
            return b""

        report = HealthCheck(HealthSources(stats=stats), SystemClock()).report
        transport = httpx2.ASGITransport(app=create_health_app(check, report, render, "text/plain"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://role") as client:
            for path in ("/readyz", "/healthz"):
                answer = await client.get(path)
                assert 503 == answer.status_code
                assert "10.1.2.3" not in answer.text
