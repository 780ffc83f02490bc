"""The part of a client that the methods of its operations are made with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tickwise_sdk.exchange import Answer


class Frame(ABC):
    """Sends requests. Its methods are those of `Client`."""

    @abstractmethod
    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        until_there: bool = True,
    ) -> Answer: ...

    @abstractmethod
    def request_bytes(self, path: str, *, query: Mapping[str, Any] | None = None) -> bytes: ...

    @abstractmethod
    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[list[Any]]: ...

    def items(self, path: str, query: Mapping[str, Any]) -> Iterator[Any]:
        """The items of all pages of a listing."""
        for page in self.pages(path, query):
            yield from page


class AsyncFrame(ABC):
    """Sends requests. Its methods are those of `AsyncClient`."""

    @abstractmethod
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        until_there: bool = True,
    ) -> Answer: ...

    @abstractmethod
    async def request_bytes(self, path: str, *, query: Mapping[str, Any] | None = None) -> bytes: ...

    @abstractmethod
    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> AsyncIterator[list[Any]]: ...

    async def items(self, path: str, query: Mapping[str, Any]) -> AsyncIterator[Any]:
        """The items of all pages of a listing."""
        async for page in self.pages(path, query):
            for item in page:
                yield item
