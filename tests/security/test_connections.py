"""Requests that two readers could take apart in two ways."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.security.probes import probe
from tests.security.wire import Port, port, request


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Port]:
    async with port() as made:
        yield made


@probe(1, stopped_by="400 and the end of the connection")
async def test_a_body_of_two_lengths_is_refused(served: Port) -> None:
    """Two different `Content-Length` headers, so that a proxy and the server see two requests."""
    async with await served.open() as wire:
        wire.send(request("POST", "/api/v1/jobs", "Content-Length: 2", "Content-Length: 40", body=b"{}"))
        assert 400 == (await wire.answer()).status
        assert b"" == await wire.ended()
