"""The list of one job: which hosts it admits in which spelling, and what a name may lead to."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.adapters.outgoing.access import METADATA, HttpAccess
from tickwise.adapters.runner.process.sandbox.network.destinations import AllowedDestinations, DestinationRefused
from tickwise.adapters.runner.process.sandbox.network.names import NAMES_MAX, NameBook, answer
from tickwise.domain.errors import Invalid
from tickwise.domain.rules.confinement import read_destination

LIST = ("api.example.com:443", "*.store.example.com:443", "10.0.0.5:5432", "[2001:db8::1]:443", "db.example.com:*")


def listed(*texts: str, allow: tuple[str, ...] = ()) -> AllowedDestinations:
    return AllowedDestinations.of(texts, HttpAccess.of(allow))


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("api.example.com", 443), ("API.Example.COM.", 443), ("a.store.example.com", 443), ("10.0.0.5", 5432),
        ("a.b.store.example.com", 443), ("::ffff:10.0.0.5", 5432), ("[::ffff:a00:5]", 5432), ("[2001:db8::1]", 443),
        ("2001:0db8:0:0:0:0:0:1", 443), ("db.example.com", 1), ("db.example.com", 65_535),
    ],
)  # fmt: skip
def test_what_the_list_has_is_admitted(host: str, port: int) -> None:
    """In each spelling that all programs read in the same way."""
    listed(*LIST).admit(host, port)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("api.example.com", 80), ("example.com", 443), ("store.example.com", 443), ("xapi.example.com", 443),
        ("xstore.example.com", 443), ("api.example.com.evil.test", 443), ("a..store.example.com", 443),
        (".store.example.com", 443), ("a.store.example.com\0.evil.test", 443), ("api.example.com/", 443),
        ("api.example.com@evil.test", 443), ("10.0.0.5", 443), ("10.0.0.6", 5432), ("10.5", 5432), ("167772165", 5432),
        ("0xa000005", 5432), ("012.0.0.5", 5432), ("10.0.0.5%eth0", 5432), ("2001:db8::1%lo", 443), ("", 443),
        ("x" * 300, 443), ("a" * 64 + ".store.example.com", 443), ("ä.store.example.com", 443), ("[10.0.0.5", 5432),
        ("64:ff9b::a00:5", 5432), ("::10.0.0.5", 5432),
    ],
)  # fmt: skip
def test_what_it_has_not_is_refused(host: str, port: int) -> None:
    """Also what only looks like an entry, or can be read in two ways."""
    with pytest.raises(DestinationRefused, match="^blocked "):
        listed(*LIST).admit(host, port)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0x7f.0.0.1"])
def test_a_number_in_another_spelling_is_no_name(host: str) -> None:
    """Programs read it as an address, each in its own way. A definition of an earlier release may name it."""
    names = AllowedDestinations(frozenset({(host, 80)}), frozenset({(".0.0.1", 80)}), frozenset(), HttpAccess())
    with pytest.raises(DestinationRefused, match="no name"):
        names.admit(host, 80)


@pytest.mark.parametrize("text", ["127.1:80", "2130706433:80", "0x7f000001:80", "*.0.0.1:80", "[fe80::1%eth0:80", "a"])
def test_a_job_is_told_at_once(text: str) -> None:
    """An entry that could never be reached is refused when the job is stored."""
    with pytest.raises(Invalid):
        read_destination(text)


@given(st.text(max_size=300), st.integers(0, 65_535))
def test_no_text_does_anything_but_be_refused(text: str, port: int) -> None:
    """And the line of the log has no character that a terminal obeys."""
    with pytest.raises(DestinationRefused) as refused:
        listed("api.example.com:443").admit(text, port)
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("address", METADATA, ids=str)
def test_metadata_is_closed_to_names_and_to_entries(address: object) -> None:
    """A list with the address needs the very address in `http_allow`, too; a name never opens it."""
    found, entry = ip_address(str(address)), f"[{address}]:80" if ":" in str(address) else f"{address}:80"
    for allow in ((), ("meta.test", "168.63.0.0/16", "192.0.0.0/24", "169.254.0.0/16", "100.64.0.0/10", "fc00::/7")):
        with pytest.raises(DestinationRefused, match="metadata"):
            listed("meta.test:80", allow=allow).check(found, "meta.test", 80)
        with pytest.raises(DestinationRefused, match="metadata"):
            listed(entry, allow=allow).check(found, found, 80)
    with pytest.raises(DestinationRefused, match="metadata"):
        listed("meta.test:80", allow=("meta.test:80", entry)).check(found, "meta.test", 80)
    listed(entry, allow=(str(found),)).check(found, found, 80)


@pytest.mark.parametrize("address", ["10.0.0.5", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::5"])
def test_a_private_address_is_reached_by_itself_and_not_by_a_name(address: str) -> None:
    """Its author named it; what a name means is decided elsewhere."""
    found = ip_address(address)
    listed(f"[{address}]:80" if ":" in address else f"{address}:80").check(found, found, 80)
    with pytest.raises(DestinationRefused, match=r"^refused db\.test:80: .*private|provider"):
        listed("db.test:80").check(found, "db.test", 80)
    listed("db.test:80", allow=("db.test:80",)).check(found, "db.test", 80)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "169.254.1.1", "fe80::1", "224.0.0.1"])
def test_the_machine_itself_is_closed_to_entries(address: str) -> None:
    """A list never opens the executor's own services; its operator may."""
    found = ip_address(address)
    with pytest.raises(DestinationRefused, match="not public"):
        listed(f"[{address}]:80" if ":" in address else f"{address}:80").check(found, found, 80)


def test_names_of_one_run_are_bounded() -> None:
    """A wildcard has names without end, and each gets an address."""
    book = NameBook(["a.test"])
    assert (book.address_of("a.test"), book.name_of("127.64.0.1")) == ("127.64.0.1", "a.test")
    found = {book.address_of(f"{number}.test") for number in range(NAMES_MAX)}
    assert None in found
    assert len(found) == NAMES_MAX
    assert book.name_of("127.0.0.1") is None


@given(st.binary(max_size=600))
def test_no_bytes_break_the_answers(wire: bytes) -> None:
    """What cannot be read gets no answer."""
    found = answer(wire, listed("*.test:443"), NameBook([]), lambda line: None)
    assert found is None or len(found) <= 512
