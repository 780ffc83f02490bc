"""The first messages of a connection, and its bounds: both ends know them."""

from __future__ import annotations

from typing import Final

import msgspec

CALLS_MOST: Final = 256
"""The most calls of one connection that are carried out at a time."""
HELLO: Final = "hello"
ALIVE: Final = "alive"
"""Asked by a client that waits: a keeper that works answers at once."""
STANDBY: Final = "standby"
"""Said by a keeper that waits for the shard: up to which position it has read the log."""
ELSEWHERE: Final = "elsewhere"
"""The notice of a keeper that gives the shard back: what is under way is answered, and nothing new is taken."""


class Hello(msgspec.Struct):
    """The first message of a client."""

    key: str
    shard: int
    release: str

    def __repr__(self) -> str:
        return f"Hello(shard={self.shard}, release={self.release!r})"


class Welcome(msgspec.Struct):
    """The answer of a keeper to `Hello`."""

    cluster_id: str
    release: str
