"""Addresses that tasks and notices may reach: the public internet, and what is allowed beside it.

    address ──► one reading of its host (yarl's, which aiohttp uses, too)
        │ a number in another spelling than the usual one, a zone, an escape ──► refused
        ├─ an IP address ──► judged
        └─ a name ──► resolved once by `VettedResolver`, every address judged, and these very addresses are connected to

Invariant: no connection is made to an address that was not judged, also if the name resolves to another one a moment
later. A host whose addresses are not all allowed is refused as a whole. (docs/decisions/0024)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

from yarl import URL

from tickwise.domain.errors import Misconfigured
from tickwise.domain.networks import is_odd_number

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The special-purpose registries of IANA, written out: what Python calls private differs between its versions.
_SPECIAL: Final[tuple[tuple[Network, str], ...]] = tuple(
    (ip_network(network), called)
    for network, called in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a provider's shared network"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's metadata"),
        ("169.254.0.0/16", "link-local, where clouds keep metadata"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "this host"),
        ("::1/128", "loopback"),
        ("fc00::/7", "a private network"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "a private network"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("3fff::/20", "for documentation"),
    )
)
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)

_BRACKETS: Final = re.compile(r"^\[(.*)\]$")


class AddressRefused(Exception):
    """An address that may not be reached, or that can be read in two ways. Its text is for the author of the task or
    the channel."""


def special(address: Address) -> str | None:
    """The reason for which an address is not public; None: it is public, but for the address that it embeds
    (`embedded`)."""
    for network, called in _SPECIAL:
        if address in network:
            return called
    if isinstance(address, IPv6Address) and address not in _GLOBAL_V6 and not _translated(address):
        return "reserved"
    return None


def embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that packets for an IPv6 address may end at."""
    if isinstance(address, IPv4Address):
        return
    low = IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if _translated(address) or (address in _COMPATIBLE and int(address) > 1):
        yield low
    if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield low


def _translated(address: IPv6Address) -> bool:
    """Check whether the address is a form of an IPv4 address: mapped, or through NAT64."""
    return address.ipv4_mapped is not None or address in _NAT64


TASK_ADVICE: Final = (
    'http tasks reach such an address only if it is allowed. To allow it, add "{entry}" to the setting http_allow of '
    "the executors: TICKWISE_HTTP_ALLOW={entry}"
)
PRIVATE: Final = tuple(
    ip_network(network)
    for network in (
        "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7",
    )
)  # fmt: skip
"""Loopback and private networks."""
METADATA: Final = {
    ip_address(address): cloud
    for address, cloud in (
        ("169.254.169.254", "clouds"), ("100.100.100.200", "Alibaba Cloud"), ("168.63.129.16", "Azure"),
        ("192.0.0.192", "Oracle Cloud"), ("fd00:ec2::254", "AWS"), ("fd20:ce::254", "Google Cloud"),
    )
}  # fmt: skip
"""Addresses at which machines of clouds get their credentials. An entry of this very address opens one, and that of
all addresses; no other network does."""


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The addresses that are allowed beside the public internet."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[tuple[str, int | None]] = frozenset()
    """Names and addresses as addresses of tasks say them, each with a port or with any."""
    advice: str = TASK_ADVICE
    """The end of the message for a refused address; `{entry}` is its host and port."""

    @classmethod
    def of(cls, entries: Sequence[str]) -> HttpAccess:
        """Read `http_allow`. Raises `Misconfigured`."""
        networks: list[Network] = []
        hosts: set[tuple[str, int | None]] = set()
        for entry in entries:
            try:
                networks.append(ip_network(_BRACKETS.sub(r"\1", entry)))
                continue
            except ValueError:
                pass
            try:
                url = URL(f"http://{entry}")
                host, port = plain_host(url), url.explicit_port
            except ValueError:
                host, port = "", None
            if not host or "/" in entry or "@" in entry or port == 0:
                raise Misconfigured(
                    f"http_allow holds {entry!r}, and each entry must be a network (10.0.0.0/8), an address "
                    "(127.0.0.1), a host (localhost), or one of the last two with a port (localhost:8080)"
                )
            hosts.add((host, port))
        return cls(tuple(networks), frozenset(hosts))

    def names(self, host: str, port: int) -> bool:
        """Check whether an entry names this host: all addresses that it resolves to are then allowed."""
        return (host, None) in self.hosts or (host, port) in self.hosts

    def check(self, address: Address, host: str, port: int) -> None:
        """Raise `AddressRefused` unless this address of `host` may be reached."""
        found = next((said for one in (*embedded(address), address) if (said := self._closed(one)) is not None), None)
        if found is None or self.names(host, port):
            return
        bracketed = f"[{host}]" if ":" in host else host
        entry = f"{bracketed}:{port}"
        raise AddressRefused(f"{entry} is not public ({found}), and {self.advice.replace('{entry}', entry)}")

    def _closed(self, address: Address) -> str | None:
        """The reason for which this very address is refused: an allowed address beside or around it opens nothing."""
        if (cloud := METADATA.get(address)) is not None:
            opens = {0, address.max_prefixlen}
            said = any(network.prefixlen in opens and address in network for network in self.networks)
            return None if said else f"metadata of {cloud}"
        found = special(address)
        if found is not None and any(address in network for network in self.networks):
            return None
        return found

    def vet(self, text: str) -> URL:
        """The address of a request, with the same reading of its host that the connection uses. A host that is an IP
        address is judged here, a name when it is resolved. Raises `AddressRefused`."""
        try:
            url = URL(text)
            host, port = plain_host(url), url.port
        except ValueError as error:
            raise AddressRefused(f"the address cannot be read: {error}") from None
        if not host or not port:
            raise AddressRefused("the address names no host")
        if "%" in host:
            raise AddressRefused("the host has a zone or an escape; write it without")
        address = _literal(host)
        if address is not None:
            self.check(address, host, port)
        elif is_odd_number(host):
            raise AddressRefused(
                f"{host!r} is a number that programs read in different ways; write it as four decimal numbers"
            )
        return url


def plain_host(url: URL) -> str:
    """The host as it is compared: lower case, IDNA, without the dot of a root. Raises `ValueError`."""
    host = (url.raw_host or "").lower()
    host = host.removesuffix(".")
    literal = _literal(host)
    return host if literal is None else str(literal)


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
