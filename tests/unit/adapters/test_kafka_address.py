"""The address of a Kafka cluster: what it may say, and what is said of one that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tickwise.adapters.broker.kafka import KafkaBroker
from tickwise.adapters.broker.kafka.address import OPTIONS, KafkaAddress, read_address
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.errors import Misconfigured


def test_a_host_alone_is_enough() -> None:
    """All else is as shipped, the port is Kafka's usual one."""
    assert KafkaAddress(servers=("broker:9092",)) == read_address("kafka://broker")


def test_everything_can_be_said(tmp_path: Path) -> None:
    """Several servers, a user whose password has signs that an address cannot have, and every option."""
    file = tmp_path / "x.pem"
    file.touch()
    address = read_address(
        f"kafka://ann:p%40ss%3Aw%2Frd@a:1,[::1]:2,c?prefix=other&lanes=3&partitions=12&replication=3"
        f"&group_protocol=classic&tls=true&ca={file}&cert={file}&key={file}&sasl=SCRAM-SHA-256&hints_hours=2"
        f"&requests_days=14&dead_days=90&session_seconds=20&confirm_seconds=30"
    )
    expected = KafkaAddress(
        servers=("a:1", "[::1]:2", "c:9092"), user="ann", password="p@ss:w/rd", prefix="other", lanes=3, partitions=12,
        replication=3, group_protocol="classic", tls=True, ca=file, cert=file, key=file, sasl="SCRAM-SHA-256",
        hints_hours=2, requests_days=14, dead_days=90, session_seconds=20, confirm_seconds=30,
    )  # fmt: skip
    assert expected == address
    told = address.client()
    assert ("SASL_SSL", "SCRAM-SHA-256", "p@ss:w/rd", "a:1,[::1]:2,c:9092") == (
        told["security.protocol"], told["sasl.mechanism"], told["sasl.password"], told["bootstrap.servers"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://broker", "must begin with kafka://"),
        ("kafka://", "write host:port"),
        ("kafka://a b", "write host:port"),
        ("kafka://broker:0", "write host:port"),
        ("kafka://broker:70000", "write host:port"),
        ("kafka://broker,,other", "write host:port"),
        ("kafka://broker/topic", "prefix="),
        ("kafka://broker?topic=x", ", ".join(OPTIONS)),
        ("kafka://broker?lanes=0", "from 1 to 10"),
        ("kafka://broker?lanes=eleven", "from 1 to 10"),
        ("kafka://broker?lanes=²", "from 1 to 10"),
        ("kafka://broker?partitions=-1", "from 1 to 1000"),
        ("kafka://broker?lanes=3&lanes=4", "given twice"),
        ("kafka://broker?prefix=", "1 to 200 letters"),
        ("kafka://broker?prefix=a%00b", "1 to 200 letters"),
        ("kafka://broker?group_protocol=newest", "consumer, classic, share"),
        ("kafka://broker?tls=yes", "true, false"),
        ("kafka://broker?tls=true&ca=/not/there", "a file that is there"),
        ("kafka://broker?ca={file}", "without tls=true"),
        ("kafka://broker?tls=true&cert={file}", "cert and key go together"),
        ("kafka://ann:secret@broker", "add sasl="),
        ("kafka://broker?sasl=PLAIN", "without a user and a password"),
        ("kafka://ann@broker?sasl=PLAIN", "without a user and a password"),
        ("kafka://ann:secret@broker?sasl=GSSAPI", "SCRAM-SHA-512"),
        ("kafka://[broken", "kafka://host:port"),
        ("kafka://ann:se?secret@broker:9092?sasl=PLAIN", "%3F for ?"),
        ("kafka://ann:se/secret@broker:9092?sasl=PLAIN", "%2F for /"),
        ("kafka://ann:se#secret@broker:9092?sasl=PLAIN", "%23 for #"),
        ("kafka://ann:se@a?prefix=secret&tls=secret@broker", "%40 for @"),
        ("kafka://ann:se?secret", "server 1 cannot be read"),
        ("kafka://broker?se-secret", "the part after the '?' is no option"),
        ("kafka://ann:secret", "server 1 cannot be read"),
        ("kafka://broker,ann:secret", "server 2 cannot be read"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(url: str, said: str, tmp_path: Path) -> None:
    """By the name of the setting, and without any password."""
    file = tmp_path / "x.pem"
    file.touch()
    with pytest.raises(Misconfigured) as refusal:
        read_address(url.replace("{file}", str(file)))
    assert refusal.value.detail.startswith("broker_url: ")
    assert said in refusal.value.detail
    assert "secret" not in refusal.value.detail


def test_a_password_is_never_shown() -> None:
    """Not even in a traceback that prints the address."""
    assert "secret" not in repr(read_address("kafka://ann:secret@broker?sasl=PLAIN"))


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(Misconfigured, match=r"pip install 'tickwise\[kafka\]'"):
        KafkaBroker("kafka://broker", VirtualClock())
