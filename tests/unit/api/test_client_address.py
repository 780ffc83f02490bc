"""Whose address counts: that of the connection, or the one that trusted proxies tell; never the client's choice."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.api.clients.address import FORWARDED, MAX_HOPS, X_FORWARDED_FOR, ClientAddresses
from tickwise.domain.errors import Misconfigured

PROXY, OUTER = "10.0.0.1", "10.0.0.2"
CLIENT, SPOOFED = "198.51.100.7", "203.0.113.9"


def told(
    *values: str, peer: str | None = PROXY, trusted: tuple[str, ...] = ("10.0.0.0/8",), header: str = X_FORWARDED_FOR
) -> str:
    """The address of a request with these header lines."""
    scope: dict[str, Any] = {
        "client": None if peer is None else (peer, 4711),
        "headers": [(header.encode(), value.encode("latin-1")) for value in values],
    }
    return ClientAddresses(trusted, header).of(scope)


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ([CLIENT], CLIENT),
        ([f"{SPOOFED}, {CLIENT}"], CLIENT),
        ([f"{SPOOFED}, {CLIENT}, {OUTER}"], CLIENT),
        ([f"{SPOOFED},{CLIENT}", OUTER], CLIENT),
        ([f"{OUTER}, {SPOOFED}, {CLIENT}"], CLIENT),
        ([f"10.9.9.9, {OUTER}"], "10.9.9.9"),
        ([f"{CLIENT}:4711"], CLIENT),
        (["[2001:db8::7]:4711"], "2001:db8::7"),
        (["[2001:db8::7]"], "2001:db8::7"),
        (["2001:0DB8::0007"], "2001:db8::7"),
        ([f"::ffff:{CLIENT}"], CLIENT),
        ([f"{CLIENT}, ::ffff:{OUTER}"], CLIENT),
        (["fe80::1%eth0"], "fe80::1"),
        ([], PROXY),
        ([""], PROXY),
    ],
    ids=str,
)
def test_the_client_is_the_first_from_the_right_that_is_no_proxy(values: list[str], address: str) -> None:
    """What a client put in front of that says nothing."""
    assert address == told(*values)


@pytest.mark.parametrize(
    "value",
    [
        "unknown",
        "_hidden",
        "localhost",
        "1.2.3",
        "1.2.3.4.5",
        "999.1.1.1",
        "1.2.3.4:",
        "[::1",
        "::1]",
        "\xff",
        "%",
        " ",
    ],
    ids=repr,
)
def test_what_is_no_address_leaves_that_of_the_hop_that_wrote_it(value: str) -> None:
    """Of the proxy, or of the trusted hop to the right."""
    assert PROXY == told(value)
    assert PROXY == told(f"{CLIENT}, {value}")
    assert OUTER == told(f"{value}, {OUTER}")
    assert CLIENT == told(f"{value}, {CLIENT}")


@pytest.mark.parametrize("peer", [SPOOFED, "::1", "2001:db8::1", "/run/tickwise.sock", "", None], ids=str)
@pytest.mark.parametrize("header", [X_FORWARDED_FOR, FORWARDED])
def test_a_header_from_anybody_else_says_nothing(peer: str | None, header: str) -> None:
    """It is the client that is connected."""
    assert (peer or "") == told(CLIENT, peer=peer, header=header)
    assert (peer or "") == told(f"for={CLIENT}", peer=peer, header=header)


def test_without_trusted_proxies_no_header_counts() -> None:
    """As it is by default."""
    assert PROXY == told(CLIENT, trusted=())


def test_a_proxy_may_be_known_by_either_spelling() -> None:
    """A socket for both families tells an address of IPv4 inside one of IPv6."""
    assert CLIENT == told(CLIENT, peer="::ffff:10.0.0.1")
    assert "10.0.0.1" == told(CLIENT, peer="::ffff:10.0.0.1", trusted=())
    assert CLIENT == told(CLIENT, peer="fd00::5", trusted=("fd00::/8",))


def test_only_the_header_that_the_proxies_write_is_read() -> None:
    """The other one comes from the client, through them."""
    scope: dict[str, Any] = {
        "client": (PROXY, 4711),
        "headers": [(b"forwarded", f"for={SPOOFED}".encode()), (b"x-forwarded-for", CLIENT.encode())],
    }
    assert CLIENT == ClientAddresses(("10.0.0.0/8",)).of(scope)
    assert SPOOFED == ClientAddresses(("10.0.0.0/8",), FORWARDED).of(scope)


def test_endless_proxies_have_an_end() -> None:
    """The look ends at the last one that it comes to, and the text to its left is not read."""
    hops = [f"10.0.1.{number}" for number in range(100)]
    assert hops[100 - MAX_HOPS] == told(", ".join([SPOOFED, *hops]))
    assert hops[100 - MAX_HOPS] == told(", ".join(f"for={hop}" for hop in [SPOOFED, *hops]), header=FORWARDED)


@pytest.mark.parametrize(
    ("value", "address"),
    [
        (f"for={CLIENT}", CLIENT),
        (f"For={CLIENT};proto=https;by=10.0.0.1", CLIENT),
        (f"proto=https ; for={CLIENT}", CLIENT),
        (f'for="{CLIENT}:4711"', CLIENT),
        ('for="[2001:db8::7]:4711"', "2001:db8::7"),
        (f'for={SPOOFED}, for={CLIENT};host="a, b;c\\"d", for={OUTER}', CLIENT),
        (f"for={CLIENT}, proto=https", PROXY),
        (f"for={CLIENT}, for=unknown", PROXY),
        (f"for={CLIENT};for={SPOOFED}", PROXY),
        ("for=2001:db8::7", PROXY),
        (f"{CLIENT}", PROXY),
        (f"for={CLIENT}, ", PROXY),
        ("", PROXY),
    ],
    ids=str,
)
def test_forwarded_is_read_by_its_grammar(value: str, address: str) -> None:
    """RFC 7239; what breaks it says nothing."""
    assert address == told(value, header=FORWARDED)


@pytest.mark.parametrize("opened", ['for=a;by="', 'for="', 'host="x\\"', 'for=1.1.1.1;by="a, for=', "for=;"], ids=str)
def test_a_quote_that_a_client_opens_moves_nothing(opened: str) -> None:
    """The entry of the proxy behind it would be part of the text, or the text an entry."""
    for own in (f"for={CLIENT}", f'for="{CLIENT}"', f'for={CLIENT};by="x"'):
        for value in ([f"{opened}, {own}"], [opened, own]):
            assert told(*value, header=FORWARDED) in (CLIENT, PROXY)


@pytest.mark.parametrize("entry", ["10.0.0.1/8", "proxy.example", "10.0.0.0/33", ""])
def test_a_network_that_is_none_is_refused_at_the_start(entry: str) -> None:
    """With what it must be."""
    with pytest.raises(Misconfigured, match="trusted_proxies"):
        ClientAddresses((entry,))
