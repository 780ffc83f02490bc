"""The origin of a message: signed where it is sent, verified where it is applied.

    API ───────► Request ─ signed by the secret of all APIs ─► recorder: did one of the secrets sign it?
    executor ──► Results ─ signed by the executor's own key ─► recorder: did the key of its row sign it?
                                                                  └── no: parked, counted

A signature covers the whole place of a message: the cluster, the channel, the partition, the key and the value. So a
message that is copied to another cluster, channel or partition is refused there; one that is sent again to its own
place comes after the first, and changes nothing, because applying twice is applying once.

Invariants: bytes are verified before they are read. The message never says how it is to be verified: the channel does.
The refused stop nobody. Hints are not signed: a wrong one costs a look at the store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from tickwise.ports.broker import Broker, Channel, Delivery, Message
from tickwise.ports.signing import ExecutorKeys, Signer, Verifier
from tickwise.ports.store import ExecutorStore
from tickwise.roles.shared.messages import Request, UnreadableMessage

HEADER: Final = "signature"
"""The header of a message that holds its signature."""
LATE_SECONDS: Final = 7 * 86_400.0
"""A signed request that reaches the broker so long after it was accepted is refused: the store may have forgotten that
it was applied. An outage of the store does not count, since the request is with the broker meanwhile."""
MAX_REMEMBERED: Final = 10_000
"""Executors of which the key is remembered; of others the store is asked."""
_NUMBER: Final = re.compile(rb"[1-9][0-9]{0,18}")


class Unsigned(StrEnum):
    """The unsigned messages that are accepted: the setting `unsigned_messages`."""

    REFUSED = "refused"
    """No unsigned message is accepted."""
    OLDER = "older"
    """Results of executors that registered no key, because they are older; requests where no secret is set."""
    ACCEPTED = "accepted"
    """Requests too, although a secret is set: for the time in which it is introduced."""


class RefusalReason(StrEnum):
    """The reason why a message was refused: the label of a metric."""

    UNSIGNED = "unsigned"
    FORGED = "forged"
    UNKNOWN = "unknown"
    LATE = "late"


class Unverified(UnreadableMessage):
    """The sender of this message is not proven, or it comes too late. The text has the cause."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class ResultsSigning(NamedTuple):
    """The key and the channel with which an executor signs its results."""

    keys: ExecutorKeys
    cluster: str


class Maker(NamedTuple):
    """The sender of a message with results."""

    executor: int
    signed: bool
    """It is proved; else it is what the message says."""


def signed_text(cluster: str, channel: Channel, partition: int, *, key: bytes, value: bytes) -> bytes:
    """The signed bytes of a message. Each part but the last ends where its length or a zero byte says."""
    return b"%b%d\0%b%b" % (_head(cluster, channel, partition), len(key), key, value)


@lru_cache(maxsize=1_024)
def _head(cluster: str, channel: Channel, partition: int) -> bytes:
    return f"tickwise.1\0{cluster}\0{channel.name}\0{partition}\0".encode()


def signed(message: Message, signer: Signer, *, broker: Broker, channel: Channel, cluster: str) -> Message:
    """This message, bound to the partition where its key belongs, with its signature."""
    key = message.key or b""
    partition = broker.partition_of(channel, key)
    text = signed_text(cluster, channel, partition, key=key, value=message.value)
    return Message(message.value, message.key, ((HEADER, signer.sign(text)),), partition)


def _signature(delivery: Delivery) -> bytes | None:
    """The signature of a delivery; None: it has none. Two are as good as a wrong one."""
    found = None
    for name, value in delivery.headers:
        if name == HEADER:
            if found is not None:
                return b""
            found = value
    return found


def _text_of(delivery: Delivery, cluster: str) -> bytes:
    key = delivery.key or b""
    return signed_text(cluster, delivery.channel, delivery.partition, key=key, value=delivery.value)


class RequestCheck:
    """Verifies requests for one recorder."""

    def __init__(
        self, verifier: Verifier | None, *, cluster: str, unsigned: Unsigned, kept_seconds: float = 4 * LATE_SECONDS
    ) -> None:
        """Without a `verifier` nothing can be verified, and everything is accepted. `kept_seconds`: how long the store
        remembers what was applied."""
        self._verifier = verifier
        self._cluster = cluster
        self._unsigned = unsigned
        self._late_seconds = min(LATE_SECONDS, kept_seconds / 2)

    def verify(self, delivery: Delivery) -> bool:
        """Check whether an API of this installation signed the message; False: it is unsigned or cannot be verified,
        and is accepted all the same. Raises `Unverified`."""
        if self._verifier is None:
            return False
        signature = _signature(delivery)
        if signature is None:
            if self._unsigned is Unsigned.ACCEPTED:
                return False
            raise Unverified(
                RefusalReason.UNSIGNED, "it is not signed, and requests_keys is set: no API of this one sent it"
            )
        if not self._verifier.verify(_text_of(delivery, self._cluster), signature):
            raise Unverified(
                RefusalReason.FORGED,
                "its signature is by none of requests_keys, or it was made for another cluster, channel or partition",
            )
        return True

    def check_age(self, delivery: Delivery, request: Request) -> None:
        """Refuse a signed request that is sent again long after it was applied. Raises `Unverified`."""
        age = delivery.sent_at - request.accepted
        if age > self._late_seconds:
            raise Unverified(
                RefusalReason.LATE,
                f"it came {age:.0f} s after it was accepted, and the store may have deleted its outcome",
            )


class ResultCheck:
    """Verifies results for one recorder."""

    def __init__(self, keys: ExecutorKeys, known: ExecutorStore, *, cluster: str, unsigned: Unsigned) -> None:
        self._keys = keys
        self._known = known
        self._cluster = cluster
        self._unsigned = unsigned
        self._remembered: dict[int, bytes | None] = {}

    async def learn(self, deliveries: Sequence[Delivery]) -> None:
        """Ask the store for the keys of executors that were not met before; one statement, or none. Raises
        `Unavailable`."""
        numbers = {number for delivery in deliveries if (number := _executor(delivery)) is not None}
        strangers = numbers - self._remembered.keys()
        if strangers:
            self._remembered.update(await self._known.keys(sorted(strangers)))
            while len(self._remembered) > max(MAX_REMEMBERED, len(numbers)):
                del self._remembered[next(number for number in self._remembered if number not in numbers)]

    def verify(self, delivery: Delivery) -> Maker:
        """The executor that made it. Raises `Unverified`."""
        number = _executor(delivery)
        if number is None or number not in self._remembered:
            raise Unverified(RefusalReason.UNKNOWN, "its key names no executor that the store knows")
        key, signature = self._remembered[number], _signature(delivery)
        if key is None and self._unsigned is not Unsigned.REFUSED:
            return Maker(number, signed=False)
        if signature is None:
            raise Unverified(RefusalReason.UNSIGNED, f"it is not signed, and executor {number} signs what it publishes")
        if not key or not self._keys.verify(key, _text_of(delivery, self._cluster), signature):
            raise Unverified(
                RefusalReason.FORGED,
                f"its signature is not by executor {number}, or it was made for another cluster, channel or partition",
            )
        return Maker(number, signed=True)


def _executor(delivery: Delivery) -> int | None:
    """The executor that the key of a delivery names."""
    key = delivery.key or b""
    number = int(key) if _NUMBER.fullmatch(key) else 0
    return number if 0 < number < 1 << 63 else None
