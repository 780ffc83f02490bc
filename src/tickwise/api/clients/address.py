"""The address of a client: that of the connection, or the one that a trusted proxy tells.

    client ──► proxy ──► proxy ──► here       X-Forwarded-For: spoofed, client, first proxy
               trusted   trusted              read from the right, past trusted hops: the client

Anybody can send the header, so it counts only on connections of `trusted_proxies`, and each entry only because the hop
to its right, which wrote it, is trusted. Limits, the pace of sign-ins and the log all go by this address.

One header is read (`client_address_header`): a proxy that writes one of the two passes the other on as the client sent
it, and reading both would let the client choose.

Invariant: no client chooses its address. A header that cannot be read says nothing: the address is that of the last
trusted hop then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from tickwise.domain.errors import Misconfigured
from tickwise.domain.networks import plain

FORWARDED: Final = "forwarded"
X_FORWARDED_FOR: Final = "x-forwarded-for"
MAX_HOPS: Final = 32
"""Entries of the header that are looked at, from the right: more proxies than anybody has."""
REMEMBERED: Final = 4_096

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PAIR = re.compile(rf'({_TOKEN})=(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")')
"""RFC 7239, section 4."""
_SEPARATOR = re.compile(r"[ \t]*([;,])[ \t]*")
_WITH_PORT = re.compile(r"\[([^\]]*)\](?::\d{1,5})?|([0-9.]+):\d{1,5}")
"""An address of IPv6 in brackets, or one of IPv4 with a port."""


class ClientAddresses:
    """Tells the address of a request's client."""

    def __init__(self, trusted: Iterable[str] = (), header: str = X_FORWARDED_FOR) -> None:
        """`trusted`: networks and addresses of proxies. `header`: the one that they write. Raises `Misconfigured`."""
        self._networks = tuple(_network(entry) for entry in trusted)
        self._header = header.encode("ascii")
        self._hops = _forwarded if header == FORWARDED else _x_forwarded_for
        self._is_trusted = lru_cache(REMEMBERED)(self._look)

    def of(self, scope: Mapping[str, Any]) -> str:
        """The address; empty if the connection has none, as over a Unix socket."""
        client = scope.get("client")
        peer: str = client[0] if client else ""
        if peer.startswith("::ffff:"):
            peer = _spelled(peer) or peer
        if not self._networks or not self._is_trusted(peer):
            return peer
        address = peer
        said = [value for name, value in scope["headers"] if name == self._header]
        for hop in self._hops(b",".join(said).decode("latin-1").strip()) if said else ():
            found = _spelled(hop)
            if found is None:
                return address
            address = found
            if not self._is_trusted(address):
                break
        return address

    def _look(self, address: str) -> bool:
        try:
            found = plain(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)


def _network(entry: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(entry)
    except ValueError as wrong:
        raise Misconfigured(
            f"trusted_proxies holds {entry!r}, and each entry must be a network (10.0.0.0/8) or an address "
            f"(127.0.0.1): {wrong}"
        ) from None


def _spelled(text: str) -> str | None:
    """The address of an entry, in its usual spelling; None if it is none (`unknown`, `_hidden`)."""
    text = text.strip()
    if (match := _WITH_PORT.fullmatch(text)) is not None:
        text = match[1] or match[2] or ""
    try:
        return str(plain(text))
    except ValueError:
        return None


def _x_forwarded_for(text: str) -> Sequence[str]:
    """The entries, from the right."""
    return text.rsplit(",", MAX_HOPS)[:0:-1] if text.count(",") >= MAX_HOPS else text.split(",")[::-1]


def _forwarded(text: str) -> Iterator[str]:
    """The `for` of each entry, from the right; nothing of a header that breaks the grammar: where a quoted text ends
    follows from what stands before it, which a client may have written."""
    hops: list[str] = [""]
    place = 0
    while (pair := _PAIR.match(text, place)) is not None:
        name, token, quoted = pair.groups()
        if name.lower() == "for":
            if hops[-1]:
                return
            hops[-1] = token if quoted is None else quoted.replace("\\", "")
        place = pair.end()
        if place == len(text):
            yield from hops[: -MAX_HOPS - 1 : -1]
            return
        separator = _SEPARATOR.match(text, place)
        if separator is None:
            return
        if separator[1] == ",":
            hops.append("")
        place = separator.end()
