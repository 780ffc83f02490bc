"""A process of the API without pages says at `/` where to go, and hands on all else."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import httpx2
import pytest

from tickwise.wiring.api_port import WithoutPages


async def api(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
    """Answers with the path."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def asked(method: str, path: str, public_url: str | None = None) -> httpx2.Response:
    """The answer to a request."""
    transport = httpx2.ASGITransport(app=WithoutPages(api, public_url))
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
        return await client.request(method, path)


async def test_a_browser_is_told_where_to_go() -> None:
    """Without a key: nothing is said that the API keeps to itself. It is no success, for programs."""
    answer = await asked("GET", "/")
    assert (404, "text/plain; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    assert "nosniff" == answer.headers["x-content-type-options"]
    for words in ("no pages", "tickwise api --serve web", "/api/v1", "/openapi.json", "/readyz"):
        assert words in answer.text
    assert "https://tickwise.example.com" in (await asked("GET", "/", "https://tickwise.example.com")).text
    head = await asked("HEAD", "/")
    assert (404, b"", str(len(answer.content))) == (head.status_code, head.content, head.headers["content-length"])


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/v1/jobs"), ("POST", "/"), ("GET", "/index.html")])
async def test_all_else_is_for_the_api(method: str, path: str) -> None:
    """It has its own answers, also to what it does not serve."""
    answer = await asked(method, path)
    assert (200, path) == (answer.status_code, answer.text)
