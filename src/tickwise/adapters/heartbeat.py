"""Pings over HTTP, as receivers of heartbeats take them: a GET says that all is well, a POST to another address that it
is not (`/fail` of healthchecks.io).

Invariant: no text that leaves this module holds an address, because the token of a receiver is part of it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import aiohttp

from tickwise import __version__
from tickwise.domain.errors import Misconfigured
from tickwise.ports.heartbeat import PingLost

HEADERS: Final = {"User-Agent": f"tickwise/{__version__} heartbeat"}


class HttpPinger:
    """Sends each ping over a connection of its own: there is one a minute. The proxy that the environment names is
    used, redirects are not followed, and answers are not read beyond their status."""

    def __init__(self, url: str, fail_url: str | None = None) -> None:
        """`url` is asked while all is well; `fail_url` gets a POST with the reason while it is not, if it is given.
        Raises `Misconfigured` for an address that is none."""
        self._url = url
        self._fail_url = fail_url
        self._receiver = _place(url, "heartbeat_url")
        if fail_url is not None:
            _place(fail_url, "heartbeat_fail_url")

    @property
    def receiver(self) -> str:
        """See the port."""
        return self._receiver

    async def well(self) -> None:
        """See the port."""
        await self._send("GET", self._url, None)

    async def unwell(self, sentence: str) -> None:
        """See the port."""
        if self._fail_url is not None:
            await self._send("POST", self._fail_url, sentence)

    async def _send(self, method: str, url: str, text: str | None) -> None:
        try:
            async with (
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=True) as session,
                session.request(method, url, data=text, headers=HEADERS, allow_redirects=False) as answer,
            ):
                status = answer.status
                # What is left of the answer is not waited for, at any length.
                answer.close()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Its own text may hold the address.
            raise PingLost(_named(error)) from None
        if not 200 <= status < 300:
            raise PingLost(f"it answered with status {status}")


def _place(url: str, setting: str) -> str:
    """Host and port of an address. Raises `Misconfigured`, without the address."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise Misconfigured(f"{setting} is no address: it must look like https://hc-ping.com/UUID")
    return parts.netloc.rpartition("@")[2]


def _named(error: Exception) -> str:
    """The kind of an error, and what the system says of it."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    said = cause.strerror if isinstance(cause, OSError) and cause.strerror else ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
