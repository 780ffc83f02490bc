"""The client without a method for each operation: requests by method and path, for programs that name paths themselves.

The command line is such a program. Each of its commands is a process of its own, and the methods of all operations take
longer to load than a request takes (`calls.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

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
from tickwise_sdk.frame import Frame
from tickwise_sdk.http_library import httpx2
from tickwise_sdk.surroundings import ServerFound, find_server

if TYPE_CHECKING:
    from typing_extensions import Self


class PlainClient(Frame):
    """One server, one key. Its connections are kept open until `close`."""

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
        """`key` is an API key or an access token; a callable is asked at each request, since tokens end. `namespace` is
        the one that requests are about; None: that of the key. `trust` says whose certificate is good, and whether a
        key may travel without one; None: the machine's authorities, and a `ClearTextWarning` for a key that travels
        unencrypted. `timeout_seconds` is for each sending of a request, `patience_seconds` for waiting for a server
        that is away."""
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
        self._http = httpx2.Client(**self._server.http_options)

    @classmethod
    def from_environment(cls, *, timeout_seconds: float = 30.0, patience_seconds: float = 10.0) -> Self:
        """A client for the server of `TICKWISE_URL`, with `TICKWISE_API_KEY`, else for the `tickwise up` of this
        machine. Raises `ClientError` if there is none."""
        found: ServerFound = find_server()
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the connections."""
        self._http.close()

    # ------------------------------------------------------------------------------------------ the frame

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        until_there: bool = True,
    ) -> Answer:
        """Send one request below `/api/v1` and read the answer as JSON. `body` is sent as JSON unless it is bytes.

        A read waits for an object that is not there yet; with `until_there=False` the answer says `pending`."""
        for_now = statuses_for_now(method, until_there=until_there)
        return self._server.read(self._exchange(method, path, Request(query, body, headers, for_now)))

    def request_bytes(self, path: str, *, query: Mapping[str, Any] | None = None) -> bytes:
        """The content of an answer that is not JSON: a log, a file, a script."""
        return self._exchange("GET", path, Request(query, headers={"Accept": "*/*"})).content

    def _exchange(self, method: str, path: str, request: Request) -> httpx2.Response:
        """Send until there is an answer that is not "for now", or patience ends. Raises `ClientError`."""
        exchange = Exchange(self._server, method, self._server.address(path), request)
        while True:
            try:
                response = self._http.request(**exchange.sent)
            except httpx2.HTTPError as error:
                exchange.failed(error)
            else:
                if exchange.is_answered(response):
                    return response
            time.sleep(exchange.pause_seconds())

    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[list[Any]]:
        """Every page of a listing, following `Link`. A page of large items is shorter than the `limit` of the query."""
        answer = self.request("GET", path, query=query)
        yield answer.body
        while answer.next_path:
            answer = self.request("GET", answer.next_path)
            yield answer.body

    def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[bytes]:
        """The content of a long answer, piece by piece as it comes. It is asked for once: what broke is asked for anew
        by the caller. Raises `ClientError`."""
        try:
            with self._http.stream(**self._server.stream(path, query, headers)) as response:
                if not response.is_success:
                    response.read()
                    check(response)
                yield from response.iter_bytes()
        except httpx2.HTTPError as error:
            raise unreachable(self.url, error) from error

    def is_ready(self) -> bool:
        """Check whether the server is up and can serve. Never raises, also not for a server that is away."""
        try:
            answer = self._http.get(f"{self.url}/readyz", extensions=self._server.extensions)
        except httpx2.HTTPError:
            return False
        return answer.status_code == 200
