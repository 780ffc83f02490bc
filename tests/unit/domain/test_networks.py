"""The network that stands for a client in every count."""

from __future__ import annotations

import pytest

from tickwise.domain.networks import network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:ffff:ffff:ffff", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix", "unix"),
        ("", ""),
    ],
)
def test_a_customer_of_ipv6_is_one_network(address: str, network: str) -> None:
    """Who has 64 bits of addresses uses another one for each attempt."""
    assert network == network_of(address)
