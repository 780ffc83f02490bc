"""Senders: one for each kind of channel. A sender delivers one message and says how that went.

Invariant: a try keeps to `timeout` seconds and to a bounded answer, and follows no redirect to another host. It
connects to a private address only if the channel allows it. A secret of a channel is in no error and in no log line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from tickwise.domain.notices.rules import Notice, NoticeChannel


class DeliveryOutcome(Enum):
    """The outcome of one try."""

    DELIVERED = "delivered"
    LATER = "later"
    """The receiver was away, too slow or too busy: another try may succeed."""
    REFUSED = "refused"
    """The receiver refuses it for good: an address that does not exist, a revoked token."""
    UNTRIED = "untried"
    """This sender had no turn for it: it counts as no try, of which nothing is known."""


class DeliveryResult(NamedTuple):
    """The outcome of one try."""

    delivery: DeliveryOutcome
    error: str | None = None
    """For people: what the receiver said, cut to 500 characters."""
    retry_after: float | None = None
    """Seconds that the receiver asked for."""
    served: Sequence[str] = ()
    """With LATER: all recipients who have the message, by this try or by earlier ones."""


class NoticeMessage(NamedTuple):
    """A notice, ready to be sent."""

    notice: Notice
    title: str
    """One line without control characters."""
    text: str
    """Plain text for people."""
    links: Mapping[str, str]
    """Addresses of pages by their label."""
    now: float


class ChannelSender(Protocol):
    """Delivers to the channels of one kind."""

    async def send(
        self, channel: NoticeChannel, secrets: Mapping[str, str], message: NoticeMessage, *, timeout: float
    ) -> DeliveryResult:
        """Try once, in `timeout` seconds; before that it may wait as long for a turn. It raises nothing."""
        ...

    async def load(self) -> None:
        """Load the libraries that it needs, beside the other work of the process: no message waits for them then."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...
