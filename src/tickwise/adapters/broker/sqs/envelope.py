"""A message of ours as the text of a message of SQS, which takes no bytes.

Message ──msgpack──► base64 ──► body            up to `BODY_BYTES`
        └─ larger ─► a blob, and the body names it
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

import msgspec

from tickwise.domain.errors import TooLarge
from tickwise.ports.blobs import Blobs
from tickwise.ports.broker import MAX_ERROR_HEADERS_BYTES, MAX_MESSAGE_BYTES, Message, size_of

BODY_BYTES: Final = 240 << 10
"""SQS takes 256 KiB; not all servers take what AWS takes since 2025, 1 MiB."""
MESSAGE_BYTES: Final = MAX_MESSAGE_BYTES + MAX_ERROR_HEADERS_BYTES
BLOBS: Final = "broker/"


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """The content of a body."""

    key: bytes | None
    headers: Sequence[tuple[str, bytes]]
    value: bytes
    blob: str | None = None
    """The key of the blob that holds key, headers and value, which are empty here then."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Envelope)


def body_of(message: Message) -> str | None:
    """The body; None: the message is too large for one. Raises `TooLarge`: it is too large in any case."""
    size = size_of(message)
    if size > MESSAGE_BYTES:
        raise TooLarge(f"a message has {size} bytes; the broker takes up to {MESSAGE_BYTES}")
    packed = _encode(Envelope(message.key, tuple(message.headers), message.value))
    return b64encode(packed).decode() if len(packed) * 4 // 3 + 4 <= BODY_BYTES else None


async def stored(message: Message, blobs: Blobs | None, name: str) -> str:
    """The body of a large message, which is put into a blob of that name. Raises `TooLarge` where there are no blobs,
    and `Unavailable`."""
    if blobs is None:
        most = BODY_BYTES * 3 // 4
        raise TooLarge(f"a message has {size_of(message)} bytes; SQS takes {most}, and here are no blobs for more")
    key = f"{BLOBS}{name}"
    await blobs.put(key, _encode(Envelope(message.key, tuple(message.headers), message.value)))
    return b64encode(_encode(Envelope(None, (), b"", key))).decode()


def opened(body: str) -> Envelope:
    """The content of a body. A text that is no body of ours is a value without key: those who read it say what is
    wrong."""
    try:
        return _decode.decode(b64decode(body, validate=True))
    except (ValueError, msgspec.MsgspecError):
        return Envelope(None, (), body.encode())


def unpacked(content: bytes) -> Envelope:
    """The content of a blob. Raises `ValueError`."""
    try:
        return _decode.decode(content)
    except msgspec.MsgspecError as wrong:
        raise ValueError(str(wrong)) from None
