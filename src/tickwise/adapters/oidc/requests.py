"""Requests to an issuer: JSON in answers, with bounds on time and size, and no redirect followed.

Invariant: an issuer over https is never asked over http, wherever its own documents lead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from tickwise.adapters.outgoing.access import AddressRefused, HttpAccess
from tickwise.adapters.outgoing.exchange import NoAnswer, Request
from tickwise.domain.errors import ProviderUnavailable
from tickwise.domain.hosts import host_of

if TYPE_CHECKING:
    from tickwise.adapters.outgoing.client import HttpClient

ANSWER_BYTES_MAX: Final = 512 << 10
"""Of any answer. Key sets and ID tokens of large organisations have some 20 KB."""
CONNECTIONS: Final = 16
TIMEOUT_SECONDS: Final = 10.0

_object: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingWay:
    """The way from this process to an issuer."""

    timeout_seconds: float = TIMEOUT_SECONDS
    """Of one request, from its beginning to the end of its answer."""
    tls: SSLContext | None = None
    """None: the certificates of the system are trusted."""
    proxy: str | None = None
    """The address of a proxy; None: the issuer is reached directly."""


class IssuerAnswer(NamedTuple):
    """An answer with a JSON object."""

    status: int
    fields: Mapping[str, Any]
    date: float | None
    """The time that the server tells, seconds since the epoch."""


class IssuerRequests:
    """Sends requests. The operator names the issuer, so its address may be a private one."""

    def __init__(self, way: OutgoingWay | None = None) -> None:
        self._way = way or OutgoingWay()
        self._access = HttpAccess.of(["0.0.0.0/0", "::/0"])
        self._client: HttpClient | None = None

    async def close(self) -> None:
        """End every connection."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def get(self, url: str, *, bearer: str | None = None) -> IssuerAnswer:
        """A JSON object, of a 200. Raises `ProviderUnavailable`."""
        headers = {"Accept": "application/json"}
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        answer = await self._send("GET", url, headers, None)
        if answer.status != 200:
            raise ProviderUnavailable(f"{host_of(url)} answered {answer.status} to a question for {_path(url)}")
        return answer

    async def post(self, url: str, form: str, headers: Mapping[str, str]) -> IssuerAnswer:
        """The answer to a form, with any status below 500. Raises `ProviderUnavailable`."""
        form_headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        return await self._send("POST", url, {**form_headers, **headers}, form.encode())

    async def place(self, url: str) -> tuple[int, str | None]:
        """The status of an answer, and the address that it leads to. Raises `ProviderUnavailable`."""
        host = host_of(url)
        try:
            async with asyncio.timeout(self._way.timeout_seconds):
                request = Request(
                    "GET",
                    self._access.vet(url),
                    {"Accept": "text/html"},
                    None,
                    tls=self._way.tls,
                    proxy=self._way.proxy,
                )
                answer = await self._opened().ask(request, bytes_most=1)
        except TimeoutError:
            raise ProviderUnavailable(f"{host} did not answer within {self._way.timeout_seconds:g} s") from None
        except (NoAnswer, AddressRefused) as error:
            raise ProviderUnavailable(f"no answer of {host}: {error}") from None
        return answer.status, answer.headers.get("Location")

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> IssuerAnswer:
        host, kept = host_of(url), bytearray()

        async def take(_status: int, piece: bytes) -> None:
            kept.extend(piece)
            if len(kept) > ANSWER_BYTES_MAX:
                raise ProviderUnavailable(f"{host} answered with more than {ANSWER_BYTES_MAX >> 10} KiB")

        try:
            vetted = self._access.vet(url)
            async with asyncio.timeout(self._way.timeout_seconds):
                request = Request(method, vetted, headers, body, tls=self._way.tls, proxy=self._way.proxy)
                status, answered = await self._opened().send(request, take)
        except TimeoutError:
            raise ProviderUnavailable(f"{host} did not answer within {self._way.timeout_seconds:g} s") from None
        except (NoAnswer, AddressRefused) as error:
            raise ProviderUnavailable(f"no answer of {host}: {error}") from None
        if 300 <= status < 400:
            raise ProviderUnavailable(f"{host} answered {status}, a redirect, which is not followed")
        if status >= 500:
            raise ProviderUnavailable(f"{host} answered {status}")
        try:
            fields = _object.decode(bytes(kept))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise ProviderUnavailable(f"{host} answered {status} and no JSON object for {_path(url)}") from None
        return IssuerAnswer(status, fields, _date(answered.get("Date")))

    def _opened(self) -> HttpClient:
        if self._client is None:
            # aiohttp takes a tenth of a second to load: a process that asks no issuer does without.
            from tickwise.adapters.outgoing.client import HttpClient

            self._client = HttpClient(self._access, connections=CONNECTIONS)
        return self._client


def form_text(fields: Mapping[str, str]) -> str:
    """Fields as a query, or as the body of a form."""
    return urlencode(fields)


def _path(url: str) -> str:
    return urlsplit(url).path or "/"


def _date(text: str | None) -> float | None:
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
