"""What both ends of a connection know: its first messages, and how much is under way at a time."""

from __future__ import annotations

from typing import Final

import msgspec

CALLS_MOST: Final = 256
"""Of one connection."""
HELLO: Final = "hello"
ALIVE: Final = "alive"
"""Asked by a client that waits: a keeper that works answers at once."""


class Hello(msgspec.Struct):
    """The first message of a client."""

    key: str
    shard: int
    release: str


class Welcome(msgspec.Struct):
    """Its answer."""

    cluster_id: str
    release: str
