"""The address of queues in SQS: what is read from it, and what is refused with the allowed values."""

from __future__ import annotations

import pytest

from tickwise.adapters.broker.sqs.address import SqsAddress, read_address
from tickwise.adapters.broker.sqs.queues import queue_name
from tickwise.domain.errors import Misconfigured
from tickwise.ports.broker import REQUESTS, lane_of


def test_an_address_with_every_option() -> None:
    """Each option is a field."""
    said = (
        "sqs://eu-central-1/acme?endpoint=https://sqs.example.com:9324/x&lanes=2&buckets=8&hints_hours=2"
        "&requests_days=3&dead_days=4&visibility_seconds=60&wait_seconds=5&confirm_seconds=7"
    )
    assert read_address(said) == SqsAddress(
        region="eu-central-1", prefix="acme", endpoint="https://sqs.example.com:9324/x", lanes=2, buckets=8,
        hints_hours=2, requests_days=3, dead_days=4, visibility_seconds=60, wait_seconds=5, confirm_seconds=7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqs://eu-central-1", "the prefix is ''"),
        ("sqs:///tickwise", "the region is ''"),
        ("sqs://eu-central-1/two/parts", "1 to 40 letters"),
        (f"sqs://eu-central-1/{'x' * 41}", "1 to 40 letters"),
        ("sqs://key:secret@eu-central-1/tickwise", "credentials come by the chain of AWS"),
        ("sqs://eu-central-1:443/tickwise", "a port"),
        ("sqs://eu-central-1/tickwise?lanes=11", "a whole number from 1 to 10"),
        ("sqs://eu-central-1/tickwise?lanes=", "a whole number"),
        ("sqs://eu-central-1/tickwise?lanes=2&lanes=3", "said twice"),
        ("sqs://eu-central-1/tickwise?fast=1", "no option 'fast'"),
        ("sqs://eu-central-1/tickwise?endpoint=ftp://x", "an address such as"),
        ("kafka://host:9092", "does not begin with sqs://"),
    ],
)
def test_what_is_wrong_is_named(url: str, why: str) -> None:
    """With what is allowed; never with a password."""
    with pytest.raises(Misconfigured, match=why) as refusal:
        read_address(url)
    assert "secret" not in refusal.value.detail


def test_names_of_queues_fit_into_what_aws_takes() -> None:
    """At most 80 letters, digits, '-' and '_', and `.fifo`."""
    address = read_address(f"sqs://eu-central-1/{'p' * 40}")
    assert f"{'p' * 40}-requests.fifo" == queue_name(address, REQUESTS)
    longest = queue_name(address, lane_of(9, 10), "executors." + "f" * 60)
    assert len(longest) <= 80
    assert longest.startswith(f"{'p' * 40}-runs-p9-executors-f")
