"""A read-only look at the queues of a prefix in SQS: for `tickwise doctor`."""

from __future__ import annotations

from typing import NamedTuple

from tickwise.adapters.broker.sqs.address import read_address
from tickwise.adapters.broker.sqs.library import QueueAbsent, make_client, translated
from tickwise.adapters.broker.sqs.queues import Queues, queue_name
from tickwise.domain.errors import BrokerUnavailable
from tickwise.ports.broker import REQUESTS


class Inspection(NamedTuple):
    """The result of an inspection."""

    missing: tuple[str, ...]
    """Queues of ours that are not there."""
    owner: str | None
    """The name of the store that they belong to; None: no store has opened them."""


async def inspect_queues(url: str) -> Inspection:
    """Raises `BrokerUnavailable`, `Misconfigured`."""
    address = read_address(url)
    with translated():
        opened = make_client(address)
        async with opened as client:
            queues = Queues(address, client)
            missing = await queues.absent()
            if queue_name(address, REQUESTS) in missing:
                return Inspection(tuple(missing), None)
            try:
                return Inspection(tuple(missing), await queues.owner())
            except QueueAbsent as failure:
                raise BrokerUnavailable(f"SQS: a queue was deleted a moment ago: {failure}") from None
