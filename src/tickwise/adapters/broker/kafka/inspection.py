"""A read-only look at the topics of a prefix in Kafka: for `tickwise doctor`."""

from __future__ import annotations

from typing import NamedTuple

from tickwise.adapters.broker.kafka.address import read_address
from tickwise.adapters.broker.kafka.library import Complaints
from tickwise.adapters.broker.kafka.topics import Topics, channels_of, topic_name


class Inspection(NamedTuple):
    """The result of an inspection."""

    missing: tuple[str, ...]
    """Topics of ours that are not there."""
    owner: str | None
    """The name of the store that they belong to; None: no store has opened them."""


def inspect_topics(url: str) -> Inspection:
    """Blocks for some seconds if no broker answers. Raises `BrokerUnavailable`, `Misconfigured`."""
    address = read_address(url)
    topics = Topics(address, Complaints())
    try:
        there = topics.look()
        missing = [topic_name(address, channel) for channel in channels_of(address) if channel not in there]
        # Without any of them there is no marker either, and waiting for what it says would only take time.
        return Inspection(tuple(missing), topics.owner() if there else None)
    finally:
        topics.forget()
