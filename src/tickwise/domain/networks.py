"""Addresses of clients: one spelling for each, and the network that one customer has.

    ::ffff:192.0.2.1  ──plain──►  192.0.2.1        an IPv4 client of a socket for both families
    2001:db8::1       ──network_of──►  2001:db8::/64      a customer of IPv6 has 64 bits of addresses

Everything that counts by client counts by network: else one customer of IPv6 uses another address each time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

REMEMBERED: Final = 4_096
"""Addresses whose network is remembered: to read one takes 2 µs."""
_NUMERIC: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)
_CUSTOMER_MASK: Final = ~((1 << 64) - 1)


def is_odd_number(host: str) -> bool:
    """Check whether a host is a number in another spelling than that of an address, such as `2130706433` or `0x7f.1`:
    programs read these in different ways. The host is lower case or not, without the dot of a root."""
    try:
        ip_address(host)
    except ValueError:
        return _NUMERIC.fullmatch(host.rsplit(".", 1)[-1]) is not None
    return False


def plain(text: str) -> IPv4Address | IPv6Address:
    """The address without a zone; an IPv4 address inside IPv6 as itself. Raises `ValueError`."""
    found = ip_address(text.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


@lru_cache(REMEMBERED)
def network_of(address: str) -> str:
    """The IPv4 address, or the network of 64 bits of an IPv6 address. A text that is no address (the path of a Unix
    socket, nothing) is a network of its own."""
    try:
        found = plain(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return f"{IPv6Address(int(found) & _CUSTOMER_MASK)}/64"
    return str(found)


def is_loopback(address: str) -> bool:
    """Check whether an address is one of the machine itself."""
    try:
        return plain(address).is_loopback
    except ValueError:
        return False
