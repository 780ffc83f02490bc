"""The destinations that one run may reach: which host and port is admitted, and to which addresses a name may lead.

    api.example.com:443   this name. Each address that it resolves to must be public, or allowed by the installation
    *.example.com:443     the names below it, not the name itself
    10.0.0.5:5432         this address, in each of its spellings; it may be of a private network
    [2001:db8::1]:443     the same
    db.internal:*         each port

Invariants: a name leads to no private, loopback, link-local or metadata address unless `http_allow` names the host or
the network, as for http tasks; it never leads to a metadata address unless that very address is allowed. A host that
programs read in different ways is refused. (docs/decisions/0082)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tickwise.adapters.outgoing.access import METADATA, PRIVATE, Address, AddressRefused, HttpAccess, embedded
from tickwise.domain.networks import is_odd_number, plain
from tickwise.domain.rules.confinement import read_destination

ADVICE: Final = (
    "a sandbox reaches such an address only if the job names the address itself, or the executors' setting http_allow "
    'has it: TICKWISE_HTTP_ALLOW="{entry}"'
)
HOST_MAX: Final = 253
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*", re.ASCII)
_SHOWN: Final = 80


class DestinationRefused(Exception):
    """A destination that the run may not reach. Its text is for the run's log."""


@dataclass(frozen=True, slots=True)
class AllowedDestinations:
    """The list of one job, read."""

    names: frozenset[tuple[str, int]]
    """Each with its port; 0: each port."""
    suffixes: frozenset[tuple[str, int]]
    """Of `*.example.com` it is `.example.com`."""
    addresses: frozenset[tuple[Address, int]]
    access: HttpAccess

    @classmethod
    def of(cls, texts: Sequence[str], access: HttpAccess) -> AllowedDestinations:
        """Read a list. Raises `Invalid`."""
        names, suffixes, addresses = set(), set(), set()
        for text in texts:
            host, port = read_destination(text)
            if host.startswith("*."):
                suffixes.add((host[1:], port))
                continue
            try:
                addresses.add((plain(host), port))
            except ValueError:
                names.add((host, port))
        return cls(frozenset(names), frozenset(suffixes), frozenset(addresses), replace(access, advice=ADVICE))

    def admit(self, text: str, port: int) -> Address | str:
        """The host that a task asks for: an address, or a name in its usual spelling. Raises `DestinationRefused` if it
        is not in the list."""
        host = _host(text)
        if isinstance(host, str):
            if self._has(self.names, host, port):
                return host
            if any(self._has(self.suffixes, suffix, port) for suffix in _suffixes(host)):
                return host
        elif (host, port) in self.addresses or (host, 0) in self.addresses:
            return host
        entry = written(host, port)
        raise DestinationRefused(f"blocked {entry}; allow it with --allow-network {entry}")

    @staticmethod
    def _has(found: frozenset[tuple[str, int]], name: str, port: int) -> bool:
        return (name, port) in found or (name, 0) in found

    def admit_name(self, text: str) -> str:
        """The name that a task asks the address of, if any of its ports is allowed. Raises `DestinationRefused`."""
        host = _host(text)
        if isinstance(host, str):
            wanted = {host, *_suffixes(host)}
            if any(name in wanted for name, _ in (*self.names, *self.suffixes)):
                return host
        raise DestinationRefused(f"blocked the name {shown(text)}; allow it with --allow-network {shown(text)}:PORT")

    def check(self, address: Address, host: Address | str, port: int) -> None:
        """Check one address that an admitted host leads to. Raises `DestinationRefused`."""
        ends = (*embedded(address), address)
        if not isinstance(host, str) and all(_is_private(end) for end in ends):
            return
        access = self.access
        if isinstance(host, str) and any(end in METADATA for end in ends):
            access = replace(access, hosts=frozenset())  # a name opens no credentials of a cloud
        try:
            access.check(address, str(host), port)
        except AddressRefused as refused:
            raise DestinationRefused(f"refused {written(host, port)}: {refused}") from None


def _host(text: str) -> Address | str:
    """One reading of a host. Raises `DestinationRefused` for one that can be read in two ways, or is none."""
    host = text.lower().removesuffix(".")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if "%" not in bare:
        try:
            return plain(bare)
        except ValueError:
            pass
    if len(host) > HOST_MAX or _NAME.fullmatch(host) is None or is_odd_number(host):
        raise DestinationRefused(f"blocked {shown(text)}: it is no name, and no address in its usual spelling")
    return host


def _suffixes(name: str) -> Iterator[str]:
    """`.b.c` and `.c` of `a.b.c`."""
    place = name.find(".")
    while place > 0:
        yield name[place:]
        place = name.find(".", place + 1)


def _is_private(address: Address) -> bool:
    """Check whether an address is of a private network, and neither loopback nor metadata."""
    return not address.is_loopback and address not in METADATA and any(address in network for network in PRIVATE)


def written(host: Address | str, port: int) -> str:
    """The entry of a list for this destination."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def shown(text: str) -> str:
    """A host as a line of a log shows it: what a task sends may hold anything."""
    return "".join(each if each.isascii() and each.isprintable() else "?" for each in text[:_SHOWN])
