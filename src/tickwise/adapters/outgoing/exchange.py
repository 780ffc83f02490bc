"""One request and its answer, apart from the library that carries them (`client`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final

from yarl import URL

CONNECT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a chain of redirects."""

    method: str
    url: URL
    """Vetted."""
    headers: Mapping[str, str]
    body: bytes | None
    tls: SSLContext | None = None
    """For an address with https. None: the certificates of the system are trusted. Requests share a connection only if
    they have the same one."""
    tls_elsewhere: SSLContext | None = None
    """As `tls`, for another origin that a redirect leads to: without a certificate of the client."""
    connect_seconds: float = CONNECT_SECONDS
    """From the look-up of the name to a connection that is ready."""
    first_byte_seconds: float | None = None
    """From the beginning to the status and headers of the answer. None: no limit."""
    proxy: str | None = None
    """The address of a proxy that connects in our place: it judges no address. None: there is none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, with any status."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    """Its beginning, at most one byte more than a result may have."""


class NoAnswer(Exception):
    """A request without an answer, because of its host or the way to it. Its text is for people."""


class UnusableAddress(NoAnswer):
    """An address that no request can be made of: the fault of the address, and not of a host."""


class TlsFailure(NoAnswer):
    """No connection because of a certificate, or of what the two sides can speak. Its text is for people."""
