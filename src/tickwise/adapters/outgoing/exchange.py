"""One request and its answer, apart from the library that carries them (`client`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from yarl import URL


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a chain of redirects."""

    method: str
    url: URL
    """Vetted."""
    headers: Mapping[str, str]
    body: bytes | None


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
