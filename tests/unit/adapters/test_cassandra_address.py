"""Addresses of Cassandra clusters: what is read, and what is refused with a sentence that says what to write."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tickwise.adapters.store.cassandra.address import CassandraAddress, read_address
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.wiring.cassandra.keyspace import keyspace_of, refuse_cassandra


def test_hosts_have_the_port_of_the_next_one_that_names_it() -> None:
    """As in `cassandra://one,two:9142/tickwise`; 9042 without any."""
    address = read_address("cassandra://one,two:9142,three:9242/tickwise")
    assert (("one", 9142), ("two", 9142), ("three", 9242)) == address.hosts
    assert (("10.0.0.1", 9042),) == read_address("cassandra://10.0.0.1/tickwise").hosts
    assert (("::1", 9042),) == read_address("cassandra://[::1]/tickwise").hosts


def test_every_option_is_read(tmp_path: Path) -> None:
    """A user, a password with signs that are written in percent, and TLS."""
    file = tmp_path / "some.pem"
    file.write_text("")
    url = f"cassandra://ann:p%40ss@host/tw?tls=true&ca={file}&cert={file}&key={file}&datacenter=dc1"
    expected = CassandraAddress(
        hosts=(("host", 9042),), keyspace="tw", user="ann", password="p@ss", tls=True, ca=file, cert=file, key=file,
        datacenter="dc1",
    )  # fmt: skip
    assert expected == read_address(url)
    assert "p@ss" not in repr(expected)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("cassandra://host", "the name of a keyspace"),
        ("cassandra://host/Tickwise", "the name of a keyspace"),
        ("cassandra://host/tick-wise", "the name of a keyspace"),
        ("cassandra://host/a/b", "the name of a keyspace"),
        ("cassandra://host/system", "one of Cassandra's own"),
        ("cassandra://host/system_auth", "one of Cassandra's own"),
        ("cassandra:///tickwise", "host 1 cannot be read"),
        ("cassandra://one,,two/tickwise", "host 2 cannot be read"),
        ("cassandra://host:70000/tickwise", "host 1 cannot be read"),
        ("cassandra://ann@host/tickwise", "a user and a password go together"),
        ("cassandra://host/tickwise?tls=yes", "must be true or false"),
        ("cassandra://host/tickwise?ca=/nowhere/ca.pem", "a file that is there"),
        ("cassandra://host/tickwise?ca=/dev/null", "must be a file"),
        ("cassandra://host/tickwise?tls=true&tls=true", "given twice"),
        ("cassandra://host/tickwise?colour=red", "'colour' is no option"),
        ("cassandra://ann:p/ss@host/tickwise", "a '@' stands behind"),
        ("postgresql://host/tickwise", "must begin with cassandra://"),
    ],
)
def test_a_fault_is_named(url: str, says: str) -> None:
    """With the name of the setting, and without a password."""
    with pytest.raises(Misconfigured, match="database_url") as raised:
        read_address(url)
    assert says in raised.value.detail
    assert "p/ss" not in raised.value.detail


def test_certificates_need_tls(tmp_path: Path) -> None:
    """And a certificate of the client needs its key."""
    file = tmp_path / "some.pem"
    file.write_text("")
    with pytest.raises(Misconfigured, match="without tls=true"):
        read_address(f"cassandra://host/tw?ca={file}")
    with pytest.raises(Misconfigured, match="cert and key go together"):
        read_address(f"cassandra://host/tw?tls=true&cert={file}")


def test_what_works_on_tables_of_postgresql_is_refused_with_one_sentence() -> None:
    """A wrong address is named first; other stores are let through."""
    refuse_cassandra(None)
    refuse_cassandra("postgresql://host/tickwise")
    with pytest.raises(Misconfigured, match="this command works on a PostgreSQL"):
        refuse_cassandra("cassandra://host/tickwise")
    with pytest.raises(Misconfigured, match="the name of a keyspace"):
        refuse_cassandra("cassandra://host")


def test_a_keeper_needs_a_keyspace_and_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is named, with what to do."""
    for other in (None, "postgresql://host/tickwise", "memory://"):
        with pytest.raises(Misconfigured, match="this is for Cassandra alone: set TICKWISE_DATABASE_URL=cassandra://"):
            keyspace_of(Settings(database_url=other))
    asked = Settings(database_url="cassandra://host/tickwise")
    assert "tickwise" == keyspace_of(asked).keyspace
    monkeypatch.setitem(sys.modules, "tickwise.adapters.store.cassandra.schema", None)
    monkeypatch.delattr("tickwise.adapters.store.cassandra.schema", raising=False)
    with pytest.raises(Misconfigured, match=r"pip install 'tickwise\[cassandra\]'"):
        keyspace_of(asked)
