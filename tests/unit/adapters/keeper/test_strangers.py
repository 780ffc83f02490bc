"""Connections without a key: who gives way to whom."""

from __future__ import annotations

from tickwise.adapters.store.keeper.wire.strangers import Stranger, Strangers


def strangers(*addresses: str) -> list[Stranger]:
    """One connection of each address, in this order."""
    return [Stranger(each, lambda: None) for each in addresses]


def test_the_oldest_of_a_network_gives_way_to_its_next() -> None:
    """And none of another network."""
    held = Strangers(most=100, most_of_network=2)
    other, first, second, third = strangers("10.0.0.9", "10.0.0.1", "10.0.0.1", "10.0.0.1")
    assert [None, None, None, first] == [held.add(each) for each in (other, first, second, third)]
    assert [other, second, third] == held.all()


def test_where_all_places_are_taken_the_network_that_has_the_most_gives_way() -> None:
    """A client that comes from elsewhere keeps its place."""
    held = Strangers(most=4, most_of_network=3)
    client, *crowd = strangers("10.0.0.9", "10.0.0.1", "10.0.0.1", "10.0.0.1")
    for each in (client, *crowd):
        assert held.add(each) is None
    (new,) = strangers("10.0.0.8")
    assert crowd[0] is held.add(new)
    assert [client, *crowd[1:], new] == held.all()


def test_among_many_networks_the_oldest_gives_way() -> None:
    """An attacker with an address for each connection keeps nobody out who comes later."""
    held = Strangers(most=3, most_of_network=3)
    crowd = strangers(*(f"10.0.1.{number}" for number in range(10)))
    assert [None] * 3 + crowd[:7] == [held.add(each) for each in crowd]
    (new,) = strangers("10.0.0.8")
    assert crowd[7] is held.add(new)


def test_addresses_of_one_customer_are_one_network() -> None:
    """With IPv6 one has 2^64 of them."""
    held = Strangers(most=100, most_of_network=1)
    first, second = strangers("2001:db8::1", "2001:db8::2")
    assert [None, first] == [held.add(first), held.add(second)]


def test_a_connection_that_has_shown_the_key_takes_no_place() -> None:
    """It is counted no more, and ends for nobody."""
    held = Strangers(most=1, most_of_network=1)
    known, new = strangers("10.0.0.1", "10.0.0.1")
    held.add(known)
    assert [True, False] == [held.drop(known), held.drop(known)]
    assert (None, 1) == (held.add(new), len(held))
