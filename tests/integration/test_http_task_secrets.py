"""Secrets in http tasks: in headers, parameters, bodies and proofs; they go to the task's own host alone."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
import pytest_asyncio
from standardwebhooks.webhooks import Webhook

from tests.support.http_calls import Caller, calling, raw_server, replies
from tickwise.domain.errors import Invalid
from tickwise.domain.notices.channels import signing_secret
from tickwise.ports.runner import Verdict
from tickwise.testing.contracts.runner import log_of

VALUE = 'canary "with" {{ payload.x }} \\ and & = ü'
KEY = signing_secret(b"c" * 32)
SECRETS = {
    "secret:text": VALUE.encode(),
    "secret:token": b"canary-token",
    "secret:vault:app/db#key": b"canary-of-vault",
    "secret:key": KEY.encode(),
    "secret:lines": b"canary\nX-Injected: 1",
    "secret:bytes": b"canary\xff\xfe",
}


@pytest_asyncio.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with calling(tmp_path) as made:
        yield made


WITH: dict[str, Any] = {"secrets": SECRETS}


async def test_a_header_holds_a_secret_whole_or_in_part(caller: Caller) -> None:
    """Of each provider."""
    async with raw_server() as server:
        headers = {
            "X-Whole": "secret:token",
            "Authorization": "Bearer {{ secret.token }}",
            "X-Two": '{{ secret."vault:app/db#key" }}-{{ secret.token }}',
            "X-Vault": "secret:vault:app/db#key",
            "X-Plain": "no secret:token here",
        }
        ending = await caller.run(server.url, {}, WITH, headers=headers)
    assert ending.verdict is Verdict.OK, ending
    (request,) = server.requests
    assert "canary-token" == request.header("X-Whole")
    assert "Bearer canary-token" == request.header("Authorization")
    assert "canary-of-vault-canary-token" == request.header("X-Two")
    assert "canary-of-vault" == request.header("X-Vault")
    assert "no secret:token here" == request.header("X-Plain")


async def test_a_body_a_form_and_a_query_escape_the_value_for_their_place(caller: Caller) -> None:
    """A value is never read as a text of the task, so its braces are braces."""
    async with raw_server() as server:
        body = {"whole": "secret:text", "part": "<{{ secret.text }}>", "list": ["secret:token"]}
        await caller.run(server.url, {"x": 1}, WITH, method="POST", body=body)
        await caller.run(server.url, {}, WITH, method="POST", body=body | {"part": "-"}, templates=False)
        await caller.run(server.url, {}, WITH, method="POST", form={"a": "secret:text", "b": "secret:token"})
        await caller.run(f"{server.url}/p", {}, WITH, query={"key": "secret:text"})
        await caller.run(server.url, {}, WITH, method="POST", body="secret:text")
    one, two, form, query, text = server.requests
    assert {"whole": VALUE, "part": f"<{VALUE}>", "list": ["canary-token"]} == json.loads(one.body)
    assert {"whole": VALUE, "part": "-", "list": ["canary-token"]} == json.loads(two.body)
    assert {"a": [VALUE], "b": ["canary-token"]} == parse_qs(form.body.decode())
    assert [VALUE] == parse_qs(query.line.split()[1].partition("?")[2])["key"]
    assert VALUE.encode() == text.body


async def test_signatures_and_sign_in_take_references(caller: Caller) -> None:
    """The key signs, and the client's secret goes to the address of tokens alone."""
    token = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    content = b'{"access_token": "given", "token_type": "Bearer", "expires_in": 60}'
    async with raw_server() as server, raw_server(replies(token % (len(content), content))) as tokens:
        task: dict[str, Any] = {
            "method": "POST",
            "body": {"a": 1},
            "sign": {"secrets": ["secret:key"]},
            "oauth": {"token_url": f"{tokens.url}/t", "client_id": "me", "client_secret": "secret:token"},
        }
        ending = await caller.run(server.url, {}, WITH, **task)
    assert ending.verdict is Verdict.OK, ending
    (request,), (asked,) = server.requests, tokens.requests
    headers = {name.lower(): value for name, value in request.headers}
    assert {"a": 1} == Webhook(KEY).verify(request.body, headers)
    assert "Bearer given" == request.header("Authorization")
    assert "Basic " + base64.b64encode(b"me:canary-token").decode() == asked.header("Authorization")
    assert not any("canary" in value for _, value in request.headers)


async def test_a_redirect_to_another_origin_takes_no_secret_along(caller: Caller) -> None:
    """It gets a bare request, as with all credentials."""
    async with raw_server() as other:
        moved = f"HTTP/1.1 302 Found\r\nLocation: {other.url}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with raw_server(replies(moved)) as server:
            headers = {"Authorization": "Bearer {{ secret.token }}", "X-Key": "secret:token"}
            ending = await caller.run(server.url, {}, WITH, headers=headers)
    assert ending.verdict is Verdict.OK, ending
    (request,) = other.requests
    assert not any("canary" in value for _, value in request.headers)
    assert b"canary" not in request.body


async def test_an_answer_that_repeats_a_secret_is_kept_masked(caller: Caller) -> None:
    """As output, as result, and in the error of a status that was not expected."""
    for status, verdict in (("200 OK", Verdict.OK), ("500 No", Verdict.FAILED), ("401 No", Verdict.INVALID)):
        content = json.dumps({"seen": f"Bearer canary-token {quote(VALUE, safe='')}", "text": VALUE}).encode()
        answer = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        )
        async with raw_server(replies(answer + content)) as server:
            given = caller.launch(server.url, {}, WITH, headers={"X-Key": "secret:token"})
            ending = await caller.listener.ending_of(given)
        assert verdict is ending.verdict
        for text in (ending.error or "", ending.result or "", await log_of(caller.blobs, given)):
            assert "canary" not in text
        assert "***" in (ending.error or ending.result or "")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"headers": {"X-Key": "secret:lines"}}, "X-Key"),
        ({"headers": {"X-Key": "{{ secret.bytes }}"}}, "secret:bytes"),
        ({"method": "POST", "body": {"a": "secret:bytes"}}, "secret:bytes"),
        ({"sign": {"secrets": ["secret:token"]}}, "secret:token is no signing secret"),
        ({"oauth": {"token_url": "http://127.0.0.1:1/", "client_id": "a", "client_secret": "secret:lines"}}, "secret"),
    ],
)
async def test_a_value_that_its_place_cannot_hold_ends_the_attempt(
    caller: Caller, fields: dict[str, Any], words: str
) -> None:
    """Nothing is sent; the error names the reference and shows nothing of the value."""
    async with raw_server() as server:
        ending = await caller.run(server.url, {}, WITH, **fields)
    assert (Verdict.INVALID, "template_error") == (ending.verdict, ending.reason), ending
    assert ending.error is not None
    assert words in ending.error
    assert "canary" not in ending.error
    assert [] == server.requests


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"url": "https://example.com/{{ secret.token }}"}, "/url"),
        ({"headers": {"X-A": "{{ secret }}"}}, "/headers/X-A"),
        ({"headers": {"X-A": '{{ secret.a | default("x") }}'}}, "/headers/X-A"),
        ({"headers": {"X-A": "secret:not a name"}}, "/headers/X-A"),
        ({"headers": {"X-A": "secret-file:token"}}, "/headers/X-A"),
        ({"headers": {"Host": "secret:token"}}, "/headers/Host"),
        ({"method": "POST", "body": {"a": ["secret:-"]}}, "/body/a/0"),
        ({"method": "POST", "form": {"a": "secret-file:token"}}, "/form/a"),
        ({"query": {"a": "secret:?"}}, "/query/a"),
        ({"sign": {"secrets": ["secret:-"]}}, "/sign/secrets/0"),
    ],
)
def test_a_reference_that_cannot_be_meant_is_refused_with_its_place(fields: dict[str, Any], pointer: str) -> None:
    """When the task is stored."""
    from tickwise.adapters.runner.kinds import HttpKind

    with pytest.raises(Invalid) as refused:
        HttpKind().check({"kind": "http", "url": "https://example.com/", **fields})
    assert pointer == refused.value.pointer
