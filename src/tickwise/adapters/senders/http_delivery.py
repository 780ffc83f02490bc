"""Delivers a body over HTTP: one request, at most three within one origin, in a bounded time, with a bounded answer.

    2xx                      delivered; its body is not read
    307, 308 of one origin   followed; any other redirect is told as an error, for the channel has a wrong address
    410, and `final`         refused for good
    anything else            later, no earlier than `Retry-After`

Invariant: no connection is made to an address that was not judged (`adapters.outgoing.access`).
"""

from __future__ import annotations

import asyncio
import email.utils
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

from yarl import URL

from tickwise.adapters.outgoing.access import PRIVATE, AddressRefused, HttpAccess, plain_host
from tickwise.adapters.outgoing.exchange import Answer, NoAnswer, Request, UnusableAddress
from tickwise.adapters.outgoing.lookups import Lookups
from tickwise.adapters.senders.outcomes import DELIVERED, later, refused
from tickwise.domain.hosts import host_of
from tickwise.ports.senders import DeliveryResult

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

    from tickwise.adapters.outgoing.client import HttpClient

CLIENT: Final = "tickwise.adapters.outgoing.client"
ANSWER_BYTES: Final = 64 << 10
MAX_REDIRECTS: Final = 3
CONNECTIONS: Final = 64
"""As many as tries are under way at once: none waits for a connection of a receiver that hangs."""
RETRY_AFTER_SECONDS_MAX: Final = 3_600.0
"""A receiver may ask for no longer pause than this."""
ADVICE: Final = (
    "a channel reaches such an address only if an administrator of the installation sets its `allow_private`"
)
_GONE: Final = 410
_FOLLOWED: Final = (307, 308)
_REDIRECTS: Final = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """A body to deliver."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    allow_private: bool
    secrets: Mapping[str, str]
    """For texts of errors, in which they are masked."""
    final: Collection[int] = ()
    """Statuses that say that no further try can succeed."""


class HttpDelivery:
    """The connections of the senders that use HTTP. The library is loaded by `load`, or with the first delivery."""

    def __init__(self, *, lookups: Lookups | None = None, resolver: AbstractResolver | None = None) -> None:
        """`lookups` that other senders share. `resolver` instead of the system's."""
        self._resolver = resolver
        self._lookups = lookups or Lookups()
        self._accesses = {
            False: HttpAccess(advice=ADVICE),
            True: HttpAccess(
                networks=PRIVATE, advice="not even a channel with `allow_private` reaches such an address"
            ),
        }
        self._clients: dict[bool, HttpClient] = {}
        self._is_loaded = False

    async def load(self) -> None:
        """Load the library in a thread: that takes a third of a second of a core, in which other work goes on."""
        if not self._is_loaded:
            await asyncio.to_thread(import_module, CLIENT)
            self._is_loaded = True

    async def close(self) -> None:
        """End every connection."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()
        self._lookups.close()

    async def post(self, posting: Posting, *, now: float, timeout: float) -> DeliveryResult:
        """Deliver. It raises nothing."""
        secrets = posting.secrets
        await self.load()
        try:
            async with asyncio.timeout(timeout):
                answer = await self._answer(posting)
        except TimeoutError:
            return later(f"no answer within {timeout:g} s", secrets)
        except AddressRefused as error:
            return refused(str(error), secrets)
        except UnusableAddress:
            return refused("the address cannot be used", secrets)
        except NoAnswer as error:
            return later(f"no answer: {error}", secrets)
        if 200 <= answer.status < 300:
            return DELIVERED
        said = answer.body.decode(errors="replace")
        if answer.status in _REDIRECTS:
            return later(_of_redirect(posting, answer), secrets)
        why = f"it answered {answer.status}{f': {said}' if said.strip() else ''}"
        if answer.status == _GONE or answer.status in posting.final:
            return refused(why, secrets)
        return later(why, secrets, retry_after=retry_after(answer.headers.get("Retry-After"), now))

    async def _answer(self, posting: Posting) -> Answer:
        access, client = self._accesses[posting.allow_private], self._client(posting.allow_private)
        url = access.vet(posting.url)
        for turn in range(MAX_REDIRECTS + 1):
            answer = await client.ask(Request("POST", url, posting.headers, posting.body), bytes_most=ANSWER_BYTES)
            target = answer.headers.get("Location")
            if answer.status not in _FOLLOWED or target is None or turn == MAX_REDIRECTS:
                return answer
            led = access.vet(urljoin(str(url), target))
            if _origin(led) != _origin(url):
                return answer
            url = led
        raise AssertionError("the last turn returns")

    def _client(self, allow_private: bool) -> HttpClient:
        from tickwise.adapters.outgoing.client import HttpClient, PooledResolver

        if allow_private not in self._clients:
            access = self._accesses[allow_private]
            resolver = self._resolver or PooledResolver(self._lookups)
            self._clients[allow_private] = HttpClient(access, connections=CONNECTIONS, resolver=resolver)
        return self._clients[allow_private]


def retry_after(value: str | None, now: float) -> float | None:
    """The delay of a `Retry-After` header, in seconds or as a date, bounded; None if it cannot be read."""
    if value is None:
        return None
    text = value.strip()
    if text.isdecimal() and text.isascii():
        return min(float(text[:10]), RETRY_AFTER_SECONDS_MAX)
    try:
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(moment - now, 0.0), RETRY_AFTER_SECONDS_MAX)


def _of_redirect(posting: Posting, answer: Answer) -> str:
    try:
        where = host_of(urljoin(posting.url, answer.headers.get("Location", "")))
    except ValueError:
        where = "an address that cannot be read"
    return (
        f"it answered {answer.status}, a redirect to {where}, which is not followed: set the channel's address to the "
        "one that takes messages"
    )


def _origin(url: URL) -> tuple[str, str, int | None]:
    return url.scheme, plain_host(url), url.port
