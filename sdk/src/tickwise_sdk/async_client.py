"""The asynchronous client of a Tickwise server: as `client.py`, with `await`.

async with AsyncClient("http://127.0.0.1:8470", key) as tickwise:
    job = await tickwise.create_job({"name": "hello", "schedule_type": "IMMEDIATE", "task": {...}})
    async for run in tickwise.list_job_runs(job["job_id"]):
        print(run["status"])
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tickwise_sdk.async_calls import AsyncCalls
from tickwise_sdk.exchange import (
    Answer,
    Exchange,
    Key,
    Request,
    ServerAddress,
    ServerTrust,
    check,
    statuses_for_now,
    unreachable,
)
from tickwise_sdk.http_library import httpx2
from tickwise_sdk.surroundings import find_server

if TYPE_CHECKING:
    from typing_extensions import Self


class AsyncClient(AsyncCalls):
    """One server, one key, for one event loop."""

    _waits_to_connect = True
    """A server that refuses connections is waited for: it may restart."""

    def __init__(
        self,
        url: str,
        key: Key,
        *,
        namespace: str | None = None,
        timeout_seconds: float = 30.0,
        patience_seconds: float = 10.0,
        trust: ServerTrust | None = None,
    ) -> None:
        """The arguments are those of `Client`."""
        self._server = ServerAddress(
            url,
            key,
            namespace=namespace,
            timeout_seconds=timeout_seconds,
            patience_seconds=patience_seconds,
            trust=trust,
            waits_to_connect=self._waits_to_connect,
        )
        self.url = self._server.url
        self.namespace = namespace
        self._http = httpx2.AsyncClient(**self._server.http_options)

    @classmethod
    def from_environment(cls, *, timeout_seconds: float = 30.0, patience_seconds: float = 10.0) -> Self:
        """As `Client.from_environment`."""
        found = find_server()
        return cls(
            found.url,
            found.key,
            namespace=found.namespace,
            timeout_seconds=timeout_seconds,
            patience_seconds=patience_seconds,
            trust=found.trust,
        )

    @property
    def patience_seconds(self) -> float:
        """The time for which a server that is away is waited for."""
        return self._server.patience_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back the connections."""
        await self._http.aclose()

    # ------------------------------------------------------------------------------------------ the frame

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        until_there: bool = True,
    ) -> Answer:
        """As `Client.request`."""
        for_now = statuses_for_now(method, until_there=until_there)
        return self._server.read(await self._exchange(method, path, Request(query, body, headers, for_now)))

    async def request_bytes(self, path: str, *, query: Mapping[str, Any] | None = None) -> bytes:
        """The content of an answer that is not JSON: a log, a file, a script."""
        return (await self._exchange("GET", path, Request(query, headers={"Accept": "*/*"}))).content

    async def _exchange(self, method: str, path: str, request: Request) -> httpx2.Response:
        exchange = Exchange(self._server, method, self._server.address(path), request)
        while True:
            try:
                response = await self._http.request(**exchange.sent)
            except httpx2.HTTPError as error:
                exchange.failed(error)
            else:
                if exchange.is_answered(response):
                    return response
            await asyncio.sleep(exchange.pause_seconds())

    async def pages(self, path: str, query: Mapping[str, Any] | None = None) -> AsyncIterator[list[Any]]:
        """As `Client.pages`."""
        answer = await self.request("GET", path, query=query)
        yield answer.body
        while answer.next_path:
            answer = await self.request("GET", answer.next_path)
            yield answer.body

    async def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """As `Client.stream`. Close it if you leave it before its end: `contextlib.aclosing`."""
        try:
            async with self._http.stream(**self._server.stream(path, query, headers)) as response:
                if not response.is_success:
                    await response.aread()
                    check(response)
                async for part in response.aiter_bytes():
                    yield part
        except httpx2.HTTPError as error:
            raise unreachable(self.url, error) from error

    async def is_ready(self) -> bool:
        """Check whether the server is up and can serve. Never raises, also not for a server that is away."""
        try:
            answer = await self._http.get(f"{self.url}/readyz", extensions=self._server.extensions)
        except httpx2.HTTPError:
            return False
        return answer.status_code == 200
