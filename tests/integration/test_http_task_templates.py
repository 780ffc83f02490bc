"""Values of a run in http tasks, as a server gets them: none can change what the author of the task wrote."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
import pytest_asyncio

from tests.support.http_calls import Caller, RawServer, calling, raw_server
from tickwise.ports.runner import Verdict

HOSTILE = [
    "plain", "a b", "a/b", "../admin", "..%2fadmin", "%2e%2e%2fadmin", "a?x=1", "a#x", "a&admin=true", "a=b", "a;b=c",
    "a%00b", "a\x00b", "a\r\nX-Evil: 1", "a\r\n\r\nGET /admin HTTP/1.1\r\nHost: x", "a\nb", "a\tb", "a\x7fb", "a\x85b",
    "a\u2028b", '"', '","admin":true,"x":"', "\\", "\\u0022", "</script>", "${7*7}", "{{ run.id }}", "{{ payload.x }}",
    "{% raw %}", "'", "' OR 1=1 --", "@evil.example", "//evil.example/", "\\\\evil.example", "http://evil.example/",
    "+", "a+b", "%", "%zz", "%25", "é", "日本", "🦆", "\ufeff", "\u202e", ".", "..", "...", "", " ", "a,b", "*", "~",
]  # fmt: skip


@pytest_asyncio.fixture
async def server() -> AsyncIterator[RawServer]:
    async with raw_server() as made:
        yield made


@pytest_asyncio.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with calling(tmp_path) as made:
        yield made


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_the_path_is_one_part_of_it(server: RawServer, caller: Caller, value: str) -> None:
    """The server finds it where it was written, whole; what would be another path is not sent."""
    ending = await caller.run(f"{server.url}/a/{{{{ payload.x }}}}/c?k=v", {"x": value})
    if value in ("", ".", ".."):
        assert (Verdict.INVALID, "template_error") == (ending.verdict, ending.reason)
        assert [] == server.requests
        return
    assert Verdict.OK is ending.verdict, ending
    (request,) = server.requests
    method, target, version = request.line.split(" ")
    assert ("GET", "HTTP/1.1") == (method, version)
    path, _, query = target.partition("?")
    assert ["", "a", value, "c"] == [unquote(part) for part in path.split("/")]
    assert "k=v" == query


@pytest.mark.parametrize("parts", [(".", "."), ("", "."), ("..", ";x")])
async def test_two_values_make_no_step_up(server: RawServer, caller: Caller, parts: tuple[str, str]) -> None:
    """Nor does one beside a sign that the author wrote."""
    ending = await caller.run(
        f"{server.url}/a/{{{{ payload.x }}}}{{{{ payload.y }}}}/c", {"x": parts[0], "y": parts[1]}
    )
    assert "template_error" == ending.reason
    assert "template_error" == (await caller.run(f"{server.url}/a/{{{{ payload.x }}}};v=1/c", {"x": ".."})).reason
    assert [] == server.requests


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_the_query_is_one_value_of_it(server: RawServer, caller: Caller, value: str) -> None:
    """In the address and as a parameter."""
    ending = await caller.run(
        f"{server.url}/q?a={{{{ payload.x }}}}&b=2",
        {"x": value},
        query={"c": "{{ payload.x }}", "d": "x{{ payload.x }}y"},
    )
    assert Verdict.OK is ending.verdict, ending
    path, _, query = server.requests[0].line.split(" ")[1].partition("?")
    assert "/q" == path
    assert [("a", value), ("b", "2"), ("c", value), ("d", f"x{value}y")] == parse_qsl(query, keep_blank_values=True)


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_a_header_is_in_that_header(server: RawServer, caller: Caller, value: str) -> None:
    """As UTF-8; a line break or a control character is refused before anything is sent."""
    ending = await caller.run(f"{server.url}/", {"x": value}, headers={"X-Value": "<{{ payload.x }}>"})
    if any(character < " " or "\x7f" <= character <= "\x9f" or character in "\u2028\u2029" for character in value):
        assert (Verdict.INVALID, "template_error") == (ending.verdict, ending.reason)
        assert [] == server.requests
        return
    assert Verdict.OK is ending.verdict, ending
    (request,) = server.requests
    assert f"<{value}>" == request.header("X-Value").encode("latin-1").decode()
    assert not request.has("X-Evil")


@pytest.mark.parametrize("value", ["a; admin=1", "a,b", 'a"b', "a b", "a\\b"])
async def test_a_value_in_a_cookie_makes_no_second_cookie(server: RawServer, caller: Caller, value: str) -> None:
    """The signs that part cookies are refused."""
    task: dict[str, Any] = {"headers": {"Cookie": "id={{ payload.x }}; theme=dark"}}
    assert "template_error" == (await caller.run(f"{server.url}/", {"x": value}, **task)).reason
    await caller.run(f"{server.url}/", {"x": "abc"}, **task)
    assert ["id=abc; theme=dark"] == [request.header("Cookie") for request in server.requests]


@pytest.mark.parametrize("value", [*HOSTILE, 7, 1.5, True, None, [1, {"a": "b"}], {"admin": True}])
async def test_a_value_in_a_json_body_is_a_json_value(server: RawServer, caller: Caller, value: Any) -> None:
    """It keeps its type; in a longer text it is a part of that text."""
    body = {"value": "{{ payload.x }}", "deep": [{"again": "{{ payload.x }}"}], "plain": 1, "run": "run {{ run.id }}"}
    given = caller.launch(f"{server.url}/", {"x": value}, method="POST", body=body)
    assert Verdict.OK is (await caller.listener.ending_of(given)).verdict
    (request,) = server.requests
    expected = {"value": value, "deep": [{"again": value}], "plain": 1, "run": f"run {given.run_id}"}
    assert expected == json.loads(request.body)
    assert "application/json" == request.header("Content-Type")


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_a_form_is_one_field(server: RawServer, caller: Caller, value: str) -> None:
    """Urlencoded."""
    form = {"a": "{{ payload.x }}", "b": ["1", "<{{ payload.x }}>"], "c": 3}
    assert Verdict.OK is (await caller.run(f"{server.url}/", {"x": value}, method="POST", form=form)).verdict
    (request,) = server.requests
    assert "application/x-www-form-urlencoded" == request.header("Content-Type")
    found = parse_qsl(request.body.decode("ascii"), keep_blank_values=True)
    assert [("a", value), ("b", "1"), ("b", f"<{value}>"), ("c", "3")] == found


async def test_every_fact_of_the_run_can_be_sent(server: RawServer, caller: Caller) -> None:
    """The same that the headers tell."""
    names = ("id", "due", "nominal", "attempt", "idempotency_key", "fencing_token", "job_id", "namespace")
    body = {name: f"{{{{ run.{name} }}}}" for name in names}
    given = caller.launch(f"{server.url}/", None, {"attempt": 3, "token": 12}, method="PUT", body=body)
    await caller.listener.ending_of(given)
    said = json.loads(server.requests[0].body)
    assert (str(given.run_id), 3, 12, "default") == (
        said["id"],
        said["attempt"],
        said["fencing_token"],
        said["namespace"],
    )
    assert said["due"] == server.requests[0].header("Tickwise-Due-Time")
    assert said["idempotency_key"] == server.requests[0].header("Tickwise-Idempotency-Key")


async def test_a_missing_value_ends_the_run_with_words(server: RawServer, caller: Caller) -> None:
    """Nothing is sent, nothing is retried, and no value of the payload is in the error; a default is sent."""
    ending = await caller.run(f"{server.url}/{{{{ payload.order.id }}}}", {"order": {"name": "s3cret"}})
    assert (Verdict.INVALID, "template_error") == (ending.verdict, ending.reason)
    assert "`payload.order` has no field `id`" in (ending.error or "")
    assert '{{ payload.order.id | default("…") }}' in (ending.error or "")
    assert "s3cret" not in (ending.error or "")
    assert [] == server.requests
    await caller.run(f'{server.url}/{{{{ payload.order.id | default("none") }}}}', {})
    assert "/none" == server.requests[0].line.split(" ")[1]


async def test_null_leaves_a_parameter_out(server: RawServer, caller: Caller) -> None:
    """Also as a default."""
    query = {"a": "{{ payload.a }}", "b": "{{ payload.b | default(null) }}", "c": "{{ payload.c }}"}
    await caller.run(f"{server.url}/?x=1#here", {"a": None, "c": False}, query=query)
    assert "/?x=1&c=false" == server.requests[0].line.split(" ")[1]


async def test_a_plain_text_takes_values_as_they_are(server: RawServer, caller: Caller) -> None:
    """It has no signs that mean anything."""
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    body = "Order {{ payload.id }} is due."
    await caller.run(f"{server.url}/", {"id": "<é>"}, method="POST", body=body, headers=headers)
    assert "Order <é> is due." == server.requests[0].body.decode()


async def test_a_task_from_before_templates_sends_its_braces(server: RawServer, caller: Caller) -> None:
    """It says nothing of templates, so they mean nothing."""
    from tickwise.testing.contracts.runner import assignment

    task = {
        "kind": "http", "method": "POST", "url": f"{server.url}/a", "headers": {"X-A": "{{ run.id }}"},
        "body": {"a": "{{ payload.x }}"}, "expect": ["2xx"],
    }  # fmt: skip
    given = assignment(task, {"x": 1})
    caller.runner.launch([given])
    assert Verdict.OK is (await caller.listener.ending_of(given)).verdict
    assert "{{ run.id }}" == server.requests[0].header("X-A")
    assert {"a": "{{ payload.x }}"} == json.loads(server.requests[0].body)
